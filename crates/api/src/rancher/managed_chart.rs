//! `ManagedChart` (management.cattle.io/v3): a chart that Rancher installs through Fleet.

use serde_json::Value;

use crate::foreign::{LooseCondition, foreign_kind, foreign_part};

foreign_kind! {
    ManagedChart = "management.cattle.io" "v3" "managedcharts" Namespaced {
        spec: ManagedChartSpec,
        status: ManagedChartStatus,
    }
}

foreign_part! {
    ManagedChartSpec {
        version: String,
        paused: bool,
        timeout_seconds: i64,
        values: Value,
        chart: String,
        release_name: String,
        repo_name: String,
        default_namespace: String,
        targets: Vec<Value>,
    }
    ManagedChartStatus {
        observed_generation: i64,
        unavailable: i64,
        summary: Summary,
        display: Display,
        conditions: Vec<LooseCondition>,
    }
    Summary {
        ready: i64,
        desired_ready: i64,
    }
    Display {
        state: String,
        ready_clusters: String,
    }
}

/// The charts that an upgrade raises.
pub mod names {
    pub const HARVESTER: &str = "harvester";
    pub const HARVESTER_CRD: &str = "harvester-crd";
    pub const MONITORING_CRD: &str = "rancher-monitoring-crd";
    pub const LOGGING_CRD: &str = "rancher-logging-crd";
    pub const KUBEOVN_OPERATOR_CRD: &str = "kubeovn-operator-crd";
}

pub mod annotations {
    pub const LAST_UPGRADE_NAME: &str = "upgrade.harvesterhci.io/last-upgrade-name";
    pub const LAST_UPGRADE_VERSION: &str = "upgrade.harvesterhci.io/last-upgrade-target-version";
    pub const LAST_UPGRADE_TIME: &str = "upgrade.harvesterhci.io/last-upgrade-time";
}

pub const READY: &str = "Ready";
/// Whether Rancher could make its Bundle, which needs the chart.
pub const DEFINED: &str = "Defined";
