//! Are the pods of a DaemonSet new and ready wherever the upgrade goes?
//!
//! Its status counts every node where it wants a pod. One that takes no part in the upgrade may be dead for good: nothing is waited for
//! there, and it is named. So it is the pods that count as soon as one of those lacks something.

use std::collections::{BTreeMap, BTreeSet};

use drover_api::daemon_set::{POD_TEMPLATE_GENERATION, TEMPLATE_GENERATION};

use super::super::decide::members;
use crate::cluster::{Cluster, DaemonSet, Pod};

/// With the nodes that take no part and lack such a pod.
pub(super) enum Rollout {
    OnItsWay { beside: BTreeSet<String> },
    Done { without: BTreeSet<String> },
}

pub(super) fn of(cluster: &Cluster, set: &DaemonSet) -> Rollout {
    let status = &set.status;
    if set.is_rolled_out() {
        return Rollout::Done { without: BTreeSet::new() };
    }
    let others = nodes_without_part(cluster);
    let pods = by_node(cluster, set);
    let (beside, within): (Vec<_>, Vec<_>) = pods.into_iter().partition(|(node, _)| others.contains(node));
    let count = |number: i64| usize::try_from(number).unwrap_or(0);
    // A node that is dead may not count, either, while its pod is still there.
    let counted_beside = beside.len().saturating_sub(count(status.number_misscheduled));
    let wanted = count(status.desired_number_scheduled).saturating_sub(counted_beside);
    let well = within.iter().filter(|(_, pods)| is_well(set, pods)).count();
    let lacking = beside.iter().filter(|(_, pods)| !is_well(set, pods)).map(|(node, _)| (*node).to_owned()).collect();
    if beside.is_empty() || status.observed_generation < set.metadata.generation || well < wanted {
        return Rollout::OnItsWay { beside: lacking };
    }
    Rollout::Done { without: lacking }
}

/// A sentence and its remedy, with the nodes beside that may keep a rollout, too: of all pods only so many may be unavailable at once.
pub(super) fn told(sentence: String, remedy: String, beside: &BTreeSet<String>) -> (String, String) {
    if beside.is_empty() {
        return (sentence, remedy);
    }
    let nodes: Vec<&str> = beside.iter().map(String::as_str).collect();
    let sentence =
        format!("{sentence}; its pods on {} are not ready, either (no part of the upgrade)", nodes.join(", "));
    (sentence, format!("{remedy}; if it gets no further: kubectl delete node {}", nodes.join(" ")))
}

/// Without any that takes part, nobody knows who does not.
pub(super) fn nodes_without_part(cluster: &Cluster) -> BTreeSet<&str> {
    let (members, others) = members(cluster);
    let others = others.iter().map(|(node, _)| node.metadata.name.as_str());
    if members.is_empty() { BTreeSet::new() } else { others.collect() }
}

fn by_node<'a>(cluster: &'a Cluster, set: &DaemonSet) -> BTreeMap<&'a str, Vec<&'a Pod>> {
    let mut all: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    let is_own = |pod: &&Pod| pod.metadata.controller().is_some_and(|owner| owner.uid == set.metadata.uid);
    for pod in cluster.pods.in_namespace(&set.metadata.namespace).filter(is_own) {
        all.entry(pod.spec.node_name.as_str()).or_default().push(pod);
    }
    all
}

/// One of the pods of a node is new and ready. A template that has come back makes pods of then new again, which only the status knows.
fn is_well(set: &DaemonSet, pods: &[&Pod]) -> bool {
    let all_are_new = set.status.updated_number_scheduled == set.status.desired_number_scheduled;
    let newest = set.metadata.annotations.get(TEMPLATE_GENERATION);
    let is_new = |pod: &Pod| all_are_new || pod.metadata.labels.get(POD_TEMPLATE_GENERATION) == newest;
    pods.iter().any(|pod| is_new(pod) && pod.is_ready() && !pod.is_ending())
}
