//! Why a node is out of order: silent, not Ready, without its etcd membership, cordoned, short of something.

use jiff::{SignedDuration, Timestamp};

use drover_api::harvester::{NAMESPACE, jobs};

use super::link::{Cause, Chain, Link, Outlook, sort};
use super::plan::once_a_root;
use super::{Driver, Explanation, drain, upgrade};
use crate::cluster::{Cluster, Condition, NODE_LEASES, Node, ObjectRef, condition};
use crate::harvester::progress::Step;

const ETCD_ROLE: &str = "node-role.kubernetes.io/etcd";
const ETCD_VOTER: &str = "EtcdIsVoter";
/// Who becomes a voter so long after another has ceased to be one took its place, probably.
const SUCCESSION: SignedDuration = SignedDuration::from_hours(2);
/// How long a node may be away for an upgrade, or take to report for the first time.
const USUAL_REBOOT: SignedDuration = SignedDuration::from_mins(10);
const PRESSURES: [(&str, &str); 3] =
    [("DiskPressure", "disk space"), ("MemoryPressure", "memory"), ("PIDPressure", "process ids")];

pub fn explain(cluster: &Cluster, node: &Node) -> Explanation {
    let mut chains: Vec<Chain> = Vec::new();
    match down(cluster, node) {
        Some(down) => chains.push(down),
        None => chains.extend(membership(cluster, node).map(|link| vec![link])),
    }
    chains.extend(pressures(node).map(|link| vec![link]));
    let is_in_service = node.is_ready() && !node.spec.unschedulable;
    let stage = if is_in_service { None } else { upgrade::stage_of(cluster, &node.metadata.name) };
    // What an Upgrade waits for with a node is known; what a drain would wait for matters only when one is under way.
    if node.spec.unschedulable && stage.is_none() {
        chains.extend(drain::leftovers(cluster, node));
    }
    let of_upgrade = stage.map(|stage| upgrade::about_node(cluster, &stage, node)).unwrap_or_default();
    if chains.is_empty() && of_upgrade.is_empty() && node.spec.unschedulable {
        chains.push(vec![cordoned(cluster, node)]);
    }
    let mut causes: Vec<Cause> = chains.into_iter().filter_map(Cause::of).chain(of_upgrade).collect();
    causes = once_a_root(causes);
    sort(&mut causes);
    let complete = causes.is_empty();
    Explanation {
        object: ObjectRef::of(node),
        summary: summary(node),
        complete,
        driver: None,
        causes,
        unseen: Vec::new(),
    }
}

fn summary(node: &Node) -> String {
    let ready = match node.ready().map(|ready| ready.status.as_str()) {
        Some("True") => "Ready",
        Some("Unknown") => "not Ready: its kubelet is silent",
        Some(_) => "not Ready",
        None => "never heard of",
    };
    let cordon = if node.spec.unschedulable { ", cordoned" } else { "" };
    let version = match node.status.node_info.kubelet_version.as_str() {
        "" => String::new(),
        version => format!(", kubelet {version}"),
    };
    format!("{ready}{cordon}{version}")
}

/// A node that is being upgraded may restart its kubelet or reboot: for a while that is no alarm.
pub fn comes_back(cluster: &Cluster, link: Link) -> Link {
    let away = link.since.map(|since| cluster.looked_at.duration_since(since));
    if link.object.kind == "Node" && away.is_none_or(|away| away < USUAL_REBOOT) { link.as_usual() } else { link }
}

/// A Plan or an Upgrade has the node out of service, and it may go down meanwhile.
fn is_out(cluster: &Cluster, node: &Node) -> bool {
    let name = &node.metadata.name;
    cluster.engine.nodes.get(name).is_some_and(|seen| seen.mark.is_some())
        || upgrade::stage_of(cluster, name).is_some_and(|stage| stage.is_out())
}

