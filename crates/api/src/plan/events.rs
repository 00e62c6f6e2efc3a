//! The Events about a Plan: type, reason and exact message of each.

/// What an Event about a Plan says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PlanEvent {
    /// `Normal` or `Warning`.
    pub type_: &'static str,
    pub reason: &'static str,
    pub message: String,
}

pub const NORMAL: &str = "Normal";
pub const WARNING: &str = "Warning";

/// Where a version comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum VersionSource {
    Version,
    Channel,
}

impl PlanEvent {
    fn normal(reason: &'static str, message: String) -> Self {
        Self { type_: NORMAL, reason, message }
    }

    fn warning(reason: &'static str, message: String) -> Self {
        Self { type_: WARNING, reason, message }
    }

    pub fn validated() -> Self {
        Self::normal("Validated", "Plan is valid".to_owned())
    }

    pub fn validate_failed(problem: &str) -> Self {
        Self::warning("ValidateFailed", format!("Failed to validate plan: {problem}"))
    }

    pub fn resolved(source: VersionSource, version: &str) -> Self {
        let field = match source {
            VersionSource::Version => "Spec.Version",
            VersionSource::Channel => "Spec.Channel",
        };
        Self::normal("Resolved", format!("Resolved latest version from {field}: {version}"))
    }

    /// `message` is that of the condition `LatestResolved`.
    pub fn resolve_failed(message: &str) -> Self {
        Self::warning("ResolveFailed", message.to_owned())
    }

    /// The nodes that are worked on have changed; `hostnames` are all of them.
    pub fn sync_job(version: &str, hostnames: &[String], hash: &str) -> Self {
        let nodes = hostnames.join(",");
        Self::normal("SyncJob", format!("Jobs synced for version {version} on Nodes {nodes}. Hash: {hash}"))
    }

    pub fn waiting(version: &str, hash: &str) -> Self {
        Self::normal(
            "Waiting",
            format!("Waiting for start of Spec.Window to sync Jobs for version {version}. Hash: {hash}"),
        )
    }

    pub fn complete(version: &str, hash: &str) -> Self {
        Self::normal("Complete", format!("Jobs complete for version {version}. Hash: {hash}"))
    }

    pub fn job_complete(node: &str) -> Self {
        Self::normal("JobComplete", format!("Job completed on Node {node}"))
    }

    /// `message` is that of the condition: see [`super::conditions::job_failed`].
    pub fn job_failed(message: String) -> Self {
        Self::warning("JobFailed", message)
    }
}

#[cfg(test)]
mod tests {
    use super::super::conditions;
    use super::*;

    #[test]
    fn events_say_what_scripts_look_for() {
        let said = |event: PlanEvent| format!("{} {} {}", event.type_, event.reason, event.message);

        assert_eq!(said(PlanEvent::validated()), "Normal Validated Plan is valid");
        assert_eq!(said(PlanEvent::validate_failed("x")), "Warning ValidateFailed Failed to validate plan: x");
        assert_eq!(
            said(PlanEvent::resolved(VersionSource::Version, "v1")),
            "Normal Resolved Resolved latest version from Spec.Version: v1"
        );
        assert_eq!(
            said(PlanEvent::resolve_failed(conditions::MISSING_CHANNEL_AND_VERSION)),
            "Warning ResolveFailed cannot resolve plan: missing channel and version"
        );
        assert_eq!(
            said(PlanEvent::sync_job("v1", &["a".to_owned(), "b".to_owned()], "h")),
            "Normal SyncJob Jobs synced for version v1 on Nodes a,b. Hash: h"
        );
        assert_eq!(
            said(PlanEvent::waiting("v1", "h")),
            "Normal Waiting Waiting for start of Spec.Window to sync Jobs for version v1. Hash: h"
        );
        assert_eq!(said(PlanEvent::complete("v1", "h")), "Normal Complete Jobs complete for version v1. Hash: h");
        assert_eq!(said(PlanEvent::job_complete("n")), "Normal JobComplete Job completed on Node n");
        assert_eq!(said(PlanEvent::job_failed("x".to_owned())), "Warning JobFailed x");
    }
}
