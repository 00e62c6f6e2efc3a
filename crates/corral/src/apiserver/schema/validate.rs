//! Say what in an object does not keep to its schema, in the words of the original.

use serde_json::{Value, json};

use super::{ListKeys, Schema, Type, format::has_format};
use crate::apiserver::{object::Object, status::FieldError};

impl Schema {
    /// Validates a whole object; its metadata is checked elsewhere. What stood there before is not complained about.
    pub fn validate_root(&self, object: &Object, old: Option<&Object>, errors: &mut Vec<FieldError>) {
        self.validate_fields("", object, old, errors);
        if self.has_alternatives() {
            self.validate_alternatives("", &Value::Object(object.clone()), errors);
        }
    }

    /// Validates the status alone, as if it were the whole.
    pub fn validate_status(&self, object: &Object, old: Option<&Object>, errors: &mut Vec<FieldError>) {
        let (Some(schema), Some(status)) = (self.properties.get("status"), object.get("status")) else { return };
        let mut found = vec![];
        match status {
            Value::Object(status) => {
                let old = old.and_then(|old| old.get("status")).and_then(Value::as_object);
                schema.validate_fields("", status, old, &mut found);
                if schema.has_alternatives() {
                    schema.validate_alternatives("", &Value::Object(status.clone()), &mut found);
                }
            }
            other => return schema.validate("status", other, None, errors),
        }
        errors.extend(found.into_iter().map(|error| error.below("status")));
    }

    /// Complains of objects inside of a field of an object that do not say what they are.
    pub fn validate_embedded_field(&self, name: &str, value: &Value, errors: &mut Vec<FieldError>) {
        if let Some(schema) = self.properties.get(name).or_else(|| self.additional()) {
            schema.validate_embedded(name, value, errors);
        }
    }

    fn validate_embedded(&self, path: &str, value: &Value, errors: &mut Vec<FieldError>) {
        match value {
            Value::Object(object) => {
                for name in ["apiVersion", "kind"]
                    .iter()
                    .filter(|name| self.is_embedded_resource && !object.contains_key(**name))
                {
                    errors.push(FieldError::required(under(path, name), ""));
                }
                for (name, value) in object {
                    if let Some(schema) = self.properties.get(name).or_else(|| self.additional()) {
                        schema.validate_embedded(&under(path, name), value, errors);
                    }
                }
            }
            Value::Array(items) => {
                for (place, item) in items.iter().enumerate() {
                    if let Some(schema) = &self.items {
                        schema.validate_embedded(&format!("{path}[{place}]"), item, errors);
                    }
                }
            }
            _ => {}
        }
    }

    fn validate(&self, path: &str, value: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        if old == Some(value) && !["apiVersion", "kind"].contains(&path) {
            return;
        }
        if let Some(error) = self.type_error(path, value) {
            errors.push(error);
            // What does not depend on the type is told all the same.
            if let Value::Number(number) = value {
                self.validate_number(path, number.as_f64().unwrap_or_default(), value, errors);
            }
            self.validate_choice(path, value, errors);
            return;
        }
        match value {
            Value::String(text) => self.validate_text(path, text, errors),
            Value::Number(number) => self.validate_number(path, number.as_f64().unwrap_or_default(), value, errors),
            Value::Array(items) => self.validate_list(path, items, old, errors),
            Value::Object(object) => self.validate_fields(path, object, old.and_then(Value::as_object), errors),
            Value::Null | Value::Bool(_) => {}
        }
        self.validate_choice(path, value, errors);
        if self.has_alternatives() {
            self.validate_alternatives(path, value, errors);
        }
    }

    fn validate_choice(&self, path: &str, value: &Value, errors: &mut Vec<FieldError>) {
        let choice = &self.limits.one_of;
        if !choice.is_empty() && !value.is_null() && !choice.contains(value) {
            let supported: Vec<_> = choice.iter().map(plain).collect();
            errors.push(FieldError::unsupported(path, value, &supported));
        }
    }

    fn has_alternatives(&self) -> bool {
        !(self.any_of.is_empty() && self.one_of.is_empty() && self.all_of.is_empty() && self.not.is_none())
    }

