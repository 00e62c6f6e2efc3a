//! The next step of one claimed node.

use std::collections::BTreeMap;

use drover_api::plan::events::PlanEvent;
use drover_api::plan::labels;
use jiff::{SignedDuration, Timestamp};

use super::announce::announce;
use super::between::must_yield;
use super::duration::GoDuration;
use super::expand::expand;
use super::failure;
use super::jobs::{self, Making, is_outdated, make};
use super::marking::{fence, note_job_end, release, take, wants_cordon};
use super::nodes::{Look, Step, Steps, is_marked_by};
use super::pace;
use super::waiting::{claimed_by_another, not_ready};
use crate::claims::{Claim, Done, Mark};
use crate::decision::{Reason, Subject, Wait};
use crate::seen::{JobSeen, NodeSeen, Outcome};

#[derive(PartialEq)]
pub(super) enum Fate {
    Out,
    /// The node is back in service, or will be when the writes are done, or was never taken: its claim ends.
    Over,
}

pub(super) fn tend(look: &Look<'_>, node: &NodeSeen, claim: &Claim, steps: &mut Steps) -> Fate {
    let Some(mark) = node.mark.as_ref().filter(|_| node.claim.as_ref() == Some(&claim.id)) else {
        return not_taken_yet(look, node, claim, steps);
    };
    let wanted = look.selection.is_pending(node);
    let on_node = look.jobs.on(&node.meta.name);
    let current = on_node.iter().find(|job| job.claim.as_ref() == Some(&claim.id) && !is_outdated(job, look.wish));
    if let Some(done) = mark.done.clone().or_else(|| current.and_then(|job| done(look, node, job))) {
        return back_to_service(look, node, claim, mark, done, steps);
    }
    let subject = Subject::node(&node.meta.name);
    match current {
        Some(job) if job.meta.deletion_timestamp.is_some() => {
            let sentence = format!("Job {} is being deleted", job.meta.name);
            steps.waits.push(Wait::new(subject, Reason::JobBeingDeleted, sentence, look.now));
        }
        Some(job) => match &job.outcome {
            Some(Outcome::Failed { reason, message }) if wanted => {
                return failure::after(look, node, mark, job, (reason, message), steps);
            }
            // The user took the node out of the Plan: that ends a failed attempt.
            Some(_) => return give_back(node, mark, steps),
            None => {
                // Somebody has lifted a cordon of theirs, and a container of the Job cordons again: that one is ours.
                if wants_cordon(look.view) && !mark.cordoned && !node.unschedulable {
                    steps.writes.push(take(look.view, node, claim).into());
                }
                // What holds its drain up explains more than that it runs.
                let pods = look.view.pods.iter().filter(|pod| pod.job == job.meta.name);
                steps.waits.extend(pods.flat_map(|pod| &pod.waits).chain(node.waits.iter().flatten()).cloned());
                let wait = pace::wait(look, node, job, steps);
                steps.waits.push(wait);
            }
        },
        None if on_node.iter().any(|job| job.outcome.is_none()) => {
            let sentence = format!("a Job of an earlier attempt on Node {} has to go first", node.meta.name);
            steps.waits.push(Wait::new(subject, Reason::JobBeingDeleted, sentence, look.now));
        }
        None if !wanted => return give_back(node, mark, steps),
        None if failure::is_held_back(look, node, mark, steps) => {}
        None if look.wish.hash.is_none() => {}
        None if wants_cordon(look.view) && !node.unschedulable => {
            steps.writes.push(take(look.view, node, claim).into());
        }
        None => order_job(look, node, claim, steps),
    }
    Fate::Out
}

/// The claim stands on the Plan, but not on the node.
fn not_taken_yet(look: &Look<'_>, node: &NodeSeen, claim: &Claim, steps: &mut Steps) -> Fate {
    let wanted = look.selection.is_pending(node);
    if node.mark.is_some() && !is_marked_by(look.view, node) {
        if !wanted {
            return Fate::Over;
        }
        steps.waits.push(claimed_by_another(look.view, node, look.now));
    } else if let Some(mark) = node.mark.as_ref().filter(|_| !wanted && look.selection.is_updated(node)) {
        // Somebody has taken the label off and given the node its result: what is left of the marks goes.
        return give_back(node, mark, steps);
    } else if !wanted && look.selection.is_updated(node) || is_set_aside_since(look, node, claim) {
        // Released by us or by a leader before us: the result came with the release.
        return Fate::Over;
    } else if !wanted {
        steps.writes.push(fence(look.view, node, claim).into());
    } else if let Some(other) = must_yield(look.view) {
        let sentence = format!("exclusive Plan {} claimed a node first", other.meta.name);
        steps.waits.push(Wait::new(look.view.plan.subject(), Reason::ExclusivePlanActs, sentence, look.now));
    } else if look.wish.hash.is_some() {
        steps.writes.push(take(look.view, node, claim).into());
    }
    Fate::Out
}

/// The Plan went on without the node under this very claim.
fn is_set_aside_since(look: &Look<'_>, node: &NodeSeen, claim: &Claim) -> bool {
    super::marking::is_set_aside_by(look.view, node)
        && node.set_aside.as_ref().is_some_and(|record| record.since >= claim.since)
}

