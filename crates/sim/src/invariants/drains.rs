//! Drains take pods only from the node that their claim holds, and never past a budget unasked; those of an operator that plans
//! machines, too.

use serde_json::Value;

use super::{Change, Checker, claim, job_of, node_of, owner, plan_of, plan_with_uid, selector};
use crate::known::Known;

impl Checker {
    pub(super) fn check_drained(&mut self, known: &Known, change: &Change<'_>) {
        let is_ending = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_string();
        let Some(pod) = change.after.filter(is_ending) else { return };
        if change.before.is_some_and(|before| is_ending(&before)) {
            return;
        }
        let Some(drained) = drained_by(change, pod) else { return };
        if let Some(other) = node_of(pod).filter(|node| *node != drained) {
            self.violation(format!("the drain of {drained} took {} away from {other}", change.name));
        }
        let node = known.node(drained);
        if node.and_then(claim).is_none() && !self.leave.meddled {
            self.violation(format!("{drained} was drained under no claim"));
        }
        let plan = node.and_then(owner).and_then(|uid| plan_with_uid(known, &uid));
        let asked = plan.is_some_and(|plan| plan["spec"]["drain"]["disableEviction"] == true);
        if !change.evicted && !asked && is_covered(known, change.namespace, pod) {
            self.violation(format!("the drain of {drained} deleted {} past its budget", change.name));
        }
    }
}

impl Checker {
    /// An upgrade begins when nothing is left on its node that was to be drained. `pod` is the upgrade's.
    pub(super) fn check_emptied(&mut self, known: &Known, pod: &Value, node: &str) {
        let drains = plan_of(known, pod).is_some_and(|plan| plan["spec"]["drain"].is_object());
        if !drains || self.uncordoned.contains(node) {
            return;
        }
        let stays = |other: &Value| {
            let owners = other["metadata"]["ownerReferences"].as_array();
            let kinds = owners.into_iter().flatten().filter_map(|owner| owner["kind"].as_str());
            kinds.into_iter().any(|kind| kind == "DaemonSet" || kind == "Job")
        };
        let ended = |other: &Value| ["Succeeded", "Failed"].iter().any(|phase| other["status"]["phase"] == *phase);
        let mut left = known.named("Pod").filter(|(_, _, other)| node_of(other) == Some(node));
        if let Some((_, name, _)) = left.find(|(_, _, other)| !stays(other) && !ended(other)) {
            self.violation(format!("the upgrade of {node} began while {name} was still there"));
        }
    }
}

/// The node whose drain takes this pod. An operator is not told for one node, and takes pods of Jobs with those.
fn drained_by<'a>(change: &Change<'a>, pod: &'a Value) -> Option<&'a str> {
    match change.actor.strip_suffix("/drain") {
        Some(node) => Some(node),
        None if change.is_by_an_operator() && job_of(pod).is_none() => node_of(pod),
        None => None,
    }
}

/// A budget is to be asked before this pod goes.
pub(super) fn is_covered(known: &Known, namespace: &str, pod: &Value) -> bool {
    known
        .named("PodDisruptionBudget")
        .any(|(own, _, budget)| own == namespace && selector::selects(&budget["spec"]["selector"], pod))
}
