//! Counts a Job's pods: how many are at work, how many have ended, and which of them the status does not count yet.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::conditions::Verdict;
use super::{TRACKING, only_replaces_failed};
use crate::world::annotations::LAST_FAILURE;
use crate::world::outcome::Action;
use crate::world::pods;

pub struct Tally<'a> {
    pub pods: &'a [Pod],
    /// Pending or running, and not being deleted; those that may go first come first.
    pub active: Vec<&'a Pod>,
    /// Pods that this look starts.
    pub started: usize,
    /// Being deleted, and not ended yet.
    pub terminating: i32,
    /// With those that the status does not count yet.
    pub succeeded: i32,
    pub failed: i32,
    pub last_failure: Option<Timestamp>,
    failed_pods: BTreeSet<&'a str>,
    released: BTreeSet<&'a str>,
}

impl<'a> Tally<'a> {
    pub fn of(job: &Job, pods: &'a [Pod]) -> Self {
        let replaces_failed_only = job.spec.as_ref().is_some_and(only_replaces_failed);
        let status = job.status.as_ref();
        let uncounted = status.and_then(|status| status.uncounted_terminated_pods.clone()).unwrap_or_default();
        let waiting_succeeded = uids(uncounted.succeeded.as_ref());
        let waiting_failed = uids(uncounted.failed.as_ref());

        let failed_pods: BTreeSet<&str> = pods
            .iter()
            .filter(|pod| is_failed(pod, replaces_failed_only))
            .map(|pod| pods::uid(&pod.metadata))
            .collect();
        let tracked = |pod: &&Pod| pods::has_finalizer(&pod.metadata, TRACKING);
        let new_successes = pods
            .iter()
            .filter(tracked)
            .filter(|pod| pods::phase(pod) == pods::SUCCEEDED && !waiting_succeeded.contains(pods::uid(&pod.metadata)));
        let new_failures = pods.iter().filter(tracked).filter(|pod| {
            failed_pods.contains(pods::uid(&pod.metadata)) && !waiting_failed.contains(pods::uid(&pod.metadata))
        });

        let mut active: Vec<&Pod> = pods.iter().filter(|pod| !pods::has_ended(pod) && !pods::is_leaving(pod)).collect();
        active.sort_by_key(|pod| {
            (
                pods::node(pod).is_some(),
                pods::phase(pod) == pods::RUNNING,
                pods::is_ready(pod),
                pods::name(&pod.metadata),
            )
        });
        Tally {
            pods,
            active,
            started: 0,
            terminating: count(pods.iter().filter(|pod| pods::is_leaving(pod) && !pods::has_ended(pod))),
            succeeded: status.and_then(|status| status.succeeded).unwrap_or(0)
                + count(new_successes)
                + count(waiting_succeeded.iter()),
            failed: status.and_then(|status| status.failed).unwrap_or(0)
                + count(new_failures)
                + count(waiting_failed.iter()),
            last_failure: pods
                .iter()
                .filter(|pod| failed_pods.contains(pods::uid(&pod.metadata)))
                .filter_map(finished_at)
                .chain(noted_failure(job))
                .max(),
            failed_pods,
            released: BTreeSet::new(),
        }
    }

    /// Deletes `number` active pods and leaves the finalizer, so that they are counted before they vanish.
    pub fn end(&mut self, number: usize) -> Vec<Action> {
        let ending: Vec<&Pod> = self.active.drain(..number).collect();
        self.terminating += count(ending.iter());
        ending.into_iter().map(Action::delete_pod).collect()
    }

    /// Deletes `number` active pods that count neither as success nor as failure.
    pub fn release_and_end(&mut self, number: usize) -> Vec<Action> {
        let ending: Vec<&Pod> = self.active.drain(..number).collect();
        self.terminating += count(ending.iter());
        self.released.extend(ending.iter().map(|pod| pods::uid(&pod.metadata)));
        ending.into_iter().flat_map(|pod| [release(pod), Action::delete_pod(pod)]).collect()
    }

    /// Moves ended pods through `uncountedTerminatedPods` into the counters, and names those that may lose their
    /// finalizer once this status is written.
    pub fn account(&self, status: &mut JobStatus, verdict: Option<&Verdict>, job_is_leaving: bool) -> Vec<Action> {
        let mut uncounted = status.uncounted_terminated_pods.take().unwrap_or_default();
        let tracked: BTreeSet<&str> = self
            .pods
            .iter()
            .filter(|pod| pods::has_finalizer(&pod.metadata, TRACKING))
            .map(|pod| pods::uid(&pod.metadata))
            .filter(|uid| !self.released.contains(uid))
            .collect();
        settle(&mut uncounted.succeeded, &mut status.succeeded, &tracked);
        settle(&mut uncounted.failed, &mut status.failed, &tracked);

        let mut releases = Vec::new();
        for pod in self.pods.iter().filter(|pod| tracked.contains(pods::uid(&pod.metadata))) {
            let uid = pods::uid(&pod.metadata);
            let (succeeded, failed) = (pods::phase(pod) == pods::SUCCEEDED, self.failed_pods.contains(uid));
            if !(job_is_leaving || verdict.is_some() || succeeded || failed) {
                continue;
            }
            releases.push(release(pod));
            if succeeded {
                insert(&mut uncounted.succeeded, uid);
            } else if failed || verdict.is_some_and(|verdict| !verdict.is_success()) {
                // Once a Job has failed, so has every pod of it that was still at work.
                insert(&mut uncounted.failed, uid);
            }
        }
        status.uncounted_terminated_pods = Some(uncounted);
        releases
    }

