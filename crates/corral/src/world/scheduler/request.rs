//! What a pod asks of the node that it is to run on.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    NodeSelectorTerm, Pod, PodAffinityTerm, PodSpec, Toleration, TopologySpreadConstraint,
};
use kube::core::{Expression, Selector, SelectorExt};

use super::amounts::Amounts;
use crate::world::labels::Labels;
use crate::world::pods;

/// The wishes of a pod that waits for a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub namespace: String,
    pub labels: Labels,
    pub node_selector: Labels,
    /// One of them has to match; none means that any node does.
    pub node_terms: Option<Vec<NodeSelectorTerm>>,
    pub tolerations: Vec<Toleration>,
    pub needs: Amounts,
    /// Pods that must be in the same place.
    pub together: Vec<Neighbours>,
    /// Pods that must not be.
    pub apart: Vec<Neighbours>,
    pub spread: Vec<Spread>,
}

impl Request {
    /// None for a pod that this scheduler has nothing to do with.
    pub fn of(pod: &Pod) -> Option<Request> {
        let spec = pod.spec.as_ref()?;
        let is_ours = spec.scheduler_name.as_deref().is_none_or(|name| name == "default-scheduler");
        let is_gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
        if pods::node(pod).is_some() || pods::has_ended(pod) || pods::is_leaving(pod) || !is_ours || is_gated {
            return None;
        }
        let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
        let required = affinity.and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref());
        let namespace = pods::namespace(&pod.metadata);
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        Some(Request {
            namespace: namespace.into(),
            node_selector: spec.node_selector.clone().unwrap_or_default(),
            node_terms: required.map(|required| required.node_selector_terms.clone()),
            tolerations: spec.tolerations.clone().unwrap_or_default(),
            needs: Amounts::requested_by(spec),
            together: Neighbours::wanted(namespace, spec),
            apart: Neighbours::unwanted(namespace, spec),
            spread: spec
                .topology_spread_constraints
                .iter()
                .flatten()
                .filter_map(|constraint| Spread::of(constraint, &labels))
                .collect(),
            labels,
        })
    }

    /// The nodes that it names itself, as the pods of DaemonSets do: no other can suit.
    pub fn named_nodes(&self) -> Option<BTreeSet<&str>> {
        let mut names = BTreeSet::new();
        for term in self.node_terms.as_ref()? {
            let field = term.match_fields.iter().flatten().find(|field| field.operator == "In")?;
            names.extend(field.values.iter().flatten().map(String::as_str));
        }
        Some(names)
    }
}

/// One required term of pod affinity or anti-affinity: pods, and what counts as the same place.
#[derive(Clone, Debug, PartialEq)]
pub struct Neighbours {
    /// None for all namespaces.
    namespaces: Option<BTreeSet<String>>,
    pub selector: Selector,
    pub topology: String,
}

impl Neighbours {
    pub fn wanted(namespace: &str, spec: &PodSpec) -> Vec<Neighbours> {
        let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.pod_affinity.as_ref());
        let terms = affinity.and_then(|pods| pods.required_during_scheduling_ignored_during_execution.as_ref());
        terms.into_iter().flatten().filter_map(|term| Neighbours::from_term(namespace, term)).collect()
    }

    pub fn unwanted(namespace: &str, spec: &PodSpec) -> Vec<Neighbours> {
        let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.pod_anti_affinity.as_ref());
        let terms = affinity.and_then(|pods| pods.required_during_scheduling_ignored_during_execution.as_ref());
        terms.into_iter().flatten().filter_map(|term| Neighbours::from_term(namespace, term)).collect()
    }

    /// Where the pods are that it covers; none for all namespaces.
    pub fn namespaces(&self) -> Option<&BTreeSet<String>> {
        self.namespaces.as_ref()
    }

    pub fn covers(&self, namespace: &str, labels: &Labels) -> bool {
        self.namespaces.as_ref().is_none_or(|names| names.contains(namespace)) && self.selector.matches(labels)
    }

    /// A term without a selector covers no pod. Namespaces chosen by their labels count as all.
    fn from_term(namespace: &str, term: &PodAffinityTerm) -> Option<Neighbours> {
        let selector = Selector::try_from(term.label_selector.clone()?).ok()?;
        let named: BTreeSet<String> = term.namespaces.iter().flatten().cloned().collect();
        let namespaces = match (&term.namespace_selector, named.is_empty()) {
            (Some(_), _) => None,
            (None, true) => Some(BTreeSet::from([namespace.to_string()])),
            (None, false) => Some(named),
        };
        Some(Neighbours { namespaces, selector, topology: term.topology_key.clone() })
    }
}

/// One topology spread constraint that must be met.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    pub topology: String,
    pub max_skew: i64,
    /// Fewer domains than this count as if one of them were empty.
    pub min_domains: i64,
    pub selector: Selector,
}

impl Spread {
    /// None for a constraint that is only a preference, or that selects nothing.
    fn of(constraint: &TopologySpreadConstraint, labels: &Labels) -> Option<Spread> {
        if constraint.when_unsatisfiable != "DoNotSchedule" {
            return None;
        }
        let mut selector = Selector::try_from(constraint.label_selector.clone()?).ok()?;
        let same = constraint.match_label_keys.iter().flatten();
        selector.extend(same.filter_map(|key| Some(Expression::Equal(key.clone(), labels.get(key)?.clone()))));
        Some(Spread {
            topology: constraint.topology_key.clone(),
            max_skew: constraint.max_skew.into(),
            min_domains: constraint.min_domains.unwrap_or(1).into(),
            selector,
        })
    }
}
