//! Is there room for one node less?

use super::{Check, Finding, Intent, Scope, Severity, some_of};
use crate::cluster::{Cluster, ObjectRef};
use crate::rooms::Departure;

pub const CHECKS: &[Check] = &[
    Check {
        code: "DRV-CAP-001",
        severity: Severity::Risks,
        scope: Scope::Drains,
        title: "The pods of a node find no room on the others",
        consequence: "they stay Pending until the node is back, or another is added.",
        remedy: "add a node, or scale down what can wait",
        reads: &["Node", "Pod"],
        look: no_room,
    },
    Check {
        code: "DRV-CAP-002",
        severity: Severity::Risks,
        scope: Scope::Drains,
        title: "A pod can run on its node only",
        consequence: "it is down from the drain of its node until the node is back.",
        remedy: "loosen its node selector or affinity, or move its data to a volume that is not bound to the node",
        reads: &["Node", "Pod", "PersistentVolumeClaim", "PersistentVolume"],
        look: tied,
    },
];

/// How many nodes are told one by one.
const TOLD: usize = 20;

fn no_room(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let others = cluster.nodes.len().saturating_sub(1);
    // A cluster of one node has no other place, and everybody knows.
    if others == 0 {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut untold = 0;
    for (node, Departure { stranded, .. }) in departures(cluster, intent) {
        if stranded.is_empty() {
            continue;
        }
        if findings.len() == TOLD {
            untold += 1;
            continue;
        }
        let names: Vec<String> = stranded.iter().map(path).collect();
        let sentence = format!(
            "without node {node} there is no room for {}: {}",
            super::workloads::counted(stranded.len(), "pod"),
            some_of(names.iter().map(String::as_str))
        );
        let node = ObjectRef::new("Node", "", node);
        findings.push(Finding::new(sentence).about([node]).about(stranded.iter().cloned()));
    }
    if untold > 0 {
        findings.push(Finding::new(format!("the same is so for {untold} further nodes")));
    }
    findings
}

fn tied(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    if cluster.nodes.len() < 2 {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (node, departure) in departures(cluster, intent) {
        for (pod, why) in &departure.tied {
            let sentence = format!("pod {} can run on node {node} only: {why}", path(pod));
            findings.push(Finding::new(sentence).about([pod.clone(), ObjectRef::new("Node", "", node)]));
        }
    }
    findings
}

/// What would become of the pods of each node that is asked for, if it went.
fn departures<'a>(cluster: &'a Cluster, intent: &'a Intent) -> impl Iterator<Item = (&'a str, &'a Departure)> {
    let all = cluster.departures();
    let names = intent.nodes(cluster).into_iter().map(|node| node.metadata.name.as_str());
    names.filter_map(|name| Some((name, all.get(name)?)))
}

fn path(pod: &ObjectRef) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}
