//! Schemas: what objects of a kind look like.
//!
//! A [`Schema`] is the structural schema of a custom resource, as its definition declares it. A [`shape::Shape`] is
//! what a built-in kind looks like.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

mod fill;
mod format;
mod prune;
mod rule_checks;
mod rules;
pub(crate) mod shape;
mod unknown;
mod validate;

use self::rules::Rule;

/// One node of a structural schema.
#[derive(Debug, Default)]
pub(crate) struct Schema {
    kind: Option<Type>,
    nullable: bool,
    default: Option<Value>,
    properties: BTreeMap<String, Schema>,
    additional: Option<Additional>,
    items: Option<Box<Schema>>,
    preserves_unknown: bool,
    is_embedded_resource: bool,
    is_int_or_string: bool,
    list_keys: ListKeys,
    limits: Limits,
    all_of: Vec<Schema>,
    any_of: Vec<Schema>,
    one_of: Vec<Schema>,
    not: Option<Box<Schema>>,
    rules: Vec<Rule>,
    /// Whether there are rules here or anywhere below.
    has_rules: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// What `additionalProperties` says about fields that are not named.
#[derive(Debug)]
enum Additional {
    Allowed(bool),
    Like(Box<Schema>),
}

/// What makes the elements of a list different from each other.
#[derive(Debug, Default)]
enum ListKeys {
    #[default]
    None,
    /// Each value may stand there once.
    Whole,
    /// Each combination of these fields may.
    Fields(Vec<String>),
}

/// What a value has to keep to, beside its type.
#[derive(Debug, Default)]
struct Limits {
    required: Vec<String>,
    one_of: Vec<Value>,
    minimum: Option<f64>,
    excludes_minimum: bool,
    maximum: Option<f64>,
    excludes_maximum: bool,
    multiple_of: Option<f64>,
    min_length: Option<u64>,
    max_length: Option<u64>,
    pattern: Option<Regex>,
    format: Option<String>,
    min_items: Option<u64>,
    max_items: Option<u64>,
    unique_items: bool,
    min_properties: Option<u64>,
    max_properties: Option<u64>,
}

impl Schema {
    /// Reads a schema; what is no schema restricts nothing and keeps nothing.
    pub fn parse(schema: &Value) -> Self {
        Schema::parse_node(schema, true)
    }

    fn parse_node(schema: &Value, is_root: bool) -> Self {
        let flag = |name: &str| schema[name] == true;
        let all = |name: &str| schema[name].as_array().into_iter().flatten().map(Schema::parse_below).collect();
        let named = schema["properties"].as_object().into_iter().flatten();
        let mut parsed = Schema {
            kind: schema["type"].as_str().and_then(Type::parse),
            nullable: flag("nullable"),
            default: schema.get("default").cloned(),
            properties: named.map(|(name, schema)| (name.clone(), Schema::parse_below(schema))).collect(),
            additional: match &schema["additionalProperties"] {
                Value::Bool(allowed) => Some(Additional::Allowed(*allowed)),
                Value::Object(_) => {
                    Some(Additional::Like(Box::new(Schema::parse_below(&schema["additionalProperties"]))))
                }
                _ => None,
            },
            items: schema.get("items").map(|items| Box::new(Schema::parse_below(items))),
            preserves_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            is_embedded_resource: flag("x-kubernetes-embedded-resource"),
            is_int_or_string: flag("x-kubernetes-int-or-string"),
            list_keys: ListKeys::parse(schema),
            limits: Limits::parse(schema),
            all_of: all("allOf"),
            any_of: all("anyOf"),
            one_of: all("oneOf"),
            not: schema.get("not").map(|schema| Box::new(Schema::parse_below(schema))),
            rules: vec![],
            has_rules: false,
        };
        parsed.read_rules(schema, is_root);
        parsed
    }

    fn parse_below(schema: &Value) -> Self {
        Schema::parse_node(schema, false)
    }

    /// The schema of a field that is not named.
    fn additional(&self) -> Option<&Schema> {
        match &self.additional {
            Some(Additional::Like(schema)) => Some(schema),
            _ => None,
        }
    }
}

impl Type {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Type::Object,
            "array" => Type::Array,
            "string" => Type::String,
            "integer" => Type::Integer,
            "number" => Type::Number,
            "boolean" => Type::Boolean,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Type::Object => "object",
            Type::Array => "array",
            Type::String => "string",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::Boolean => "boolean",
        }
    }

    fn fits(self, value: &Value) -> bool {
        match (self, value) {
            (Type::Object, Value::Object(_))
            | (Type::Array, Value::Array(_))
            | (Type::String, Value::String(_))
            | (Type::Boolean, Value::Bool(_))
            | (Type::Number, Value::Number(_)) => true,
            (Type::Integer, Value::Number(number)) => number.as_f64().is_some_and(|number| number.fract() == 0.0),
            _ => false,
        }
    }
}

impl ListKeys {
    fn parse(schema: &Value) -> Self {
        match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => ListKeys::Whole,
            Some("map") => {
                let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
                ListKeys::Fields(keys.filter_map(Value::as_str).map(String::from).collect())
            }
            _ => ListKeys::None,
        }
    }
}

impl Limits {
    fn parse(schema: &Value) -> Self {
        let texts = |name: &str| schema[name].as_array().into_iter().flatten().filter_map(Value::as_str);
        Limits {
            required: texts("required").map(String::from).collect(),
            one_of: schema["enum"].as_array().cloned().unwrap_or_default(),
            minimum: schema["minimum"].as_f64(),
            excludes_minimum: schema["exclusiveMinimum"] == true,
            maximum: schema["maximum"].as_f64(),
            excludes_maximum: schema["exclusiveMaximum"] == true,
            multiple_of: schema["multipleOf"].as_f64(),
            min_length: schema["minLength"].as_u64(),
            max_length: schema["maxLength"].as_u64(),
            pattern: schema["pattern"].as_str().and_then(|pattern| Regex::new(pattern).ok()),
            format: schema["format"].as_str().map(String::from),
            min_items: schema["minItems"].as_u64(),
            max_items: schema["maxItems"].as_u64(),
            unique_items: schema["uniqueItems"] == true,
            min_properties: schema["minProperties"].as_u64(),
            max_properties: schema["maxProperties"].as_u64(),
        }
    }
}
