//! Events: what was noted about an object.

use serde_json::{Value, json};

use crate::apiserver::{
    event_forms::NEWER,
    names,
    object::{Meta, Object, text},
    resources::Rules,
    status::FieldError,
};

const SHORT: usize = 128;
const LONG: usize = 1024;

pub(super) struct EventRules;

impl Rules for EventRules {
    fn validate(&self, version: &str, object: &Object, errors: &mut Vec<FieldError>) {
        check_namespace_and_reporter(version, object, errors);
        // Whoever makes an Event of the newer form is held to it; older ones may be changed in that form.
        if version == NEWER && object.resource_version().is_empty() {
            check_new(object, errors);
        }
    }

    fn validate_change(&self, version: &str, new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
        if version != NEWER {
            return;
        }
        if new.get("series") != old.get("series") {
            check_series(new, errors);
        }
        for (name, shown) in FIXED {
            if new.get(name) != old.get(name) {
                let value = new.get(name).unwrap_or(&Value::Null);
                errors.push(FieldError::invalid(shown, value, "field is immutable"));
            }
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

/// What of an Event of the newer form stays as it is, and what the original calls it.
const FIXED: [(&str, &str); 13] = [
    ("involvedObject", "involvedObject"),
    ("reason", "reason"),
    ("message", "message"),
    ("source", "source"),
    ("firstTimestamp", "firstTimestamp"),
    ("lastTimestamp", "lastTimestamp"),
    ("count", "count"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("action", "action"),
    ("related", "related"),
    ("reportingComponent", "reportingController"),
    ("reportingInstance", "reportingInstance"),
];

fn check_series(event: &Object, errors: &mut Vec<FieldError>) {
    let Some(series) = event.get("series").filter(|series| !series.is_null()) else { return };
    if series["count"].as_i64().unwrap_or_default() < 2 {
        errors.push(FieldError::invalid("series.count", &json!(""), "should be at least 2"));
    }
    if series["lastObservedTime"].is_null() {
        errors.push(FieldError::required("series.lastObservedTime", ""));
    }
}

fn check_new(event: &Object, errors: &mut Vec<FieldError>) {
    check_series(event, errors);
    let stated = |name: &str| event.get(name).is_some_and(|value| !value.is_null());
    if !stated("eventTime") {
        errors.push(FieldError::required("eventTime", ""));
    }
    let kind = text(event, &["type"]);
    if !["Normal", "Warning"].contains(&kind) {
        errors.push(FieldError::invalid("type", &json!(""), &format!("has invalid value: {kind}")));
    }
    let has_source = ["component", "host"].iter().any(|name| !text(event, &["source", name]).is_empty());
    let outdated = [
        ("firstTimestamp", stated("firstTimestamp")),
        ("lastTimestamp", stated("lastTimestamp")),
        ("count", event.get("count").and_then(Value::as_i64).unwrap_or_default() != 0),
        ("source", has_source),
    ];
    for (name, _) in outdated.iter().filter(|(_, stated)| *stated) {
        errors.push(FieldError::invalid(*name, &json!(""), "needs to be unset"));
    }
}

fn check_namespace_and_reporter(version: &str, object: &Object, errors: &mut Vec<FieldError>) {
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
    check_reporter(version, object, errors);
}

/// Events of the newer kind say who tells them.
fn check_reporter(version: &str, object: &Object, errors: &mut Vec<FieldError>) {
    let field = if version == NEWER { "reportingController" } else { "reportingComponent" };
    let reporter = text(object, &["reportingComponent"]);
    if reporter.is_empty() {
        errors.push(FieldError::required(field, ""));
    }
    let wrong = names::qualified(reporter);
    errors.extend(wrong.iter().map(|why| FieldError::invalid(field, &json!(reporter), why)));
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
