//! The Job controller: keeps as many pods running as a Job asks for, counts how they end, and says when it is over.
//!
//! Models `pkg/controller/job` of Kubernetes 1.34: pods carry a tracking finalizer until they are counted, a verdict
//! (`SuccessCriteriaMet`, `FailureTarget`) is written before the end it leads to (`Complete`, `Failed`), and the end
//! waits until no pod is left terminating. Left out: indexed Jobs, pod failure policies, success policies. The original
//! keeps its back-off in memory; here it follows from the failed pods and from an annotation of the Job.

mod conditions;
mod tally;
pub mod ttl;

#[cfg(test)]
mod tests;

use std::time::Duration;

use drover_clock::later;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use self::conditions::Verdict;
#[cfg(test)]
pub use self::conditions::is_finished;
use self::tally::Tally;
use super::annotations::LAST_FAILURE;
use super::outcome::{Action, Outcome, doubled, seconds_after, sooner, stamp};
use super::pods;

/// On every pod of a Job, until the Job's status counts it.
pub const TRACKING: &str = "batch.kubernetes.io/job-tracking";

const DEFAULT_BACKOFF_LIMIT: i32 = 6;
const FIRST_BACKOFF: Duration = Duration::from_secs(10);
const LONGEST_BACKOFF: Duration = Duration::from_secs(600);

/// What to do about a Job, given all pods that it controls.
pub fn reconcile(job: &Job, pods: &[Pod], now: Timestamp) -> Outcome {
    let Some(spec) = &job.spec else { return Outcome::nothing() };
    if conditions::is_finished(job) || is_managed_elsewhere(spec) {
        return Outcome::nothing();
    }
    let mut tally = Tally::of(job, pods);
    let mut status = job.status.clone().unwrap_or_default();
    if status.start_time.is_none() && !is_suspended(spec) {
        status.start_time = Some(stamp(now));
    }

    let mut wake = None;
    let mut actions = Vec::new();
    let mut verdict = conditions::verdict(&status).or_else(|| failure(spec, &status, &tally, now));
    if verdict.is_some() {
        actions.extend(tally.end(tally.active.len()));
    } else if job.metadata.deletion_timestamp.is_none() {
        wake = deadline(spec, &status);
        wake = sooner(wake, keep_pods(job, spec, &mut tally, &mut actions, now));
        if is_complete(spec, &tally) {
            verdict = Some(Verdict::completions_reached());
        } else {
            conditions::mark_suspension(&mut status, is_suspended(spec), now);
        }
    }

    let released = tally.account(&mut status, verdict.as_ref(), job.metadata.deletion_timestamp.is_some());
    if let Some(verdict) = &verdict {
        // The end follows the verdict in a write of its own, and only when every pod is counted and gone.
        let announced = conditions::announce(&mut status, verdict, now);
        if !announced && released.is_empty() && tally.is_settled(&status) {
            conditions::finish(&mut status, verdict, now);
        }
    }
    tally.write_counts(&mut status);
    if job.status.as_ref() != Some(&status) {
        // Before the finalizers go: a pod must never vanish uncounted.
        let mut job = Job { status: Some(status), ..job.clone() };
        if let Some(failure) = tally.last_failure {
            let annotations = job.metadata.annotations.get_or_insert_default();
            annotations.insert(LAST_FAILURE.into(), failure.to_string());
        }
        actions.push(Action::JobStatus(Box::new(job)));
    }
    actions.extend(released);
    Outcome { actions, wake }
}

/// A pod that no Job controls, or none any more, must not wait for being counted.
pub fn release_orphan(pod: &Pod, job_exists: bool) -> Outcome {
    if job_exists || !pods::has_finalizer(&pod.metadata, TRACKING) {
        return Outcome::nothing();
    }
    Outcome::act(vec![tally::release(pod)])
}

