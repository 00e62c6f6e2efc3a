//! A node that its user goes on without, after it has failed.
//!
//! Rancher's planner knows nothing of that: it would wait for its answers for ever, and with it the nodes that come after. So it is
//! answered, without any step of ours: it drains the node, raises Kubernetes there and gives it back; the system of the node stays as
//! it is.

use drover_api::harvester::upgrade::annotations;
use drover_api::marks::UPGRADE_SKIP;
use drover_api::rancher::machine_plan::annotations::{POST_DRAIN, POST_HOOK, PRE_DRAIN, PRE_HOOK};
use serde_json::Value;

use super::decide::{Member, Turn};
use super::nodes::{acknowledge, is_in_drain, may_go, note};
use super::progress::Step;
use crate::cluster::Secret;
use crate::decision::{Reason, Subject};

/// Goes on without the nodes that its user names, as far as they have failed.
pub(super) fn heed(turn: &mut Turn<'_>) {
    let Some(named) = turn.annotation(UPGRADE_SKIP) else { return };
    turn.annotations.insert(UPGRADE_SKIP, Value::Null);
    // The only node of a cluster is all there is to upgrade.
    if !turn.next.is_stuck() || !turn.next.single_node.is_empty() {
        return;
    }
    let named: Vec<&str> = named.split(',').map(str::trim).collect();
    let skipped: Vec<&str> = named.into_iter().filter(|node| turn.next.step(node) == Step::Failed).collect();
    for node in &skipped {
        turn.next.set_step(node, Step::Skipping);
    }
    if skipped.is_empty() || turn.next.nodes.values().any(|node| node.step == Step::Failed) {
        return;
    }
    turn.next.ended = None;
    turn.next.cleaned = false;
    // What was put back is held again, and put back in the end.
    turn.annotations.insert(annotations::LONGHORN_RESTORED, Value::Null);
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
    let sentence = format!("Rancher's planner has its turn on {name}, which is skipped: its system stays as it is");
    turn.wait(Subject::node(name), Reason::PlannerWorks, sentence);
}
