//! `Addon` (harvesterhci.io/v1beta1): a chart that users switch on and off.
//! See <https://docs.harvesterhci.io/latest/advanced/addons>.

use crate::foreign::{LooseCondition, foreign_kind, foreign_part};

foreign_kind! {
    Addon = "harvesterhci.io" "v1beta1" "addons" Namespaced {
        spec: AddonSpec,
        status: AddonStatus,
    }
}

foreign_part! {
    AddonSpec {
        repo: String,
        chart: String,
        version: String,
        enabled: bool,
        values_content: String,
    }
    AddonStatus {
        status: String,
        conditions: Vec<LooseCondition>,
    }
}

/// The values of `status.status`; a new one has none.
pub mod states {
    pub const ENABLING: &str = "AddonEnabling";
    pub const DEPLOYED: &str = "AddonDeploySuccessful";
    pub const DISABLED: &str = "AddonDisabled";
    pub const DISABLING: &str = "AddonDisabling";
    pub const UPDATING: &str = "AddonUpdating";
}

pub mod conditions {
    /// Harvester is at work on it; when that was last so tells one deployment from the next.
    pub const IN_PROGRESS: &str = "InProgress";
    pub const FAILED: &str = "OperationFailed";
}

pub mod names {
    pub const DESCHEDULER: &str = "descheduler";
    /// Where it is.
    pub const DESCHEDULER_NAMESPACE: &str = "kube-system";
    pub const MONITORING: &str = "rancher-monitoring";
    pub const MONITORING_NAMESPACE: &str = "cattle-monitoring-system";
    pub const LOGGING: &str = "rancher-logging";
    pub const LOGGING_NAMESPACE: &str = "cattle-logging-system";
}
