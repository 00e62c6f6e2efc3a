//! `MachineDeployment` (cluster.x-k8s.io).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::machine::MachineSpec;
use crate::foreign::{LooseCondition, foreign_kind, foreign_part};

foreign_kind! {
    /// As v1beta1 has it.
    MachineDeployment = "cluster.x-k8s.io" "v1beta1" "machinedeployments" Namespaced {
        spec: MachineDeploymentSpec,
        status: MachineDeploymentStatus,
    }
}

foreign_part! {
    MachineDeploymentSpec {
        cluster_name: String,
        replicas: i32,
        selector: LabelSelector,
        template: MachineTemplate,
        strategy: Strategy,
        min_ready_seconds: i32,
        revision_history_limit: i32,
        paused: bool,
        progress_deadline_seconds: i32,
    }
    MachineTemplate {
        metadata: ObjectMeta,
        spec: MachineSpec,
    }
    Strategy {
        #[serde(rename = "type")]
        type_: String,
        rolling_update: RollingUpdate,
    }
    RollingUpdate {
        max_unavailable: IntOrString,
        max_surge: IntOrString,
        delete_policy: String,
    }
    MachineDeploymentStatus {
        observed_generation: i64,
        selector: String,
        replicas: i32,
        updated_replicas: i32,
        ready_replicas: i32,
        available_replicas: i32,
        unavailable_replicas: i32,
        phase: String,
        conditions: Vec<LooseCondition>,
    }
}

/// On MachineSets.
pub mod annotations {
    pub const REVISION: &str = "machinedeployment.clusters.x-k8s.io/revision";
    pub const DESIRED_REPLICAS: &str = "machinedeployment.clusters.x-k8s.io/desired-replicas";
    pub const MAX_REPLICAS: &str = "machinedeployment.clusters.x-k8s.io/max-replicas";
    /// The same in v1alpha2.
    pub const REVISION_V1ALPHA2: &str = "machinedeployment.clusters.k8s.io/revision";
    pub const DESIRED_REPLICAS_V1ALPHA2: &str = "machinedeployment.clusters.k8s.io/desired-replicas";
    pub const MAX_REPLICAS_V1ALPHA2: &str = "machinedeployment.clusters.k8s.io/max-replicas";
}

pub mod v1alpha2 {
    use super::{MachineDeploymentSpec, MachineDeploymentStatus};
    use crate::foreign::foreign_kind;

    foreign_kind! {
        MachineDeployment = "cluster.x-k8s.io" "v1alpha2" "machinedeployments" Namespaced {
            spec: MachineDeploymentSpec,
            status: MachineDeploymentStatus,
        }
    }
}
