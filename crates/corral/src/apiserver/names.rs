//! What names, labels and annotations may look like, and the sentences that say what is wrong with one.

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
    and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const SEARCH_PATH: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or \
    '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SERVICE_LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
    and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
    validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// What is wrong with a name such as those of most objects.
pub(crate) fn subdomain(name: &str) -> Vec<String> {
    let mut wrong = too_long(name, 253);
    if !name.split('.').all(is_label) {
        wrong.push(SUBDOMAIN.into());
    }
    wrong
}

/// What is wrong with a name of a domain in which names are searched; other than those of objects, it may have underscores.
pub(crate) fn search_path(name: &str) -> Vec<String> {
    let edge = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let inside = |letter: u8| edge(letter) || matches!(letter, b'-' | b'_');
    let mut wrong = too_long(name, 253);
    if !name.split('.').all(|part| is_made_of(part.strip_prefix('_').unwrap_or(part), edge, inside)) {
        wrong.push(SEARCH_PATH.into());
    }
    wrong
}

/// What is wrong with a name that becomes part of a host name.
pub(crate) fn label(name: &str) -> Vec<String> {
    let mut wrong = too_long(name, 63);
    if !is_label(name) {
        let dotted = name.split('.').all(is_label);
        wrong.push(if dotted { "must not contain dots".into() } else { LABEL.into() });
    }
    wrong
}

/// What is wrong with a name of a host in the older sense, which begins with a letter.
pub(crate) fn service_label(name: &str) -> Vec<String> {
    let mut wrong = too_long(name, 63);
    if !is_label(name) || !name.starts_with(|letter: char| letter.is_ascii_lowercase()) {
        wrong.push(SERVICE_LABEL.into());
    }
    wrong
}

/// What is wrong with a name that has to fit between two slashes.
pub(crate) fn path_segment(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"].iter().filter(|sign| name.contains(**sign)).map(|sign| format!("may not contain '{sign}'")).collect()
}

/// What is wrong with the key of a label, an annotation or a finalizer.
pub(crate) fn qualified(name: &str) -> Vec<String> {
    if is_qualified(name) {
        return vec![];
    }
    let mut wrong = vec![];
    let parts: Vec<_> = name.split('/').collect();
    let name = match parts.as_slice() {
        [name] => name,
        ["", name] => {
            wrong.push("prefix part must be non-empty".into());
            name
        }
        [prefix, name] => {
            wrong.extend(subdomain(prefix).into_iter().map(|why| format!("prefix part {why}")));
            name
        }
        _ => {
            let prefix = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a qualified name {QUALIFIED} {prefix}")];
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".into());
    }
    wrong.extend(too_long(name, 63).into_iter().map(|why| format!("name part {why}")));
    if !is_word(name) {
        wrong.push(format!("name part {QUALIFIED}"));
    }
    wrong
}

/// Whether nothing is wrong with a key. Nearly all are right, and each write checks them all.
fn is_qualified(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').unwrap_or(("x", key));
    prefix.len() <= 253 && prefix.split('.').all(is_label) && name.len() <= 63 && is_word(name)
}

/// What is wrong with the name of a port.
pub(crate) fn port(name: &str) -> Vec<String> {
    let mut wrong = too_long(name, 15);
    let is_letter = |letter: u8| letter.is_ascii_lowercase();
    if name.is_empty() || !name.bytes().all(|letter| is_letter(letter) || letter.is_ascii_digit() || letter == b'-') {
        wrong.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".into());
    }
    if !name.bytes().any(is_letter) {
        wrong.push("must contain at least one letter (a-z)".into());
    }
    if name.contains("--") {
        wrong.push("must not contain consecutive hyphens".into());
    }
    if name.starts_with('-') || name.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".into());
    }
    wrong
}

/// What is wrong with what a ConfigMap or Secret holds something under.
pub(crate) fn config_key(key: &str) -> Vec<String> {
    let mut wrong = vec![];
    if key.len() > 253 {
        wrong.push("must be no more than 253 characters".into());
    }
    let is_allowed = |letter: u8| letter.is_ascii_alphanumeric() || b"-._".contains(&letter);
    if key.is_empty() || !key.bytes().all(is_allowed) {
        wrong.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
             'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                .into(),
        );
    }
    match key {
        "." | ".." => wrong.push(format!("must not be '{key}'")),
        key if key.starts_with("..") => wrong.push("must not start with '..'".into()),
        _ => {}
    }
    wrong
}

/// What is wrong with the value of a label.
pub(crate) fn label_value(value: &str) -> Vec<String> {
    let mut wrong = too_long(value, 63);
    if !value.is_empty() && !is_word(value) {
        wrong.push(LABEL_VALUE.into());
    }
    wrong
}

fn too_long(name: &str, limit: usize) -> Vec<String> {
    if name.len() > limit { vec![format!("must be no more than {limit} characters")] } else { vec![] }
}

/// `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
fn is_label(text: &str) -> bool {
    let edge = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    is_made_of(text, edge, |letter| edge(letter) || letter == b'-')
}

/// `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`
fn is_word(text: &str) -> bool {
    let inside = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_' | b'.');
    is_made_of(text, |letter| letter.is_ascii_alphanumeric(), inside)
}

fn is_made_of(text: &str, edge: impl Fn(u8) -> bool, inside: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|first| edge(*first))
        && bytes.last().is_some_and(|last| edge(*last))
        && bytes.iter().all(|letter| inside(*letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rules_of_host_names() {
        assert!(subdomain("node-1.example.com").is_empty());
        for wrong in ["", "Node", "a_b", "-a", "a-", "a..b", "a.-b", &"a".repeat(254)] {
            assert!(!subdomain(wrong).is_empty(), "{wrong:?}");
        }
        assert_eq!(label("a.b"), ["must not contain dots"]);
    }

    #[test]
    fn label_keys_may_have_one_prefix() {
        assert!(qualified("plan.upgrade.cattle.io/my-plan").is_empty());
        assert!(qualified("My_Name.1").is_empty());
        for wrong in ["", "/a", "a/", "a/b/c", "UP/b", "a b", &format!("x/{}", "a".repeat(64))] {
            assert!(!qualified(wrong).is_empty(), "{wrong:?}");
        }
        assert!(label_value("").is_empty());
        assert!(!label_value("a b").is_empty());
        assert!(!label_value(&"a".repeat(64)).is_empty());
    }
}
