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
use super::outcome::{Action, Deed, ObjectWrite};
use super::pods;
use crate::apiserver::{Answer, Direct, Kind, ResourceId};

/// How often a change that holds whatever else has changed is tried anew when somebody else was faster.
const TRIES: usize = 10;

pub fn perform(direct: &Direct, action: &Action, now: Timestamp) -> Answer<()> {
    match action {
        Action::CreatePod(pod) => direct.put_new(&**pod),
        Action::PodStatus(pod) => direct.put_status(&**pod),
        Action::BindPod { namespace, name, node } => direct.bind(namespace, name, node),
        Action::ReleasePod { namespace, name } => change::<Pod>(direct, Some(namespace), name, Direct::put, |pod| {
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
        Action::JobStatus(job) => direct.put_status(&**job),
        Action::DeleteJob { namespace, name, uid } => {
            let jobs = ResourceId::new("batch", "jobs", "Job");
            direct.delete_object(&jobs, namespace, name, uid, PropagationPolicy::Foreground).or_else(if_not_gone)
        }
        Action::NodeStatus(node) => direct.put_status(&**node),
        Action::UpdateNode(node) => direct.put(&**node),
        Action::Cordon { node } => change::<Node>(direct, None, node, Direct::put, |node| {
            node.spec.get_or_insert_default().unschedulable = Some(true);
        }),
        Action::MachineUpgraded { node, upgraded } => change::<Node>(direct, None, node, Direct::put_status, |node| {
            *node = kubelet::node::upgraded(node, upgraded, now);
        }),
        Action::CreateLease(lease) => direct.put_new(&**lease),
        Action::RenewLease(lease) => direct.put(&**lease),
        Action::AdoptPod { namespace, name, uid, owner } => {
            change::<Pod>(direct, Some(namespace), name, Direct::put, |pod| {
                let lone = pods::controller(&pod.metadata).is_none();
                if lone && pods::uid(&pod.metadata) == uid && !pods::is_leaving(pod) {
                    pod.metadata.owner_references.get_or_insert_default().push((**owner).clone());
                }
            })
            .or_else(if_not_gone)
        }
        Action::CreateReplicaSet(set) => direct.put_new(&**set),
        Action::UpdateReplicaSet(set) => direct.put(&**set),
        Action::ReplicaSetStatus(set) => direct.put_status(&**set),
        Action::DeleteReplicaSet { namespace, name, uid } => {
            direct.delete::<ReplicaSet>(Some(namespace), name, Some(uid)).or_else(if_not_gone)
        }
        Action::DeploymentStatus(deployment) => direct.put_status(&**deployment),
        Action::StatefulSetStatus(set) => direct.put_status(&**set),
        Action::DaemonSetStatus(set) => direct.put_status(&**set),
        Action::CreateRevision(revision) => direct.put_new(&**revision),
        Action::UpdateRevision(revision) => direct.put(&**revision),
        Action::DeleteRevision { namespace, name, uid } => {
            direct.delete::<ControllerRevision>(Some(namespace), name, Some(uid)).or_else(if_not_gone)
        }
        Action::CreateSlice(slice) => direct.put_new(&**slice),
        Action::UpdateSlice(slice) => direct.put(&**slice),
        Action::DeleteSlice { namespace, name, uid } => {
            direct.delete::<EndpointSlice>(Some(namespace), name, Some(uid)).or_else(if_not_gone)
        }
        Action::BudgetStatus(budget) => direct.put_status(&**budget),
        Action::Log { namespace, pod, lines } => {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            direct.append_log(namespace, pod, &text);
            Ok(())
        }
        Action::Note(note) => note.publish(direct, now),
        Action::Object(write) => write_object(direct, write),
        Action::Evict { namespace, name, grace_period_seconds } => {
            direct.evict(namespace, name, *grace_period_seconds).or_else(if_not_gone)
        }
    }
}

fn write_object(direct: &Direct, write: &ObjectWrite) -> Answer<()> {
    match &write.deed {
        Deed::Create(object) => direct.create_object(&write.resource, object),
        Deed::Update(object) => direct.replace_object(&write.resource, object, false),
        Deed::Status(object) => direct.replace_object(&write.resource, object, true),
        Deed::Delete { namespace, name, uid } => {
            let background = PropagationPolicy::Background;
            direct.delete_object(&write.resource, namespace, name, uid, background).or_else(if_not_gone)
        }
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
    write: impl Fn(&Direct, &K) -> Answer<()>,
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
            Ok(()) => return Ok(()),
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