/// Since when the node is being emptied, as far as it is told: cordoned, or a Job sends its VMs away.
pub fn emptied_since(cluster: &Cluster, node: &Node) -> Option<Timestamp> {
    let cordon = node.spec.taints.iter().find(|taint| taint.key == drover_api::node::UNSCHEDULABLE_TAINT);
    let jobs = cluster.jobs.in_namespace(NAMESPACE).filter(|job| {
        let label = |key: &str| job.metadata.labels.get(key).map(String::as_str);
        let empties = [Some(jobs::types::PRE_DRAIN), Some(jobs::types::SINGLE_NODE_UPGRADE)];
        label(jobs::NODE) == Some(node.metadata.name.as_str()) && empties.contains(&label(jobs::JOB_TYPE))
    });
    let begun = jobs.filter_map(|job| job.status.completion_time.or(job.status.start_time)).max();
    cordon.and_then(|taint| taint.time_added).max(begun)
}

/// Why nothing can run there: it is down, or cordoned by somebody.
pub fn out_of_service(cluster: &Cluster, node: &Node) -> Chain {
    down(cluster, node).unwrap_or_else(|| vec![cordoned(cluster, node)])
}

/// Why a node does not answer, from the node down; nothing if it does.
pub fn down(cluster: &Cluster, node: &Node) -> Option<Chain> {
    let name = &node.metadata.name;
    let renewed = cluster.leases.get(NODE_LEASES, name).and_then(|lease| lease.silent_since(cluster.looked_at));
    // A look that is older than all heartbeats says nothing about any of them.
    let renewed = renewed.filter(|_| somebody_is_heard(cluster));
    let link = |statement: String| Link::proven(ObjectRef::of(node), statement).outlook(Outlook::Maybe);
    let ssh = format!("look at the machine and its kubelet: kubectl describe node {name}");
    let mut chain = match node.ready() {
        None => {
            let statement = format!("Node {name} has joined and its kubelet has never reported");
            let joined = link(statement).since(node.metadata.creation_timestamp).remedy(ssh);
            vec![comes_back(cluster, joined)]
        }
        Some(ready) if ready.status == "Unknown" => {
            let since = renewed.or(ready.last_heartbeat_time).or(ready.last_transition_time);
            vec![
                link(format!("Node {name} is down: its kubelet has not been heard{}", heard(since)))
                    .since(since)
                    .remedy(ssh),
            ]
        }
        Some(ready) if !ready.is_true() => vec![not_ready(node, ready)],
        Some(_) => {
            let statement = format!("Node {name} says Ready, but its kubelet has renewed no Lease{}", heard(renewed));
            vec![link(statement).since(Some(renewed?)).remedy(ssh)]
        }
    };
    chain.extend(membership(cluster, node));
    if is_out(cluster, node) {
        chain = chain.into_iter().map(|link| comes_back(cluster, link)).collect();
    }
    Some(chain)
}

fn heard(since: Option<Timestamp>) -> String {
    since.map_or_else(String::new, |since| format!(" since {since}"))
}

fn somebody_is_heard(cluster: &Cluster) -> bool {
    let mut leases = cluster.leases.in_namespace(NODE_LEASES);
    leases.any(|lease| lease.spec.renew_time.is_some() && lease.silent_since(cluster.looked_at).is_none())
}

fn not_ready(node: &Node, ready: &Condition) -> Link {
    let statement = match ready.message.as_str() {
        "" => format!("Node {} is not Ready ({})", node.metadata.name, ready.reason),
        message => format!("Node {} is not Ready: {message}", node.metadata.name),
    };
    Link::proven(ObjectRef::of(node), statement)
        .since(ready.last_transition_time)
        .outlook(Outlook::Maybe)
        .remedy(format!("kubectl describe node {}", node.metadata.name))
}

/// A node that should be a member of etcd and is none; and who may have taken its place.
pub fn membership(cluster: &Cluster, node: &Node) -> Option<Link> {
    node.metadata.labels.get(ETCD_ROLE)?;
    let lost = condition(&node.status.conditions, ETCD_VOTER).filter(|voter| !voter.is_true())?;
    let name = &node.metadata.name;
    let is_learner = lost.reason.contains("Learner");
    let what = match is_learner {
        true => "is a learner of the etcd cluster, and has no vote yet".to_owned(),
        false => format!("is no member of the etcd cluster ({})", lost.reason),
    };
    let after = |voter: &Condition| {
        let (lost, won) = (lost.last_transition_time?, voter.last_transition_time?);
        (won >= lost && won.duration_since(lost) <= SUCCESSION).then_some(won)
    };
    let heirs = cluster.nodes.iter().filter_map(|other| {
        let voter = condition(&other.status.conditions, ETCD_VOTER).filter(|voter| voter.is_true())?;
        Some((&other.metadata.name, after(voter)?))
    });
    let heir = heirs.min_by_key(|(_, won)| *won).filter(|_| !is_learner);
    let heir = heir.map(|(heir, won)| format!("; Node {heir} became one at {won}, and likely took its place"));
    let statement = format!("Node {name} {what}{}", heir.unwrap_or_default());
    let link = Link::proven(ObjectRef::of(node), statement).since(lost.last_transition_time);
    let link =
        link.remedy(format!("without etcd the API server on {name} does not run: let it join the etcd cluster again"));
    Some(if is_learner { link.outlook(Outlook::Maybe) } else { link })
}

