//! The planner has its turn with a node: what is said while it works there, and what once it does not get on.
//!
//! Nothing else ends this wait: a planner that has lost track of a node, or that does not run, never asks again and says nothing of it.

use drover_api::cluster_api::cluster::conditions::CONTROL_PLANE_READY;
use drover_api::harvester::jobs::types;
use drover_api::harvester::{CATTLE_NAMESPACE, FLEET_NAMESPACE};
use drover_api::marks::PLANNED;
use drover_api::rancher::embedded::NAME as RANCHER;
use drover_api::rancher::machine_plan::annotations::{DRAIN_DONE, DRAIN_ERROR, PRE_DRAIN};
use drover_api::rancher::provisioning_cluster::LOCAL;
use jiff::{SignedDuration, Timestamp};

use super::decide::{Member, Turn};
use super::nodes::note;
use super::progress::Step;
use super::{asking, names};
use crate::cluster::{Cluster, Secret, condition};
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
    let told = turn.next.planner_since.filter(|since| *since <= turn.now);
    let done = job.and_then(|job| job.status.completion_time);
    // A Job that is gone tells nothing.
    let since = told.or(done).unwrap_or_else(|| its_turn(turn));
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
    // One that has begun with a node and asks nothing of it still has its turn.
    let is_asked = |member: &Member<'_>| note(member.plan_secret(cluster), PRE_DRAIN).is_some();
    let is_held_up = turn.next.nodes.values().any(|node| node.step.is_at_work());
    let waiting: Vec<&Member<'_>> = nodes.iter().filter(waits).collect();
    if is_held_up || waiting.is_empty() || waiting.iter().any(|member| is_asked(member)) {
        return;
    }
    let is_free =
        |member: &Member<'_>| !turn.paused.contains(member.name()) && !asking::was_raised_unasked(turn, member);
    // Drover's planner does not even ask about a voter that has to stay; Rancher's would be told to wait.
    let is_kept_back = turn.waits.iter().any(|wait| wait.reason == Reason::QuorumAtRisk);
    if is_kept_back || asking::is_paused(turn) || !waiting.into_iter().any(is_free) {
        // It is not the planner's turn, and it has all of its time again when it is.
        turn.next.planner_since = None;
        return;
    }
    let since = its_turn(turn);
    stalls(turn, asking::subject(), since, "come to no further node", words(turn));
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
    let since = its_turn(turn);
    if !stalls(turn, asking::subject(), since, &what, words(turn)) {
        turn.wait(asking::subject(), Reason::PlannerWorks, sentence);
    }
}

/// Says that the planner does not get on, if it has had its time since a moment; false if it has not.
fn stalls(turn: &mut Turn<'_>, subject: Subject, since: Timestamp, what: &str, says: Option<&str>) -> bool {
    let Ok(late) = since.checked_add(USUAL) else { return false };
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

/// Since when the planner has its turn, as it is noted on the Upgrade: whoever drives it, or looks at it, goes by the same moment.
pub(super) fn its_turn(turn: &mut Turn<'_>) -> Timestamp {
    // One that lies in the future says only that a clock was set back.
    let known = turn.next.planner_since.filter(|since| *since <= turn.now);
    let since = known.unwrap_or_else(|| Timestamp::from_second(turn.now.as_second()).unwrap_or(turn.now));
    turn.next.planner_since = Some(since);
    since
}

/// What the planner says itself, where every Cluster of it shows that.
fn words<'a>(turn: &Turn<'a>) -> Option<&'a str> {
    let cluster = turn.cluster().cluster_api.clusters.get(FLEET_NAMESPACE, LOCAL)?;
    let said = condition(&cluster.status.conditions, CONTROL_PLANE_READY).filter(|said| !said.is_true())?;
    Some(said.message.as_str()).filter(|message| !message.is_empty())
}

fn remedy(turn: &Turn<'_>) -> String {
    let (upgrade, restart) = (turn.name(), restart(turn.cluster()));
    format!("drover why upgrade/{upgrade} looks what is in its way; if nothing is, {restart}")
}

/// Where Drover's own planner has given a machine its plan, Rancher's is not there.
pub(crate) fn restart(cluster: &Cluster) -> String {
    let mut secrets = cluster.secrets.in_namespace(FLEET_NAMESPACE);
    let deployment = match secrets.any(|secret| secret.metadata.annotations.contains_key(PLANNED)) {
        true => "-n system-upgrade rollout restart deployment system-upgrade-controller".to_owned(),
        false => format!("-n {CATTLE_NAMESPACE} rollout restart deployment {RANCHER}"),
    };
    format!("restart it: kubectl {deployment}")
}
