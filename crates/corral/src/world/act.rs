//! Doing what the parts of the world decide.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, ReplicaSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::PropagationPolicy;
use kube::core::Status;
use serde_json::{Value, json};

use super::garbage::{Header, Verdict};
use super::job::TRACKING;
use super::kubelet;
use super::outcome::Action;
use super::pods;
use crate::apiserver::{Answer, Direct, Kind, ResourceId};

/// How often a change that holds whatever else has changed is tried anew when somebody else was faster.
const TRIES: usize = 10;

pub fn perform(direct: &Direct, action: &Action, now: Timestamp) -> Answer<()> {
    match action {
        Action::CreatePod(pod) => direct.create(&**pod).map(drop),
        Action::PodStatus(pod) => direct.update_status(&**pod).map(drop),
        Action::BindPod { namespace, name, node } => direct.bind(namespace, name, node),
        Action::ReleasePod { namespace, name } => change::<Pod>(direct, Some(namespace), name, Direct::update, |pod| {
            let finalizers = pod.metadata.finalizers.get_or_insert_default();
            finalizers.retain(|finalizer| finalizer != TRACKING);
        })
        .or_else(if_not_gone),
        Action::DeletePod { namespace, name, uid } => {
            direct.delete::<Pod>(Some(namespace), name, Some(uid)).or_else(if_not_gone)
        }
        Action::RemovePod { namespace, name, uid } => {
            direct.delete_now::<Pod>(Some(namespace), name, Some(uid)).or_else(if_not_gone)
        }
        Action::JobStatus(job) => direct.update_status(&**job).map(drop),
        Action::DeleteJob { namespace, name, uid } => {
            let jobs = ResourceId::new("batch", "jobs", "Job");
            direct.delete_object(&jobs, namespace, name, uid, PropagationPolicy::Foreground).or_else(if_not_gone)
        }
        Action::NodeStatus(node) => direct.update_status(&**node).map(drop),
        Action::UpdateNode(node) => direct.update(&**node).map(drop),
        Action::Cordon { node } => change::<Node>(direct, None, node, Direct::update, |node| {
            node.spec.get_or_insert_default().unschedulable = Some(true);
        }),
        Action::MachineUpgraded { node, upgraded } => {
            change::<Node>(direct, None, node, Direct::update_status, |node| {
                *node = kubelet::node::upgraded(node, upgraded, now);
            })
        }
        Action::CreateLease(lease) => direct.create(&**lease).map(drop),
        Action::RenewLease(lease) => direct.update(&**lease).map(drop),
        Action::AdoptPod { namespace, name, uid, owner } => {
            change::<Pod>(direct, Some(namespace), name, Direct::update, |pod| {
                let lone = pods::controller(&pod.metadata).is_none();
                if lone && pods::uid(&pod.metadata) == uid && !pods::is_leaving(pod) {
                    pod.metadata.owner_references.get_or_insert_default().push((**owner).clone());
                }
            })
            .or_else(if_not_gone)
        }
        Action::CreateReplicaSet(set) => direct.create(&**set).map(drop),
        Action::UpdateReplicaSet(set) => direct.update(&**set).map(drop),
        Action::ReplicaSetStatus(set) => direct.update_status(&**set).map(drop),
        Action::DeleteReplicaSet { namespace, name, uid } => {
            direct.delete::<ReplicaSet>(Some(namespace), name, Some(uid)).or_else(if_not_gone)
        }
        Action::DeploymentStatus(deployment) => direct.update_status(&**deployment).map(drop),
        Action::StatefulSetStatus(set) => direct.update_status(&**set).map(drop),
        Action::DaemonSetStatus(set) => direct.update_status(&**set).map(drop),
        Action::CreateRevision(revision) => direct.create(&**revision).map(drop),
        Action::UpdateRevision(revision) => direct.update(&**revision).map(drop),
        Action::DeleteRevision { namespace, name, uid } => {
            direct.delete::<ControllerRevision>(Some(namespace), name, Some(uid)).or_else(if_not_gone)
        }
        Action::CreateSlice(slice) => direct.create(&**slice).map(drop),
        Action::UpdateSlice(slice) => direct.update(&**slice).map(drop),
        Action::DeleteSlice { namespace, name, uid } => {
            direct.delete::<EndpointSlice>(Some(namespace), name, Some(uid)).or_else(if_not_gone)
        }
        Action::BudgetStatus(budget) => direct.update_status(&**budget).map(drop),
        Action::Log { namespace, pod, lines } => {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            direct.append_log(namespace, pod, &text);
            Ok(())
        }
        Action::Note(note) => note.publish(direct, now),
    }
}

/// Does to an object of any kind what the garbage collector says.
pub fn collect(direct: &Direct, resource: &ResourceId, header: &Header, verdict: &Verdict) -> Answer<()> {
    let patch = match verdict {
        Verdict::Keep | Verdict::ForgetIn(_) => return Ok(()),
        Verdict::Delete(policy) => {
            let Header { namespace, name, uid, .. } = header;
            return direct.delete_object(resource, namespace, name, uid, policy.clone()).or_else(if_not_gone);
        }
        Verdict::DropOwners(uids) => {
            let left = owner_references(direct, resource, header)
                .into_iter()
                .filter(|owner| !owner["uid"].as_str().is_some_and(|uid| uids.contains(uid)));
            json!({"ownerReferences": left.collect::<Vec<Value>>()})
        }
        Verdict::DropFinalizer(dropped) => {
            let left: Vec<&String> = header.finalizers.iter().filter(|finalizer| finalizer != dropped).collect();
            json!({"finalizers": left})
        }
    };
    let mut metadata = patch;
    metadata["uid"] = json!(header.uid);
    metadata["resourceVersion"] = json!(header.resource_version);
    let patch = json!({ "metadata": metadata });
    direct.patch_object(resource, &header.namespace, &header.name, &patch).or_else(if_not_gone)
}

/// In full, since a merge patch replaces the whole list.
fn owner_references(direct: &Direct, resource: &ResourceId, header: &Header) -> Vec<Value> {
    let json = direct.json(resource, &header.namespace, &header.name).unwrap_or_default();
    let object: Value = serde_json::from_slice(&json).unwrap_or_default();
    object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default()
}

/// Changes an object in a way that is right whatever else changes in it.
fn change<K: Kind>(
    direct: &Direct,
    namespace: Option<&str>,
    name: &str,
    write: impl Fn(&Direct, &K) -> Answer<K>,
    edit: impl Fn(&mut K),
) -> Answer<()> {
    let mut last = None;
    for _ in 0..TRIES {
        let Some(mut object) = direct.get::<K>(namespace, name)? else {
            let message = format!("{} {name:?} not found", K::plural(&()));
            return Err(Box::new(Status::failure(&message, "NotFound").with_code(404)));
        };
        edit(&mut object);
        match write(direct, &object) {
            Ok(_) => return Ok(()),
            Err(status) if status.is_conflict() => last = Some(status),
            Err(status) => return Err(status),
        }
    }
    last.map_or(Ok(()), Err)
}

/// What is gone need not be dealt with.
fn if_not_gone(status: Box<Status>) -> Answer<()> {
    if status.is_not_found() { Ok(()) } else { Err(status) }
}
