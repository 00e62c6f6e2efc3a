//! `VirtualMachine` (kubevirt.io/v1).

use serde_json::Value;

use crate::foreign::{LooseCondition, foreign_kind, foreign_part};

foreign_kind! {
    VirtualMachine = "kubevirt.io" "v1" "virtualmachines" Namespaced {
        spec: VirtualMachineSpec,
        status: VirtualMachineStatus,
    }
}

foreign_part! {
    VirtualMachineSpec {
        running: bool,
        run_strategy: String,
        template: Value,
    }
    VirtualMachineStatus {
        printable_status: String,
        /// Volumes that are on their way in or out.
        volume_requests: Vec<Value>,
        conditions: Vec<LooseCondition>,
    }
}
