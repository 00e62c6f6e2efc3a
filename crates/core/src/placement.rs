//! Which node could take a pod, and what is in the way on the others.
//!
//! The filters are the scheduler's, as far as they can be read from objects: cordon, taints, selectors, affinity,
//! resources, volumes that belong to a node, pods that must not be neighbours, spread constraints. Preferences are not.

mod spread;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use k8s_openapi::api::core::v1::{
    NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm, Toleration,
};

use crate::cluster::{Amount, Amounts, Cluster, Node, Pod, Taint};
use crate::plan::selector::Selector;

/// What keeps a pod from a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// It asks for a label that the node does not have: `disk=ssd`.
    Selector(String),
    Affinity,
    Taint(String),
    /// A volume of its can only be elsewhere.
    Volume(String),
    /// The node as a whole has less than the pod needs.
    TooSmall(String),
    /// Less is free than the pod needs.
    Full(String),
    /// A pod is there that must not be its neighbour: `shop/cart-0`.
    Neighbour(String),
    /// Pods like it would be spread too unevenly over the values of this label.
    Spread(String),
    NotReady,
    Cordoned,
}

/// All nodes with what is free on them.
#[derive(Debug, Clone)]
pub struct Places<'a> {
    cluster: &'a Cluster,
    free: Cow<'a, Free>,
    /// Looked up when it is first asked for: whoever explains one pod after the other can do without.
    crowd: OnceLock<Crowd<'a>>,
    /// Nodes that take no pods any more.
    gone: BTreeSet<&'a str>,
    /// Pods that have come to another node than the cluster knows.
    moved: Vec<(&'a Pod, &'a str)>,
}

/// What the pods on each node leave of it.
pub(crate) type Free = BTreeMap<String, Amounts>;

/// Who is where.
#[derive(Debug, Clone, Default)]
struct Crowd<'a> {
    pods: BTreeMap<&'a str, Vec<&'a Pod>>,
    /// The nodes with how many pods are on each, the fewest first.
    by_load: BTreeSet<(usize, &'a str)>,
}

/// Pods that have a node and have not ended.
fn placed(cluster: &Cluster) -> impl Iterator<Item = &Pod> {
    cluster.pods.iter().filter(|pod| !pod.spec.node_name.is_empty() && !pod.has_ended())
}

pub(crate) fn free(cluster: &Cluster) -> Free {
    let whole = cluster.nodes.iter().map(|node| (node.metadata.name.clone(), node.status.allocatable.clone()));
    let mut free: Free = whole.collect();
    placed(cluster).for_each(|pod| occupy(&mut free, pod, &pod.spec.node_name));
    free
}

fn occupy(free: &mut Free, pod: &Pod, node: &str) {
    let Some(free) = free.get_mut(node) else { return };
    for (resource, needed) in needs(pod) {
        if let Some(left) = free.get_mut(&resource) {
            *left = left.minus(needed);
        }
    }
}

impl<'a> Crowd<'a> {
    fn of(cluster: &'a Cluster) -> Self {
        let mut crowd = Crowd::default();
        for pod in placed(cluster) {
            crowd.pods.entry(pod.spec.node_name.as_str()).or_default().push(pod);
        }
        let nodes = cluster.nodes.iter().map(|node| node.metadata.name.as_str());
        crowd.by_load = nodes.map(|node| (crowd.pods_on(node).len(), node)).collect();
        crowd
    }

    fn pods_on(&self, node: &str) -> &[&'a Pod] {
        self.pods.get(node).map_or(&[], Vec::as_slice)
    }

    fn put(&mut self, pod: &'a Pod, node: &'a str) {
        let before = self.pods_on(node).len();
        if self.by_load.remove(&(before, node)) {
            self.by_load.insert((before + 1, node));
        }
        self.pods.entry(node).or_default().push(pod);
    }

    fn remove(&mut self, node: &'a str) {
        self.by_load.remove(&(self.pods_on(node).len(), node));
        self.pods.remove(node);
    }
}

impl<'a> Places<'a> {
    pub fn of(cluster: &'a Cluster) -> Self {
        let (gone, moved) = (BTreeSet::new(), Vec::new());
        Places { cluster, free: Cow::Borrowed(cluster.free()), crowd: OnceLock::new(), gone, moved }
    }

