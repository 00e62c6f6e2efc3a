//! Nodes that wait for their user before they are drained.
//!
//! Which ones is fixed when the Upgrade begins: a map on the Upgrade, and a mark on each Node. Taking the mark off, or
//! turning the entry to `unpause`, lets the node go on. A mark that is missing counts as taken off only after it is noted
//! that all of them were there. An Upgrade that has failed takes its marks off, and puts them on again when it is taken up.

use std::collections::BTreeMap;

use drover_api::harvester::node::UPGRADE_PAUSE;
use drover_api::harvester::upgrade::annotations::{PAUSE, PAUSE_MAP, UNPAUSE};
use serde_json::{Value, json};

use super::decide::{Turn, members};
use super::options;
use super::progress::Step;
use crate::cluster::Node;
use crate::decision::{Act, Purpose, Reason, Subject};

/// The map as it is now, with what this turn makes of it; none if it cannot be read.
fn map(turn: &Turn<'_>) -> Option<BTreeMap<String, String>> {
    let new = turn.annotations.get(PAUSE_MAP).and_then(Value::as_str);
    options::pause_map(new.or(turn.annotation(PAUSE_MAP)).unwrap_or("{}")).ok()
}

fn write_map(turn: &mut Turn<'_>, map: &BTreeMap<String, String>) {
    turn.annotations.insert(PAUSE_MAP, json!(json!(map).to_string()));
}

fn is_marked(node: &Node) -> bool {
    node.metadata.annotations.contains_key(UPGRADE_PAUSE)
}

/// Puts the marks on the nodes that pause; true once all of them have been there.
pub(super) fn mark(turn: &mut Turn<'_>) -> bool {
    let Some(map) = map(turn) else {
        tell_unreadable(turn);
        return turn.next.pauses_marked;
    };
    if turn.next.pauses_marked {
        return true;
    }
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

/// A map that nobody can read resumes nobody: its nodes pause by their marks.
fn tell_unreadable(turn: &mut Turn<'_>) {
    let Err(problem) = options::pause_map(turn.annotation(PAUSE_MAP).unwrap_or_default()) else { return };
    let marked = turn.cluster().nodes.iter().filter(|node| is_marked(node));
    let map: BTreeMap<&str, &str> = marked.map(|node| (node.metadata.name.as_str(), PAUSE)).collect();
    let sentence = format!("{problem}: nodes that carry the annotation {UPGRADE_PAUSE} stay paused");
    let remedy = options::annotate(turn.name(), &format!("{PAUSE_MAP}='{}'", json!(map)));
    turn.wait_with_remedy(turn.subject(), Reason::UpgradeInvalid, sentence, remedy);
}

/// Whether a node pauses now; what its user says by one of the two marks is taken over into the other.
pub(super) fn is_paused(turn: &mut Turn<'_>, node: &Node) -> bool {
    let Some(mut map) = map(turn) else { return is_marked(node) || !turn.next.pauses_marked };
    let name = node.metadata.name.as_str();
    let says = map.get(name).cloned();
    let wants = says.as_deref() == Some(PAUSE);
    if wants && turn.next.pauses_marked && !is_marked(node) {
        map.insert(name.to_owned(), UNPAUSE.to_owned());
        write_map(turn, &map);
        return false;
    }
    if says.as_deref() == Some(UNPAUSE) && is_marked(node) {
        turn.write(Purpose::MarkNode, Subject::node(name), Act::Patch(patch(node, &Value::Null)));
    }
    wants
}

/// Takes the marks off all nodes. From then on a missing one says nothing.
pub(super) fn undo(turn: &mut Turn<'_>) -> bool {
    take_over_resumed(turn);
    turn.next.pauses_marked = false;
    let marked: Vec<&Node> = turn.cluster().nodes.iter().filter(|node| is_marked(node)).collect();
    for node in &marked {
        turn.write(Purpose::UndoMarks, Subject::node(&node.metadata.name), Act::Patch(patch(node, &Value::Null)));
    }
    marked.is_empty()
}

/// What users have said by taking marks off is noted before the others go: another try would put all of them on again.
fn take_over_resumed(turn: &mut Turn<'_>) {
    let Some(mut map) = map(turn).filter(|_| turn.next.pauses_marked) else { return };
    let (nodes, _) = members(turn.cluster());
    let waits = |name: &str| turn.next.step(name) == Step::Waits && map.get(name).is_some_and(|word| word == PAUSE);
    let resumed = nodes.iter().filter(|member| waits(member.name()) && !is_marked(member.node));
    let resumed: Vec<(String, String)> = resumed.map(|member| (member.name().to_owned(), UNPAUSE.to_owned())).collect();
    if !resumed.is_empty() {
        map.extend(resumed);
        write_map(turn, &map);
    }
}

fn patch(node: &Node, value: &Value) -> Value {
    let version = node.metadata.resource_version.to_string();
    json!({ "metadata": { "resourceVersion": version, "annotations": { UPGRADE_PAUSE: value } } })
}
