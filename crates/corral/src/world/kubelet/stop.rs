//! The end of a pod that was deleted: preStop hooks, then the signal, and the axe when its time is over.
//!
//! Models `pkg/kubelet/kuberuntime/kuberuntime_container.go` (killContainer) of Kubernetes 1.34.

use std::time::Duration;

use drover_clock::later;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, Pod};

use super::containers;
use super::pod::refresh_conditions;
use crate::world::annotations::{self, Lasts, PRE_STOP, STOP_DURATION};
use crate::world::outcome::{Action, Outcome};
use crate::world::pods;

/// How long a container takes to end if nothing else is said.
const OBEYS_AFTER: Duration = Duration::from_secs(1);

/// Stops the containers and lets the pod go. One that something else still holds stays, ended.
pub fn stop(pod: &Pod, now: Timestamp) -> Outcome {
    let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
    let Some(deadline) = &pod.metadata.deletion_timestamp else { return Outcome::nothing() };
    let told = deadline.0.checked_sub(SignedDuration::from_secs(grace)).unwrap_or(deadline.0);
    let allowed = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
    let takes = longest_stop(pod);
    let stopped = later(told, takes.map_or(allowed, |takes| takes.min(allowed)));
    if now < stopped && !pods::has_ended(pod) {
        return Outcome::wait_until(stopped);
    }
    let mut actions = Vec::new();
    if !pods::has_ended(pod) {
        let killed = takes.is_none_or(|takes| takes > allowed);
        let mut status = pod.status.clone().unwrap_or_default();
        for container in
            [&mut status.init_container_statuses, &mut status.container_statuses].into_iter().flatten().flatten()
        {
            containers::stop(container, killed, now);
        }
        status.phase = Some(pods::FAILED.into());
        if let Some(spec) = &pod.spec {
            refresh_conditions(&mut status, spec, now);
        }
        actions.push(Action::PodStatus(Box::new(Pod { status: Some(status), ..pod.clone() })));
    }
    if grace > 0 {
        actions.push(Action::RemovePod {
            namespace: pods::namespace(&pod.metadata).into(),
            name: pods::name(&pod.metadata).into(),
            uid: pods::uid(&pod.metadata).into(),
        });
    }
    Outcome::act(actions)
}

/// How long the slowest container takes; none if one never ends by itself.
fn longest_stop(pod: &Pod) -> Option<Duration> {
    let said = pod.metadata.annotations.as_ref();
    let takes = |container: &Container| {
        let hook = match annotations::lasts(said, PRE_STOP, &container.name) {
            Some(Lasts::For(time)) => time,
            Some(Lasts::Forever) => return None,
            None => sleep_before_stop(container),
        };
        match annotations::lasts(said, STOP_DURATION, &container.name) {
            Some(Lasts::Forever) => None,
            Some(Lasts::For(time)) => Some(hook + time),
            None => Some(hook + OBEYS_AFTER),
        }
    };
    let containers = pod.spec.as_ref().map(|spec| spec.containers.as_slice()).unwrap_or_default();
    containers.iter().map(takes).try_fold(Duration::ZERO, |longest, takes| Some(longest.max(takes?)))
}

/// A hook that sleeps says itself how long it takes.
fn sleep_before_stop(container: &Container) -> Duration {
    let hook = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
    let seconds = hook.and_then(|hook| hook.sleep.as_ref()).map_or(0, |sleep| sleep.seconds);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}
