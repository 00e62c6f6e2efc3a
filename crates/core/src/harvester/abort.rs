//! An Upgrade that its user has called off.
//!
//! Before the nodes have their turn, what was made goes, and that is all. Among the nodes, one that Rancher's planner has drained is
//! brought to its end: it gets its new Kubernetes in any case, and nobody has use for half a node. One that is not drained yet is put
//! back. Meanwhile the planner is paused, so that it begins with no other. If no node is new in the end, it is asked for what it was
//! asked before; if some are, it stays paused until the next Upgrade, since it would raise the others at once, without asking.

use drover_api::harvester::jobs::types;
use drover_api::harvester::node::DRAIN_TAINT;
use drover_api::harvester::upgrade::reasons;
use drover_api::harvester::{FLEET_NAMESPACE, NAMESPACE};
use drover_api::marks::UPGRADE_ABORT;
use drover_api::rancher::machine_plan::annotations::{
    DRAIN_DONE, DRAIN_ERROR, DRAIN_OPTIONS, POST_DRAIN, POST_HOOK, PRE_DRAIN, PRE_HOOK, UNCORDON,
};
use drover_api::rancher::provisioning_cluster::LOCAL;
use serde_json::{Value, json};

use super::cleanup::taints_without_drain;
use super::decide::{Member, Phase, Turn, members};
use super::nodes::{is_in_drain, note};
use super::progress::{Ending, Step};
use super::release::is_kubelet_version;
use super::{asking, jobs, names, nodes, restoring};
use crate::cluster::{Node, Secret};
use crate::decision::{Act, Kind, Purpose, Reason, Subject};

/// All that Rancher's planner and we say to each other about a drain.
const OF_A_DRAIN: [&str; 8] =
    [DRAIN_OPTIONS, PRE_DRAIN, PRE_HOOK, DRAIN_DONE, DRAIN_ERROR, UNCORDON, POST_DRAIN, POST_HOOK];

/// Takes up the wish of the user.
pub(super) fn heed(turn: &mut Turn<'_>) {
    if turn.annotation(UPGRADE_ABORT).is_some() {
        turn.annotations.insert(UPGRADE_ABORT, Value::Null);
        call_off(turn);
    }
}

/// Calls the Upgrade off, unless there is nothing left to call off.
pub(super) fn call_off(turn: &mut Turn<'_>) {
    let goes_on = turn.next.ended.is_none() || turn.next.is_stuck();
    if goes_on && !turn.next.aborting {
        turn.next.aborting = true;
        turn.next.ended = None;
        turn.next.cleaned = false;
    }
}

/// One turn on the way back; the Upgrade has ended when all is as it should be.
pub(super) fn go_back(turn: &mut Turn<'_>) {
    turn.phase = came_to(turn);
    let back = jobs::services_stopped(turn)
        && match (turn.next.single_node.is_empty(), turn.next.asked) {
            (false, _) => only_node_is_back(turn),
            (true, Some(_)) => nodes_are_back(turn),
            (true, None) => true,
        };
    // A node that fails on the way does not end it: the others have to be put back all the same.
    turn.next.ended = None;
    if back {
        let words = words(turn);
        turn.fail(reasons::ABORTED, words);
    } else if turn.waits.is_empty() {
        turn.wait(turn.subject(), Reason::CleaningUp, "the upgrade is called off, and what it has begun is put back");
    }
}

/// The phase in which it was called off.
fn came_to(turn: &Turn<'_>) -> Phase {
    match (&turn.next.services, turn.next.prepared, &turn.next.release) {
        (Some(Ending::Succeeded), ..) => Phase::UpgradingNodes,
        (_, true, _) => Phase::UpgradingServices,
        (_, _, Some(_)) => Phase::PreparingNodes,
        _ => Phase::ImportingImage,
    }
}

/// Its one Job cannot be stopped half-way: it is waited for.
fn only_node_is_back(turn: &mut Turn<'_>) -> bool {
    let (nodes, _) = members(turn.cluster());
    let Some(member) = nodes.into_iter().find(|member| member.name() == turn.next.single_node) else { return true };
    if turn.next.step(member.name()).is_at_work() {
        nodes::alone(turn, member);
    }
    !turn.next.step(member.name()).is_at_work() && restoring::restored(turn, member)
}

fn nodes_are_back(turn: &mut Turn<'_>) -> bool {
    let cluster = turn.cluster();
    let (nodes, _) = members(cluster);
    let (mut back, mut needs_planner) = (true, false);
    for member in &nodes {
        let Some(plan) = member.plan_secret(cluster) else { continue };
        if is_drained(plan) || matches!(turn.next.step(member.name()), Step::PostDraining | Step::WaitingReboot) {
            bring_to_its_end(turn, *member);
            needs_planner |= is_in_drain(plan) && note(Some(plan), UNCORDON).is_none();
            back &= !is_in_drain(plan) && !turn.next.step(member.name()).is_at_work();
        } else {
            back &= withdraw(turn, *member, plan);
        }
    }
    let new = nodes.iter().filter(|member| is_new(turn, member)).count();
    if needs_planner || new == nodes.len() {
        return asking::let_go(turn) && back && asking::is_settled(turn) && restored(turn, &nodes);
    }
    let none_is_new = new == 0 && turn.next.before.is_some();
    if none_is_new && back {
        return asking::take_back(turn) && asking::let_go(turn) && asking::is_settled(turn) && restored(turn, &nodes);
    }
    let is_taken_back = none_is_new && asking::is_taken_back(turn);
    (is_taken_back || asking::hold(turn)) && back && restored(turn, &nodes)
}

