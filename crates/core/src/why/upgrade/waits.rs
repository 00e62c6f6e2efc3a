//! Each wait of the Harvester engine, followed down to the object that causes it.

use drover_api::harvester::jobs::{self, types};
use drover_api::harvester::virtual_machine_image::conditions::IMPORTED;
use drover_api::harvester::{FLEET_NAMESPACE, NAMESPACE};
use jiff::{SignedDuration, Timestamp};

use super::super::link::{Chain, Costs, Link, Outlook};
use super::super::plan as of_plan;
use super::super::reasons::meaning;
use super::super::{Driver, driver, image, job, node, vm, volume};
use super::{Asked, explain_on, jobs_of, planner, services};
use crate::cluster::kubevirt::VirtualMachineInstance;
use crate::cluster::longhorn::Volume;
use crate::cluster::{Cluster, Deployment, Job, Node, ObjectRef, condition};
use crate::decision::{Kind, Reason, Wait};
use crate::harvester::progress::Step;
use crate::harvester::release::Steps as ReleaseSteps;
use crate::harvester::steps::{self, Done, HostDeed, Next, Order};
use crate::quorum::IS_VOTER;

/// So long the pods of the repository may take to start, or to move to another node.
const USUAL_START: SignedDuration = SignedDuration::from_mins(5);
/// So long a kubelet may take to run what was installed.
const USUAL_RESTART: SignedDuration = SignedDuration::from_mins(5);
/// So long a node may take to boot its new system.
const USUAL_REBOOT: SignedDuration = SignedDuration::from_mins(20);

/// From below the Upgrade down to the cause.
pub fn chains(asked: &Asked<'_>, wait: &Wait) -> Vec<Chain> {
    match wait.reason {
        Reason::AnotherUpgradeFirst => vec![other_upgrade(asked, wait)],
        Reason::ImageNotReady => vec![importing(asked, wait)],
        Reason::RepositoryNotReady => vec![repository(asked, wait)],
        Reason::ImagesPreloading => below_plan(asked, wait),
        Reason::JobRunning if wait.subject.kind == Kind::Plan => below_plan(asked, wait),
        Reason::NodeUnmanaged => vec![unmanaged(asked, wait)],
        Reason::JobRunning | Reason::ImageMissing => running(asked, wait),
        Reason::PlannerWorks | Reason::PlannerStalls => planner::chains(asked, wait),
        Reason::KubeletOutdated => outdated(asked, wait),
        Reason::QuorumAtRisk => quorum(asked, wait),
        Reason::NodeRebooting => vec![rebooting(asked, wait)],
        Reason::VolumeUnhealthy => unhealthy(asked, wait),
        Reason::VolumeAttached => attached(asked, wait),
        Reason::VmsLeaving => leaving(asked, wait),
        Reason::ServiceNotReady => vec![services::not_ready(asked, wait)],
        Reason::CleaningUp => vec![cleaning(asked, wait)],
        // What the Upgrade itself says, and what Upgrades never wait for.
        _ => vec![said(asked, wait)],
    }
}

/// Since when; a wait that nobody has published begins now, as far as its engine knows: that says nothing.
pub fn since(asked: &Asked<'_>, wait: &Wait) -> Option<Timestamp> {
    Some(wait.since).filter(|since| asked.cluster.looked_at.duration_since(*since).as_secs() > 1)
}

/// The wait in its own words.
pub fn said(asked: &Asked<'_>, wait: &Wait) -> Chain {
    let meaning = meaning(wait.reason);
    let link = Link::proven((&wait.subject).into(), wait.sentence.clone()).since(since(asked, wait));
    vec![Link { alarm: meaning.alarm, remedy: wait.remedy.clone(), ..link }.outlook(meaning.resolves_itself)]
}

