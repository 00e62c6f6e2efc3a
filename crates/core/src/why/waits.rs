//! Each wait of the Plan engine, followed down to the object that causes it.

use drover_api::plan::conditions;

use super::link::{Certainty, Chain, Costs, Link, Outlook};
use super::plan::{explain_on, jobs_on};
use super::reasons::meaning;
use super::{Driver, budget, ending, job, node, pod};
use crate::cluster::{Cluster, Node, ObjectRef, Pod};
use crate::decision::{Kind, Reason, Wait};
use crate::plan::gate::gate_of;
use crate::seen::PlanSeen;

/// What is being explained.
pub struct Asked<'a> {
    pub cluster: &'a Cluster,
    pub plan: &'a PlanSeen,
    pub driver: Driver,
    /// The Plans that led here, this one last.
    pub trail: &'a [ObjectRef],
}

/// From below the Plan down to the cause; an empty chain where the wait says it all.
pub fn chains(asked: &Asked<'_>, wait: &Wait) -> Vec<Chain> {
    match wait.reason {
        Reason::SecretNotFound => missing_secrets(asked),
        Reason::NodeNotReady => vec![not_ready(asked, wait)],
        Reason::JobRunning | Reason::NodeSlow | Reason::NodeStalled => running(asked, wait),
        Reason::JobFailed => vec![failed(asked, wait)],
        Reason::JobBeingDeleted => being_deleted(asked, wait),
        Reason::BudgetForbids | Reason::PodTerminating | Reason::EvictionRefused => vec![pod_stays(asked, wait)],
        Reason::VolumeAttached => vec![attached(asked, wait)],
        Reason::OtherPlanFirst | Reason::ExclusivePlanActs => vec![other_plan(asked, wait)],
        Reason::NodeClaimedByAnother => vec![taken_by_another(asked, wait)],
        Reason::GateClosed | Reason::GateFails => vec![gate(asked, wait)],
        // What the Plan itself says, and what Plans never wait for.
        _ => vec![itself(wait)],
    }
}

/// The wait in its own words.
pub fn itself(wait: &Wait) -> Chain {
    let meaning = meaning(wait.reason);
    let link = Link::proven((&wait.subject).into(), wait.sentence.clone()).since(Some(wait.since));
    let link = Link { alarm: meaning.alarm, remedy: wait.remedy.clone(), ..link };
    vec![link.outlook(meaning.resolves_itself)]
}

/// What it costs: the node that is out for it, and those behind.
pub fn costs(asked: &Asked<'_>, wait: &Wait, held_back: i64) -> Costs {
    let node = match wait.subject.kind {
        Kind::Node => Some(wait.subject.name.clone()),
        Kind::Pod => pod_of(asked, wait).map(|pod| pod.spec.node_name.clone()),
        _ => None,
    };
    let jobs = node.as_ref().map(|node| jobs_on(asked, node)).unwrap_or_default();
    let at_work = jobs.iter().rev().find(|job| !job.has_ended());
    let phase = match wait.reason {
        Reason::BudgetForbids | Reason::PodTerminating | Reason::EvictionRefused | Reason::VolumeAttached => "draining",
        Reason::JobRunning | Reason::NodeSlow | Reason::NodeStalled => {
            at_work.map_or("upgrading", |job| job::phase(asked.cluster, &job.metadata.namespace, &job.metadata.name))
        }
        _ => "",
    };
    let is_out = |name: &String| {
        asked.plan.claims.nodes.contains_key(name) || asked.driver != Driver::Drover && !jobs.is_empty()
    };
    let waiting = if node.is_some() { held_back } else { 0 };
    Costs { out: node.into_iter().filter(is_out).collect(), waiting, phase: phase.to_owned() }
}

