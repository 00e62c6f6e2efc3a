//! Spread constraints on which a scheduler insists (`DoNotSchedule`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::TopologySpreadConstraint;

use super::{Places, is_tolerated, selectors, tolerates_cordon};
use crate::cluster::{Node, Pod};
use crate::plan::selector::Selector;

/// One constraint of a pod, with how many pods like it are in each domain.
pub struct Spread<'p> {
    constraint: &'p TopologySpreadConstraint,
    counts: BTreeMap<String, i64>,
    /// In the domain that has the fewest.
    least: i64,
    /// The pod counts itself.
    itself: i64,
}

/// The constraints of a pod, reckoned as if it were nowhere yet.
pub fn of<'p>(places: &Places<'_>, pod: &'p Pod) -> Vec<Spread<'p>> {
    let all = &pod.spec.topology_spread_constraints;
    let hard = all.iter().filter(|constraint| constraint.when_unsatisfiable == "DoNotSchedule");
    hard.filter_map(|constraint| reckon(places, pod, constraint)).collect()
}

fn reckon<'p>(places: &Places<'_>, pod: &'p Pod, constraint: &'p TopologySpreadConstraint) -> Option<Spread<'p>> {
    let selector = constraint.label_selector.as_ref().and_then(|selector| Selector::parse(selector).ok())?;
    let alike = |other: &Pod| {
        let keys = constraint.match_label_keys.as_deref().unwrap_or_default();
        selector.matches(&other.metadata.labels)
            && keys.iter().all(|key| other.metadata.labels.get(key) == pod.metadata.labels.get(key))
    };
    let domain = |node: &Node| {
        let counts = counts(places, pod, constraint, node);
        node.metadata.labels.get(&constraint.topology_key).filter(|_| counts).cloned()
    };
    let nodes = places.cluster.nodes.iter().filter_map(|node| Some((node.metadata.name.as_str(), domain(node)?)));
    let domains: BTreeMap<&str, String> = nodes.collect();
    let mut counts: BTreeMap<String, i64> = domains.values().map(|domain| (domain.clone(), 0)).collect();
    let others = places.in_namespace(&pod.metadata.namespace);
    for (_, node) in others.filter(|(other, _)| other.metadata.name != pod.metadata.name && alike(other)) {
        if let Some(count) = domains.get(node).and_then(|domain| counts.get_mut(domain)) {
            *count += 1;
        }
    }
    let wanted = usize::try_from(constraint.min_domains.unwrap_or(1)).unwrap_or(1);
    let least = counts.values().min().copied().filter(|_| counts.len() >= wanted).unwrap_or(0);
    Some(Spread { constraint, counts, least, itself: i64::from(alike(pod)) })
}

/// Does a node count among the domains? A cordoned one does, as long as the constraint does not mind taints: its domain is
/// then the emptiest of all, and the others may take hardly anything.
fn counts(places: &Places<'_>, pod: &Pod, constraint: &TopologySpreadConstraint, node: &Node) -> bool {
    let minds = |policy: &Option<String>, usual: &str| policy.as_deref().unwrap_or(usual) == "Honor";
    let mut obstacles = Vec::new();
    if minds(&constraint.node_affinity_policy, "Honor") {
        selectors(pod, node, &mut obstacles);
    }
    let is_shut = || {
        let is_cordoned = node.spec.unschedulable || places.gone.contains(node.metadata.name.as_str());
        is_cordoned && !tolerates_cordon(&pod.spec.tolerations)
            || node.barriers().any(|taint| !is_tolerated(&pod.spec.tolerations, taint))
    };
    obstacles.is_empty() && !(minds(&constraint.node_taints_policy, "Ignore") && is_shut())
}

impl Spread<'_> {
    /// Would the pods be spread too unevenly with one more on this node?
    pub fn refuses(&self, node: &Node) -> bool {
        let Some(domain) = node.metadata.labels.get(&self.constraint.topology_key) else { return true };
        let there = self.counts.get(domain).copied().unwrap_or(0);
        there + self.itself - self.least > i64::from(self.constraint.max_skew)
    }

    pub fn key(&self) -> &str {
        &self.constraint.topology_key
    }
}
