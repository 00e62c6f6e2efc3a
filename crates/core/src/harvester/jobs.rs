//! The Jobs of an Upgrade, in the shape that users and scripts know from Harvester.

use drover_api::harvester::jobs::{self, components, stock, types, variables};
use drover_api::harvester::{NAMESPACE, node};
use drover_api::node::{ARCHITECTURE, HOSTNAME};
use serde_json::{Value, json};

use super::decide::Turn;
use super::names;
use super::release::Steps;
use crate::cluster::{Job, Node};
use crate::decision::{Act, Purpose, Subject};

/// How long an ended Job is kept, in seconds: a week.
const KEPT: i64 = 604_800;

/// How far a Job is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Course {
    /// It does not exist, or not any more: it is made again, since its steps know what is done already.
    Missing,
    Running,
    Done,
    Failed {
        reason: String,
        message: String,
    },
}

/// A Job of this name that another Upgrade has left counts as running until it is gone.
pub(super) fn course(turn: &mut Turn<'_>, name: &str) -> Course {
    let Some(job) = turn.job(name) else { return Course::Missing };
    if !is_own(turn, job) {
        if job.metadata.deletion_timestamp.is_none() {
            let uid = job.metadata.uid.clone();
            turn.write(Purpose::DeleteJob, Subject::job(NAMESPACE, name), Act::Delete { uid });
        }
        return Course::Running;
    }
    if job.metadata.deletion_timestamp.is_some() || turn.next.discarded.contains(&job.metadata.uid) {
        return Course::Running;
    }
    match job.failure() {
        Some(failure) => Course::Failed { reason: failure.reason.clone(), message: failure.message.clone() },
        None if job.is_complete() => Course::Done,
        None => Course::Running,
    }
}

/// Notes that a Job that has failed has to go, so that it is made again; true if there was one.
pub(super) fn discard_failed(turn: &mut Turn<'_>, name: &str) -> bool {
    let Some(job) = turn.job(name).filter(|job| job.failure().is_some()) else { return false };
    turn.next.discarded.insert(job.metadata.uid.clone())
}

/// Deletes the Jobs that are noted to go: it may be a successor of who has noted it.
pub(super) fn delete_discarded(turn: &mut Turn<'_>) {
    if turn.next.discarded.is_empty() {
        return;
    }
    for job in turn.cluster().jobs.in_namespace(NAMESPACE) {
        let metadata = &job.metadata;
        if turn.next.discarded.contains(&metadata.uid) && metadata.deletion_timestamp.is_none() {
            let subject = Subject::job(NAMESPACE, &metadata.name);
            turn.write(Purpose::DeleteJob, subject, Act::Delete { uid: metadata.uid.clone() });
        }
    }
}

/// Deletes a Job, however far it is; true once it is gone.
pub(super) fn discard(turn: &mut Turn<'_>, name: &str) -> bool {
    let Some(job) = turn.job(name) else { return true };
    if job.metadata.deletion_timestamp.is_none() {
        let uid = job.metadata.uid.clone();
        turn.write(Purpose::DeleteJob, Subject::job(NAMESPACE, name), Act::Delete { uid });
    }
    false
}

/// The Job on the system services is stopped between two of its steps, each of which leaves its component whole; true once nothing works on
/// them any more.
pub(super) fn services_stopped(turn: &mut Turn<'_>) -> bool {
    let job = names::apply_manifests(turn.name());
    turn.next.services.is_some() || discard(turn, &job)
}

pub(super) fn is_own(turn: &Turn<'_>, job: &Job) -> bool {
    job.metadata.owner_references.iter().any(|owner| owner.uid == turn.view.upgrade.metadata.uid)
}

/// Makes the Job that raises the system services.
pub(super) fn apply_manifests(turn: &mut Turn<'_>) {
    let name = names::apply_manifests(turn.name());
    let labels = json!({ jobs::UPGRADE: turn.name(), jobs::COMPONENT: components::MANIFEST });
    let mut pod = json!({
        "restartPolicy": "Never", "serviceAccountName": jobs::SERVICE_ACCOUNT,
        "tolerations": [{ "key": node::DRAIN_TAINT, "operator": "Exists", "effect": "NoSchedule" }],
        "containers": [{ "name": jobs::CONTAINER, "image": image(turn), "env": environment(turn, None) }],
    });
    match turn.next.steps {
        Steps::Drover => pod["containers"][0]["args"] = json!(["apply-manifests", "--upgrade", turn.name()]),
        Steps::Release => pod["containers"][0]["command"] = json!([stock::MANIFESTS]),
    }
    create(turn, &name, &labels, pod);
}

