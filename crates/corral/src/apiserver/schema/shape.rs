//! What built-in kinds look like, from the types of k8s-openapi: which fields there are, and of which type.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use base64::{DecodeError, Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use crate::apiserver::object::Object;

/// The metadata that every object has.
pub(crate) static METADATA: LazyLock<Arc<Shape>> = LazyLock::new(Shape::of::<ObjectMeta>);

#[derive(Debug)]
pub(crate) enum Shape {
    Anything,
    Boolean,
    Integer(&'static str),
    Number,
    Text,
    /// Bytes, written in base64.
    Bytes,
    Moment,
    /// An amount such as `1500m`; numbers are taken, and kept as text.
    Quantity,
    IntOrString,
    List(Arc<Shape>),
    Map(Arc<Shape>),
    Struct {
        name: String,
        fields: BTreeMap<String, Arc<Shape>>,
    },
}

impl Shape {
    /// The shape of a type of k8s-openapi.
    pub fn of<T: JsonSchema>() -> Arc<Shape> {
        let schema = SchemaGenerator::default().into_root_schema_for::<T>();
        let schema = schema.to_value();
        let mut reader = Reader { definitions: &schema["$defs"], known: BTreeMap::new(), path: vec![] };
        let name = T::schema_name();
        reader.read(&schema, name.rsplit('.').next().unwrap_or_default())
    }

    /// Makes an object look as this shape, as decoding it would: drops what is unknown or null, and refuses what has a
    /// wrong type.
    pub fn conform(&self, object: &mut Object) -> Result<(), String> {
        match self {
            Shape::Struct { name, fields } => conform_struct(name, fields, object).map_err(|error| error.sentence()),
            _ => Ok(()),
        }
    }

    fn check(&self, value: &mut Value) -> Result<(), Misfit> {
        let fits = match (self, &mut *value) {
            (Shape::Anything, _) => true,
            (Shape::Boolean, found) => found.is_boolean(),
            (Shape::Text, found) => found.is_string(),
            (Shape::Number, found) => found.is_number(),
            (Shape::Integer("int32"), found) => found.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
            (Shape::Integer(_), found) => found.is_i64(),
            (Shape::IntOrString, found) => found.is_i64() || found.is_string(),
            (Shape::Bytes, Value::String(text)) => return check_base64(text),
            (Shape::Moment, Value::String(text)) => return check_moment(text),
            (Shape::Quantity, Value::Number(number)) => {
                *value = Value::String(number.to_string());
                true
            }
            (Shape::Quantity, found) => found.is_string(),
            (Shape::List(shape), Value::Array(items)) => {
                return items.iter_mut().try_for_each(|item| shape.check(item));
            }
            (Shape::Map(shape), Value::Object(object)) => return conform_map(shape, object),
            (Shape::Struct { name, fields }, Value::Object(object)) => return conform_struct(name, fields, object),
            _ => false,
        };
        if fits { Ok(()) } else { Err(Misfit::of(value, self)) }
    }

    fn type_name(&self) -> String {
        match self {
            Shape::Anything => "interface {}".into(),
            Shape::Boolean => "bool".into(),
            Shape::Integer(name) => (*name).into(),
            Shape::Number => "float64".into(),
            Shape::Text => "string".into(),
            Shape::Bytes => "[]uint8".into(),
            Shape::Moment => "v1.Time".into(),
            Shape::Quantity => "resource.Quantity".into(),
            Shape::IntOrString => "intstr.IntOrString".into(),
            Shape::List(shape) => format!("[]{}", shape.type_name()),
            Shape::Map(shape) => format!("map[string]{}", shape.type_name()),
            Shape::Struct { name, .. } => format!("v1.{name}"),
        }
    }
}

fn conform_struct(name: &str, fields: &BTreeMap<String, Arc<Shape>>, object: &mut Object) -> Result<(), Misfit> {
    let mut is_clean = true;
    for (field, value) in object.iter_mut() {
        match fields.get(field) {
            Some(shape) if !value.is_null() => shape.check(value).map_err(|error| error.inside(name, field))?,
            _ => is_clean = false,
        }
    }
    // Most objects have nothing to drop, and looking for it again would cost as much as the check.
    if !is_clean {
        object.retain(|field, value| !value.is_null() && fields.contains_key(field));
    }
    Ok(())
}

fn conform_map(shape: &Shape, object: &mut Object) -> Result<(), Misfit> {
    for item in object.values_mut() {
        // A null in a map is the empty value; for all maps of these kinds that is an empty text.
        if item.is_null() && matches!(shape, Shape::Text) {
            *item = Value::String(String::new());
        }
        shape.check(item)?;
    }
    Ok(())
}

fn check_base64(text: &str) -> Result<(), Misfit> {
    let place = match STANDARD.decode(text) {
        Ok(_) => return Ok(()),
        Err(DecodeError::InvalidByte(place, _)) => place,
        Err(_) => text.len(),
    };
    Err(Misfit::Malformed(format!("illegal base64 data at input byte {place}")))
}

fn check_moment(text: &str) -> Result<(), Misfit> {
    match text.parse::<Timestamp>() {
        Ok(_) => Ok(()),
        Err(_) => Err(Misfit::Malformed(format!("parsing time {text:?}: cannot parse {text:?} as RFC 3339"))),
    }
}

/// What does not fit its shape, and where. The place is put together on the way out, since most things fit.
enum Misfit {
    Type { found: String, expected: String, parent: String, path: String },
    Malformed(String),
}

impl Misfit {
    fn of(value: &Value, shape: &Shape) -> Self {
        let found = match value {
            Value::Null => "null".into(),
            Value::Bool(_) => "bool".into(),
            Value::Number(number) if matches!(shape, Shape::Integer(_)) => format!("number {number}"),
            Value::Number(_) => "number".into(),
            Value::String(_) => "string".into(),
            Value::Array(_) => "array".into(),
            Value::Object(_) => "object".into(),
        };
        Misfit::Type { found, expected: shape.type_name(), parent: String::new(), path: String::new() }
    }

