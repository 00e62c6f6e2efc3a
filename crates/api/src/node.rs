//! `Node` (v1): the labels and taints of Kubernetes that an upgrade looks at.
//! See <https://kubernetes.io/docs/reference/labels-annotations-taints/>.

/// The name that a Node gives itself. Usually, but not always, the name of the Node object.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// The operating system of a Node: `linux` or `windows`.
pub const OS: &str = "kubernetes.io/os";
pub const WINDOWS: &str = "windows";
/// The architecture of a Node, such as `amd64`; where a cluster has several, also a taint.
pub const ARCHITECTURE: &str = "kubernetes.io/arch";
/// The taint of a cordoned Node.
pub const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";