fn missing_secrets(asked: &Asked<'_>) -> Vec<Chain> {
    let Ok(spec) = &asked.plan.spec else { return Vec::new() };
    let namespace = &asked.plan.meta.namespace;
    let gone = spec
        .secrets
        .iter()
        .filter(|secret| !secret.ignore_updates && asked.cluster.secrets.get(namespace, &secret.name).is_none());
    gone.map(|secret| {
        let object = ObjectRef::new("Secret", namespace, &secret.name);
        let statement = format!("{} is not there, and spec.secrets of the Plan names it", object.in_words());
        let remedy = format!("create it in namespace {namespace}, or take it out of spec.secrets");
        vec![Link::proven(object, statement).since(since_condition(asked)).remedy(remedy)]
    })
    .collect()
}

fn since_condition(asked: &Asked<'_>) -> Option<jiff::Timestamp> {
    let mut conditions = asked.plan.status.conditions.iter();
    let validated = conditions.find(|condition| condition.type_ == conditions::VALIDATED)?;
    validated.last_update_time.parse().ok().filter(|_| validated.status == conditions::FALSE)
}

fn node_of<'a>(asked: &Asked<'a>, wait: &Wait) -> Option<&'a Node> {
    asked.cluster.nodes.named(&wait.subject.name).filter(|_| wait.subject.kind == Kind::Node)
}

fn pod_of<'a>(asked: &Asked<'a>, wait: &Wait) -> Option<&'a Pod> {
    asked.cluster.pods.get(&wait.subject.namespace, &wait.subject.name).filter(|_| wait.subject.kind == Kind::Pod)
}

fn not_ready(asked: &Asked<'_>, wait: &Wait) -> Chain {
    let Some(down) = node_of(asked, wait).and_then(|node| node::down(asked.cluster, node)) else {
        return itself(wait);
    };
    let is_ours = asked.plan.claims.nodes.contains_key(&wait.subject.name);
    down.into_iter().map(|link| if is_ours { node::comes_back(asked.cluster, link) } else { link }).collect()
}

fn running(asked: &Asked<'_>, wait: &Wait) -> Vec<Chain> {
    let jobs = jobs_on(asked, &wait.subject.name);
    let Some(job) = jobs.into_iter().rev().find(|job| !job.has_ended()) else { return vec![itself(wait)] };
    let first = itself(wait);
    // A node that goes down under its upgrade is the first thing to know.
    let down = node_of(asked, wait).and_then(|node| node::down(asked.cluster, node));
    if let Some(down) = down {
        return vec![
            first.into_iter().chain(down.into_iter().map(|link| node::comes_back(asked.cluster, link))).collect(),
        ];
    }
    let below = job::runs(asked.cluster, job);
    let is_explained = below.iter().flatten().any(|link| link.alarm);
    if wait.reason != Reason::JobRunning && !is_explained {
        return vec![first];
    }
    below.into_iter().map(|below| first.iter().cloned().chain(below).collect()).collect()
}

fn failed(asked: &Asked<'_>, wait: &Wait) -> Chain {
    let jobs = jobs_on(asked, &wait.subject.name);
    let mut chain = itself(wait);
    if let Some(job) = jobs.into_iter().rev().find(|job| job.failure().is_some()) {
        chain.extend(job::failed(asked.cluster, job));
    }
    // Drover tries again after a pause; the original leaves a failed node as it is.
    let outlook = if asked.driver == Driver::Drover { Outlook::Maybe } else { Outlook::No };
    chain.into_iter().map(|link| link.outlook(outlook)).collect()
}

fn being_deleted(asked: &Asked<'_>, wait: &Wait) -> Vec<Chain> {
    let jobs = jobs_on(asked, &wait.subject.name);
    let Some(job) = jobs.into_iter().rev().find(|job| job.metadata.deletion_timestamp.is_some()) else {
        return vec![itself(wait)];
    };
    let pods = job::pods(asked.cluster, &job.metadata.namespace, &job.metadata.name);
    let ending = pods.into_iter().find_map(|pod| ending::holds(asked.cluster, pod));
    let below = job::runs(asked.cluster, job).into_iter().flatten().chain(ending.unwrap_or_default());
    vec![itself(wait).into_iter().chain(below).collect()]
}

