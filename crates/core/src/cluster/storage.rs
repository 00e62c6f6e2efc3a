//! Volumes, and what attaches them to nodes.

use k8s_openapi::api::core::v1::VolumeNodeAffinity;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::amount::Amounts;
use super::parts::Meta;
use super::pod::Resources;
use super::shelf::projections;

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PersistentVolumeClaim {
    pub metadata: Meta,
    pub spec: ClaimSpec,
    pub status: Phase,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSpec {
    /// Empty: it is not bound.
    pub volume_name: String,
    /// None: the default class.
    pub storage_class_name: Option<String>,
    pub access_modes: Vec<String>,
    pub resources: Resources,
}

/// `Pending`, `Bound`, `Lost`; of a volume also `Available`, `Released`, `Failed`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Phase {
    pub phase: String,
    pub message: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PersistentVolume {
    pub metadata: Meta,
    pub spec: VolumeSpec,
    pub status: Phase,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeSpec {
    pub capacity: Amounts,
    pub storage_class_name: String,
    /// The nodes that can have it; none for any.
    pub node_affinity: Option<VolumeNodeAffinity>,
    pub local: Option<IgnoredAny>,
    pub host_path: Option<IgnoredAny>,
    pub csi: Option<Csi>,
    pub claim_ref: Option<ClaimRef>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Csi {
    pub driver: String,
    pub volume_handle: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ClaimRef {
    pub namespace: String,
    pub name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageClass {
    pub metadata: Meta,
    pub provisioner: String,
    pub volume_binding_mode: String,
    pub reclaim_policy: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct VolumeAttachment {
    pub metadata: Meta,
    pub spec: AttachmentSpec,
    pub status: AttachmentStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachmentSpec {
    pub attacher: String,
    pub node_name: String,
    pub source: AttachmentSource,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachmentSource {
    pub persistent_volume_name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachmentStatus {
    pub attached: bool,
    pub attach_error: Option<AttachmentError>,
    pub detach_error: Option<AttachmentError>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct AttachmentError {
    pub message: String,
}

projections! {
    PersistentVolumeClaim => "PersistentVolumeClaim",
    PersistentVolume => "PersistentVolume",
    StorageClass => "StorageClass",
    VolumeAttachment => "VolumeAttachment",
}
