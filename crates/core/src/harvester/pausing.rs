//! Nodes that wait for their user before they are drained.
//!
//! Two marks say which: the map on the Upgrade, and an annotation on each Node. They are made when the Upgrade begins, and either of them can be
//! set by hand as long as a node has not begun: what one says is taken over into the other. Taking the mark off, or turning the entry to
//! `unpause`, lets the node go on. A mark that is missing counts as taken off only where it is noted that this very Node had it. An
//! Upgrade that ends takes both marks off; one that has failed knows who had not been resumed, and puts them on again when it is taken up.

use std::collections::BTreeMap;

use drover_api::harvester::node::UPGRADE_PAUSE;
use drover_api::harvester::upgrade::annotations::{PAUSE, PAUSE_MAP, UNPAUSE};
use serde_json::{Value, json};

use super::decide::{Turn, members};
use super::options;
use super::progress::{Ending, Step};
use crate::cluster::Node;
use crate::decision::{Act, Purpose, Reason, Subject};

/// What is said of each node.
type Map = BTreeMap<String, String>;

/// The map as it is now, with what this turn makes of it; none if it cannot be read.
fn map(turn: &Turn<'_>) -> Option<Map> {
    let text = match turn.annotations.get(PAUSE_MAP) {
        Some(new) => new.as_str(),
        None => turn.annotation(PAUSE_MAP),
    };
    options::pause_map(text.unwrap_or("{}")).ok()
}

fn says(map: &Map, node: &str, word: &str) -> bool {
    map.get(node).is_some_and(|said| said == word)
}

fn is_marked(node: &Node) -> bool {
    node.metadata.annotations.contains_key(UPGRADE_PAUSE)
}

/// The names of Nodes that are gone leave the map: Harvester's webhook refuses whatever is written on an Upgrade whose map names one. Who was
/// to pause does so again when it comes back.
pub(super) fn forget_who_is_gone(turn: &mut Turn<'_>) {
    let Some(mut map) = map(turn) else { return };
    let cluster = turn.cluster();
    let gone: Map = map.extract_if(.., |name, _| cluster.nodes.named(name).is_none()).collect();
    if gone.is_empty() {
        return;
    }
    let paused = gone.into_iter().filter(|(name, said)| said == PAUSE && turn.next.step(name) == Step::Waits);
    let paused: Vec<String> = paused.map(|(name, _)| name).collect();
    turn.next.paused.extend(paused);
    turn.annotations.insert(PAUSE_MAP, json!(json!(map).to_string()));
}

/// Makes the marks that are missing, and takes over what users say by one of the two; true once all nodes that pause from the beginning have
/// been marked.
pub(super) fn heed(turn: &mut Turn<'_>) -> bool {
    let Some(mut map) = map(turn) else {
        tell_unreadable(turn);
        return were_marked(turn);
    };
    let before = map.clone();
    // Those that were gone are back.
    let cluster = turn.cluster();
    let there = turn.next.paused.extract_if(.., |name| cluster.nodes.named(name).is_some());
    for name in there {
        map.entry(name).or_insert_with(|| PAUSE.to_owned());
    }
    let known = known(turn, &map);
    let mut marked = known.clone().unwrap_or_default();
    let mut is_complete = true;
    let (nodes, _) = members(turn.cluster());
    let waiting: Vec<&Node> = nodes.iter().map(|member| member.node).filter(|node| waits(turn, node)).collect();
    for node in waiting {
        let (name, uid) = (&node.metadata.name, &node.metadata.uid);
        let had_mark = known.as_ref().map(|known| known.get(name) == Some(uid));
        match (is_marked(node), had_mark) {
            // Resumed by the map; a mark that has come since then pauses it anew.
            (true, None | Some(true)) if says(&map, name, UNPAUSE) => write_mark(turn, node, &Value::Null),
            (true, _) => {
                map.insert(name.clone(), PAUSE.to_owned());
                marked.insert(name.clone(), uid.clone());
            }
            (false, None | Some(false)) if says(&map, name, PAUSE) => {
                is_complete = false;
                write_mark(turn, node, &json!(turn.name()));
            }
            (false, _) => {
                if says(&map, name, PAUSE) {
                    map.insert(name.clone(), UNPAUSE.to_owned());
                }
                marked.remove(name);
            }
        }
    }
    if map != before {
        turn.annotations.insert(PAUSE_MAP, json!(json!(map).to_string()));
    }
    // Before all of them are there, none that is missing says anything.
    turn.next.marked = (is_complete || known.is_some()).then_some(marked);
    turn.next.pauses_marked = false;
    turn.next.marked.is_some()
}

