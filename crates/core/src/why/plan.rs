//! Why a Plan is not done: what its engine waits for, each wait followed down to the object that causes it.

use drover_api::plan::{NodeCounts, PublishedWait};

use super::link::{Cause, Chain, Link, sort};
use super::waits::{self, Asked};
use super::{Driver, Explanation, Scene, driver, scene, surprises};
use crate::cluster::{Cluster, ObjectRef};
use crate::decision::{Decision, Kind, Reason, Subject, Wait};
use crate::seen::PlanSeen;

pub fn explain(cluster: &Cluster, plan: &PlanSeen) -> Explanation {
    explain_on(cluster, plan, &[])
}

/// `trail` are the Plans that led here: one that leads back to them is not followed again.
pub(super) fn explain_on(cluster: &Cluster, plan: &PlanSeen, trail: &[ObjectRef]) -> Explanation {
    explain_with_counts(cluster, plan, trail).0
}

pub(super) fn explain_with_counts(
    cluster: &Cluster,
    plan: &PlanSeen,
    trail: &[ObjectRef],
) -> (Explanation, NodeCounts) {
    let driver = Driver::of(cluster, plan);
    let decision = Scene::of(cluster, plan, driver).decide(cluster.looked_at);
    let object = ObjectRef::from(&plan.subject());
    let trail: Vec<ObjectRef> = trail.iter().cloned().chain([object.clone()]).collect();
    let asked = Asked { cluster, plan, driver, trail: &trail };

    let mut causes: Vec<Cause> = Vec::new();
    if let Some(chain) = driver::idles(cluster, plan, driver, &decision) {
        causes.extend(Cause::of(chain));
    }
    let held_back = held_back(&decision);
    for wait in decision.waits.iter().cloned().chain(only_published(plan, &decision)) {
        let own = waits::chains(&asked, &wait).into_iter().filter_map(|below| cause(&asked, &wait, below, held_back));
        causes.extend(own);
    }
    causes.extend(surprises::found(cluster, plan, driver).into_iter().filter_map(Cause::of));
    drop_consequences(&mut causes);
    let mut causes = once_a_root(causes);
    sort(&mut causes);
    let counts = decision.counts.or(plan.status.counts).unwrap_or_default();
    let complete = counts.updated == counts.selected && causes.is_empty();
    let unseen = cluster.unseen.iter().filter(|unseen| matters(&unseen.kind)).map(ToString::to_string);
    let summary = summary(&counts, driver, complete);
    let explanation = Explanation { object, summary, complete, driver: Some(driver), causes, unseen: unseen.collect() };
    (explanation, counts)
}

fn matters(kind: &str) -> bool {
    ["Node", "Pod", "Job", "Secret", "PodDisruptionBudget", "Plan", "Event", "Lease"].contains(&kind)
}

fn summary(counts: &NodeCounts, driver: Driver, complete: bool) -> String {
    let mut text = format!("{} of {} nodes updated", counts.updated, counts.selected);
    for (count, word) in [(counts.applying, "applying"), (counts.waiting, "waiting"), (counts.failed, "failed")] {
        if count > 0 {
            text.push_str(&format!(", {count} {word}"));
        }
    }
    match driver {
        Driver::Drover => {}
        Driver::SystemUpgradeController => text.push_str("; driven by system-upgrade-controller"),
        Driver::Nobody => text.push_str("; driven by nobody"),
        Driver::Harvester => text.push_str("; driven by Harvester"),
    }
    if complete {
        text.push_str("; it waits for nothing");
    }
    text
}

