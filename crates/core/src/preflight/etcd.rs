//! Would etcd keep its quorum, and is there a copy of it?

use std::collections::BTreeSet;

use jiff::SignedDuration;

use super::nodes::named;
use super::{Check, Finding, Intent, Scope, Severity};
use crate::cluster::{Cluster, Node, condition};
use crate::quorum::IS_VOTER;

const ROLE: &str = "node-role.kubernetes.io/etcd";
/// A copy that is older than this may not be what one wants to go back to.
const FRESH: SignedDuration = SignedDuration::from_hours(24);

pub const CHECKS: &[Check] = &[
    Check {
        code: "DRV-ETCD-001",
        severity: Severity::Blocks,
        scope: Scope::Nodes,
        title: "etcd would lose its quorum with one member less",
        consequence: "the API server stops to answer as soon as a member is drained or rebooted.",
        remedy: "repair the members that are not healthy, or add one; with two members, accept the check by its code",
        reads: &["Node", "Pod"],
        look: no_margin,
    },
    Check {
        code: "DRV-ETCD-002",
        severity: Severity::Blocks,
        scope: Scope::Nodes,
        title: "A node of etcd does not vote",
        consequence: "the node counts as a member that does not: another that is taken out leaves too few.",
        remedy: "find out why the member was removed or is still a learner before anything else is touched",
        reads: &["Node"],
        look: not_a_voter,
    },
    Check {
        code: "DRV-ETCD-003",
        severity: Severity::Risks,
        scope: Scope::Nodes,
        title: "etcd has an even number of members",
        consequence: "one member more than an odd number bears no further failure, and one less is lost sooner.",
        remedy: "add or remove a member",
        reads: &["Node", "Pod"],
        look: even,
    },
    Check {
        code: "DRV-ETCD-004",
        severity: Severity::Risks,
        scope: Scope::Nodes,
        title: "There is no recent copy of etcd",
        consequence: "if the control plane does not come back, everything since the last copy is lost.",
        remedy: "take a snapshot: rke2 etcd-snapshot save, k3s etcd-snapshot save, or etcdctl snapshot save",
        reads: &["Node", "Pod", "ETCDSnapshotFile", "ETCDSnapshot"],
        look: no_copy,
    },
];

/// The nodes with a voting member: by RKE2's and k3s's own condition, else by the static pods of kubeadm.
pub fn members(cluster: &Cluster) -> Vec<&Node> {
    let says = |node: &&Node| condition(&node.status.conditions, IS_VOTER).is_some();
    if cluster.nodes.iter().any(|node| says(&node)) {
        let votes = |node: &&Node| condition(&node.status.conditions, IS_VOTER).is_some_and(|voter| voter.is_true());
        return cluster.nodes.iter().filter(votes).collect();
    }
    let hosts = etcd_pods(cluster).map(|pod| pod.spec.node_name.as_str()).collect::<BTreeSet<_>>();
    cluster.nodes.iter().filter(|node| hosts.contains(node.metadata.name.as_str())).collect()
}

fn etcd_pods(cluster: &Cluster) -> impl Iterator<Item = &crate::cluster::Pod> {
    let pods = cluster.pods.in_namespace("kube-system");
    pods.filter(|pod| pod.metadata.labels.get("component").is_some_and(|component| component == "etcd"))
}

fn is_healthy(cluster: &Cluster, node: &Node) -> bool {
    let mut pods = etcd_pods(cluster).filter(|pod| pod.spec.node_name == node.metadata.name);
    node.is_ready() && pods.all(|pod| pod.is_ready())
}

/// The members of which one would be taken out; none if no member is.
fn members_at_stake<'a>(cluster: &'a Cluster, intent: &Intent) -> Vec<&'a Node> {
    let members = members(cluster);
    let concerned = intent.nodes(cluster);
    let is_at_stake =
        members.iter().any(|member| concerned.iter().any(|node| node.metadata.name == member.metadata.name));
    if is_at_stake { members } else { Vec::new() }
}

fn no_margin(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let members = members_at_stake(cluster, intent);
    // A sole member is taken out alone, and everybody knows what that means.
    if members.len() < 2 {
        return Vec::new();
    }
    let (healthy, sick): (Vec<&Node>, Vec<&Node>) = members.iter().copied().partition(|node| is_healthy(cluster, node));
    let quorum = members.len() / 2 + 1;
    if healthy.len() > quorum {
        return Vec::new();
    }
    let all = members.len();
    let sentence = match sick.is_empty() {
        true => format!("etcd has {all} members and needs {quorum}: none may be taken out"),
        false => format!(
            "etcd has {all} members, needs {quorum} and has {} healthy ones: {} not healthy",
            healthy.len(),
            named(sick.iter().copied())
        ),
    };
    let concerned = if sick.is_empty() { members } else { sick };
    let finding = Finding::new(sentence).about(concerned.into_iter().map(crate::cluster::ObjectRef::of));
    vec![finding]
}

fn not_a_voter(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let finding = |node: &Node| {
        let voter = condition(&node.status.conditions, IS_VOTER).filter(|voter| !voter.is_true())?;
        node.metadata.labels.contains_key(ROLE).then(|| {
            let name = &node.metadata.name;
            Finding::new(format!("node {name} has the role of etcd and does not vote: {}", voter.message))
                .on(node)
                .remedy(format!("kubectl describe node {name}; on the node: journalctl -u rke2-server | grep etcd"))
        })
    };
    cluster.nodes.iter().filter_map(finding).collect()
}

fn even(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let members = members_at_stake(cluster, intent);
    // Two are told by the check of the quorum.
    if members.len() < 4 || !members.len().is_multiple_of(2) {
        return Vec::new();
    }
    let sentence = format!("etcd has {} members: {}", members.len(), named(members.iter().copied()));
    vec![Finding::new(sentence).about(members.into_iter().map(crate::cluster::ObjectRef::of))]
}

fn no_copy(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    if members_at_stake(cluster, intent).is_empty() {
        return Vec::new();
    }
    let newest =
        cluster.snapshots.etcd.iter().filter_map(|copy| Some((copy.taken_at()?, copy))).max_by_key(|(at, _)| *at);
    match newest {
        Some((at, _)) if cluster.looked_at.duration_since(at) <= FRESH => Vec::new(),
        Some((at, copy)) => {
            let hours = cluster.looked_at.duration_since(at).as_hours();
            vec![Finding::new(format!("the newest copy of etcd is {hours} hours old, of {at}")).on(copy)]
        }
        None => vec![Finding::new("no copy of etcd is known to the cluster")],
    }
}
