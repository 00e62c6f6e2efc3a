//! Can a node be drained: now, later, or never, as long as budgets, replicas, capacity, VMs and volumes stay as they are?
//!
//! A drain moves one pod after the other. A budget that can spare a pod lets all go, one at a time, as long as each finds
//! another node and becomes healthy there; a pod that no other node takes uses up its budget's spare for good.

mod vms;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::cluster::{Cluster, Node, ObjectRef, Pod, PodDisruptionBudget};
use crate::placement::Places;
use crate::why::{self, Link, Outlook};
pub(crate) use vms::suits as suits_vm;
use volumes::Copies;

/// What would become of one node's drain.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    pub node: String,
    pub drains: Verdict,
    /// What is in the way, the worst first.
    pub blockers: Vec<Blocker>,
    /// Pods that can go, but find no other node: they wait until this one is back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stranded: Vec<ObjectRef>,
    /// What has a single pod, and that one here: it is down until it runs elsewhere.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interrupted: Vec<ObjectRef>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Not before somebody changes something.
    Never,
    /// Once something that can pass has passed.
    Later,
    Now,
}

/// One object that is in the way of a drain.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Blocker {
    pub object: ObjectRef,
    /// The pod on the node that cannot go for it.
    pub pod: Option<ObjectRef>,
    pub statement: String,
    /// Until when it blocks.
    pub drains: Verdict,
    /// The smallest change that helps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// What a drain is allowed to do beside evicting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rules {
    /// Pods without a controller go, too.
    pub force: bool,
    /// Pods are deleted past their budgets.
    pub disable_eviction: bool,
}

impl Forecast {
    /// The node, then a line for each that is in the way.
    pub fn text(&self) -> String {
        let verdict = match self.drains {
            Verdict::Now => "now",
            Verdict::Later => "later",
            Verdict::Never => "never, as things are",
        };
        let mut text = format!("  {}  {verdict}\n", self.node);
        for blocker in &self.blockers {
            text.push_str(&format!("    {}\n", blocker.statement));
            if let Some(remedy) = &blocker.remedy {
                text.push_str(&format!("      what would help: {remedy}\n"));
            }
        }
        let moved = [("no other node takes", &self.stranded), ("down while its only pod moves:", &self.interrupted)];
        for (what, objects) in moved.into_iter().filter(|(_, objects)| !objects.is_empty()) {
            text.push_str(&format!("    {what} {}\n", named(objects)));
        }
        text
    }
}

/// `Pod/shop/a, Pod/shop/b and 3 more`
fn named(objects: &[ObjectRef]) -> String {
    const NAMED: usize = 5;
    let names: Vec<String> = objects.iter().take(NAMED).map(ToString::to_string).collect();
    let more = objects.len().saturating_sub(NAMED);
    if more == 0 { names.join(", ") } else { format!("{} and {more} more", names.join(", ")) }
}

/// Every node, by name.
pub fn forecast_all(cluster: &Cluster, rules: Rules) -> Vec<Forecast> {
    let (places, copies) = (Places::of(cluster), Copies::of(cluster));
    cluster.nodes.iter().map(|node| look(cluster, &places, &copies, node, rules)).collect()
}

pub fn forecast(cluster: &Cluster, node: &Node, rules: Rules) -> Forecast {
    look(cluster, &Places::of(cluster), &Copies::of(cluster), node, rules)
}

fn look<'a>(cluster: &'a Cluster, places: &Places<'a>, copies: &Copies<'_>, node: &'a Node, rules: Rules) -> Forecast {
    let leaving: Vec<&Pod> =
        places.pods_on(&node.metadata.name).iter().copied().filter(|pod| why::has_to_go(pod)).collect();
    let mut blockers: Vec<Blocker> =
        why::node_down(cluster, node).into_iter().map(|link| blocker(None, link)).collect();
    let stranded = stranded(places, node, &leaving);
    for pod in &leaving {
        if pod.metadata.controller().is_none() && !rules.force && !pod.has_ended() {
            blockers.push(unmanaged(pod));
        }
        // VMs and volumes have their own blockers; their budgets are lifted when those are gone.
        if !rules.disable_eviction && !why::is_kept_by_product(cluster, pod) {
            blockers.extend(why::forbidden(cluster, pod).map(|link| blocker(Some(pod), link)));
        }
    }
    if !rules.disable_eviction {
        blockers.extend(used_up(cluster, &leaving, &stranded));
        blockers.extend(vms::in_the_way(cluster, node));
        blockers.extend(copies.in_the_way(cluster, node));
    }
    blockers.sort_by(|one, other| (one.drains, &one.object).cmp(&(other.drains, &other.object)));
    blockers.dedup_by(|one, other| one.object == other.object && one.statement == other.statement);
    Forecast {
        node: node.metadata.name.clone(),
        drains: blockers.iter().map(|blocker| blocker.drains).min().unwrap_or(Verdict::Now),
        blockers,
        stranded: stranded.into_iter().map(ObjectRef::of).collect(),
        interrupted: interrupted(cluster, &leaving),
    }
}

