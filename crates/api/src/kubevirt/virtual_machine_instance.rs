//! `VirtualMachineInstance` (kubevirt.io/v1): a VM that runs.

use serde_json::Value;

use std::collections::BTreeMap;

use crate::foreign::{LooseCondition, foreign_kind, foreign_part};
use k8s_openapi::api::core::v1::{Affinity, ResourceRequirements, Toleration};

foreign_kind! {
    VirtualMachineInstance = "kubevirt.io" "v1" "virtualmachineinstances" Namespaced {
        spec: VirtualMachineInstanceSpec,
        status: VirtualMachineInstanceStatus,
    }
}

foreign_part! {
    VirtualMachineInstanceSpec {
        node_selector: BTreeMap<String, String>,
        affinity: Affinity,
        domain: Domain,
        volumes: Vec<Value>,
        tolerations: Vec<Toleration>,
        /// One of [`eviction`]; absent means what the installation says.
        eviction_strategy: String,
        termination_grace_period_seconds: i64,
    }
    Domain {
        devices: Devices,
        resources: ResourceRequirements,
    }
    Devices {
        host_devices: Vec<Value>,
    }
    VirtualMachineInstanceStatus {
        phase: String,
        node_name: String,
        /// The node that it is to leave.
        evacuation_node_name: String,
        /// The nodes of its launcher pods by the uids of the pods.
        active_pods: BTreeMap<String, String>,
        migration_state: MigrationState,
        conditions: Vec<LooseCondition>,
    }
    /// Where an instance is on its way, or where the last way has led.
    MigrationState {
        migration_uid: String,
        source_node: String,
        target_node: String,
        source_pod: String,
        target_pod: String,
        start_timestamp: String,
        end_timestamp: String,
        completed: bool,
        failed: bool,
        failure_reason: String,
    }
}

pub const NODE_NAME: &str = "kubevirt.io/nodeName";

pub mod phases {
    pub const PENDING: &str = "Pending";
    pub const SCHEDULING: &str = "Scheduling";
    pub const SCHEDULED: &str = "Scheduled";
    pub const RUNNING: &str = "Running";
    pub const SUCCEEDED: &str = "Succeeded";
    pub const FAILED: &str = "Failed";
}

pub mod conditions {
    pub const LIVE_MIGRATABLE: &str = "LiveMigratable";
    pub const PAUSED: &str = "Paused";
    pub const READY: &str = "Ready";
}

/// The values of `spec.evictionStrategy`: what becomes of an instance whose node is drained.
pub mod eviction {
    pub const NONE: &str = "None";
    pub const LIVE_MIGRATE: &str = "LiveMigrate";
    pub const LIVE_MIGRATE_IF_POSSIBLE: &str = "LiveMigrateIfPossible";
    pub const EXTERNAL: &str = "External";
}

/// On it: nothing goes before its guest has been shut down.
pub const FINALIZER: &str = "foregroundDeleteVirtualMachine";

/// The pod that an instance runs in.
pub mod launcher {
    pub const LABEL: &str = "kubevirt.io";
    pub const LABEL_VALUE: &str = "virt-launcher";
    /// The uid of the instance.
    pub const CREATED_BY: &str = "kubevirt.io/created-by";
    /// The uid of the migration whose target it is.
    pub const MIGRATION: &str = "kubevirt.io/migrationJobUID";
    /// An annotation: the name of the instance.
    pub const DOMAIN: &str = "kubevirt.io/domain";
    pub const NAME_PREFIX: &str = "virt-launcher-";
    pub const CONTAINER: &str = "compute";
}
