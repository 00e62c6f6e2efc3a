//! The machines of guest clusters on vSphere (group infrastructure.cluster.vmware.com).
//!
//! Their definitions were never published; the fields follow the successors in
//! <https://github.com/kubernetes-sigs/cluster-api-provider-vsphere>.

pub mod wcp_cluster;
pub mod wcp_machine;
pub mod wcp_machine_template;

pub const GROUP: &str = "infrastructure.cluster.vmware.com";
pub const VERSION: &str = "v1alpha2";
