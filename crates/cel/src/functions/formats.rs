//! Named formats of texts: `format.dns1123Label().validate('x')`.

use std::sync::LazyLock;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use regex::Regex;

use super::net::Url;
use crate::{eval::Evaluated, value::Value};

/// A format, and what it says about a text.
#[derive(Debug)]
pub struct Format {
    pub(crate) name: &'static str,
    problem: fn(&str) -> Option<String>,
}

pub(crate) static FORMATS: [Format; 13] = [
    Format { name: "dns1123Label", problem: |text| dns(text, 63, &LABEL, LABEL_RULE) },
    Format { name: "dns1123LabelPrefix", problem: |text| dns(unfinished(text), 63, &LABEL, LABEL_RULE) },
    Format { name: "dns1123Subdomain", problem: |text| dns(text, 253, &SUBDOMAIN, SUBDOMAIN_RULE) },
    Format { name: "dns1123SubdomainPrefix", problem: |text| dns(unfinished(text), 253, &SUBDOMAIN, SUBDOMAIN_RULE) },
    Format { name: "dns1035Label", problem: |text| dns(text, 63, &OLD_LABEL, OLD_LABEL_RULE) },
    Format { name: "dns1035LabelPrefix", problem: |text| dns(unfinished(text), 63, &OLD_LABEL, OLD_LABEL_RULE) },
    Format { name: "qualifiedName", problem: qualified },
    Format { name: "labelValue", problem: |text| dns(text, 63, &LABEL_VALUE, LABEL_VALUE_RULE) },
    Format { name: "uri", problem: |text| Url::parse(text).err() },
    Format { name: "uuid", problem: |text| unless(UUID.is_match(text), "does not match the UUID format") },
    Format { name: "byte", problem: |text| unless(STANDARD.decode(text).is_ok(), "invalid base64") },
    Format { name: "date", problem: |text| unless(is_date(text), "invalid date") },
    Format { name: "datetime", problem: |text| unless(text.parse::<jiff::Timestamp>().is_ok(), "invalid datetime") },
];

const LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
    '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const OLD_LABEL_RULE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const LABEL_VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
    for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const NAME_RULE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
    an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

/// A pattern that is known to be one; a test compiles them all.
type Pattern = LazyLock<Matcher>;

static LABEL: Pattern = LazyLock::new(|| Matcher::new("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"));
static SUBDOMAIN: Pattern =
    LazyLock::new(|| Matcher::new(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"));
static OLD_LABEL: Pattern = LazyLock::new(|| Matcher::new("^[a-z]([-a-z0-9]*[a-z0-9])?$"));
static LABEL_VALUE: Pattern = LazyLock::new(|| Matcher::new("^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"));
static NAME: Pattern = LazyLock::new(|| Matcher::new("^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"));
static UUID: Pattern =
    LazyLock::new(|| Matcher::new("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"));

struct Matcher(Option<Regex>);

impl Matcher {
    fn new(pattern: &str) -> Self {
        Matcher(Regex::new(pattern).ok())
    }

    fn is_match(&self, text: &str) -> bool {
        self.0.as_ref().is_some_and(|pattern| pattern.is_match(text))
    }
}

pub(super) fn call(function: &str, args: &[Value]) -> Option<Evaluated> {
    let named = |name: &str| FORMATS.iter().find(|format| format.name == name);
    Some(Ok(match (function, args) {
        ("format.named", [Value::String(name)]) => {
            named(name).map_or_else(Value::none, |format| Value::some(Value::Format(format)))
        }
        ("validate", [Value::Format(format), Value::String(text)]) => match (format.problem)(text) {
            Some(why) => Value::some(Value::list(vec![Value::from(why.as_str())])),
            None => Value::none(),
        },
        (function, []) => Value::Format(named(function.strip_prefix("format.")?)?),
        _ => return None,
    }))
}

fn unless(holds: bool, why: &str) -> Option<String> {
    (!holds).then(|| why.into())
}

fn dns(text: &str, limit: usize, pattern: &Pattern, rule: &str) -> Option<String> {
    if text.len() > limit {
        return Some(format!("must be no more than {limit} characters"));
    }
    unless(pattern.is_match(text), rule)
}

/// A prefix to which something will be added may end in a dash.
fn unfinished(text: &str) -> &str {
    text.strip_suffix('-').unwrap_or(text)
}

fn qualified(text: &str) -> Option<String> {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    match prefix {
        Some("") => return Some("prefix part must be non-empty".into()),
        Some(prefix) => {
            if let Some(why) = dns(prefix, 253, &SUBDOMAIN, SUBDOMAIN_RULE) {
                return Some(format!("prefix part {why}"));
            }
        }
        None => {}
    }
    if name.is_empty() {
        return Some("name part must be non-empty".into());
    }
    if name.len() > 63 {
        return Some("name part must be no more than 63 characters".into());
    }
    unless(NAME.is_match(name), NAME_RULE)
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        for pattern in [&LABEL, &SUBDOMAIN, &OLD_LABEL, &LABEL_VALUE, &NAME, &UUID] {
            assert!(pattern.0.is_some());
        }
    }
}
