//! What a pod asks of the node that it is to run on.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{NodeSelectorTerm, Pod, PodAffinityTerm, PodSpec, Toleration};
use kube::core::{Selector, SelectorExt};

use crate::world::pods;

/// The wishes of a pod that waits for a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub namespace: String,
    pub labels: BTreeMap<String, String>,
    pub node_selector: BTreeMap<String, String>,
    /// One of them has to match; none means that any node does.
    pub node_terms: Option<Vec<NodeSelectorTerm>>,
    pub tolerations: Vec<Toleration>,
    pub apart: Vec<Apart>,
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
        Some(Request {
            namespace: pods::namespace(&pod.metadata).into(),
            labels: pod.metadata.labels.clone().unwrap_or_default(),
            node_selector: spec.node_selector.clone().unwrap_or_default(),
            node_terms: required.map(|required| required.node_selector_terms.clone()),
            tolerations: spec.tolerations.clone().unwrap_or_default(),
            apart: Apart::of(pods::namespace(&pod.metadata), spec),
        })
    }
}

/// One required anti-affinity term: the pods that must not be in the same place.
#[derive(Clone, Debug, PartialEq)]
pub struct Apart {
    /// None for all namespaces.
    namespaces: Option<BTreeSet<String>>,
    selector: Selector,
    pub topology: String,
}

impl Apart {
    pub fn of(namespace: &str, spec: &PodSpec) -> Vec<Apart> {
        let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.pod_anti_affinity.as_ref());
        let terms = affinity.and_then(|pods| pods.required_during_scheduling_ignored_during_execution.as_ref());
        terms.into_iter().flatten().filter_map(|term| Apart::from_term(namespace, term)).collect()
    }

    /// Where the pods are that it covers; none for all namespaces.
    pub fn namespaces(&self) -> Option<&BTreeSet<String>> {
        self.namespaces.as_ref()
    }

    pub fn covers(&self, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
        self.namespaces.as_ref().is_none_or(|names| names.contains(namespace)) && self.selector.matches(labels)
    }

    /// A term without a selector covers no pod. Namespaces chosen by their labels count as all.
    fn from_term(namespace: &str, term: &PodAffinityTerm) -> Option<Apart> {
        let selector = Selector::try_from(term.label_selector.clone()?).ok()?;
        let named: BTreeSet<String> = term.namespaces.iter().flatten().cloned().collect();
        let namespaces = match (&term.namespace_selector, named.is_empty()) {
            (Some(_), _) => None,
            (None, true) => Some(BTreeSet::from([namespace.to_string()])),
            (None, false) => Some(named),
        };
        Some(Apart { namespaces, selector, topology: term.topology_key.clone() })
    }
}
