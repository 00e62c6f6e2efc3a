//! `Cluster` (cluster.x-k8s.io).

use crate::foreign::{LooseCondition, Reference, foreign_kind, foreign_part};

foreign_kind! {
    /// As v1beta1 has it.
    Cluster = "cluster.x-k8s.io" "v1beta1" "clusters" Namespaced {
        spec: ClusterSpec,
        status: ClusterStatus,
    }
}

foreign_part! {
    ClusterSpec {
        paused: bool,
        cluster_network: ClusterNetwork,
        control_plane_endpoint: Endpoint,
        control_plane_ref: Reference,
        infrastructure_ref: Reference,
    }
    ClusterNetwork {
        api_server_port: i32,
        services: Ranges,
        pods: Ranges,
        service_domain: String,
    }
    Ranges {
        cidr_blocks: Vec<String>,
    }
    Endpoint {
        host: String,
        port: i32,
    }
    ClusterStatus {
        /// One of [`phases`], in v1alpha2 in lower case.
        phase: String,
        infrastructure_ready: bool,
        control_plane_initialized: bool,
        control_plane_ready: bool,
        api_endpoints: Vec<Endpoint>,
        error_reason: String,
        error_message: String,
        observed_generation: i64,
        conditions: Vec<LooseCondition>,
    }
}

pub mod phases {
    pub const PENDING: &str = "Pending";
    pub const PROVISIONING: &str = "Provisioning";
    pub const PROVISIONED: &str = "Provisioned";
    pub const DELETING: &str = "Deleting";
    pub const FAILED: &str = "Failed";
}

pub const FINALIZER: &str = "cluster.cluster.x-k8s.io";

/// Types of conditions, and what they say.
pub mod conditions {
    /// What the control plane says of itself; that of Rancher says there what its planner waits for.
    pub const CONTROL_PLANE_READY: &str = "ControlPlaneReady";
    /// Its first machine has begun the control plane.
    pub const CONTROL_PLANE_INITIALIZED: &str = "ControlPlaneInitialized";
    /// Of clusters that are made from a class: false while something is left to be changed.
    pub const TOPOLOGY_RECONCILED: &str = "TopologyReconciled";
    /// The reason where an extension holds up an upgrade.
    pub const HOOK_BLOCKING: &str = "LifecycleHookBlocking";
    /// Reasons for what cannot be done.
    pub const TOPOLOGY_FAILED: [&str; 3] = ["ReconcileFailed", "TopologyReconcileFailed", "ClusterClassNotReconciled"];
    /// The reason where workers are left behind because somebody wants it so.
    pub const UPGRADE_DEFERRED: &str = "MachineDeploymentsUpgradeDeferred";
    /// Can the API of the cluster be asked? From v1beta2 on.
    pub const REMOTE_CONNECTION: &str = "RemoteConnectionProbe";
}

pub mod v1alpha2 {
    use super::{ClusterSpec, ClusterStatus};
    use crate::foreign::foreign_kind;

    foreign_kind! {
        Cluster = "cluster.x-k8s.io" "v1alpha2" "clusters" Namespaced {
            spec: ClusterSpec,
            status: ClusterStatus,
        }
    }
}