/// What it costs: the node that is out for it, and those behind.
pub fn costs(asked: &Asked<'_>, wait: &Wait) -> Costs {
    if wait.subject.kind != Kind::Node {
        return Costs::default();
    }
    let progress = &asked.scene.progress;
    let step = progress.step(&wait.subject.name);
    if !step.is_at_work() {
        return Costs::default();
    }
    let nodes = asked.upgrade.status.node_statuses.keys();
    let waiting = nodes.filter(|node| progress.step(node) == Step::Waits).count();
    Costs {
        out: vec![wait.subject.name.clone()],
        waiting: i64::try_from(waiting).unwrap_or(i64::MAX),
        phase: step.state().to_lowercase(),
    }
}

pub fn node_of<'a>(asked: &Asked<'a>, wait: &Wait) -> Option<&'a Node> {
    asked.cluster.nodes.named(&wait.subject.name).filter(|_| wait.subject.kind == Kind::Node)
}

/// The chain of a wait, with what was found below; a wait whose cause is known alarms by that.
pub fn with(asked: &Asked<'_>, wait: &Wait, below: Chain) -> Chain {
    let mut chain = said(asked, wait);
    // What was found of the same object says more.
    if chain.last().map(|link| &link.object) == below.first().map(|link| &link.object) {
        chain.pop();
    }
    chain.into_iter().chain(below).collect()
}

fn other_upgrade(asked: &Asked<'_>, wait: &Wait) -> Chain {
    let other = asked.cluster.harvester.upgrades.get(NAMESPACE, &wait.subject.name);
    let other = other.filter(|other| !asked.trail.contains(&ObjectRef::of(*other)));
    let explained = other.map(|other| explain_on(asked.cluster, other, asked.trail));
    let first = explained.and_then(|explained| explained.causes.into_iter().next());
    with(asked, wait, first.map(super::Cause::into_chain).unwrap_or_default())
}

fn importing(asked: &Asked<'_>, wait: &Wait) -> Chain {
    let image = asked.cluster.harvester.images.get(&wait.subject.namespace, &wait.subject.name);
    if let (None, Some(unseen)) = (image, asked.cluster.blind_to("VirtualMachineImage")) {
        // One that cannot be seen may be there all the same.
        let object = ObjectRef::from(&wait.subject);
        let statement = format!("{} could not be looked at: {unseen}", object.in_words());
        return vec![Link::likely(object, statement).outlook(Outlook::Maybe).as_usual()];
    }
    match image {
        Some(seen) if condition(&seen.status.conditions, IMPORTED).is_some() => {
            let below = image::holds(asked.cluster, seen).unwrap_or_default();
            if below.is_empty() { said(asked, wait) } else { below }
        }
        _ => said(asked, wait),
    }
}

fn repository(asked: &Asked<'_>, wait: &Wait) -> Chain {
    let Some(deployment) = asked.cluster.deployments.get(&wait.subject.namespace, &wait.subject.name) else {
        return said(asked, wait).into_iter().map(Link::as_usual).collect();
    };
    let below = driver::without_pods(asked.cluster, deployment);
    let is_asked = deployment.status.available_replicas > 0 && wait.sentence.ends_with("is asked for the release");
    let is_found = below.len() > 1;
    let mut chain = with(asked, wait, below);
    if is_asked || !is_found && is_young(asked.cluster, deployment) {
        chain = chain.into_iter().map(Link::as_usual).collect();
    }
    chain
}

/// It was made, or lost its last pod, just now.
fn is_young(cluster: &Cluster, deployment: &Deployment) -> bool {
    let available = condition(&deployment.status.conditions, "Available");
    let since = available.and_then(|said| said.last_transition_time).max(deployment.metadata.creation_timestamp);
    deployment.status.available_replicas == 0
        && since.is_none_or(|since| cluster.looked_at.duration_since(since) < USUAL_START)
}