fn pressures(node: &Node) -> impl Iterator<Item = Link> {
    PRESSURES.into_iter().filter_map(|(kind, what)| {
        let pressure = condition(&node.status.conditions, kind).filter(|condition| condition.is_true())?;
        let statement =
            format!("Node {} is short of {what}, and evicts pods: {}", node.metadata.name, pressure.message);
        let link = Link::proven(ObjectRef::of(node), statement).since(pressure.last_transition_time);
        Some(link.outlook(Outlook::Maybe).remedy(format!("free {what} on the node")))
    })
}

pub fn cordoned(cluster: &Cluster, node: &Node) -> Link {
    let name = &node.metadata.name;
    let seen = cluster.engine.nodes.get(name);
    let since = node.spec.taints.iter().find(|taint| taint.key == drover_api::node::UNSCHEDULABLE_TAINT);
    let since = since.and_then(|taint| taint.time_added);
    let owner = seen.and_then(|seen| seen.mark.as_ref()).map(|mark| &mark.owner);
    let link = |statement: String| Link::proven(ObjectRef::of(node), statement).since(since).as_usual();
    if let Some(stage) = upgrade::stage_of(cluster, name) {
        return for_upgrade(node, &stage).since(since);
    }
    match owner {
        Some(owner) => {
            let plan = ObjectRef::new(&owner.kind, &owner.namespace, &owner.name);
            let statement = format!("Node {name} is out of service for {}", plan.in_words());
            link(statement).owned_by(Some(plan)).outlook(Outlook::Yes)
        }
        None => match seen.and_then(|seen| seen.set_aside.as_ref()) {
            Some(record) => {
                let plan = ObjectRef::new(&record.owner.kind, &record.owner.namespace, &record.owner.name);
                let statement = format!("Node {name} stays cordoned since it failed: {}", record.sentence);
                let link = Link::proven(ObjectRef::of(node), statement).since(Some(record.since)).owned_by(Some(plan));
                link.remedy(format!(
                    "find out why, then try again: kubectl annotate node {name} {}=now",
                    drover_api::marks::NODE_RETRY
                ))
            }
            None => link(format!("Node {name} is cordoned, by hand or by another controller"))
                .remedy(format!("kubectl uncordon {name}")),
        },
    }
}

/// A node that is cordoned while an Upgrade is at the nodes.
fn for_upgrade(node: &Node, stage: &upgrade::Stage) -> Link {
    let (name, upgrade) = (&node.metadata.name, &stage.upgrade);
    let link = |statement: String| Link::proven(ObjectRef::of(node), statement).owned_by(Some(upgrade.clone()));
    match stage.step {
        Step::Failed => {
            let why = if stage.failure.is_empty() { String::new() } else { format!(": {}", stage.failure) };
            // Nobody but Drover tries a node again.
            let remedy = match stage.driver {
                Driver::Drover => format!("find out why, then: drover upgrade retry upgrade/{}", upgrade.name),
                _ => format!("find out why; {}", upgrade::NO_RETRY),
            };
            link(format!("Node {name} stays cordoned since its upgrade failed{why}")).remedy(remedy)
        }
        step if step.is_at_work() => {
            let statement = format!("Node {name} is out of service for {} ({})", upgrade.in_words(), step.state());
            link(statement).outlook(Outlook::Yes).as_usual()
        }
        _ => {
            let statement =
                format!("Node {name} is cordoned for {}, and waits for its turn or for its user", upgrade.in_words());
            link(statement).outlook(Outlook::Maybe).as_usual()
        }
    }
}
