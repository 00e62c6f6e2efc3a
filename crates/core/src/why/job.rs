//! Why a Job has not ended, or has failed.

use drover_api::plan::labels::JOB_NAME;
use jiff::SignedDuration;

use super::link::{Certainty, Chain, Link, Outlook};
use super::{drain, pod};
use crate::cluster::{Cluster, Job, ObjectRef, Pod};

/// So long the Job controller may take to make a pod.
const USUAL: SignedDuration = SignedDuration::from_secs(60);
/// The old name of the label by which pods name their Job.
const LEGACY_JOB_NAME: &str = "job-name";
/// What Jobs of Upgrades do.
pub const STEPS: &str = "running its steps";
/// The containers of an upgrade, by what they are doing.
const PHASES: [(&str, &str); 5] = [
    ("cordon", "cordoning"),
    ("drain", "draining"),
    ("prepare", "preparing"),
    ("upgrade", "upgrading"),
    (drover_api::harvester::jobs::CONTAINER, STEPS),
];

/// The pods of a Job, the newest last.
pub fn pods<'a>(cluster: &'a Cluster, namespace: &'a str, name: &str) -> Vec<&'a Pod> {
    let is_of = |pod: &&Pod| {
        let label = |key: &str| pod.metadata.labels.get(key).is_some_and(|job| job == name);
        label(JOB_NAME) || label(LEGACY_JOB_NAME)
    };
    let mut pods: Vec<&Pod> = cluster.pods.in_namespace(namespace).filter(is_of).collect();
    pods.sort_by_key(|pod| (pod.metadata.creation_timestamp, pod.metadata.name.clone()));
    pods
}

/// Which part of an upgrade is at work, by the container that runs.
pub fn phase(cluster: &Cluster, namespace: &str, name: &str) -> &'static str {
    let pods = pods(cluster, namespace, name);
    let Some(pod) = pods.iter().rev().find(|pod| !pod.has_ended()) else { return "starting" };
    let running = pod.container_statuses().find(|status| status.state.running.is_some());
    running
        .and_then(|status| PHASES.iter().find(|(name, _)| *name == status.name))
        .map_or("starting", |(_, phase)| phase)
}

/// Why a Job that runs has not ended, from the Job down.
pub fn runs(cluster: &Cluster, job: &Job) -> Vec<Chain> {
    let object = ObjectRef::of(job);
    let (namespace, name) = (&job.metadata.namespace, &job.metadata.name);
    let begun = job.status.start_time.or(job.metadata.creation_timestamp);
    let at_work =
        |statement: String| Link::proven(object.clone(), statement).since(begun).outlook(Outlook::Yes).as_usual();
    if job.metadata.deletion_timestamp.is_some() {
        return vec![vec![being_deleted(job)]];
    }
    if job.spec.suspend {
        let remedy =
            format!("kubectl patch job -n {namespace} {name} --type=merge -p '{{\"spec\":{{\"suspend\":false}}}}'");
        return vec![vec![
            Link::proven(object, format!("Job {namespace}/{name} is suspended")).since(begun).remedy(remedy),
        ]];
    }
    let pods = pods(cluster, namespace, name);
    let Some(last) = pods.iter().rev().find(|pod| !pod.has_ended()) else {
        return vec![without_pod(cluster, job, pods.last().copied())];
    };
    let phase = phase(cluster, namespace, name);
    let first = at_work(format!("Job {namespace}/{name} is at work: {phase}"));
    if phase == "draining"
        && let Some(node) = cluster.nodes.named(&last.spec.node_name)
    {
        let held = drain::leftovers(cluster, node);
        if !held.is_empty() {
            return held.into_iter().map(|below| [vec![first.clone()], below].concat()).collect();
        }
    }
    match pod::holds(cluster, last) {
        // Starting and working are not worth a link of their own.
        Some(below) if below.last().is_some_and(|link| link.alarm) => vec![[vec![first], below].concat()],
        _ => vec![vec![first]],
    }
}