/// What holds up a Plan that runs for the Upgrade.
fn below_plan(asked: &Asked<'_>, wait: &Wait) -> Vec<Chain> {
    let Some(plan) = asked.cluster.plan(&wait.subject.namespace, &wait.subject.name) else {
        return vec![said(asked, wait)];
    };
    let explanation = of_plan::explain_on(asked.cluster, plan, asked.trail);
    let mut chains: Vec<Chain> = explanation.causes.into_iter().map(super::Cause::into_chain).collect();
    if chains.is_empty() {
        chains.push(said(asked, wait));
    }
    chains
}

fn unmanaged(asked: &Asked<'_>, wait: &Wait) -> Chain {
    let joined = node_of(asked, wait).and_then(|node| node.metadata.creation_timestamp);
    let mut chain: Chain = said(asked, wait).into_iter().map(|link| link.since(joined)).collect();
    // A Machine that never found its Node may be the one that is missing.
    let machines = asked.cluster.cluster_api.machines.in_namespace(FLEET_NAMESPACE);
    let lost = machines.into_iter().find(|machine| machine.status.node_ref.name.is_empty());
    if let (Some(machine), true) = (lost, wait.sentence.contains("has no Machine")) {
        let phase = &machine.status.phase;
        let statement = format!(
            "Machine {FLEET_NAMESPACE}/{} has no Node ({phase}): likely it is the one that Node {} lacks",
            machine.metadata.name, wait.subject.name
        );
        let remedy =
            format!("kubectl -n {FLEET_NAMESPACE} describe machines.cluster.x-k8s.io {}", machine.metadata.name);
        chain.push(Link::likely(ObjectRef::of(machine), statement).since(joined).remedy(remedy));
    }
    chain
}

/// The Job that is at work: the one that is named, or the one on the node.
pub fn job_at_work<'a>(asked: &Asked<'a>, wait: &Wait) -> Option<&'a Job> {
    match wait.subject.kind {
        Kind::Job => asked.cluster.jobs.get(&wait.subject.namespace, &wait.subject.name),
        _ => {
            let mut jobs = jobs_of(asked.cluster, asked.upgrade).into_iter().rev();
            jobs.find(|job| job.metadata.labels.get(jobs::NODE) == Some(&wait.subject.name) && !job.has_ended())
        }
    }
}

fn running(asked: &Asked<'_>, wait: &Wait) -> Vec<Chain> {
    let Some(job) = job_at_work(asked, wait) else { return vec![said(asked, wait)] };
    // A node that goes down under its upgrade is the first thing to know.
    if let Some(down) = node_of(asked, wait).and_then(|node| node::down(asked.cluster, node)) {
        return vec![with(asked, wait, down)];
    }
    let below = job::runs(asked.cluster, job);
    let is_explained = below.iter().flatten().any(|link| link.alarm);
    if !is_explained {
        let steps = steps_wait_for(asked, job);
        if !steps.is_empty() {
            return steps.iter().flat_map(|wait| chains_of_step(asked, wait)).collect();
        }
    }
    below.into_iter().map(|below| with(asked, wait, below)).collect()
}

/// A step never waits for a Job: what it waits for is not looked for there again.
fn chains_of_step(asked: &Asked<'_>, wait: &Wait) -> Vec<Chain> {
    if wait.reason == Reason::JobRunning { vec![said(asked, wait)] } else { chains(asked, wait) }
}

