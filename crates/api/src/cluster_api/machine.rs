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
    /// Hooks that hold up the end of a Machine begin like these; the value says whose they are.
    pub const PRE_DRAIN_HOOK: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io";
    pub const PRE_TERMINATE_HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io";
    /// What ends the name of the hook by which a KubeadmControlPlane takes a machine out of etcd first.
    pub const OF_CONTROL_PLANE: &str = "kcp-cleanup";
    /// The update that a Machine is part of, and the name that its successors are called after. See
    /// <https://github.com/vmware-archive/cluster-api-upgrade-tool>.
    pub const UPGRADE_ID: &str = "upgrade.cluster-api.vmware.com/id";
    pub const NAME_BASE: &str = "upgrade.cluster-api.vmware.com/machine-name-base";
}

/// Types of conditions. Where older ones are named otherwise, both stand here.
pub mod conditions {
    pub const INFRASTRUCTURE_READY: &str = "InfrastructureReady";
    pub const BOOTSTRAP_READY: [&str; 2] = ["BootstrapConfigReady", "BootstrapReady"];
    pub const NODE_HEALTHY: &str = "NodeHealthy";
    /// That a health check has found it unwell, and whoever owns it is to replace it.
    pub const OWNER_REMEDIATED: &str = "OwnerRemediated";
    pub const HEALTH_CHECK_SUCCEEDED: &str = "HealthCheckSucceeded";
    /// That it is as its owner asks for, from v1beta2 on.
    pub const UP_TO_DATE: &str = "UpToDate";
    /// How far its end is, from v1beta2 on; the reason says the stage.
    pub const DELETING: &str = "Deleting";
    /// The stages of its end, before v1beta2: each is false while it lasts.
    pub const PRE_DRAIN_HOOK_SUCCEEDED: &str = "PreDrainDeleteHookSucceeded";
    pub const DRAINING_SUCCEEDED: &str = "DrainingSucceeded";
    pub const VOLUME_DETACH_SUCCEEDED: &str = "VolumeDetachSucceeded";
    pub const PRE_TERMINATE_HOOK_SUCCEEDED: &str = "PreTerminateDeleteHookSucceeded";
    /// Of machines of a control plane.
    pub const ETCD: [&str; 2] = ["EtcdMemberHealthy", "EtcdPodHealthy"];
    pub const COMPONENTS: [&str; 3] = ["APIServerPodHealthy", "ControllerManagerPodHealthy", "SchedulerPodHealthy"];
}

/// Reasons of [`conditions::DELETING`].
pub mod stages {
    pub const PRE_DRAIN_HOOK: &str = "WaitingForPreDrainHook";
    pub const DRAINING: &str = "DrainingNode";
    pub const VOLUME_DETACH: &str = "WaitingForVolumeDetach";
    pub const PRE_TERMINATE_HOOK: &str = "WaitingForPreTerminateHook";
    pub const INFRASTRUCTURE: &str = "WaitingForInfrastructureDeletion";
    pub const BOOTSTRAP: &str = "WaitingForBootstrapDeletion";
}

/// How what is said of a drain begins, before the pods that are left, a line each.
pub const DRAIN_HEADER: &str = "Drain not completed yet";

/// What says in an Event of v1alpha2 that a Node was not emptied.
pub const FAILED_DRAIN: &str = "FailedDrainNode";

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
