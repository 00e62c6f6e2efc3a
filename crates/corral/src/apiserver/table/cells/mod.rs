//! What each built-in kind shows in a table, cell by cell, as the original prints it.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;
use crate::apiserver::resources::ResourceId;

mod cluster;
mod control;
mod network;
mod pod;
mod storage;
mod workloads;

pub(super) use self::pod::conditions as pod_conditions;

/// The cells of one object, in the order of its kind's columns.
pub(super) type Cells = fn(&Value, Timestamp) -> Vec<Value>;

const NONE: &str = "<none>";
const UNSET: &str = "<unset>";
const UNKNOWN: &str = "<unknown>";

/// How objects of a kind are printed; none for a kind that shows no more than its name and its age.
pub(super) fn of(id: &ResourceId) -> Option<Cells> {
    Some(match (id.group.as_str(), id.plural.as_str()) {
        ("", "configmaps") => cluster::config_map,
        ("", "endpoints") => network::endpoints,
        ("" | "events.k8s.io", "events") => cluster::event,
        ("", "namespaces") => cluster::namespace,
        ("", "nodes") => cluster::node,
        ("", "persistentvolumeclaims") => storage::claim,
        ("", "persistentvolumes") => storage::volume,
        ("", "pods") => pod::cells,
        ("", "resourcequotas") => control::quota,
        ("", "podtemplates") => workloads::pod_template,
        ("", "replicationcontrollers") => workloads::replication_controller,
        ("", "secrets") => cluster::secret,
        ("", "serviceaccounts") => cluster::service_account,
        ("", "services") => network::service,
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations" | "validatingwebhookconfigurations") => {
            cluster::webhooks
        }
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => cluster::admission_policy,
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings") => cluster::admission_policy_binding,
        ("apiregistration.k8s.io", "apiservices") => control::api_service,
        ("apps", "controllerrevisions") => workloads::controller_revision,
        ("apps", "daemonsets") => workloads::daemon_set,
        ("apps", "deployments") => workloads::deployment,
        ("apps", "replicasets") => workloads::replica_set,
        ("apps", "statefulsets") => workloads::stateful_set,
        ("autoscaling", "horizontalpodautoscalers") => control::autoscaler,
        ("batch", "cronjobs") => workloads::cron_job,
        ("batch", "jobs") => workloads::job,
        ("certificates.k8s.io", "certificatesigningrequests") => control::certificate_request,
        ("coordination.k8s.io", "leases") => cluster::lease,
        ("discovery.k8s.io", "endpointslices") => network::endpoint_slice,
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => control::flow_schema,
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => control::priority_level,
        ("networking.k8s.io", "ingressclasses") => network::ingress_class,
        ("networking.k8s.io", "ingresses") => network::ingress,
        ("networking.k8s.io", "networkpolicies") => network::network_policy,
        ("networking.k8s.io", "servicecidrs") => network::service_cidr,
        ("node.k8s.io", "runtimeclasses") => cluster::runtime_class,
        ("policy", "poddisruptionbudgets") => workloads::budget,
        ("rbac.authorization.k8s.io", "clusterrolebindings" | "rolebindings") => cluster::role_binding,
        ("resource.k8s.io", "deviceclasses" | "resourceclaimtemplates") => control::name_and_age,
        ("resource.k8s.io", "resourceclaims") => control::resource_claim,
        ("resource.k8s.io", "resourceslices") => control::resource_slice,
        ("scheduling.k8s.io", "priorityclasses") => cluster::priority_class,
        ("storage.k8s.io", "csidrivers") => storage::driver,
        ("storage.k8s.io", "csinodes") => storage::node,
        ("storage.k8s.io", "storageclasses") => storage::class,
        ("storage.k8s.io", "volumeattachments") => storage::attachment,
        ("storage.k8s.io", "volumeattributesclasses") => storage::attributes_class,
        // These have no printer of their own in the original.
        ("", "limitranges")
        | ("apiextensions.k8s.io", "customresourcedefinitions")
        | ("rbac.authorization.k8s.io", "clusterroles" | "roles")
        | ("storage.k8s.io", "csistoragecapacities") => created_at,
        _ => return None,
    })
}

