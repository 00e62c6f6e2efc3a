//! When may a node leave service?
//!
//! A claim is the right to take one node out. Claims are kept in one annotation of the object that states the limit,
//! and change only with its resourceVersion: two operators can never both hold the last one. The node that is taken
//! carries the claim's id as a label, which every Job of ours requires, and a record of what was done to it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// So many nodes tell how long one usually takes.
const REMEMBERED: usize = 5;

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
    /// How many seconds the last nodes took, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub took: Vec<i64>,
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
    /// The Job has ended well, but the node has to be waited for. From here on the Job may be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<Done>,
    /// The Job has failed, once or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Failed>,
}

/// A Job that has ended well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Done {
    /// What the node carries from now on.
    pub hash: String,
    pub version: String,
    /// When the Job began, if it said so, and when it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<Timestamp>,
    pub ended: Timestamp,
    /// The bootID that was current then.
    pub boot: String,
}

/// Failures that have been counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failed {
    /// How often in a row, for what the Plan asked for then.
    pub attempts: u32,
    /// What that was: a change of it starts the count anew.
    pub wish: String,
    /// The uid of the last Job that failed: it is counted once.
    pub job: String,
    pub at: Timestamp,
    /// Until when the failed Job is kept: one that is gone before was deleted by somebody who wants another try.
    pub kept_until: Timestamp,
    /// The failure in one sentence.
    pub sentence: String,
    /// Somebody wants another try now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retry: bool,
}

/// A node that its Plan goes on without, as kept in [`drover_api::marks::NODE_FAILED`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SetAside {
    pub owner: Owner,
    /// The cordon is ours.
    #[serde(default)]
    pub cordoned: bool,
    /// The hash that it failed with: another one is tried again.
    pub hash: String,
    pub since: Timestamp,
    pub sentence: String,
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
        serde_json::json!(self).to_string()
    }

    /// How long a node usually takes, in seconds: the median of the last ones.
    pub fn usual_seconds(&self) -> Option<i64> {
        let mut sorted = self.took.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }

    /// Notes how long a node took.
    pub fn note_duration(&mut self, seconds: i64) {
        self.took.push(seconds.max(0));
        let surplus = self.took.len().saturating_sub(REMEMBERED);
        self.took.drain(..surplus);
    }

    /// The same claims one epoch later, held by `holder`.
    pub fn raised_by(&self, holder: &str) -> Self {
        Claims { epoch: self.epoch + 1, holder: holder.to_owned(), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_survive_being_written_and_read() {
        let claim = Claim { id: "c1".into(), owner: "uid".into(), since: "2026-01-01T12:00:00Z".parse().unwrap() };
        let claims =
            Claims { epoch: 3, holder: "a".into(), nodes: [("n1".to_owned(), claim)].into(), took: vec![30, 40] };
        assert_eq!(Claims::read(Some(&claims.write())), claims);
    }

    #[test]
    fn an_unreadable_annotation_counts_as_none() {
        assert_eq!(Claims::read(Some("{{{")), Claims::default());
        assert_eq!(Claims::read(None), Claims::default());
    }

    #[test]
    fn a_node_usually_takes_as_long_as_most_of_the_last_ones() {
        let mut claims = Claims::default();
        assert_eq!(claims.usual_seconds(), None);
        for seconds in [900, 30, 31, 32, 33, 3600] {
            claims.note_duration(seconds);
        }
        assert_eq!(claims.took, [30, 31, 32, 33, 3600]);
        assert_eq!(claims.usual_seconds(), Some(32));
    }

    #[test]
    fn two_claims_of_one_node_differ_and_the_same_decision_repeats_its_id() {
        assert_ne!(ClaimId::new("plan", 7, "node"), ClaimId::new("plan", 8, "node"));
        assert_eq!(ClaimId::new("plan", 7, "node"), ClaimId::new("plan", 7, "node"));
    }
}
