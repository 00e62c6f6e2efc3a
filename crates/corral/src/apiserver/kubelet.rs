//! What a kubelet answers through `nodes/NAME/proxy`, derived from what is stored.

use drover_api::quantity;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    object::{Meta, Object, at, moment},
    store::Store,
};

/// What share of a disk is free, in percent: of an ordinary one, and of one that is said to run full.
const FREE: u64 = 60;
const FREE_UNDER_PRESSURE: u64 = 5;

/// The place of `spec.nodeName` among the fields that pods are selected by.
const NODE_NAME: usize = 0;

pub(super) enum Said {
    Json(Value),
    Text(&'static str),
}

/// None for what a kubelet does not have.
pub(super) fn answer(store: &Store, node: &Object, path: &str, now: Timestamp) -> Option<Said> {
    Some(match path.trim_matches('/') {
        "healthz" | "healthz/ping" | "healthz/syncloop" => Said::Text("ok"),
        "stats/summary" => Said::Json(summary(store, node, now)),
        "configz" => Said::Json(configz(node)),
        "pods" => {
            let items: Vec<_> = pods(store, node).map(Value::Object).collect();
            Said::Json(json!({ "kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items }))
        }
        _ => return None,
    })
}

fn pods<'a>(store: &'a Store, node: &'a Object) -> impl Iterator<Item = Object> + 'a {
    let all = store.find("", "pods").map(|pods| &pods.objects).into_iter().flatten();
    // Decoding every pod to find those of one node takes seconds where there are many.
    let on_node = all.filter(|(_, stored)| stored.fields.nth(NODE_NAME) == node.name());
    on_node.filter_map(|(_, stored)| stored.object().ok())
}

fn summary(store: &Store, node: &Object, now: Timestamp) -> Value {
    let time = moment(now);
    let capacity =
        |resource: &str| at(node, &["status", "capacity", resource]).and_then(Value::as_str).and_then(amount);
    let memory = capacity("memory").unwrap_or(8 << 30);
    let disk = capacity("ephemeral-storage").unwrap_or(100 << 30);
    let free = if has_pressure(node, "DiskPressure") { FREE_UNDER_PRESSURE } else { FREE };
    let available = disk / 100 * free;
    let file_system = json!({
        "time": time,
        "availableBytes": available,
        "capacityBytes": disk,
        "usedBytes": disk - available,
    });
    let started = node.meta("creationTimestamp").cloned().unwrap_or_default();
    json!({
        "node": {
            "nodeName": node.name(),
            "startTime": started,
            "cpu": { "time": time, "usageNanoCores": 0, "usageCoreNanoSeconds": 0 },
            "memory": {
                "time": time,
                "availableBytes": memory / 2,
                "usageBytes": memory / 2,
                "workingSetBytes": memory / 2,
            },
            "fs": file_system,
            "runtime": { "imageFs": file_system, "containerFs": file_system },
        },
        "pods": pods(store, node).map(|pod| pod_stats(&pod)).collect::<Vec<_>>(),
    })
}

fn pod_stats(pod: &Object) -> Value {
    let started = at(pod, &["status", "startTime"]).cloned().unwrap_or_default();
    let containers = at(pod, &["spec", "containers"]).and_then(Value::as_array).into_iter().flatten();
    let containers = containers.map(|container| json!({ "name": container["name"], "startTime": started }));
    json!({
        "podRef": { "name": pod.name(), "namespace": pod.namespace(), "uid": pod.uid() },
        "startTime": started,
        "containers": containers.collect::<Vec<_>>(),
    })
}

fn configz(node: &Object) -> Value {
    let max_pods = at(node, &["status", "capacity", "pods"]).and_then(Value::as_str).and_then(amount).unwrap_or(110);
    json!({
        "kubeletconfig": {
            "kind": "KubeletConfiguration",
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "maxPods": max_pods,
            "shutdownGracePeriod": "0s",
            "shutdownGracePeriodCriticalPods": "0s",
            "evictionHard": { "imagefs.available": "15%", "memory.available": "100Mi", "nodefs.available": "10%" },
        },
    })
}

fn has_pressure(node: &Object, kind: &str) -> bool {
    let conditions = at(node, &["status", "conditions"]).and_then(Value::as_array).into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// A quantity in whole units.
fn amount(text: &str) -> Option<u64> {
    quantity::count(text, 1).and_then(|units| u64::try_from(units).ok())
}
