//! `Machine` (cluster.x-k8s.io).

use crate::foreign::{LooseCondition, Reference, foreign_kind, foreign_part};

foreign_kind! {
    /// As v1beta1 has it.
    Machine = "cluster.x-k8s.io" "v1beta1" "machines" Namespaced {
        spec: MachineSpec,
        status: MachineStatus,
    }
}

foreign_part! {
    MachineSpec {
        cluster_name: String,
        bootstrap: Bootstrap,
        infrastructure_ref: Reference,
        version: String,
        #[serde(rename = "providerID")]
        provider_id: String,
        node_drain_timeout: String,
    }
    Bootstrap {
        config_ref: Reference,
        /// The cloud-init document, in v1alpha2.
        data: String,
        data_secret_name: String,
    }
    MachineStatus {
        node_ref: Reference,
        /// One of [`phases`], in v1alpha2 in lower case.
        phase: String,
        bootstrap_ready: bool,
        infrastructure_ready: bool,
        error_reason: String,
        error_message: String,
        failure_reason: String,
        failure_message: String,
        conditions: Vec<LooseCondition>,
    }
}

pub mod phases {
    pub const PENDING: &str = "Pending";
    pub const PROVISIONING: &str = "Provisioning";
    pub const PROVISIONED: &str = "Provisioned";
    pub const RUNNING: &str = "Running";
    pub const DELETING: &str = "Deleting";
    pub const DELETED: &str = "Deleted";
    pub const FAILED: &str = "Failed";
}

pub const FINALIZER: &str = "machine.cluster.x-k8s.io";

/// On a Node: the Machine that it is.
pub const OF_NODE: &str = "cluster.x-k8s.io/machine";

pub mod annotations {
    pub const DELETE_FIRST: &str = "cluster.x-k8s.io/delete-machine";
    /// The same before v1alpha3.
    pub const DELETE_FIRST_V1ALPHA2: &str = "cluster.k8s.io/delete-machine";
    pub const EXCLUDE_DRAINING: &str = "machine.cluster.x-k8s.io/exclude-node-draining";
    /// With the misprint of v1alpha2.
    pub const EXCLUDE_DRAINING_V1ALPHA2: &str = "machine.cluster.x-k8s.io.io/exclude-node-draining";
    /// Hooks that hold up the end of a Machine begin like this.
    pub const PRE_TERMINATE_HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io";
    /// The update that a Machine is part of, and the name that its successors are called after. See
    /// <https://github.com/vmware-archive/cluster-api-upgrade-tool>.
    pub const UPGRADE_ID: &str = "upgrade.cluster-api.vmware.com/id";
    pub const NAME_BASE: &str = "upgrade.cluster-api.vmware.com/machine-name-base";
}

pub mod v1alpha2 {
    use super::{MachineSpec, MachineStatus};
    use crate::foreign::foreign_kind;

    foreign_kind! {
        Machine = "cluster.x-k8s.io" "v1alpha2" "machines" Namespaced {
            spec: MachineSpec,
            status: MachineStatus,
        }
    }
}
