//! Rules of a schema in CEL (`x-kubernetes-validations`): what an object has to hold beyond its shape.

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use drover_cel::{Bindings, Environment, EvalError, Key, List, Order, Program, Type as Kind, Value as Cel, escape};
use jiff::{Timestamp, civil::Date, tz::TimeZone};
use serde_json::{Value, json};

use super::{ListKeys, Schema, Type};
use crate::apiserver::{object::Object, status::FieldError};

/// The longest message that an expression may make.
const MESSAGE_LIMIT: usize = 5 * 1024;

/// One rule, as it was written and as it was understood.
#[derive(Debug)]
pub(crate) struct Rule {
    /// As the definition has it.
    pub written: Value,
    pub program: Result<Program, String>,
    pub message: Option<Result<Program, String>>,
    /// The field below that it complains about, as `.spec.size` without the first dot.
    field: String,
    optional_old: bool,
}

impl Rule {
    fn parse(written: &Value, kind: &Kind) -> Self {
        let optional_old = written["optionalOldSelf"] == true;
        let old = if optional_old { Kind::optional(kind.clone()) } else { kind.clone() };
        let environment = Environment::new().variable("self", kind.clone()).variable("oldSelf", old);
        let compiled = |field: &str, expected: Kind, what: &str, failed: &str| {
            let source = written[field].as_str().unwrap_or_default();
            let program = Program::compile(source, &environment).map_err(|error| format!("{failed}: {error}"))?;
            match drover_cel::is_assignable(&expected, program.kind()) {
                true => Ok(program),
                false => Err(format!("{what} must evaluate to a {expected}")),
            }
        };
        Rule {
            program: compiled("rule", Kind::Bool, "cel expression", "compilation failed"),
            message: written["messageExpression"].as_str().filter(|source| !source.trim().is_empty()).map(|_| {
                compiled("messageExpression", Kind::String, "messageExpression", "messageExpression compilation failed")
            }),
            field: written["fieldPath"].as_str().unwrap_or_default().trim().trim_start_matches('.').into(),
            optional_old,
            written: written.clone(),
        }
    }

    pub fn text(&self, field: &str) -> &str {
        self.written[field].as_str().unwrap_or_default()
    }

    pub fn uses_old(&self) -> bool {
        self.program.as_ref().is_ok_and(|program| program.uses("oldSelf"))
    }

    /// How the rule is called in an error about it.
    fn name(&self) -> &str {
        match self.text("message") {
            "" => self.text("rule").trim(),
            message => message.trim(),
        }
    }

    fn complaint(&self, bindings: &Bindings) -> String {
        let evaluated = self.message.as_ref().and_then(|program| program.as_ref().ok()?.evaluate(bindings).ok());
        let message = evaluated.as_ref().and_then(Cel::text).map(str::trim);
        let is_usable = |text: &&str| !text.is_empty() && text.len() <= MESSAGE_LIMIT && !text.contains('\n');
        match (message.filter(is_usable), self.text("message")) {
            (Some(message), _) => message.into(),
            (None, "") => format!("failed rule: {}", self.name()),
            (None, _) => self.name().into(),
        }
    }

    fn error(&self, path: &str, kind: &str, bindings: &Bindings) -> FieldError {
        let path = if self.field.is_empty() { path.to_string() } else { below(path, &self.field) };
        let complaint = self.complaint(bindings);
        match self.text("reason") {
            "FieldValueForbidden" => FieldError::forbidden(path, &complaint),
            "FieldValueRequired" => FieldError::required(path, &complaint),
            "FieldValueDuplicate" => FieldError::duplicate(path, &json!(kind)),
            _ => FieldError::invalid(path, &json!(kind), &complaint),
        }
    }
}

fn below(path: &str, name: &str) -> String {
    if path == ROOT { name.into() } else { format!("{path}.{name}") }
}

/// What the original calls the place of a whole object.
const ROOT: &str = "<nil>";

/// A value that rules look at, and what stood in its place before.
#[derive(Clone, Copy)]
struct Place<'a> {
    path: &'a str,
    value: &'a Value,
    old: Option<&'a Value>,
    /// Whether nothing has changed here, so that what was accepted before is accepted again.
    unchanged: bool,
}

/// What became of all rules of an object.
#[derive(Default)]
pub(crate) struct Verdict {
    pub errors: Vec<FieldError>,
    /// What is wrong and was already wrong before.
    pub warnings: Vec<String>,
}

