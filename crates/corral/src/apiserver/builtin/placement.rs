//! Where pods may run: what is checked in affinities and in constraints on their spread, and what the labels of a pod add
//! to them.

use serde_json::{Value, json};

use super::{
    selector,
    values::{check_known, check_label, listed, text},
};
use crate::apiserver::{
    names,
    object::{Meta, Object, child},
    status::FieldError,
};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const ACTIONS: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];
const POLICIES: [&str; 2] = ["Honor", "Ignore"];
const OPERATOR: &str = "not a valid selector operator";

/// The affinity of the spec at `path`.
pub(super) fn check_affinity(path: &str, spec: &Value, errors: &mut Vec<FieldError>) {
    let place = format!("{path}.affinity");
    let affinity = &spec["affinity"];
    check_nodes(&format!("{place}.nodeAffinity"), &affinity["nodeAffinity"], errors);
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (index, term) in listed(&affinity[kind], REQUIRED).enumerate() {
            check_pods(&format!("{place}.{kind}.{REQUIRED}[{index}]"), term, errors);
        }
        for (index, term) in listed(&affinity[kind], PREFERRED).enumerate() {
            let field = format!("{place}.{kind}.{PREFERRED}[{index}]");
            check_weight(&field, term, errors);
            check_pods(&format!("{field}.podAffinityTerm"), &term["podAffinityTerm"], errors);
        }
    }
}

fn check_nodes(place: &str, affinity: &Value, errors: &mut Vec<FieldError>) {
    if let Some(required) = affinity.get(REQUIRED).filter(|required| required.is_object()) {
        let field = format!("{place}.{REQUIRED}.nodeSelectorTerms");
        if listed(required, "nodeSelectorTerms").next().is_none() {
            errors.push(FieldError::required(field.as_str(), "must have at least one node selector term"));
        }
        for (index, term) in listed(required, "nodeSelectorTerms").enumerate() {
            check_node_term(&format!("{field}[{index}]"), term, true, errors);
        }
    }
    for (index, term) in listed(affinity, PREFERRED).enumerate() {
        let field = format!("{place}.{PREFERRED}[{index}]");
        check_weight(&field, term, errors);
        check_node_term(&format!("{field}.preference"), &term["preference"], false, errors);
    }
}

fn check_weight(place: &str, term: &Value, errors: &mut Vec<FieldError>) {
    let weight = term["weight"].as_i64().unwrap_or_default();
    if !(1..=100).contains(&weight) {
        errors.push(FieldError::invalid(format!("{place}.weight"), &json!(weight), "must be in the range 1-100"));
    }
}

/// What is only preferred may name values that no label can have.
fn check_node_term(place: &str, term: &Value, values_too: bool, errors: &mut Vec<FieldError>) {
    for (index, requirement) in listed(term, "matchExpressions").enumerate() {
        check_node_label(&format!("{place}.matchExpressions[{index}]"), requirement, values_too, errors);
    }
    for (index, requirement) in listed(term, "matchFields").enumerate() {
        check_node_field(&format!("{place}.matchFields[{index}]"), requirement, errors);
    }
}

fn check_node_label(place: &str, requirement: &Value, values_too: bool, errors: &mut Vec<FieldError>) {
    let field = format!("{place}.values");
    let count = listed(requirement, "values").count();
    match text(requirement, "operator") {
        "In" | "NotIn" if count == 0 => {
            let why = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(field.as_str(), why));
        }
        "Exists" | "DoesNotExist" if count > 0 => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(field.as_str(), why));
        }
        "Gt" | "Lt" if count != 1 => {
            let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.push(FieldError::required(field.as_str(), why));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => errors.push(FieldError::invalid(format!("{place}.operator"), &json!(other), OPERATOR)),
    }
    check_key(&format!("{place}.key"), text(requirement, "key"), errors);
    for (index, value) in listed(requirement, "values").enumerate().filter(|_| values_too) {
        let wrong = names::label_value(value.as_str().unwrap_or_default());
        errors.extend(wrong.iter().map(|why| FieldError::invalid(format!("{field}[{index}]"), value, why)));
    }
}

fn check_node_field(place: &str, requirement: &Value, errors: &mut Vec<FieldError>) {
    match text(requirement, "operator") {
        "In" | "NotIn" if listed(requirement, "values").count() != 1 => {
            let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.push(FieldError::required(format!("{place}.values"), why));
        }
        "In" | "NotIn" => {}
        other => errors.push(FieldError::invalid(format!("{place}.operator"), &json!(other), OPERATOR)),
    }
    let key = text(requirement, "key");
    if key != "metadata.name" {
        let why = "not a valid field selector key";
        errors.push(FieldError::invalid(format!("{place}.key"), &json!(key), why));
        return;
    }
    for (index, value) in listed(requirement, "values").enumerate() {
        let wrong = names::subdomain(value.as_str().unwrap_or_default());
        errors.extend(wrong.iter().map(|why| FieldError::invalid(format!("{place}.values[{index}]"), value, why)));
    }
}

fn check_key(field: &str, key: &str, errors: &mut Vec<FieldError>) {
    errors.extend(names::qualified(key).iter().map(|why| FieldError::invalid(field, &json!(key), why)));
}

fn check_pods(place: &str, term: &Value, errors: &mut Vec<FieldError>) {
    for name in ["labelSelector", "namespaceSelector"] {
        selector::check(&format!("{place}.{name}"), &term[name], errors);
    }
    for namespace in listed(term, "namespaces") {
        check_label(&format!("{place}.namespace"), namespace.as_str().unwrap_or_default(), errors);
    }
    check_label_keys(place, term, errors);
    let key = text(term, "topologyKey");
    if key.is_empty() {
        errors.push(FieldError::required(format!("{place}.topologyKey"), "can not be empty"));
    }
    check_key(&format!("{place}.topologyKey"), key, errors);
}

