//! How far an Upgrade is, as it is noted on the Upgrade itself.
//!
//! What cannot be read from other objects stands here: that something is done although its Job is gone, which version was
//! asked for, how far each node is. It is written, guarded by the Upgrade's resourceVersion, before anything follows from
//! it, so that a successor goes on where its predecessor died, and two operators cannot send two nodes on their way.

use std::collections::BTreeMap;

use drover_api::harvester::upgrade::node_states;
use drover_api::marks;
use serde::{Deserialize, Serialize};

use super::release::Noted;
use crate::cluster::harvester::Upgrade;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Progress {
    /// What ran before.
    pub previous_version: String,
    /// Every node that pauses carries its mark: one that does no longer was resumed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pauses_marked: bool,
    /// What the release says of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<Noted>,
    /// The images are on the nodes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub prepared: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub services: Option<Ending>,
    /// The `provisionGeneration` that Rancher's planner was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<i64>,
    /// The only node of the cluster, which goes its own way; empty if there are more.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub single_node: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<String, NodeProgress>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ending>,
    /// Nothing is left to be cleared away.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cleaned: bool,
}

/// How something came to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "as")]
pub enum Ending {
    Succeeded,
    Failed { reason: String, message: String },
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeProgress {
    pub step: Step,
    /// Why it has failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The way of a node, in its order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Step {
    /// Its turn has not come.
    #[default]
    Waits,
    PreDraining,
    PreDrained,
    PostDraining,
    WaitingReboot,
    Succeeded,
    Failed,
}

impl Step {
    /// The node is out of service, or about to be.
    pub fn is_at_work(self) -> bool {
        matches!(self, Step::PreDraining | Step::PreDrained | Step::PostDraining | Step::WaitingReboot)
    }

    /// As `nodeStatuses` says it.
    pub fn state(self) -> &'static str {
        match self {
            Step::Waits => node_states::IMAGES_PRELOADED,
            Step::PreDraining => node_states::PRE_DRAINING,
            Step::PreDrained => node_states::PRE_DRAINED,
            Step::PostDraining => node_states::POST_DRAINING,
            Step::WaitingReboot => node_states::WAITING_REBOOT,
            Step::Succeeded => node_states::SUCCEEDED,
            Step::Failed => node_states::FAILED,
        }
    }
}

impl Progress {
    /// None if nothing was noted; what cannot be read counts as a start, with all that follows from facts.
    pub fn of(upgrade: &Upgrade) -> Option<Self> {
        let text = upgrade.metadata.annotations.get(marks::PROGRESS)?;
        Some(serde_json::from_str(text).unwrap_or_default())
    }

    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub fn step(&self, node: &str) -> Step {
        self.nodes.get(node).map(|node| node.step).unwrap_or_default()
    }

    pub fn set_step(&mut self, node: &str, step: Step) {
        self.nodes.insert(node.to_owned(), NodeProgress { step, ..NodeProgress::default() });
    }

    pub fn fail_node(&mut self, node: &str, reason: &str, message: &str) {
        let (reason, message) = (reason.to_owned(), message.to_owned());
        self.nodes.insert(node.to_owned(), NodeProgress { step: Step::Failed, reason, message });
    }
}
