//! JSON merge patches (RFC 7386), which take away only what they name.

use serde_json::Value;

/// A merge patch that leaves nothing of what is no longer wanted.
pub(crate) fn replacing(there: &Value, wanted: &Value) -> Value {
    let (Value::Object(there), Value::Object(wanted)) = (there, wanted) else { return wanted.clone() };
    let gone = there.keys().filter(|key| !wanted.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let kept = wanted.iter().map(|(key, value)| match there.get(key) {
        Some(there) => (key.clone(), replacing(there, value)),
        None => (key.clone(), value.clone()),
    });
    Value::Object(gone.chain(kept).collect())
}
