//! The kinds of Cluster API that guest clusters and Rancher are made of.
//!
//! Two versions are spoken: v1alpha2, which the guest clusters of vSphere 7 have, and v1beta1. A file has both forms of
//! its kind. See <https://github.com/kubernetes-sigs/cluster-api/tree/main/api>.

pub mod cluster;
pub mod kubeadm_config;
pub mod kubeadm_control_plane;
pub mod machine;
pub mod machine_deployment;
pub mod machine_set;

pub const GROUP: &str = "cluster.x-k8s.io";
pub const BOOTSTRAP_GROUP: &str = "bootstrap.cluster.x-k8s.io";
pub const CONTROL_PLANE_GROUP: &str = "controlplane.cluster.x-k8s.io";

pub mod labels {
    pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
    pub const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
    /// On Machines and MachineSets of one template of a MachineDeployment.
    pub const TEMPLATE_HASH: &str = "machine-template-hash";
}

/// Secrets that belong to a cluster, by what their names end with.
pub mod secrets {
    pub const TYPE: &str = "cluster.x-k8s.io/secret";
    pub const KUBECONFIG: &str = "-kubeconfig";
    /// The key of the kubeconfig.
    pub const VALUE: &str = "value";
    pub const CA: &str = "-ca";
    pub const ETCD: &str = "-etcd";
    pub const PROXY: &str = "-proxy";
    pub const SERVICE_ACCOUNT: &str = "-sa";
    pub const CERTIFICATE: &str = "tls.crt";
    pub const KEY: &str = "tls.key";
}