/// What runs in a single pod, which is here.
fn interrupted(cluster: &Cluster, leaving: &[&Pod]) -> Vec<ObjectRef> {
    let owners = leaving.iter().filter_map(|pod| cluster.root_owner(&pod.metadata));
    let is_single = |owner: &ObjectRef| {
        let (namespace, name) = (owner.namespace.as_str(), owner.name.as_str());
        let wanted = match owner.kind.as_str() {
            "Deployment" => cluster.deployments.get(namespace, name).map(|one| one.spec.wanted()),
            "StatefulSet" => cluster.stateful_sets.get(namespace, name).map(|one| one.spec.wanted()),
            "ReplicaSet" => cluster.replica_sets.get(namespace, name).map(|one| one.spec.wanted()),
            _ => None,
        };
        wanted == Some(1)
    };
    owners.filter(is_single).collect::<BTreeSet<_>>().into_iter().collect()
}

fn blocker(pod: Option<&Pod>, link: Link) -> Blocker {
    let drains = if link.outlook == Outlook::No { Verdict::Never } else { Verdict::Later };
    Blocker { object: link.object, pod: pod.map(ObjectRef::of), statement: link.statement, drains, remedy: link.remedy }
}

fn unmanaged(pod: &Pod) -> Blocker {
    let object = ObjectRef::of(pod);
    Blocker {
        statement: format!("{} has no controller that would make it anew: only force removes it", object.in_words()),
        remedy: Some("drain with force, or delete the pod".to_owned()),
        pod: Some(object.clone()),
        object,
        drains: Verdict::Never,
    }
}

/// The pods that no other node takes, each placed after the ones before it.
fn stranded<'a>(places: &Places<'a>, node: &'a Node, leaving: &[&'a Pod]) -> Vec<&'a Pod> {
    let mut others = places.clone();
    others.remove(&node.metadata.name);
    let mut stranded = Vec::new();
    for pod in leaving.iter().filter(|pod| pod.metadata.controller().is_some() && !pod.is_ending()) {
        match others.find(pod) {
            Some(place) => others.put(pod, place),
            None => stranded.push(*pod),
        }
    }
    stranded
}

/// Budgets whose spare is used up by pods that do not come back.
fn used_up(cluster: &Cluster, leaving: &[&Pod], stranded: &[&Pod]) -> Vec<Blocker> {
    let mut by_budget: BTreeMap<ObjectRef, (&PodDisruptionBudget, i64, i64)> = BTreeMap::new();
    for pod in leaving.iter().filter(|pod| !why::is_kept_by_product(cluster, pod)) {
        if let Some(budget) = cluster.budgets_of(pod).next() {
            let entry = by_budget.entry(ObjectRef::of(budget)).or_insert((budget, 0, 0));
            entry.1 += 1;
            entry.2 += i64::from(stranded.iter().any(|other| std::ptr::eq(*other, *pod)));
        }
    }
    let blocked = by_budget.into_iter().filter_map(|(object, (budget, covered, lost))| {
        let status = &budget.status;
        let spare = status.expected_pods - status.desired_healthy;
        // The last pod to go may be the one that is lost.
        let is_blocked = lost > 0 && spare > 0 && covered > spare && lost >= spare;
        is_blocked.then(|| Blocker {
            statement: format!(
                "no other node takes {lost} of the {covered} pods of {} that are here, and it can spare {spare}",
                object.in_words()
            ),
            remedy: Some("make room for them on other nodes, or let the budget spare more".to_owned()),
            pod: None,
            object,
            drains: Verdict::Never,
        })
    });
    blocked.collect()
}

#[cfg(test)]
mod tests;
