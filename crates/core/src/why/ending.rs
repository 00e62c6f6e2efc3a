//! Why a pod that was told to go is still there.

use super::link::{Chain, Link, Outlook};
use super::node;
use crate::cluster::{Cluster, ObjectRef, Pod};

/// How long after its time a pod is simply late.
const LATE: jiff::SignedDuration = jiff::SignedDuration::from_secs(30);

pub fn holds(cluster: &Cluster, pod: &Pod) -> Option<Chain> {
    let end = pod.metadata.deletion_timestamp?;
    let object = ObjectRef::of(pod);
    let (name, host) = (object.in_words(), pod.spec.node_name.as_str());
    let link = |statement: String| {
        Link::proven(object.clone(), statement)
            .since(pod.metadata.deleted_since())
            .owned_by(cluster.root_owner(&pod.metadata))
    };
    let force = format!(
        "if you are sure that it no longer runs: kubectl delete pod -n {} {} --force",
        pod.metadata.namespace, pod.metadata.name
    );
    let host_seen = cluster.nodes.named(host);
    if host_seen.is_none() && !host.is_empty() && cluster.blind_to("Node").is_none() {
        let statement = format!("{name} cannot end: its Node {host} is gone, and with it whoever would end it");
        return Some(vec![link(statement).outlook(Outlook::Maybe).remedy(force)]);
    }
    if let Some(down) = host_seen.and_then(|host| node::down(cluster, host)) {
        let statement = format!("{name} cannot end: Node {host} does not answer");
        let mut chain = vec![link(statement).remedy(force)];
        chain.extend(down);
        return Some(chain);
    }
    if cluster.looked_at <= end {
        let statement = format!("{name} is ending, and has until {end} for it");
        return Some(vec![link(statement).outlook(Outlook::Yes).as_usual()]);
    }
    if let Some(finalizer) = pod.metadata.finalizers.first() {
        let statement = format!("{name} has ended, but is kept by the finalizer {finalizer}");
        let remedy = "look why whoever set the finalizer does not take it away".to_owned();
        return Some(vec![link(statement).remedy(remedy)]);
    }
    let told = cluster.events_about(&object).into_iter().rev().find(|event| event.reason == "FailedKillPod");
    let statement = match told {
        Some(event) => format!("{name} does not end: {}", event.message),
        None => format!("{name} does not end although its time was over at {end}"),
    };
    // One that never had a node has no kubelet that would end it.
    let remedy = if host.is_empty() { force } else { format!("look at the kubelet of Node {host}; {force}") };
    let late = link(statement).outlook(Outlook::Maybe).remedy(remedy);
    let is_just_late = told.is_none() && cluster.looked_at.duration_since(end) < LATE;
    Some(vec![if is_just_late { late.as_usual() } else { late }])
}
