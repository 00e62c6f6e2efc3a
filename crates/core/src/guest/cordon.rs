//! A Node whose machine is about to go takes no pods any more, and says why; one whose machine is to stay after all is given back.
//!
//! The mark tells our cordon from that of somebody else, which stays. It goes with the Node, or when the Node is given back.

use drover_api::marks::NODE_LEAVES;
use serde_json::{Value, json};

use super::view::{Flow, Machine, View};
use super::wait::{Deed, Next, Object, Side, Write};
use crate::decision::Act;

/// Cordons the Node of a machine that goes, unless it is cordoned.
pub fn take(view: &View<'_>, machine: &Machine<'_>, node: &Value) -> Flow<()> {
    if node["spec"]["unschedulable"] == true {
        return Ok(());
    }
    let patch = json!({
        "metadata": { "annotations": { NODE_LEAVES: why(view, machine) } }, "spec": { "unschedulable": true },
    });
    let write = changed(node, patch, "take no more pods on a machine that goes");
    Err(Next::Act(vec![Deed::Write(Box::new(write))]))
}

/// Gives back the Nodes of machines that stay: an earlier update has meant to take them.
pub fn give_back<'a>(view: &View<'a>, staying: impl Iterator<Item = Machine<'a>>) -> Flow<()> {
    let nodes = staying.filter_map(|machine| view.node_of(&machine)).filter(|node| mark(node).is_some());
    let given = nodes.map(|node| {
        let patch = json!({ "metadata": { "annotations": { NODE_LEAVES: null } }, "spec": { "unschedulable": null } });
        Deed::Write(Box::new(changed(node, patch, "give back a machine that is to stay")))
    });
    let deeds: Vec<Deed> = given.collect();
    if deeds.is_empty() { Ok(()) } else { Err(Next::Act(deeds)) }
}

/// What Nodes that are still cordoned say when a try has failed: whoever finds one knows why, and what it waits for.
pub fn failed(view: &View<'_>, cause: &str) -> Vec<Write> {
    let left = view.machines().into_iter().filter_map(|machine| {
        let node = view.node_of(&machine).filter(|node| mark(node).is_some())?;
        let said = format!("{}: {cause}", why(view, &machine));
        (mark(node) != Some(said.as_str())).then_some((node, said))
    });
    left.map(|(node, said)| {
        let patch = json!({ "metadata": { "annotations": { NODE_LEAVES: said } } });
        changed(node, patch, "say why a machine has not gone yet")
    })
    .collect()
}

fn why(view: &View<'_>, machine: &Machine<'_>) -> String {
    format!("{} goes with update {}", machine.reference(), view.order.id)
}

fn mark(node: &Value) -> Option<&str> {
    node["metadata"]["annotations"][NODE_LEAVES].as_str()
}

fn changed(node: &Value, mut patch: Value, purpose: &'static str) -> Write {
    patch["metadata"]["resourceVersion"] = node["metadata"]["resourceVersion"].clone();
    let object = Object { api_version: "v1".to_owned(), kind: "Node".to_owned(), ..Object::of(Side::Guest, node) };
    Write { object, act: Act::Patch(patch), purpose }
}
