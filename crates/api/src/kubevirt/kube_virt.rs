//! `KubeVirt` (kubevirt.io/v1): the installation itself.

use crate::foreign::{LooseCondition, foreign_kind, foreign_part};

foreign_kind! {
    KubeVirt = "kubevirt.io" "v1" "kubevirts" Namespaced {
        spec: KubeVirtSpec,
        status: KubeVirtStatus,
    }
}

foreign_part! {
    KubeVirtSpec {
        configuration: Configuration,
    }
    Configuration {
        /// Of instances that do not say it themselves.
        eviction_strategy: String,
    }
    KubeVirtStatus {
        phase: String,
        #[serde(rename = "observedKubeVirtVersion")]
        observed_version: String,
        conditions: Vec<LooseCondition>,
    }
}

/// As Harvester names it.
pub const NAME: &str = "kubevirt";
/// The DaemonSet of what runs VMs on nodes.
pub const HANDLER: &str = "virt-handler";
/// Its phase when all is there.
pub const DEPLOYED: &str = "Deployed";
pub const DEPLOYING: &str = "Deploying";
/// A way to bring workloads to a new version: they are moved.
pub const LIVE_MIGRATE: &str = "LiveMigrate";
/// The condition of an installation that is on its way to another version.
pub const PROGRESSING: &str = "Progressing";
