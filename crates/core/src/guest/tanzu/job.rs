//! The Job that updates a control plane, as the original makes it, but for its owner: that is in another namespace, where the garbage
//! collector would not find it. A finalizer holds the TanzuKubernetesCluster while the Job is at work instead.

use std::collections::BTreeMap;

use drover_api::cluster_api::labels::CLUSTER_NAME;
use drover_api::marks::{BEGUN, GUEST, JOB_FAILED, SETTLED};
use drover_api::node::roles::{CONTROL_PLANE, MASTER};
use drover_api::tanzu::NAMESPACE;
use drover_api::tanzu::tanzu_kubernetes_cluster::jobs::{CONTAINER, NAME_PREFIX, UPGRADE_ID, UPGRADE_VERSION};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{View, text};
use crate::guest::health::has_condition;
use crate::guest::order::Order;
use crate::guest::seen::Collection;

/// What the Jobs of this installation are like.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Of Drover.
    pub image: String,
    /// Under which the Jobs run; empty: the namespace's own.
    pub service_account: String,
    /// How long a machine may take to come, and to go.
    pub machine_timeout: SignedDuration,
    /// The labels of Nodes that the Jobs may run on; none: those of the control plane, by whichever name it has.
    pub node_selector: Option<BTreeMap<String, String>>,
}

/// The labels of a control plane's Nodes, and their taints: the original knows the first, clusters since Kubernetes 1.24 only the second.
const ROLES: [&str; 2] = [MASTER, CONTROL_PLANE];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Active,
    Complete,
    Failed,
}

/// It was made, and not let begin: it has no pods yet.
pub fn is_unbegun(job: &Value) -> bool {
    job["spec"]["parallelism"] == 0 && job["metadata"]["annotations"][BEGUN].is_null()
}

/// Lets a Job begin that was made without pods.
pub fn begun(job: &Value) -> Value {
    json!({
        "metadata": { "resourceVersion": job["metadata"]["resourceVersion"], "annotations": { BEGUN: "true" } },
        "spec": { "parallelism": 1 },
    })
}

/// Keeps a Job from having pods any more, and says why. Those that it has go.
pub fn withdrawn(job: &Value, why: &str) -> Value {
    json!({
        "metadata": { "resourceVersion": job["metadata"]["resourceVersion"], "annotations": { JOB_FAILED: why } },
        "spec": { "parallelism": 0 },
    })
}

/// Why a Job was kept from starting.
pub fn halted(job: &Value) -> Option<&str> {
    job["metadata"]["annotations"][JOB_FAILED].as_str()
}

/// Notes that all was as a Job has made it.
pub fn settled(job: &Value) -> Value {
    json!({ "metadata": { "resourceVersion": job["metadata"]["resourceVersion"], "annotations": { SETTLED: "true" } } })
}

/// What it was made for was done: what differs since then is for another Job.
pub fn is_settled(job: &Value) -> bool {
    job["metadata"]["annotations"][SETTLED].is_string()
}

/// The Job that is at work on the control plane of this cluster.
pub fn at_work<'a>(view: &View<'a>) -> Option<&'a Value> {
    of_cluster(view).into_iter().find(|one| state(one) == State::Active && !is_unbegun(one))
}

/// It was made for exactly this.
pub fn is_for(job: &Value, order: &Order) -> bool {
    text(&job["metadata"]["name"]) == name(order)
}

pub fn state(job: &Value) -> State {
    match () {
        () if has_condition(job, "Failed") => State::Failed,
        () if has_condition(job, "Complete") => State::Complete,
        () if halted(job).is_some() => State::Failed,
        () => State::Active,
    }
}

/// Jobs that update the control plane of this cluster, whoever made them.
pub fn of_cluster<'a>(view: &View<'a>) -> Vec<&'a Value> {
    let (namespace, name, uid) = (view.namespace(), view.name(), view.uid());
    let is_one = |job: &&Value| {
        let metadata = &job["metadata"];
        let ours = metadata["annotations"][GUEST].as_str();
        metadata["labels"][CLUSTER_NAME] == name
            && text(&metadata["name"]).starts_with(NAME_PREFIX)
            && match ours {
                Some(ours) => ours == owner(namespace, name, uid),
                None => namespace_in(&job["spec"]["template"]["spec"]) == Some(namespace),
            }
    };
    view.system.all(Collection::Jobs).filter(is_one).collect()
}

