//! Between JSON and the values of expressions.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value as Json;

use crate::value::{Key, Value};

/// Words of the language, which a field cannot be called in an expression.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// How an expression writes the name of a property; none if it cannot.
pub fn escape(name: &str) -> Option<String> {
    let starts_well = name.starts_with(|letter: char| letter == '_' || letter.is_ascii_alphabetic());
    let is_writable = |letter: char| letter.is_ascii_alphanumeric() || "_.-/".contains(letter);
    if !starts_well || !name.chars().all(is_writable) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let escaped = name.replace("__", "__underscores__").replace('.', "__dot__");
    Some(escaped.replace('-', "__dash__").replace('/', "__slash__"))
}

/// The property that an expression means by a name.
pub fn unescape(name: &str) -> String {
    if let Some(word) = name.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"))
        && RESERVED.contains(&word)
    {
        return word.into();
    }
    let plain = name.replace("__dot__", ".").replace("__dash__", "-").replace("__slash__", "/");
    plain.replace("__underscores__", "__")
}

impl Value {
    /// A value of which nothing more is known than its JSON.
    pub fn from_json(json: &Json) -> Value {
        match json {
            Json::Null => Value::Null,
            Json::Bool(truth) => Value::Bool(*truth),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(number), _) => Value::Int(number),
                (_, Some(number)) => Value::Uint(number),
                _ => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Value::from(text.as_str()),
            Json::Array(items) => Value::list(items.iter().map(Value::from_json).collect()),
            Json::Object(fields) => {
                let entry =
                    |(name, value): (&String, &Json)| (Key::String(name.as_str().into()), Value::from_json(value));
                Value::map(fields.iter().map(entry).collect::<BTreeMap<_, _>>())
            }
        }
    }

    /// A value as JSON; none for what has no form there.
    pub fn to_json(&self) -> Option<Json> {
        Some(match self {
            Value::Null | Value::Optional(None) => Json::Null,
            Value::Bool(truth) => Json::Bool(*truth),
            Value::Int(number) => Json::from(*number),
            Value::Uint(number) => Json::from(*number),
            Value::Double(number) => Json::from(*number),
            Value::String(text) => Json::from(&**text),
            Value::Bytes(bytes) => Json::from(STANDARD.encode(bytes)),
            Value::List(list) => Json::Array(list.items.iter().map(Value::to_json).collect::<Option<_>>()?),
            Value::Map(map) => {
                let entry = |(key, value): (&Key, &Value)| {
                    let name = match key {
                        Key::Bool(truth) => truth.to_string(),
                        Key::Number(number) => number.to_string(),
                        Key::String(text) => text.to_string(),
                    };
                    Some((name, value.to_json()?))
                };
                Json::Object(map.iter().map(entry).collect::<Option<_>>()?)
            }
            Value::Timestamp(at) => Json::from(at.to_string()),
            Value::Duration(_) => Json::from(self.to_text()?),
            Value::Optional(Some(value)) => value.to_json()?,
            _ => return None,
        })
    }
}
