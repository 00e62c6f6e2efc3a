//! A node that its user goes on without, after it has failed.
//!
//! Rancher's planner knows nothing of that: it would wait for its answers for ever, and with it the nodes that come after. So it is
//! answered, without any step of ours: it drains the node, raises Kubernetes there and gives it back; the system of the node stays as
//! it is.

use drover_api::marks::UPGRADE_SKIP;
use drover_api::rancher::machine_plan::annotations::{POST_DRAIN, POST_HOOK, PRE_DRAIN, PRE_HOOK};
use serde_json::{Value, json};

use super::decide::{Member, Turn, members};
use super::nodes::{acknowledge, is_in_drain, may_go, note};
use super::progress::Step;
use super::{ending, options};
use crate::cluster::Secret;
use crate::decision::{Reason, Subject};

/// Goes on without the nodes that its user names, as far as they have failed.
pub(super) fn heed(turn: &mut Turn<'_>) {
    let Some(named) = turn.annotation(UPGRADE_SKIP) else { return };
    let (nodes, _) = members(turn.cluster());
    let names: Vec<&str> = named.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let unknown: Vec<&str> =
        names.iter().copied().filter(|name| nodes.iter().all(|member| member.name() != *name)).collect();
    // What is heard is taken away; a name that nobody bears stays, so that its user finds the mistake.
    turn.annotations.insert(UPGRADE_SKIP, if unknown.is_empty() { Value::Null } else { json!(unknown.join(",")) });
    if !unknown.is_empty() {
        let sentence = format!("the annotation {UPGRADE_SKIP} names {}, no node of the upgrade", unknown.join(", "));
        let remedy = options::annotate(turn.name(), &format!("{UPGRADE_SKIP}=NODE"));
        let remedy = format!(
            "name a node that has failed: {remedy}; or none: {}",
            options::annotate(turn.name(), &format!("{UPGRADE_SKIP}-"))
        );
        turn.wait_with_remedy(turn.subject(), Reason::UpgradeInvalid, sentence, remedy);
    }
    // The only node of a cluster is all there is to upgrade.
    if !turn.next.is_stuck() || !turn.next.single_node.is_empty() {
        return;
    }
    let skipped: Vec<&str> = names.into_iter().filter(|node| turn.next.step(node) == Step::Failed).collect();
    for node in &skipped {
        turn.next.set_step(node, Step::Skipping);
    }
    if skipped.is_empty() || turn.next.nodes.values().any(|node| node.step == Step::Failed) {
        return;
    }
    ending::go_on_after_failure(turn);
}

/// Gives the planner its answers, one node at a time like any other.
pub(super) fn answer(turn: &mut Turn<'_>, member: Member<'_>, plan: &Secret) {
    let name = member.name();
    if !is_in_drain(plan) {
        turn.next.set_step(name, Step::Skipped);
        return;
    }
    let is_answered = note(Some(plan), PRE_HOOK).is_some() && note(Some(plan), PRE_HOOK) == note(Some(plan), PRE_DRAIN);
    if note(Some(plan), PRE_DRAIN).is_some() && !is_answered && !may_go(turn, member) {
        return;
    }
    turn.next.set_step(name, Step::Skipping);
    acknowledge(turn, plan, PRE_DRAIN, PRE_HOOK);
    acknowledge(turn, plan, POST_DRAIN, POST_HOOK);
    let sentence = format!("the planner has its turn on {name}, which is skipped: its system stays as it is");
    turn.wait(Subject::node(name), Reason::PlannerWorks, sentence);
}
