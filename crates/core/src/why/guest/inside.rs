//! What a guest cluster itself says of the Node of a Machine, where it was looked into.

use super::super::link::{Chain, Link};
use super::super::{drain, node};
use crate::cluster::cluster_api::Machine;
use crate::cluster::{Cluster, Node};

/// What a drain of its Node waits for: the pod that is the least likely to go, and what keeps it.
pub fn kept(cluster: &Cluster, machine: &Machine) -> Option<Chain> {
    let (guest, node) = own_node(cluster, machine)?;
    drain::leftovers(guest, node).into_iter().next().map(in_guest)
}

/// Whether its Node takes no pods any more.
pub fn is_cordoned(cluster: &Cluster, machine: &Machine) -> bool {
    own_node(cluster, machine).is_some_and(|(_, node)| node.spec.unschedulable)
}

/// Why its Node is not well.
pub fn down(cluster: &Cluster, machine: &Machine) -> Option<Chain> {
    let (guest, node) = own_node(cluster, machine)?;
    node::down(guest, node).map(in_guest)
}

fn own_node<'a>(cluster: &'a Cluster, machine: &Machine) -> Option<(&'a Cluster, &'a Node)> {
    let own = &machine.metadata;
    let is_own = |(namespace, name): &(String, String)| {
        let mut machines = cluster.cluster_api.machines_of(namespace, name);
        *namespace == own.namespace && machines.any(|one| one.metadata.name == own.name)
    };
    let (_, guest) = cluster.inside.iter().find(|(key, _)| is_own(key))?;
    Some((guest, guest.nodes.get("", &machine.status.node_ref.name)?))
}

/// Names and commands are meant for the other cluster.
fn in_guest(chain: Chain) -> Chain {
    let told = |link: Link| Link {
        statement: format!("in the guest cluster: {}", link.statement),
        remedy: link.remedy.map(|remedy| format!("in the guest cluster: {remedy}")),
        ..link
    };
    chain.into_iter().map(told).collect()
}
