//! Checks of single values that many kinds have in common.

use serde_json::{Value, json};

use crate::apiserver::{
    names,
    object::{Object, at},
    status::FieldError,
};

pub(super) const IMMUTABLE: &str = "field is immutable";
const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
                       regex used for validation is '[0-9]+%')";

/// Refuses numbers below zero in the named fields of `part`, such as `spec`.
pub(super) fn check_not_negative(object: &Object, part: &str, names: &[&str], errors: &mut Vec<FieldError>) {
    for name in names {
        let value = at(object, &[part, name]);
        if let Some(value) = value.filter(|value| value.as_i64().is_some_and(|number| number < 0)) {
            errors.push(not_negative(format!("{part}.{name}"), value));
        }
    }
}

fn not_negative(field: String, value: &Value) -> FieldError {
    FieldError::invalid(field, value, "must be greater than or equal to 0")
}

/// Refuses a count of a status that is higher than another one; the sentence says which.
pub(super) fn check_not_above(object: &Object, names: &[&str], limit: &str, why: &str, errors: &mut Vec<FieldError>) {
    let count = |name: &str| at(object, &["status", name]).and_then(Value::as_i64).unwrap_or_default();
    for name in names.iter().filter(|name| count(name) > count(limit)) {
        errors.push(FieldError::invalid(format!("status.{name}"), &json!(count(name)), why));
    }
}

/// Refuses what is neither a number from zero on nor a percentage.
pub(super) fn check_number_or_percent(field: &str, value: &Value, errors: &mut Vec<FieldError>) {
    match value {
        Value::String(text) if percent(text).is_none() => errors.push(FieldError::invalid(field, value, PERCENT)),
        Value::Number(number) if number.as_i64().is_some_and(|number| number < 0) => {
            errors.push(not_negative(field.into(), value));
        }
        _ => {}
    }
}

pub(super) fn check_at_most_all(field: &str, value: &Value, errors: &mut Vec<FieldError>) {
    if value.as_str().and_then(percent).is_some_and(|percent| percent > 100) {
        errors.push(FieldError::invalid(field, value, "must not be greater than 100%"));
    }
}

/// The number, or the number of percents; 0 for what is malformed.
pub(super) fn amount(value: &Value) -> i64 {
    value.as_i64().or_else(|| value.as_str().and_then(percent)).unwrap_or_default()
}

fn percent(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%').filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))?;
    digits.parse().ok()
}

/// Refuses a change of a field at a path inside of the object; it is named by `field`.
pub(super) fn check_unchanged(new: &Object, old: &Object, path: &[&str], field: &str, errors: &mut Vec<FieldError>) {
    let found = at(new, path);
    if found != at(old, path) {
        errors.push(FieldError::invalid(field, found.unwrap_or(&Value::Null), IMMUTABLE));
    }
}

/// Refuses a value that is none of those that are known; `known` is as the original sorts them.
pub(super) fn check_known(field: &str, value: &Value, known: &[&str], errors: &mut Vec<FieldError>) {
    if !known.iter().any(|known| value == known) {
        let known: Vec<_> = known.iter().map(|known| known.to_string()).collect();
        errors.push(FieldError::unsupported(field, value, &known));
    }
}

pub(super) fn check_label(field: &str, text: &str, errors: &mut Vec<FieldError>) {
    errors.extend(names::label(text).iter().map(|why| FieldError::invalid(field, &json!(text), why)));
}

pub(super) fn check_subdomain(field: &str, text: &str, errors: &mut Vec<FieldError>) {
    errors.extend(names::subdomain(text).iter().map(|why| FieldError::invalid(field, &json!(text), why)));
}

/// The elements of a list in a field; none if there is no list.
pub(super) fn listed<'a>(value: &'a Value, name: &str) -> impl DoubleEndedIterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// The text in a field; empty if there is none.
pub(super) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn check_port(field: &str, value: &Value, errors: &mut Vec<FieldError>) {
    if !value.as_i64().is_some_and(|number| (1..=65535).contains(&number)) {
        errors.push(FieldError::invalid(field, value, "must be between 1 and 65535, inclusive"));
    }
}
