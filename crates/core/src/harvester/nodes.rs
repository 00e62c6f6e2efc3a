//! The nodes, one after another, in a conversation with Rancher's planner.
//!
//! The planner cordons a node and asks before it drains it, and again after it has raised Kubernetes there. It is answered
//! by copying what it asked with. An answer follows from how far the node is, not from the moment at which it got there:
//! one that was lost, or that the planner asks for anew, is given again.

use drover_api::harvester::jobs::{UPGRADE, types};
use drover_api::harvester::node::{MANAGED, PENDING_OS_IMAGE};
use drover_api::harvester::{FLEET_NAMESPACE, NAMESPACE};
use drover_api::marks;
use drover_api::plan::labels::JOB_NAME;
use drover_api::rancher::machine_plan::annotations::{
    DRAIN_DONE, DRAIN_OPTIONS, POST_DRAIN, POST_HOOK, PRE_DRAIN, PRE_HOOK, UNCORDON,
};
use serde_json::{Value, json};

use super::decide::{Member, Phase, Turn, members};
use super::jobs::{self, Course};
use super::progress::Step;
use super::{
    asking, detaching, etcd, images, joining, kubelet, names, pausing, restoring, skipping, stalling, storage,
    workloads,
};
use crate::cluster::{Node, Pod, Secret};
use crate::decision::{Act, Kind, Purpose, Reason, Subject, Wait};

pub(super) fn next(turn: &mut Turn<'_>) -> bool {
    turn.phase = Phase::UpgradingNodes;
    let (mut nodes, _) = members(turn.cluster());
    // Of a hundred nodes most wait for their turn; what the one at work waits for is told before that.
    nodes.sort_by_key(|member| !turn.next.step(member.name()).is_at_work());
    restoring::note_stopped(turn);
    if turn.next.single_node.is_empty() {
        storage::hold(turn);
        workloads::hold_descheduler(turn);
        if !asking::ask(turn) {
            return false;
        }
        asking::pass_on_acceptance(turn);
        joining::take_in(turn, &nodes);
        nodes.iter().for_each(|member| tend(turn, *member));
        stalling::notice_standstill(turn, &nodes);
    } else {
        if let Some(member) = nodes.iter().find(|member| member.name() == turn.next.single_node) {
            alone(turn, *member);
        }
        joining::take_in_beside_the_only(turn, &nodes);
    }
    if turn.next.ended.is_some() {
        return false;
    }
    let over = are_over(turn, &nodes);
    if !over {
        restore_meanwhile(turn, &nodes);
        tell_who_is_lost(turn, &nodes);
    }
    over
}

/// Whether nothing more is done to any node. One that was lost to the upgrade in the middle of its work counts as long as it is there: a
/// Job may be at work on it, with what the repository serves.
pub(super) fn are_over(turn: &Turn<'_>, nodes: &[Member<'_>]) -> bool {
    let mut awaited = nodes.iter().filter(|member| joining::is_awaited(turn, member)).peekable();
    awaited.peek().is_some()
        && awaited.all(|member| turn.next.step(member.name()).is_over())
        && turn.next.nodes.values().all(|node| !node.step.is_at_work())
}

/// Nothing else holds the upgrade, and nobody tends these: they have lost what makes them part of it.
fn tell_who_is_lost(turn: &mut Turn<'_>, nodes: &[Member<'_>]) {
    let mut awaited = nodes.iter().filter(|member| joining::is_awaited(turn, member)).peekable();
    let is_empty = awaited.peek().is_none();
    if !awaited.all(|member| turn.next.step(member.name()).is_over()) {
        return;
    }
    let back = format!("a Machine in {FLEET_NAMESPACE} and the label {MANAGED}=true");
    if is_empty {
        let sentence = "no node takes part in the upgrade any more".to_owned();
        let remedy = format!("give the nodes back what they have lost: {back}");
        turn.wait_with_remedy(turn.subject(), Reason::NodeUnmanaged, sentence, remedy);
    }
    let is_member = |name: &str| nodes.iter().any(|member| member.name() == name);
    let at_work = turn.next.nodes.iter().filter(|(_, node)| node.step.is_at_work()).map(|(name, _)| name.clone());
    let lost: Vec<String> = at_work.filter(|name| !is_member(name)).collect();
    for name in lost {
        let sentence = format!("the upgrade does not end while {name} is at work, which was lost to it meanwhile");
        let remedy = format!("give {name} back what it has lost ({back}); or remove it, with its Machine");
        turn.wait_with_remedy(Subject::node(&name), Reason::AnotherNodeIsOut, sentence, remedy);
    }
}

