//! Nodes that wait for their user before they are drained.
//!
//! Which ones is fixed when the Upgrade begins: a map on the Upgrade, and a mark on each Node. Taking the mark off, or
//! turning the entry to `unpause`, lets the node go on. A mark that is missing counts as taken off only after it is noted
//! that all of them were there.

use std::collections::BTreeMap;

use drover_api::harvester::node::UPGRADE_PAUSE;
use drover_api::harvester::upgrade::annotations::{PAUSE, PAUSE_MAP, UNPAUSE};
use serde_json::{Value, json};

use super::decide::{Turn, members};
use crate::cluster::Node;
use crate::decision::{Act, Purpose, Subject};

/// The map as it is now, with what this turn makes of it. One that cannot be read pauses nobody.
fn map(turn: &Turn<'_>) -> BTreeMap<String, String> {
    let new = turn.annotations.get(PAUSE_MAP).and_then(Value::as_str);
    let text = new.or(turn.annotation(PAUSE_MAP)).unwrap_or("{}");
    serde_json::from_str(text).unwrap_or_default()
}

fn is_marked(node: &Node) -> bool {
    node.metadata.annotations.contains_key(UPGRADE_PAUSE)
}

/// Puts the marks on the nodes that pause; true once all of them have been there.
pub(super) fn mark(turn: &mut Turn<'_>) -> bool {
    if turn.next.pauses_marked {
        return true;
    }
    let map = map(turn);
    let (nodes, _) = members(turn.cluster());
    let pausing = nodes.iter().filter(|member| map.get(member.name()).is_some_and(|word| word == PAUSE));
    let lacking: Vec<&Node> = pausing.map(|member| member.node).filter(|node| !is_marked(node)).collect();
    if lacking.is_empty() {
        turn.next.pauses_marked = true;
        return true;
    }
    for node in lacking {
        let patch = patch(node, &json!(turn.name()));
        turn.write(Purpose::MarkNode, Subject::node(&node.metadata.name), Act::Patch(patch));
    }
    false
}

/// Whether a node pauses now; what its user says by one of the two marks is taken over into the other.
pub(super) fn is_paused(turn: &mut Turn<'_>, node: &Node) -> bool {
    let mut map = map(turn);
    let name = node.metadata.name.as_str();
    let says = map.get(name).cloned();
    let wants = says.as_deref() == Some(PAUSE);
    if wants && turn.next.pauses_marked && !is_marked(node) {
        map.insert(name.to_owned(), UNPAUSE.to_owned());
        turn.annotations.insert(PAUSE_MAP, json!(json!(map).to_string()));
        return false;
    }
    if says.as_deref() == Some(UNPAUSE) && is_marked(node) {
        turn.write(Purpose::MarkNode, Subject::node(name), Act::Patch(patch(node, &Value::Null)));
    }
    wants
}

/// Takes the marks off all nodes.
pub(super) fn undo(turn: &mut Turn<'_>) -> bool {
    let marked: Vec<&Node> = turn.cluster().nodes.iter().filter(|node| is_marked(node)).collect();
    for node in &marked {
        turn.write(Purpose::UndoMarks, Subject::node(&node.metadata.name), Act::Patch(patch(node, &Value::Null)));
    }
    marked.is_empty()
}

fn patch(node: &Node, value: &Value) -> Value {
    let version = node.metadata.resource_version.to_string();
    json!({ "metadata": { "resourceVersion": version, "annotations": { UPGRADE_PAUSE: value } } })
}
