//! Nodes without machines: KWOK plays the kubelet for them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::kubectl::Kubectl;

/// What KWOK does to nodes and pods.
pub(crate) const STAGES: &str = include_str!("stages.yaml");

/// The annotation that makes a node KWOK's.
pub(crate) const MARK: (&str, &str) = ("kwok.x-k8s.io/node", "fake");

/// Creates the nodes and waits until pods can run on them.
pub(crate) fn add_nodes(kubectl: &Kubectl, names: &[&str], labels: &[(&str, &str)], patience: Duration) -> Result<()> {
    let nodes: Vec<Value> = names.iter().map(|name| node(name, labels)).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": nodes});
    kubectl.run_on(&["create"], &list.to_string())?;

    let started = Instant::now();
    loop {
        let waiting = not_ready(&kubectl.run(&["get", "nodes", "-o", "json"])?, names);
        if waiting.is_empty() {
            return Ok(());
        }
        if started.elapsed() > patience {
            return Err(Error::NodesNotReady { names: waiting, seconds: patience.as_secs() });
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn node(name: &str, labels: &[(&str, &str)]) -> Value {
    let mut node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {MARK.0: MARK.1},
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"},
        },
    });
    for (key, value) in labels {
        node["metadata"]["labels"][*key] = json!(value);
    }
    node
}

/// Those of the nodes that are not Ready, or still have the taints of a node that is not. A new node has them until
/// the controller manager has seen it Ready.
fn not_ready(list: &str, names: &[&str]) -> Vec<String> {
    let list: Value = serde_json::from_str(list).unwrap_or_default();
    let nodes = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let usable = |name: &&&str| {
        nodes.iter().filter(|node| node["metadata"]["name"] == **name).any(|node| {
            let conditions = node["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
            let ready = conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
            ready && node["spec"]["taints"].as_array().is_none_or(Vec::is_empty)
        })
    };
    names.iter().filter(|name| !usable(name)).map(|name| (*name).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pins::MODULES;

    #[test]
    fn kwok_nodes_say_that_they_run_the_version_of_the_cluster() {
        let kubernetes = MODULES.iter().find(|module| module.name == "kubernetes").unwrap();
        let version = format!("kubeletVersion \"{}\"", kubernetes.version().unwrap());

        assert!(STAGES.contains(&version), "{version} is not in stages.yaml");
    }

    #[test]
    fn a_node_counts_once_it_is_ready_and_has_no_taint() {
        let ready = json!([{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}]);
        let list = json!({"items": [
            {"metadata": {"name": "usable"}, "spec": {}, "status": {"conditions": ready}},
            {"metadata": {"name": "tainted"}, "spec": {"taints": [{"key": "k"}]}, "status": {"conditions": ready}},
            {"metadata": {"name": "lost"}, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}},
            {"metadata": {"name": "new"}},
        ]});

        let waiting = not_ready(&list.to_string(), &["usable", "tainted", "lost", "new", "absent"]);

        assert_eq!(waiting, ["tainted", "lost", "new", "absent"]);
    }

    #[test]
    fn a_node_carries_the_labels_that_were_asked_for_and_its_own() {
        let node = node("node-1", &[("role", "worker"), ("kubernetes.io/arch", "arm64")]);

        assert_eq!(
            node["metadata"]["labels"],
            json!({
                "kubernetes.io/arch": "arm64",
                "kubernetes.io/hostname": "node-1",
                "kubernetes.io/os": "linux",
                "role": "worker",
            })
        );
    }
}
