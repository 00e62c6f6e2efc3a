//! Why an Upgrade of Harvester is not done: what its engine waits for, each wait followed down to the object that causes it.
//!
//! An Upgrade that Harvester drives itself is explained by the same decision: its status says how far it is, and what the
//! engine would do there and Harvester does not do is told, too.

mod idle;
mod planner;
mod scene;
mod services;
mod stage;
mod waits;

use drover_api::harvester::NAMESPACE;
use drover_api::harvester::jobs::{JOB_TYPE, UPGRADE, types};
use drover_api::harvester::upgrade::labels;

use super::link::{Cause, Chain, Link, Outlook, sort};
use super::plan::once_a_root;
use super::{Driver, Explanation, job};
use crate::cluster::harvester::Upgrade;
use crate::cluster::{Cluster, Job, Node, ObjectRef};
use crate::decision::{Decision, Kind, Reason, Wait};
use crate::harvester::progress::{Ending, Progress, Step};
use scene::{Scene, state_of};
pub use scene::{driver_of, progress_of};
pub use stage::{Stage, stage_of};

/// Of an Upgrade that Harvester drives itself.
pub const NO_RETRY: &str = "Harvester itself does not go on once a node has failed, and must not be started over";

/// What is being explained.
struct Asked<'a> {
    cluster: &'a Cluster,
    upgrade: &'a Upgrade,
    scene: &'a Scene<'a>,
    /// The objects that led here, this one last.
    trail: &'a [ObjectRef],
}

pub fn explain(cluster: &Cluster, upgrade: &Upgrade) -> Explanation {
    explain_on(cluster, upgrade, &[])
}

/// `trail` are the objects that led here: one that leads back to them is not followed again.
fn explain_on(cluster: &Cluster, upgrade: &Upgrade, trail: &[ObjectRef]) -> Explanation {
    let scene = Scene::of(cluster, upgrade);
    let decision = scene.decide(cluster.looked_at);
    let object = ObjectRef::of(upgrade);
    let trail: Vec<ObjectRef> = trail.iter().cloned().chain([object.clone()]).collect();
    let asked = Asked { cluster, upgrade, scene: &scene, trail: &trail };

    let mut causes: Vec<Cause> = Vec::new();
    for wait in decision.waits.iter().filter(|wait| !is_consequence(&asked, &decision, wait)) {
        causes.extend(waits::chains(&asked, wait).into_iter().filter_map(|below| cause(&asked, wait, below)));
    }
    if causes.is_empty() {
        let left = decision.waits.iter();
        causes.extend(left.filter_map(|wait| cause(&asked, wait, waits::said(&asked, wait))));
    }
    causes.extend(failure(&asked).and_then(Cause::of));
    causes.extend(restoring(&asked).into_iter().filter_map(Cause::of));
    causes.extend(services::of_harvester(&asked).into_iter().filter_map(Cause::of));
    causes.extend(idle::found(&asked, &decision).into_iter().filter_map(Cause::of));
    let mut causes = without_lesser_words(once_a_root(causes));
    sort(&mut causes);
    let complete = is_complete(&asked) && causes.is_empty();
    let unseen = cluster.unseen.iter().filter(|unseen| matters(&unseen.kind)).map(ToString::to_string);
    let summary = summary(&asked, complete);
    Explanation { object, summary, complete, driver: Some(scene.driver), causes, unseen: unseen.collect() }
}

/// That the upgrade goes on without a node is beside the point where something waits for just that node.
fn without_lesser_words(causes: Vec<Cause>) -> Vec<Cause> {
    let is_lesser = |cause: &Cause| cause.reason.is_some_and(Reason::holds_nothing);
    let others: Vec<ObjectRef> =
        causes.iter().filter(|cause| !is_lesser(cause)).map(|cause| cause.object.clone()).collect();
    causes.into_iter().filter(|cause| !is_lesser(cause) || !others.contains(&cause.object)).collect()
}

fn matters(kind: &str) -> bool {
    const READ: [&str; 17] = [
        "Node",
        "Pod",
        "Job",
        "Secret",
        "PodDisruptionBudget",
        "Plan",
        "Deployment",
        "Upgrade",
        "VirtualMachineImage",
        "Machine",
        "Cluster",
        "Cluster.provisioning.cattle.io",
        "RKEControlPlane",
        "ManagedChart",
        "Bundle",
        "VirtualMachineInstance",
        "Volume.longhorn.io",
    ];
    READ.contains(&kind)
}

/// It has ended, whichever way, and nothing of it is left. One that has failed is told until another one follows.
fn is_complete(asked: &Asked<'_>) -> bool {
    let Progress { ended, cleaned, .. } = &asked.scene.progress;
    ended.is_some() && *cleaned
}

fn summary(asked: &Asked<'_>, complete: bool) -> String {
    let Scene { progress, driver, .. } = asked.scene;
    let state = match state_of(asked.upgrade) {
        "" => "not begun",
        state => state,
    };
    let mut text = state.to_owned();
    let nodes = &asked.upgrade.status.node_statuses;
    if !nodes.is_empty() {
        let done = nodes.keys().filter(|node| progress.step(node) == Step::Succeeded).count();
        text.push_str(&format!(", {done} of {} nodes upgraded", nodes.len()));
    }
    match driver {
        Driver::Harvester => text.push_str("; driven by Harvester"),
        Driver::Nobody => text.push_str("; driven by nobody"),
        Driver::Drover | Driver::SystemUpgradeController => {}
    }
    if complete {
        text.push_str("; it waits for nothing");
    }
    text
}

