//! `RKEControlPlane` (rke.cattle.io/v1): what Rancher's planner works on.

use serde_json::Value;

use super::provisioning_cluster::UpgradeStrategy;
use crate::foreign::{LooseCondition, foreign_kind, foreign_part};

foreign_kind! {
    RKEControlPlane = "rke.cattle.io" "v1" "rkecontrolplanes" Namespaced {
        spec: RkeControlPlaneSpec,
        status: RkeControlPlaneStatus,
    }
}

foreign_part! {
    RkeControlPlaneSpec {
        cluster_name: String,
        kubernetes_version: String,
        provision_generation: i64,
        upgrade_strategy: UpgradeStrategy,
    }
    RkeControlPlaneStatus {
        conditions: Vec<LooseCondition>,
        applied_spec: Value,
        agent_connected: bool,
        config_generation: i64,
        observed_generation: i64,
    }
}

pub mod conditions {
    pub const READY: &str = "Ready";
    pub const RECONCILED: &str = "Reconciled";
    pub const PROVISIONED: &str = "Provisioned";
    pub const BOOTSTRAPPED: &str = "Bootstrapped";
    pub const STABLE: &str = "Stable";
}

/// On it: the machine that has to be the first.
pub const INIT_NODE_MACHINE_ID: &str = "rke.cattle.io/init-node-machine-id";
