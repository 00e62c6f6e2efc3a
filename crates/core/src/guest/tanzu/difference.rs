//! What differs between an object and what it should be, leaf by leaf, for people to read before it is acted on.

use serde_json::Value;

/// `path: before → after` of every leaf that differs.
pub fn leaves(before: &Value, after: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk("", before, after, &mut found);
    found
}

fn walk(path: &str, before: &Value, after: &Value, found: &mut Vec<String>) {
    if before == after {
        return;
    }
    match (before, after) {
        (Value::Object(one), Value::Object(other)) => {
            let mut keys: Vec<&String> = one.keys().chain(other.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                walk(&path, one.get(key).unwrap_or(&Value::Null), other.get(key).unwrap_or(&Value::Null), found);
            }
        }
        _ => found.push(format!("{path}: {} → {}", shown(before), shown(after))),
    }
}

pub fn shown(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_difference_names_the_field_and_both_values() {
        let before = json!({ "className": "small", "imageName": "one", "same": [1] });
        let after = json!({ "className": "large", "imageName": "one", "same": [1], "join": { "labels": "a=b" } });

        assert_eq!(leaves(&before, &after), ["className: small → large", "join: none → {\"labels\":\"a=b\"}"]);
    }
}