impl Schema {
    /// Reads the rules of a node, once what is below it is known.
    pub(super) fn read_rules(&mut self, schema: &Value, is_root: bool) {
        if let Some(written) = schema["x-kubernetes-validations"].as_array() {
            let kind = self.cel_type("self", is_root || self.is_embedded_resource).unwrap_or(Kind::Dyn);
            self.rules = written.iter().map(|rule| Rule::parse(rule, &kind)).collect();
        }
        let below = self.properties.values().chain(self.items.as_deref()).chain(self.additional());
        self.has_rules = !self.rules.is_empty() || below.chain(&self.all_of).any(|schema| schema.has_rules);
    }

    pub fn has_rules(&self) -> bool {
        self.has_rules
    }

    /// Holds a whole object to the rules.
    pub fn judge_root(&self, object: &Object, old: Option<&Object>) -> Verdict {
        let mut verdict = Verdict::default();
        if self.has_rules {
            let value = Value::Object(object.clone());
            let old = old.map(|old| Value::Object(old.clone()));
            let unchanged = old.as_ref() == Some(&value);
            self.judge(Place { path: ROOT, value: &value, old: old.as_ref(), unchanged }, true, &mut verdict);
        }
        verdict
    }

    fn judge(&self, place: Place<'_>, is_root: bool, verdict: &mut Verdict) {
        if !self.has_rules || place.value.is_null() {
            return;
        }
        self.judge_here(place, is_root, verdict);
        for schema in &self.all_of {
            schema.judge(place, false, verdict);
        }
        match place.value {
            Value::Array(items) => {
                let Some(schema) = &self.items else { return };
                for (index, item) in items.iter().enumerate() {
                    let old = place.old.and_then(|old| self.item_like(old, item));
                    let path = format!("{}[{index}]", place.path);
                    let unchanged = place.unchanged || old == Some(item);
                    schema.judge(Place { path: &path, value: item, old, unchanged }, false, verdict);
                }
            }
            Value::Object(fields) => {
                for (name, value) in fields {
                    let old = place.old.and_then(|old| old.get(name));
                    let (schema, path) = match (self.properties.get(name), self.additional()) {
                        (Some(schema), _) => (schema, below(place.path, name)),
                        (None, Some(schema)) => (schema, format!("{}[{name}]", place.path)),
                        _ => continue,
                    };
                    let unchanged = place.unchanged || old == Some(value);
                    schema.judge(Place { path: &path, value, old, unchanged }, false, verdict);
                }
            }
            _ => {}
        }
    }

    fn judge_here(&self, place: Place<'_>, is_root: bool, verdict: &mut Verdict) {
        if self.rules.is_empty() {
            return;
        }
        let kind = self.kind.map_or("", Type::name);
        let is_root = is_root || self.is_embedded_resource;
        let value = self.to_cel(place.value, is_root);
        let old = place.old.filter(|old| !old.is_null()).map(|old| self.to_cel(old, is_root));
        for rule in &self.rules {
            let mut bindings = Bindings::new().with("self", value.clone());
            match (&old, rule.optional_old) {
                (old, true) => bindings.set("oldSelf", Ok(Cel::Optional(old.clone().map(Arc::new)))),
                (Some(old), false) => bindings.set("oldSelf", Ok(old.clone())),
                (None, false) if rule.uses_old() => continue,
                (None, false) => {}
            }
            let program = match &rule.program {
                Ok(program) => program,
                Err(why) => {
                    let why = format!("rule compile error: {why}");
                    verdict.errors.push(FieldError::invalid(place.path, &json!(kind), &why));
                    continue;
                }
            };
            match program.is_true(&bindings) {
                Ok(true) => {}
                Ok(false) => {
                    let error = rule.error(place.path, kind, &bindings);
                    match place.unchanged && !rule.uses_old() {
                        true => verdict.warnings.push(error.to_string()),
                        false => verdict.errors.push(error),
                    }
                }
                Err(error) => {
                    let why = failure(&error, rule.name());
                    verdict.errors.push(FieldError::invalid(place.path, &json!(kind), &why));
                }
            }
        }
    }

