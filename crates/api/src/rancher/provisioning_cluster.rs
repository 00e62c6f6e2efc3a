//! `Cluster` (provisioning.cattle.io/v1): the cluster that Rancher provisions, and how it drains nodes to upgrade them.
//! See <https://github.com/rancher/rancher/blob/main/pkg/apis/provisioning.cattle.io/v1/cluster.go>.

use serde_json::Value;

use crate::foreign::{LooseCondition, foreign_kind, foreign_part};

foreign_kind! {
    Cluster = "provisioning.cattle.io" "v1" "clusters" Namespaced {
        spec: ClusterSpec,
        status: ClusterStatus,
    }
}

foreign_part! {
    ClusterSpec {
        kubernetes_version: String,
        rke_config: RkeConfig,
    }
    RkeConfig {
        /// Raised by one, it makes Rancher plan anew.
        provision_generation: i64,
        upgrade_strategy: UpgradeStrategy,
        registries: Value,
    }
    UpgradeStrategy {
        control_plane_concurrency: String,
        control_plane_drain_options: DrainOptions,
        worker_concurrency: String,
        worker_drain_options: DrainOptions,
    }
    DrainOptions {
        enabled: bool,
        force: bool,
        /// Absent means true.
        ignore_daemon_sets: bool,
        ignore_errors: bool,
        delete_empty_dir_data: bool,
        disable_eviction: bool,
        /// Negative: what the pods say.
        grace_period: i64,
        /// In seconds; 0 means 600.
        timeout: i64,
        skip_wait_for_delete_timeout_seconds: i64,
        pre_drain_hooks: Vec<DrainHook>,
        post_drain_hooks: Vec<DrainHook>,
    }
    DrainHook {
        /// The annotation by which the owner of the hook says that it is done.
        annotation: String,
    }
    ClusterStatus {
        ready: bool,
        cluster_name: String,
        fleet_workspace_name: String,
        observed_generation: i64,
        conditions: Vec<LooseCondition>,
    }
}

/// The one that Rancher runs on.
pub const LOCAL: &str = "local";
pub const MANAGEMENT_CLUSTER_NAME: &str = "provisioning.cattle.io/management-cluster-name";
