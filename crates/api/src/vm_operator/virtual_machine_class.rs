//! `VirtualMachineClass` (vmoperator.vmware.com/v1alpha1): the size of a machine.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::foreign::{foreign_kind, foreign_part};

foreign_kind! {
    VirtualMachineClass = "vmoperator.vmware.com" "v1alpha1" "virtualmachineclasses" Cluster {
        spec: VirtualMachineClassSpec,
    }
}

foreign_part! {
    VirtualMachineClassSpec {
        hardware: Hardware,
    }
    Hardware {
        cpus: i64,
        memory: Quantity,
    }
}