fn being_deleted(job: &Job) -> Link {
    let (namespace, name) = (&job.metadata.namespace, &job.metadata.name);
    let link = |statement: String| Link::proven(ObjectRef::of(job), statement).since(job.metadata.deleted_since());
    match job.metadata.finalizers.iter().find(|finalizer| !finalizer.contains("foregroundDeletion")) {
        Some(finalizer) => {
            link(format!("Job {namespace}/{name} is being deleted, but is kept by the finalizer {finalizer}"))
                .remedy("look why whoever set the finalizer does not take it away")
        }
        None => link(format!("Job {namespace}/{name} is being deleted")).outlook(Outlook::Yes).as_usual(),
    }
}

/// A Job that runs and has no pod: none was made, or the last one has ended and the next one is due.
fn without_pod(cluster: &Cluster, job: &Job, ended: Option<&Pod>) -> Chain {
    let object = ObjectRef::of(job);
    let (namespace, name) = (&job.metadata.namespace, &job.metadata.name);
    let begun = job.status.start_time.or(job.metadata.creation_timestamp);
    let told = cluster.events_about(&object).into_iter().rev().find(|event| event.reason == "FailedCreate");
    if let Some(event) = told.filter(|_| ended.is_none()) {
        let statement = format!("Job {namespace}/{name} cannot make its pod: {}", event.message);
        return vec![Link::proven(object, statement).since(event.first_seen()).outlook(Outlook::Maybe)];
    }
    if let Some(failed) = ended.and_then(|pod| pod::holds(cluster, pod)) {
        let statement = format!("a pod of Job {namespace}/{name} has failed, and another one is due");
        let link = Link::proven(object, statement).since(begun).outlook(Outlook::Maybe);
        let below = failed.into_iter().map(|link| link.outlook(Outlook::Maybe));
        return [link].into_iter().chain(below).collect();
    }
    let is_new = begun.is_some_and(|begun| cluster.looked_at.duration_since(begun) < USUAL) || ended.is_some();
    let link = Link::proven(object, format!("Job {namespace}/{name} has no pod")).since(begun).outlook(Outlook::Maybe);
    let link = Link { certainty: Certainty::Likely, ..link }.remedy("look whether kube-controller-manager works");
    vec![if is_new { link.as_usual() } else { link }]
}

/// Why a Job has failed, from the Job down.
pub fn failed(cluster: &Cluster, job: &Job) -> Chain {
    let (namespace, name) = (&job.metadata.namespace, &job.metadata.name);
    let failure = job.failure();
    let text = failure.map_or_else(String::new, |failure| format!(": {}: {}", failure.reason, failure.message));
    let mut chain = vec![
        Link::proven(ObjectRef::of(job), format!("Job {namespace}/{name} failed{text}"))
            .since(failure.and_then(|failure| failure.last_transition_time))
            .remedy(format!("find out why, then try again: kubectl delete job -n {namespace} {name}")),
    ];
    let pods = pods(cluster, namespace, name);
    let last = pods.iter().rev().find(|pod| pod.status.phase == "Failed").or(pods.last());
    let is_late = failure.is_some_and(|failure| failure.reason == "DeadlineExceeded");
    if let Some(below) = last.and_then(|pod| pod::holds(cluster, pod)).filter(|below| !is_late || below.len() > 1) {
        chain.extend(below);
    } else if is_late {
        chain.extend(what_it_waited_for(cluster, job));
    }
    chain
}

/// A drain that ran into its deadline was most likely held up by what holds it up still.
fn what_it_waited_for(cluster: &Cluster, job: &Job) -> Chain {
    let node = job.metadata.labels.get(drover_api::plan::labels::NODE);
    let node = node.and_then(|node| cluster.nodes.named(node)).filter(|node| node.spec.unschedulable);
    let held = node.map(|node| drain::leftovers(cluster, node)).unwrap_or_default();
    let likely = |link: Link| Link { certainty: Certainty::Likely, ..link };
    held.into_iter().next().unwrap_or_default().into_iter().map(likely).collect()
}