    /// Every ended pod is counted, and none is on its way out.
    pub fn is_settled(&self, status: &JobStatus) -> bool {
        let uncounted = status.uncounted_terminated_pods.as_ref();
        let nothing_waits =
            uncounted.is_none_or(|waiting| is_empty(waiting.succeeded.as_ref()) && is_empty(waiting.failed.as_ref()));
        self.terminating == 0 && nothing_waits
    }

    pub fn write_counts(&self, status: &mut JobStatus) {
        let active = count(self.active.iter()) + i32::try_from(self.started).unwrap_or(i32::MAX);
        status.active = Some(active).filter(|active| *active > 0);
        status.ready = Some(count(self.active.iter().filter(|pod| pods::is_ready(pod))));
        status.terminating = Some(self.terminating);
    }
}

pub fn release(pod: &Pod) -> Action {
    Action::ReleasePod { namespace: pods::namespace(&pod.metadata).into(), name: pods::name(&pod.metadata).into() }
}

/// With `restartPolicy: OnFailure` it is restarts that use up the limit.
pub fn too_many_restarts(spec: &JobSpec, pods: &[Pod], limit: i32) -> bool {
    let restarts_in_place =
        spec.template.spec.as_ref().is_some_and(|spec| spec.restart_policy.as_deref() == Some("OnFailure"));
    let of = |statuses: Option<&Vec<ContainerStatus>>| -> i32 {
        statuses.into_iter().flatten().map(|container| container.restart_count).sum()
    };
    let restarts: i32 = pods
        .iter()
        .filter(|pod| !pods::has_ended(pod))
        .filter_map(|pod| pod.status.as_ref())
        .map(|status| of(status.init_container_statuses.as_ref()) + of(status.container_statuses.as_ref()))
        .sum();
    restarts_in_place && if limit == 0 { restarts > 0 } else { restarts >= limit }
}

/// The last failure of a pod that may be gone by now.
fn noted_failure(job: &Job) -> Option<Timestamp> {
    job.metadata.annotations.as_ref()?.get(LAST_FAILURE)?.parse().ok()
}

/// A pod that is being deleted counts as failed at once, unless the Job waits for its end.
fn is_failed(pod: &Pod, replaces_failed_only: bool) -> bool {
    match pods::phase(pod) {
        pods::FAILED => true,
        pods::SUCCEEDED => false,
        _ => !replaces_failed_only && pods::is_leaving(pod),
    }
}

/// When a pod ended: with its last container, else when it was told to go.
fn finished_at(pod: &Pod) -> Option<Timestamp> {
    let containers = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    let ends: Option<Vec<Timestamp>> = containers.filter(|all| !all.is_empty()).and_then(|all| {
        all.iter()
            .map(|container| Some(container.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0))
            .collect()
    });
    if let Some(last) = ends.and_then(|ends| ends.into_iter().max()) {
        return Some(last);
    }
    let not_ready = pods::condition(pod, pods::READY).filter(|ready| ready.status == "False");
    if let Some(since) = not_ready.and_then(|ready| ready.last_transition_time.as_ref()) {
        return Some(since.0);
    }
    let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
    let told = pod.metadata.deletion_timestamp.as_ref()?;
    told.0.checked_sub(SignedDuration::from_secs(grace)).ok()
}

/// Counts the waiting pods that have lost their finalizer.
fn settle(waiting: &mut Option<Vec<String>>, counter: &mut Option<i32>, tracked: &BTreeSet<&str>) {
    let Some(all) = waiting.take() else { return };
    let (still, counted): (Vec<String>, Vec<String>) = all.into_iter().partition(|uid| tracked.contains(uid.as_str()));
    *counter = Some(counter.unwrap_or(0) + count(counted.iter())).filter(|number| *number > 0);
    *waiting = Some(still).filter(|still| !still.is_empty());
}

fn insert(waiting: &mut Option<Vec<String>>, uid: &str) {
    let waiting = waiting.get_or_insert_default();
    if !waiting.iter().any(|known| known == uid) {
        waiting.push(uid.into());
    }
}

fn uids(list: Option<&Vec<String>>) -> BTreeSet<&str> {
    list.into_iter().flatten().map(String::as_str).collect()
}

fn is_empty(list: Option<&Vec<String>>) -> bool {
    list.is_none_or(Vec::is_empty)
}

fn count(items: impl Iterator) -> i32 {
    i32::try_from(items.count()).unwrap_or(i32::MAX)
}
