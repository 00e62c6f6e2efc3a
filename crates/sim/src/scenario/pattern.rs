//! Objects by name and by what they say: the words of moments and expectations.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// `Node/node-2`, `Job/system-upgrade/*`, `Plan/*/upgrade`: a kind, a namespace where the kind has them, a name; `*`
/// stands for any text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectName {
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

impl ObjectName {
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let (kind, namespace, name) = match parts[..] {
            [kind, name] => (kind, "", name),
            [kind, namespace, name] => (kind, namespace, name),
            _ => return Err(format!("{text:?} names no object: write Kind/name or Kind/namespace/name")),
        };
        Ok(ObjectName { kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() })
    }

    pub fn covers(&self, kind: &str, namespace: &str, name: &str) -> bool {
        self.kind == kind
            && (self.namespace.is_empty() || is_like(&self.namespace, namespace))
            && is_like(&self.name, name)
    }
}

impl std::fmt::Display for ObjectName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{}/{}", self.kind, self.name),
            namespace => write!(f, "{}/{namespace}/{}", self.kind, self.name),
        }
    }
}

impl Serialize for ObjectName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ObjectName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        ObjectName::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for ObjectName {
    fn schema_name() -> Cow<'static, str> {
        "ObjectName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^[^/]+(/[^/]+){1,2}$",
            "description": "Kind/name or Kind/namespace/name; * stands for any text.",
            "examples": ["Node/node-2", "Job/system-upgrade/*"],
        })
    }
}

/// An object that says something.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Pattern {
    pub object: ObjectName,
    /// Fields that it has, however deep: `"*"` stands for any value, `null` for none; of a list, each item named here
    /// must be among those there.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub matches: Value,
}

impl Pattern {
    pub fn fits(&self, kind: &str, namespace: &str, name: &str, object: &Value) -> bool {
        self.object.covers(kind, namespace, name) && agrees(&self.matches, object)
    }
}

/// Whether everything that `pattern` says is so in `actual`.
pub fn agrees(pattern: &Value, actual: &Value) -> bool {
    match pattern {
        Value::Object(fields) => fields.iter().all(|(key, wanted)| match wanted {
            Value::Null => actual[key].is_null(),
            wanted => !actual[key].is_null() && agrees(wanted, &actual[key]),
        }),
        Value::Array(items) => {
            let there = actual.as_array().map(Vec::as_slice).unwrap_or_default();
            items.iter().all(|wanted| there.iter().any(|item| agrees(wanted, item)))
        }
        Value::String(text) if text.contains('*') => {
            text == "*" || actual.as_str().is_some_and(|actual| is_like(text, actual))
        }
        Value::Null => true,
        value => value == actual,
    }
}

/// Whether a text fits a pattern in which `*` stands for any text.
pub fn is_like(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(start) else { return false };
    let mut ends = text.char_indices().map(|(index, _)| index).chain([text.len()]);
    ends.any(|index| is_like(rest, &text[index..]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        assert!(is_like("node-*", "node-12") && is_like("*", "") && is_like("a*c*e", "abcde"));
        assert!(!is_like("node-*", "other") && !is_like("a*c", "ab"));
        let jobs = ObjectName::parse("Job/system-upgrade/apply-*").unwrap();
        assert!(jobs.covers("Job", "system-upgrade", "apply-x"));
        assert!(!jobs.covers("Job", "other", "apply-x") && !jobs.covers("Pod", "system-upgrade", "apply-x"));
    }

    #[test]
    fn a_pattern_names_only_what_matters() {
        let node = json!({ "spec": { "unschedulable": true }, "status": { "conditions": [
            { "type": "Ready", "status": "True" }, { "type": "Other", "status": "False" },
        ]}});
        assert!(agrees(&json!({ "spec": { "unschedulable": true } }), &node));
        assert!(agrees(&json!({ "status": { "conditions": [{ "type": "Ready", "status": "*" }] } }), &node));
        assert!(agrees(&json!({ "metadata": null }), &node));
        assert!(!agrees(&json!({ "spec": { "unschedulable": null } }), &node));
        assert!(!agrees(&json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } }), &node));
        assert!(!agrees(&json!({ "spec": { "taints": "*" } }), &node));
    }

    #[test]
    fn a_name_without_a_kind_is_refused() {
        assert!(ObjectName::parse("node-2").is_err());
    }
}
