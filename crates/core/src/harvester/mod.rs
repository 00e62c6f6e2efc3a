//! The Harvester engine: decides what one `Upgrade` (harvesterhci.io/v1beta1) does next.
//!
//! [`decide`] looks at the Upgrade and all that it is made of at one moment. An Upgrade goes one way: its release is
//! fetched and served, its images are loaded, its system services are raised, its nodes follow one after another, and all
//! that was made for it is cleared away. How far it is follows from objects and from what is noted on the Upgrade itself
//! ([`progress`]); its status is an output.

mod abort;
pub mod admission;
mod around;
mod asking;
mod cleanup;
mod config;
mod decide;
mod detaching;
pub mod drivers;
mod ending;
mod etcd;
mod events;
pub mod followed;
mod images;
mod jobs;
mod joining;
mod kubelet;
pub mod names;
mod nodes;
pub(crate) mod options;
mod pausing;
mod preload;
pub mod progress;
pub mod release;
mod repo;
mod repo_vm;
mod restoring;
mod services;
mod skipping;
pub(crate) mod stalling;
mod start;
mod status;
pub mod steps;
mod storage;
#[cfg(test)]
mod tests;
pub mod upgrade_config;
mod workloads;

pub(crate) use around::uncounted;
pub(crate) use asking::remedy_of_pause;
pub(crate) use decide::plan_secret;
pub use decide::{Admission, Settings, View, decide};
pub(crate) use kubelet::remedy as remedy_of_kubelet;
pub use release::{Fetched, Release, Served};
pub(crate) use start::remedy_of_refusal;
