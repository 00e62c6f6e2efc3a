//! Volumes on a node that the steps of a stock release empty. Those steps look after none: under Harvester its own controller
//! (`node-volume-detach`) does, for which Drover stands. Drover's own steps do it themselves.

use drover_api::harvester::jobs::types;
use drover_api::harvester::node::DRAIN_TAINT;

use super::decide::{Member, Turn};
use super::release::Steps;
use super::{names, steps};

/// Takes what nobody uses from the node as soon as its VMs are on their way; true once the planner may drain it.
pub(super) fn may_be_drained(turn: &mut Turn<'_>, member: Member<'_>) -> bool {
    let name = member.name();
    let job = turn.job(&names::node_job(turn.name(), types::PRE_DRAIN, name));
    let is_emptied = job.is_some_and(|job| job.is_complete());
    let is_tainted = member.node.spec.taints.iter().any(|taint| taint.key == DRAIN_TAINT);
    if turn.next.steps != Steps::Release || !(is_emptied || is_tainted) {
        return true;
    }
    match steps::unused_volumes(turn.cluster(), turn.view.upgrade, name, is_emptied, turn.now) {
        None => true,
        Some((writes, waits)) => {
            turn.writes.extend(writes);
            turn.waits.extend(waits);
            false
        }
    }
}