/// Nobody waits for the end of an upgrade on a node that was removed; one of its name that joins later begins anew. A Node alone may be
/// gone for a moment, with its machine at work.
pub(super) fn forget_who_has_left(turn: &mut Turn<'_>) {
    let cluster = turn.cluster();
    let has_left = |name: &str| {
        let mut machines = cluster.cluster_api.machines.in_namespace(FLEET_NAMESPACE);
        cluster.nodes.named(name).is_none() && machines.all(|machine| machine.status.node_ref.name != name)
    };
    turn.next.nodes.retain(|name, progress| !progress.step.is_at_work() || !has_left(name));
}

/// The VMs of a node that is back need not wait until all nodes are, nor the next node until they run.
fn restore_meanwhile(turn: &mut Turn<'_>, nodes: &[Member<'_>]) {
    let cluster = turn.cluster();
    for member in nodes {
        let is_back = turn.next.step(member.name()) == Step::Succeeded;
        if is_back && !member.plan_secret(cluster).is_some_and(is_in_drain) {
            restoring::restored(turn, *member);
        }
    }
}

/// All nodes are done; the planner still has to give back the last one.
pub(super) fn settle(turn: &mut Turn<'_>) -> bool {
    turn.phase = Phase::UpgradingNodes;
    let cluster = turn.cluster();
    let (nodes, _) = members(cluster);
    let in_drain: Vec<&str> = nodes
        .iter()
        .filter(|member| member.plan_secret(cluster).is_some_and(is_in_drain))
        .map(|member| member.name())
        .collect();
    let mut settled = in_drain.is_empty() && asking::is_settled(turn);
    if !settled {
        stalling::wait_for_end(turn, &in_drain);
    }
    for member in nodes {
        settled &= restoring::restored(turn, member);
    }
    settled
}

pub(super) fn is_in_drain(secret: &Secret) -> bool {
    [DRAIN_OPTIONS, PRE_DRAIN, POST_DRAIN, DRAIN_DONE, UNCORDON].iter().any(|key| note(Some(secret), key).is_some())
}

/// An annotation; an empty one counts as missing.
pub(super) fn note<'a>(secret: Option<&'a Secret>, key: &str) -> Option<&'a str> {
    secret?.metadata.annotations.get(key).map(String::as_str).filter(|value| !value.is_empty())
}

/// One node: what follows from how far it is and from what the planner asks.
pub(super) fn tend(turn: &mut Turn<'_>, member: Member<'_>) {
    let name = member.name();
    let secret = member.plan_secret(turn.cluster());
    let Some(plan) = secret else {
        let sentence = format!("Machine {} of Node {name} has no plan Secret", member.machine.metadata.name);
        turn.wait_with_remedy(
            Subject::node(name),
            Reason::PlannerWorks,
            sentence,
            "look after Rancher, which makes it",
        );
        return;
    };
    match turn.next.step(name) {
        Step::Waits => begin(turn, member, plan),
        Step::PreDraining => {
            let is_free = detaching::may_be_drained(turn, member);
            if work(turn, member, types::PRE_DRAIN) && is_free {
                turn.next.set_step(name, Step::PreDrained);
                leave_to_planner(turn, member, plan);
            }
        }
        Step::PreDrained => leave_to_planner(turn, member, plan),
        Step::PostDraining => {
            let_drain(turn, member, plan);
            if work(turn, member, types::POST_DRAIN) {
                turn.next.set_step(name, Step::WaitingReboot);
                come_back(turn, member, plan);
            }
        }
        Step::WaitingReboot => come_back(turn, member, plan),
        Step::Succeeded => {
            if !asks_to_drain(plan) || may_go(turn, member) {
                acknowledge(turn, plan, PRE_DRAIN, PRE_HOOK);
            }
            acknowledge(turn, plan, POST_DRAIN, POST_HOOK);
            unmark(turn, member.node);
        }
        Step::Skipping | Step::Skipped => skipping::answer(turn, member, plan),
        Step::Failed => {}
    }
}