/// The taints that whatever works on nodes has to bear.
pub(super) fn tolerations() -> Vec<Value> {
    let mut all = vec![
        json!({ "key": "CriticalAddonsOnly", "operator": "Exists" }),
        tolerates(node::DRAIN_TAINT, "NoSchedule"),
        tolerates("node-role.kubernetes.io/control-plane", "NoExecute"),
        tolerates("node-role.kubernetes.io/etcd", "NoExecute"),
    ];
    // Clusters of several architectures keep others' pods away so.
    all.extend(["amd64", "arm64", "arm"].map(|architecture| {
        json!({ "key": ARCHITECTURE, "operator": "Equal", "value": architecture, "effect": "NoSchedule" })
    }));
    all
}

pub(super) fn tolerates(key: &str, effect: &str) -> Value {
    json!({ "key": key, "operator": "Exists", "effect": effect })
}

/// Makes the Job of a type for a node.
pub(super) fn on_node(turn: &mut Turn<'_>, job_type: &str, target: &Node) {
    let target_name = target.metadata.name.as_str();
    let name = names::node_job(turn.name(), job_type, target_name);
    let mut labels = json!({ jobs::UPGRADE: turn.name(), jobs::JOB_TYPE: job_type, jobs::NODE: target_name });
    // It is no step of the node itself: the next node does not wait for it.
    if job_type != types::RESTORE_VM {
        labels[jobs::COMPONENT] = json!(components::NODE);
    }
    let hostname = target.metadata.labels.get(HOSTNAME).map_or(target_name, String::as_str);
    let mut pod = json!({
        "restartPolicy": "Never", "serviceAccountName": jobs::SERVICE_ACCOUNT,
        "containers": [{
            "name": jobs::CONTAINER, "image": image(turn), "env": environment(turn, Some(target_name)),
        }],
    });
    let container = &mut pod["containers"][0];
    match turn.next.steps {
        Steps::Drover => {
            container["args"] = json!(["node", job_type, "--upgrade", turn.name(), "--node", target_name]);
        }
        Steps::Release if job_type == types::RESTORE_VM => {
            container["command"] = json!([stock::HELPER]);
            container["args"] = json!([job_type, "--node", target_name, "--upgrade", turn.name()]);
        }
        Steps::Release => {
            container["command"] = json!([stock::NODE_STEPS]);
            container["args"] = json!([job_type]);
        }
    }
    if job_type != types::RESTORE_VM {
        pod["hostIPC"] = json!(true);
        pod["hostPID"] = json!(true);
        pod["hostNetwork"] = json!(true);
        pod["dnsPolicy"] = json!("ClusterFirstWithHostNet");
        pod["affinity"] = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{ "matchExpressions": [{ "key": HOSTNAME, "operator": "In", "values": [hostname] }] }],
        }}});
        let mut all = tolerations();
        all.push(tolerates("node.kubernetes.io/unschedulable", "NoSchedule"));
        all.push(tolerates("node.kubernetes.io/unreachable", "NoExecute"));
        pod["tolerations"] = json!(all);
        pod["containers"][0]["securityContext"] =
            json!({ "privileged": true, "capabilities": { "add": ["CAP_SYS_BOOT"] } });
        pod["containers"][0]["volumeMounts"] = json!([{ "name": "host-root", "mountPath": "/host" }]);
        pod["volumes"] = json!([{ "name": "host-root", "hostPath": { "path": "/", "type": "Directory" } }]);
    }
    create(turn, &name, &labels, pod);
}

/// What runs on nodes before anything is raised is of the release that runs; all else is of the one that is to come.
pub(super) fn image_to_prepare(turn: &Turn<'_>) -> String {
    image_of(turn, &turn.next.previous_version)
}

fn image(turn: &Turn<'_>) -> String {
    image_of(turn, turn.next.release.as_ref().map(|release| release.harvester.as_str()).unwrap_or_default())
}

fn image_of(turn: &Turn<'_>, version: &str) -> String {
    let asked = &turn.view.upgrade.spec.upgrade_image;
    match turn.next.steps {
        _ if !asked.is_empty() => asked.clone(),
        Steps::Drover => turn.view.settings.image.clone(),
        Steps::Release => format!("{}:{version}", stock::IMAGE),
    }
}

fn environment(turn: &Turn<'_>, node: Option<&str>) -> Value {
    let mut all = vec![
        json!({ "name": variables::UPGRADE_NAME, "value": turn.name() }),
        json!({ "name": variables::POD_NAME, "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }),
    ];
    all.extend(node.map(|node| json!({ "name": variables::NODE_NAME, "value": node })));
    json!(all)
}

fn create(turn: &mut Turn<'_>, name: &str, labels: &Value, pod: Value) {
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "name": name, "namespace": NAMESPACE, "labels": labels, "ownerReferences": turn.owner() },
        "spec": {
            "backoffLimit": 6, "ttlSecondsAfterFinished": KEPT,
            "template": { "metadata": { "labels": labels }, "spec": pod },
        },
    });
    turn.write(Purpose::CreateJob, Subject::job(NAMESPACE, name), Act::Create(job));
}
