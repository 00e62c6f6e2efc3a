//! What is to be done for an Upgrade, and nobody does.

use drover_api::harvester::upgrade::{annotations, labels};
use drover_api::harvester::{NAMESPACE, jobs};
use drover_api::rancher::machine_plan::annotations::{POST_DRAIN, POST_HOOK, PRE_DRAIN, PRE_HOOK};
use jiff::{SignedDuration, Timestamp};

use super::super::Driver;
use super::super::driver;
use super::super::link::{Certainty, Chain, Link, Outlook};
use super::{Asked, jobs_of};
use crate::cluster::ObjectRef;
use crate::decision::{Decision, Kind, Purpose, Reason, Write};
use crate::harvester::progress::Ending;

/// So long a controller may take to act.
const USUAL: SignedDuration = SignedDuration::from_mins(5);
/// Harvester's own controllers are part of this Deployment.
const HARVESTER: &str = "harvester";

/// From the Upgrade down.
pub fn found(asked: &Asked<'_>, decision: &Decision) -> Vec<Chain> {
    let is_over = matches!(asked.scene.progress.ended, Some(Ending::Failed { .. })) && asked.scene.progress.cleaned;
    if is_over || asked.upgrade.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let Some(last) = last_sign(asked) else { return Vec::new() };
    if asked.cluster.looked_at.duration_since(last) < USUAL {
        return Vec::new();
    }
    let chains = match asked.scene.driver {
        Driver::Harvester => undone(asked, decision),
        Driver::Drover => unled(asked, decision).into_iter().collect(),
        Driver::Nobody | Driver::SystemUpgradeController => untouched(asked, decision).into_iter().collect(),
    };
    let dated = |link: Link| if link.since.is_none() { link.since(Some(last)) } else { link };
    chains.into_iter().map(|chain: Chain| chain.into_iter().map(dated).collect()).collect()
}

/// The latest moment at which something of the Upgrade is known to have happened.
fn last_sign(asked: &Asked<'_>) -> Option<Timestamp> {
    let conditions = asked.upgrade.status.conditions.iter().filter_map(|said| said.last_transition_time);
    let jobs = jobs_of(asked.cluster, asked.upgrade).into_iter();
    let jobs = jobs.filter_map(|job| job.metadata.creation_timestamp.max(job.status.completion_time));
    // A node that came back just now has yet to be looked at.
    let nodes = asked.cluster.nodes.iter().filter(|node| asked.scene.progress.nodes.contains_key(&node.metadata.name));
    let nodes = nodes.filter_map(|node| node.ready().and_then(|ready| ready.last_transition_time));
    conditions.chain(jobs).chain(nodes).max().or(asked.upgrade.metadata.creation_timestamp)
}

/// What is to be done, as far as it can be seen that it is not: nobody looks at Services.
fn acts(decision: &Decision) -> impl Iterator<Item = &Write> {
    let seen = decision.writes().filter(|write| write.subject.kind != Kind::Service);
    seen.filter(|write| {
        matches!(
            write.purpose,
            Purpose::Acknowledge
                | Purpose::CreateJob
                | Purpose::MarkNode
                | Purpose::Provide
                | Purpose::AskPlanner
                | Purpose::CleanUp
        )
    })
}

fn own(asked: &Asked<'_>, statement: impl Into<String>) -> Link {
    Link { certainty: Certainty::Likely, ..Link::proven(ObjectRef::of(asked.upgrade), statement) }
}

/// Nobody has begun with it, and nothing speaks against that.
fn untouched(asked: &Asked<'_>, decision: &Decision) -> Option<Chain> {
    let harvester = asked.cluster.deployments.get(NAMESPACE, HARVESTER);
    let is_held = decision.waits.iter().any(|wait| wait.reason != Reason::AnotherControllerActs);
    if is_held {
        return None;
    }
    let link = own(asked, "no controller has begun with this Upgrade");
    Some(match harvester {
        Some(deployment) => {
            let restart = format!("restart it: kubectl -n {NAMESPACE} rollout restart deployment {HARVESTER}");
            let below = driver::without_pods(asked.cluster, deployment);
            [vec![link.remedy(restart)], below].concat()
        }
        None => vec![link.remedy("run drover operator --controllers harvester, or Harvester itself")],
    })
}

/// Drover has begun, and no longer does what is next.
fn unled(asked: &Asked<'_>, decision: &Decision) -> Option<Chain> {
    acts(decision).next()?;
    let operators = asked.cluster.deployments.iter().filter(|one| one.metadata.name == "drover");
    let below =
        operators.into_iter().map(|one| driver::without_pods(asked.cluster, one)).find(|chain| !chain.is_empty());
    let link = own(asked, "nothing is in the way of the next step, but no operator takes it");
    let link = link.remedy("look whether drover operator runs with the controller harvester, and what it logs");
    Some([vec![link], below.unwrap_or_default()].concat())
}

