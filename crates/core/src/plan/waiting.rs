//! Waits that more than one place says.

use super::decide::View;
use super::marking::is_left_by_predecessor;
use crate::decision::{Reason, Subject, Wait};
use crate::seen::NodeSeen;
use jiff::Timestamp;

pub(super) fn claimed_by_another(view: &View<'_>, node: &NodeSeen, now: Timestamp) -> Wait {
    let owner = match &node.mark {
        None => "another owner".to_owned(),
        Some(_) if is_left_by_predecessor(view, node) => {
            "the Plan of this name that was deleted, until its Job and the pod of that are gone".to_owned()
        }
        Some(mark) => format!("{} {}/{}", mark.owner.kind, mark.owner.namespace, mark.owner.name),
    };
    let sentence = format!("Node {} is out for {owner}", node.meta.name);
    Wait::new(Subject::node(&node.meta.name), Reason::NodeClaimedByAnother, sentence, now)
}

pub(super) fn not_ready(node: &NodeSeen, now: Timestamp) -> Wait {
    let sentence = format!("Node {} is not Ready", node.meta.name);
    let remedy = format!("find out why: kubectl describe node {}", node.meta.name);
    Wait::new(Subject::node(&node.meta.name), Reason::NodeNotReady, sentence, now).with_remedy(remedy)
}
