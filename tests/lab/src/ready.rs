//! When can pods run on a node, and when is a kind served?

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::error::{Error, Result};
use crate::kubectl::Kubectl;

/// Waits until pods can run on all of these nodes.
pub(crate) fn wait_for_nodes(kubectl: &Kubectl, names: &[&str], patience: Duration) -> Result<()> {
    let missing = || Ok(not_ready(&kubectl.run(&["get", "nodes", "-o", "json"])?, names));
    match missing_after(patience, missing)? {
        names if names.is_empty() => Ok(()),
        names => Err(Error::NodesNotReady { names, seconds: patience.as_secs() }),
    }
}

/// Waits until the server serves every kind that was defined. `kubectl wait` gives up on a definition so new that it has
/// no conditions at all.
pub(crate) fn wait_for_definitions(kubectl: &Kubectl, patience: Duration) -> Result<()> {
    let missing = || Ok(not_served(&kubectl.run(&["get", "crds", "-o", "json"])?));
    match missing_after(patience, missing)? {
        names if names.is_empty() => Ok(()),
        names => Err(Error::KindsNotServed { names, seconds: patience.as_secs() }),
    }
}

/// What is still missing once nothing is, or once patience is at its end.
fn missing_after(patience: Duration, missing: impl Fn() -> Result<Vec<String>>) -> Result<Vec<String>> {
    let started = Instant::now();
    loop {
        let names = missing()?;
        if names.is_empty() || started.elapsed() > patience {
            return Ok(names);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Those of the nodes that are not Ready, or still have the taints of a node that is not. A new node has them until
/// the controller manager has seen it Ready.
fn not_ready(list: &str, names: &[&str]) -> Vec<String> {
    let nodes = items(list);
    let usable = |name: &&&str| {
        nodes
            .iter()
            .filter(|node| node["metadata"]["name"] == **name)
            .any(|node| is(node, "Ready") && node["spec"]["taints"].as_array().is_none_or(Vec::is_empty))
    };
    names.iter().filter(|name| !usable(name)).map(|name| (*name).to_owned()).collect()
}

fn not_served(list: &str) -> Vec<String> {
    let unserved = items(list).into_iter().filter(|definition| !is(definition, "Established"));
    unserved.filter_map(|definition| Some(definition["metadata"]["name"].as_str()?.to_owned())).collect()
}

fn items(list: &str) -> Vec<Value> {
    let list: Value = serde_json::from_str(list).unwrap_or_default();
    list["items"].as_array().cloned().unwrap_or_default()
}

/// Is this condition True? An object so new that nobody has looked at it has none.
fn is(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().any(|one| one["type"] == condition && one["status"] == "True")
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

    #[test]
    fn a_kind_counts_once_its_definition_is_established() {
        let list = json!({"items": [
            {"metadata": {"name": "served"}, "status": {"conditions": [{"type": "Established", "status": "True"}]}},
            {"metadata": {"name": "refused"}, "status": {"conditions": [{"type": "Established", "status": "False"}]}},
            {"metadata": {"name": "new"}, "status": {"conditions": null}},
        ]});

        assert_eq!(not_served(&list.to_string()), ["refused", "new"]);
    }
}
