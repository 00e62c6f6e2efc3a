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
        created: bool,
        ready: bool,
        printable_status: String,
        /// What `virtctl` has asked for and was not done yet.
        state_change_requests: Vec<StateChangeRequest>,
        /// Volumes that are on their way in or out.
        volume_requests: Vec<Value>,
        conditions: Vec<LooseCondition>,
    }
    StateChangeRequest {
        /// `Start` or `Stop`.
        action: String,
        /// Of the instance that is to stop.
        uid: String,
    }
}

/// The values of `spec.runStrategy`.
pub mod strategies {
    pub const ALWAYS: &str = "Always";
    pub const HALTED: &str = "Halted";
    pub const MANUAL: &str = "Manual";
    pub const RERUN_ON_FAILURE: &str = "RerunOnFailure";
    pub const ONCE: &str = "Once";
}

/// The actions of a [`StateChangeRequest`].
pub const START: &str = "Start";
pub const STOP: &str = "Stop";

/// What virt-api is asked to do with a machine, as a part of its path.
pub mod verbs {
    pub const START: &str = "start";
    pub const STOP: &str = "stop";
}
