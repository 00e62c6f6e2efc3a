//! `HelmChartConfig` (helm.cattle.io/v1): changes to a chart that RKE2 brings.

use crate::foreign::{foreign_kind, foreign_part};

foreign_kind! {
    HelmChartConfig = "helm.cattle.io" "v1" "helmchartconfigs" Namespaced {
        spec: HelmChartConfigSpec,
    }
}

foreign_part! {
    HelmChartConfigSpec {
        values_content: String,
        failure_policy: String,
    }
}

pub const NAMESPACE: &str = "kube-system";
pub const FAILURE_POLICY_ABORT: &str = "abort";

pub mod names {
    pub const MULTUS: &str = "rke2-multus";
    pub const TRAEFIK: &str = "rke2-traefik";
}
