//! The scheduler: gives each waiting pod a node that suits it, or says why none does.
//!
//! Models the filters of kube-scheduler 1.34 (`pkg/scheduler/framework/plugins`) that upgrades meet, in their order and
//! with their sentences: unschedulable nodes, taints, node selectors and required node affinity, resources, topology
//! spread, required pod affinity and anti-affinity. Left out: ports, volumes, preferences and preemption. Of the nodes that
//! suit, the one with the fewest pods is taken, then the first by name.

pub mod amounts;
pub mod fit;
mod request;
mod surroundings;

#[cfg(test)]
mod tests;

pub use fit::Place;
pub use request::{Neighbours, Request};
pub use surroundings::Surroundings;

use std::collections::BTreeMap;
use std::time::Duration;

use drover_clock::later;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::events::Note;
use super::outcome::{Action, Outcome};
use super::pods;

/// How soon a pod that fits nowhere is looked at again, so that the reason which it carries stays true.
const TRY_AGAIN: Duration = Duration::from_secs(60);

/// Where a pod goes, or why it goes nowhere.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Bind(String),
    Unschedulable(String),
}

/// Takes the first of the places that suits; they come in the order of preference.
pub fn choose<'a>(request: &Request, places: impl Iterator<Item = &'a Place>, surroundings: &Surroundings) -> Verdict {
    let mut obstacles: BTreeMap<String, usize> = BTreeMap::new();
    let (mut all, mut beyond_help) = (0, 0);
    for place in places {
        all += 1;
        match fit::fit_in(request, place, surroundings) {
            Ok(()) => return Verdict::Bind(place.name.clone()),
            Err(obstacle) => {
                for sentence in obstacle.sentences() {
                    *obstacles.entry(sentence).or_default() += 1;
                }
                beyond_help += usize::from(!obstacle.would_yield_to_preemption());
            }
        }
    }
    Verdict::Unschedulable(explain(all, &obstacles, beyond_help))
}

/// Writes the verdict down.
pub fn settle(pod: &Pod, verdict: Verdict, now: Timestamp) -> Outcome {
    let message = match verdict {
        Verdict::Bind(node) => {
            let (namespace, name) = (pods::namespace(&pod.metadata).into(), pods::name(&pod.metadata).into());
            return Outcome::act(vec![Action::BindPod { namespace, name, node }]);
        }
        Verdict::Unschedulable(message) => message,
    };
    let again = later(now, TRY_AGAIN);
    let mut status = pod.status.clone().unwrap_or_default();
    let conditions = status.conditions.get_or_insert_default();
    if !pods::set_condition(conditions, pods::POD_SCHEDULED, false, Some("Unschedulable"), Some(message.clone()), now) {
        return Outcome::wait_until(again);
    }
    let event = Note::warning("FailedScheduling", message).by("default-scheduler").about(pod);
    let told = Pod { status: Some(status), ..pod.clone() };
    Outcome { actions: vec![Action::PodStatus(Box::new(told)), Action::Note(Box::new(event))], wake: Some(again) }
}

/// `0/3 nodes are available: 2 node(s) …, 1 node(s) …. …`, as kube-scheduler puts it.
fn explain(all: usize, obstacles: &BTreeMap<String, usize>, beyond_help: usize) -> String {
    if all == 0 {
        return "no nodes available to schedule pods".into();
    }
    let listed = |counts: Vec<(&str, usize)>| {
        let mut parts: Vec<String> = counts.into_iter().map(|(text, count)| format!("{count} {text}")).collect();
        parts.sort();
        parts.join(", ")
    };
    let reasons = listed(obstacles.iter().map(|(text, count)| (text.as_str(), *count)).collect());
    let helps = listed(
        [
            ("Preemption is not helpful for scheduling", beyond_help),
            ("No preemption victims found for incoming pod", all - beyond_help),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .collect(),
    );
    format!(
        "0/{all} nodes are available: {reasons}. no new claims to deallocate, preemption: 0/{all} nodes are available: {helps}."
    )
}
