//! `Upgrade` (harvesterhci.io/v1beta1): the request to bring a Harvester cluster to another version, and how far it is.
//!
//! Harvester's own definition has no status subresource: the status is written with the object. Drover's has one. See
//! <https://github.com/harvester/harvester/blob/master/pkg/apis/harvesterhci.io/v1beta1/upgrade.go>.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::foreign::LooseCondition;

#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "harvesterhci.io",
    version = "v1beta1",
    kind = "Upgrade",
    plural = "upgrades",
    singular = "upgrade",
    namespaced,
    derive = "PartialEq",
    doc = "Upgrade brings the cluster to another version of Harvester."
)]
#[kube(status = "UpgradeStatus")]
#[serde(rename_all = "camelCase")]
pub struct UpgradeSpec {
    /// The name of a Version in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// `namespace/name` of a VirtualMachineImage that holds the ISO; wins over `version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Whether the logs of the upgrade are kept.
    #[serde(default = "enabled")]
    pub log_enabled: bool,
    /// The image of the upgrade's Jobs, in full; for development.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade_image: Option<String>,
}

fn enabled() -> bool {
    true
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeStatus {
    /// The version at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_version: Option<String>,
    #[serde(default, rename = "imageID", skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// What the release says of itself, as YAML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo_info: Option<String>,
    /// The only node, if there is only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub single_node: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_statuses: BTreeMap<String, NodeUpgradeStatus>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<LooseCondition>,
    /// The name of the UpgradeLog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade_log: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct NodeUpgradeStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The finalizer of Harvester's own controller.
pub const FINALIZER: &str = "wrangler.cattle.io/harvester-upgrade-controller";

/// The types of conditions.
pub mod conditions {
    pub const COMPLETED: &str = "Completed";
    pub const LOG_READY: &str = "LogReady";
    pub const IMAGE_READY: &str = "ImageReady";
    pub const REPO_READY: &str = "RepoReady";
    pub const NODES_PREPARED: &str = "NodesPrepared";
    pub const SYSTEM_SERVICES_UPGRADED: &str = "SystemServicesUpgraded";
    pub const NODES_UPGRADED: &str = "NodesUpgraded";
    /// Ours: whose steps the Jobs of the Upgrade run.
    pub const STEPS_CHOSEN: &str = "StepsChosen";
    /// Ours: what is waited for, since no other field of the status has room for it.
    pub const PROGRESSING: &str = "Progressing";
}

/// Reasons and messages of conditions that users and other programs know by heart.
pub mod reasons {
    pub const DISABLED: &str = "Disabled";
    pub const DISABLED_MESSAGE: &str = "Upgrade observability is administratively disabled";
    pub const TIMEOUT: &str = "Timeout";
    pub const TIMEOUT_MESSAGE: &str = "Timed out creating upgrade logging infrastructure";
    pub const LOG_GET_FAILED: &str = "UpgradeLogGetFailed";
    pub const LOG_GET_FAILED_MESSAGE: &str = "Failed to get upgrade log";
    pub const PAUSED: &str = "AdministrativelyPaused";
    pub const PAUSED_MESSAGE: &str = "Node upgrade paused as requested by the user";
    /// Ours: its user has called it off.
    pub const ABORTED: &str = "Aborted";
    /// Ours: its user goes on without some nodes.
    pub const SKIPPED: &str = "Skipped";
    /// Ours: some nodes are no part of it, since Harvester does not manage them.
    pub const LEFT_OUT: &str = "NodeUnmanaged";
    /// Ours: some nodes have joined, and it did not come to them.
    pub const JOINED: &str = "NodeJoined";
    /// Ours: whose steps the Jobs run.
    pub const STEPS_OF_DROVER: &str = "Drover";
    pub const STEPS_OF_RELEASE: &str = "Release";
    /// Ours: the upgrade does not wait for logs that nobody collects.
    pub const NO_COLLECTOR: &str = "NoCollector";
    pub const NO_COLLECTOR_MESSAGE: &str = "Nothing collects the logs of upgrades; the upgrade goes on without";
}

/// `nodeStatuses[].state`, in the order of a node's way.
pub mod node_states {
    pub const IMAGES_PRELOADING: &str = "Images preloading";
    pub const IMAGES_PRELOADED: &str = "Images preloaded";
    pub const PAUSED: &str = "Node-upgrade paused";
    pub const PRE_DRAINING: &str = "Pre-draining";
    pub const PRE_DRAINED: &str = "Pre-drained";
    pub const POST_DRAINING: &str = "Post-draining";
    pub const WAITING_REBOOT: &str = "Waiting Reboot";
    pub const SUCCEEDED: &str = "Succeeded";
    pub const FAILED: &str = "Failed";
    /// Of Drover only: its user goes on without it.
    pub const SKIPPED: &str = "Skipped";
}

/// Labels of an Upgrade.
pub mod labels {
    /// `true` on the newest one.
    pub const LATEST: &str = "harvesterhci.io/latestUpgrade";
    pub const STATE: &str = "harvesterhci.io/upgradeState";
    pub const CLEANUP: &str = "harvesterhci.io/upgradeCleanup";
    /// `true` when a user has dismissed it in the dashboard.
    pub const READ_MESSAGE: &str = "harvesterhci.io/read-message";
}

/// The values of [`labels::STATE`].
pub mod states {
    pub const PREPARING_LOGGING_INFRA: &str = "PreparingLoggingInfra";
    pub const LOGGING_INFRA_PREPARED: &str = "LoggingInfraPrepared";
    pub const PREPARING_REPO: &str = "PreparingRepo";
    pub const REPO_PREPARED: &str = "RepoPrepared";
    pub const PREPARING_NODES: &str = "PreparingNodes";
    pub const UPGRADING_SYSTEM_SERVICES: &str = "UpgradingSystemServices";
    pub const UPGRADING_NODES: &str = "UpgradingNodes";
    pub const SUCCEEDED: &str = "Succeeded";
    pub const FAILED: &str = "Failed";
}

/// The values of [`labels::CLEANUP`].
pub mod cleanup {
    pub const PENDING: &str = "Pending";
    pub const SUCCEEDED: &str = "Succeeded";
}

/// Annotations of an Upgrade.
pub mod annotations {
    /// JSON: node to `pause` or `unpause`.
    pub const PAUSE_MAP: &str = "harvesterhci.io/node-upgrade-pause-map";
    pub const PAUSE: &str = "pause";
    pub const UNPAUSE: &str = "unpause";
    /// What Longhorn's setting was before the upgrade raised it.
    pub const REPLENISHMENT_INTERVAL: &str = "harvesterhci.io/replica-replenishment-wait-interval";
    pub const LONGHORN_RESTORED: &str = "harvesterhci.io/longhorn-settings-restored";
    pub const SKIP_MANIFESTS_APPLIED: &str = "harvesterhci.io/apply-skip-rke2-manifests-plan-completed";
    pub const SKIP_MANIFESTS_REMOVED: &str = "harvesterhci.io/remove-skip-rke2-manifests-plan-completed";
    /// The descheduler was on, and is switched on again in the end.
    pub const REENABLE_DESCHEDULER: &str = "harvesterhci.io/reenable-descheduler-addon";
    /// JSON: how KubeVirt moved workloads to its new version before the steps of a stock release forbade that; `null` if nothing said so.
    pub const WORKLOAD_UPDATE_METHODS: &str = "harvesterhci.io/kubevirt-workload-update-methods";
    pub const IMAGES_CLEANED: &str = "harvesterhci.io/image-cleanup-plan-completed";
    /// What users override checks with.
    pub const SKIP_WEBHOOK: &str = "harvesterhci.io/skipWebhook";
    pub const SKIP_VERSION_CHECK: &str = "harvesterhci.io/skip-version-check";
    pub const SKIP_SINGLE_REPLICA: &str = "harvesterhci.io/skipSingleReplicaDetachedVol";
    pub const SKIP_DISK_CHECK: &str = "harvesterhci.io/skipGarbageCollectionThresholdCheck";
    pub const MIN_CERTIFICATE_DAYS: &str = "harvesterhci.io/minCertsExpirationInDay";
    pub const ALLOW_NODE_JOIN: &str = "harvesterhci.io/allow-node-join";
}

/// Reasons of Events about an Upgrade.
pub mod events {
    pub const RESTORE_VM_COMPLETED: &str = "RestoreVMCompleted";
    pub const RESTORE_VM_FAILED: &str = "RestoreVMFailed";
}
