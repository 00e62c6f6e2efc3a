//! `HelmChart` (helm.cattle.io/v1): a chart that the Helm controller of an RKE2 server installs and keeps up, with a Job each time.
//! See <https://github.com/k3s-io/helm-controller/blob/master/pkg/controllers/chart/chart.go>.

use crate::foreign::{LooseCondition, foreign_kind, foreign_part};

foreign_kind! {
    HelmChart = "helm.cattle.io" "v1" "helmcharts" Namespaced {
        spec: HelmChartSpec,
        status: HelmChartStatus,
    }
}

foreign_part! {
    HelmChartSpec {
        target_namespace: String,
        /// A name in a repository, or the URL of an archive.
        chart: String,
        version: String,
        values_content: String,
        /// What becomes of a release that is left in a failed state; without it the release is uninstalled and installed anew.
        failure_policy: String,
        back_off_limit: i32,
    }
    HelmChartStatus {
        job_name: String,
        conditions: Vec<LooseCondition>,
    }
}

/// Where the controller of RKE2 looks for them.
pub const NAMESPACE: &str = super::helm_chart_config::NAMESPACE;
/// Holds an object until the controller has uninstalled its chart. It looks at no object that is unmanaged, and takes it off none.
pub const FINALIZER: &str = "wrangler.cattle.io/on-helm-chart-remove";
/// What the name of the Job of a chart begins with; the name of the HelmChart is the other part.
pub const JOB_PREFIX: &str = "helm-install-";
/// The container of that Job.
pub const CONTAINER: &str = "helm";

pub mod labels {
    /// On the Jobs of a chart and their pods: its name.
    pub const CHART: &str = "helmcharts.helm.cattle.io/chart";
    /// On a release that the controller has made: of what.
    pub const CONFIG_HASH: &str = "helmcharts.helm.cattle.io/configHash";
}

pub mod annotations {
    /// The controller leaves the object alone.
    pub const UNMANAGED: &str = "helmcharts.helm.cattle.io/unmanaged";
    /// Which controller has taken the object.
    pub const MANAGED_BY: &str = "helmcharts.cattle.io/managed-by";
}

pub mod conditions {
    pub const JOB_CREATED: &str = "JobCreated";
    pub const FAILED: &str = "Failed";
}