/// What the steps of a Job wait for, by the very decision that they take. Harvester's own wait for the same things on nodes; what
/// its scripts do to the system services is another story.
fn steps_wait_for(asked: &Asked<'_>, job: &Job) -> Vec<Wait> {
    if job::phase(asked.cluster, &job.metadata.namespace, &job.metadata.name) != job::STEPS {
        return Vec::new();
    }
    let label = |key: &str| job.metadata.labels.get(key).map(String::as_str).unwrap_or_default();
    let is_ours = asked.scene.driver == Driver::Drover && asked.scene.progress.steps == ReleaseSteps::Drover;
    let kind = match label(jobs::JOB_TYPE) {
        "" if is_ours && label(jobs::COMPONENT) == jobs::components::MANIFEST => steps::Kind::Manifests,
        types::PRE_DRAIN => steps::Kind::PreDrain,
        types::POST_DRAIN => steps::Kind::PostDrain,
        types::SINGLE_NODE_UPGRADE => steps::Kind::SingleNode,
        _ => return Vec::new(),
    };
    let order = Order { kind, upgrade: asked.upgrade.metadata.name.clone(), node: label(jobs::NODE).to_owned() };
    let done = Done::to_host([HostDeed::RecoverAgent]);
    let now = asked.cluster.looked_at;
    match steps::next_for(asked.cluster, &order, &asked.scene.upgrade, &done, now) {
        Next::Wait { waits, .. } => waits,
        _ => Vec::new(),
    }
}

/// A node that is down, or a Job that cannot run there, says more.
fn outdated(asked: &Asked<'_>, wait: &Wait) -> Vec<Chain> {
    let Some(seen) = node_of(asked, wait) else { return vec![said(asked, wait)] };
    if let Some(down) = node::down(asked.cluster, seen) {
        return vec![with(asked, wait, down)];
    }
    let runs = job_at_work(asked, wait).map(|job| job::runs(asked.cluster, job)).unwrap_or_default();
    if runs.iter().flatten().any(|link| link.alarm) {
        return runs.into_iter().map(|below| with(asked, wait, below)).collect();
    }
    let is_late = asked.cluster.looked_at.duration_since(wait.since) > USUAL_RESTART;
    let link = planner::not_restarted(asked, seen).since(since(asked, wait));
    vec![with(asked, wait, vec![if is_late { link } else { link.as_usual() }])]
}

/// The members of etcd that are out.
fn quorum(asked: &Asked<'_>, wait: &Wait) -> Vec<Chain> {
    let others = asked.cluster.nodes.iter().filter(|node| {
        node.metadata.name != wait.subject.name && condition(&node.status.conditions, IS_VOTER).is_some()
    });
    let out = others.filter_map(|node| {
        node::down(asked.cluster, node).or_else(|| node::membership(asked.cluster, node).map(|link| vec![link]))
    });
    let chains: Vec<Chain> = out.map(|below| with(asked, wait, below)).collect();
    if chains.is_empty() { vec![said(asked, wait)] } else { chains }
}

fn rebooting(asked: &Asked<'_>, wait: &Wait) -> Chain {
    let Some(node) = node_of(asked, wait) else { return said(asked, wait) };
    let (cluster, name) = (asked.cluster, &node.metadata.name);
    let jobs = jobs_of(cluster, asked.upgrade).into_iter();
    let own = jobs.filter(|job| job.metadata.labels.get(jobs::NODE) == Some(name));
    let begun = own.filter_map(|job| job.status.completion_time).max();
    let mut chain: Chain = said(asked, wait).into_iter().map(|link| link.since(begun)).collect();
    if let Some(down) = node::down(cluster, node) {
        chain.extend(down);
        return chain;
    }
    let is_late = begun.is_some_and(|begun| cluster.looked_at.duration_since(begun) > USUAL_REBOOT);
    if is_late {
        let (runs, wanted) = (&node.status.node_info.os_image, asked.scene.progress.release.as_ref());
        let wanted = wanted.map(|release| release.os.as_str()).unwrap_or_default();
        let statement = format!("Node {name} is up and still runs {runs}, not {wanted}: its new system did not boot");
        let remedy = format!(
            "look at the console of {name} which entry it boots, and at /usr/local/upgrade_tmp for why the new one was not \
             written; then reboot it"
        );
        chain.push(Link::proven(ObjectRef::of(node), statement).since(begun).remedy(remedy));
    }
    chain
}

