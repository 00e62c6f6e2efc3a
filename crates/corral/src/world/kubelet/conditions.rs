//! The conditions of a Node, as its kubelet writes them.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeStatus};

use crate::world::outcome::stamp;

pub const READY: &str = "Ready";
pub const DISK_PRESSURE: &str = "DiskPressure";

pub fn is_true(node: &Node, kind: &str) -> bool {
    node.status.as_ref().and_then(|status| find(status, kind)).is_some_and(|condition| condition.status == "True")
}

/// Somebody has said how it is.
pub fn is_known(status: &NodeStatus, kind: &str) -> bool {
    find(status, kind).is_some_and(|condition| condition.status != "Unknown")
}

pub fn find<'a>(status: &'a NodeStatus, kind: &str) -> Option<&'a NodeCondition> {
    status.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
}

/// Sets a condition if it says something else.
pub fn set(status: &mut NodeStatus, kind: &str, is_true: bool, reason: &str, message: &str, now: Timestamp) {
    let same = |before: &NodeCondition| before.status == word(is_true) && before.reason.as_deref() == Some(reason);
    if !find(status, kind).is_some_and(same) {
        report(status, kind, is_true, reason, message, now);
    }
}

/// Says how it is at this moment, even if it is as before.
pub fn report(status: &mut NodeStatus, kind: &str, is_true: bool, reason: &str, message: &str, now: Timestamp) {
    let since = find(status, kind)
        .filter(|before| before.status == word(is_true))
        .and_then(|before| before.last_transition_time.clone());
    let after = NodeCondition {
        type_: kind.into(),
        status: word(is_true).into(),
        reason: Some(reason.into()),
        message: Some(message.into()),
        last_heartbeat_time: Some(stamp(now)),
        last_transition_time: Some(since.unwrap_or_else(|| stamp(now))),
    };
    let conditions = status.conditions.get_or_insert_default();
    match conditions.iter_mut().find(|condition| condition.type_ == kind) {
        Some(condition) => *condition = after,
        None => conditions.push(after),
    }
}

fn word(is_true: bool) -> &'static str {
    if is_true { "True" } else { "False" }
}
