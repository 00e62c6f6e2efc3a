//! What decides over others: autoscalers, requests for certificates, shares of the server, quotas, devices.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{NONE, UNKNOWN, UNSET, age, is_deleting, list, name, number, text, text_or};
use crate::apiserver::table::age::duration;

/// More metrics than these are only counted.
const METRICS_SHOWN: usize = 2;

pub(super) fn autoscaler(object: &Value, now: Timestamp) -> Vec<Value> {
    let target = format!("{}/{}", text(object, "/spec/scaleTargetRef/kind"), text(object, "/spec/scaleTargetRef/name"));
    let least = object.pointer("/spec/minReplicas").map_or(UNSET.into(), Value::to_string);
    vec![
        name(object),
        json!(target),
        json!(metrics(object)),
        json!(least),
        json!(number(object, "/spec/maxReplicas")),
        json!(number(object, "/status/currentReplicas")),
        age(object, now),
    ]
}

fn metrics(autoscaler: &Value) -> String {
    let measured = list(autoscaler, "/status/currentMetrics");
    let stated = list(autoscaler, "/spec/metrics").iter().enumerate();
    let all: Vec<_> = stated.map(|(place, metric)| one_metric(metric, measured.get(place))).collect();
    match all.len() {
        0 => NONE.into(),
        count if count > METRICS_SHOWN => {
            format!("{} + {} more...", all[..METRICS_SHOWN].join(", "), count - METRICS_SHOWN)
        }
        _ => all.join(", "),
    }
}

/// `cpu: 40%/80%`, what was measured before what is aimed at.
fn one_metric(metric: &Value, measured: Option<&Value>) -> String {
    let kind = match text(metric, "/type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".into(),
    };
    let target = |name: &str| metric[kind]["target"].get(name);
    let current = |name: &str| measured.and_then(|measured| measured.get(kind)?["current"].get(name));
    let shown = |value: Option<&Value>, otherwise: &str| match value {
        Some(Value::String(amount)) => amount.clone(),
        Some(percent) => format!("{percent}%"),
        None => otherwise.into(),
    };
    let pair =
        |name: &str, otherwise: &str| format!("{}/{}", shown(current(name), UNKNOWN), shown(target(name), otherwise));
    match kind {
        "resource" | "containerResource" => {
            let by = if target("averageValue").is_some() { "averageValue" } else { "averageUtilization" };
            format!("{}: {}", text(&metric[kind], "/name"), pair(by, "<auto>"))
        }
        "pods" => pair("averageValue", "0"),
        _ if target("averageValue").is_some() => format!("{} (avg)", pair("averageValue", "0")),
        _ => pair("value", "0"),
    }
}

pub(super) fn api_service(object: &Value, now: Timestamp) -> Vec<Value> {
    let service = match object.pointer("/spec/service").is_some_and(Value::is_object) {
        true => format!("{}/{}", text(object, "/spec/service/namespace"), text(object, "/spec/service/name")),
        false => "Local".into(),
    };
    let available = list(object, "/status/conditions").iter().find(|condition| condition["type"] == "Available");
    let available = available.map_or("Unknown".into(), |condition| {
        match (text(condition, "/status"), text(condition, "/reason")) {
            ("True", _) => "True".into(),
            (status, "") => status.to_string(),
            (status, reason) => format!("{status} ({reason})"),
        }
    });
    vec![name(object), json!(service), json!(available), age(object, now)]
}

pub(super) fn certificate_request(object: &Value, now: Timestamp) -> Vec<Value> {
    let lasts = object.pointer("/spec/expirationSeconds").and_then(Value::as_i64);
    vec![
        name(object),
        age(object, now),
        json!(text_or(object, "/spec/signerName", NONE)),
        json!(text(object, "/spec/username")),
        json!(lasts.map_or(NONE.into(), duration)),
        json!(decision(object)),
    ]
}

fn decision(request: &Value) -> String {
    let has = |kind: &str| list(request, "/status/conditions").iter().any(|condition| condition["type"] == kind);
    let mut decision = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_string();
    if has("Failed") {
        decision.push_str(",Failed");
    }
    if !text(request, "/status/certificate").is_empty() {
        decision.push_str(",Issued");
    }
    decision
}

pub(super) fn flow_schema(object: &Value, now: Timestamp) -> Vec<Value> {
    let conditions = list(object, "/status/conditions");
    let dangling = conditions.iter().find(|condition| condition["type"] == "Dangling");
    vec![
        name(object),
        json!(text(object, "/spec/priorityLevelConfiguration/name")),
        json!(number(object, "/spec/matchingPrecedence")),
        json!(text_or(object, "/spec/distinguisherMethod/type", NONE)),
        age(object, now),
        json!(dangling.map_or("?", |condition| text(condition, "/status"))),
    ]
}

pub(super) fn priority_level(object: &Value, now: Timestamp) -> Vec<Value> {
    let stated = |place: &str| object.pointer(place).cloned().unwrap_or_else(|| json!(NONE));
    vec![
        name(object),
        json!(text(object, "/spec/type")),
        stated("/spec/limited/nominalConcurrencyShares"),
        stated("/spec/limited/limitResponse/queuing/queues"),
        stated("/spec/limited/limitResponse/queuing/handSize"),
        stated("/spec/limited/limitResponse/queuing/queueLengthLimit"),
        age(object, now),
    ]
}

/// What is used of what there may be, requests and limits apart.
pub(super) fn quota(object: &Value, now: Timestamp) -> Vec<Value> {
    let hard = object.pointer("/status/hard").and_then(Value::as_object);
    let (limits, requests): (Vec<_>, Vec<_>) =
        hard.into_iter().flatten().partition(|(resource, _)| resource.starts_with("limits."));
    let shown = |amounts: Vec<(&String, &Value)>| {
        let shown = amounts.into_iter().map(|(resource, most)| {
            let used = object["status"]["used"].get(resource).and_then(Value::as_str).unwrap_or("0");
            format!("{resource}: {used}/{}", most.as_str().unwrap_or_default())
        });
        json!(shown.collect::<Vec<_>>().join(", "))
    };
    vec![name(object), shown(requests), shown(limits), age(object, now)]
}

pub(super) fn name_and_age(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), age(object, now)]
}

pub(super) fn resource_claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let allocated = object.pointer("/status/allocation").is_some_and(Value::is_object);
    let states = [
        (is_deleting(object), "deleted"),
        (!allocated && !is_deleting(object), "pending"),
        (allocated, "allocated"),
        (allocated && !list(object, "/status/reservedFor").is_empty(), "reserved"),
    ];
    let states: Vec<_> = states.iter().filter(|(holds, _)| *holds).map(|(_, state)| *state).collect();
    vec![name(object), json!(states.join(",")), age(object, now)]
}

pub(super) fn resource_slice(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        json!(text(object, "/spec/nodeName")),
        json!(text(object, "/spec/driver")),
        json!(text(object, "/spec/pool/name")),
        age(object, now),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_shown_with_what_was_measured_of_it() {
        let processors = json!({ "type": "Resource", "resource": {
            "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 80 } } });
        let measured =
            json!({ "type": "Resource", "resource": { "name": "cpu", "current": { "averageUtilization": 40 } } });
        assert_eq!(one_metric(&processors, Some(&measured)), "cpu: 40%/80%");
        assert_eq!(one_metric(&processors, None), "cpu: <unknown>/80%");
        let queue = json!({ "type": "External", "external": { "target": { "averageValue": "5" } } });
        assert_eq!(one_metric(&queue, None), "<unknown>/5 (avg)");
    }
}
