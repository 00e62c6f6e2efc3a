//! How far an Upgrade is, as it is noted on the Upgrade itself.
//!
//! What cannot be read from other objects stands here: that something is done although its Job is gone, which version was
//! asked for, how far each node is. It is written, guarded by the Upgrade's resourceVersion, before anything follows from
//! it, so that a successor goes on where its predecessor died, and two operators cannot send two nodes on their way.

use std::collections::{BTreeMap, BTreeSet};

use drover_api::harvester::upgrade::node_states;
use drover_api::marks;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::release::{Noted, Steps};
use super::upgrade_config::{Preload, UpgradeConfig};
use crate::cluster::harvester::Upgrade;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Progress {
    /// What ran before.
    pub previous_version: String,
    /// Who voted in etcd when it began; none where an earlier Drover has begun it. Who has joined since then was promoted.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub voters: BTreeSet<String>,
    /// What `upgrade-config` asked for when it began; none where an earlier Drover has begun it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen: Option<Chosen>,
    /// Nodes that have carried the mark of their pause, with the uid of their Node: one that does no longer was resumed. None before all that pause
    /// from the beginning have had theirs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marked: Option<BTreeMap<String, String>>,
    /// All that the map names have carried it: so an earlier Drover has noted it.
    #[serde(skip_serializing)]
    pub pauses_marked: bool,
    /// Nodes that were paused when it failed, or when they left: they pause again when it is taken up, or they come back.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub paused: BTreeSet<String>,
    /// Harvester's own controller was switched off since it began: one that comes back does so against that.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub switched_off: bool,
    /// Where its image comes from: Harvester takes Versions away that nobody can upgrade to any more, and another try may need the image again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// How the import of its image ended: one that has failed is deleted, and its words with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Ending>,
    /// What the release says of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<Noted>,
    /// Whose steps its Jobs run; those of an Upgrade that an earlier Drover has begun are Drover's.
    pub steps: Steps,
    /// What keeps Rancher's agents from their work is taken back, after an ending before its time.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub agents_recovered: bool,
    /// The images are on the nodes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub prepared: bool,
    /// Nodes that had lost images, and got them once more.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub reloaded: BTreeSet<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub services: Option<Ending>,
    /// The `provisionGeneration` that Rancher's planner was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<i64>,
    /// It had raised the nodes without asking, and was asked once more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub asked_again: bool,
    /// Since when the planner has its turn, and nobody is told so by an object: it begins anew with each step of a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planner_since: Option<Timestamp>,
    /// What was so when the planner was asked, for whoever takes that back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Before>,
    /// Its user has called it off.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub aborting: bool,
    /// Nodes that the planner had begun with, and that are put back because the Upgrade was called off.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub withdrawn: BTreeSet<String>,
    /// The uids of failed Jobs that are tried again: whatever else is known of them, they have to go first.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub discarded: BTreeSet<String>,
    /// The only node of the cluster, which goes its own way; empty if there are more, or were before its turn.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub single_node: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<String, NodeProgress>,
    /// Nodes that were no part of it when it succeeded, since Harvester does not manage them.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub left_out: BTreeSet<String>,
    /// VMs that the steps of a stock release have stopped for a node.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub stopped: BTreeMap<String, BTreeSet<String>>,
    /// Nodes that had joined when it succeeded, and that it did not come to.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub joined: BTreeSet<String>,
    /// How the VMs that were stopped for a node were started again.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub restored: BTreeMap<String, Ending>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ending>,
    /// Nothing is left to be cleared away.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cleaned: bool,
}

/// Where the image of the release is downloaded from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Source {
    pub url: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub checksum: String,
}

/// What of the setting `upgrade-config` is needed later on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Chosen {
    pub preload: Preload,
    #[serde(rename = "restoreVM")]
    pub restores_vms: bool,
}

impl Chosen {
    pub fn by(config: &UpgradeConfig) -> Self {
        Chosen { preload: config.preload(), restores_vms: config.restores_vms() }
    }
}

/// What the planner was asked for before, and which nodes were cordoned.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Before {
    pub kubernetes: String,
    pub generation: i64,
    /// How it went about it; null if nothing was said, or not by its user.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub strategy: Value,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub cordoned: BTreeSet<String>,
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
    /// Its user goes on without it, and the planner has its turn there.
    Skipping,
    Skipped,
}

impl Step {
    /// The node is out of service, or about to be.
    pub fn is_at_work(self) -> bool {
        matches!(self, Step::PreDraining | Step::PreDrained | Step::PostDraining | Step::WaitingReboot | Step::Skipping)
    }

    /// Nothing more is done to it.
    pub fn is_over(self) -> bool {
        matches!(self, Step::Succeeded | Step::Skipped)
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
            Step::Skipping | Step::Skipped => node_states::SKIPPED,
        }
    }
}

impl Progress {
    /// None if nothing was noted.
    pub fn read(upgrade: &Upgrade) -> Option<Result<Self, serde_json::Error>> {
        upgrade.metadata.annotations.get(marks::PROGRESS).map(|text| serde_json::from_str(text))
    }

    /// None if nothing was noted that can be read.
    pub fn of(upgrade: &Upgrade) -> Option<Self> {
        Self::read(upgrade)?.ok()
    }

    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The nodes have their turn: the planner was asked for them, or one of them was begun with, which nobody asks for if it is the only one.
    pub fn is_among_nodes(&self) -> bool {
        self.asked.is_some() || self.nodes.values().any(|node| node.step != Step::Waits)
    }

    /// It has failed among its nodes, and its user has not said yet how it goes on.
    pub fn is_stuck(&self) -> bool {
        self.is_among_nodes() && !self.aborting && matches!(self.ended, Some(Ending::Failed { .. }))
    }

    pub fn step(&self, node: &str) -> Step {
        self.nodes.get(node).map(|node| node.step).unwrap_or_default()
    }

    pub fn set_step(&mut self, node: &str, step: Step) {
        self.planner_since = None;
        self.nodes.insert(node.to_owned(), NodeProgress { step, ..NodeProgress::default() });
    }

    pub fn fail_node(&mut self, node: &str, reason: &str, message: &str) {
        let (reason, message) = (reason.to_owned(), message.to_owned());
        self.nodes.insert(node.to_owned(), NodeProgress { step: Step::Failed, reason, message });
    }
}
