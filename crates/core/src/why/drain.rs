//! What is left on a node that is being emptied, and why it stays.

use drover_api::plan::labels;

use super::link::{Chain, Link, Outlook};
use super::{budget, ending};
use crate::cluster::{Cluster, Node, ObjectRef, Pod};

/// One chain a pod that does not go, those that nobody will move first; empty if nothing is in the way.
pub fn leftovers(cluster: &Cluster, node: &Node) -> Vec<Chain> {
    let mut chains: Vec<Chain> = cluster
        .pods_on(&node.metadata.name)
        .filter(|pod| has_to_go(pod))
        .filter_map(|pod| stays(cluster, pod))
        .collect();
    chains.sort_by_key(|chain| chain.last().map(|link| (!link.alarm, link.outlook, link.since)));
    chains
}

/// Pods of DaemonSets and the kubelet's own stay; so do those of upgrades, one of which may be doing the draining.
pub fn has_to_go(pod: &Pod) -> bool {
    !pod.is_of_daemon_set() && !pod.is_mirror() && !pod.metadata.labels.contains_key(labels::CONTROLLER)
}

fn stays(cluster: &Cluster, pod: &Pod) -> Option<Chain> {
    let below = match pod.is_ending() {
        true => return ending::holds(cluster, pod),
        false => budget::forbids(cluster, pod)?,
    };
    let statement = format!("{} cannot be evicted from Node {}", ObjectRef::of(pod).in_words(), pod.spec.node_name);
    let link = Link::proven(ObjectRef::of(pod), statement).owned_by(cluster.root_owner(&pod.metadata));
    let mut chain = vec![link.outlook(Outlook::Maybe)];
    chain.extend(below);
    Some(chain)
}
