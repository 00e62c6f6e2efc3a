//! The status: phase, version, machines and Nodes, what differs, what is waited for.

use std::collections::BTreeMap;

use drover_api::foreign::LooseCondition;
use drover_api::tanzu::tanzu_kubernetes_cluster::{conditions, node_states, phases, vm_states};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::{Reason, View, Wait, creation, text};
use crate::decision::Act;
use crate::guest::seen::Collection;
use crate::guest::wait::Write;

/// What was found out about a cluster.
#[derive(Debug, Default)]
pub struct Findings {
    /// What differs from what is asked for, in sentences.
    pub differences: Vec<String>,
    pub waits: Vec<Wait>,
    /// It is on its way from one state to another.
    pub moves: bool,
    /// The version that is asked for, in full.
    pub version: Option<String>,
    /// How add-ons stand; none if that cannot be said.
    pub addons: Option<Value>,
    /// The guest is to be asked for other add-ons than it was.
    pub asks_guest: bool,
    /// The guest is to be asked again after a while.
    pub asks_again: bool,
    /// There is something to begin with.
    pub wants: bool,
    /// It is made, and was never there before.
    pub creates: bool,
}

/// Written only if it says something else than what stands there.
pub fn status(view: &View<'_>, found: &Findings) -> Option<Write> {
    let before = &view.tkc["status"];
    let after = described(view, found);
    let patch = merge(before, &after);
    let is_same = patch.as_object().is_none_or(serde_json::Map::is_empty);
    (!is_same).then(|| Write {
        object: view.object(),
        act: Act::PatchStatus(json!({
            "metadata": { "resourceVersion": view.tkc["metadata"]["resourceVersion"] }, "status": patch,
        })),
        purpose: "publish how far a cluster is",
    })
}

/// The whole status: what is not ours stays.
fn described(view: &View<'_>, found: &Findings) -> Value {
    let mut status = if view.tkc["status"].is_object() { view.tkc["status"].clone() } else { json!({}) };
    if let Some(phase) = phase(view, found) {
        status["phase"] = json!(phase);
    }
    // What runs, until everything is as it is asked for.
    if let Some(version) = found.version.as_ref().filter(|_| phase(view, found) == Some(phases::RUNNING)) {
        status["version"] = json!(version);
    }
    if let Some(addons) = &found.addons {
        status["addons"] = addons.clone();
    }
    put(&mut status, "nodeStatus", json!(nodes(view)));
    put(&mut status, "vmStatus", json!(virtual_machines(view)));
    // That of an earlier cluster of the name is no sign that this one was ever there.
    if let Some(cluster) = view.cluster().filter(|cluster| !creation::is_anothers(view, cluster)) {
        let mut mirror = json!({});
        for field in ["apiEndpoints", "errorReason", "errorMessage", "phase"] {
            if !cluster["status"][field].is_null() {
                mirror[field] = cluster["status"][field].clone();
            }
        }
        put(&mut status, "clusterApiStatus", mirror);
    }
    put(&mut status, "differences", json!(found.differences));
    put(&mut status, "waits", json!(found.waits.iter().map(published).collect::<Vec<_>>()));
    put(&mut status, "conditions", json!(told(view, found)));
    status
}

/// What is empty is not there.
fn put(status: &mut Value, field: &str, value: Value) {
    let is_empty = value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(|all| all.is_empty());
    match status.as_object_mut() {
        Some(status) if is_empty => drop(status.remove(field)),
        Some(status) => drop(status.insert(field.to_owned(), value)),
        None => {}
    }
}

