//! `VirtualMachineInstanceMigration` (kubevirt.io/v1): a VM on its way to another node.

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
    }
}

pub const VMI_NAME: &str = "kubevirt.io/vmi-name";
/// What the names of migrations begin with that a drain has caused.
pub const EVACUATION_PREFIX: &str = "kubevirt-evacuation";
