//! Messages whose JSON is not an object of their fields.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::{Timestamp, tz::TimeZone};
use serde_json::{Value, json};

use super::{
    message_to_json,
    wire::{Fields, Wire},
};

pub(super) fn base64(bytes: &[u8]) -> Value {
    json!(STANDARD.encode(bytes))
}

/// The JSON of a message that has a form of its own; none for ordinary ones.
pub(super) fn read(message: &str, bytes: &[u8], depth: usize) -> Result<Option<Value>, String> {
    Ok(Some(match message {
        "api.resource.Quantity" => json!(text(bytes)?),
        "util.intstr.IntOrString" => int_or_string(bytes)?,
        "meta.v1.Time" => moment(bytes, "%Y-%m-%dT%H:%M:%SZ")?,
        "meta.v1.MicroTime" => moment(bytes, "%Y-%m-%dT%H:%M:%S.%6fZ")?,
        "meta.v1.Duration" => duration(bytes)?,
        "meta.v1.FieldsV1" | "runtime.RawExtension" | "apiextensions.v1.JSON" => embedded(bytes)?,
        "apiextensions.v1.JSONSchemaPropsOrBool"
        | "apiextensions.v1.JSONSchemaPropsOrArray"
        | "apiextensions.v1.JSONSchemaPropsOrStringArray" => schema_or_other(message, bytes, depth)?,
        // Named lists, which JSON does not name.
        _ if message.ends_with(".ExtraValue") || message == "meta.v1.Verbs" => {
            let mut items = vec![];
            for field in Fields::new(bytes) {
                items.push(json!(field?.1.text()?));
            }
            Value::Array(items)
        }
        _ => return Ok(None),
    }))
}

/// The first field of a message, as a text.
fn text(bytes: &[u8]) -> Result<String, String> {
    match Fields::new(bytes).next().transpose()? {
        Some((1, wire)) => wire.text(),
        _ => Ok(String::new()),
    }
}

fn int_or_string(bytes: &[u8]) -> Result<Value, String> {
    let (mut is_text, mut number, mut text) = (false, 0, String::new());
    for field in Fields::new(bytes) {
        match field? {
            (1, Wire::Varint(kind)) => is_text = kind == 1,
            (2, Wire::Varint(value)) => number = value as i32,
            (3, wire) => text = wire.text()?,
            _ => {}
        }
    }
    Ok(if is_text { json!(text) } else { json!(number) })
}

/// A moment; one that was never set is nothing.
fn moment(bytes: &[u8], form: &str) -> Result<Value, String> {
    let (mut seconds, mut nanos) = (None, 0);
    for field in Fields::new(bytes) {
        match field? {
            (1, Wire::Varint(value)) => seconds = Some(value as i64),
            (2, Wire::Varint(value)) => nanos = value as i32,
            _ => {}
        }
    }
    let Some(seconds) = seconds else { return Ok(Value::Null) };
    let at = Timestamp::new(seconds, nanos).map_err(|_| "a time is out of range")?;
    Ok(json!(at.to_zoned(TimeZone::UTC).strftime(form).to_string()))
}

/// A duration as Go writes it, such as `1m30s`.
fn duration(bytes: &[u8]) -> Result<Value, String> {
    let nanos = match Fields::new(bytes).next().transpose()? {
        Some((1, Wire::Varint(nanos))) => nanos as i64,
        _ => 0,
    };
    let seconds = nanos / 1_000_000_000;
    let part = (nanos % 1_000_000_000).unsigned_abs();
    let fraction = if part == 0 { String::new() } else { format!(".{part:09}").trim_end_matches('0').into() };
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    Ok(json!(match (hours, minutes) {
        (0, 0) => format!("{seconds}{fraction}s"),
        (0, minutes) => format!("{minutes}m{}{fraction}s", seconds.abs()),
        (hours, minutes) => format!("{hours}h{}m{}{fraction}s", minutes.abs(), seconds.abs()),
    }))
}

/// JSON that was sent as it is.
fn embedded(bytes: &[u8]) -> Result<Value, String> {
    match Fields::new(bytes).next().transpose()? {
        Some((1, Wire::Bytes(raw))) if !raw.is_empty() => {
            serde_json::from_slice(raw).map_err(|error| format!("embedded JSON cannot be read: {error}"))
        }
        _ => Ok(Value::Null),
    }
}

/// A schema, or what may stand in its place: a truth value, several schemas, texts.
fn schema_or_other(message: &str, bytes: &[u8], depth: usize) -> Result<Value, String> {
    let schema =
        |bytes: &[u8]| message_to_json("apiextensions.v1.JSONSchemaProps", bytes, depth + 1).map(Value::Object);
    let (mut one, mut allowed, mut several) = (None, false, vec![]);
    for field in Fields::new(bytes) {
        match field? {
            (1, Wire::Varint(value)) => allowed = value != 0,
            (1, Wire::Bytes(bytes)) => one = Some(schema(bytes)?),
            (2, Wire::Bytes(bytes)) if message.ends_with("OrBool") => one = Some(schema(bytes)?),
            (2, Wire::Bytes(bytes)) if message.ends_with("OrArray") => several.push(schema(bytes)?),
            (2, wire) => several.push(json!(wire.text()?)),
            _ => {}
        }
    }
    Ok(match one {
        Some(schema) => schema,
        None if message.ends_with("OrBool") => json!(allowed),
        None => Value::Array(several),
    })
}
