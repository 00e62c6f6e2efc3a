//! Which nodes a Plan, and which pods a budget is about, read anew from what Kubernetes says of label selectors.

use serde_json::Value;

/// Whether a selector matches an object. One that is missing matches none, an empty one all.
pub fn selects(selector: &Value, object: &Value) -> bool {
    if !selector.is_object() {
        return false;
    }
    let labels = &object["metadata"]["labels"];
    let equal = selector["matchLabels"].as_object().into_iter().flatten().all(|(key, value)| labels[key] == *value);
    equal && selector["matchExpressions"].as_array().into_iter().flatten().all(|expression| holds(expression, labels))
}

fn holds(expression: &Value, labels: &Value) -> bool {
    let label = &labels[expression["key"].as_str().unwrap_or_default()];
    let listed = expression["values"].as_array().is_some_and(|values| values.contains(label));
    match expression["operator"].as_str().unwrap_or_default() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => label.is_string(),
        "DoesNotExist" => label.is_null(),
        _ => false,
    }
}
