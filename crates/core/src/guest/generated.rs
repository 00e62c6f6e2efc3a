//! What of a machine was generated, by the field. It is remembered on the machine: no object of the management cluster tells with which
//! configuration of the cluster a machine has joined, and a field that is generated no longer has to be known to be taken away.

use std::collections::BTreeMap;

use drover_api::marks::GENERATED;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::order::Patches;

/// Fields, as JSON pointers, and their values.
pub type Fields = BTreeMap<String, Value>;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Generated {
    /// Of the ClusterConfiguration of kubeadm.
    pub cluster: Fields,
    /// Of the KubeadmConfig.
    pub bootstrap: Fields,
    /// Of what stands for the virtual machine.
    pub infrastructure: Fields,
}

impl Generated {
    /// What patches set.
    pub fn by(patches: &Patches) -> Self {
        Generated {
            cluster: fields(&patches.kubeadm),
            bootstrap: fields(&patches.bootstrap),
            infrastructure: fields(&patches.infrastructure),
        }
    }

    /// The same with what a machine has joined with of all that `patches` change, if that is not known yet: `configuration` is what it
    /// has joined with, where nobody remembers it; what was generated otherwise was not there.
    pub fn with_what_changes(mut self, patches: &[Value], configuration: Option<&Value>) -> Self {
        for path in changed(patches) {
            let joined = || configuration.and_then(|known| known.pointer(path)).cloned().unwrap_or_default();
            self.cluster.entry(path.to_owned()).or_insert_with(joined);
        }
        self
    }

    /// The same without what is remembered as not there.
    pub fn of_what_is_there(mut self) -> Self {
        self.cluster.retain(|_, value| !value.is_null());
        self
    }

    /// As an object remembers it; none if it was not made so.
    pub fn of(object: &Value) -> Option<Self> {
        serde_json::from_str(object["metadata"]["annotations"][GENERATED].as_str()?).ok()
    }
}

impl std::fmt::Display for Generated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", json!(self))
    }
}

/// An empty object is only there for what is in it.
fn fields(patches: &[Value]) -> Fields {
    let sets = |patch: &&Value| (patch["op"] == "replace" || patch["op"] == "add") && patch["value"] != json!({});
    let field = |patch: &Value| Some((patch["path"].as_str()?.to_owned(), patch["value"].clone()));
    patches.iter().filter(sets).filter_map(field).collect()
}

/// What patches set or take away.
fn changed(patches: &[Value]) -> impl Iterator<Item = &str> {
    patches.iter().filter(|patch| patch["value"] != json!({})).filter_map(|patch| patch["path"].as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_patches_set_is_remembered_and_read_again() {
        let patches = Patches {
            kubeadm: vec![
                json!({ "op": "add", "path": "/apiServer/extraArgs", "value": {} }),
                json!({ "op": "replace", "path": "/apiServer/extraArgs/profiling", "value": "false" }),
                json!({ "op": "remove", "path": "/apiServer/extraArgs/feature-gates" }),
            ],
            ..Patches::default()
        };

        let made = Generated::by(&patches);

        assert_eq!(made.cluster, Fields::from([("/apiServer/extraArgs/profiling".to_owned(), json!("false"))]));
        let machine = json!({ "metadata": { "annotations": { GENERATED: made.to_string() } } });
        assert_eq!(Generated::of(&machine), Some(made));
        assert_eq!(Generated::of(&json!({})), None);
    }
}
