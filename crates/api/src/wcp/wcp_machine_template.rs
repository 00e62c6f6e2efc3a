//! `WCPMachineTemplate` (infrastructure.cluster.vmware.com/v1alpha2). A template never changes: an update makes a new one.

use super::wcp_machine::WcpMachineSpec;
use crate::foreign::{foreign_kind, foreign_part};

foreign_kind! {
    WCPMachineTemplate = "infrastructure.cluster.vmware.com" "v1alpha2" "wcpmachinetemplates" Namespaced {
        spec: WcpMachineTemplateSpec,
    }
}

foreign_part! {
    WcpMachineTemplateSpec {
        template: WcpMachineTemplateResource,
    }
    WcpMachineTemplateResource {
        spec: WcpMachineSpec,
    }
}
