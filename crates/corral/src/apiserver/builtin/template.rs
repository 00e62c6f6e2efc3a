//! Templates of pods in the kinds that run them for as long as they exist, and the selector that has to fit.

use serde_json::{Value, json};

use super::{
    pod_spec::{self, Around},
    selector,
};
use crate::apiserver::{
    meta_rules,
    object::{Object, at, child},
    status::FieldError,
};

const TEMPLATE: &str = "spec.template";

/// What the sentences about a kind say of it.
pub(super) struct Kind {
    /// As in `empty selector is invalid for deployment`.
    pub selecting: &'static str,
    /// As in `activeDeadlineSeconds in ReplicaSet is not Supported`.
    pub running: &'static str,
}

pub(super) fn fill_defaults(spec: &mut Object) {
    pod_spec::fill_defaults(child(child(spec, "template"), "spec"));
}

pub(super) fn check_selector(object: &Object, kind: &Kind, errors: &mut Vec<FieldError>) {
    let found = at(object, &["spec", "selector"]).filter(|selector| !selector.is_null());
    let Some(found) = found else {
        errors.push(FieldError::required("spec.selector", ""));
        return;
    };
    selector::check("spec.selector", found, errors);
    if selector::is_empty(found) {
        let why = format!("empty selector is invalid for {}", kind.selecting);
        errors.push(FieldError::invalid("spec.selector", found, &why));
    }
}

/// Whether the pods of a template would be found by the selector. Without one, nothing is found.
pub(super) fn check_selected(object: &Object, errors: &mut Vec<FieldError>) {
    let selector = at(object, &["spec", "selector"]).unwrap_or(&Value::Null);
    let labels = at(object, &["spec", "template", "metadata", "labels"]).unwrap_or(&Value::Null);
    let everything = !selector.is_null() && selector::is_empty(selector);
    if selector.is_null() || (!everything && !selector::selects(selector, labels)) {
        let why = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid(format!("{TEMPLATE}.metadata.labels"), labels, why));
    }
}

/// A strategy as the original shows it in a refusal: by the names that its fields have inside.
pub(super) fn inner_strategy(strategy: &Value) -> Value {
    let update = strategy["rollingUpdate"].as_object().map(|fields| {
        let inner = |name: &String| name[..1].to_uppercase() + &name[1..];
        fields.iter().map(|(name, value)| (inner(name), value.clone())).collect::<Object>()
    });
    json!({ "Type": strategy["type"].as_str().unwrap_or_default(), "RollingUpdate": update })
}

pub(super) fn check(object: &Object, around: Around<'_>, errors: &mut Vec<FieldError>) {
    if let Some(Value::Object(metadata)) = at(object, &["spec", "template", "metadata"]) {
        meta_rules::validate_labels(metadata, TEMPLATE, errors);
    }
    pod_spec::validate(&format!("{TEMPLATE}.spec"), at(object, &["spec", "template", "spec"]), around, errors);
}

/// Pods of these kinds are started again whatever happens.
pub(super) fn check_runs_always(object: &Object, kind: &Kind, errors: &mut Vec<FieldError>) {
    let spec = at(object, &["spec", "template", "spec"]).unwrap_or(&Value::Null);
    if spec["restartPolicy"] != "Always" {
        let field = format!("{TEMPLATE}.spec.restartPolicy");
        errors.push(FieldError::unsupported(field, &spec["restartPolicy"], &["Always".into()]));
    }
    if !spec["activeDeadlineSeconds"].is_null() {
        let why = format!("activeDeadlineSeconds in {} is not Supported", kind.running);
        errors.push(FieldError::forbidden(format!("{TEMPLATE}.spec.activeDeadlineSeconds"), &why));
    }
}
