//! May this node leave etcd for a while? That is asked before each thing that takes a node out: a Job, an answer to the planner, a boot.
//!
//! Between two of them hours may pass, and whoever was well at the first may be out at the next.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::options;
use crate::cluster::harvester::Upgrade;
use crate::cluster::{Cluster, Node, condition};
use crate::decision::{Reason, Subject, Wait};
use crate::quorum::{CODE, IS_VOTER, Member, at_risk};

/// What a node waits for that must not be taken out; none if it may. `voters` are those of the beginning, as far as they are known.
pub(super) fn risk(
    cluster: &Cluster,
    upgrade: &Upgrade,
    voters: &BTreeSet<String>,
    name: &str,
    now: Timestamp,
) -> Option<Wait> {
    let accepted = crate::accepted::codes(&upgrade.metadata.annotations).contains(CODE);
    let mut sentence = at_risk(cluster.nodes.iter().map(member), name, accepted)?;
    let promoted = promoted(cluster, voters);
    if !promoted.is_empty() {
        sentence = format!("{sentence}; {} has joined etcd since the upgrade began", promoted.join(", "));
    }
    let accept = options::accept(&upgrade.metadata, CODE);
    let remedy = format!("bring the other members back; of two that are well, accept that one goes: {accept}");
    Some(Wait::new(Subject::node(name), Reason::QuorumAtRisk, sentence, now).with_remedy(remedy))
}

/// Nodes that were promoted since the Upgrade began.
fn promoted<'a>(cluster: &'a Cluster, voters: &BTreeSet<String>) -> Vec<&'a str> {
    if voters.is_empty() {
        return Vec::new();
    }
    let has_joined = |node: &&Node| member(node).is_member() && !voters.contains(&node.metadata.name);
    cluster.nodes.iter().filter(has_joined).map(|node| node.metadata.name.as_str()).collect()
}

/// Who votes now.
pub(super) fn voters(cluster: &Cluster) -> BTreeSet<String> {
    let votes = cluster.nodes.iter().filter(|node| member(node).votes());
    votes.map(|node| node.metadata.name.clone()).collect()
}

fn member(node: &Node) -> Member<'_> {
    Member {
        name: &node.metadata.name,
        voter: condition(&node.status.conditions, IS_VOTER).map(|voter| (voter.status.as_str(), voter.reason.as_str())),
        is_well: node.is_ready(),
    }
}
