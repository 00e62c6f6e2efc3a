//! How far an Upgrade is with one node.

use super::super::Driver;
use super::scene::{driver_of, progress_of};
use crate::cluster::{Cluster, ObjectRef};
use crate::harvester::progress::{Ending, Step};

/// A node of an Upgrade that is under way, or has failed on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    pub upgrade: ObjectRef,
    pub driver: Driver,
    pub step: Step,
    /// Why it has failed there.
    pub failure: String,
}

impl Stage {
    /// The Upgrade has the node out of service.
    pub fn is_out(&self) -> bool {
        self.step.is_at_work()
    }
}

/// None if no Upgrade is at the nodes.
pub fn stage_of(cluster: &Cluster, node: &str) -> Option<Stage> {
    cluster.harvester.upgrades.iter().find_map(|upgrade| {
        let progress = progress_of(cluster, upgrade)?;
        let step = progress.step(node);
        let is_over = match &progress.ended {
            None => progress.services != Some(Ending::Succeeded),
            Some(Ending::Succeeded) => true,
            Some(Ending::Failed { .. }) => step != Step::Failed,
        };
        let is_known = progress.nodes.contains_key(node) || upgrade.status.node_statuses.contains_key(node);
        if is_over || !is_known {
            return None;
        }
        let failure = progress.nodes.get(node).map(|node| node.message.clone()).unwrap_or_default();
        Some(Stage { upgrade: ObjectRef::of(upgrade), driver: driver_of(upgrade), step, failure })
    })
}