/// Its turn has not come.
fn waits(turn: &Turn<'_>, node: &Node) -> bool {
    turn.next.step(&node.metadata.name) == Step::Waits
}

/// It is noted that all nodes that pause from the beginning have had their marks.
fn were_marked(turn: &Turn<'_>) -> bool {
    turn.next.marked.is_some() || turn.next.pauses_marked
}

/// The Nodes that have had their mark, by name, with their uids. An earlier Drover has noted only that all had it.
fn known(turn: &Turn<'_>, map: &Map) -> Option<BTreeMap<String, String>> {
    let of_all = || {
        let nodes = turn.cluster().nodes.iter().filter(|node| map.contains_key(&node.metadata.name));
        nodes.map(|node| (node.metadata.name.clone(), node.metadata.uid.clone())).collect()
    };
    turn.next.marked.clone().or_else(|| turn.next.pauses_marked.then(of_all))
}

fn write_mark(turn: &mut Turn<'_>, node: &Node, value: &Value) {
    let version = node.metadata.resource_version.to_string();
    let patch = json!({ "metadata": { "resourceVersion": version, "annotations": { UPGRADE_PAUSE: value } } });
    turn.write(Purpose::MarkNode, Subject::node(&node.metadata.name), Act::Patch(patch));
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

/// Whether a node pauses now.
pub(super) fn is_paused(turn: &Turn<'_>, node: &Node) -> bool {
    match map(turn) {
        Some(map) => says(&map, &node.metadata.name, PAUSE),
        None => is_marked(node) || !were_marked(turn),
    }
}

/// Takes both marks off. From then on a missing one says nothing.
pub(super) fn undo(turn: &mut Turn<'_>) -> bool {
    remember(turn);
    turn.annotations.insert(PAUSE_MAP, Value::Null);
    (turn.next.marked, turn.next.pauses_marked) = (None, false);
    let marked: Vec<&Node> = turn.cluster().nodes.iter().filter(|node| is_marked(node)).collect();
    for node in &marked {
        let version = node.metadata.resource_version.to_string();
        let patch = json!({ "metadata": { "resourceVersion": version, "annotations": { UPGRADE_PAUSE: null } } });
        turn.write(Purpose::UndoMarks, Subject::node(&node.metadata.name), Act::Patch(patch));
    }
    marked.is_empty()
}

/// Who pauses when an Upgrade that has failed is taken up again: who had not begun, and was not resumed.
fn remember(turn: &mut Turn<'_>) {
    if turn.next.ended == Some(Ending::Succeeded) {
        turn.next.paused.clear();
        return;
    }
    let map = map(turn);
    let known = map.as_ref().and_then(|map| known(turn, map)).unwrap_or_default();
    let mut paused = std::mem::take(&mut turn.next.paused);
    for node in turn.cluster().nodes.iter().filter(|node| waits(turn, node)) {
        let (name, uid) = (&node.metadata.name, &node.metadata.uid);
        let is_resumed = known.get(name) == Some(uid) && !is_marked(node);
        match map.as_ref().map(|map| map.get(name).map(String::as_str)) {
            Some(Some(PAUSE)) if !is_resumed => drop(paused.insert(name.clone())),
            Some(Some(_)) => drop(paused.remove(name)),
            Some(None) => {}
            // Nobody can read it.
            None if is_marked(node) => drop(paused.insert(name.clone())),
            None => {}
        }
    }
    turn.next.paused = paused;
}
