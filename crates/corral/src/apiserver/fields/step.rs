//! One step of the way to a field, written as `FieldsV1` writes it: `f:name`, `k:{"name":"a"}` for an element of a list
//! by its keys, `v:"a"` for one by its value, `i:0` for one by its place.

use serde::de::IgnoredAny;
use serde_json::{Map, Value};

pub(crate) fn field(name: &str) -> String {
    format!("f:{name}")
}

/// An element of a list that is told apart by its value.
pub(super) fn value(value: &Value) -> String {
    format!("v:{value}")
}

/// An element of a list that is told apart by some of its fields.
pub(super) fn keys(keys: Map<String, Value>) -> String {
    format!("k:{}", Value::Object(keys))
}

pub(super) fn is_step(text: &str) -> bool {
    match text.split_at_checked(2) {
        Some(("f:", _)) => true,
        Some(("k:", keys)) => keys.starts_with('{') && serde_json::from_str::<IgnoredAny>(keys).is_ok(),
        Some(("v:", value)) => serde_json::from_str::<IgnoredAny>(value).is_ok(),
        Some(("i:", place)) => place.parse::<i64>().is_ok(),
        _ => false,
    }
}

/// The name, if the step leads to a field.
pub(super) fn name(step: &str) -> Option<&str> {
    step.strip_prefix("f:")
}

/// A path as messages show it: `.spec.containers[name="a"].image`.
pub(crate) fn shown<S: AsRef<str>>(path: &[S]) -> String {
    path.iter().map(|step| shown_step(step.as_ref())).collect()
}

pub(super) fn shown_step(step: &str) -> String {
    match step.split_at_checked(2) {
        Some(("f:", name)) => format!(".{name}"),
        Some(("k:", keys)) => {
            let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
            let all: Vec<_> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("[{}]", all.join(","))
        }
        Some(("v:", value)) => format!("[={value}]"),
        Some(("i:", place)) => format!("[{place}]"),
        _ => step.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_shown_as_a_person_would_write_it() {
        let path = ["f:spec", "f:ports", "k:{\"containerPort\":80,\"protocol\":\"TCP\"}", "f:name"];
        assert_eq!(shown(&path), ".spec.ports[containerPort=80,protocol=\"TCP\"].name");
        assert_eq!(shown(&["f:metadata", "f:finalizers", "v:\"a\""]), ".metadata.finalizers[=\"a\"]");
    }
}
