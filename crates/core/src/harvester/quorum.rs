//! Would etcd keep its quorum without this node?

use crate::cluster::{Cluster, Node, condition};

const IS_VOTER: &str = "EtcdIsVoter";
const NOT_A_MEMBER: &str = "NotAMember";

/// Why the node must not be taken out now, in a sentence; none if it may.
///
/// Whoever is not Ready, or was lost as a member, counts as out. A learner does not vote and counts neither way. A sole voter
/// may be taken out: everybody knows what that means.
pub(super) fn at_risk(cluster: &Cluster, node: &Node) -> Option<String> {
    let voter = |node: &Node| condition(&node.status.conditions, IS_VOTER).cloned();
    let votes = |node: &Node| voter(node).is_some_and(|voter| voter.is_true());
    if !votes(node) {
        return None;
    }
    let counts = |node: &&Node| votes(node) || voter(node).is_some_and(|voter| voter.reason == NOT_A_MEMBER);
    let members: Vec<&Node> = cluster.nodes.iter().filter(counts).collect();
    let others: Vec<&Node> =
        members.iter().copied().filter(|other| other.metadata.name != node.metadata.name).collect();
    let (well, out): (Vec<&Node>, Vec<&Node>) = others.iter().partition(|other| votes(other) && other.is_ready());
    let quorum = members.len() / 2 + 1;
    if others.is_empty() || well.len() >= quorum {
        return None;
    }
    let name = &node.metadata.name;
    let names = |nodes: &[&Node]| nodes.iter().map(|node| node.metadata.name.as_str()).collect::<Vec<_>>().join(", ");
    Some(match out.is_empty() {
        true => format!("etcd has {} voters and needs {quorum}: {name} must not be taken out", members.len()),
        false => format!(
            "etcd needs {quorum} of {} voters, and {} is out: {name} must not be taken out as well",
            members.len(),
            names(&out)
        ),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(nodes: &[(&str, &str, bool)]) -> Cluster {
        let mut cluster = Cluster::default();
        for (name, reason, ready) in nodes {
            let votes = if *reason == "MemberNotLearner" { "True" } else { "False" };
            let ready = if *ready { "True" } else { "False" };
            let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name }, "status": { "conditions": [
                { "type": IS_VOTER, "status": votes, "reason": reason }, { "type": "Ready", "status": ready },
            ] } });
            cluster.take(node.to_string().as_bytes());
        }
        cluster
    }

    const VOTES: &str = "MemberNotLearner";

    fn risk(nodes: &[(&str, &str, bool)]) -> Option<String> {
        let cluster = cluster(nodes);
        let node = cluster.nodes.named("a").unwrap().clone();
        at_risk(&cluster, &node)
    }

    #[test]
    fn one_of_three_voters_may_go() {
        assert_eq!(risk(&[("a", VOTES, true), ("b", VOTES, true), ("c", VOTES, true)]), None);
    }

    #[test]
    fn none_may_go_while_another_is_not_ready_or_was_lost() {
        for other in [("c", VOTES, false), ("c", NOT_A_MEMBER, true)] {
            let said = risk(&[("a", VOTES, true), ("b", VOTES, true), other]).unwrap();
            assert!(said.contains("c is out") && said.contains("a must not"), "{said}");
        }
    }

    #[test]
    fn a_learner_neither_counts_nor_helps() {
        assert_eq!(risk(&[("a", VOTES, true), ("b", "MemberIsLearner", true)]), None);
        assert_eq!(risk(&[("a", "MemberIsLearner", true), ("b", VOTES, true)]), None);
    }

    #[test]
    fn of_two_voters_none_may_go_and_a_sole_one_may() {
        assert!(risk(&[("a", VOTES, true), ("b", VOTES, true)]).is_some());
        assert_eq!(risk(&[("a", VOTES, true)]), None);
    }
}
