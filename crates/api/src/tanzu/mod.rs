//! The kinds of guest clusters (group run.tanzu.vmware.com).
//! See <https://github.com/vmware-tanzu/tanzu-framework/tree/main/apis/run>.

pub mod tanzu_kubernetes_cluster;
pub mod tanzu_kubernetes_release;

pub const GROUP: &str = "run.tanzu.vmware.com";

/// Where the controllers of guest clusters run, and the Jobs of their control planes.
pub const NAMESPACE: &str = "vmware-system-tkg";

/// The Deployment of the controllers that Drover takes the place of.
pub const CONTROLLER_NAME: &str = "vmware-system-tkg-controller-manager";

/// The ConfigMap in [`NAMESPACE`] that says which clusters are updated now.
pub const PLACES_MAP: &str = "drover-guest-places";

/// The ConfigMap in [`NAMESPACE`] with what the installation wants of all clusters, by a person.
pub const DEFAULTS_MAP: &str = "drover-guest-defaults";

/// On a node and in the selectors of add-ons: the distribution, with `_` for `+`.
pub const DISTRIBUTION_LABEL: &str = "run.tanzu.vmware.com/kubernetesDistributionVersion";
/// On the first Machine of a control plane.
pub const CONTROL_PLANE_INIT: &str = "run.tanzu.vmware.com/control-plane-init";

/// How a storage class of a guest leads to the one of the same name in the management cluster.
/// See <https://github.com/kubernetes-sigs/vsphere-csi-driver/tree/master/docs/book>, `pvCSI`.
pub mod storage {
    /// The driver of guests.
    pub const PROVISIONER: &str = "csi.vsphere.vmware.com";
    /// The parameter that names the class in the management cluster.
    pub const SUPERVISOR_CLASS: &str = "svStorageClass";
    /// Annotation of Kubernetes: claims that name no class get this one.
    pub const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
}
