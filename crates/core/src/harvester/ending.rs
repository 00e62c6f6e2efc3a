//! An Upgrade that has failed, or is being deleted.

use std::collections::BTreeSet;

use drover_api::harvester::NAMESPACE;
use drover_api::harvester::jobs::{self as jobs_api, types};
use drover_api::harvester::upgrade::{FINALIZER, annotations, cleanup as words, labels};
use drover_api::marks::{PROGRESS, UPGRADE_ABORT, UPGRADE_RETRY};
use serde_json::Value;

use super::decide::{Phase, Turn};
use super::progress::{Ending, Step};
use super::{abort, around, cleanup, decide, jobs, names, nodes, options, skipping};
use crate::cluster::Job;
use crate::decision::{Reason, Subject};

/// An Upgrade that has failed takes up what has failed, if its user wants that.
pub(super) fn try_again(turn: &mut Turn<'_>) {
    if turn.annotation(UPGRADE_RETRY).is_some() {
        take_up(turn);
    }
    jobs::delete_discarded(turn);
}

fn take_up(turn: &mut Turn<'_>) {
    turn.annotations.insert(UPGRADE_RETRY, Value::Null);
    if !matches!(turn.next.ended, Some(Ending::Failed { .. })) {
        return;
    }
    go_on_after_failure(turn);
    // One that was called off is taken up as well.
    turn.next.aborting = false;
    turn.next.withdrawn.clear();
    turn.next.discarded.clear();
    if matches!(turn.next.image, Some(Ending::Failed { .. })) {
        turn.next.image = None;
    }
    around::take_up(turn);
    if matches!(turn.next.services, Some(Ending::Failed { .. })) {
        turn.next.services = None;
        let job = names::apply_manifests(turn.name());
        jobs::discard_failed(turn, &job);
    }
    let failed: Vec<String> =
        turn.next.nodes.iter().filter(|(_, node)| node.step == Step::Failed).map(|(name, _)| name.clone()).collect();
    for node in failed {
        // Where it failed tells how far it was.
        let job = |job_type: &str| names::node_job(turn.name(), job_type, &node);
        let (pre, post, single) = (job(types::PRE_DRAIN), job(types::POST_DRAIN), job(types::SINGLE_NODE_UPGRADE));
        let was_drained = jobs::discard_failed(turn, &post);
        jobs::discard_failed(turn, &pre);
        jobs::discard_failed(turn, &single);
        turn.next.set_step(&node, if was_drained { Step::PreDrained } else { Step::Waits });
    }
}

/// What was put back is held again, the marks of nodes that pause among it, and put back in the end.
pub(super) fn go_on_after_failure(turn: &mut Turn<'_>) {
    turn.next.ended = None;
    turn.next.cleaned = false;
    turn.annotations.insert(annotations::LONGHORN_RESTORED, Value::Null);
}

pub(super) fn leave(turn: &mut Turn<'_>) {
    let holds = turn.view.upgrade.metadata.finalizers.iter().any(|finalizer| finalizer == FINALIZER);
    if turn.known.is_none() {
        // Another controller's, or one that has not begun: nothing was made for it.
        if has_lost_its_notes(turn) && may_go_without_notes(turn) {
            clear_up_without_notes(turn);
            turn.released = holds && turn.next.cleaned;
        }
        return;
    }
    turn.phase = Phase::Ended;
    // It waits for its nodes, and so does who calls it off: there is a way to go on without one that never comes back.
    skipping::heed(turn);
    abort::heed(turn);
    let forced = is_forced(turn);
    if turn.next.is_stuck() && !forced {
        // Nobody would answer the planner any more.
        abort::call_off(turn);
    }
    if turn.next.aborting && !forced {
        decide::go_on(turn);
    } else if turn.next.is_among_nodes() && turn.next.ended.is_none() && !forced {
        turn.wait_with_remedy(
            turn.subject(),
            Reason::CleaningUp,
            "the Upgrade is being deleted while its nodes are upgraded: it goes when they are done".to_owned(),
            format!("wait; or end it here: {}", options::annotate(turn.name(), &format!("{UPGRADE_ABORT}=true"))),
        );
        decide::go_on(turn);
    } else {
        if turn.next.ended.is_none() {
            turn.next.ended = Some(deleted());
        }
        cleanup::everything(turn);
    }
    turn.released = holds && turn.next.cleaned;
}

