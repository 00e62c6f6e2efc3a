//! `TanzuKubernetesRelease` (run.tanzu.vmware.com/v1alpha1): a distribution that guest clusters can run.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::foreign::LooseCondition;

#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "run.tanzu.vmware.com",
    version = "v1alpha1",
    kind = "TanzuKubernetesRelease",
    plural = "tanzukubernetesreleases",
    singular = "tanzukubernetesrelease",
    shortname = "tkr",
    status = "TanzuKubernetesReleaseStatus",
    derive = "PartialEq",
    doc = "TanzuKubernetesRelease is a distribution that guest clusters can run."
)]
#[serde(rename_all = "camelCase")]
pub struct TanzuKubernetesReleaseSpec {
    /// The version in full, which is unique.
    pub version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ContainerImage>,
    /// The VirtualMachineImage of its nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_image_ref: Option<ObjectReference>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ContainerImage {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct TanzuKubernetesReleaseStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<LooseCondition>,
}

pub mod conditions {
    pub const COMPATIBLE: &str = "Compatible";
    pub const UPGRADE_AVAILABLE: &str = "UpgradeAvailable";
    pub const READY: &str = "Ready";
}

pub mod labels {
    pub const INCOMPATIBLE: &str = "incompatible";
    pub const DEACTIVATED: &str = "deactivated";
    pub const DELETED: &str = "deleted";
    pub const OS_TYPE: &str = "os-type";
    pub const OS_NAME: &str = "os-name";
    pub const OS_VERSION: &str = "os-version";
    pub const OS_ARCH: &str = "os-arch";
}