    fn crowd(&self) -> &Crowd<'a> {
        self.crowd.get_or_init(|| Crowd::of(self.cluster))
    }

    fn change_crowd(&mut self, change: impl FnOnce(&mut Crowd<'a>)) {
        let mut crowd = self.crowd.take().unwrap_or_else(|| Crowd::of(self.cluster));
        change(&mut crowd);
        self.crowd = OnceLock::from(crowd);
    }

    /// The pods on a node that have not ended.
    pub fn pods_on(&self, node: &str) -> &[&'a Pod] {
        self.crowd().pods_on(node)
    }

    /// A pod comes to a node.
    pub fn put(&mut self, pod: &'a Pod, node: &'a str) {
        self.change_crowd(|crowd| crowd.put(pod, node));
        occupy(self.free.to_mut(), pod, node);
        self.moved.push((pod, node));
    }

    /// A node goes, and its pods with it.
    pub fn remove(&mut self, node: &'a str) {
        self.change_crowd(|crowd| crowd.remove(node));
        self.free.to_mut().remove(node);
        self.gone.insert(node);
    }

    /// The pods of a namespace that are on a node, with it.
    fn in_namespace<'b>(&'b self, namespace: &'b str) -> impl Iterator<Item = (&'a Pod, &'a str)> + use<'a, 'b> {
        let stay = self.cluster.pods.in_namespace(namespace).map(|pod| (pod, pod.spec.node_name.as_str()));
        let stay = stay.filter(|(pod, node)| !node.is_empty() && !pod.has_ended() && !self.gone.contains(node));
        stay.chain(self.moved.iter().copied().filter(move |(pod, _)| pod.metadata.namespace == namespace))
    }

    /// The first node that takes the pod as it is, the one with the fewest pods first.
    pub fn find(&self, pod: &Pod) -> Option<&'a str> {
        let spread = spread::of(self, pod);
        let takes = |node: &Node| spread.iter().all(|one| !one.refuses(node)) && self.barred(pod, node).is_empty();
        let mut nodes = self.crowd().by_load.iter().map(|(_, node)| *node);
        nodes.find(|node| self.cluster.nodes.named(node).is_some_and(takes))
    }

    /// Everything on one node that is in the way of a pod; nothing if it could run there.
    pub fn obstacles(&self, pod: &Pod, node: &Node) -> Vec<Obstacle> {
        self.obstacles_given(&spread::of(self, pod), pod, node)
    }

    /// Everything that is in the way of a pod, node by node.
    pub fn all_obstacles(&self, pod: &Pod) -> Vec<(&'a Node, Vec<Obstacle>)> {
        let spread = spread::of(self, pod);
        self.cluster.nodes.iter().map(|node| (node, self.obstacles_given(&spread, pod, node))).collect()
    }

    fn obstacles_given(&self, spread: &[spread::Spread<'_>], pod: &Pod, node: &Node) -> Vec<Obstacle> {
        let mut found = self.barred(pod, node);
        found.extend(spread.iter().find(|one| one.refuses(node)).map(|one| Obstacle::Spread(one.key().to_owned())));
        found
    }

    /// The nodes where pods of the same owner are.
    pub fn homes_of_siblings(&self, pod: &Pod) -> BTreeSet<&'a str> {
        let Some(owner) = pod.metadata.controller() else { return BTreeSet::new() };
        let is_sibling = |other: &Pod| other.metadata.controller().is_some_and(|other| other.uid == owner.uid);
        let others = self.in_namespace(&pod.metadata.namespace);
        others.filter(|(other, _)| is_sibling(other)).map(|(_, node)| node).collect()
    }

    /// All but how pods are spread.
    fn barred(&self, pod: &Pod, node: &Node) -> Vec<Obstacle> {
        let mut found = Vec::new();
        selectors(pod, node, &mut found);
        let barriers = node.barriers().filter(|taint| !is_tolerated(&pod.spec.tolerations, taint));
        // A node that is not Ready is tainted, too; that says the same twice.
        let own = barriers.filter(|taint| !taint.key.starts_with("node.kubernetes.io/"));
        found.extend(own.map(|taint| Obstacle::Taint(taint.in_words())));
        found.extend(self.homes(pod, node));
        found.extend(self.lacks(pod, node));
        found.extend(self.neighbours(pod, node));
        if !node.is_ready() {
            found.push(Obstacle::NotReady);
        }
        if node.spec.unschedulable && !tolerates_cordon(&pod.spec.tolerations) {
            found.push(Obstacle::Cordoned);
        }
        found
    }

    fn homes(&self, pod: &Pod, node: &Node) -> Vec<Obstacle> {
        let claims = pod.claims().filter_map(|claim| self.cluster.claims.get(&pod.metadata.namespace, claim));
        let volumes = claims.filter_map(|claim| self.cluster.volumes.named(&claim.spec.volume_name));
        let elsewhere = volumes.filter(|volume| {
            let affinity = volume.spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
            affinity.is_some_and(|affinity| !affinity.node_selector_terms.iter().any(|term| suits(term, node)))
        });
        elsewhere.map(|volume| Obstacle::Volume(volume.metadata.name.clone())).collect()
    }

    fn lacks(&self, pod: &Pod, node: &Node) -> Vec<Obstacle> {
        let Some(free) = self.free.get(&node.metadata.name) else { return Vec::new() };
        let lacking = needs(pod).into_iter().filter_map(|(resource, needed)| {
            // A node that does not say what it has is taken at its word.
            let whole = match node.status.allocatable.get(&resource) {
                Some(whole) => *whole,
                None if node.status.allocatable.is_empty() || needed == Amount::ZERO => return None,
                None => Amount::ZERO,
            };
            let left = free.get(&resource).copied().unwrap_or(Amount::ZERO);
            if needed > whole {
                Some(Obstacle::TooSmall(resource))
            } else {
                (needed > left).then_some(Obstacle::Full(resource))
            }
        });
        lacking.collect()
    }

    fn neighbours(&self, pod: &Pod, node: &Node) -> Option<Obstacle> {
        let apart = terms_apart(pod);
        let place = |term: &PodAffinityTerm, of: &Node| of.metadata.labels.get(&term.topology_key).cloned();
        for term in apart {
            let Some(here) = place(term, node) else { continue };
            let same = self.cluster.nodes.iter().filter(|other| place(term, other).as_ref() == Some(&here));
            let there = same.flat_map(|other| self.pods_on(&other.metadata.name));
            let hit =
                there.filter(|other| other.metadata.uid != pod.metadata.uid).find(|other| covers(term, pod, other));
            if let Some(other) = hit {
                return Some(Obstacle::Neighbour(format!("{}/{}", other.metadata.namespace, other.metadata.name)));
            }
        }
        None
    }

    /// How much of a resource is free on the node that has most of it left.
    pub fn most_free(&self, resource: &str) -> Option<(&str, Amount)> {
        let amounts =
            self.free.iter().map(|(node, free)| (node.as_str(), free.get(resource).copied().unwrap_or(Amount::ZERO)));
        amounts.max_by_key(|(_, amount)| *amount)
    }
}