/// Starts or ends pods until their number is right; says when to look again if it has to wait for that.
fn keep_pods(
    job: &Job,
    spec: &JobSpec,
    tally: &mut Tally<'_>,
    actions: &mut Vec<Action>,
    now: Timestamp,
) -> Option<Timestamp> {
    let active = tally.active.len();
    let wanted = wanted(spec, tally);
    if active > wanted {
        // Pods that the Job ends itself are no failures: they lose the finalizer before they are deleted.
        let ending = tally.release_and_end(active - wanted);
        actions.extend(ending);
        return None;
    }
    let replaced_when_gone =
        if only_replaces_failed(spec) { usize::try_from(tally.terminating).unwrap_or(0) } else { 0 };
    let missing = wanted.saturating_sub(active + replaced_when_gone);
    if missing == 0 {
        return None;
    }
    if let Some(moment) = backoff_ends(tally).filter(|moment| *moment > now) {
        return Some(moment);
    }
    for _ in 0..missing {
        actions.push(Action::CreatePod(Box::new(pod_of(job, spec))));
    }
    tally.started += missing;
    None
}

fn wanted(spec: &JobSpec, tally: &Tally<'_>) -> usize {
    if is_suspended(spec) {
        return 0;
    }
    let parallelism = spec.parallelism.unwrap_or(1);
    let wanted = match spec.completions {
        Some(completions) => parallelism.min(completions - tally.succeeded),
        None if tally.succeeded > 0 => i32::try_from(tally.active.len()).unwrap_or(i32::MAX),
        None => parallelism,
    };
    usize::try_from(wanted).unwrap_or(0)
}

fn is_complete(spec: &JobSpec, tally: &Tally<'_>) -> bool {
    let enough = match spec.completions {
        Some(completions) => tally.succeeded >= completions,
        None => tally.succeeded > 0,
    };
    enough && tally.active.is_empty() && tally.started == 0
}

fn failure(spec: &JobSpec, status: &JobStatus, tally: &Tally<'_>, now: Timestamp) -> Option<Verdict> {
    let limit = spec.backoff_limit.unwrap_or(DEFAULT_BACKOFF_LIMIT);
    if tally.failed > limit || tally::too_many_restarts(spec, tally.pods, limit) {
        return Some(Verdict::backoff_limit_exceeded());
    }
    deadline(spec, status).filter(|deadline| now >= *deadline).map(|_| Verdict::deadline_exceeded())
}

fn deadline(spec: &JobSpec, status: &JobStatus) -> Option<Timestamp> {
    let seconds = spec.active_deadline_seconds.filter(|_| !is_suspended(spec))?;
    status.start_time.as_ref().map(|start| seconds_after(start, seconds))
}

/// Ten seconds after the first failure, twice as long after each further one, at most ten minutes.
fn backoff_ends(tally: &Tally<'_>) -> Option<Timestamp> {
    let failures = u32::try_from(tally.failed).ok().filter(|failures| *failures > 0)?;
    Some(later(tally.last_failure?, doubled(FIRST_BACKOFF, failures, LONGEST_BACKOFF)))
}

fn pod_of(job: &Job, spec: &JobSpec) -> Pod {
    let template = spec.template.metadata.clone().unwrap_or_default();
    let mut finalizers = template.finalizers.unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == TRACKING) {
        finalizers.push(TRACKING.into());
    }
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", pods::name(&job.metadata))),
            namespace: job.metadata.namespace.clone(),
            labels: template.labels,
            annotations: template.annotations,
            finalizers: Some(finalizers),
            owner_references: Some(vec![OwnerReference {
                api_version: "batch/v1".into(),
                kind: "Job".into(),
                name: pods::name(&job.metadata).into(),
                uid: pods::uid(&job.metadata).into(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            }]),
            ..ObjectMeta::default()
        },
        spec: spec.template.spec.clone(),
        status: None,
    }
}

fn is_suspended(spec: &JobSpec) -> bool {
    spec.suspend == Some(true)
}

fn only_replaces_failed(spec: &JobSpec) -> bool {
    spec.pod_replacement_policy.as_deref() == Some("Failed") || spec.pod_failure_policy.is_some()
}

fn is_managed_elsewhere(spec: &JobSpec) -> bool {
    spec.managed_by.as_deref().is_some_and(|who| who != "kubernetes.io/job-controller")
}
