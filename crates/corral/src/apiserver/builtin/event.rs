//! Events: what was noted about an object.

use serde_json::{Value, json};

use crate::apiserver::{
    names,
    object::{Meta, Object, text},
    resources::Rules,
    status::FieldError,
};

const SHORT: usize = 128;
const LONG: usize = 1024;

pub(super) struct EventRules;

impl Rules for EventRules {
    fn validate(&self, _version: &str, object: &Object, errors: &mut Vec<FieldError>) {
        let about = text(object, &["involvedObject", "namespace"]);
        let astray = || {
            let why = "does not match event.namespace";
            FieldError::invalid("involvedObject.namespace", &json!(about), why)
        };
        if object.get("eventTime").is_none_or(Value::is_null) {
            // What is noted about objects without a namespace is kept in the default one.
            let expected = if about.is_empty() { "default" } else { about };
            if object.namespace() != expected {
                errors.push(astray());
            }
            return;
        }
        if about.is_empty() && !["default", "kube-system"].contains(&object.namespace()) {
            errors.push(astray());
        }
        check_reporter(object, errors);
    }

    fn selectable(&self) -> &[&'static str] {
        &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "type",
            "source.component",
        ]
    }
}

/// Events of the newer kind say who tells them.
fn check_reporter(object: &Object, errors: &mut Vec<FieldError>) {
    let reporter = text(object, &["reportingComponent"]);
    if reporter.is_empty() {
        errors.push(FieldError::required("reportingComponent", ""));
    }
    let wrong = names::qualified(reporter);
    errors.extend(wrong.iter().map(|why| FieldError::invalid("reportingComponent", &json!(reporter), why)));
    for name in ["reportingInstance", "action", "reason"] {
        match text(object, &[name]).len() {
            0 => errors.push(FieldError::required(name, "")),
            length if length > SHORT => {
                errors.push(FieldError::invalid(name, &json!(""), &format!("can have at most {SHORT} characters")));
            }
            _ => {}
        }
    }
    if text(object, &["message"]).len() > LONG {
        errors.push(FieldError::invalid("message", &json!(""), &format!("can have at most {LONG} characters")));
    }
}
