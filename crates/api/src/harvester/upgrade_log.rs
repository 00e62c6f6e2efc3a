//! `UpgradeLog` (harvesterhci.io/v1beta1): the collected logs of one Upgrade.
//!
//! The definition has no status subresource. See
//! <https://github.com/harvester/harvester/blob/master/pkg/apis/harvesterhci.io/v1beta1/upgradelog.go>.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::foreign::LooseCondition;

#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "harvesterhci.io",
    version = "v1beta1",
    kind = "UpgradeLog",
    plural = "upgradelogs",
    singular = "upgradelog",
    namespaced,
    status = "UpgradeLogStatus",
    derive = "PartialEq",
    doc = "UpgradeLog collects the logs of one Upgrade.",
    printcolumn = r#"{"name":"UPGRADE","type":"string","jsonPath":".spec.upgradeName"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeLogSpec {
    /// The Upgrade whose logs these are. It cannot be changed.
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "Value is immutable"}]))]
    pub upgrade_name: String,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct UpgradeLogStatus {
    /// The archives that can be downloaded, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub archives: BTreeMap<String, Archive>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<LooseCondition>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Archive {
    #[serde(default)]
    pub size: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generated_time: Option<String>,
    #[serde(default)]
    pub ready: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

pub const FINALIZER: &str = "wrangler.cattle.io/harvester-upgradelog-controller";

pub mod conditions {
    pub const LOGGING_OPERATOR_READY: &str = "LoggingOperatorReady";
    pub const INFRA_READY: &str = "InfraReady";
    pub const STARTED: &str = "Started";
    pub const STOPPED: &str = "Stopped";
    pub const DOWNLOAD_READY: &str = "DownloadReady";
}

/// Labels of what an UpgradeLog makes, and annotations by which its parts report.
pub mod labels {
    pub const UPGRADE_LOG: &str = "harvesterhci.io/upgradeLog";
    pub const COMPONENT: &str = "harvesterhci.io/upgradeLogComponent";
}

pub mod annotations {
    pub const STATE: &str = "harvesterhci.io/upgradeLogState";
    pub const COLLECTING: &str = "Collecting";
    pub const STOPPED: &str = "Stopped";
    pub const ARCHIVE_ALT_NAME: &str = "harvesterhci.io/logArchiveAltName";
    pub const OPERATOR_SOURCE: &str = "harvesterhci.io/loggingOperatorSource";
    /// On the Job that packs an archive.
    pub const ARCHIVE_NAME: &str = "harvesterhci.io/archiveName";
}
