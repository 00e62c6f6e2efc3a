//! Pods that a drain takes down, or that do not let it go on.

use std::collections::BTreeSet;

use jiff::SignedDuration;

use super::{Asked, Check, Finding, Intent, Scope, Severity, path, some_of};
use crate::cluster::{Cluster, ObjectRef, Pod};

pub const CHECKS: &[Check] = &[
    Check {
        code: "DRV-WORK-001",
        severity: Severity::Informs,
        scope: Scope::Drains,
        title: "A workload has a single replica",
        consequence: "it is down from the moment its pod is evicted until another one is ready elsewhere.",
        remedy: "give it a second replica for the time of the upgrade",
        reads: &["Node", "Pod", "Deployment", "ReplicaSet", "StatefulSet"],
        look: single,
    },
    Check {
        code: "DRV-WORK-002",
        severity: Severity::Risks,
        scope: Scope::Drains,
        title: "A pod has no controller",
        consequence: "nobody makes it anew elsewhere: it is deleted for good, or, without force, the drain refuses to begin.",
        remedy: "delete the pod, or run it by a Deployment",
        reads: &["Node", "Pod"],
        look: unmanaged,
    },
    Check {
        code: "DRV-WORK-003",
        severity: Severity::Risks,
        scope: Scope::Nodes,
        title: "Pods do not run",
        consequence: "what is broken before the upgrade cannot be told from what the upgrade broke.",
        remedy: "repair or delete the pods",
        reads: &["Pod"],
        look: broken,
    },
];

/// The names of the nodes that would be drained.
pub fn drained<'a>(cluster: &'a Cluster, intent: &Intent) -> BTreeSet<&'a str> {
    intent.nodes(cluster).into_iter().map(|node| node.metadata.name.as_str()).collect()
}

/// The pods that a drain of these nodes moves.
pub fn moved<'a>(cluster: &'a Cluster, nodes: &BTreeSet<&str>) -> impl Iterator<Item = &'a Pod> {
    let on_them = |pod: &&Pod| nodes.contains(pod.spec.node_name.as_str());
    let moves = |pod: &&Pod| !pod.has_ended() && !pod.is_mirror() && !pod.is_of_daemon_set();
    cluster.pods.iter().filter(move |pod| on_them(pod) && moves(pod))
}

fn single(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let mut alone = BTreeSet::new();
    for pod in moved(cluster, &drained(cluster, intent)) {
        let Some(owner) = cluster.root_owner(&pod.metadata) else { continue };
        let wanted = match owner.kind.as_str() {
            "Deployment" => cluster.deployments.get(&owner.namespace, &owner.name).map(|one| one.spec.wanted()),
            "StatefulSet" => cluster.stateful_sets.get(&owner.namespace, &owner.name).map(|one| one.spec.wanted()),
            _ => None,
        };
        if wanted == Some(1) {
            alone.insert(owner);
        }
    }
    let Some(first) = alone.first() else { return Vec::new() };
    let names: Vec<String> = alone.iter().map(ObjectRef::in_words).collect();
    let sentence = format!(
        "{} with a single replica: {}",
        counted(alone.len(), "workload"),
        some_of(names.iter().map(String::as_str))
    );
    let remedy =
        format!("kubectl -n {} scale {} {} --replicas=2", first.namespace, first.kind.to_lowercase(), first.name);
    vec![Finding::new(sentence).remedy(remedy).about(alone)]
}

/// `1 workload`, `3 workloads`.
pub fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn unmanaged(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let bare: Vec<&Pod> =
        moved(cluster, &drained(cluster, intent)).filter(|pod| pod.metadata.controller().is_none()).collect();
    let refuses = match &intent.asked {
        Asked::Plan(plan) => plan.spec.as_ref().is_ok_and(|spec| spec.drain.as_ref().is_some_and(|drain| !drain.force)),
        _ => false,
    };
    let finding = |pod: &Pod| {
        let end = if refuses { ", and the Plan drains without force: it cannot begin" } else { "" };
        Finding::new(format!("pod {} on node {} has no controller{end}", path(pod), pod.spec.node_name))
            .on(pod)
            .remedy(format!("kubectl -n {} delete pod {}", pod.metadata.namespace, pod.metadata.name))
    };
    bare.into_iter().map(finding).collect()
}

fn broken(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    const A_WHILE: SignedDuration = SignedDuration::from_mins(5);
    let is_broken = |pod: &&Pod| {
        let created = pod.metadata.creation_timestamp;
        let young = created.is_some_and(|created| cluster.looked_at.duration_since(created) < A_WHILE);
        let waits = || {
            let mut reasons = pod.container_statuses().filter_map(|status| status.state.waiting.as_ref());
            reasons.any(|waiting| !matches!(waiting.reason.as_str(), "ContainerCreating" | "PodInitializing"))
        };
        !young && (pod.status.phase == "Pending" || pod.status.phase == "Unknown" || waits())
    };
    let broken: Vec<&Pod> =
        cluster.pods.iter().filter(|pod| !pod.has_ended() && !pod.is_ending()).filter(is_broken).collect();
    let Some(first) = broken.first() else { return Vec::new() };
    let names: Vec<String> = broken.iter().map(|pod| format!("{} ({})", path(*pod), state(pod))).collect();
    let sentence =
        format!("{} not running: {}", counted(broken.len(), "pod"), some_of(names.iter().map(String::as_str)));
    let remedy = format!("kubectl -n {} describe pod {}", first.metadata.namespace, first.metadata.name);
    vec![Finding::new(sentence).remedy(remedy).about(broken.into_iter().map(ObjectRef::of))]
}

fn state(pod: &Pod) -> &str {
    let waiting = pod.container_statuses().find_map(|status| status.state.waiting.as_ref());
    waiting.map_or(pod.status.phase.as_str(), |waiting| waiting.reason.as_str())
}
