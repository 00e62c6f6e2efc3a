//! What built-in kinds look like, from the types of k8s-openapi: which fields there are, of which type, and how the
//! original writes those that hold nothing.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use base64::{DecodeError, Engine as _, engine::general_purpose::STANDARD};
use drover_api::quantity;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserialize;
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
    /// To the second.
    Moment,
    /// To the microsecond.
    MicroMoment,
    /// An amount such as `1500m`; numbers are taken, and kept as text.
    Quantity,
    IntOrString,
    List(Arc<Shape>),
    Map(Arc<Shape>),
    Struct(Struct),
}

#[derive(Debug)]
pub(crate) struct Struct {
    name: String,
    fields: BTreeMap<String, Field>,
    /// Fields that are always written, and what with if they hold nothing.
    always: Vec<(String, Value)>,
}

#[derive(Debug)]
struct Field {
    shape: Arc<Shape>,
    /// Whether it is left out when it holds nothing.
    is_dropped: bool,
}

impl Struct {
    pub fn field(&self, name: &str) -> Option<&Shape> {
        self.fields.get(name).map(|field| &*field.shape)
    }
}

/// How the original writes the fields of one struct; recorded from its types.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Written {
    dropped: Vec<String>,
    kept: BTreeMap<String, Value>,
}

static WRITTEN: LazyLock<BTreeMap<String, Written>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../recorded/fields.json")).unwrap_or_default());

impl Shape {
    /// The shape of a type of k8s-openapi.
    pub fn of<T: JsonSchema>() -> Arc<Shape> {
        let schema = SchemaGenerator::default().into_root_schema_for::<T>();
        let schema = schema.to_value();
        let mut reader = Reader { definitions: &schema["$defs"], known: BTreeMap::new(), path: vec![] };
        let name = T::schema_name();
        reader.read(&schema, &name)
    }

    /// Makes an object look as this shape, as decoding it would: drops what is unknown or null, and refuses what has a
    /// wrong type.
    pub fn conform(&self, object: &mut Object) -> Result<(), String> {
        self.conform_or(object, Misfit::sentence)
    }

    /// The same in the words of the decoder that reads what a strategic merge patch has come to.
    pub fn restore(&self, object: &mut Object) -> Result<(), String> {
        self.conform_or(object, Misfit::restored)
    }

    fn conform_or(&self, object: &mut Object, words: fn(Misfit) -> String) -> Result<(), String> {
        match self {
            Shape::Struct(shape) => shape.conform(object).map_err(words),
            _ => Ok(()),
        }
    }

    /// Writes what is always written, also where there is nothing in it.
    pub fn complete(&self, object: &mut Object) {
        if let Shape::Struct(shape) = self {
            shape.complete(object);
        }
    }

    /// The same for an object of which only some fields can lack anything.
    pub fn complete_fields<'a>(&self, names: impl Iterator<Item = &'a String>, object: &mut Object) {
        let Shape::Struct(shape) = self else { return };
        shape.add_missing(object);
        for name in names {
            if let (Some(field), Some(value)) = (shape.fields.get(name), object.get_mut(name)) {
                field.shape.complete_inside(value);
            }
        }
    }

    /// An object without content, but for its metadata.
    pub fn empty(&self) -> Object {
        match self {
            Shape::Struct(shape) => shape.always.iter().filter(|(name, _)| name != "metadata").cloned().collect(),
            _ => Object::new(),
        }
    }

    fn complete_inside(&self, value: &mut Value) {
        match (self, value) {
            (Shape::Struct(shape), Value::Object(object)) => shape.complete(object),
            (Shape::List(shape), Value::Array(items)) => {
                items.iter_mut().for_each(|item| shape.complete_inside(item));
            }
            (Shape::Map(shape), Value::Object(object)) if shape.has_structs() => {
                object.values_mut().for_each(|item| shape.complete_inside(item));
            }
            _ => {}
        }
    }

    fn has_structs(&self) -> bool {
        matches!(self, Shape::Struct(_) | Shape::List(_) | Shape::Map(_))
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
            (Shape::Moment | Shape::MicroMoment, Value::String(text)) => {
                return check_moment(text, matches!(self, Shape::MicroMoment));
            }
            (Shape::Quantity, Value::Number(number)) => {
                *value = Value::String(canonical(&number.to_string())?);
                true
            }
            (Shape::Quantity, Value::String(text)) => {
                *text = canonical(text)?;
                true
            }
            (Shape::List(shape), Value::Array(items)) => {
                return items.iter_mut().try_for_each(|item| shape.check(item));
            }
            (Shape::Map(shape), Value::Object(object)) => return conform_map(shape, object),
            (Shape::Struct(shape), Value::Object(object)) => return shape.conform(object),
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
            Shape::MicroMoment => "v1.MicroTime".into(),
            Shape::Quantity => "resource.Quantity".into(),
            Shape::IntOrString => "intstr.IntOrString".into(),
            Shape::List(shape) => format!("[]{}", shape.type_name()),
            Shape::Map(shape) => format!("map[string]{}", shape.type_name()),
            Shape::Struct(shape) => format!("v1.{}", shape.name),
        }
    }
}

