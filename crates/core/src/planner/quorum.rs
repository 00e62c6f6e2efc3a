//! Would etcd keep its quorum without this node?

use std::collections::{BTreeMap, BTreeSet};

use super::seen::NodeSeen;

/// By this code a user accepts that one of two voters is taken out.
pub const CODE: &str = "DRV-ETCD-001";
const IS_VOTER: &str = "EtcdIsVoter";
const NOT_A_MEMBER: &str = "NotAMember";

/// Why the node must not be taken out now, in a sentence; none if it may.
///
/// Whoever is not Ready, is taken already, or was lost as a member, counts as out. A learner counts neither way. A sole voter may
/// be taken out; one of two where that is accepted.
pub fn at_risk(
    nodes: &BTreeMap<String, NodeSeen>,
    node: &NodeSeen,
    taken: &BTreeSet<&str>,
    accepted: bool,
) -> Option<String> {
    let votes = |node: &NodeSeen| node.condition(IS_VOTER).is_some_and(|voter| voter.status == "True");
    let is_lost = |node: &NodeSeen| node.condition(IS_VOTER).is_some_and(|voter| voter.reason == NOT_A_MEMBER);
    if !votes(node) {
        return None;
    }
    let members: Vec<&NodeSeen> = nodes.values().filter(|one| votes(one) || is_lost(one)).collect();
    let others = members.iter().copied().filter(|other| other.meta.name != node.meta.name);
    let is_well = |other: &&NodeSeen| votes(other) && other.is_ready() && !taken.contains(other.meta.name.as_str());
    let (well, out): (Vec<&NodeSeen>, Vec<&NodeSeen>) = others.partition(is_well);
    let quorum = members.len() / 2 + 1;
    let is_pair = members.len() == 2 && out.is_empty() && accepted;
    if members.len() == 1 || well.len() >= quorum || is_pair {
        return None;
    }
    let name = &node.meta.name;
    let names: Vec<&str> = out.iter().map(|node| node.meta.name.as_str()).collect();
    Some(match names.is_empty() {
        true => format!(
            "etcd has {} voters and needs {quorum}: {name} must not be taken out unless {CODE} is accepted",
            members.len()
        ),
        false => format!(
            "etcd needs {quorum} of {} voters, and {} is out: {name} must not be taken out as well",
            members.len(),
            names.join(", ")
        ),
    })
}
