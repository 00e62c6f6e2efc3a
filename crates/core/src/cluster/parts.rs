//! What objects of many kinds have in common.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::decision::{Kind, Subject};

/// A copy of the whole object that kubectl leaves on it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Annotations of these are read to their end.
const READ_WHOLE: [&str; 3] = ["drover.dev", "harvesterhci.io", "cattle.io"];
/// In bytes.
const LONG: usize = 256;

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    /// 0 where it is not told.
    #[serde(deserialize_with = "number")]
    pub resource_version: u64,
    pub generation: i64,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub creation_timestamp: Option<Timestamp>,
    /// When it will be gone, for an object that is being deleted.
    pub deletion_timestamp: Option<Timestamp>,
    pub deletion_grace_period_seconds: Option<i64>,
    pub owner_references: Box<[OwnerReference]>,
    pub finalizers: Box<[String]>,
}

/// Versions are compared as numbers; an object that was stored without a usable one is as old as can be.
fn number<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
    Ok(text.parse().unwrap_or(0))
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub controller: bool,
}

impl Meta {
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller)
    }

    /// Since when it is being deleted.
    pub fn deleted_since(&self) -> Option<Timestamp> {
        let grace = jiff::SignedDuration::from_secs(self.deletion_grace_period_seconds.unwrap_or(0));
        self.deletion_timestamp.map(|end| end.checked_sub(grace).unwrap_or(end))
    }

    /// Of others' annotations only these are kept.
    pub(super) fn keep_annotations(&mut self, others: impl Fn(&str) -> bool) {
        let annotations = std::mem::take(&mut self.annotations).into_iter();
        self.annotations = annotations.filter(|(key, _)| is_read_whole(key) || others(key)).collect();
    }

    /// Drops what takes room and is read by nobody: of long annotations of others only their beginning is kept, which says
    /// that they are there.
    pub(super) fn forget_copies(&mut self) {
        self.annotations.remove(LAST_APPLIED);
        for (key, value) in &mut self.annotations {
            if value.len() > LONG && !is_read_whole(key) {
                *value = value.chars().take(LONG / 8).collect();
            }
        }
    }
}

fn is_read_whole(key: &str) -> bool {
    READ_WHOLE.iter().any(|group| key.split('/').next().is_some_and(|prefix| prefix.ends_with(group)))
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub reason: String,
    pub message: String,
    pub last_transition_time: Option<Timestamp>,
    /// Of Nodes.
    pub last_heartbeat_time: Option<Timestamp>,
}

impl Condition {
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }

    /// Why it is so: the sentence, or the word if there is none.
    pub fn said(&self) -> &str {
        if self.message.is_empty() { &self.reason } else { &self.message }
    }
}

pub fn condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    condition(conditions, kind).is_some_and(Condition::is_true)
}

/// One object of any kind: `Pod/shop/cart-0`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectRef {
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
}

impl ObjectRef {
    pub fn new(kind: &str, namespace: &str, name: &str) -> Self {
        ObjectRef { kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// The object whose projection this is.
    pub fn of<T: super::Projection>(object: &T) -> Self {
        let metadata = object.metadata();
        ObjectRef::new(T::KIND, &metadata.namespace, &metadata.name)
    }

    /// As sentences name it: `Pod shop/cart-0`.
    pub fn in_words(&self) -> String {
        match self.namespace.as_str() {
            "" => format!("{} {}", self.kind, self.name),
            namespace => format!("{} {namespace}/{}", self.kind, self.name),
        }
    }
}

impl From<&Subject> for ObjectRef {
    fn from(subject: &Subject) -> Self {
        let kind = match subject.kind {
            // Rancher has another Cluster, and the engine tells them apart.
            Kind::CapiCluster => "Cluster".to_owned(),
            kind => format!("{kind:?}"),
        };
        ObjectRef::new(&kind, &subject.namespace, &subject.name)
    }
}

impl std::fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{}/{}", self.kind, self.name),
            namespace => write!(f, "{}/{namespace}/{}", self.kind, self.name),
        }
    }
}