impl Struct {
    fn conform(&self, object: &mut Object) -> Result<(), Misfit> {
        let mut is_clean = true;
        for (name, value) in object.iter_mut() {
            match self.fields.get(name) {
                Some(field) if !value.is_null() => {
                    field.shape.check(value).map_err(|error| error.inside(&self.name, name))?;
                    is_clean &= !(field.is_dropped && is_nothing(value));
                }
                _ => is_clean = false,
            }
        }
        // Most objects have nothing to drop, and looking for it again would cost as much as the check.
        if !is_clean {
            object.retain(|name, value| {
                let field = self.fields.get(name);
                !value.is_null() && field.is_some_and(|field| !field.is_dropped || !is_nothing(value))
            });
        }
        Ok(())
    }

    fn add_missing(&self, object: &mut Object) {
        for (name, empty) in &self.always {
            if !object.contains_key(name) {
                object.insert(name.clone(), empty.clone());
            }
        }
    }

    fn complete(&self, object: &mut Object) {
        self.add_missing(object);
        for (name, value) in object.iter_mut() {
            if let Some(field) = self.fields.get(name)
                && (value.is_object() || value.is_array())
            {
                field.shape.complete_inside(value);
            }
        }
    }
}

/// What Go takes for the empty value of a field.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) => false,
    }
}

