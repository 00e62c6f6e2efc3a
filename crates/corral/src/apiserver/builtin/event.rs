//! Events: what was noted about an object.

use serde_json::json;

use crate::apiserver::{
    object::{Meta, Object, text},
    resources::Rules,
    status::FieldError,
};

pub(super) struct EventRules;

impl Rules for EventRules {
    fn validate(&self, _version: &str, object: &Object, errors: &mut Vec<FieldError>) {
        let about = text(object, &["involvedObject", "namespace"]);
        // What is noted about objects without a namespace is kept in the default one.
        let expected = if about.is_empty() { "default" } else { about };
        if object.namespace() != expected && object.namespace() != "kube-system" {
            let why = "does not match event.namespace";
            errors.push(FieldError::invalid("involvedObject.namespace", &json!(about), why));
        }
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