fn give_back(node: &NodeSeen, mark: &Mark, steps: &mut Steps) -> Fate {
    steps.writes.push(release(node, mark, BTreeMap::new()).into());
    Fate::Over
}

/// What a complete Job leaves to be known. Its own labels say what ran, which may be older than what the Plan asks for.
fn done(look: &Look<'_>, node: &NodeSeen, job: &JobSeen) -> Option<Done> {
    let is_complete = job.outcome == Some(Outcome::Complete) && job.meta.deletion_timestamp.is_none();
    let label = |key: &str| job.meta.labels.get(key).cloned().unwrap_or_default();
    is_complete.then(|| Done {
        hash: label(&labels::plan_hash(&look.view.plan.meta.name)),
        version: label(labels::VERSION),
        began: job.began,
        ended: job.ended.unwrap_or(look.now),
        boot: node.boot_id.clone(),
    })
}

/// The node is released when it is Ready and the Plan's delay is over. Whatever it has to be waited for is noted on it, so that
/// it does not matter when the Job is deleted; a node that reboots meanwhile is looked at anew.
fn back_to_service(
    look: &Look<'_>,
    node: &NodeSeen,
    claim: &Claim,
    mark: &Mark,
    done: Done,
    steps: &mut Steps,
) -> Fate {
    let delay = delay(look);
    // An end that lies ahead was seen by a clock that runs before this one: the delay begins now.
    let done = Done { ended: done.ended.min(look.now), ..done };
    let soaked = done.ended.checked_add(delay).unwrap_or(Timestamp::MAX);
    let is_noted = mark.done.as_ref().is_some_and(|noted| noted.boot == node.boot_id && noted.ended <= look.now);
    let here = Done { boot: node.boot_id.clone(), ..done.clone() };
    if !node.ready {
        if !is_noted {
            steps.writes.push(note_job_end(node, mark, here, false).into());
        }
        steps.waits.push(not_ready(node, look.now));
    } else if look.now < soaked {
        if !is_noted || mark.cordoned {
            let event = PlanEvent::job_complete_waiting(&node.meta.name, &go_duration(delay));
            let announcement = announce(look.view.plan, &event, claim.id.as_str(), look.now);
            let write = note_job_end(node, mark, here, true);
            steps.writes.push(Step { write, announcement: Some(announcement) });
        }
        let sentence = format!("Node {} is upgraded; the Plan's delay after that is not over", node.meta.name);
        let wait = Wait::new(Subject::node(&node.meta.name), Reason::Soaking, sentence, look.now);
        steps.waits.push(wait.with_deadline(Some(soaked)));
        steps.look_again_by(soaked);
    } else if mark.done.is_some() && !is_noted {
        steps.writes.push(note_job_end(node, mark, here, false).into());
    } else {
        let event = PlanEvent::job_complete(&node.meta.name);
        steps.writes.push(Step {
            write: release(node, mark, results(look, &done)),
            announcement: Some(announce(look.view.plan, &event, claim.id.as_str(), look.now)),
        });
        steps.released.insert(node.meta.name.clone());
        steps.took.extend(done.began.map(|began| look.now.duration_since(began).as_secs() - delay.as_secs()));
        return Fate::Over;
    }
    Fate::Out
}

/// The labels that a node gets: the hash, and those of the Plan.
fn results(look: &Look<'_>, done: &Done) -> BTreeMap<String, String> {
    let plan = look.view.plan;
    let own = plan.spec.as_ref().map(|spec| spec.post_complete_labels.clone()).unwrap_or_default();
    let mut results: BTreeMap<String, String> =
        own.into_iter().map(|(key, value)| (key, expand(&value, &done.version, &done.hash))).collect();
    results.insert(labels::plan_hash(&plan.meta.name), done.hash.clone());
    results
}

fn delay(look: &Look<'_>) -> SignedDuration {
    let text = look.view.plan.spec.as_ref().ok().and_then(|spec| spec.post_complete_delay.as_deref());
    let delay = text.and_then(GoDuration::parse);
    delay.map_or(SignedDuration::ZERO, |delay| SignedDuration::from_nanos(delay.as_nanos()))
}

fn go_duration(duration: SignedDuration) -> String {
    GoDuration::from_nanos(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)).to_string()
}

fn order_job(look: &Look<'_>, node: &NodeSeen, claim: &Claim, steps: &mut Steps) {
    match make(look, node, claim) {
        Making::Create(write) => steps.writes.push(write.into()),
        Making::InTheWay(old) => {
            let in_use = look.view.plan.claims.nodes.values().any(|claim| old.claim.as_ref() == Some(&claim.id));
            if !in_use && old.meta.deletion_timestamp.is_none() {
                steps.writes.push(jobs::delete(old).into());
            }
            let sentence = format!("another Job with the name {} has to go first", old.meta.name);
            let subject = Subject::node(&node.meta.name);
            steps.waits.push(Wait::new(subject, Reason::JobBeingDeleted, sentence, look.now));
        }
        Making::Nothing => {}
    }
}
