//! The kinds of Rancher that a Harvester upgrade and the drain handshake read and write.
//! See <https://github.com/rancher/rancher/tree/main/pkg/apis>.

pub mod cluster;
pub mod cluster_repo;
pub mod embedded;
pub mod machine_plan;
pub mod managed_chart;
pub mod provisioning_cluster;
pub mod rke_control_plane;
pub mod setting;
