//! `VirtualMachineImage` (vmoperator.vmware.com/v1alpha1): the image of a distribution, with what it brings in annotations.

use crate::foreign::{LooseCondition, foreign_kind, foreign_part};

foreign_kind! {
    VirtualMachineImage = "vmoperator.vmware.com" "v1alpha1" "virtualmachineimages" Cluster {
        spec: VirtualMachineImageSpec,
        status: VirtualMachineImageStatus,
    }
}

foreign_part! {
    VirtualMachineImageSpec {
        #[serde(rename = "type")]
        type_: String,
        image_source_type: String,
        product_info: ProductInfo,
    }
    ProductInfo {
        product: String,
        version: String,
        full_version: String,
    }
    VirtualMachineImageStatus {
        image_name: String,
        image_supported: bool,
        conditions: Vec<LooseCondition>,
    }
}

pub mod annotations {
    /// JSON: the versions of the distribution, of Kubernetes, etcd and CoreDNS.
    pub const DISTRIBUTION: &str = "vmware-system.guest.kubernetes.distribution.image.version";
    /// With the name of an add-on appended: its manifests as JSON.
    pub const ADDON_PREFIX: &str = "vmware-system.guest.kubernetes.addons.";
}

/// The names that add-ons have in annotations of images, and in `status.addons`.
pub mod addons {
    pub const CALICO: &str = "calico";
    /// One of them is chosen in `spec.settings.network.cni.name`; the first if none is.
    pub const NETWORKS: [&str; 3] = [CALICO, "antrea", "antrea-nsx-routed"];
    pub const STORAGE: &str = "pvcsi";
    pub const CLOUD_PROVIDER: &str = "vmware-guest-cluster";
    pub const AUTHSVC: &str = "authsvc";
    pub const PSP: &str = "defaultpsp";
    /// Those of kubeadm, which no annotation brings.
    pub const DNS: &str = "CoreDNS";
    pub const PROXY: &str = "kube-proxy";
    /// The only `type` of an annotation.
    pub const INLINE: &str = "inline";
}
