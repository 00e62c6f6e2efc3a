//! `Volume` (longhorn.io/v1beta2).

use crate::foreign::{foreign_kind, foreign_part};

foreign_kind! {
    Volume = "longhorn.io" "v1beta2" "volumes" Namespaced {
        spec: VolumeSpec,
        status: VolumeStatus,
    }
}

foreign_part! {
    VolumeSpec {
        number_of_replicas: i32,
        /// Where it is to be attached; empty for nowhere.
        #[serde(rename = "nodeID")]
        node_id: String,
    }
    VolumeStatus {
        robustness: String,
        state: String,
        #[serde(rename = "currentNodeID")]
        current_node_id: String,
        kubernetes_status: KubernetesStatus,
    }
    KubernetesStatus {
        namespace: String,
        pvc_name: String,
        pv_name: String,
    }
}

pub mod robustness {
    pub const HEALTHY: &str = "healthy";
    pub const DEGRADED: &str = "degraded";
    pub const FAULTED: &str = "faulted";
    /// It is not attached.
    pub const UNKNOWN: &str = "unknown";
}

pub mod states {
    pub const ATTACHED: &str = "attached";
    pub const DETACHED: &str = "detached";
    pub const ATTACHING: &str = "attaching";
}
