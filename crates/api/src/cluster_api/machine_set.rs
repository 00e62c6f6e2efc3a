//! `MachineSet` (cluster.x-k8s.io).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::machine_deployment::MachineTemplate;
use crate::foreign::{LooseCondition, foreign_kind, foreign_part};

foreign_kind! {
    /// As v1beta1 has it.
    MachineSet = "cluster.x-k8s.io" "v1beta1" "machinesets" Namespaced {
        spec: MachineSetSpec,
        status: MachineSetStatus,
    }
}

foreign_part! {
    MachineSetSpec {
        cluster_name: String,
        replicas: i32,
        min_ready_seconds: i32,
        delete_policy: String,
        selector: LabelSelector,
        template: MachineTemplate,
    }
    MachineSetStatus {
        replicas: i32,
        fully_labeled_replicas: i32,
        ready_replicas: i32,
        available_replicas: i32,
        observed_generation: i64,
        error_reason: String,
        error_message: String,
        conditions: Vec<LooseCondition>,
    }
}

/// Which checks are left out before Machines are made, separated by commas.
pub const SKIP_PREFLIGHT_CHECKS: &str = "machineset.cluster.x-k8s.io/skip-preflight-checks";

/// What says in an Event that a Machine could not be made.
pub const FAILED_CREATE: &str = "FailedCreate";

/// Types of conditions, and what they say.
pub mod conditions {
    /// Before v1beta2: false if Machines cannot be made.
    pub const MACHINES_CREATED: &str = "MachinesCreated";
    /// From v1beta2 on: true while Machines are to be made; its message says what keeps them from it.
    pub const SCALING_UP: &str = "ScalingUp";
    /// In the message of either, in parentheses, after the name of a check.
    pub const PREFLIGHT_FAILED: &str = "preflight check failed";
    /// The check that waits for a control plane which is on its way.
    pub const CONTROL_PLANE_STABLE: &str = "ControlPlaneIsStable";
    pub const DOES_NOT_EXIST: &str = "does not exist";
}

pub mod v1alpha2 {
    use super::{MachineSetSpec, MachineSetStatus};
    use crate::foreign::foreign_kind;

    foreign_kind! {
        MachineSet = "cluster.x-k8s.io" "v1alpha2" "machinesets" Namespaced {
            spec: MachineSetSpec,
            status: MachineSetStatus,
        }
    }
}
