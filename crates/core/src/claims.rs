//! When may a node leave service?
//!
//! A claim is the right to take one node out. Claims are kept in one annotation of the object that states the limit,
//! and change only with its resourceVersion: two operators can never both hold the last one. The node that is taken
//! carries the claim's id as a label, which every Job of ours requires, and a record of what was done to it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// All claims under one limit, as kept in [`drover_api::marks::CLAIMS`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claims {
    /// Raised by every leader before it acts.
    pub epoch: u64,
    /// The operator process that raised it. Only this one ends claims.
    pub holder: String,
    /// By node name.
    #[serde(default)]
    pub nodes: BTreeMap<String, Claim>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    pub id: ClaimId,
    /// The uid of the object that claims.
    pub owner: String,
    pub since: Timestamp,
}

/// Names one claim of one node, never used again: also a label value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClaimId(String);

impl ClaimId {
    /// The owner's resourceVersion changes with each claim, so no two claims of a node share an id, and whoever
    /// repeats the same decision gets the same one.
    pub fn new(owner_uid: &str, owner_resource_version: u64, node_uid: &str) -> Self {
        let digest = Sha256::digest(format!("{owner_uid}/{owner_resource_version}/{node_uid}"));
        ClaimId(digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for ClaimId {
    fn from(id: &str) -> Self {
        ClaimId(id.to_owned())
    }
}

impl std::fmt::Display for ClaimId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// What stands on a taken Node beside the label, as kept in [`drover_api::marks::NODE_CLAIM`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mark {
    pub owner: Owner,
    /// The cordon is ours: it goes with the mark. A node that was cordoned before stays cordoned.
    #[serde(default)]
    pub cordoned: bool,
    /// The bootID that was current when the Job ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_ended_in_boot: Option<String>,
}

/// Who took a node: enough to find out whether it still exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl Claims {
    /// Reads the annotation. What cannot be read counts as lost: the marks on the nodes still say who is out.
    pub fn read(annotation: Option<&str>) -> Self {
        annotation.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    pub fn write(&self) -> String {
        serde_json::json!({ "epoch": self.epoch, "holder": self.holder, "nodes": self.nodes }).to_string()
    }

    /// The same claims one epoch later, held by `holder`.
    pub fn raised_by(&self, holder: &str) -> Self {
        Claims { epoch: self.epoch + 1, holder: holder.to_owned(), nodes: self.nodes.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_survive_being_written_and_read() {
        let claim = Claim { id: "c1".into(), owner: "uid".into(), since: "2026-01-01T12:00:00Z".parse().unwrap() };
        let claims = Claims { epoch: 3, holder: "a".into(), nodes: [("n1".to_owned(), claim)].into() };
        assert_eq!(Claims::read(Some(&claims.write())), claims);
    }

    #[test]
    fn an_unreadable_annotation_counts_as_none() {
        assert_eq!(Claims::read(Some("{{{")), Claims::default());
        assert_eq!(Claims::read(None), Claims::default());
    }

    #[test]
    fn two_claims_of_one_node_differ_and_the_same_decision_repeats_its_id() {
        assert_ne!(ClaimId::new("plan", 7, "node"), ClaimId::new("plan", 8, "node"));
        assert_eq!(ClaimId::new("plan", 7, "node"), ClaimId::new("plan", 7, "node"));
    }
}
