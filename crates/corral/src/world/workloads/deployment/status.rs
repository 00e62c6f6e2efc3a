//! The status of a Deployment: what it has, whether that is enough, and whether it gets on.

use std::time::Duration;

use drover_clock::later;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentSpec, DeploymentStatus, ReplicaSet};

use super::{Rollout, available};
use crate::world::outcome::stamp;
use crate::world::pods;

const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";
const REPLICA_FAILURE: &str = "ReplicaFailure";

const NEW_AVAILABLE: &str = "NewReplicaSetAvailable";
const UPDATED: &str = "ReplicaSetUpdated";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";
const RESUMED: &str = "DeploymentResumed";

/// The numbers, and whether they are enough.
pub fn counted(rollout: &Rollout<'_>, before: DeploymentStatus, now: Timestamp) -> DeploymentStatus {
    let sum = |of: fn(&ReplicaSet) -> i32| rollout.sets.iter().map(of).sum::<i32>();
    let new = rollout.new.and_then(|new| rollout.sets.get(new));
    let available = sum(available);
    let total: i32 = rollout.sets.iter().map(super::size).sum();
    let some = |number: i32| Some(number).filter(|number| *number > 0);
    let mut status = DeploymentStatus {
        observed_generation: rollout.deployment.metadata.generation,
        replicas: some(sum(actual)),
        updated_replicas: some(new.map_or(0, actual)),
        ready_replicas: some(sum(ready)),
        available_replicas: some(available),
        unavailable_replicas: some((total - available).max(0)),
        ..before
    };
    let (value, reason, message) = if available >= rollout.replicas() - rollout.max_unavailable() {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    set(&mut status, AVAILABLE, value, reason, message, now);
    status
}

/// The numbers, and how the rollout gets on.
pub fn with_progress(rollout: &Rollout<'_>, known: DeploymentStatus, now: Timestamp) -> DeploymentStatus {
    let (deployment, spec) = (rollout.deployment, rollout.spec);
    let current = find(&known, PROGRESSING).cloned();
    let mut status = counted(rollout, known, now);
    let Some(deadline) = deadline(spec) else {
        remove(&mut status, PROGRESSING);
        return with_failures(rollout, status, now);
    };
    let is_done = status.replicas == status.updated_replicas && reason(current.as_ref()) == Some(NEW_AVAILABLE);
    if !is_done {
        let what = match rollout.new.map(|new| rollout.name(new)) {
            Some(name) => format!("ReplicaSet {name:?}"),
            None => format!("Deployment {:?}", pods::name(&deployment.metadata)),
        };
        if is_complete(spec, &status) {
            set(&mut status, PROGRESSING, "True", NEW_AVAILABLE, &format!("{what} has successfully progressed."), now);
        } else if has_progressed(deployment, &status) {
            let since = current.filter(|current| current.status == "True").and_then(|one| one.last_transition_time);
            remove(&mut status, PROGRESSING);
            set(&mut status, PROGRESSING, "True", UPDATED, &format!("{what} is progressing."), now);
            let condition = status.conditions.iter_mut().flatten().find(|condition| condition.type_ == PROGRESSING);
            if let (Some(condition), Some(since)) = (condition, since) {
                condition.last_transition_time = Some(since);
            }
        } else if is_timed_out(&status, deadline, now) {
            set(&mut status, PROGRESSING, "False", TIMED_OUT, &format!("{what} has timed out progressing."), now);
        }
    }
    with_failures(rollout, status, now)
}

/// What keeps a ReplicaSet from making pods is the Deployment's trouble, too.
fn with_failures(rollout: &Rollout<'_>, mut status: DeploymentStatus, now: Timestamp) -> DeploymentStatus {
    let new = rollout.new.and_then(|new| rollout.sets.get(new));
    let conditions = new.into_iter().chain(&rollout.sets).filter_map(|set| set.status.as_ref()?.conditions.as_ref());
    match conditions.flatten().find(|condition| condition.type_ == REPLICA_FAILURE) {
        Some(failure) => {
            let (reason, message) = (failure.reason.clone(), failure.message.clone());
            let (reason, message) = (reason.unwrap_or_default(), message.unwrap_or_default());
            set(&mut status, REPLICA_FAILURE, &failure.status, &reason, &message, now);
        }
        None => remove(&mut status, REPLICA_FAILURE),
    }
    status
}

/// All pods are of the new template and available.
pub fn is_complete(spec: &DeploymentSpec, status: &DeploymentStatus) -> bool {
    let wanted = spec.replicas.unwrap_or(1);
    let all = [status.updated_replicas, status.replicas, status.available_replicas];
    all.into_iter().all(|number| number.unwrap_or(0) == wanted)
}

/// When a rollout that gets no further is called stuck.
pub fn looks_again(spec: &DeploymentSpec, status: &DeploymentStatus, now: Timestamp) -> Option<Timestamp> {
    let condition = find(status, PROGRESSING).filter(|condition| condition.status == "True")?;
    if is_complete(spec, status) || condition.reason.as_deref() == Some(NEW_AVAILABLE) {
        return None;
    }
    let ends = later(condition.last_update_time.as_ref()?.0, deadline(spec)?);
    Some(later(ends, Duration::from_secs(1))).filter(|moment| *moment > now)
}

pub fn mark_pause(spec: &DeploymentSpec, status: &mut DeploymentStatus, now: Timestamp) {
    let known = reason(find(status, PROGRESSING)).unwrap_or_default().to_string();
    if deadline(spec).is_none() || known == TIMED_OUT {
        return;
    }
    match (spec.paused == Some(true), known == PAUSED) {
        (true, false) => set(status, PROGRESSING, "Unknown", PAUSED, "Deployment is paused", now),
        (false, true) => set(status, PROGRESSING, "Unknown", RESUMED, "Deployment is resumed", now),
        _ => {}
    }
}

/// The first thing that is known of a rollout.
pub fn note_new(spec: &DeploymentSpec, status: &mut DeploymentStatus, reason: &str, message: &str, now: Timestamp) {
    if find(status, PROGRESSING).is_none() {
        set_progressing(spec, status, "True", reason, message, now);
    }
}

pub fn set_progressing(
    spec: &DeploymentSpec,
    status: &mut DeploymentStatus,
    value: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    if deadline(spec).is_some() {
        set(status, PROGRESSING, value, reason, message, now);
    }
}

fn deadline(spec: &DeploymentSpec) -> Option<Duration> {
    let seconds = spec.progress_deadline_seconds.filter(|seconds| *seconds != i32::MAX)?;
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

fn has_progressed(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let before = deployment.status.clone().unwrap_or_default();
    let number = |number: Option<i32>| number.unwrap_or(0);
    let old = |status: &DeploymentStatus| number(status.replicas) - number(status.updated_replicas);
    number(status.updated_replicas) > number(before.updated_replicas)
        || old(status) < old(&before)
        || number(status.ready_replicas) > number(before.ready_replicas)
        || number(status.available_replicas) > number(before.available_replicas)
}

fn is_timed_out(status: &DeploymentStatus, deadline: Duration, now: Timestamp) -> bool {
    let Some(condition) = find(status, PROGRESSING) else { return false };
    match condition.reason.as_deref() {
        Some(NEW_AVAILABLE) => false,
        Some(TIMED_OUT) => true,
        _ => condition.last_update_time.as_ref().is_some_and(|since| later(since.0, deadline) < now),
    }
}

fn find<'a>(status: &'a DeploymentStatus, kind: &str) -> Option<&'a DeploymentCondition> {
    status.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
}

fn reason(condition: Option<&DeploymentCondition>) -> Option<&str> {
    condition.and_then(|condition| condition.reason.as_deref())
}

/// A condition is written anew only if its status or its reason changes.
fn set(status: &mut DeploymentStatus, kind: &str, value: &str, reason: &str, message: &str, now: Timestamp) {
    let before = find(status, kind);
    if before.is_some_and(|before| before.status == value && before.reason.as_deref() == Some(reason)) {
        return;
    }
    let since = before.filter(|before| before.status == value).and_then(|before| before.last_transition_time.clone());
    let condition = DeploymentCondition {
        type_: kind.into(),
        status: value.into(),
        reason: Some(reason.into()),
        message: Some(message.into()),
        last_update_time: Some(stamp(now)),
        last_transition_time: Some(since.unwrap_or_else(|| stamp(now))),
    };
    remove(status, kind);
    status.conditions.get_or_insert_default().push(condition);
}

fn remove(status: &mut DeploymentStatus, kind: &str) {
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|condition| condition.type_ != kind);
    }
}

fn actual(set: &ReplicaSet) -> i32 {
    set.status.as_ref().map_or(0, |status| status.replicas)
}

fn ready(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0)
}
