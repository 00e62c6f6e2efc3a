//! Whether one node suits one pod.

use std::collections::{BTreeMap, BTreeSet};

use drover_api::node::UNSCHEDULABLE_TAINT;
use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration};

use super::request::{Apart, Request};
use crate::world::lifecycle::NOT_READY;
use crate::world::pods;

/// What the scheduler knows of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub unschedulable: bool,
    /// How many pods are at work there.
    pub pods: usize,
}

impl Place {
    pub fn of(node: &Node) -> Place {
        let spec = node.spec.clone().unwrap_or_default();
        let mut taints = spec.taints.unwrap_or_default();
        // The node lifecycle controller says the same by a taint, a moment later or not at all where it is left out.
        if !is_ready(node) {
            taints.push(Taint { key: NOT_READY.into(), effect: "NoSchedule".into(), ..Taint::default() });
        }
        Place {
            name: pods::name(&node.metadata).into(),
            labels: node.metadata.labels.clone().unwrap_or_default(),
            taints,
            unschedulable: spec.unschedulable == Some(true),
            pods: 0,
        }
    }
}

/// Where a pod may not go because of the pods that are there.
#[derive(Debug, Default)]
pub struct Blocked {
    /// By the terms of the pod itself: topology key and value.
    by_own: BTreeSet<(String, String)>,
    by_others: BTreeSet<(String, String)>,
}

impl Blocked {
    /// Takes account of a pod that is already in a place.
    pub fn add_neighbour(
        &mut self,
        request: &Request,
        namespace: &str,
        labels: &BTreeMap<String, String>,
        apart: &[Apart],
        place: &Place,
    ) {
        let at = |term: &Apart| Some((term.topology.clone(), place.labels.get(&term.topology)?.clone()));
        self.by_own.extend(request.apart.iter().filter(|term| term.covers(namespace, labels)).filter_map(at));
        let others = apart.iter().filter(|term| term.covers(&request.namespace, &request.labels));
        self.by_others.extend(others.filter_map(at));
    }

    fn contains(blocked: &BTreeSet<(String, String)>, place: &Place) -> bool {
        blocked.iter().any(|(topology, value)| place.labels.get(topology) == Some(value))
    }
}

/// Why a node does not suit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Obstacle {
    Unschedulable,
    Taint,
    Affinity,
    OthersAntiAffinity,
    AntiAffinity,
}

impl Obstacle {
    pub fn sentence(self) -> &'static str {
        match self {
            Obstacle::Unschedulable => "node(s) were unschedulable",
            Obstacle::Taint => "node(s) had untolerated taint(s)",
            Obstacle::Affinity => "node(s) didn't match Pod's node affinity/selector",
            Obstacle::OthersAntiAffinity => "node(s) didn't satisfy existing pods anti-affinity rules",
            Obstacle::AntiAffinity => "node(s) didn't match pod anti-affinity rules",
        }
    }

    pub fn would_yield_to_preemption(self) -> bool {
        matches!(self, Obstacle::OthersAntiAffinity | Obstacle::AntiAffinity)
    }
}

/// The first filter that refuses decides, as in the original.
pub fn fit(request: &Request, place: &Place, blocked: &Blocked) -> Result<(), Obstacle> {
    if place.unschedulable && !tolerates_cordon(request) {
        return Err(Obstacle::Unschedulable);
    }
    if place.taints.iter().any(|taint| keeps_out(taint) && !is_tolerated(request, taint)) {
        return Err(Obstacle::Taint);
    }
    let selected = request.node_selector.iter().all(|(key, value)| place.labels.get(key) == Some(value));
    let wanted = request.node_terms.as_ref().is_none_or(|terms| terms.iter().any(|term| matches_term(term, place)));
    if !selected || !wanted {
        return Err(Obstacle::Affinity);
    }
    if Blocked::contains(&blocked.by_own, place) {
        return Err(Obstacle::AntiAffinity);
    }
    if Blocked::contains(&blocked.by_others, place) {
        return Err(Obstacle::OthersAntiAffinity);
    }
    Ok(())
}

fn tolerates_cordon(request: &Request) -> bool {
    is_tolerated(request, &Taint { key: UNSCHEDULABLE_TAINT.into(), effect: "NoSchedule".into(), ..Taint::default() })
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn keeps_out(taint: &Taint) -> bool {
    matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
}

fn is_tolerated(request: &Request, taint: &Taint) -> bool {
    request.tolerations.iter().any(|toleration| tolerates(toleration, taint))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let same = |said: Option<&str>, value: &str| said.is_none_or(|said| said.is_empty() || said == value);
    if !same(toleration.effect.as_deref(), &taint.effect) || !same(toleration.key.as_deref(), &taint.key) {
        return false;
    }
    match toleration.operator.as_deref() {
        Some("Exists") => true,
        _ => {
            let has_key = toleration.key.as_deref().is_some_and(|key| !key.is_empty());
            has_key && toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default()
        }
    }
}

/// A term that asks for nothing matches nothing.
fn matches_term(term: &NodeSelectorTerm, place: &Place) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    let field = |key: &str| (key == "metadata.name").then_some(&place.name);
    expressions.iter().all(|one| matches(one, place.labels.get(&one.key)))
        && fields.iter().all(|one| matches(one, field(&one.key)))
}

fn matches(requirement: &NodeSelectorRequirement, found: Option<&String>) -> bool {
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
