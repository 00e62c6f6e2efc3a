//! The Events about a Plan: type, reason and exact message of each.

use crate::marks;

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

/// The message of an Event has 1,024 characters at most, as every recorder of Kubernetes keeps it.
const LONGEST_LIST: usize = 700;

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

    /// A drain cannot go on: `sentence` says what forbids it.
    pub fn drain_held_up(sentence: &str) -> Self {
        Self::warning("DrainHeldUp", sentence.to_owned())
    }

    /// A node takes longer than others did: `reason` is `NodeSlow` or `NodeStalled`.
    pub fn node_late(reason: &str, sentence: &str) -> Self {
        Self::warning(if reason == "NodeStalled" { "NodeStalled" } else { "NodeSlow" }, sentence.to_owned())
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
        let mut nodes = hostnames.join(",");
        if nodes.len() > LONGEST_LIST {
            nodes.truncate(nodes.floor_char_boundary(LONGEST_LIST));
            nodes.push_str("...");
        }
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

    /// `delay` is `spec.postCompleteDelay` as Go writes it.
    pub fn job_complete_waiting(node: &str, delay: &str) -> Self {
        let message = format!("Job completed on Node {node}, waiting {delay} PostCompleteDelay");
        Self::normal("JobCompleteWaiting", message)
    }

    /// Ours: a Job that Drover did not make is at work for the Plan.
    pub fn another_controller_acts(sentence: &str) -> Self {
        Self::warning("AnotherControllerActs", sentence.to_owned())
    }

    /// Ours: somebody accepts what these codes stand for, or no longer does.
    pub fn risks_accepted(codes: &str, accepted: bool) -> Self {
        match accepted {
            true => Self::normal("RisksAccepted", format!("Accepted by the annotation {}: {codes}", marks::ACCEPT)),
            false => Self::normal("RisksWithdrawn", format!("No longer accepted: {codes}")),
        }
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
        assert_eq!(
            said(PlanEvent::job_complete_waiting("n", "1m30s")),
            "Normal JobCompleteWaiting Job completed on Node n, waiting 1m30s PostCompleteDelay"
        );
        assert_eq!(said(PlanEvent::job_failed("x".to_owned())), "Warning JobFailed x");
    }

    #[test]
    fn a_long_list_of_nodes_is_cut() {
        let nodes: Vec<String> = (0..1000).map(|number| format!("node-{number}")).collect();

        let message = PlanEvent::sync_job("v1", &nodes, "h").message;

        assert!(message.len() < 1024, "{}", message.len());
        assert!(message.ends_with(".... Hash: h"), "{message}");
    }
}
