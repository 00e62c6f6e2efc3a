//! What was applied for each add-on, as it is remembered on the guest itself: so nothing is taken for ours that is not.

use std::collections::BTreeMap;

use drover_api::marks::ADDONS_APPLIED;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::guest::wait::{Object, Side};

/// One object that was applied.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    pub api_version: String,
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    /// The distribution that brought it last.
    pub distribution: String,
    /// Of what others have applied, which carries no label of ours.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

impl Entry {
    pub fn of(object: &Object, distribution: &str) -> Self {
        Entry {
            api_version: object.api_version.clone(),
            kind: object.kind.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            distribution: distribution.to_owned(),
            uid: String::new(),
        }
    }

    pub fn object(&self) -> Object {
        Object {
            side: Side::Guest,
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    /// Whichever version or group it is written in.
    pub fn is(&self, object: &Object) -> bool {
        (&self.kind, &self.namespace, &self.name) == (&object.kind, &object.namespace, &object.name)
    }
}

/// Entries by add-on.
pub type Inventory = BTreeMap<String, Vec<Entry>>;

/// What somebody has spoilt counts for nothing: then nothing is deleted.
pub fn read(map: Option<&Value>) -> Inventory {
    let data = map.and_then(|map| map["data"].as_object()).into_iter().flatten();
    let entries = data.filter_map(|(addon, said)| {
        let entries: Vec<Entry> = serde_json::from_str(said.as_str()?).ok()?;
        Some((addon.clone(), entries))
    });
    entries.collect()
}

/// The ConfigMap that remembers it.
pub fn written(inventory: &Inventory) -> Value {
    let data: BTreeMap<&String, String> =
        inventory.iter().map(|(addon, entries)| (addon, json!(entries).to_string())).collect();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": ADDONS_APPLIED, "namespace": "kube-system" }, "data": data,
    })
}

pub fn object() -> Object {
    Object::of(Side::Guest, &written(&Inventory::new()))
}
