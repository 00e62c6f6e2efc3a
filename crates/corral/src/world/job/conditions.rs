//! A Job's conditions: the verdict first, the end after it, with the reasons and sentences of the original.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobStatus};

use crate::world::outcome::stamp;

const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
const COMPLETE: &str = "Complete";
const FAILURE_TARGET: &str = "FailureTarget";
const FAILED: &str = "Failed";
const SUSPENDED: &str = "Suspended";

/// How a Job is going to end, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    success: bool,
    reason: String,
    message: String,
}

impl Verdict {
    pub fn completions_reached() -> Self {
        Verdict {
            success: true,
            reason: "CompletionsReached".into(),
            message: "Reached expected number of succeeded pods".into(),
        }
    }

    pub fn backoff_limit_exceeded() -> Self {
        Verdict {
            success: false,
            reason: "BackoffLimitExceeded".into(),
            message: "Job has reached the specified backoff limit".into(),
        }
    }

    pub fn deadline_exceeded() -> Self {
        Verdict {
            success: false,
            reason: "DeadlineExceeded".into(),
            message: "Job was active longer than specified deadline".into(),
        }
    }

    pub fn is_success(&self) -> bool {
        self.success
    }
}

pub fn is_finished(job: &Job) -> bool {
    finished_at(job).is_some()
}

/// The condition that ended the Job.
pub fn finished_at(job: &Job) -> Option<&JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| matches!(condition.type_.as_str(), COMPLETE | FAILED) && is_true(condition))
}

/// The verdict that an earlier look has written; it is never taken back.
pub fn verdict(status: &JobStatus) -> Option<Verdict> {
    let read = |kind: &str, success: bool| {
        let condition = find(status, kind).filter(|condition| is_true(condition))?;
        Some(Verdict {
            success,
            reason: condition.reason.clone().unwrap_or_default(),
            message: condition.message.clone().unwrap_or_default(),
        })
    };
    read(SUCCESS_CRITERIA_MET, true).or_else(|| read(FAILURE_TARGET, false))
}

/// Puts the verdict into the status; says whether it is new there.
pub fn announce(status: &mut JobStatus, verdict: &Verdict, now: Timestamp) -> bool {
    let kind = if verdict.success { SUCCESS_CRITERIA_MET } else { FAILURE_TARGET };
    if find(status, kind).is_some_and(is_true) {
        return false;
    }
    set(status, kind, true, &verdict.reason, &verdict.message, now);
    true
}

pub fn finish(status: &mut JobStatus, verdict: &Verdict, now: Timestamp) {
    if verdict.success {
        status.completion_time = Some(stamp(now));
    }
    let kind = if verdict.success { COMPLETE } else { FAILED };
    set(status, kind, true, &verdict.reason, &verdict.message, now);
}

/// A Job that goes on after a suspension starts its deadline anew.
pub fn mark_suspension(status: &mut JobStatus, suspended: bool, now: Timestamp) {
    let was_suspended = find(status, SUSPENDED).is_some_and(is_true);
    if suspended && !was_suspended {
        set(status, SUSPENDED, true, "JobSuspended", "Job suspended", now);
    } else if !suspended && was_suspended {
        set(status, SUSPENDED, false, "JobResumed", "Job resumed", now);
        status.start_time = Some(stamp(now));
    }
}

fn find<'a>(status: &'a JobStatus, kind: &str) -> Option<&'a JobCondition> {
    status.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
}

fn is_true(condition: &JobCondition) -> bool {
    condition.status == "True"
}

fn set(status: &mut JobStatus, kind: &str, is_true: bool, reason: &str, message: &str, now: Timestamp) {
    let condition = JobCondition {
        type_: kind.into(),
        status: if is_true { "True" } else { "False" }.into(),
        reason: Some(reason.into()),
        message: Some(message.into()),
        last_probe_time: Some(stamp(now)),
        last_transition_time: Some(stamp(now)),
    };
    let conditions = status.conditions.get_or_insert_default();
    match conditions.iter_mut().find(|condition| condition.type_ == kind) {
        Some(before) => *before = condition,
        None => conditions.push(condition),
    }
}
