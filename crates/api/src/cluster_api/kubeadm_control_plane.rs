//! `KubeadmControlPlane` (controlplane.cluster.x-k8s.io): the control plane of a cluster, where Cluster API keeps it.

use serde_json::Value;

use crate::foreign::{LooseCondition, foreign_kind, foreign_part};

foreign_kind! {
    KubeadmControlPlane = "controlplane.cluster.x-k8s.io" "v1beta1" "kubeadmcontrolplanes" Namespaced {
        spec: KubeadmControlPlaneSpec,
        status: KubeadmControlPlaneStatus,
    }
}

foreign_part! {
    KubeadmControlPlaneSpec {
        replicas: i32,
        version: String,
        machine_template: Value,
        kubeadm_config_spec: Value,
    }
    KubeadmControlPlaneStatus {
        replicas: i32,
        version: String,
        updated_replicas: i32,
        ready_replicas: i32,
        unavailable_replicas: i32,
        initialized: bool,
        ready: bool,
        observed_generation: i64,
        conditions: Vec<LooseCondition>,
    }
}

pub mod annotations {
    pub const REMEDIATION_IN_PROGRESS: &str = "controlplane.cluster.x-k8s.io/remediation-in-progress";
    pub const REMEDIATION_FOR: &str = "controlplane.cluster.x-k8s.io/remediation-for";
}

/// Types of conditions, the same in v1beta1 and v1beta2.
pub mod conditions {
    pub const AVAILABLE: &str = "Available";
    pub const CERTIFICATES_AVAILABLE: &str = "CertificatesAvailable";
    pub const ETCD_HEALTHY: &str = "EtcdClusterHealthy";
    pub const COMPONENTS_HEALTHY: &str = "ControlPlaneComponentsHealthy";
    /// That the next Machine could be made, before v1beta2.
    pub const MACHINES_CREATED: &str = "MachinesCreated";
    /// From v1beta2 on: true while one is to be made; its message says what keeps it from that.
    pub const SCALING_UP: &str = "ScalingUp";
}
