//! What no object tells: kubelets, certificates on the wire, requests that API servers have counted.
//!
//! A survey of a live cluster asks for these. In a folder they are documents of the group `drover.dev/v1`, so that a
//! captured cluster can hold them.

use jiff::Timestamp;

use super::Meta;
use super::shelf::projections;
use super::wire::{seen, shelves};

pub const API_VERSION: &str = "drover.dev/v1";

seen! {
    /// A kubelet, by the name of its node: how full its disk is, and when it begins to delete images.
    Kubelet {
        metadata: Meta,
        disk_used: u64,
        disk_capacity: u64,
        image_garbage_threshold: Option<u64>,
    }

    /// The certificate that an API server has shown, by its `address:port`.
    ServerCertificate {
        metadata: Meta,
        not_after: Option<Timestamp>,
    }

    /// The certificate that a kubelet has shown, by the name of its node.
    KubeletCertificate {
        metadata: Meta,
        not_after: Option<Timestamp>,
    }

    /// Requests to an API that is going to be removed, as an API server has counted them.
    DeprecatedRequest {
        metadata: Meta,
        group: String,
        version: String,
        resource: String,
        removed_release: String,
    }
}

projections! {
    Kubelet => "Kubelet",
    ServerCertificate => "ServerCertificate",
    KubeletCertificate => "KubeletCertificate",
    DeprecatedRequest => "DeprecatedRequest",
}

shelves! {
    Looks {
        kubelets: Kubelet = ("drover.dev", "Kubelet"),
        certificates: ServerCertificate = ("drover.dev", "ServerCertificate"),
        kubelet_certificates: KubeletCertificate = ("drover.dev", "KubeletCertificate"),
        deprecated_requests: DeprecatedRequest = ("drover.dev", "DeprecatedRequest"),
    }
}
