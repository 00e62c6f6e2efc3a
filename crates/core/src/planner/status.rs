//! What the planner waits for, where people look: the conditions of the control plane and of the two Clusters.

use drover_api::cluster_api::cluster::conditions::CONTROL_PLANE_READY;
use drover_api::cluster_api::cluster::phases;
use drover_api::rancher::rke_control_plane::conditions;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::seen::Meta;
use super::{Act, Purpose, Target, View, Write, replacing};

/// Of a provisioning Cluster, beside those that it shares with its control plane.
const UPDATED: &str = "Updated";

pub fn publish(view: &View<'_>, waits_for: Option<&str>, now: Timestamp) -> Vec<Write> {
    let is_done = waits_for.is_none();
    let mut writes = Vec::new();
    let plane = view.control_plane;
    let mut more = json!({ "observedGeneration": plane.meta.generation });
    if is_done {
        more["appliedSpec"] = plane.spec_as_asked();
    }
    let told = [conditions::READY, conditions::RECONCILED];
    writes.extend(write(Target::ControlPlaneStatus, &plane.meta, &plane.status, &told, waits_for, more, now));
    let cluster = view.cluster;
    let more = json!({ "observedGeneration": cluster.meta.generation, "ready": is_done });
    let told = [UPDATED, conditions::PROVISIONED, conditions::RECONCILED, conditions::READY];
    writes.extend(write(Target::ClusterStatus, &cluster.meta, &cluster.status, &told, waits_for, more, now));
    if let Some(capi) = view.capi {
        let phase = if is_done { phases::PROVISIONED } else { phases::PROVISIONING };
        let more = json!({ "observedGeneration": capi.meta.generation, "phase": phase, "controlPlaneReady": is_done });
        let told = [CONTROL_PLANE_READY];
        writes.extend(write(Target::CapiClusterStatus, &capi.meta, &capi.status, &told, waits_for, more, now));
    }
    writes
}

/// None if it says so already. The resourceVersion guards it: conditions are written whole, with those of others.
fn write(
    target: Target,
    meta: &Meta,
    status: &Value,
    told: &[&str],
    waits_for: Option<&str>,
    more: Value,
    now: Timestamp,
) -> Option<Write> {
    let (state, reason, message) = match waits_for {
        Some(message) => ("Unknown", "Waiting", message),
        None => ("True", "", ""),
    };
    let before: Vec<Value> = status["conditions"].as_array().cloned().unwrap_or_default();
    let mut after = before.clone();
    for kind in told {
        let at = after.iter().position(|condition| condition["type"] == **kind);
        let old = at.map(|at| after[at].clone()).unwrap_or_default();
        let text = |field: &str| old[field].as_str().unwrap_or_default();
        if (text("status"), text("reason"), text("message")) == (state, reason, message) {
            continue;
        }
        let moment = format!("{now:.0}");
        let since = if text("status") == state { old["lastTransitionTime"].clone() } else { Value::Null };
        let since = if since.is_null() { json!(moment) } else { since };
        let condition = json!({
            "type": kind, "status": state, "reason": reason, "message": message, "lastTransitionTime": since,
            "lastUpdateTime": moment,
        });
        match at {
            Some(at) => after[at] = condition,
            None => after.push(condition),
        }
    }
    let says = |key: &String, value: &Value| status.get(key) == Some(value);
    let is_same = more.as_object().is_some_and(|more| more.iter().all(|(key, value)| says(key, value)));
    if after == before && is_same {
        return None;
    }
    let mut told = more.as_object().cloned().unwrap_or_default();
    for (key, value) in &mut told {
        *value = replacing(&status[key.as_str()], value);
    }
    told.insert("conditions".to_owned(), json!(after));
    let patch = json!({ "metadata": meta.guard(), "status": told });
    Some(Write { purpose: Purpose::PublishStatus, target, act: Act::Patch(patch) })
}
