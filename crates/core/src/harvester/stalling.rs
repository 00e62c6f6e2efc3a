//! The planner has its turn with a node: what is said while it works there, and what once it does not get on.
//!
//! Nothing else ends this wait: a planner that has lost track of a node, or that does not run, never asks again and says nothing of it.

use drover_api::cluster_api::cluster::conditions::CONTROL_PLANE_READY;
use drover_api::harvester::jobs::types;
use drover_api::harvester::{CATTLE_NAMESPACE, FLEET_NAMESPACE, NAMESPACE};
use drover_api::marks::PLANNED;
use drover_api::rancher::embedded::NAME as RANCHER;
use drover_api::rancher::machine_plan::annotations::{DRAIN_DONE, DRAIN_ERROR};
use drover_api::rancher::provisioning_cluster::LOCAL;
use jiff::{SignedDuration, Timestamp};

use super::decide::{Member, Turn};
use super::nodes::{is_in_drain, note};
use super::progress::Step;
use super::{asking, jobs, names};
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
    let (name, subject) = (member.name(), Subject::node(member.name()));
    let job = turn.job(&names::node_job(turn.name(), types::PRE_DRAIN, name));
    // The Job before that tells, or else how long it has been waited for.
    let since = job.and_then(|job| job.status.completion_time).or_else(|| told_since(turn, &subject));
    let is_drained = note(Some(plan), DRAIN_DONE).is_some();
    let what = if is_drained { format!("not raised Kubernetes on {name}") } else { format!("not drained {name}") };
    let error = note(Some(plan), DRAIN_ERROR).filter(|_| !is_drained).or_else(|| words(turn));
    if !stalls(turn, subject.clone(), since, &what, error) {
        turn.wait(subject, Reason::PlannerWorks, format!("the planner drains {name} and raises Kubernetes there"));
    }
}

/// Notices that the planner does not come to the next node, although none is out: it stands still for all of them.
pub(super) fn notice_standstill(turn: &mut Turn<'_>, nodes: &[Member<'_>]) {
    let cluster = turn.cluster();
    let waits = |member: &&Member<'_>| turn.next.step(member.name()) == Step::Waits;
    let is_asked = |member: &Member<'_>| member.plan_secret(cluster).is_some_and(is_in_drain);
    let is_held_up = turn.next.nodes.values().any(|node| node.step.is_at_work());
    if is_held_up || asking::is_paused(turn) || nodes.iter().filter(waits).any(is_asked) {
        return;
    }
    let is_free =
        |member: &&Member<'_>| !turn.paused.contains(member.name()) && !asking::was_raised_unasked(turn, member);
    let free = nodes.iter().filter(waits).filter(is_free);
    let Some(waited) = free.filter_map(|member| told_since(turn, &Subject::node(member.name()))).min() else { return };
    // While another node was out it was not the planner's turn.
    let done = cluster.jobs.in_namespace(NAMESPACE).filter(|job| jobs::is_own(turn, job));
    let done = done.filter_map(|job| job.status.completion_time);
    let back = nodes.iter().filter_map(|member| member.node.ready()?.last_transition_time);
    let since = done.chain(back).max().map_or(waited, |free| free.max(waited));
    stalls(turn, asking::subject(), Some(since), "come to no further node", words(turn));
}

/// Waits until the planner has given back the last nodes, and is done.
pub(super) fn wait_for_end(turn: &mut Turn<'_>, in_drain: &[&str]) {
    let (what, sentence) = match in_drain {
        [] => (
            format!("not finished with Cluster {FLEET_NAMESPACE}/{LOCAL}"),
            format!("the planner has not finished with Cluster {FLEET_NAMESPACE}/{LOCAL}"),
        ),
        nodes => {
            let nodes = nodes.join(", ");
            (format!("not given back {nodes}"), format!("the planner gives back {nodes}"))
        }
    };
    let since = told_since(turn, &asking::subject());
    if !stalls(turn, asking::subject(), since, &what, words(turn)) {
        turn.wait(asking::subject(), Reason::PlannerWorks, sentence);
    }
}

/// Says that the planner does not get on, if it has had its time since a moment; false if it has not, or nobody knows.
fn stalls(turn: &mut Turn<'_>, subject: Subject, since: Option<Timestamp>, what: &str, says: Option<&str>) -> bool {
    let Some((since, late)) = since.and_then(|since| Some((since, since.checked_add(USUAL).ok()?))) else {
        return false;
    };
    if late < turn.now {
        let says = says.map(|says| format!("{SAYS}{says}")).unwrap_or_default();
        let sentence = format!("the planner has {what}, although it may since {since:.0}{says}");
        let remedy = remedy(turn);
        // It is told before all those that wait for it.
        turn.waits.insert(0, Wait::new(subject, Reason::PlannerStalls, sentence, since).with_remedy(remedy));
        return true;
    }
    // A second later than late it is late.
    let moment = late.checked_add(SignedDuration::from_secs(1)).ok();
    turn.look_again = turn.look_again.into_iter().chain(moment).min();
    false
}

/// Since when the planner was waited for with something, as far as this process knows.
fn told_since(turn: &Turn<'_>, subject: &Subject) -> Option<Timestamp> {
    let is_its =
        |wait: &&Wait| wait.subject == *subject && matches!(wait.reason, Reason::PlannerWorks | Reason::PlannerStalls);
    turn.view.told.iter().filter(is_its).map(|wait| wait.since).min()
}

/// What the planner says itself, where every Cluster of it shows that.
fn words<'a>(turn: &Turn<'a>) -> Option<&'a str> {
    let cluster = turn.cluster().cluster_api.clusters.get(FLEET_NAMESPACE, LOCAL)?;
    let said = condition(&cluster.status.conditions, CONTROL_PLANE_READY).filter(|said| !said.is_true())?;
    Some(said.message.as_str()).filter(|message| !message.is_empty())
}

/// Where Drover's own planner has given a machine its plan, Rancher's is not there.
fn remedy(turn: &Turn<'_>) -> String {
    let mut secrets = turn.cluster().secrets.in_namespace(FLEET_NAMESPACE);
    let deployment = match secrets.any(|secret| secret.metadata.annotations.contains_key(PLANNED)) {
        true => "-n system-upgrade rollout restart deployment system-upgrade-controller".to_owned(),
        false => format!("-n {CATTLE_NAMESPACE} rollout restart deployment {RANCHER}"),
    };
    let upgrade = turn.name();
    format!("drover why upgrade/{upgrade} looks what is in its way; if nothing is, restart it: kubectl {deployment}")
}