    fn type_error(&self, path: &str, value: &Value) -> Option<FieldError> {
        let expected = match (self.kind, self.is_int_or_string) {
            _ if value.is_null() && self.nullable => return None,
            (_, true) if Type::Integer.fits(value) || Type::String.fits(value) => return None,
            (_, true) => "integer,string",
            (Some(kind), false) if !kind.fits(value) => kind.name(),
            _ => return None,
        };
        let found = type_name(value);
        let why = format!("{path} in body must be of type {expected}: {found:?}");
        Some(FieldError::wrong_type(path, found, &why))
    }

    fn validate_text(&self, path: &str, text: &str, errors: &mut Vec<FieldError>) {
        let limits = &self.limits;
        let length = text.chars().count() as u64;
        let mut wrong = |why: String| errors.push(FieldError::invalid(path, &json!(text), &why));
        // The first of these that is wrong is the only one that is told.
        if let Some(max) = limits.max_length.filter(|max| length > *max) {
            errors.push(FieldError::too_long(path, max));
        } else if let Some(min) = limits.min_length.filter(|min| length < *min) {
            wrong(format!("{path} in body should be at least {min} chars long"));
        } else if let Some(pattern) = limits.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            wrong(format!("{path} in body should match '{pattern}'"));
        }
        if let Some(format) = limits.format.as_ref().filter(|format| !has_format(format, text)) {
            let why = format!("{path} in body must be of type {format}: {text:?}");
            errors.push(FieldError::wrong_type(path, text, &why));
        }
    }

    fn validate_number(&self, path: &str, number: f64, value: &Value, errors: &mut Vec<FieldError>) {
        let limits = &self.limits;
        let mut wrong = |why: String| errors.push(FieldError::invalid(path, value, &why));
        if let Some(factor) = limits.multiple_of.filter(|factor| *factor > 0.0 && (number / factor).fract() != 0.0) {
            wrong(format!("{path} in body should be a multiple of {}", shown(factor)));
        }
        match limits.maximum {
            Some(max) if limits.excludes_maximum && number >= max => {
                wrong(format!("{path} in body should be less than {}", shown(max)));
            }
            Some(max) if number > max => {
                wrong(format!("{path} in body should be less than or equal to {}", shown(max)))
            }
            _ => {}
        }
        match limits.minimum {
            Some(min) if limits.excludes_minimum && number <= min => {
                wrong(format!("{path} in body should be greater than {}", shown(min)));
            }
            Some(min) if number < min => {
                wrong(format!("{path} in body should be greater than or equal to {}", shown(min)));
            }
            _ => {}
        }
    }

    fn validate_list(&self, path: &str, items: &[Value], old: Option<&Value>, errors: &mut Vec<FieldError>) {
        if let Some(schema) = &self.items {
            for (place, item) in items.iter().enumerate() {
                let old = old.and_then(|old| self.item_like(old, item));
                schema.validate(&format!("{path}[{place}]"), item, old, errors);
            }
        }
        let count = items.len() as u64;
        if let Some(min) = self.limits.min_items.filter(|min| count < *min) {
            let why = format!("{path} in body should have at least {min} items");
            errors.push(FieldError::invalid(path, &json!(count), &why));
        }
        if let Some(max) = self.limits.max_items.filter(|max| count > *max) {
            errors.push(FieldError::too_many(path, items.len(), max));
        }
        if self.limits.unique_items && (1..items.len()).any(|place| items[..place].contains(&items[place])) {
            let why = format!("{path} in body shouldn't contain duplicates");
            errors.push(FieldError::invalid(path, &json!(""), &why));
        }
        self.validate_list_keys(path, items, errors);
    }

    fn validate_list_keys(&self, path: &str, items: &[Value], errors: &mut Vec<FieldError>) {
        let key = |item: &Value| match &self.list_keys {
            ListKeys::None => None,
            ListKeys::Whole => Some(item.clone()),
            ListKeys::Fields(names) => {
                let fields = names.iter().filter_map(|name| Some((name.clone(), item.get(name)?.clone())));
                Some(Value::Object(fields.collect()))
            }
        };
        let mut seen = vec![];
        for (place, item) in items.iter().enumerate() {
            let Some(key) = key(item) else { return };
            if seen.contains(&key) {
                errors.push(FieldError::duplicate(format!("{path}[{place}]"), &key));
            }
            seen.push(key);
        }
    }

    fn validate_fields(&self, path: &str, object: &Object, old: Option<&Object>, errors: &mut Vec<FieldError>) {
        let count = object.len() as u64;
        if let Some(min) = self.limits.min_properties.filter(|min| count < *min) {
            let why = format!("{path} in body should have at least {min} properties");
            errors.push(FieldError::invalid(path, &json!(count), &why));
        }
        if let Some(max) = self.limits.max_properties.filter(|max| count > *max) {
            errors.push(FieldError::too_many(path, object.len(), max));
        }
        for (name, value) in object {
            let is_metadata = path.is_empty() && name == "metadata";
            if let (Some(schema), false) = (self.properties.get(name).or_else(|| self.additional()), is_metadata) {
                schema.validate(&under(path, name), value, old.and_then(|old| old.get(name)), errors);
            }
        }
        for name in self.limits.required.iter().filter(|name| !object.contains_key(*name)) {
            errors.push(FieldError::required(under(path, name), ""));
        }
    }

    fn validate_alternatives(&self, path: &str, value: &Value, errors: &mut Vec<FieldError>) {
        let attempt = |schema: &Schema| {
            let mut errors = vec![];
            schema.validate(path, value, None, &mut errors);
            errors
        };
        // The original does not say where, in the field, but in the sentence.
        let mut wrong = |why: String| errors.push(FieldError::invalid("<nil>", &json!(""), &why));
        let mut further = vec![];
        if !self.any_of.is_empty() {
            let attempts: Vec<_> = self.any_of.iter().map(attempt).collect();
            if attempts.iter().all(|errors| !errors.is_empty()) {
                wrong(format!("\"{path}\" must validate at least one schema (anyOf)"));
                further.extend(attempts.into_iter().min_by_key(Vec::len).unwrap_or_default());
            }
        }
        if !self.one_of.is_empty() {
            let attempts: Vec<_> = self.one_of.iter().map(attempt).collect();
            let valid = attempts.iter().filter(|errors| errors.is_empty()).count();
            if valid == 0 {
                wrong(format!("\"{path}\" must validate one and only one schema (oneOf). Found none valid"));
                further.extend(attempts.into_iter().min_by_key(Vec::len).unwrap_or_default());
            } else if valid > 1 {
                let found = format!("Found {valid} valid alternatives");
                wrong(format!("\"{path}\" must validate one and only one schema (oneOf). {found}"));
            }
        }
        let attempts: Vec<_> = self.all_of.iter().map(attempt).filter(|errors| !errors.is_empty()).collect();
        if !attempts.is_empty() {
            let none = if attempts.len() == self.all_of.len() { ". None validated" } else { "" };
            wrong(format!("\"{path}\" must validate all the schemas (allOf){none}"));
            further.extend(attempts.into_iter().flatten());
        }
        if self.not.as_ref().is_some_and(|schema| attempt(schema).is_empty()) {
            wrong(format!("\"{path}\" must not validate the schema (not)"));
        }
        errors.extend(further);
    }
}

