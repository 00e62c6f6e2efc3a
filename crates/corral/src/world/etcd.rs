//! The etcd members of an RKE2 cluster, as their Nodes tell of them: a server that joins is a learner first, then a voter.
//!
//! Models `pkg/etcd` of k3s 1.34, as RKE2 has it, as far as the Node condition `EtcdIsVoter` goes. A condition that says something
//! else than learner or voter (a member that was removed) is left as it is, since nothing here would bring it back.

use std::time::Duration;

use drover_clock::later;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};

use super::agenda::Look;
use super::look::Wake;
use super::outcome::{Action, Outcome, stamp};
use super::{Part, World};
use crate::apiserver::Answer;

const ROLE: &str = "node-role.kubernetes.io/etcd";
const IS_VOTER: &str = "EtcdIsVoter";
const LEARNER: &str = "MemberIsLearner";
const VOTER: &str = "MemberNotLearner";

/// How long a member learns before it may vote.
const LEARNING: Duration = Duration::from_secs(20);

pub fn reconcile(node: &Node, now: Timestamp) -> Outcome {
    let has_role =
        node.metadata.labels.as_ref().and_then(|labels| labels.get(ROLE)).is_some_and(|value| value == "true");
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let known = conditions.into_iter().flatten().find(|condition| condition.type_ == IS_VOTER);
    match (has_role, known) {
        (true, None) => tell(node, Some(LEARNER), now),
        (true, Some(known)) if known.reason.as_deref() == Some(LEARNER) => {
            let since = known.last_transition_time.as_ref().map_or(now, |time| time.0);
            let votes = later(since, LEARNING);
            if now < votes { Outcome::wait_until(votes) } else { tell(node, Some(VOTER), now) }
        }
        (false, Some(_)) => tell(node, None, now),
        _ => Outcome::nothing(),
    }
}

fn tell(node: &Node, reason: Option<&str>, now: Timestamp) -> Outcome {
    let mut after = node.clone();
    let conditions = after.status.get_or_insert_default().conditions.get_or_insert_default();
    conditions.retain(|condition| condition.type_ != IS_VOTER);
    conditions.extend(reason.map(|reason| {
        let votes = reason == VOTER;
        let message = if votes { "Node is a voting member" } else { "Node has not been promoted to voting member" };
        NodeCondition {
            type_: IS_VOTER.into(),
            status: if votes { "True" } else { "False" }.into(),
            reason: Some(reason.into()),
            message: Some(format!("{message} of the etcd cluster")),
            last_heartbeat_time: Some(stamp(now)),
            last_transition_time: Some(stamp(now)),
        }
    }));
    Outcome::act(vec![Action::NodeStatus(Box::new(after))])
}

impl World {
    pub(super) fn notice_member(&mut self, name: &str) {
        if self.has(Part::Etcd) {
            self.soon(Look::Member(name.into()));
        }
    }

    pub(super) fn look_at_member(&self, name: &str, now: Timestamp) -> Answer<Wake> {
        let Some(node) = self.read_for::<Node>(Part::Etcd, "", name)? else { return Ok(None) };
        self.perform(Part::Etcd, &reconcile(&node, now), now)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Cluster, node};
    use super::super::{Part, WorldOptions};
    use super::*;

    fn voter(cluster: &Cluster, name: &str) -> Option<(String, String)> {
        let conditions = cluster.node(name).status?.conditions?;
        let found = conditions.into_iter().find(|condition| condition.type_ == IS_VOTER)?;
        Some((found.status, found.reason.unwrap_or_default()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_is_promoted_learns_before_it_votes() {
        let cluster = Cluster::new(WorldOptions::default().with([Part::Etcd]));
        cluster.create::<Node>(node("n1"));
        cluster.passes(60).await;
        assert_eq!(voter(&cluster, "n1"), None);

        let mut promoted = cluster.node("n1");
        promoted.metadata.labels.get_or_insert_default().insert(ROLE.into(), "true".into());
        cluster.direct.update(&promoted).unwrap();
        cluster.passes(5).await;
        assert_eq!(voter(&cluster, "n1"), Some(("False".into(), LEARNER.into())));
        cluster.passes(20).await;
        assert_eq!(voter(&cluster, "n1"), Some(("True".into(), VOTER.into())));
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_that_was_lost_does_not_come_back_by_itself() {
        let cluster = Cluster::new(WorldOptions::default().with([Part::Etcd]));
        let mut lost = node("n1");
        lost["metadata"]["labels"] = serde_json::json!({ROLE: "true"});
        let lost = cluster.create::<Node>(lost);
        let gone = serde_json::json!({"type": IS_VOTER, "status": "False", "reason": "NotAMember"});
        let mut lost = Node { status: None, ..lost };
        lost.status.get_or_insert_default().conditions = Some(vec![serde_json::from_value(gone).unwrap()]);
        cluster.direct.update_status(&lost).unwrap();
        cluster.passes(300).await;
        assert_eq!(voter(&cluster, "n1"), Some(("False".into(), "NotAMember".into())));
    }
}
