//! Nodes without machines: KWOK plays the kubelet for them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::error::Result;
use crate::kubectl::Kubectl;
use crate::ready::wait_for_nodes;

/// What KWOK does to nodes and pods.
pub(crate) const STAGES: &str = include_str!("stages.yaml");

/// The annotation that makes a node KWOK's.
pub(crate) const MARK: (&str, &str) = ("kwok.x-k8s.io/node", "fake");

/// Creates the nodes and waits until pods can run on them.
pub(crate) fn add_nodes(kubectl: &Kubectl, names: &[&str], labels: &[(&str, &str)], patience: Duration) -> Result<()> {
    let nodes: Vec<Value> = names.iter().map(|name| node(name, labels)).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": nodes});
    kubectl.run_on(&["create"], &list.to_string())?;
    wait_for_nodes(kubectl, names, patience)
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
