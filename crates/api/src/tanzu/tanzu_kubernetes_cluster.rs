//! `TanzuKubernetesCluster` (run.tanzu.vmware.com/v1alpha1): a guest cluster, as its owner asks for it.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::foreign::LooseCondition;
use crate::plan::PublishedWait;

#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "run.tanzu.vmware.com",
    version = "v1alpha1",
    kind = "TanzuKubernetesCluster",
    plural = "tanzukubernetesclusters",
    singular = "tanzukubernetescluster",
    shortname = "tkc",
    namespaced,
    status = "TanzuKubernetesClusterStatus",
    derive = "PartialEq",
    doc = "TanzuKubernetesCluster is a Kubernetes cluster that runs as a guest of this one.",
    printcolumn = r#"{"name":"Control Plane","type":"integer","jsonPath":".spec.topology.controlPlane.count"}"#,
    printcolumn = r#"{"name":"Worker","type":"integer","jsonPath":".spec.topology.workers.count"}"#,
    printcolumn = r#"{"name":"Distribution","type":"string","jsonPath":".spec.distribution.fullVersion"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct TanzuKubernetesClusterSpec {
    pub topology: Topology,
    pub distribution: Distribution,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Settings>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Topology {
    /// An odd number of machines.
    pub control_plane: TopologySettings,
    pub workers: TopologySettings,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologySettings {
    pub count: i32,
    /// The name of a VirtualMachineClass.
    pub class: String,
    /// The StorageClass of the machines' disks.
    pub storage_class: String,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Distribution {
    /// The version in full, such as `v1.16.7+vmware.1-guest.1`. It may not decrease, and its minor rise by one at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_version: Option<String>,
    /// The beginning of a version: the newest that begins with it is taken where no full one is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Settings {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSettings>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageSettings>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkSettings {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<NetworkRanges>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<NetworkRanges>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_domain: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cni: Option<CniSettings>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkRanges {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cidr_blocks: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct CniSettings {
    /// `calico` or `antrea`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageSettings {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_class: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TanzuKubernetesClusterStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// What runs: the old version as long as an upgrade is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addons: Option<AddonsStatus>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_status: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vm_status: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_api_status: Option<ClusterApiStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_remediation_count: Option<i32>,
    /// What differs from what is asked for; said before anything is done about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<CountedWait>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<LooseCondition>,
}

/// A wait that may not last for ever says how much of its time has been seen to pass.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CountedWait {
    #[serde(flatten)]
    pub wait: PublishedWait,
    /// By a clock that nobody can set, in thirds: the next operator goes on from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_seconds: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct AddonsStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<AddonStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<AddonStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub psp: Option<AddonStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cni: Option<AddonStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub csi: Option<AddonStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloudprovider: Option<AddonStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authsvc: Option<AddonStatus>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddonStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// One of [`addon_states`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error_message: Option<String>,
}

/// What the Cluster of Cluster API says.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterApiStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_endpoints: Vec<ApiEndpoint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ApiEndpoint {
    pub host: String,
    pub port: i32,
}

/// What `spec.settings.network` means where it says nothing.
pub mod network {
    pub const PODS: &str = "192.168.0.0/16";
    pub const SERVICES: &str = "10.96.0.0/12";
    pub const SERVICE_DOMAIN: &str = "cluster.local";
}

/// Those of Drover; the names are those that v1alpha2 has, but for [`PROGRESSING`](conditions::PROGRESSING).
pub mod conditions {
    pub const CONTROL_PLANE_READY: &str = "ControlPlaneReady";
    pub const NODE_POOLS_READY: &str = "NodePoolsReady";
    pub const ADDONS_READY: &str = "AddonsReady";
    pub const READY: &str = "Ready";
    pub const PROGRESSING: &str = "Progressing";
    pub const ALL: [&str; 5] = [CONTROL_PLANE_READY, NODE_POOLS_READY, ADDONS_READY, READY, PROGRESSING];
}

/// `status.phase`; a new one has none.
pub mod phases {
    pub const CREATING: &str = "creating";
    pub const RUNNING: &str = "running";
    pub const DELETING: &str = "deleting";
    pub const FAILED: &str = "failed";
    pub const UPDATING: &str = "updating";
    pub const UPDATE_FAILED: &str = "updateFailed";
}

pub mod addon_states {
    pub const PENDING: &str = "pending";
    pub const APPLIED: &str = "applied";
    pub const ERROR: &str = "error";
    pub const UNMANAGED: &str = "unmanaged";
}

/// The places of `status.addons`.
pub mod addons {
    pub const DNS: &str = "dns";
    pub const PROXY: &str = "proxy";
    pub const PSP: &str = "psp";
    pub const CNI: &str = "cni";
    pub const CSI: &str = "csi";
    pub const CLOUD_PROVIDER: &str = "cloudprovider";
    pub const AUTHSVC: &str = "authsvc";
    pub const ALL: [&str; 7] = [DNS, PROXY, PSP, CNI, CSI, CLOUD_PROVIDER, AUTHSVC];
}

/// Finalizer of whoever keeps these clusters, from the first part of one that is made to the last that has gone.
/// The original has it on every one, as `kubectl describe tkc` shows.
pub const FINALIZER: &str = "tanzukubernetescluster.run.tanzu.vmware.com";

pub mod node_states {
    pub const PENDING: &str = "pending";
    pub const UNKNOWN: &str = "unknown";
    pub const READY: &str = "ready";
    pub const NOT_READY: &str = "notready";
}

/// Also what a WCPMachine says of its VM.
pub mod vm_states {
    pub const NOT_FOUND: &str = "notfound";
    pub const PENDING: &str = "pending";
    pub const CREATED: &str = "created";
    pub const POWERED_ON: &str = "poweredon";
    pub const READY: &str = "ready";
    pub const DELETING: &str = "deleting";
    pub const ERROR: &str = "error";
}

/// The Job that updates a control plane: `update-<id>` in [`super::NAMESPACE`].
pub mod jobs {
    pub const NAME_PREFIX: &str = "update-";
    pub const UPGRADE_ID: &str = "upgrade-id";
    pub const UPGRADE_VERSION: &str = "upgrade-version";
    pub const CONTAINER: &str = "upgrade";
    /// Label of their pods, as every version of Kubernetes has it.
    pub const OF_POD: &str = "job-name";
}