/// The original's Jobs tell the namespace of their cluster in their arguments alone.
pub fn namespace_in(pod: &Value) -> Option<&str> {
    let containers = pod["containers"].as_array()?;
    let mut arguments = containers.iter().filter_map(|one| one["args"].as_array()).flatten();
    arguments.find_map(|argument| argument.as_str()?.strip_prefix("--cluster-namespace="))
}

/// Which cluster a Job of ours is for, also when another one has its name.
pub fn owner(namespace: &str, name: &str, uid: &str) -> String {
    format!("{namespace}/{name}/{uid}")
}

pub fn name(order: &Order) -> String {
    format!("{NAME_PREFIX}{}", order.id)
}

pub fn manifest(view: &View<'_>, order: &Order) -> Value {
    let about = json!({ UPGRADE_ID: order.id, UPGRADE_VERSION: format!("v{}", order.version) });
    let labels = json!({ CLUSTER_NAME: view.name() });
    let mut own = about.clone();
    own[GUEST] = json!(owner(view.namespace(), view.name(), view.uid()));
    let variable = |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": path } } });
    let patches = |list: &[Value]| Value::from(list.to_vec()).to_string();
    let mut pod = json!({
        "containers": [{
            "name": CONTAINER, "image": view.settings.image, "imagePullPolicy": "IfNotPresent",
            "args": [
                "--kubernetes-version=$(VERSION)", "--upgrade-id=$(UPGRADE_ID)", "--cluster-name=$(CLUSTER_NAME)",
                format!("--cluster-namespace={}", view.namespace()),
                format!("--replicas={}", order.replicas.unwrap_or(0)),
                format!("--machine-timeout={}s", order.machine_timeout.as_secs()),
                format!("--infrastructure-patches={}", patches(&order.patches.infrastructure)),
                format!("--kubeadm-configmap-patches={}", patches(&order.patches.kubeadm)),
                format!("--bootstrap-patches={}", patches(&order.patches.bootstrap)),
            ],
            "env": [
                variable("NAMESPACE", "metadata.namespace"),
                variable("CLUSTER_NAME", &format!("metadata.labels['{CLUSTER_NAME}']")),
                variable("UPGRADE_ID", &format!("metadata.annotations['{UPGRADE_ID}']")),
                variable("VERSION", &format!("metadata.annotations['{UPGRADE_VERSION}']")),
            ],
        }],
        "hostNetwork": true, "restartPolicy": "Never", "terminationGracePeriodSeconds": 30,
        "securityContext": { "runAsUser": 1000, "runAsGroup": 1000 },
        "tolerations": [
            { "key": "kubeadmNode", "operator": "Equal", "value": "master", "effect": "NoSchedule" },
            { "key": ROLES[0], "operator": "Exists", "effect": "NoSchedule" },
            { "key": ROLES[1], "operator": "Exists", "effect": "NoSchedule" },
        ],
    });
    // The original's own field where its label is known. Where it is not, either label will do: a selector cannot say so.
    let is_master = |node: &Value| node["metadata"]["labels"][ROLES[0]] == "";
    match &view.settings.node_selector {
        Some(selector) => pod["nodeSelector"] = json!(selector),
        None if view.global.all(Collection::Nodes).any(is_master) => pod["nodeSelector"] = json!({ ROLES[0]: "" }),
        None => {
            let has = |role: &str| json!({ "matchExpressions": [{ "key": role, "operator": "Exists" }] });
            let terms = json!({ "nodeSelectorTerms": ROLES.map(has) });
            pod["affinity"] = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": terms } });
        }
    }
    if !view.settings.service_account.is_empty() {
        pod["serviceAccountName"] = json!(view.settings.service_account);
    }
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "name": name(order), "namespace": NAMESPACE, "labels": labels, "annotations": own },
        "spec": {
            // Where the number of clusters at work is limited, a Job that is made late must not begin by itself.
            "backoffLimit": 3, "completions": 1, "parallelism": i32::from(view.places.is_none()),
            "template": { "metadata": { "labels": labels, "annotations": about }, "spec": pod },
        },
    })
}
