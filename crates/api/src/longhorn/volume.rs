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
    }
    VolumeStatus {
        robustness: String,
        state: String,
        kubernetes_status: KubernetesStatus,
    }
    KubernetesStatus {
        namespace: String,
        pvc_name: String,
    }
}

pub mod robustness {
    pub const HEALTHY: &str = "healthy";
    pub const DEGRADED: &str = "degraded";
    pub const FAULTED: &str = "faulted";
}

pub mod states {
    pub const ATTACHED: &str = "attached";
    pub const DETACHED: &str = "detached";
}
