//! `Cluster` (fleet.cattle.io/v1alpha1): a cluster that bundles are deployed to.

use crate::foreign::{LooseCondition, foreign_kind, foreign_part};

foreign_kind! {
    Cluster = "fleet.cattle.io" "v1alpha1" "clusters" Namespaced {
        spec: ClusterSpec,
        status: ClusterStatus,
    }
}

foreign_part! {
    ClusterSpec {
        /// Raised, it makes Fleet deploy its agent anew.
        redeploy_agent_generation: i64,
    }
    ClusterStatus {
        agent_deployed_generation: i64,
        conditions: Vec<LooseCondition>,
    }
}

pub mod conditions {
    pub const IMPORTED: &str = "Imported";
    pub const READY: &str = "Ready";
}

/// The configuration of Fleet's controller, a ConfigMap.
pub const CONTROLLER_NAMESPACE: &str = "cattle-fleet-system";
pub const CONTROLLER_CONFIG: &str = "fleet-controller";
