//! Whose turn it is: claims further nodes, as many as the Plan allows.

use jiff::Timestamp;

use super::between::hold;
use super::failure::{given_up, given_up_wait, limit};
use super::jobs::{Making, is_windows, make};
use super::marking::{is_left_by_predecessor, take, wants_cordon};
use super::nodes::{Look, Steps};
use super::selection::turn;
use super::waiting::{claimed_by_another, not_ready};
use crate::claims::{Claim, ClaimId, Claims};
use crate::decision::{Reason, Subject, Wait};
use crate::seen::NodeSeen;

pub(super) fn start_more(look: &Look<'_>, claims: &mut Claims, steps: &mut Steps) {
    let (view, now) = (look.view, look.now);
    let Some(hash) = &look.wish.hash else { return };
    let limit = limit(view);
    let (mut open, mut blocked) = candidates(look, claims, steps);
    let given_up = steps.failed.iter().filter(|name| !claims.nodes.contains_key(*name)).count();
    if !open.is_empty() {
        let mut held = hold(view, claims, now);
        if given_up >= limit {
            held.waits.push(too_many_failed(
                look,
                steps,
                "the Plan goes on when they are tried again or taken out of it",
            ));
        }
        if !held.waits.is_empty() {
            open.clear();
        }
        steps.window_closed = held.window_closed;
        held.look_again.into_iter().for_each(|moment| steps.look_again_by(moment));
        steps.waits.append(&mut held.waits);
    }
    let left = left_by_predecessor(look, claims);
    let free = limit.saturating_sub(claims.nodes.len() + left.len()).min(open.len());
    if free > 0 {
        open.sort_by_cached_key(|node| turn(node, view, hash));
    }
    let left_over = open.split_off(free);
    for node in open {
        let id = ClaimId::new(&view.plan.meta.uid, view.plan.meta.resource_version, &node.meta.uid);
        let claim = Claim { id, owner: view.plan.meta.uid.clone(), since: now };
        follow_up(look, node, &claim, steps);
        claims.nodes.insert(node.meta.name.clone(), claim);
    }
    if !left_over.is_empty() {
        let all_failed = claims.nodes.keys().all(|name| steps.failed.contains(name));
        let wait = if all_failed && !claims.nodes.is_empty() && left.is_empty() {
            too_many_failed(look, steps, "the other nodes wait until one of them succeeds")
        } else {
            let out: Vec<&String> = claims.nodes.keys().chain(left).collect();
            let sentence = format!("the other nodes wait for {}", some_of(out.into_iter()));
            Wait::new(view.plan.subject(), Reason::ConcurrencyReached, sentence, now)
        };
        steps.waits.push(wait);
    }
    steps.waits.append(&mut blocked);
}

/// The nodes that a Plan of this name left out of service when it was deleted: they count as if they were this one's.
fn left_by_predecessor<'a>(look: &Look<'a>, claims: &Claims) -> Vec<&'a String> {
    let left = look.view.nodes.iter().filter(|(_, node)| is_left_by_predecessor(look.view, node));
    left.map(|(name, _)| name).filter(|name| !claims.nodes.contains_key(*name)).collect()
}

/// The nodes that could be started, and what the others wait for.
fn candidates<'a>(look: &Look<'a>, claims: &Claims, steps: &mut Steps) -> (Vec<&'a NodeSeen>, Vec<Wait>) {
    let (mut open, mut blocked) = (Vec::new(), Vec::new());
    let waiting = look
        .selection
        .members
        .iter()
        .filter(|node| look.selection.is_pending(node) && !claims.nodes.contains_key(&node.meta.name));
    for node in waiting {
        if node.claim.is_some() {
            // It may be ours, released by a write of this very decision.
            if node.mark.as_ref().is_none_or(|mark| mark.owner.uid != look.view.plan.meta.uid) {
                blocked.push(claimed_by_another(look.view, node, look.now));
            }
        } else if let Some(record) = given_up(look, node) {
            steps.failed.insert(node.meta.name.clone());
            steps.failures.push(record.sentence.clone());
            blocked.push(given_up_wait(node, record, look.now));
        } else if !node.ready {
            blocked.push(not_ready(node, look.now));
        } else if is_windows(node) && wants_cordon(look.view) && look.view.settings.kubectl_image_windows.is_empty() {
            blocked.push(no_windows_image(node, look.now));
        } else {
            open.push(*node);
        }
    }
    (open, blocked)
}

/// Once the claim is written, nothing keeps the node from being taken and its Job from being made, in the same batch. Exclusive
/// Plans look first whether another one claimed at the same time.
fn follow_up(look: &Look<'_>, node: &NodeSeen, claim: &Claim, steps: &mut Steps) {
    let is_exclusive = look.view.plan.spec.as_ref().is_ok_and(|spec| spec.exclusive);
    if is_exclusive || !look.jobs.on(&node.meta.name).is_empty() {
        return;
    }
    if let Making::Create(job) = make(look, node, claim) {
        steps.takes.push(take(look.view, node, claim));
        steps.jobs.push(job);
    }
}

fn too_many_failed(look: &Look<'_>, steps: &Steps, what_then: &str) -> Wait {
    let names = some_of(steps.failed.iter());
    let sentence = format!("as many nodes have failed as may be out at once ({names}): {what_then}");
    Wait::new(look.view.plan.subject(), Reason::TooManyNodesFailed, sentence, look.now)
}

fn no_windows_image(node: &NodeSeen, now: Timestamp) -> Wait {
    let sentence = format!("Node {} runs Windows, and there is no image to cordon or drain it with", node.meta.name);
    let remedy = format!("set {}", drover_api::plan::jobs::environment::KUBECTL_IMAGE_WINDOWS);
    Wait::new(Subject::node(&node.meta.name), Reason::PlanInvalid, sentence, now).with_remedy(remedy)
}

fn some_of<'a>(names: impl ExactSizeIterator<Item = &'a String>) -> String {
    const SHOWN: usize = 3;
    let more = names.len().saturating_sub(SHOWN);
    let mut text = names.take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(" and others");
    }
    text
}