    /// Goes one field outwards.
    fn inside(self, name: &str, field: &str) -> Self {
        match self {
            Misfit::Type { found, expected, parent, path } => Misfit::Type {
                found,
                expected,
                parent: if parent.is_empty() { name.into() } else { parent },
                path: if path.is_empty() { field.into() } else { format!("{field}.{path}") },
            },
            malformed => malformed,
        }
    }

    fn sentence(self) -> String {
        match self {
            Misfit::Type { found, expected, parent, path } => {
                format!("json: cannot unmarshal {found} into Go struct field {parent}.{path} of type {expected}")
            }
            Misfit::Malformed(why) => why,
        }
    }
}

/// Reads shapes out of a schema, each definition once.
struct Reader<'a> {
    definitions: &'a Value,
    known: BTreeMap<String, Arc<Shape>>,
    /// The definitions that are being read. One that refers to itself is not followed further.
    path: Vec<String>,
}

impl Reader<'_> {
    fn read(&mut self, schema: &Value, name: &str) -> Arc<Shape> {
        if let Some(reference) = schema["$ref"].as_str() {
            return self.definition(reference.rsplit('/').next().unwrap_or_default());
        }
        Arc::new(match schema["type"].as_str() {
            _ if schema["x-kubernetes-int-or-string"] == true => match name {
                "Quantity" => Shape::Quantity,
                _ => Shape::IntOrString,
            },
            Some("boolean") => Shape::Boolean,
            Some("integer") if schema["format"] == "int32" => Shape::Integer("int32"),
            Some("integer") => Shape::Integer("int64"),
            Some("number") => Shape::Number,
            Some("string") if schema["format"] == "date-time" => Shape::Moment,
            Some("string") if schema["format"] == "byte" => Shape::Bytes,
            Some("string") => Shape::Text,
            Some("array") => Shape::List(self.read(&schema["items"], name)),
            Some("object") => match (&schema["properties"], &schema["additionalProperties"]) {
                (Value::Object(properties), _) => {
                    let mut fields = BTreeMap::new();
                    for (field, schema) in properties {
                        fields.insert(field.clone(), self.read(schema, name));
                    }
                    Shape::Struct { name: name.into(), fields }
                }
                (_, Value::Object(_)) => Shape::Map(self.read(&schema["additionalProperties"], name)),
                _ => Shape::Anything,
            },
            _ => Shape::Anything,
        })
    }

    fn definition(&mut self, reference: &str) -> Arc<Shape> {
        if let Some(known) = self.known.get(reference) {
            return known.clone();
        }
        if self.path.iter().any(|open| open == reference) {
            return Arc::new(Shape::Anything);
        }
        self.path.push(reference.into());
        let definitions = self.definitions;
        let shape = self.read(&definitions[reference], reference.rsplit('.').next().unwrap_or_default());
        self.path.pop();
        self.known.insert(reference.into(), shape.clone());
        shape
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
    use serde_json::json;

    use super::*;

    fn conformed<T: JsonSchema>(object: Value) -> Result<Value, String> {
        let mut object = object.as_object().unwrap().clone();
        Shape::of::<T>().conform(&mut object).map(|()| Value::Object(object))
    }

    #[test]
    fn unknown_and_null_fields_are_dropped() {
        let pod = json!({ "kind": "Pod", "spec": { "nodeName": null, "unknown": 1, "hostNetwork": true } });
        assert_eq!(conformed::<Pod>(pod).unwrap(), json!({ "kind": "Pod", "spec": { "hostNetwork": true } }));
    }

    #[test]
    fn amounts_may_be_numbers_and_become_text() {
        let pod = json!({ "spec": { "containers": [{ "name": "a", "resources": { "limits": { "cpu": 2 } } }] } });
        let pod = conformed::<Pod>(pod).unwrap();
        assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"]["cpu"], "2");
    }

    #[test]
    fn a_wrong_type_is_refused_with_its_place() {
        let job = json!({ "spec": { "parallelism": "two" } });
        assert_eq!(
            conformed::<Job>(job).unwrap_err(),
            "json: cannot unmarshal string into Go struct field JobSpec.spec.parallelism of type int32"
        );
    }
}