/// What follows from the new step is told at once: a status that says the one and not yet the other would be written twice.
fn leave_to_planner(turn: &mut Turn<'_>, member: Member<'_>, plan: &Secret) {
    let name = member.name();
    if !let_drain(turn, member, plan) {
        return;
    }
    if note(Some(plan), POST_DRAIN).is_none() {
        stalling::wait_for_planner(turn, member, plan);
    } else if may_go(turn, member) {
        turn.next.set_step(name, Step::PostDraining);
        work(turn, member, types::POST_DRAIN);
    }
}

/// Whether the planner asks for the drain of a node, and waits for its answer. One that is drained for what it asks is out whatever it is
/// told: who kept an answer back that was given before, and lost, would wait for nothing.
pub(super) fn asks_to_drain(plan: &Secret) -> bool {
    let asks = note(Some(plan), PRE_DRAIN);
    asks.is_some() && [PRE_HOOK, DRAIN_DONE].iter().all(|key| note(Some(plan), key) != asks)
}

/// Lets the planner drain a node whose Job is done, unless etcd would lose its quorum by now; true once it is told.
fn let_drain(turn: &mut Turn<'_>, member: Member<'_>, plan: &Secret) -> bool {
    if asks_to_drain(plan) {
        // It has all of its time from when it is told.
        turn.next.planner_since = None;
        if !keeps_quorum(turn, member) {
            return false;
        }
        stalling::its_turn(turn);
    }
    acknowledge(turn, plan, PRE_DRAIN, PRE_HOOK);
    true
}

/// Sends a node on its way, if the planner asks and nothing speaks against it.
fn begin(turn: &mut Turn<'_>, member: Member<'_>, plan: &Secret) {
    let name = member.name();
    let paused = pausing::is_paused(turn, member.node);
    if paused {
        turn.paused.insert(name.to_owned());
    }
    if note(Some(plan), PRE_DRAIN).is_none() {
        if paused {
            let remedy = resume(name);
            let sentence = format!("{name} is paused before its upgrade, as its user has asked");
            turn.wait_with_remedy(Subject::node(name), Reason::NodePaused, sentence, remedy);
        } else if asking::was_raised_unasked(turn, &member) && !is_back(turn, member.node) {
            let sentence = format!("the planner has raised {name} without asking: its system is still the old one");
            let remedy = asking::remedy_of_silence(turn);
            turn.wait_with_remedy(Subject::node(name), Reason::PlannerWorks, sentence, remedy);
        } else if !asking::is_paused(turn) && !has_to_stay(turn, member) {
            let sentence = format!("the planner has not come to {name}");
            turn.wait(Subject::node(name), Reason::PlannerWorks, sentence);
        }
        return;
    }
    if paused {
        let sentence = format!(
            "{name} is paused before its upgrade, as its user has asked; the planner waits for it with the nodes that come after"
        );
        turn.wait_with_remedy(Subject::node(name), Reason::NodePaused, sentence, resume(name));
    } else if may_go(turn, member) {
        restoring::forget(turn, name);
        turn.next.set_step(name, Step::PreDraining);
        work(turn, member, types::PRE_DRAIN);
    }
}

/// Drover's planner does not ask about a voter that has to stay: that is told in its place. While another node is out, that one is waited for.
fn has_to_stay(turn: &mut Turn<'_>, member: Member<'_>) -> bool {
    let is_another_out = turn.next.nodes.values().any(|node| node.step.is_at_work());
    !is_another_out && !keeps_quorum(turn, member)
}

fn resume(node: &str) -> String {
    format!("kubectl annotate node {node} {}-", drover_api::harvester::node::UPGRADE_PAUSE)
}

