//! `ClusterRepo` (catalog.cattle.io/v1): a repository of charts.

use crate::foreign::{LooseCondition, foreign_kind, foreign_part};

foreign_kind! {
    ClusterRepo = "catalog.cattle.io" "v1" "clusterrepos" Cluster {
        spec: ClusterRepoSpec,
        status: ClusterRepoStatus,
    }
}

foreign_part! {
    ClusterRepoSpec {
        url: String,
        /// A time: what was downloaded before it is downloaded again.
        force_update: String,
    }
    ClusterRepoStatus {
        observed_generation: i64,
        download_time: String,
        /// When a download that has failed is tried again.
        next_retry_at: String,
        conditions: Vec<LooseCondition>,
    }
}

pub mod names {
    pub const RANCHER_CHARTS: &str = "rancher-charts";
    pub const RKE2_CHARTS: &str = "rancher-rke2-charts";
    pub const PARTNER_CHARTS: &str = "rancher-partner-charts";
    pub const HARVESTER_CHARTS: &str = "harvester-charts";
}

pub mod conditions {
    pub const DOWNLOADED: &str = "Downloaded";
}

/// The Deployment in `cattle-system` that serves the charts of Harvester to Rancher, those of one release.
/// See <https://github.com/harvester/harvester/blob/master/package/harvester-os/templates/91-harvester-bootstrap-repo.yaml>.
pub mod server {
    pub const NAME: &str = "harvester-cluster-repo";
    pub const CONTAINER: &str = "httpd";
    /// Of Harvester's image; its tag is the version of the operating system.
    pub const IMAGE: &str = "rancher/harvester-cluster-repo";
}