fn canonical(text: &str) -> Result<String, Misfit> {
    quantity::canonical(text).map_err(|why| Misfit::Malformed(why.into()))
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

/// Checks a moment and writes it as the original does: in UTC, as finely as its type is.
fn check_moment(text: &mut String, is_fine: bool) -> Result<(), Misfit> {
    let parsed: Timestamp = text.parse().map_err(|_| Misfit::Malformed(unreadable_moment(text, is_fine)))?;
    if is_fine && let Some(rest) = coarse_fraction(text) {
        let why = format!("parsing time {text:?} as {MICRO:?}: cannot parse {rest:?} as \".000000\"");
        return Err(Misfit::Malformed(why));
    }
    let written = match is_fine {
        true => format!("{parsed:.6}"),
        false => Timestamp::from_second(parsed.as_second()).unwrap_or(parsed).to_string(),
    };
    if *text != written {
        *text = written;
    }
    Ok(())
}

const MICRO: &str = "2006-01-02T15:04:05.000000Z07:00";

/// What follows the seconds of a moment, unless that begins with six digits.
fn coarse_fraction(text: &str) -> Option<&str> {
    let rest = text.get("2006-01-02T15:04:05".len()..)?;
    let digits = rest.strip_prefix('.').and_then(|rest| rest.get(..6));
    (!digits.is_some_and(|digits| digits.bytes().all(|letter| letter.is_ascii_digit()))).then_some(rest)
}

/// What Go says of a text that is no moment: the first part that is not as it should be.
fn unreadable_moment(text: &str, is_fine: bool) -> String {
    let layout = if is_fine { MICRO } else { "2006-01-02T15:04:05Z07:00" };
    let mut rest = text;
    let mut failed = "Z07:00";
    for part in ["2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05"] {
        let is_number = part.len() > 1;
        let fits = match is_number {
            true => rest.get(..part.len()).is_some_and(|start| start.bytes().all(|letter| letter.is_ascii_digit())),
            false => rest.starts_with(part),
        };
        if !fits {
            failed = part;
            break;
        }
        rest = &rest[part.len()..];
    }
    format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {failed:?}")
}

/// Texts whose type has a name of its own in the original.
const NAMED: [(&str, &str, &str); 8] = [
    ("Secret", "type", "v1.SecretType"),
    ("PodSpec", "restartPolicy", "v1.RestartPolicy"),
    ("PodSpec", "dnsPolicy", "v1.DNSPolicy"),
    ("Container", "imagePullPolicy", "v1.PullPolicy"),
    ("Taint", "effect", "v1.TaintEffect"),
    ("Toleration", "effect", "v1.TaintEffect"),
    ("Toleration", "operator", "v1.TolerationOperator"),
    ("PodStatus", "phase", "v1.PodPhase"),
];

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

    fn restored(self) -> String {
        let Misfit::Type { found, expected, .. } = self else { return self.sentence() };
        let found = match found.split(' ').next().unwrap_or_default() {
            "array" => "slice",
            "object" => "map",
            "number" => "int64",
            other => other,
        };
        match expected.as_str() {
            "string" if found == "int64" => "cannot convert int64 to string".into(),
            expected if expected.starts_with("map[") => format!("cannot restore map from {found}"),
            expected if expected.starts_with("[]") => format!("cannot restore slice from {found}"),
            expected if expected.contains('.') => format!("cannot restore struct from: {found}"),
            expected => format!("unrecognized type: {expected}"),
        }
    }

    fn sentence(self) -> String {
        match self {
            Misfit::Type { found, expected, parent, path } => {
                let field = path.rsplit('.').next().unwrap_or_default();
                let named = NAMED.iter().find(|(owner, name, _)| *owner == parent && *name == field);
                let expected = named.filter(|_| expected == "string").map_or(expected.as_str(), |(.., name)| name);
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
            _ if schema["x-kubernetes-int-or-string"] == true => match short(name) {
                "Quantity" => Shape::Quantity,
                _ => Shape::IntOrString,
            },
            Some("boolean") => Shape::Boolean,
            Some("integer") if schema["format"] == "int32" => Shape::Integer("int32"),
            Some("integer") => Shape::Integer("int64"),
            Some("number") => Shape::Number,
            Some("string") if schema["format"] == "date-time" && short(name) == "MicroTime" => Shape::MicroMoment,
            Some("string") if schema["format"] == "date-time" => Shape::Moment,
            Some("string") if schema["format"] == "byte" => Shape::Bytes,
            Some("string") => Shape::Text,
            Some("array") => Shape::List(self.read(&schema["items"], "")),
            Some("object") => match (&schema["properties"], &schema["additionalProperties"]) {
                (Value::Object(properties), _) => {
                    let nothing = Written::default();
                    let written = WRITTEN.get(name).unwrap_or(&nothing);
                    let mut fields = BTreeMap::new();
                    for (field, schema) in properties {
                        let is_dropped = written.dropped.contains(field);
                        fields.insert(field.clone(), Field { shape: self.read(schema, ""), is_dropped });
                    }
                    let always = written.kept.iter().filter(|(field, _)| fields.contains_key(*field));
                    let always = always.map(|(field, empty)| (field.clone(), empty.clone())).collect();
                    Shape::Struct(Struct { name: short(name).into(), fields, always })
                }
                (_, Value::Object(_)) => Shape::Map(self.read(&schema["additionalProperties"], "")),
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
        let shape = self.read(&definitions[reference], reference);
        self.path.pop();
        self.known.insert(reference.into(), shape.clone());
        shape
    }
}

/// The name of a definition without its package.
fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{batch::v1::Job, coordination::v1::Lease, core::v1::Pod};
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
    fn fields_that_hold_nothing_are_left_out_or_written_as_the_original_does() {
        let pod = json!({ "spec": { "hostNetwork": false, "hostname": "", "priority": 0, "volumes": [],
                                    "containers": [{ "name": "a", "image": "b" }] } });
        let mut pod = conformed::<Pod>(pod).unwrap().as_object().unwrap().clone();
        Shape::of::<Pod>().complete(&mut pod);
        let container = json!({ "name": "a", "image": "b", "resources": {} });
        let expected = json!({ "metadata": {}, "spec": { "priority": 0, "containers": [container] }, "status": {} });
        assert_eq!(Value::Object(pod), expected);
    }

    #[test]
    fn moments_are_kept_in_utc_and_as_finely_as_their_type_is() {
        let lease = json!({ "metadata": { "creationTimestamp": "2026-01-01T13:00:00.5+01:00" },
                            "spec": { "renewTime": "2026-01-01T12:00:00.250000Z" } });
        let lease = conformed::<Lease>(lease).unwrap();
        assert_eq!(lease["metadata"]["creationTimestamp"], "2026-01-01T12:00:00Z");
        assert_eq!(lease["spec"]["renewTime"], "2026-01-01T12:00:00.250000Z");
        let wrong = json!({ "metadata": { "creationTimestamp": "2026-01-0" } });
        assert_eq!(
            conformed::<Lease>(wrong).unwrap_err(),
            "parsing time \"2026-01-0\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"0\" as \"02\""
        );
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