/// The whole chain of one wait: the Upgrade, then what was found below.
fn cause(asked: &Asked<'_>, wait: &Wait, below: Chain) -> Option<Cause> {
    let own = ObjectRef::of(asked.upgrade);
    let mut chain = vec![Link::proven(own.clone(), wait.sentence.clone()).since(waits::since(asked, wait))];
    chain.extend(below.into_iter().filter(|link| link.object != own));
    if chain.len() == 1 {
        chain = waits::said(asked, wait);
    }
    let mut cause = Cause::of(chain)?;
    cause.reason = Some(wait.reason);
    cause.deadline = wait.deadline;
    // What is in the planner's way is no reason to restart it.
    let own_remedy = wait.remedy.clone().filter(|_| wait.reason != Reason::PlannerStalls);
    cause.remedy = cause.remedy.or(own_remedy);
    cause.costs = waits::costs(asked, wait);
    Some(cause)
}

/// What an Upgrade waits for with a node, or because of it.
pub fn about_node(cluster: &Cluster, stage: &Stage, node: &Node) -> Vec<Cause> {
    let Some(upgrade) = cluster.harvester.upgrades.get(&stage.upgrade.namespace, &stage.upgrade.name) else {
        return Vec::new();
    };
    let own = ObjectRef::of(node);
    let is_about = |cause: &Cause| {
        cause.costs.out.contains(&node.metadata.name) || cause.chain.iter().any(|step| step.object == own)
    };
    explain(cluster, upgrade).causes.into_iter().filter(is_about).collect()
}

/// That a node waits for its turn follows from what the node before it waits for. A node that has not left yet has no Job: that
/// it works there would be true once somebody has made it.
fn is_consequence(asked: &Asked<'_>, decision: &Decision, wait: &Wait) -> bool {
    let waits_for_its_turn =
        || wait.subject.kind == Kind::Node && asked.scene.progress.step(&wait.subject.name) == Step::Waits;
    match wait.reason {
        Reason::AnotherNodeIsOut => true,
        Reason::PlannerWorks => waits_for_its_turn() && (asked.scene.has_node_out(decision) || stands_still(decision)),
        Reason::JobRunning => waits_for_its_turn(),
        _ => false,
    }
}

/// The planner comes to no node at all: no node has a turn to wait for.
fn stands_still(decision: &Decision) -> bool {
    decision.waits.iter().any(|wait| wait.reason == Reason::PlannerStalls && wait.subject.kind != Kind::Node)
}

/// The Jobs that were made for an Upgrade, the newest last.
fn jobs_of<'a>(cluster: &'a Cluster, upgrade: &Upgrade) -> Vec<&'a Job> {
    let own = |job: &&Job| job.metadata.labels.get(UPGRADE) == Some(&upgrade.metadata.name);
    let mut jobs: Vec<&Job> = cluster.jobs.in_namespace(NAMESPACE).filter(own).collect();
    jobs.sort_by_key(|job| job.metadata.creation_timestamp);
    jobs
}

/// Jobs that start VMs again. Which VMs these are stands in a ConfigMap that nobody need be able to read.
fn restoring(asked: &Asked<'_>) -> Vec<Chain> {
    let jobs = jobs_of(asked.cluster, asked.upgrade).into_iter().filter(|job| {
        !job.has_ended() && job.metadata.labels.get(JOB_TYPE).is_some_and(|kind| kind == types::RESTORE_VM)
    });
    let own = Link::proven(ObjectRef::of(asked.upgrade), "VMs that were stopped are started again").as_usual();
    let below = jobs.flat_map(|seen| job::runs(asked.cluster, seen));
    below.map(|below| [vec![own.clone()], below].concat()).collect()
}

/// An Upgrade that has failed, and what has; one that another has followed is history.
fn failure(asked: &Asked<'_>) -> Option<Chain> {
    let Some(Ending::Failed { reason, message }) = &asked.scene.progress.ended else { return None };
    if asked.upgrade.metadata.labels.get(labels::LATEST).is_none_or(|latest| latest != "true") {
        return None;
    }
    let name = &asked.upgrade.metadata.name;
    let words: Vec<&str> = [reason.as_str(), message.as_str()].into_iter().filter(|word| !word.is_empty()).collect();
    let why = if words.is_empty() { String::new() } else { format!(": {}", words.join(": ")) };
    let has_begun_nodes = asked.scene.progress.services == Some(Ending::Succeeded);
    let again = match asked.scene.driver {
        Driver::Drover => format!("then: drover upgrade retry upgrade/{name}"),
        _ if has_begun_nodes => NO_RETRY.to_owned(),
        _ => format!("then start over: kubectl -n {NAMESPACE} delete upgrades.harvesterhci.io {name}"),
    };
    let failed = Link::proven(ObjectRef::of(asked.upgrade), format!("Upgrade {name} has failed{why}"));
    let mut chain = vec![failed.remedy(format!("find out why; {again}"))];
    if let Some(job) = jobs_of(asked.cluster, asked.upgrade).into_iter().rev().find(|job| job.failure().is_some()) {
        chain.extend(job::failed(asked.cluster, job).into_iter().map(|link| link.outlook(Outlook::No)));
        if let Some(last) = chain.last_mut() {
            let first = last.remedy.take().filter(|_| last.object.kind != "Job");
            last.remedy = Some(format!("{}; {again}", first.as_deref().unwrap_or("find out why")));
        }
    }
    Some(chain)
}