fn unhealthy(asked: &Asked<'_>, wait: &Wait) -> Vec<Chain> {
    let named = |volume: &&Volume| {
        let list = wait.sentence.rsplit(": ").next().unwrap_or_default();
        list.split(", ").any(|one| one == volume.claim())
    };
    let volumes = asked.cluster.longhorn.volumes.iter().filter(named);
    let chains: Vec<Chain> = volumes.map(|seen| with(asked, wait, volume::unhealthy(asked.cluster, seen))).collect();
    if chains.is_empty() { vec![said(asked, wait)] } else { chains }
}

/// Down to each volume, or engine of none, that keeps its node.
fn attached(asked: &Asked<'_>, wait: &Wait) -> Vec<Chain> {
    let longhorn = &asked.cluster.longhorn;
    let list = wait.sentence.split_once(": ").map(|(_, list)| list).unwrap_or_default();
    let is_named = |text: &str| list.split(", ").any(|one| one.split(" (").next() == Some(text));
    let volumes = longhorn.volumes.iter().filter(|volume| is_named(&volume.claim())).map(ObjectRef::of);
    let engines = longhorn
        .engines
        .iter()
        .filter(|engine| is_named(&format!("Engine {}/{}", engine.metadata.namespace, engine.metadata.name)));
    // Longhorn takes a while to let go what it was told to.
    let is_new = since(asked, wait).is_none_or(|since| asked.cluster.looked_at.duration_since(since) < USUAL_START);
    let chains = volumes.chain(engines.map(ObjectRef::of)).map(|object| {
        let statement = format!("{} is attached to Node {}, and nothing uses it", object.in_words(), wait.subject.name);
        let link = Link { remedy: wait.remedy.clone(), ..Link::proven(object, statement) }.outlook(Outlook::Maybe);
        with(asked, wait, vec![if is_new { link.as_usual() } else { link }])
    });
    let chains: Vec<Chain> = chains.collect();
    if chains.is_empty() { vec![said(asked, wait)] } else { chains }
}

fn leaving(asked: &Asked<'_>, wait: &Wait) -> Vec<Chain> {
    let here = |vm: &&VirtualMachineInstance| vm.status.node_name == wait.subject.name && !vm.is_over();
    let vms = asked.cluster.kubevirt.instances.iter().filter(here);
    // The step says which of these it does.
    if wait.sentence.starts_with("VMs can leave") {
        return vec![said(asked, wait)];
    }
    let are_stopped = wait.sentence.starts_with("VMs that cannot migrate");
    let way = if are_stopped { vm::shut_off } else { vm::leaves };
    let chains: Vec<Chain> = vms.map(|seen| with(asked, wait, way(asked.cluster, seen))).collect();
    if chains.is_empty() { vec![said(asked, wait)] } else { chains }
}

/// Something that is being deleted and does not go.
fn cleaning(asked: &Asked<'_>, wait: &Wait) -> Chain {
    let (cluster, name) = (asked.cluster, &asked.upgrade.metadata.name);
    let image = cluster.harvester.images.get(NAMESPACE, name).map(|one| (ObjectRef::of(one), &one.metadata));
    let repository = crate::harvester::names::repository(name);
    let repository = cluster.deployments.get(NAMESPACE, &repository).map(|one| (ObjectRef::of(one), &one.metadata));
    let kept = [image, repository].into_iter().flatten().find_map(|(object, metadata)| {
        let since = metadata.deleted_since()?;
        let finalizer = metadata.finalizers.iter().find(|finalizer| !finalizer.contains("foregroundDeletion"))?;
        let is_late = cluster.looked_at.duration_since(since) > USUAL_START;
        let statement = format!("{} is being deleted, but is kept by the finalizer {finalizer}", object.in_words());
        let remedy = "look why whoever set the finalizer does not take it away";
        let link = Link::proven(object, statement).since(Some(since)).outlook(Outlook::Maybe).remedy(remedy);
        Some(if is_late { link } else { link.as_usual() })
    });
    with(asked, wait, kept.into_iter().collect())
}
