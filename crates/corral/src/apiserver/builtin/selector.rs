//! Label selectors as they stand in objects: whether they are well formed, and whether they select certain labels.

use serde_json::{Value, json};

use crate::apiserver::{names, packed::Packed, selectors::Selectors, status::FieldError};

pub(super) fn check(field: &str, selector: &Value, errors: &mut Vec<FieldError>) {
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        let at = |text: &str, why: &String| FieldError::invalid(format!("{field}.matchLabels"), &json!(text), why);
        errors.extend(names::qualified(key).iter().map(|why| at(key, why)));
        let value = value.as_str().unwrap_or_default();
        errors.extend(names::label_value(value).iter().map(|why| at(value, why)));
    }
    for (place, expression) in selector["matchExpressions"].as_array().into_iter().flatten().enumerate() {
        check_expression(&format!("{field}.matchExpressions[{place}]"), expression, errors);
    }
}

fn check_expression(field: &str, expression: &Value, errors: &mut Vec<FieldError>) {
    let values = expression["values"].as_array().map(Vec::as_slice).unwrap_or_default();
    match expression["operator"].as_str().unwrap_or_default() {
        "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
            format!("{field}.values"),
            "must be specified when `operator` is 'In' or 'NotIn'",
        )),
        "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::forbidden(
            format!("{field}.values"),
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )),
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => {
            let why = "not a valid selector operator";
            errors.push(FieldError::invalid(format!("{field}.operator"), &json!(other), why));
        }
    }
    let key = expression["key"].as_str().unwrap_or_default();
    let wrong = names::qualified(key);
    errors.extend(wrong.iter().map(|why| FieldError::invalid(format!("{field}.key"), &json!(key), why)));
    for (place, value) in values.iter().enumerate() {
        let wrong = names::label_value(value.as_str().unwrap_or_default());
        errors.extend(wrong.iter().map(|why| FieldError::invalid(format!("{field}.values[{place}]"), value, why)));
    }
}

pub(super) fn is_empty(selector: &Value) -> bool {
    let nothing = |part: &Value| match part {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    };
    nothing(&selector["matchLabels"]) && nothing(&selector["matchExpressions"])
}

pub(super) fn selects(selector: &Value, labels: &Value) -> bool {
    Selectors::from_label_selector(selector).selects(&Packed::from_object(labels.as_object()))
}