fn under(path: &str, name: &str) -> String {
    if path.is_empty() { name.into() } else { format!("{path}.{name}") }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), String::from)
}

/// A limit as the original prints it: whole numbers whole, others with an exponent if they are large or small.
fn shown(number: f64) -> String {
    let size = number.abs();
    if (number.fract() == 0.0 && size < 1e18) || (1e-4..1e6).contains(&size) {
        return number.to_string();
    }
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{digits}e{sign}{exponent:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apiserver::status::invalid;

    fn message(schema: Value, object: Value) -> String {
        let mut errors = vec![];
        Schema::parse(&schema).validate_root(object.as_object().unwrap(), None, &mut errors);
        if errors.is_empty() { String::new() } else { invalid("example.com", "Plan", "x", &errors).message.clone() }
    }

    fn spec(schema: Value) -> Value {
        json!({ "type": "object", "properties": { "spec": schema } })
    }

    #[test]
    fn a_missing_field_is_named_with_its_path() {
        let schema = spec(json!({ "type": "object", "required": ["upgrade"] }));
        let expected = "Plan.example.com \"x\" is invalid: spec.upgrade: Required value";
        assert_eq!(message(schema, json!({ "spec": {} })), expected);
    }

    #[test]
    fn a_wrong_type_is_named_with_the_type_that_was_expected() {
        let schema = spec(json!({ "type": "object", "properties": { "concurrency": { "type": "integer" } } }));
        assert_eq!(
            message(schema, json!({ "spec": { "concurrency": "two" } })),
            "Plan.example.com \"x\" is invalid: spec.concurrency: Invalid value: \"string\": spec.concurrency in body \
             must be of type integer: \"string\""
        );
    }

    #[test]
    fn limits_are_checked_and_worded_as_the_original_does() {
        for (schema, value, expected) in [
            (
                json!({ "minimum": 1 }),
                json!(0),
                "spec: Invalid value: 0: spec in body should be greater than or equal to 1",
            ),
            (
                json!({ "maximum": 5 }),
                json!(6),
                "spec: Invalid value: 6: spec in body should be less than or equal to 5",
            ),
            (
                json!({ "minLength": 1 }),
                json!(""),
                "spec: Invalid value: \"\": spec in body should be at least 1 chars long",
            ),
            (json!({ "maxLength": 1 }), json!("ab"), "spec: Too long: may not be more than 1 byte"),
            (json!({ "pattern": "^a$" }), json!("b"), "spec: Invalid value: \"b\": spec in body should match '^a$'"),
            (
                json!({ "enum": ["a", "b"] }),
                json!("c"),
                "spec: Unsupported value: \"c\": supported values: \"a\", \"b\"",
            ),
            (json!({ "minItems": 1 }), json!([]), "spec: Invalid value: 0: spec in body should have at least 1 items"),
            (json!({ "maxItems": 1 }), json!([1, 2]), "spec: Too many: 2: must have at most 1 item"),
            (
                json!({ "x-kubernetes-int-or-string": true }),
                json!(true),
                "spec: Invalid value: \"boolean\": spec in body must be of type integer,string: \"boolean\"",
            ),
            (
                json!({ "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"] }),
                json!([{ "k": 1, "a": 1 }, { "k": 1, "a": 2 }]),
                "spec[1]: Duplicate value: {\"k\":1}",
            ),
        ] {
            let expected = format!("Plan.example.com \"x\" is invalid: {expected}");
            assert_eq!(message(spec(schema), json!({ "spec": value })), expected);
        }
    }

    #[test]
    fn what_keeps_to_the_schema_is_not_complained_about() {
        let schema = spec(json!({ "type": "object", "required": ["a"], "properties": {
            "a": { "x-kubernetes-int-or-string": true }, "b": { "type": "string", "nullable": true },
            "c": { "type": "number" }, "d": { "anyOf": [{ "type": "string" }, { "type": "integer" }] },
        } }));
        let object = json!({ "spec": { "a": "5%", "b": null, "c": 1, "d": 1 } });
        assert_eq!(message(schema, object), "");
    }

    #[test]
    fn exactly_one_alternative_has_to_hold_where_that_is_asked_for() {
        let schema = spec(json!({ "oneOf": [{ "required": ["a"] }, { "required": ["b"] }] }));
        assert!(message(schema.clone(), json!({ "spec": { "a": 1 } })).is_empty());
        assert!(message(schema.clone(), json!({ "spec": {} })).contains("Found none valid"));
        assert!(message(schema, json!({ "spec": { "a": 1, "b": 1 } })).contains("Found 2 valid alternatives"));
    }

    #[test]
    fn whole_numbers_are_shown_whole_and_small_ones_with_an_exponent() {
        for (number, text) in
            [(0.0, "0"), (2147483647.0, "2147483647"), (0.5, "0.5"), (0.00001, "1e-05"), (1e20, "1e+20")]
        {
            assert_eq!(shown(number), text);
        }
    }
}
