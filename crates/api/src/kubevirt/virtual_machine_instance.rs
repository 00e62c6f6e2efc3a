//! `VirtualMachineInstance` (kubevirt.io/v1): a VM that runs.

use serde_json::Value;

use std::collections::BTreeMap;

use crate::foreign::{LooseCondition, foreign_kind, foreign_part};
use k8s_openapi::api::core::v1::Affinity;

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
    }
    Domain {
        devices: Devices,
    }
    Devices {
        host_devices: Vec<Value>,
    }
    VirtualMachineInstanceStatus {
        phase: String,
        node_name: String,
        conditions: Vec<LooseCondition>,
    }
}

pub const NODE_NAME: &str = "kubevirt.io/nodeName";

pub mod phases {
    pub const RUNNING: &str = "Running";
    pub const SUCCEEDED: &str = "Succeeded";
    pub const FAILED: &str = "Failed";
}

pub mod conditions {
    pub const LIVE_MIGRATABLE: &str = "LiveMigratable";
    pub const PAUSED: &str = "Paused";
}
