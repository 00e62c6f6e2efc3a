//! Nodes, namespaces, events and other kinds that pods have no part in.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{NONE, UNKNOWN, UNSET, age, count, flag, list, name, number, text, text_or, texts};
use crate::apiserver::table::age::since;

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE: &str = "kubernetes.io/role";

pub(super) fn node(object: &Value, now: Timestamp) -> Vec<Value> {
    // Of conditions that are stated twice the last one counts.
    let ready = list(object, "/status/conditions").iter().rfind(|condition| condition["type"] == "Ready");
    let mut status = match ready {
        Some(condition) if condition["status"] == "True" => "Ready".to_string(),
        Some(_) => "NotReady".into(),
        None => "Unknown".into(),
    };
    if flag(object, "/spec/unschedulable") {
        status.push_str(",SchedulingDisabled");
    }
    let address = |kind: &str| {
        let found = list(object, "/status/addresses").iter().find(|address| address["type"] == kind);
        json!(found.map_or(NONE, |address| text(address, "/address")))
    };
    let software = |place: &str| json!(text_or(object, place, UNKNOWN));
    vec![
        name(object),
        json!(status),
        json!(roles(object)),
        age(object, now),
        json!(text(object, "/status/nodeInfo/kubeletVersion")),
        address("InternalIP"),
        address("ExternalIP"),
        software("/status/nodeInfo/osImage"),
        software("/status/nodeInfo/kernelVersion"),
        software("/status/nodeInfo/containerRuntimeVersion"),
    ]
}

fn roles(node: &Value) -> String {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    let mut roles: Vec<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix(ROLE_PREFIX) {
            Some(role) => Some(role),
            None if key == ROLE => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() { NONE.into() } else { roles.join(",") }
}

pub(super) fn namespace(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(text(object, "/status/phase")), age(object, now)]
}

pub(super) fn config_map(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(count(object, "/data") + count(object, "/binaryData")), age(object, now)]
}

pub(super) fn secret(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(text(object, "/type")), json!(count(object, "/data")), age(object, now)]
}

pub(super) fn service_account(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(count(object, "/secrets")), age(object, now)]
}

pub(super) fn lease(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(text(object, "/spec/holderIdentity")), age(object, now)]
}

pub(super) fn priority_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        json!(number(object, "/value")),
        json!(flag(object, "/globalDefault")),
        age(object, now),
        json!(text(object, "/preemptionPolicy")),
    ]
}

pub(super) fn runtime_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(text(object, "/handler")), age(object, now)]
}

/// Events have two forms, and this server keeps the older one; whichever field is set counts.
pub(super) fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    let either = |one: &str, other: &str| {
        let found = Some(text(object, one)).filter(|text| !text.is_empty());
        found.unwrap_or_else(|| text(object, other)).to_string()
    };
    let first = since(&either("/firstTimestamp", "/eventTime"), now);
    let last = match object.pointer("/series") {
        Some(series) => since(text(series, "/lastObservedTime"), now),
        None => match text(object, "/lastTimestamp") {
            "" => first.clone(),
            moment => since(moment, now),
        },
    };
    let count = match object.pointer("/series") {
        Some(series) => number(series, "/count"),
        None => number(object, "/count").max(1),
    };
    let kind = text(object, "/involvedObject/kind").to_lowercase();
    let about = match text(object, "/involvedObject/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let component = either("/source/component", "/reportingComponent");
    let source = match either("/source/host", "/reportingInstance").as_str() {
        "" => component,
        instance => format!("{component}, {instance}"),
    };
    vec![
        json!(last),
        json!(text(object, "/type")),
        json!(text(object, "/reason")),
        json!(about),
        json!(text(object, "/involvedObject/fieldPath")),
        json!(source),
        json!(text(object, "/message").trim()),
        json!(first),
        json!(count),
        name(object),
    ]
}

pub(super) fn webhooks(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(count(object, "/webhooks")), age(object, now)]
}

pub(super) fn admission_policy(object: &Value, now: Timestamp) -> Vec<Value> {
    let parameters = object.pointer("/spec/paramKind");
    let parameters = parameters.map(|kind| format!("{}/{}", text(kind, "/apiVersion"), text(kind, "/kind")));
    let parameters = parameters.unwrap_or_else(|| UNSET.into());
    vec![name(object), json!(count(object, "/spec/validations")), json!(parameters), age(object, now)]
}

pub(super) fn admission_policy_binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let parameters = match text(object, "/spec/paramRef/name") {
        "" => UNSET.into(),
        name => format!("{}/{name}", text_or(object, "/spec/paramRef/namespace", "*")),
    };
    vec![name(object), json!(text(object, "/spec/policyName")), json!(parameters), age(object, now)]
}

pub(super) fn role_binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let role = format!("{}/{}", text(object, "/roleRef/kind"), text(object, "/roleRef/name"));
    let subjects = |kind: &str| -> Vec<Value> {
        list(object, "/subjects").iter().filter(|subject| subject["kind"] == kind).cloned().collect()
    };
    let accounts: Vec<_> = subjects("ServiceAccount")
        .iter()
        .map(|account| format!("{}/{}", text(account, "/namespace"), text(account, "/name")))
        .collect();
    vec![
        name(object),
        json!(role),
        age(object, now),
        json!(texts(&subjects("User"), "name").join(", ")),
        json!(texts(&subjects("Group"), "name").join(", ")),
        json!(accounts.join(", ")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cordoned_node_says_so_beside_being_ready() {
        let object = json!({
            "metadata": { "name": "a", "labels": { "node-role.kubernetes.io/etcd": "", "kubernetes.io/role": "control-plane" } },
            "spec": { "unschedulable": true },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        let cells = node(&object, Timestamp::UNIX_EPOCH);
        assert_eq!(cells[1], "Ready,SchedulingDisabled");
        assert_eq!(cells[2], "control-plane,etcd");
    }
}
