//! The planner has its turn with a node: what is said while it works there, and what once it does not get on.
//!
//! Nothing else ends this wait: a planner that has lost track of a node, or that does not run, never asks again and says nothing of it.

use drover_api::cluster_api::cluster::conditions::CONTROL_PLANE_READY;
use drover_api::harvester::FLEET_NAMESPACE;
use drover_api::harvester::jobs::types;
use drover_api::rancher::machine_plan::annotations::{DRAIN_DONE, DRAIN_ERROR};
use drover_api::rancher::provisioning_cluster::LOCAL;
use jiff::{SignedDuration, Timestamp};

use super::decide::{Member, Turn};
use super::names;
use super::nodes::note;
use crate::cluster::{Secret, condition};
use crate::decision::{Reason, Subject, Wait};

/// So long the planner may take to drain a node and to raise Kubernetes there, or to come to the next one.
pub(crate) const USUAL: SignedDuration = SignedDuration::from_mins(20);

/// Before what the planner says itself.
const SAYS: &str = "; it says: ";

/// A sentence without what the planner says itself: that changes, and each time it would be another Event.
pub(super) fn without_words(sentence: &str) -> &str {
    sentence.split(SAYS).next().unwrap_or(sentence)
}

/// Waits until the planner has drained a node that it may drain, and has raised Kubernetes there.
pub(super) fn wait_for_planner(turn: &mut Turn<'_>, member: Member<'_>, plan: &Secret) {
    let name = member.name();
    let since = free_since(turn, name);
    let late = since.and_then(|since| since.checked_add(USUAL).ok());
    match since.zip(late) {
        Some((since, late)) if late < turn.now => {
            let wait = Wait::new(Subject::node(name), Reason::PlannerStalls, sentence(turn, name, plan, since), since);
            turn.waits.push(wait.with_remedy(remedy(turn.name())));
        }
        _ => {
            let sentence = format!("the planner drains {name} and raises Kubernetes there");
            turn.wait(Subject::node(name), Reason::PlannerWorks, sentence);
            // A second later than late it is late.
            let moment = late.and_then(|late| late.checked_add(SignedDuration::from_secs(1)).ok());
            turn.look_again = turn.look_again.into_iter().chain(moment).min();
        }
    }
}

/// Since when the planner may drain the node: the Job before that tells, or else how long it has been waited for.
fn free_since(turn: &Turn<'_>, name: &str) -> Option<Timestamp> {
    let job = turn.job(&names::node_job(turn.name(), types::PRE_DRAIN, name));
    let is_its = |wait: &&Wait| {
        wait.subject == Subject::node(name) && matches!(wait.reason, Reason::PlannerWorks | Reason::PlannerStalls)
    };
    let told = turn.view.told.iter().filter(is_its).map(|wait| wait.since).min();
    job.and_then(|job| job.status.completion_time).or(told)
}

fn sentence(turn: &Turn<'_>, name: &str, plan: &Secret, since: Timestamp) -> String {
    let is_drained = note(Some(plan), DRAIN_DONE).is_some();
    let what = if is_drained { format!("raised Kubernetes on {name}") } else { format!("drained {name}") };
    let error = note(Some(plan), DRAIN_ERROR).filter(|_| !is_drained);
    let said = error.or_else(|| words(turn)).map(|said| format!("{SAYS}{said}")).unwrap_or_default();
    format!("the planner has not {what}, although it may since {since}{said}")
}

/// What the planner says itself, where every Cluster of it shows that.
fn words<'a>(turn: &Turn<'a>) -> Option<&'a str> {
    let cluster = turn.cluster().cluster_api.clusters.get(FLEET_NAMESPACE, LOCAL)?;
    let said = condition(&cluster.status.conditions, CONTROL_PLANE_READY).filter(|said| !said.is_true())?;
    Some(said.message.as_str()).filter(|message| !message.is_empty())
}

fn remedy(upgrade: &str) -> String {
    format!(
        "drover why upgrade/{upgrade} looks what is in its way; if nothing is, restart it: \
         kubectl -n cattle-system rollout restart deployment rancher"
    )
}
