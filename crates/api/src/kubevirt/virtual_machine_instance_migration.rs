//! `VirtualMachineInstanceMigration` (kubevirt.io/v1): a VM on its way to another node.

use super::virtual_machine_instance::MigrationState;
use crate::foreign::{foreign_kind, foreign_part};

foreign_kind! {
    VirtualMachineInstanceMigration = "kubevirt.io" "v1" "virtualmachineinstancemigrations" Namespaced {
        spec: MigrationSpec,
        status: MigrationStatus,
    }
}

foreign_part! {
    MigrationSpec {
        vmi_name: String,
    }
    MigrationStatus {
        phase: String,
        migration_state: MigrationState,
        phase_transition_timestamps: Vec<PhaseTime>,
    }
    PhaseTime {
        phase: String,
        phase_transition_timestamp: String,
    }
}

pub const VMI_NAME: &str = "kubevirt.io/vmi-name";
/// What the names of migrations begin with that a drain has caused.
pub const EVACUATION_PREFIX: &str = "kubevirt-evacuation";
/// And those by which workloads come to a new version of KubeVirt.
pub const WORKLOAD_UPDATE_PREFIX: &str = "kubevirt-workload-update";
/// An annotation of these.
pub const WORKLOAD_UPDATE: &str = "kubevirt.io/workloadUpdateMigration";
/// An annotation: the node that is evacuated by it.
pub const EVACUATION: &str = "kubevirt.io/evacuationMigration";
pub const FINALIZER: &str = "kubevirt.io/migrationJobFinalize";
/// A label of the budget of an instance while it migrates: the name of the migration.
pub const MIGRATION_NAME: &str = "kubevirt.io/migrationName";

/// In the order in which they come.
pub mod phases {
    pub const PENDING: &str = "Pending";
    pub const SCHEDULING: &str = "Scheduling";
    pub const SCHEDULED: &str = "Scheduled";
    pub const PREPARING_TARGET: &str = "PreparingTarget";
    pub const TARGET_READY: &str = "TargetReady";
    pub const RUNNING: &str = "Running";
    pub const SUCCEEDED: &str = "Succeeded";
    pub const FAILED: &str = "Failed";
}