fn restored(turn: &mut Turn<'_>, nodes: &[Member<'_>]) -> bool {
    // Each is tried, however far the others are.
    nodes.iter().filter(|member| !restoring::restored(turn, **member)).count() == 0
}

/// Whether the planner has drained the node, and delivers what it was asked for.
fn is_drained(plan: &Secret) -> bool {
    [DRAIN_DONE, UNCORDON, POST_DRAIN].iter().any(|key| note(Some(plan), key).is_some())
}

/// Whether a node has, or gets, the new Kubernetes.
fn is_new(turn: &Turn<'_>, member: &Member<'_>) -> bool {
    let step = turn.next.step(member.name());
    let wanted = turn.next.release.as_ref().map(|release| release.kubernetes.as_str()).unwrap_or_default();
    let before = turn.next.before.as_ref().map(|before| before.kubernetes.as_str()).unwrap_or_default();
    let runs = &member.node.status.node_info.kubelet_version;
    step.is_over()
        || step.is_at_work()
        || before != wanted && is_kubelet_version(runs, wanted)
        || member.plan_secret(turn.cluster()).is_some_and(is_drained)
}

/// Goes on with a node as if nothing had been called off; one that has failed is given back as it is.
fn bring_to_its_end(turn: &mut Turn<'_>, member: Member<'_>) {
    match turn.next.step(member.name()) {
        Step::Failed => turn.next.set_step(member.name(), Step::Skipping),
        Step::Waits | Step::PreDraining => turn.next.set_step(member.name(), Step::PreDrained),
        _ => {}
    }
    nodes::tend(turn, member);
}

/// Takes back what was begun on a node, if anything was; true once nothing of it is left.
fn withdraw(turn: &mut Turn<'_>, member: Member<'_>, plan: &Secret) -> bool {
    let name = member.name();
    let step = turn.next.step(name);
    if step.is_at_work() {
        turn.next.set_step(name, Step::Waits);
    }
    if is_in_drain(plan) || step.is_at_work() || step == Step::Failed {
        turn.next.withdrawn.insert(name.to_owned());
    }
    let job = names::node_job(turn.name(), types::PRE_DRAIN, name);
    // Its Job would send the VMs away again.
    if !jobs::discard(turn, &job) {
        return false;
    }
    if is_in_drain(plan) {
        // The planner would ask again if it were not held.
        if asking::is_held(turn) || asking::is_taken_back(turn) {
            clear(turn, plan);
        }
        return false;
    }
    put_back(turn, member.node)
}

/// The planner's question is taken off the table.
fn clear(turn: &mut Turn<'_>, plan: &Secret) {
    let mut none = serde_json::Map::new();
    let there = OF_A_DRAIN.iter().filter(|key| plan.metadata.annotations.contains_key(**key));
    none.extend(there.map(|key| ((*key).to_owned(), Value::Null)));
    let version = plan.metadata.resource_version.to_string();
    let patch = json!({ "metadata": { "resourceVersion": version, "annotations": none } });
    let subject = Subject::new(Kind::Secret, &plan.metadata.namespace, &plan.metadata.name);
    turn.write(Purpose::CleanUp, subject, Act::Patch(patch));
}

/// The planner's cordon goes, and the taint that sends VMs away. A node that was cordoned before stays so.
fn put_back(turn: &mut Turn<'_>, node: &Node) -> bool {
    let name = node.metadata.name.as_str();
    if !turn.next.withdrawn.contains(name) {
        return true;
    }
    let stays = turn.next.before.as_ref().is_some_and(|before| before.cordoned.contains(name));
    let cordoned = node.spec.unschedulable && !stays;
    let tainted = node.spec.taints.iter().any(|taint| taint.key == DRAIN_TAINT);
    if !cordoned && !tainted {
        return true;
    }
    let mut patch =
        json!({ "metadata": { "resourceVersion": node.metadata.resource_version.to_string() }, "spec": {} });
    if cordoned {
        patch["spec"]["unschedulable"] = Value::Null;
    }
    if tainted {
        patch["spec"]["taints"] = json!(taints_without_drain(node));
    }
    turn.write(Purpose::UndoMarks, Subject::node(name), Act::Patch(patch));
    false
}

/// What became of the nodes, for the condition `Completed`.
fn words(turn: &Turn<'_>) -> String {
    let (nodes, _) = members(turn.cluster());
    let named = |new: bool| {
        let own = nodes.iter().filter(|member| is_new(turn, member) == new).map(|member| member.name());
        own.collect::<Vec<&str>>().join(", ")
    };
    if turn.next.asked.is_none() {
        return "The Upgrade was aborted".to_owned();
    }
    match (named(true).as_str(), named(false).as_str()) {
        ("", _) => "The Upgrade was aborted: no node was changed".to_owned(),
        (_, "") => "The Upgrade was aborted when all nodes were upgraded".to_owned(),
        (new, old) => format!(
            "The Upgrade was aborted: {new} were upgraded, {old} were not; Cluster {FLEET_NAMESPACE}/{LOCAL} is paused until the \
             next Upgrade in {NAMESPACE}"
        ),
    }
}
