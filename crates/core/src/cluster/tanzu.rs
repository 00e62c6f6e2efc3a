//! What is read of guest clusters and of what they are made from.

use std::collections::BTreeMap;

use drover_api::plan::PublishedWait;

use super::shelf::projections;
use super::wire::{seen, shelves};
use super::{Condition, Meta};

seen! {
    GuestCluster {
        metadata: Meta,
        spec: GuestClusterSpec,
        status: GuestClusterStatus,
    }
    GuestClusterSpec {
        topology: Topology,
        distribution: Distribution,
        settings: Settings,
    }
    Topology {
        control_plane: Pool,
        workers: Pool,
    }
    Pool {
        count: i64,
        class: String,
        storage_class: String,
    }
    Distribution {
        full_version: String,
        version: String,
    }
    Settings {
        storage: StorageSettings,
    }
    StorageSettings {
        classes: Vec<String>,
        default_class: String,
    }
    GuestClusterStatus {
        phase: String,
        version: String,
        addons: BTreeMap<String, AddonStatus>,
        node_status: BTreeMap<String, String>,
        /// What Drover waits for with it.
        waits: Vec<PublishedWait>,
        conditions: Vec<Condition>,
    }
    AddonStatus {
        name: String,
        status: String,
        last_error_message: String,
    }

    /// A distribution that guest clusters can run.
    Release {
        metadata: Meta,
        spec: ReleaseSpec,
        status: ReleaseStatus,
    }
    ReleaseSpec {
        version: String,
        node_image_ref: NodeImage,
    }
    NodeImage {
        name: String,
    }
    ReleaseStatus {
        conditions: Vec<Condition>,
    }

    MachineImage {
        metadata: Meta,
        spec: MachineImageSpec,
    }
    MachineImageSpec {
        product_info: ProductInfo,
    }
    ProductInfo {
        full_version: String,
    }

    MachineClass {
        metadata: Meta,
        spec: MachineClassSpec,
    }
    MachineClassSpec {
        hardware: Hardware,
    }
    Hardware {
        cpus: i64,
        memory: String,
    }
}

projections! {
    GuestCluster => "TanzuKubernetesCluster",
    Release => "TanzuKubernetesRelease",
    MachineImage => "VirtualMachineImage.vmoperator.vmware.com",
    MachineClass => "VirtualMachineClass",
}

shelves! {
    Tanzu {
        clusters: GuestCluster = ("run.tanzu.vmware.com", "TanzuKubernetesCluster"),
        releases: Release = ("run.tanzu.vmware.com", "TanzuKubernetesRelease"),
        images: MachineImage = ("vmoperator.vmware.com", "VirtualMachineImage"),
        classes: MachineClass = ("vmoperator.vmware.com", "VirtualMachineClass"),
    }
}
