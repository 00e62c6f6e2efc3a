//! `VirtualMachine` (vmoperator.vmware.com/v1alpha1): what a machine of a guest cluster runs on. It has the name of its Machine.

use serde_json::Value;

use crate::foreign::{LooseCondition, foreign_kind, foreign_part};

foreign_kind! {
    VirtualMachine = "vmoperator.vmware.com" "v1alpha1" "virtualmachines" Namespaced {
        spec: VirtualMachineSpec,
        status: VirtualMachineStatus,
    }
}

foreign_part! {
    VirtualMachineSpec {
        image_name: String,
        class_name: String,
        storage_class: String,
        /// One of [`power`].
        power_state: String,
        vm_metadata: VmMetadata,
        readiness_probe: Value,
    }
    VmMetadata {
        config_map_name: String,
        transport: String,
    }
    VirtualMachineStatus {
        /// One of [`phases`].
        phase: String,
        power_state: String,
        vm_ip: String,
        #[serde(rename = "biosUUID")]
        bios_uuid: String,
        conditions: Vec<LooseCondition>,
    }
}

pub mod power {
    pub const ON: &str = "poweredOn";
    pub const OFF: &str = "poweredOff";
}

pub mod phases {
    pub const CREATING: &str = "Creating";
    pub const CREATED: &str = "Created";
    pub const DELETING: &str = "Deleting";
}

pub const FINALIZER: &str = "virtualmachine.vmoperator.vmware.com";

/// What the machines of guest clusters carry.
pub mod labels {
    pub const CLUSTER: &str = "capw.vmware.com/cluster.name";
    pub const ROLE: &str = "capw.vmware.com/cluster.role";
    pub const CONTROL_PLANE: &str = "controlplane";
    pub const NODE: &str = "node";
}
