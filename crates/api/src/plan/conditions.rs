//! The conditions of a Plan: their types, reasons and exact messages.

/// Is the spec sound?
pub const VALIDATED: &str = "Validated";
/// Is the version known?
pub const LATEST_RESOLVED: &str = "LatestResolved";
/// Do all selected nodes carry the latest hash?
pub const COMPLETE: &str = "Complete";
/// Ours: counts and waits, for clusters whose installed definition of Plan prunes the fields that it does not know.
pub const PROGRESSING: &str = "Progressing";

/// Ours: the codes of what somebody has accepted, and since when; false once they are taken back.
pub const RISKS_ACCEPTED: &str = "RisksAccepted";

pub const TRUE: &str = "True";
pub const FALSE: &str = "False";
pub const UNKNOWN: &str = "Unknown";

/// Reasons, by the conditions that use them.
pub mod reasons {
    /// Validated is true.
    pub const PLAN_IS_VALID: &str = "PlanIsValid";
    /// Validated or LatestResolved is false; the message says why.
    pub const ERROR: &str = "Error";
    /// LatestResolved is true: by `spec.version`.
    pub const VERSION: &str = "Version";
    /// LatestResolved is true: by `spec.channel`.
    pub const CHANNEL: &str = "Channel";
    /// Complete is false: the version was just resolved, or changed.
    pub const RESOLVED: &str = "Resolved";
    /// Complete is false: the Plan is not valid, or its version is not known.
    pub const NOT_READY: &str = "NotReady";
    /// Complete is false: the window is closed.
    pub const WAITING: &str = "Waiting";
    /// Complete is false: nodes are worked on.
    pub const SYNC_JOB: &str = "SyncJob";
    /// Complete is false: a Job failed.
    pub const JOB_FAILED: &str = "JobFailed";
    /// Complete is true.
    pub const COMPLETE: &str = "Complete";
    /// RisksAccepted is true.
    pub const ACCEPTED: &str = "Accepted";
    /// RisksAccepted is false.
    pub const WITHDRAWN: &str = "Withdrawn";
}

pub const MISSING_CHANNEL_AND_VERSION: &str = "cannot resolve plan: missing channel and version";
pub const NOT_VALID_AND_RESOLVED: &str = "plan is not valid and resolved";
pub const OUTSIDE_WINDOW: &str = "current time is not within configured window";

pub const DRAIN_DELETES_TWICE: &str = "spec.drain cannot specify both deleteEmptydirData and deleteLocalData";
pub const NEGATIVE_DELAY: &str = "spec.postCompleteDelay is negative";

pub fn channel_failed(why: &str) -> String {
    format!("Failed to resolve latest version from Spec.Channel: {why}")
}

pub fn invalid_window(why: &str) -> String {
    format!("spec.window is invalid, {why}")
}

/// One sentence a Secret, as `kubectl` would say it of each.
pub fn secrets_not_found<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let sentences: Vec<String> = names.into_iter().map(|name| format!("secrets {name:?} not found")).collect();
    sentences.join(", ")
}

/// Reason and message of the Job's own condition `Failed` are passed on.
pub fn job_failed(namespace: &str, job: &str, node: &str, job_reason: &str, job_message: &str) -> String {
    format!("Job {namespace}/{job} failed on Node {node}: {job_reason}: {job_message}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_missing_secret_is_named() {
        assert_eq!(secrets_not_found(["a"]), r#"secrets "a" not found"#);
        assert_eq!(secrets_not_found(["a", "b"]), r#"secrets "a" not found, secrets "b" not found"#);
    }

    #[test]
    fn a_failed_job_is_named_with_its_node_and_its_own_reason() {
        let message = job_failed(
            "system-upgrade",
            "apply-x",
            "n1",
            "DeadlineExceeded",
            "Job was active longer than specified deadline",
        );

        assert_eq!(
            message,
            "Job system-upgrade/apply-x failed on Node n1: \
             DeadlineExceeded: Job was active longer than specified deadline"
        );
    }
}
