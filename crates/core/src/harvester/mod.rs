//! The upgrade of a Harvester cluster.

pub mod admission;
pub mod upgrade_config;