    /// The element of a list that has the same keys as another, where lists have keys.
    pub(super) fn item_like<'a>(&self, list: &'a Value, item: &Value) -> Option<&'a Value> {
        let ListKeys::Fields(keys) = &self.list_keys else { return None };
        let is_same = |other: &&Value| keys.iter().all(|key| other.get(key) == item.get(key));
        list.as_array()?.iter().find(is_same)
    }

    /// What rules may know of values of this schema; none where it says too little.
    pub fn cel_type(&self, name: &str, is_root: bool) -> Option<Kind> {
        if self.is_int_or_string {
            return Some(Kind::Dyn);
        }
        let inside =
            |schema: &Schema, field: &str| schema.cel_type(&format!("{name}.{field}"), schema.is_embedded_resource);
        Some(match self.kind? {
            Type::Array => Kind::list(inside(self.items.as_deref()?, "@idx")?),
            Type::Object => match self.additional() {
                Some(schema) => Kind::map(Kind::String, inside(schema, "@elem")?),
                None => {
                    let declared = self.properties.iter();
                    let mut fields: BTreeMap<_, _> =
                        declared.filter_map(|(field, schema)| Some((escape(field)?, inside(schema, field)?))).collect();
                    if is_root {
                        let names = ["name", "generateName"].map(|field| (field.to_string(), Kind::String));
                        fields.insert("metadata".into(), Kind::object(format!("{name}.metadata"), names.into()));
                        fields.insert("apiVersion".into(), Kind::String);
                        fields.insert("kind".into(), Kind::String);
                    }
                    Kind::object(name, fields)
                }
            },
            Type::String => match self.limits.format.as_deref() {
                Some("byte") => Kind::Bytes,
                Some("duration") => Kind::Duration,
                Some("date" | "date-time") => Kind::Timestamp,
                _ => Kind::String,
            },
            Type::Integer => Kind::Int,
            Type::Number => Kind::Double,
            Type::Boolean => Kind::Bool,
        })
    }

    /// A value as rules see it.
    fn to_cel(&self, value: &Value, is_root: bool) -> Cel {
        if self.is_int_or_string {
            return Cel::from_json(value);
        }
        match (self.kind, value) {
            (Some(Type::Array), Value::Array(items)) => {
                let inside = |item: &Value| match &self.items {
                    Some(schema) => schema.to_cel(item, schema.is_embedded_resource),
                    None => Cel::from_json(item),
                };
                let order = match &self.list_keys {
                    ListKeys::None => Order::Atomic,
                    ListKeys::Whole => Order::Set,
                    ListKeys::Fields(keys) => Order::Map(keys.clone()),
                };
                Cel::List(Arc::new(List { items: items.iter().map(inside).collect(), order }))
            }
            (Some(Type::Object), Value::Object(fields)) => {
                let entry = |(name, value): (&String, &Value)| {
                    let (name, value) = match (self.properties.get(name), self.additional()) {
                        (_, Some(schema)) => (name.clone(), schema.to_cel(value, schema.is_embedded_resource)),
                        (Some(schema), _) => (escape(name)?, schema.to_cel(value, schema.is_embedded_resource)),
                        (None, None) if is_root => (escape(name)?, Cel::from_json(value)),
                        (None, None) => return None,
                    };
                    Some((Key::String(name.into()), value))
                };
                Cel::map(fields.iter().filter_map(entry).collect())
            }
            (Some(Type::Number), Value::Number(number)) => Cel::Double(number.as_f64().unwrap_or_default()),
            (Some(Type::String), Value::String(text)) => self.text_to_cel(text),
            (_, value) => Cel::from_json(value),
        }
    }

    fn text_to_cel(&self, text: &str) -> Cel {
        let read = match self.limits.format.as_deref() {
            Some("byte") => STANDARD.decode(text).ok().map(|bytes| Cel::Bytes(bytes.into())),
            Some("duration") => drover_cel::parse_duration(text).map(Cel::Duration),
            Some("date-time") => text.parse::<Timestamp>().ok().map(Cel::Timestamp),
            Some("date") => {
                let midnight = text.parse::<Date>().ok().and_then(|date| date.to_zoned(TimeZone::UTC).ok());
                midnight.map(|midnight| Cel::Timestamp(midnight.timestamp()))
            }
            _ => None,
        };
        read.unwrap_or_else(|| Cel::from(text))
    }
}

fn failure(error: &EvalError, rule: &str) -> String {
    match error {
        EvalError::TooExpensive => {
            format!(
                "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {rule}"
            )
        }
        _ if error.to_string().starts_with("no such overload") => format!(
            "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {rule}"
        ),
        _ => format!("{error} evaluating rule: {rule}"),
    }
}
