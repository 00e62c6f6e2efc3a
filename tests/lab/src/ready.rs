//! When can pods run on a node?

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::error::{Error, Result};
use crate::kubectl::Kubectl;

/// Waits until pods can run on all of these nodes.
pub(crate) fn wait_for_nodes(kubectl: &Kubectl, names: &[&str], patience: Duration) -> Result<()> {
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
    use serde_json::json;

    use super::*;

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
}