/// What a pod takes, with itself counted as one pod.
fn needs(pod: &Pod) -> Amounts {
    let mut needs = pod.requests();
    needs.insert("pods".to_owned(), Amount::of(1));
    needs
}

fn selectors(pod: &Pod, node: &Node, found: &mut Vec<Obstacle>) {
    let labels = &node.metadata.labels;
    for (key, value) in &pod.spec.node_selector {
        if labels.get(key) != Some(value) {
            found.push(Obstacle::Selector(format!("{key}={value}")));
        }
    }
    let affinity = pod.spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    if affinity.is_some_and(|affinity| !suits_affinity(affinity, node)) {
        found.push(Obstacle::Affinity);
    }
}

/// Does a node suit what a pod or a VM requires of its node?
pub fn suits_affinity(affinity: &NodeAffinity, node: &Node) -> bool {
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref();
    required.is_none_or(|required| required.node_selector_terms.iter().any(|term| suits(term, node)))
}

/// A term that asks for nothing suits no node.
fn suits(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let field = |key: &str| (key == "metadata.name").then_some(&node.metadata.name);
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|one| holds(one, node.metadata.labels.get(&one.key)))
        && fields.iter().all(|one| holds(one, field(&one.key)))
}

fn holds(requirement: &NodeSelectorRequirement, found: Option<&String>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let numbers = || Some((found?.parse::<i64>().ok()?, values.first()?.parse::<i64>().ok()?));
    match requirement.operator.as_str() {
        "In" => found.is_some_and(|found| values.contains(found)),
        "NotIn" => found.is_none_or(|found| !values.contains(found)),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => numbers().is_some_and(|(found, bound)| found > bound),
        "Lt" => numbers().is_some_and(|(found, bound)| found < bound),
        _ => false,
    }
}

pub fn is_tolerated(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| {
        let same = |said: Option<&str>, value: &str| said.is_none_or(|said| said.is_empty() || said == value);
        let any_value = toleration.operator.as_deref() == Some("Exists");
        let has_key = toleration.key.as_deref().is_some_and(|key| !key.is_empty());
        same(toleration.effect.as_deref(), &taint.effect)
            && same(toleration.key.as_deref(), &taint.key)
            && (any_value || has_key && toleration.value.as_deref().unwrap_or_default() == taint.value)
    })
}

fn tolerates_cordon(tolerations: &[Toleration]) -> bool {
    is_tolerated(tolerations, &Taint::of_cordon())
}

fn terms_apart(pod: &Pod) -> &[PodAffinityTerm] {
    let affinity = pod.spec.affinity.as_ref().and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    affinity.and_then(|pods| pods.required_during_scheduling_ignored_during_execution.as_deref()).unwrap_or_default()
}

/// A term without a selector covers no pod. Namespaces chosen by their labels count as all.
fn covers(term: &PodAffinityTerm, of: &Pod, other: &Pod) -> bool {
    let named = term.namespaces.as_deref().unwrap_or_default();
    let in_reach = match (&term.namespace_selector, named) {
        (Some(_), _) => true,
        (None, []) => other.metadata.namespace == of.metadata.namespace,
        (None, named) => named.contains(&other.metadata.namespace),
    };
    let selector = term.label_selector.as_ref().and_then(|selector| Selector::parse(selector).ok());
    in_reach && selector.is_some_and(|selector| selector.matches(&other.metadata.labels))
}
