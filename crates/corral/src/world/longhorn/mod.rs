//! Longhorn: volumes, the engine and the replicas of each, and the managers on the nodes that run them.
//!
//! Models longhorn-manager 1.10 with its v1 data engine, as far as an upgrade can see it: attachment by tickets (of pods that
//! use a claim, and by hand), replicas that are lost with their node, rebuilt when it is back or replaced elsewhere after
//! the replenishment interval, robustness, instance managers with their pods, and the budgets of these by the node drain
//! policy. An Engine that no volume accounts for any more stays and holds the budget of its node, as it does in the
//! original. Left out: the second engine of a volume whose user migrates, disks and their room, snapshots, backups,
//! eviction of replicas, data locality, share managers, engine images, and the pods of longhorn-manager itself.

pub mod manager;
pub mod notes;
pub mod volume;

#[cfg(test)]
mod tests;
mod watch;

use std::time::Duration;

/// How Longhorn is set up, as its Settings say; what cannot be read has its default.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub drain_policy: String,
    pub replenishment: Duration,
    pub detach_when_cordoned: bool,
}
