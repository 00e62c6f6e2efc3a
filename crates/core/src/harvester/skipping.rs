//! A node that its user goes on without, after it has failed, or because it does not boot its new system.
//!
//! Rancher's planner knows nothing of that: it would wait for its answers for ever, and with it the nodes that come after. So it is
//! answered, without any step of ours: it drains the node, raises Kubernetes there and gives it back; the system of the node stays as
//! it is.

use drover_api::harvester::jobs::types;
use drover_api::marks::UPGRADE_SKIP;
use drover_api::rancher::machine_plan::annotations::{POST_DRAIN, POST_HOOK, PRE_DRAIN, PRE_HOOK};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::decide::{Member, Turn, members};
use super::nodes::{acknowledge, asks_to_drain, is_back, is_in_drain, may_go, unmark};
use super::progress::{Ending, Step};
use super::{ending, names, options};
use crate::cluster::Secret;
use crate::decision::{Reason, Subject};

/// So long a node may take to boot its new system before its user can go on without it: the next one is not sent out while it is only slow.
const TO_BOOT: SignedDuration = SignedDuration::from_mins(15);

/// What becomes of the wish to go on without a node.
enum Answer {
    Granted,
    /// Nothing is left to be said or done.
    Moot,
    /// Why not, after the name of the node.
    Refused(String),
}

/// Goes on without the nodes that its user names, as far as they have failed or do not come back.
pub(super) fn heed(turn: &mut Turn<'_>) {
    let Some(named) = turn.annotation(UPGRADE_SKIP) else { return };
    let (mut refused, mut granted, mut why_not) = (Vec::new(), Vec::new(), Vec::new());
    for name in named.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        match answer_to(turn, name) {
            Answer::Granted => granted.push(name),
            Answer::Moot => {}
            Answer::Refused(why) => {
                refused.push(name);
                why_not.push(format!("{name}, {why}"));
            }
        }
    }
    // What is heard is taken away; a name that cannot be followed stays, so that its user finds the mistake.
    turn.annotations.insert(UPGRADE_SKIP, if refused.is_empty() { Value::Null } else { json!(refused.join(",")) });
    if !refused.is_empty() {
        let sentence = format!("the annotation {UPGRADE_SKIP} names {}", why_not.join("; and "));
        let remedy = options::annotate(turn.name(), &format!("{UPGRADE_SKIP}=NODE"));
        let remedy = format!(
            "name a node that has failed: {remedy}; or none: {}",
            options::annotate(turn.name(), &format!("{UPGRADE_SKIP}-"))
        );
        turn.wait_with_remedy(turn.subject(), Reason::UpgradeInvalid, sentence, remedy);
    }
    let was_stuck = turn.next.is_stuck();
    for node in &granted {
        turn.next.set_step(node, Step::Skipping);
    }
    if was_stuck && !granted.is_empty() && turn.next.nodes.values().all(|node| node.step != Step::Failed) {
        ending::go_on_after_failure(turn);
    }
}

fn answer_to(turn: &mut Turn<'_>, name: &str) -> Answer {
    if turn.next.ended == Some(Ending::Succeeded) {
        return Answer::Moot;
    }
    let (nodes, _) = members(turn.cluster());
    let Some(member) = nodes.iter().find(|member| member.name() == name) else {
        return Answer::Refused("no node of the upgrade".to_owned());
    };
    if turn.next.single_node == name {
        return Answer::Refused("which is all there is to upgrade".to_owned());
    }
    match turn.next.step(name) {
        Step::Failed if turn.next.is_stuck() => Answer::Granted,
        // It is put back in any case.
        Step::Failed | Step::Skipping | Step::Skipped => Answer::Moot,
        Step::Succeeded => Answer::Refused("which is upgraded".to_owned()),
        Step::WaitingReboot if is_back(turn, member.node) => Answer::Moot,
        Step::WaitingReboot => match may_boot_until(turn, name).filter(|until| turn.now < *until) {
            Some(until) => {
                turn.look_again = Some(turn.look_again.map_or(until, |earlier| earlier.min(until)));
                Answer::Refused(format!(
                    "which has until {until} to boot its new system, and is skipped if it does not"
                ))
            }
            None => Answer::Granted,
        },
        step => Answer::Refused(format!("which has not failed ({}), and is skipped once it has", step.state())),
    }
}

/// None if the Job that has installed the system is gone: that was long ago.
fn may_boot_until(turn: &Turn<'_>, name: &str) -> Option<Timestamp> {
    let job = turn.job(&names::node_job(turn.name(), types::POST_DRAIN, name))?;
    job.status.completion_time?.checked_add(TO_BOOT).ok()
}

/// Gives the planner its answers, one node at a time like any other.
pub(super) fn answer(turn: &mut Turn<'_>, member: Member<'_>, plan: &Secret) {
    let name = member.name();
    if !is_in_drain(plan) {
        turn.next.set_step(name, Step::Skipped);
        return;
    }
    if asks_to_drain(plan) && !may_go(turn, member) {
        return;
    }
    turn.next.set_step(name, Step::Skipping);
    acknowledge(turn, plan, PRE_DRAIN, PRE_HOOK);
    acknowledge(turn, plan, POST_DRAIN, POST_HOOK);
    unmark(turn, member.node);
    let sentence = format!("the planner has its turn on {name}, which is skipped: its system stays as it is");
    turn.wait(Subject::node(name), Reason::PlannerWorks, sentence);
}