fn created_at(object: &Value, _: Timestamp) -> Vec<Value> {
    vec![name(object), json!(text(object, "/metadata/creationTimestamp"))]
}

pub(super) fn name(object: &Value) -> Value {
    json!(text(object, "/metadata/name"))
}

pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    json!(age::since(text(object, "/metadata/creationTimestamp"), now))
}

fn text<'a>(object: &'a Value, place: &str) -> &'a str {
    object.pointer(place).and_then(Value::as_str).unwrap_or_default()
}

/// The text at a place, or a word for that there is none.
fn text_or<'a>(object: &'a Value, place: &str, otherwise: &'a str) -> &'a str {
    Some(text(object, place)).filter(|text| !text.is_empty()).unwrap_or(otherwise)
}

fn number(object: &Value, place: &str) -> i64 {
    object.pointer(place).and_then(Value::as_i64).unwrap_or_default()
}

fn flag(object: &Value, place: &str) -> bool {
    object.pointer(place).and_then(Value::as_bool).unwrap_or_default()
}

fn list<'a>(object: &'a Value, place: &str) -> &'a [Value] {
    object.pointer(place).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// How many entries a list or a map has.
fn count(object: &Value, place: &str) -> usize {
    match object.pointer(place) {
        Some(Value::Array(items)) => items.len(),
        Some(Value::Object(fields)) => fields.len(),
        _ => 0,
    }
}

/// The texts that a list holds, or holds in one field of each element.
fn texts<'a>(items: &'a [Value], field: &str) -> Vec<&'a str> {
    let one = |item: &'a Value| if field.is_empty() { item } else { &item[field] };
    items.iter().map(|item| one(item).as_str().unwrap_or_default()).collect()
}

/// The names and the images of containers.
fn containers(object: &Value, place: &str) -> [Value; 2] {
    let containers = list(object, place);
    ["name", "image"].map(|field| json!(texts(containers, field).join(",")))
}

fn is_deleting(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

/// Whether a condition holds.
fn has_condition(object: &Value, kind: &str) -> bool {
    let found = list(object, "/status/conditions").iter().find(|condition| condition["type"] == kind);
    found.is_some_and(|condition| condition["status"] == "True")
}

/// `a=b,c=d`
fn labels(map: Option<&Value>) -> String {
    let pairs = map.and_then(Value::as_object).into_iter().flatten();
    let pairs: Vec<_> = pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    if pairs.is_empty() { NONE.into() } else { pairs.join(",") }
}

/// A selector as people write it; a missing one selects nothing, and an empty one everything.
fn selector(selector: Option<&Value>) -> String {
    let Some(selector) = selector else { return NONE.into() };
    // By key, as the original sorts them.
    let mut parts: Vec<(&str, String)> = vec![];
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        parts.push((key, format!("{key}={}", value.as_str().unwrap_or_default())));
    }
    for expression in list(selector, "/matchExpressions") {
        let key = text(expression, "/key");
        let mut values = texts(list(expression, "/values"), "");
        values.sort_unstable();
        let values = values.join(",");
        let shown = match text(expression, "/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_string(),
            "DoesNotExist" => format!("!{key}"),
            _ => return "<error>".into(),
        };
        parts.push((key, shown));
    }
    parts.sort_by(|left, right| left.0.cmp(right.0));
    let parts: Vec<_> = parts.into_iter().map(|(_, shown)| shown).collect();
    if parts.is_empty() { NONE.into() } else { parts.join(",") }
}

/// At most three entries, and how many more there are.
fn at_most_three(entries: &[String]) -> String {
    let shown = entries[..entries.len().min(3)].join(",");
    match entries.len() {
        0 => UNSET.into(),
        1..=3 => shown,
        count => format!("{shown} + {} more...", count - 3),
    }
}