/// The whole chain of one wait: the Plan, the node if it is about one, then what was found below.
fn cause(asked: &Asked<'_>, wait: &Wait, below: Chain, held_back: i64) -> Option<Cause> {
    // A wait that nobody has published yet begins now, as far as its engine knows: that says nothing.
    let since = Some(wait.since).filter(|since| asked.cluster.looked_at.duration_since(*since).as_secs() > 1);
    let wait_link = Link::proven((&asked.plan.subject()).into(), wait.sentence.clone()).since(since);
    let mut chain = vec![wait_link];
    chain.extend(below.into_iter().filter(|link| link.object != ObjectRef::from(&asked.plan.subject())));
    if chain.len() == 1 {
        chain = waits::itself(wait);
    }
    let mut cause = Cause::of(chain)?;
    cause.reason = Some(wait.reason);
    cause.deadline = wait.deadline;
    cause.since = cause.since.filter(|moment| *moment != wait.since).or(since);
    cause.remedy = cause.remedy.or_else(|| wait.remedy.clone());
    cause.costs = waits::costs(asked, wait, held_back);
    Some(cause)
}

/// How many nodes wait for the ones that are out.
fn held_back(decision: &Decision) -> i64 {
    let is_full = |wait: &Wait| matches!(wait.reason, Reason::ConcurrencyReached | Reason::TooManyNodesFailed);
    let waiting = decision.counts.map_or(0, |counts| counts.waiting);
    if decision.waits.iter().any(is_full) { waiting } else { 0 }
}

/// That no more nodes are started is a consequence of those that are out: it is told only if nothing tells of them.
fn drop_consequences(causes: &mut Vec<Cause>) {
    let is_consequence =
        |cause: &Cause| matches!(cause.reason, Some(Reason::ConcurrencyReached | Reason::TooManyNodesFailed));
    if causes.iter().any(|cause| !is_consequence(cause)) {
        causes.retain(|cause| !is_consequence(cause));
    }
}

/// Several waits may come down to one object, such as a Job and its drain to a budget: that is told once.
pub(super) fn once_a_root(causes: Vec<Cause>) -> Vec<Cause> {
    let mut roots: Vec<Cause> = Vec::new();
    for cause in causes {
        let same = |root: &&mut Cause| root.object == cause.object && root.statement == cause.statement;
        match roots.iter_mut().find(same) {
            Some(root) => root.join(cause),
            None => roots.push(cause),
        }
    }
    roots
}

/// Waits that cannot be found out from objects: what the driving operator met when it asked or wrote.
fn only_published(plan: &PlanSeen, decision: &Decision) -> Vec<Wait> {
    let told = |reason: Reason| decision.waits.iter().any(|wait| wait.reason == reason);
    let read = |wait: &PublishedWait| {
        let reason: Reason = serde_json::from_value(wait.reason.clone().into()).ok()?;
        let is_its_own = matches!(
            reason,
            Reason::NoPermission
                | Reason::ApiRefuses
                | Reason::GateClosed
                | Reason::GateFails
                | Reason::EvictionRefused
        );
        (is_its_own && !told(reason)).then(|| Wait {
            subject: subject(&wait.subject).unwrap_or_else(|| plan.subject()),
            reason,
            sentence: wait.sentence.clone(),
            since: wait.since.0,
            deadline: wait.deadline.as_ref().map(|deadline| deadline.0),
            remedy: wait.remedy.clone(),
        })
    };
    plan.status.waits.iter().filter_map(read).collect()
}

/// `Pod/shop/cart-0`
fn subject(text: &str) -> Option<Subject> {
    let mut parts = text.split('/');
    let kind: Kind = serde_json::from_value(parts.next()?.into()).ok()?;
    let (first, second) = (parts.next()?.to_owned(), parts.next().map(ToOwned::to_owned));
    Some(match second {
        Some(name) => Subject { kind, namespace: first, name },
        None => Subject { kind, namespace: String::new(), name: first },
    })
}

/// The Jobs of a Plan for one node, the newest last.
pub(super) fn jobs_on<'a>(asked: &Asked<'a>, node: &str) -> Vec<&'a crate::cluster::Job> {
    let label = crate::plan::names::label(node);
    let mine = scene::jobs_of(asked.cluster, asked.plan)
        .filter(|job| job.meta.labels.get(drover_api::plan::labels::NODE) == Some(&label));
    let mut jobs: Vec<_> = mine.filter_map(|job| asked.cluster.jobs.get(&job.meta.namespace, &job.meta.name)).collect();
    jobs.sort_by_key(|job| job.metadata.creation_timestamp);
    jobs
}
