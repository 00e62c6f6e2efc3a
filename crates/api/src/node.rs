//! `Node` (v1): the labels and taints of Kubernetes that an upgrade looks at.
//! See <https://kubernetes.io/docs/reference/labels-annotations-taints/>.

/// The name that a Node gives itself. Usually, but not always, the name of the Node object.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// The operating system of a Node: `linux` or `windows`.
pub const OS: &str = "kubernetes.io/os";
pub const WINDOWS: &str = "windows";
/// The architecture of a Node, such as `amd64`; where a cluster has several, also a taint.
pub const ARCHITECTURE: &str = "kubernetes.io/arch";
/// The labels of Nodes of a control plane, and their taints.
pub mod roles {
    /// Until Kubernetes 1.23.
    pub const MASTER: &str = "node-role.kubernetes.io/master";
    /// Since Kubernetes 1.20.
    pub const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
    /// A member of etcd, under RKE2.
    pub const ETCD: &str = "node-role.kubernetes.io/etcd";
}
/// The taint of a cordoned Node.
pub const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";
