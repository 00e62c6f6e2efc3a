//! Bugs in what an operator sees.

use serde_json::{Value, json};

use super::{Sabotage, guests, harvester};

/// The kind of objects that are shown otherwise.
pub(super) fn plural(sabotage: Sabotage) -> Option<&'static str> {
    Some(match sabotage {
        Sabotage::ReadyAssumed | Sabotage::NodeEventsLost => "nodes",
        Sabotage::SelectorIgnored | Sabotage::LimitOffByOne | Sabotage::LimitIgnored | Sabotage::WindowIgnored => {
            "plans"
        }
        Sabotage::SecretAssumed => "plans",
        Sabotage::JobEventsLost
        | Sabotage::JobAssumedComplete
        | Sabotage::FailureTakenForSuccess
        | Sabotage::FailureNotNoticed
        | Sabotage::OthersNotNoticed => "jobs",
        other => return harvester::plural(other).or_else(|| guests::plural(other)),
    })
}

/// Whether the change of an object is not told.
pub(super) fn swallows(sabotage: Sabotage, object: &Value) -> bool {
    match sabotage {
        // That it is away is told, and not that it is back.
        Sabotage::NodeEventsLost => is(object, "Ready"),
        Sabotage::JobEventsLost => is(object, "Complete"),
        _ => false,
    }
}

/// Changes an object as it is shown; false if it is not shown at all.
pub(super) fn show(sabotage: Sabotage, object: &mut Value) -> bool {
    match sabotage {
        Sabotage::ReadyAssumed => set(object, "Ready", "True"),
        Sabotage::SelectorIgnored => object["spec"]["nodeSelector"] = json!({}),
        Sabotage::LimitOffByOne => {
            object["spec"]["concurrency"] = json!(object["spec"]["concurrency"].as_i64().unwrap_or(0) + 1);
        }
        Sabotage::LimitIgnored => object["spec"]["concurrency"] = json!(1000),
        Sabotage::WindowIgnored => remove(object, "window"),
        Sabotage::SecretAssumed => {
            // By a pointer: an index would add what is not there.
            for secret in object.pointer_mut("/spec/secrets").and_then(Value::as_array_mut).into_iter().flatten() {
                secret["ignoreUpdates"] = json!(true);
            }
        }
        Sabotage::JobAssumedComplete => {
            object["status"]["conditions"] = json!([{ "type": "Complete", "status": "True" }]);
        }
        Sabotage::FailureTakenForSuccess if is(object, "Failed") => {
            object["status"]["conditions"] = json!([{ "type": "Complete", "status": "True" }]);
        }
        Sabotage::FailureNotNoticed if is(object, "Failed") => object["status"]["conditions"] = json!([]),
        Sabotage::OthersNotNoticed => return object["metadata"]["labels"]["drover.dev/claim"].is_string(),
        other => {
            harvester::show(other, object);
            return guests::show(other, object);
        }
    }
    true
}

fn is(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| condition["type"] == kind && condition["status"] == "True")
}

pub(super) fn set(object: &mut Value, kind: &str, status: &str) {
    let conditions = object["status"]["conditions"].as_array_mut();
    for condition in conditions.into_iter().flatten().filter(|condition| condition["type"] == kind) {
        condition["status"] = json!(status);
    }
}

fn remove(object: &mut Value, field: &str) {
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.remove(field);
    }
}
