//! Questions about a pod that more than one part of the world asks.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::outcome::stamp;

pub const PENDING: &str = "Pending";
pub const RUNNING: &str = "Running";
pub const SUCCEEDED: &str = "Succeeded";
pub const FAILED: &str = "Failed";

pub const READY: &str = "Ready";
pub const POD_SCHEDULED: &str = "PodScheduled";

pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or(PENDING)
}

/// Its containers have all ended, and none will start again.
pub fn has_ended(pod: &Pod) -> bool {
    matches!(phase(pod), SUCCEEDED | FAILED)
}

pub fn is_leaving(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

pub fn is_ready(pod: &Pod) -> bool {
    condition(pod, READY).is_some_and(|ready| ready.status == "True")
}

pub fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
}

pub fn node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

pub fn uid(metadata: &ObjectMeta) -> &str {
    metadata.uid.as_deref().unwrap_or_default()
}

pub fn name(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

pub fn namespace(metadata: &ObjectMeta) -> &str {
    metadata.namespace.as_deref().unwrap_or_default()
}

/// The one owner that looks after this object.
pub fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata.owner_references.as_ref()?.iter().find(|owner| owner.controller == Some(true))
}

pub fn has_finalizer(metadata: &ObjectMeta, finalizer: &str) -> bool {
    metadata.finalizers.as_ref().is_some_and(|all| all.iter().any(|one| one == finalizer))
}

/// Sets a condition; the time of its last transition changes only with its status. Says whether anything changed.
pub fn set_condition(
    conditions: &mut Vec<PodCondition>,
    kind: &str,
    status: bool,
    reason: Option<&str>,
    message: Option<String>,
    now: Timestamp,
) -> bool {
    let status = if status { "True" } else { "False" };
    let before = conditions.iter().position(|condition| condition.type_ == kind);
    let since = before
        .and_then(|at| conditions.get(at))
        .filter(|condition| condition.status == status)
        .and_then(|condition| condition.last_transition_time.clone());
    let after = PodCondition {
        type_: kind.into(),
        status: status.into(),
        reason: reason.map(Into::into),
        message,
        last_transition_time: Some(since.unwrap_or_else(|| stamp(now))),
        ..PodCondition::default()
    };
    match before.and_then(|at| conditions.get_mut(at)) {
        Some(condition) if *condition == after => false,
        Some(condition) => {
            *condition = after;
            true
        }
        None => {
            conditions.push(after);
            true
        }
    }
}
