//! `VirtualMachineImage` (harvesterhci.io/v1beta1): an image for VMs, and the carrier of the ISO of a release.
//! See <https://github.com/harvester/harvester/blob/master/pkg/apis/harvesterhci.io/v1beta1/image.go>.

use crate::foreign::{LooseCondition, foreign_kind, foreign_part};

foreign_kind! {
    VirtualMachineImage = "harvesterhci.io" "v1beta1" "virtualmachineimages" Namespaced {
        spec: VirtualMachineImageSpec,
        status: VirtualMachineImageStatus,
    }
}

foreign_part! {
    VirtualMachineImageSpec {
        display_name: String,
        source_type: String,
        url: String,
        checksum: String,
        retry: i32,
        target_storage_class_name: String,
        backend: String,
    }
    VirtualMachineImageStatus {
        progress: i32,
        size: i64,
        failed: i32,
        conditions: Vec<LooseCondition>,
    }
}

pub const SOURCE_DOWNLOAD: &str = "download";
pub const BACKEND_CDI: &str = "cdi";
/// `True` on the carrier of an ISO: its volume is shared between nodes.
pub const OS_UPGRADE_IMAGE: &str = "harvesterhci.io/os-upgrade-image";
pub const STATIC_STORAGE_CLASS: &str = "longhorn-static";

pub mod conditions {
    pub const IMPORTED: &str = "Imported";
    pub const RETRY_LIMIT_EXCEEDED: &str = "RetryLimitExceeded";
}
