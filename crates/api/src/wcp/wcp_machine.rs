//! `WCPMachine` (infrastructure.cluster.vmware.com/v1alpha2).

use crate::foreign::{foreign_kind, foreign_part};

foreign_kind! {
    WCPMachine = "infrastructure.cluster.vmware.com" "v1alpha2" "wcpmachines" Namespaced {
        spec: WcpMachineSpec,
        status: WcpMachineStatus,
    }
}

foreign_part! {
    WcpMachineSpec {
        #[serde(rename = "providerID")]
        provider_id: String,
        image_name: String,
        class_name: String,
        storage_class: String,
    }
    WcpMachineStatus {
        ready: bool,
        #[serde(rename = "vmID")]
        vm_id: String,
        vm_ip: String,
        vmstatus: String,
    }
}

pub const FINALIZER: &str = "wcpmachine.infrastructure.cluster.vmware.com";
