//! Waits that more than one place says.

use crate::decision::{Reason, Subject, Wait};
use crate::seen::NodeSeen;
use jiff::Timestamp;

pub(super) fn claimed_by_another(node: &NodeSeen, now: Timestamp) -> Wait {
    let owner = node.mark.as_ref().map_or_else(
        || "another owner".to_owned(),
        |mark| format!("{} {}/{}", mark.owner.kind, mark.owner.namespace, mark.owner.name),
    );
    let sentence = format!("Node {} is out for {owner}", node.meta.name);
    Wait::new(Subject::node(&node.meta.name), Reason::NodeClaimedByAnother, sentence, now)
}

pub(super) fn not_ready(node: &NodeSeen, now: Timestamp) -> Wait {
    let sentence = format!("Node {} is not Ready", node.meta.name);
    let remedy = format!("find out why: kubectl describe node {}", node.meta.name);
    Wait::new(Subject::node(&node.meta.name), Reason::NodeNotReady, sentence, now).with_remedy(remedy)
}