/// What the engine would do at this point and Harvester has not done: it loses track of events, and then waits for ever.
fn undone(asked: &Asked<'_>, decision: &Decision) -> Vec<Chain> {
    let pods = asked.cluster.deployments.get(NAMESPACE, HARVESTER);
    let below = pods.map(|deployment| driver::without_pods(asked.cluster, deployment)).unwrap_or_default();
    if !below.is_empty() && acts(decision).next().is_some() {
        return vec![[vec![own(asked, "Harvester's upgrade controller does not run")], below].concat()];
    }
    if asked.scene.progress.ended == Some(Ending::Succeeded) {
        return not_cleaned(asked).into_iter().collect();
    }
    let is_of_paused = |write: &Write| {
        let node = asked.scene.paused.iter().find(|node| write.subject.name.ends_with(node.as_str()));
        node.is_some() && write.subject.kind == Kind::Job
    };
    let missing = acts(decision).filter(|write| !is_of_paused(write));
    missing.filter_map(|write| lost(asked, write)).collect()
}

fn lost(asked: &Asked<'_>, write: &Write) -> Option<Chain> {
    let subject = ObjectRef::from(&write.subject);
    let restart = format!("kubectl -n {NAMESPACE} rollout restart deployment {HARVESTER}");
    let link = match write.purpose {
        Purpose::Acknowledge => unanswered(asked, write)?,
        Purpose::CreateJob => {
            let job = subject.name.clone();
            let statement = format!("Harvester has not made Job {NAMESPACE}/{job}, although it is its turn");
            Link { certainty: Certainty::Likely, ..Link::proven(subject, statement) }.remedy(restart)
        }
        Purpose::MarkNode => {
            let node = &subject.name;
            let wanted = asked.scene.progress.release.as_ref().map(|release| release.os.as_str()).unwrap_or_default();
            let key = drover_api::harvester::node::PENDING_OS_IMAGE;
            let statement =
                format!("Node {node} has no annotation {key}: Harvester does not notice that it has rebooted");
            let remedy = format!("kubectl annotate node {node} {key}='{wanted}'");
            Link::proven(subject, statement).remedy(remedy)
        }
        Purpose::Provide | Purpose::AskPlanner => {
            let statement = format!("Harvester has not gone on to {}", subject.in_words());
            Link { certainty: Certainty::Likely, ..Link::proven(subject, statement) }.remedy(restart)
        }
        _ => return None,
    };
    Some(vec![own(asked, "Harvester does not go on"), link.outlook(Outlook::No)])
}

/// Rancher asks by an annotation, and waits until another one has the same value.
fn unanswered(asked: &Asked<'_>, write: &Write) -> Option<Link> {
    let secret = asked.cluster.secrets.get(&write.subject.namespace, &write.subject.name)?;
    let note = |key: &str| secret.metadata.annotations.get(key).filter(|value| !value.is_empty());
    let pairs = [(PRE_DRAIN, PRE_HOOK), (POST_DRAIN, POST_HOOK)];
    let (asks, answers) =
        pairs.into_iter().find(|(asks, answers)| note(asks).is_some() && note(asks) != note(answers))?;
    let (namespace, name) = (&secret.metadata.namespace, &secret.metadata.name);
    let statement =
        format!("Rancher waits for {answers} on Secret {namespace}/{name}, which Harvester has lost or never written");
    let remedy = format!(
        "copy the value of {asks}: kubectl -n {namespace} annotate secret {name} --overwrite {answers}=\"$(kubectl -n {namespace} get \
         secret {name} -o jsonpath='{{.metadata.annotations.{}}}')\"",
        asks.replace('.', "\\.")
    );
    Some(Link::proven(ObjectRef::of(secret), statement).remedy(remedy))
}

/// It has succeeded, and Harvester refuses every later Upgrade until it has cleaned up.
fn not_cleaned(asked: &Asked<'_>) -> Option<Chain> {
    if asked.scene.progress.cleaned {
        return None;
    }
    let name = &asked.upgrade.metadata.name;
    let plan = format!("{name}-{}", jobs::names::CLEANUP);
    let is_purging = asked.cluster.plan(drover_api::harvester::CATTLE_NAMESPACE, &plan).is_some();
    let is_noted = asked.upgrade.metadata.annotations.contains_key(annotations::IMAGES_CLEANED);
    let why = match is_purging || is_noted {
        true => "Upgrade has succeeded, and its clean-up does not end",
        false => {
            "Upgrade has succeeded, and its clean-up waits for a Plan that Harvester never makes where both releases list the same images"
        }
    };
    let remedy = format!(
        "if nothing of it is left: kubectl -n {NAMESPACE} label upgrades.harvesterhci.io {name} {}=Succeeded --overwrite",
        labels::CLEANUP
    );
    Some(vec![own(asked, why).remedy(remedy)])
}
