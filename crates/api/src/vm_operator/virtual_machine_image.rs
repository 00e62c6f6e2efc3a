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