fn pod_stays(asked: &Asked<'_>, wait: &Wait) -> Chain {
    let mut chain = itself(wait);
    let Some(pod) = pod_of(asked, wait) else { return chain };
    let owner = asked.cluster.root_owner(&pod.metadata);
    let below = match pod.is_ending() {
        true => return ending::holds(asked.cluster, pod).unwrap_or(chain),
        false => budget::forbids(asked.cluster, pod)
            .or_else(|| pod::holds(asked.cluster, pod).filter(|_| wait.reason == Reason::EvictionRefused)),
    };
    chain.iter_mut().for_each(|link| link.owner.clone_from(&owner));
    chain.extend(below.unwrap_or_default());
    chain
}

fn attached(asked: &Asked<'_>, wait: &Wait) -> Chain {
    let mut chain = itself(wait);
    let on_node = asked.cluster.attachments.iter().find(|attachment| {
        attachment.spec.node_name == wait.subject.name
            && wait.sentence.contains(&attachment.spec.source.persistent_volume_name)
    });
    if let Some(attachment) = on_node {
        let error = attachment.status.detach_error.as_ref().map(|error| format!(": {}", error.message));
        let statement = format!(
            "volume {} is not detached from Node {}{}",
            attachment.spec.source.persistent_volume_name,
            attachment.spec.node_name,
            error.clone().unwrap_or_default()
        );
        let link = Link::proven(ObjectRef::of(attachment), statement).since(attachment.metadata.deleted_since());
        chain.push(link.outlook(Outlook::Maybe).remedy(format!("look at the driver {}", attachment.spec.attacher)));
    }
    chain
}

/// What holds up the Plan that this one waits for.
fn other_plan(asked: &Asked<'_>, wait: &Wait) -> Chain {
    let mut chain = itself(wait);
    let names: Vec<&str> = wait.sentence.split([' ', ',']).collect();
    let other = asked.cluster.plans().find(|other| {
        let is_named = names
            .iter()
            .any(|name| *name == other.meta.name || *name == format!("{}/{}", other.meta.namespace, other.meta.name));
        is_named && other.meta.uid != asked.plan.meta.uid && other.meta.namespace == asked.plan.meta.namespace
    });
    chain.extend(other.map(|other| below(asked, other)).unwrap_or_default());
    chain
}

fn taken_by_another(asked: &Asked<'_>, wait: &Wait) -> Chain {
    let mut chain = itself(wait);
    let mark = asked.cluster.engine.nodes.get(&wait.subject.name).and_then(|node| node.mark.as_ref());
    let other = mark.and_then(|mark| asked.cluster.plan(&mark.owner.namespace, &mark.owner.name));
    chain.extend(other.map(|other| below(asked, other)).unwrap_or_default());
    chain
}

fn below(asked: &Asked<'_>, other: &PlanSeen) -> Chain {
    let object = ObjectRef::from(&other.subject());
    let is_loop = asked.trail.contains(&object);
    let mut chain =
        vec![Link::proven(object, format!("Plan {}/{} is not done", other.meta.namespace, other.meta.name)).as_usual()];
    if is_loop {
        return chain;
    }
    let explanation = explain_on(asked.cluster, other, asked.trail);
    if let Some(first) = explanation.causes.into_iter().next() {
        let below = first.into_chain();
        // The first link says of the Plan what is said of it here already; an only one says more.
        match below.len() {
            1 => chain = below,
            _ => chain.extend(below.into_iter().skip(1)),
        }
    }
    chain
}

/// The object that the gate is over.
fn gate(asked: &Asked<'_>, wait: &Wait) -> Chain {
    let mut chain = itself(wait);
    if let (Some(target), Some(first)) = (gate_of(asked.plan), chain.first().cloned()) {
        let object = ObjectRef::new(&target.resource, &target.namespace, &target.name);
        chain.push(Link { object, certainty: Certainty::Proven, ..first });
    }
    chain
}
