//! Values as the original's messages print them, which is as Go prints them.

use serde_json::Value;

/// `map[a:1 b:[x y]]`, as `%v` does.
pub(crate) fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(printed).collect::<Vec<_>>().join(" ")),
        Value::Object(object) => {
            let fields: Vec<_> = object.iter().map(|(name, value)| format!("{name}:{}", printed(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
        other => other.to_string(),
    }
}

/// A struct with this value in its only field.
pub(crate) fn braced(value: &Value) -> String {
    format!("{{{}}}", printed(value))
}

/// As source, as `%#v` does.
pub(crate) fn source(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(source).collect::<Vec<_>>().join(", "))
        }
        Value::Object(object) => {
            let fields: Vec<_> = object.iter().map(|(name, value)| format!("{name:?}:{}", source(value))).collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        other => other.to_string(),
    }
}

/// The type that a decoded value has.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_printed_as_go_prints_them() {
        let value = json!({ "name": "a", "ports": [80, null] });
        assert_eq!(printed(&value), "map[name:a ports:[80 <nil>]]");
        assert_eq!(source(&json!({ "a": "b" })), "map[string]interface {}{\"a\":\"b\"}");
        assert_eq!(braced(&json!(1)), "{1}");
    }
}