/// The keys whose values in the pod's own labels become part of the selector.
fn check_label_keys(place: &str, term: &Value, errors: &mut Vec<FieldError>) {
    let selector = &term["labelSelector"];
    for name in ["matchLabelKeys", "mismatchLabelKeys"] {
        let field = format!("{place}.{name}");
        if listed(term, name).next().is_some() && selector.is_null() {
            errors.push(FieldError::forbidden(field, "must not be specified when labelSelector is not set"));
            continue;
        }
        for (index, key) in listed(term, name).enumerate() {
            check_key(&format!("{field}[{index}]"), key.as_str().unwrap_or_default(), errors);
        }
    }
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let mut selected: Vec<&str> = labels.map(|(key, _)| key.as_str()).collect();
    for key in listed(selector, "matchExpressions").map(|expression| text(expression, "key")) {
        // By now the selector holds what follows from the keys, so a second mention is the user's own.
        let position = listed(term, "matchLabelKeys").collect::<Vec<_>>().iter().rposition(|known| **known == key);
        if let Some(index) = position.filter(|_| selected.contains(&key)) {
            let why = "exists in both matchLabelKeys and labelSelector";
            errors.push(FieldError::invalid(format!("{place}[{index}]"), &json!(key), why));
        }
        selected.push(key);
    }
    for (index, key) in listed(term, "matchLabelKeys").enumerate() {
        if listed(term, "mismatchLabelKeys").any(|other| other == key) {
            let why = "exists in both matchLabelKeys and mismatchLabelKeys";
            errors.push(FieldError::invalid(format!("{place}.matchLabelKeys[{index}]"), key, why));
        }
    }
}

/// The constraints on the spread of the pods of the spec at `path`.
pub(super) fn check_spread(path: &str, spec: &Value, errors: &mut Vec<FieldError>) {
    let constraints: Vec<_> = listed(spec, "topologySpreadConstraints").collect();
    for (index, constraint) in constraints.iter().enumerate() {
        let place = format!("{path}.topologySpreadConstraints[{index}]");
        let (key, action) = (text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable"));
        check_positive(&format!("{place}.maxSkew"), &constraint["maxSkew"], errors);
        if key.is_empty() {
            errors.push(FieldError::required(format!("{place}.topologyKey"), "can not be empty"));
        }
        check_known(&format!("{place}.whenUnsatisfiable"), &json!(action), &ACTIONS, errors);
        let same = |other: &&Value| text(other, "topologyKey") == key && text(other, "whenUnsatisfiable") == action;
        if constraints.iter().skip(index + 1).any(same) {
            let field = format!("{place}.{{topologyKey, whenUnsatisfiable}}");
            errors.push(FieldError::duplicate(field, &json!(format!("{{{key}, {action}}}"))));
        }
        if let Some(least) = constraint.get("minDomains") {
            let field = format!("{place}.minDomains");
            check_positive(&field, least, errors);
            if action != "DoNotSchedule" {
                let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                errors.push(FieldError::invalid(field, least, &why));
            }
        }
        for name in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if let Some(policy) = constraint.get(name) {
                check_known(&format!("{place}.{name}"), policy, &POLICIES, errors);
            }
        }
        check_label_keys(&place, constraint, errors);
        selector::check(&format!("{place}.labelSelector"), &constraint["labelSelector"], errors);
    }
}

fn check_positive(field: &str, value: &Value, errors: &mut Vec<FieldError>) {
    let number = value.as_i64().unwrap_or_default();
    if number <= 0 {
        errors.push(FieldError::invalid(field, &json!(number), "must be greater than zero"));
    }
}

/// Adds to the selectors of a new pod what follows from its own labels.
pub(super) fn apply_label_keys(pod: &mut Object) {
    let labels = pod.meta("labels").cloned().unwrap_or_default();
    let spec = child(pod, "spec");
    for constraint in each(spec.get_mut("topologySpreadConstraints")) {
        select_own(constraint, &labels);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.get_mut("affinity").and_then(|affinity| affinity.get_mut(kind)) else { continue };
        for term in each(affinity.get_mut(PREFERRED)).filter_map(|term| term.get_mut("podAffinityTerm")) {
            select_own(term, &labels);
        }
        for term in each(affinity.get_mut(REQUIRED)) {
            select_own(term, &labels);
        }
    }
}

fn each(list: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    list.and_then(Value::as_array_mut).into_iter().flatten()
}

fn select_own(term: &mut Value, labels: &Value) {
    let mut added: Vec<Value> = vec![];
    for (name, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        let keys = listed(term, name).filter_map(Value::as_str);
        let known = keys.filter_map(|key| Some((key, labels.get(key)?)));
        added.extend(known.map(|(key, value)| json!({ "key": key, "operator": operator, "values": [value] })));
    }
    let Some(Value::Object(selector)) = term.get_mut("labelSelector").filter(|_| !added.is_empty()) else { return };
    let expressions = selector.entry("matchExpressions").or_insert_with(|| json!([]));
    if let Value::Array(expressions) = expressions {
        expressions.extend(added);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_spread_among_those_that_share_its_labels() {
        let pod = json!({
            "metadata": { "labels": { "hash": "x" } },
            "spec": { "topologySpreadConstraints": [{ "matchLabelKeys": ["hash", "gone"], "labelSelector": {} }] },
        });
        let mut pod = pod.as_object().unwrap().clone();
        apply_label_keys(&mut pod);
        let expressions = &pod["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"];
        assert_eq!(*expressions, json!([{ "key": "hash", "operator": "In", "values": ["x"] }]));
    }
}