/// One node at a time, and never so that etcd loses its quorum.
pub(super) fn may_go(turn: &mut Turn<'_>, member: Member<'_>) -> bool {
    let name = member.name();
    let other = turn.next.nodes.iter().find(|(other, progress)| *other != name && progress.step.is_at_work());
    if let Some(other) = other.map(|(other, _)| other.clone()) {
        turn.wait(Subject::node(name), Reason::AnotherNodeIsOut, format!("{name} waits until {other} is back"));
        return false;
    }
    keeps_quorum(turn, member)
}

/// Whether etcd has its quorum without the node, as it is now.
fn keeps_quorum(turn: &mut Turn<'_>, member: Member<'_>) -> bool {
    let view = turn.view;
    let risk = etcd::risk(view.cluster, view.upgrade, &turn.next.voters, member.name(), turn.now);
    let is_kept = risk.is_none();
    turn.waits.extend(risk);
    is_kept
}

/// Whether the Job of a step is done. A Job that is gone is made again; one that has failed ends the Upgrade.
fn work(turn: &mut Turn<'_>, member: Member<'_>, job_type: &str) -> bool {
    let job = &names::node_job(turn.name(), job_type, member.name());
    match jobs::course(turn, job) {
        // Another one takes the node out as the first one did.
        Course::Missing if !keeps_quorum(turn, member) => return false,
        Course::Missing => jobs::on_node(turn, job_type, member.node),
        Course::Running => {}
        Course::Done => return true,
        Course::Failed { reason, message } => {
            turn.next.fail_node(member.name(), &reason, &message);
            turn.fail(reason, message);
            return false;
        }
    }
    let mut told = told_by_pods(turn, job);
    // It is told here, where it is known since when; the steps of a release tell nothing.
    told.retain(|wait| wait.reason != Reason::KubeletOutdated);
    if told.is_empty() && !images::mend(turn, job) {
        let sentence = format!("Job {NAMESPACE}/{job} works on {}", member.name());
        let works = Wait::new(Subject::node(member.name()), Reason::JobRunning, sentence, turn.now);
        let outdated = if job_type == types::POST_DRAIN { old_kubelet(turn, member.node, job) } else { None };
        turn.waits.push(outdated.unwrap_or(works));
    }
    turn.waits.extend(told);
    false
}

/// The planner was done with the node when the Job was made that comes after it.
fn old_kubelet(turn: &Turn<'_>, node: &Node, job: &str) -> Option<Wait> {
    let release = turn.next.release.as_ref()?;
    kubelet::outdated(node, &release.kubernetes, turn.job(job)?.metadata.creation_timestamp, turn.now)
}

/// What the steps of a Job wait for, as its pods tell.
pub(super) fn told_by_pods(turn: &Turn<'_>, job: &str) -> Vec<Wait> {
    let told = pods_of(turn, job).filter_map(|pod| pod.metadata.annotations.get(marks::WAITS));
    told.flat_map(|text| serde_json::from_str::<Vec<Wait>>(text).unwrap_or_default()).collect()
}

/// The pods of a Job that have not ended.
pub(super) fn pods_of<'a>(turn: &Turn<'a>, job: &str) -> impl Iterator<Item = &'a Pod> {
    let pods = turn.cluster().pods.in_namespace(NAMESPACE);
    pods.filter(move |pod| {
        let label = |key: &str| pod.metadata.labels.get(key).map(String::as_str);
        label(JOB_NAME) == Some(job) && label(UPGRADE) == Some(turn.name()) && !pod.has_ended()
    })
}

/// A node that has its new system on disk boots it; it is done when it runs that and is Ready.
fn come_back(turn: &mut Turn<'_>, member: Member<'_>, plan: &Secret) {
    let name = member.name();
    if is_back(turn, member.node) {
        turn.next.set_step(name, Step::Succeeded);
        acknowledge(turn, plan, POST_DRAIN, POST_HOOK);
        unmark(turn, member.node);
        return;
    }
    await_reboot(turn, member.node);
}

