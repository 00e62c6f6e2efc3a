//! Nodes that join while an Upgrade is under way.
//!
//! The planner provisions them as it was asked by then, and comes to them no more. One that runs the release by that is done. Of any other,
//! nobody makes what it should be: its user is told, and how.

use drover_api::harvester::FLEET_NAMESPACE;

use super::asking;
use super::decide::{Member, Turn, members};
use super::nodes::{is_back, is_in_drain};
use super::progress::Step;
use super::release::is_kubelet_version;
use crate::decision::{Reason, Subject};

/// The only node of a cluster goes its own way, without the planner. With another one beside it before its turn it is one of two: its VMs
/// have somewhere to go, and the other one is upgraded, too.
pub(super) fn count_anew(turn: &mut Turn<'_>) {
    let only = turn.next.single_node.as_str();
    if only.is_empty() || turn.next.aborting || turn.next.ended.is_some() || turn.next.step(only) != Step::Waits {
        return;
    }
    let (nodes, _) = members(turn.cluster());
    if nodes.iter().any(|member| member.name() != only) {
        turn.next.single_node.clear();
    }
}

/// Whether the upgrade ends only when this node is done: of those that have joined the only one in the middle of its work none is.
pub(super) fn is_awaited(turn: &Turn<'_>, member: &Member<'_>) -> bool {
    let only = &turn.next.single_node;
    only.is_empty() || only == member.name()
}

/// A node that has joined meanwhile, with the Kubernetes and the system of the release, is done. While the planner has others to come to, that
/// is not certain.
pub(super) fn take_in(turn: &mut Turn<'_>, nodes: &[Member<'_>]) {
    let (new, others): (Vec<&Member<'_>>, Vec<&Member<'_>>) = nodes.iter().partition(|member| {
        let waits = turn.next.step(member.name()) == Step::Waits;
        waits && is_back(turn, member.node) && asking::was_raised_unasked(turn, member)
    });
    if others.is_empty() || !others.iter().all(|member| turn.next.step(member.name()).is_over()) {
        return;
    }
    for member in new {
        turn.next.set_step(member.name(), Step::Succeeded);
    }
}

/// The same beside the only one, for which nobody asks the planner.
pub(super) fn take_in_beside_the_only(turn: &mut Turn<'_>, nodes: &[Member<'_>]) {
    let wanted = turn.next.release.as_ref().map(|release| release.kubernetes.clone()).unwrap_or_default();
    let is_new = |member: &&Member<'_>| {
        let is_raised = is_kubelet_version(&member.node.status.node_info.kubelet_version, &wanted);
        is_raised && is_back(turn, member.node) && !member.plan_secret(turn.cluster()).is_some_and(is_in_drain)
    };
    let waits = |member: &&Member<'_>| turn.next.step(member.name()) == Step::Waits;
    let beside = nodes.iter().filter(|member| !is_awaited(turn, member)).filter(waits).filter(is_new);
    let new: Vec<String> = beside.map(|member| member.name().to_owned()).collect();
    new.iter().for_each(|name| turn.next.set_step(name, Step::Succeeded));
}

/// Who the upgrade has gone on without, so far.
pub(super) fn left_out<'a>(turn: &Turn<'a>) -> Vec<Member<'a>> {
    let (mut nodes, _) = members(turn.cluster());
    nodes.retain(|member| !is_awaited(turn, member) && !turn.next.step(member.name()).is_over());
    nodes
}

pub(super) fn tell_left_out(turn: &mut Turn<'_>) {
    let version = turn.next.release.as_ref().map(|release| release.harvester.clone()).unwrap_or_default();
    for member in left_out(turn) {
        let (name, info) = (member.name(), &member.node.status.node_info);
        let sentence = format!(
            "{name} has joined while the only other node is upgraded, with {} and kubelet {}",
            info.os_image, info.kubelet_version
        );
        let remedy = format!(
            "the upgrade goes on without it; when that has ended, create another Upgrade to {version}, which brings it along; \
             or remove it, with its Machine in {FLEET_NAMESPACE}"
        );
        turn.wait_with_remedy(Subject::node(name), Reason::NodeJoined, sentence, remedy);
    }
}
