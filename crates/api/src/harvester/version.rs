//! `Version` (harvesterhci.io/v1beta1): a release that a cluster can be upgraded to.
//! See <https://github.com/harvester/harvester/blob/master/pkg/apis/harvesterhci.io/v1beta1/version.go>.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "harvesterhci.io",
    version = "v1beta1",
    kind = "Version",
    plural = "versions",
    singular = "version",
    namespaced,
    derive = "PartialEq",
    doc = "Version is a release of Harvester that a cluster can be upgraded to.",
    printcolumn = r#"{"name":"ISO-URL","type":"string","jsonPath":".spec.isoURL"}"#,
    printcolumn = r#"{"name":"ReleaseDate","type":"string","jsonPath":".spec.releaseDate"}"#,
    printcolumn = r#"{"name":"MinUpgradableVersion","type":"string","jsonPath":".spec.minUpgradableVersion"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct VersionSpec {
    /// Where the ISO is.
    #[serde(rename = "isoURL")]
    pub iso_url: String,
    /// SHA-512 of the ISO, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iso_checksum: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_date: Option<String>,
    /// The oldest version that can be upgraded to this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_upgradable_version: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// The tag of releases that may be upgraded to from anywhere.
pub const TAG_DEV: &str = "dev";