pub(super) fn is_back(turn: &Turn<'_>, node: &Node) -> bool {
    let wanted = turn.next.release.as_ref().map(|release| release.os.as_str()).unwrap_or_default();
    node.status.node_info.os_image == wanted && node.is_ready()
}

fn await_reboot(turn: &mut Turn<'_>, node: &Node) {
    let name = &node.metadata.name;
    let wanted = turn.next.release.as_ref().map(|release| release.os.clone()).unwrap_or_default();
    if node.metadata.annotations.get(PENDING_OS_IMAGE) != Some(&wanted) {
        let patch = annotation(node, PENDING_OS_IMAGE, &json!(wanted));
        turn.write(Purpose::MarkNode, Subject::node(name), Act::Patch(patch));
    }
    let runs = &node.status.node_info.os_image;
    let sentence = match *runs == wanted {
        true => format!("{name} runs {wanted} and is not Ready yet"),
        false => format!("{name} has not booted {wanted} yet"),
    };
    let mut remedy = format!("if it does not come back, look at the console of {name}");
    if turn.next.single_node.is_empty() {
        let skip = format!("drover upgrade skip upgrade/{} --node {name}", turn.name());
        remedy.push_str(&format!("; or go on without it: {skip}; or remove it, with its Machine in {FLEET_NAMESPACE}"));
    }
    turn.wait_with_remedy(Subject::node(name), Reason::NodeRebooting, sentence, remedy);
}

pub(super) fn unmark(turn: &mut Turn<'_>, node: &Node) {
    if node.metadata.annotations.contains_key(PENDING_OS_IMAGE) {
        let patch = annotation(node, PENDING_OS_IMAGE, &Value::Null);
        turn.write(Purpose::UndoMarks, Subject::node(&node.metadata.name), Act::Patch(patch));
    }
}

fn annotation(node: &Node, key: &str, value: &Value) -> Value {
    let version = node.metadata.resource_version.to_string();
    json!({ "metadata": { "resourceVersion": version, "annotations": { key: value } } })
}

/// Answers the planner with what it has asked with, unless that is there.
pub(super) fn acknowledge(turn: &mut Turn<'_>, plan: &Secret, asks: &str, answers: &str) {
    let Some(token) = note(Some(plan), asks) else { return };
    if note(Some(plan), answers) == Some(token) {
        return;
    }
    let version = plan.metadata.resource_version.to_string();
    let patch = json!({ "metadata": { "resourceVersion": version, "annotations": { answers: token } } });
    let subject = Subject::new(Kind::Secret, &plan.metadata.namespace, &plan.metadata.name);
    turn.write(Purpose::Acknowledge, subject, Act::Patch(patch));
}

/// The only node of a cluster has nowhere to send its VMs, and nobody asks for it: one Job does it all.
pub(super) fn alone(turn: &mut Turn<'_>, member: Member<'_>) {
    let name = member.name();
    match turn.next.step(name) {
        Step::Waits => {
            if pausing::is_paused(turn, member.node) {
                turn.paused.insert(name.to_owned());
                let sentence = format!("{name} is paused before its upgrade, as its user has asked");
                turn.wait_with_remedy(Subject::node(name), Reason::NodePaused, sentence, resume(name));
                return;
            }
            restoring::forget(turn, name);
            turn.next.set_step(name, Step::PostDraining);
            work(turn, member, types::SINGLE_NODE_UPGRADE);
        }
        Step::PreDraining | Step::PreDrained | Step::PostDraining => {
            if work(turn, member, types::SINGLE_NODE_UPGRADE) {
                turn.next.set_step(name, Step::WaitingReboot);
                come_back_alone(turn, member.node);
            }
        }
        Step::WaitingReboot => come_back_alone(turn, member.node),
        Step::Succeeded => unmark(turn, member.node),
        Step::Failed | Step::Skipping | Step::Skipped => {}
    }
}

fn come_back_alone(turn: &mut Turn<'_>, node: &Node) {
    if is_back(turn, node) {
        turn.next.set_step(&node.metadata.name, Step::Succeeded);
        unmark(turn, node);
    } else {
        await_reboot(turn, node);
    }
}
