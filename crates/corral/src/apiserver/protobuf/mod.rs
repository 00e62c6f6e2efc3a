//! Protobuf bodies of built-in kinds, turned into JSON.
//!
//! Clients built on client-go send them for kinds that they know, and some cannot be told otherwise. What such a body
//! means is in a table (`drover-lab protobuf` writes it), so one small reader does for every kind. Answers are JSON.

use serde_json::{Map, Value, json};

use self::{
    table::{Field, fields, message_of},
    wire::{Fields, Wire},
};
use super::object::Object;

mod special;
mod table;
mod wire;

/// The media type of such a body.
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// What every body begins with.
const MAGIC: &[u8] = b"k8s\0";

/// How deep messages may stand in each other. Schemas of definitions are the deepest that are sent.
const DEPTH_LIMIT: usize = 64;

/// Reads a body; the object in it says its own kind.
pub(crate) fn decode(body: &[u8]) -> Result<Object, String> {
    let envelope = body.strip_prefix(MAGIC).ok_or("provided data does not appear to be a protobuf message")?;
    let (mut api_version, mut kind) = (String::new(), String::new());
    let mut raw: &[u8] = &[];
    for field in Fields::new(envelope) {
        match field? {
            (1, Wire::Bytes(identity)) => {
                for field in Fields::new(identity) {
                    match field? {
                        (1, wire) => api_version = wire.text()?,
                        (2, wire) => kind = wire.text()?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let message = message_of(&api_version, &kind)
        .ok_or_else(|| format!("no kind {kind:?} is registered for version {api_version:?}"))?;
    let mut object = message_to_json(&message, raw, 0)?;
    object.insert("apiVersion".into(), json!(api_version));
    object.insert("kind".into(), json!(kind));
    Ok(object)
}

fn message_to_json(message: &str, bytes: &[u8], depth: usize) -> Result<Object, String> {
    if depth > DEPTH_LIMIT {
        return Err(format!("{message} is nested too deeply"));
    }
    let known = fields(message).ok_or_else(|| format!("{message} is not known"))?;
    let mut object = Map::new();
    for field in Fields::new(bytes) {
        let (number, wire) = field?;
        let Some(field) = known.iter().find(|known| known.number == number) else { continue };
        read_field(field, wire, &mut object, depth)?;
    }
    Ok(object)
}

fn read_field(field: &Field, wire: Wire<'_>, object: &mut Object, depth: usize) -> Result<(), String> {
    if field.is_map() {
        let (key, value) = read_entry(field, wire, depth)?;
        let map = object.entry(field.name.clone()).or_insert_with(|| json!({}));
        if let Value::Object(map) = map {
            map.insert(key, value);
        }
        return Ok(());
    }
    if field.is_repeated() {
        let list = object.entry(field.name.clone()).or_insert_with(|| json!([]));
        let Value::Array(list) = list else { return Ok(()) };
        match wire {
            // Numbers may come together.
            Wire::Bytes(packed) if matches!(field.kind.as_str(), "int32" | "int64" | "bool") => {
                for number in wire::varints(packed) {
                    list.push(value_of(&field.kind, Wire::Varint(number?), depth)?);
                }
            }
            wire => list.push(value_of(&field.kind, wire, depth)?),
        }
        return Ok(());
    }
    let value = value_of(&field.kind, wire, depth)?;
    match value {
        // Spread into the object that it stands in.
        Value::Object(inner) if field.name.is_empty() => object.extend(inner),
        value if field.omits_zero() && is_zero(&value) => {}
        value => {
            object.insert(field.name.clone(), value);
        }
    }
    Ok(())
}

fn read_entry(field: &Field, wire: Wire<'_>, depth: usize) -> Result<(String, Value), String> {
    let Wire::Bytes(entry) = wire else { return Err(format!("{} is no map", field.name)) };
    let mut key = String::new();
    let mut value = None;
    for part in Fields::new(entry) {
        match part? {
            (1, wire) => key = wire.text()?,
            (2, wire) => value = Some(value_of(&field.kind, wire, depth)?),
            _ => {}
        }
    }
    let value = match value {
        Some(value) => value,
        // An empty value is not always sent.
        None => value_of(&field.kind, Wire::Bytes(&[]), depth)?,
    };
    Ok((key, value))
}

fn value_of(kind: &str, wire: Wire<'_>, depth: usize) -> Result<Value, String> {
    Ok(match (kind, wire) {
        ("string", wire) => json!(wire.text()?),
        ("bytes", Wire::Bytes(bytes)) => special::base64(bytes),
        ("bool", Wire::Varint(number)) => json!(number != 0),
        // Negative numbers are sent with all their bits.
        ("int32", Wire::Varint(number)) => json!(number as i32),
        ("int64", Wire::Varint(number)) => json!(number as i64),
        ("double", Wire::Fixed64(bits)) => json!(f64::from_bits(bits)),
        (message, Wire::Bytes(bytes)) => match special::read(message, bytes, depth)? {
            Some(value) => value,
            None => Value::Object(message_to_json(message, bytes, depth + 1)?),
        },
        (kind, _) => return Err(format!("a {kind} was sent in the form of another type")),
    })
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(truth) => !truth,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        // A struct stands there even if nothing is in it.
        Value::Object(_) => false,
    }
}

#[cfg(test)]
mod tests;
