//! Whether one node suits one pod.

use drover_api::node::UNSCHEDULABLE_TAINT;
use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration};

use super::amounts::Amounts;
use super::request::Request;
use super::surroundings::Surroundings;
use crate::world::labels::Labels;
use crate::world::lifecycle::NOT_READY;
use crate::world::pods;

const POD_COUNT: &str = "pods";

/// What the scheduler knows of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    pub name: String,
    pub labels: Labels,
    pub taints: Vec<Taint>,
    pub unschedulable: bool,
    /// What its pods may use together; none for a node that does not say.
    pub allocatable: Option<Amounts>,
    /// What the pods there have requested.
    pub used: Amounts,
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
        let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
        Place {
            name: pods::name(&node.metadata).into(),
            labels: node.metadata.labels.clone().unwrap_or_default(),
            taints,
            unschedulable: spec.unschedulable == Some(true),
            allocatable: allocatable.map(|amounts| Amounts::from_quantities(Some(amounts))),
            used: Amounts::default(),
            pods: 0,
        }
    }
}

/// Why a node does not suit.
#[derive(Clone, Debug, PartialEq)]
pub enum Obstacle {
    Unschedulable,
    Taint,
    NodeAffinity,
    /// What there is too little of, and whether an empty node of this kind would have enough.
    Resources {
        short: Vec<String>,
        hopeless: bool,
    },
    SpreadLabel,
    Spread,
    Affinity,
    OthersAntiAffinity,
    AntiAffinity,
}

impl Obstacle {
    pub fn sentences(&self) -> Vec<String> {
        let sentence = match self {
            Obstacle::Resources { short, .. } => return short.clone(),
            Obstacle::Unschedulable => "node(s) were unschedulable",
            Obstacle::Taint => "node(s) had untolerated taint(s)",
            Obstacle::NodeAffinity => "node(s) didn't match Pod's node affinity/selector",
            Obstacle::SpreadLabel => "node(s) didn't match pod topology spread constraints (missing required label)",
            Obstacle::Spread => "node(s) didn't match pod topology spread constraints",
            Obstacle::Affinity => "node(s) didn't match pod affinity rules",
            Obstacle::OthersAntiAffinity => "node(s) didn't satisfy existing pods anti-affinity rules",
            Obstacle::AntiAffinity => "node(s) didn't match pod anti-affinity rules",
        };
        vec![sentence.into()]
    }

    pub fn would_yield_to_preemption(&self) -> bool {
        match self {
            Obstacle::Resources { hopeless, .. } => !hopeless,
            other => matches!(other, Obstacle::Spread | Obstacle::OthersAntiAffinity | Obstacle::AntiAffinity),
        }
    }
}

/// What the node itself says to a pod. The first filter that refuses decides, as in the original.
pub fn fit(request: &Request, place: &Place) -> Result<(), Obstacle> {
    if place.unschedulable && !tolerates_cordon(&request.tolerations) {
        return Err(Obstacle::Unschedulable);
    }
    if place.taints.iter().any(|taint| keeps_out(taint) && !is_tolerated(&request.tolerations, taint)) {
        return Err(Obstacle::Taint);
    }
    if !is_wanted(request, place) {
        return Err(Obstacle::NodeAffinity);
    }
    has_room(request, place)
}

/// And what the pods around say, which takes longer to find out.
pub fn fit_in(request: &Request, place: &Place, surroundings: &Surroundings) -> Result<(), Obstacle> {
    fit(request, place)?;
    surroundings.admit(place)
}

/// Whether a pod's selector and node affinity name this node.
pub fn is_wanted(request: &Request, place: &Place) -> bool {
    let selected = request.node_selector.iter().all(|(key, value)| place.labels.get(key) == Some(value));
    selected && request.node_terms.as_ref().is_none_or(|terms| terms.iter().any(|term| matches_term(term, place)))
}

fn has_room(request: &Request, place: &Place) -> Result<(), Obstacle> {
    let Some(allocatable) = &place.allocatable else { return Ok(()) };
    let mut short = Vec::new();
    let mut hopeless = false;
    if i64::try_from(place.pods).unwrap_or(i64::MAX) >= allocatable.get(POD_COUNT) {
        short.push("Too many pods".to_string());
    }
    for (name, needed) in request.needs.iter() {
        let all = allocatable.get(name);
        if needed > all.saturating_sub(place.used.get(name)) {
            short.push(format!("Insufficient {name}"));
            hopeless |= needed > all;
        }
    }
    if short.is_empty() { Ok(()) } else { Err(Obstacle::Resources { short, hopeless }) }
}

fn tolerates_cordon(tolerations: &[Toleration]) -> bool {
    is_tolerated(
        tolerations,
        &Taint { key: UNSCHEDULABLE_TAINT.into(), effect: "NoSchedule".into(), ..Taint::default() },
    )
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

pub fn keeps_out(taint: &Taint) -> bool {
    matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
}

pub fn is_tolerated(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| tolerates(toleration, taint))
}

pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
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
