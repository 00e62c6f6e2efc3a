//! `ClusterRepo` (catalog.cattle.io/v1): a repository of charts.

use crate::foreign::{foreign_kind, foreign_part};

foreign_kind! {
    ClusterRepo = "catalog.cattle.io" "v1" "clusterrepos" Cluster {
        spec: ClusterRepoSpec,
        status: ClusterRepoStatus,
    }
}

foreign_part! {
    ClusterRepoSpec {
        /// A time: what was downloaded before it is downloaded again.
        force_update: String,
    }
    ClusterRepoStatus {
        download_time: String,
    }
}

pub mod names {
    pub const RANCHER_CHARTS: &str = "rancher-charts";
    pub const RKE2_CHARTS: &str = "rancher-rke2-charts";
    pub const PARTNER_CHARTS: &str = "rancher-partner-charts";
    pub const HARVESTER_CHARTS: &str = "harvester-charts";
}
