//! `WCPCluster` (infrastructure.cluster.vmware.com/v1alpha2).

use crate::cluster_api::cluster::Endpoint;
use crate::foreign::{foreign_kind, foreign_part};

foreign_kind! {
    WCPCluster = "infrastructure.cluster.vmware.com" "v1alpha2" "wcpclusters" Namespaced {
        status: WcpClusterStatus,
    }
}

foreign_part! {
    WcpClusterStatus {
        api_endpoints: Vec<Endpoint>,
        ready: bool,
        resource_policy_name: String,
    }
}

pub const FINALIZER: &str = "wcpcluster.infrastructure.cluster.vmware.com";