fn phase(view: &View<'_>, found: &Findings) -> Option<&'static str> {
    let is_up = view.cluster().is_some_and(|cluster| cluster["status"]["controlPlaneInitialized"] == true);
    let is_lost = found.waits.iter().any(|wait| wait.reason == Reason::ClusterMissing);
    let is_stopped = found.waits.iter().any(|wait| wait.reason.stops());
    match () {
        () if !view.tkc["metadata"]["deletionTimestamp"].is_null() => Some(phases::DELETING),
        // Nothing runs any more, and nothing is on its way.
        () if is_lost || found.creates && is_stopped => Some(phases::FAILED),
        () if found.creates => Some(phases::CREATING),
        () if is_stopped => Some(phases::UPDATE_FAILED),
        () if !found.differences.is_empty() || found.moves => Some(phases::UPDATING),
        () if is_up => Some(phases::RUNNING),
        () => None,
    }
}

/// By the name of the Node, or of the Machine that is none yet.
fn nodes(view: &View<'_>) -> BTreeMap<String, &'static str> {
    let all = view.machines(true).chain(view.machines(false)).map(|machine| {
        let node = machine["status"]["nodeRef"]["name"].as_str();
        let state = match node.map(|node| view.nodes.and_then(|nodes| nodes.get(node))) {
            None => node_states::PENDING,
            Some(Some(true)) => node_states::READY,
            Some(Some(false)) => node_states::NOT_READY,
            Some(None) => node_states::UNKNOWN,
        };
        (node.unwrap_or_else(|| text(&machine["metadata"]["name"])).to_owned(), state)
    });
    all.collect()
}

/// Whether a Node is not ready as far as is known: that it is so again is seen in the guest alone.
pub(super) fn awaits_a_node(view: &View<'_>) -> bool {
    nodes(view).values().any(|state| *state == node_states::NOT_READY)
}

/// By the name of the virtual machine, which is that of the Machine.
fn virtual_machines(view: &View<'_>) -> BTreeMap<String, String> {
    let all = view.machines(true).chain(view.machines(false)).map(|machine| {
        let reference = &machine["spec"]["infrastructureRef"];
        let key = format!("{}/{}", text(&reference["kind"]), text(&reference["name"]));
        let state = match view.own.get(Collection::Infrastructure, &key) {
            None => vm_states::NOT_FOUND.to_owned(),
            Some(one) if !one["metadata"]["deletionTimestamp"].is_null() => vm_states::DELETING.to_owned(),
            Some(one) => one["status"]["vmstatus"].as_str().unwrap_or(vm_states::PENDING).to_owned(),
        };
        (text(&machine["metadata"]["name"]).to_owned(), state)
    });
    all.collect()
}

fn published(wait: &Wait) -> Value {
    let mut shown = json!({
        "subject": wait.subject.to_string(), "reason": wait.reason, "sentence": wait.sentence,
        "since": Time(whole(wait.since)),
    });
    if let Some(deadline) = wait.deadline {
        shown["deadline"] = json!(Time(whole(deadline)));
    }
    if let Some(waited) = wait.spent.and_then(|spent| spent.told()) {
        shown["waitedSeconds"] = json!(waited);
    }
    if let Some(remedy) = &wait.remedy {
        shown["remedy"] = json!(remedy);
    }
    shown
}

/// Kubernetes keeps whole seconds.
pub fn whole(moment: Timestamp) -> Timestamp {
    Timestamp::from_second(moment.as_second()).unwrap_or(moment)
}

fn told(view: &View<'_>, found: &Findings) -> Vec<LooseCondition> {
    let known: Vec<LooseCondition> =
        serde_json::from_value(view.tkc["status"]["conditions"].clone()).unwrap_or_default();
    let holds = |reasons: &[Reason]| found.waits.iter().find(|wait| reasons.contains(&wait.reason));
    let of_control_plane = [
        Reason::ClusterMissing,
        Reason::ControlPlaneComing,
        Reason::CreationFailed,
        Reason::CountRefused,
        Reason::CountDiffers,
        Reason::ControlPlaneUpdating,
        Reason::JobNotStarted,
        Reason::ControlPlaneUpdateFailed,
    ];
    let of_workers = [
        Reason::WorkersUnclear,
        Reason::WorkersPaused,
        Reason::WorkersRolling,
        Reason::MachineProvisioning,
        Reason::MachineDeleting,
        Reason::NodeNotReady,
        Reason::MachinesNotMade,
        Reason::WorkersFailed,
        Reason::ControlPlaneFirst,
    ];
    let stop = found.waits.iter().find(|wait| wait.reason.stops());
    let first = stop.or(found.waits.first());
    let mut all = vec![
        state(conditions::CONTROL_PLANE_READY, holds(&of_control_plane)),
        state(conditions::NODE_POOLS_READY, holds(&of_workers)),
        state(conditions::ADDONS_READY, holds(&[Reason::AddonsNotApplied])),
        state(conditions::READY, first),
        progress(found, stop, first),
    ];
    for one in &mut all {
        let same = known.iter().find(|known| known.type_ == one.type_ && known.status == one.status);
        let since = same.and_then(|known| known.last_transition_time.clone());
        one.last_transition_time = Some(since.unwrap_or_else(|| whole(view.now).to_string()));
    }
    // Those of others stay.
    all.extend(known.into_iter().filter(|known| !conditions::ALL.contains(&known.type_.as_str())));
    all
}

fn state(kind: &str, held: Option<&Wait>) -> LooseCondition {
    LooseCondition {
        type_: kind.to_owned(),
        status: if held.is_none() { "True" } else { "False" }.to_owned(),
        reason: held.map(|wait| wait.reason.to_string()),
        message: held.map(|wait| wait.sentence.clone()),
        ..LooseCondition::default()
    }
}

/// Whether it is on its way; what differs stands here as well, for definitions that know no other field.
fn progress(found: &Findings, stop: Option<&Wait>, first: Option<&Wait>) -> LooseCondition {
    let moves = found.moves || !found.differences.is_empty();
    let said = found.differences.iter().cloned().chain(first.map(|wait| wait.sentence.clone()));
    let said: Vec<String> = said.collect();
    LooseCondition {
        type_: conditions::PROGRESSING.to_owned(),
        status: if moves && stop.is_none() { "True" } else { "False" }.to_owned(),
        reason: Some(
            first.map_or(if moves { "Updating" } else { "UpToDate" }.to_owned(), |wait| wait.reason.to_string()),
        ),
        message: (!said.is_empty()).then(|| said.join("; ")),
        ..LooseCondition::default()
    }
}

/// The merge patch (RFC 7396) that makes one object of another; empty if they are the same.
fn merge(before: &Value, after: &Value) -> Value {
    let mut patch = serde_json::Map::new();
    let (none, empty) = (serde_json::Map::new(), Value::Null);
    let (one, other) = (before.as_object().unwrap_or(&none), after.as_object().unwrap_or(&none));
    for key in one.keys().filter(|key| !other.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in other {
        let known = one.get(key).unwrap_or(&empty);
        if known == value {
            continue;
        }
        let patched = if known.is_object() && value.is_object() { merge(known, value) } else { value.clone() };
        patch.insert(key.clone(), patched);
    }
    Value::Object(patch)
}
