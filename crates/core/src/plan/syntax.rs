//! What Kubernetes accepts as the key or value of a label, and how its API server says no.

const QUALIFIED_NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const ALPHANUMERIC: &str = "consist of alphanumeric characters, '-', '_' or '.', \
                            and must start and end with an alphanumeric character";

const LONGEST_NAME: usize = 63;
const LONGEST_SUBDOMAIN: usize = 253;

/// What is wrong with the key of a label; nothing, if it is good.
pub fn label_key_problem(key: &str) -> Option<String> {
    let examples = "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is";
    let mut problems = Vec::new();
    let name = match key.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".to_owned());
            } else {
                problems.extend(subdomain_problems(prefix).into_iter().map(|problem| format!("prefix part {problem}")));
            }
            name
        }
        _ => {
            return Some(format!(
                "a qualified name must {ALPHANUMERIC} {examples} '{QUALIFIED_NAME}') \
                 with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > LONGEST_NAME {
        problems.push(format!("name part must be no more than {LONGEST_NAME} characters"));
    }
    if !is_qualified(name) {
        problems.push(format!("name part must {ALPHANUMERIC} {examples} '{QUALIFIED_NAME}')"));
    }
    (!problems.is_empty()).then(|| problems.join("; "))
}

/// What is wrong with the value of a label; nothing, if it is good.
pub fn label_value_problem(value: &str) -> Option<String> {
    let mut problems = Vec::new();
    if value.len() > LONGEST_NAME {
        problems.push(format!("must be no more than {LONGEST_NAME} characters"));
    }
    if !value.is_empty() && !is_qualified(value) {
        problems.push(format!(
            "a valid label must be an empty string or {ALPHANUMERIC} \
             (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '({QUALIFIED_NAME})?')"
        ));
    }
    (!problems.is_empty()).then(|| problems.join("; "))
}

fn is_qualified(name: &str) -> bool {
    let ends_well = |end: Option<char>| end.is_some_and(|c| c.is_ascii_alphanumeric());
    ends_well(name.chars().next())
        && ends_well(name.chars().next_back())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

fn subdomain_problems(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > LONGEST_SUBDOMAIN {
        problems.push(format!("must be no more than {LONGEST_SUBDOMAIN} characters"));
    }
    if !name.split('.').all(is_dns_label) {
        problems.push(format!(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character \
             (e.g. 'example.com', regex used for validation is '{SUBDOMAIN}')"
        ));
    }
    problems
}

fn is_dns_label(label: &str) -> bool {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    label.starts_with(good) && label.ends_with(good) && label.chars().all(|c| good(c) || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_that_kubernetes_accepts_have_no_problem() {
        for key in ["a", "My.Name_1", "example.com/MyName", &"x".repeat(63)] {
            assert_eq!(label_key_problem(key), None, "{key}");
        }
        for value in ["", "true", "v1.30.4-k3s1", &"x".repeat(63)] {
            assert_eq!(label_value_problem(value), None, "{value}");
        }
    }

    #[test]
    fn a_bad_key_is_refused_in_the_words_of_the_api_server() {
        assert_eq!(
            label_key_problem("a b").unwrap(),
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
             alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
             '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        );
        for (key, start) in [
            ("", "name part must be non-empty; name part must consist of"),
            ("/a", "prefix part must be non-empty"),
            ("A.b/c", "prefix part a lowercase RFC 1123 subdomain must consist of"),
            ("-a.com/b", "prefix part a lowercase RFC 1123 subdomain must consist of"),
            ("a-.com/b", "prefix part a lowercase RFC 1123 subdomain must consist of"),
            ("a_b.com/c", "prefix part a lowercase RFC 1123 subdomain must consist of"),
            ("a/b/c", "a qualified name must consist of"),
            ("-a", "name part must consist of"),
            (&"x".repeat(64), "name part must be no more than 63 characters"),
        ] {
            let problem = label_key_problem(key).unwrap();
            assert!(problem.starts_with(start), "{key}: {problem}");
        }
    }

    #[test]
    fn a_bad_value_is_refused_in_the_words_of_the_api_server() {
        assert_eq!(
            label_value_problem("1~2").unwrap(),
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
             validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
        );
        assert_eq!(label_value_problem(&"x".repeat(64)).unwrap(), "must be no more than 63 characters");
    }
}