/// Its user wants it gone, whatever becomes of it.
fn is_forced(turn: &Turn<'_>) -> bool {
    turn.annotation(annotations::SKIP_WEBHOOK).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Somebody has taken away what Drover had noted of how far it is.
pub(super) fn has_lost_its_notes(turn: &Turn<'_>) -> bool {
    turn.known.is_none() && turn.cluster().begun_here.contains(turn.name())
}

/// It has ended, and nothing of it is left: what there is now is of another.
pub(super) fn was_cleaned(turn: &Turn<'_>) -> bool {
    turn.view.upgrade.metadata.labels.get(labels::CLEANUP).is_some_and(|word| word == words::SUCCEEDED)
}

/// It may be deleted all the same where no node is in the middle of it.
fn may_go_without_notes(turn: &mut Turn<'_>) -> bool {
    if was_cleaned(turn) {
        return true;
    }
    let cluster = turn.cluster();
    let (nodes, _) = decide::members(cluster);
    let in_drain = nodes.iter().filter(|member| member.plan_secret(cluster).is_some_and(nodes::is_in_drain));
    let runs = |job: &&Job| jobs::is_own(turn, job) && !job.is_complete() && job.failure().is_none();
    let jobs = cluster.jobs.in_namespace(NAMESPACE).filter(runs);
    let worked_on = jobs.filter_map(|job| job.metadata.labels.get(jobs_api::NODE).map(String::as_str));
    let mut at_work: BTreeSet<&str> = in_drain.map(|member| member.name()).chain(worked_on).collect();
    // Files that keep RKE2 from its own multus are on all of them.
    if turn.annotation(annotations::SKIP_MANIFESTS_APPLIED).is_some()
        && turn.annotation(annotations::SKIP_MANIFESTS_REMOVED).is_none()
    {
        at_work.extend(nodes.iter().map(|member| member.name()));
    }
    if at_work.is_empty() || is_forced(turn) {
        return true;
    }
    let names = at_work.into_iter().collect::<Vec<&str>>().join(", ");
    let sentence = format!(
        "how far Upgrade {} is, in its annotation {PROGRESS}, is gone, and so is what it was about to do on {names}: it is not deleted",
        turn.name()
    );
    let force = options::annotate(turn.name(), &format!("{}=true", annotations::SKIP_WEBHOOK));
    let remedy = format!("put it back as it was; or let the Upgrade go, and look after {names} yourself: {force}");
    turn.wait_with_remedy(turn.subject(), Reason::UpgradeInvalid, sentence, remedy);
    false
}

/// Whatever an Upgrade can have made or set otherwise is put right, since nobody knows how far it came.
fn clear_up_without_notes(turn: &mut Turn<'_>) {
    turn.next.cleaned = was_cleaned(turn);
    turn.next.prepared = true;
    turn.next.asked = Some(0);
    turn.next.withdrawn = turn.cluster().nodes.iter().map(|node| node.metadata.name.clone()).collect();
    turn.next.ended = Some(deleted());
    cleanup::everything(turn);
}

fn deleted() -> Ending {
    Ending::Failed { reason: "Deleted".to_owned(), message: "The Upgrade was deleted".to_owned() }
}

/// What has failed among the nodes waits for its user.
pub(super) fn tell_what_failed(turn: &mut Turn<'_>) {
    if !turn.next.is_stuck() {
        return;
    }
    let failed = turn.next.nodes.iter().filter(|(_, node)| node.step == Step::Failed);
    let failed: Vec<(String, String)> = failed
        .map(|(name, node)| {
            let why = if node.message.is_empty() { &node.reason } else { &node.message };
            (name.clone(), why.clone())
        })
        .collect();
    for (name, why) in failed {
        let upgrade = turn.name();
        // Nobody has cordoned the only node, and nothing goes on without it.
        let (stays, skip) = match turn.next.single_node.is_empty() {
            true => (
                "stays cordoned",
                format!("; or go on without it: drover upgrade skip upgrade/{upgrade} --node {name}"),
            ),
            false => ("stays as it is", String::new()),
        };
        let sentence = format!("{name} has failed and {stays} until its user decides: {why}");
        let remedy = format!(
            "drover upgrade retry upgrade/{upgrade}{skip}; or end it here: drover upgrade abort upgrade/{upgrade}"
        );
        turn.wait_with_remedy(Subject::node(&name), Reason::JobFailed, sentence, remedy);
    }
}
