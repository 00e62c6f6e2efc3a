//! `Cluster` (management.cattle.io/v3): a cluster as Rancher sees it; `local` is the one that Rancher runs on.

use crate::foreign::foreign_kind;

foreign_kind! {
    Cluster = "management.cattle.io" "v3" "clusters" Cluster {}
}

pub const LOCAL: &str = "local";
/// `true` where Rancher's provisioning drives the cluster.
pub const ADMINISTRATED: &str = "provisioning.cattle.io/administrated";
