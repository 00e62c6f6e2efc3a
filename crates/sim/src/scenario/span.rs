//! A length of time as people write it: `30s`, `1m30s`, `2h`.

use std::borrow::Cow;
use std::time::Duration;

use jiff::SignedDuration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl Span {
    pub const fn seconds(seconds: u64) -> Self {
        Span(Duration::from_secs(seconds))
    }
}

impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match SignedDuration::try_from(self.0) {
            Ok(time) => write!(f, "{time:#}"),
            Err(_) => write!(f, "{} s", self.0.as_secs()),
        }
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_string().replace(' ', ""))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        let time = text.parse::<SignedDuration>().ok().and_then(|time| Duration::try_from(time).ok());
        time.map(Span).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is no length of time, such as 30s")))
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": "A length of time: 30s, 1m30s, 2h.", "examples": ["30s", "1m30s"] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_written_as_it_is_read() {
        for text in ["30s", "1m30s", "2h", "700ms"] {
            let span: Span = serde_json::from_value(serde_json::json!(text)).unwrap();
            assert_eq!(serde_json::to_value(span).unwrap(), text);
        }
        assert!(serde_json::from_value::<Span>(serde_json::json!("soon")).is_err());
    }
}
