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

/// Who provides control planes of clusters that Rancher provisions.
pub const RANCHER_GROUP: &str = "rke.cattle.io";

/// Annotation of any object: its controller leaves it alone, whatever the value. A whole Cluster is paused by `spec.paused`.
pub const PAUSED: &str = "cluster.x-k8s.io/paused";

/// Types of conditions that objects of many kinds have.
pub mod conditions {
    pub const READY: &str = "Ready";
    pub const PAUSED: &str = "Paused";
}

pub mod labels {
    pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
    pub const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
    /// On Machines: the MachineDeployment that they belong to.
    pub const DEPLOYMENT_NAME: &str = "cluster.x-k8s.io/deployment-name";
    /// On Machines and MachineSets of one template of a MachineDeployment.
    pub const TEMPLATE_HASH: &str = "machine-template-hash";
}

/// Secrets that belong to a cluster, by what their names end with.
pub mod secrets {
    /// Since v1alpha3. The type of a Secret cannot be changed.
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

/// The Deployments that act on clusters, as `clusterctl` installs them: namespace, name, and what of.
pub const CONTROLLERS: [(&str, &str, &str); 3] = [
    ("capi-system", "capi-controller-manager", "Machines"),
    ("capi-kubeadm-control-plane-system", "capi-kubeadm-control-plane-controller-manager", "control planes"),
    ("capi-kubeadm-bootstrap-system", "capi-kubeadm-bootstrap-controller-manager", "what Machines are booted with"),
];
