//! PodDisruptionBudgets: how many of the pods they cover may be evicted right now.
//!
//! Models `pkg/controller/disruption` of Kubernetes 1.34: for `maxUnavailable` and percentages it asks the pods' controllers
//! how many pods there should be. Of controllers that this world does not have, the pods that there are count instead.

use std::collections::BTreeMap;
use std::time::Duration;

use drover_clock::later;
use jiff::Timestamp;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::outcome::{Action, Outcome, stamp};

/// A pod whose eviction was granted counts as gone for this long, though it is still there.
const DELETION_TIMEOUT: Duration = Duration::from_secs(120);
const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";

/// What counts of a pod that a budget selects.
#[derive(Clone, Debug, PartialEq)]
pub struct Covered {
    pub name: String,
    pub ready: bool,
    pub leaving: bool,
    /// What its controller wants, if it has one.
    pub owner: Option<Scale>,
}

/// How many pods a controller wants.
#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    Wants {
        uid: String,
        replicas: i32,
    },
    /// Its kind does not say, so the original gives up.
    None {
        resource: &'static str,
    },
    Unknown {
        uid: String,
    },
}

/// The state of a budget, given the pods that it selects.
pub fn assess(budget: &PodDisruptionBudget, selected: &[Covered], now: Timestamp) -> Outcome {
    let Some(spec) = &budget.spec else { return Outcome::nothing() };
    let before = budget.status.clone().unwrap_or_default();
    let (expected, desired) = match expectation(spec, selected) {
        Ok(numbers) => numbers,
        Err(why) => return fail(budget, before, why, now),
    };
    let (disrupted, wake) = still_disrupted(&before, selected, now);
    let healthy = count(selected.iter().filter(|pod| pod.ready && !pod.leaving && !disrupted.contains_key(&pod.name)));
    let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
    let generation = budget.metadata.generation;
    let status = PodDisruptionBudgetStatus {
        current_healthy: healthy,
        desired_healthy: desired,
        expected_pods: expected,
        disruptions_allowed: allowed,
        disrupted_pods: Some(disrupted).filter(|pods| !pods.is_empty()),
        observed_generation: generation,
        conditions: Some(conditions(
            before.conditions,
            allowed > 0,
            sufficiency(allowed),
            String::new(),
            generation,
            now,
        )),
    };
    if budget.status.as_ref() == Some(&status) {
        return Outcome { actions: Vec::new(), wake };
    }
    let budget = PodDisruptionBudget { status: Some(status), ..budget.clone() };
    Outcome { actions: vec![Action::BudgetStatus(Box::new(budget))], wake }
}

/// A budget that cannot be worked out allows nothing.
fn fail(budget: &PodDisruptionBudget, before: PodDisruptionBudgetStatus, why: String, now: Timestamp) -> Outcome {
    let generation = budget.metadata.generation;
    let status = PodDisruptionBudgetStatus {
        disruptions_allowed: 0,
        observed_generation: generation,
        conditions: Some(conditions(before.conditions.clone(), false, "SyncFailed", why, generation, now)),
        ..before
    };
    if budget.status.as_ref() == Some(&status) {
        return Outcome::nothing();
    }
    let budget = PodDisruptionBudget { status: Some(status), ..budget.clone() };
    Outcome::act(vec![Action::BudgetStatus(Box::new(budget))])
}

/// How many pods there should be, and how many of them healthy.
fn expectation(spec: &PodDisruptionBudgetSpec, selected: &[Covered]) -> Result<(i32, i32), String> {
    Ok(match (&spec.max_unavailable, &spec.min_available) {
        (Some(most), _) => {
            let wanted = wanted(selected)?;
            (wanted, (wanted - share(most, wanted)).max(0))
        }
        (None, Some(IntOrString::Int(least))) => (count(selected.iter()), *least),
        (None, Some(least)) => {
            let wanted = wanted(selected)?;
            (wanted, share(least, wanted))
        }
        (None, None) => (count(selected.iter()), 0),
    })
}

/// What the controllers of the pods want together.
fn wanted(selected: &[Covered]) -> Result<i32, String> {
    let mut by_controller: BTreeMap<&str, i32> = BTreeMap::new();
    for owner in selected.iter().filter_map(|pod| pod.owner.as_ref()) {
        match owner {
            Scale::Wants { uid, replicas } => {
                by_controller.insert(uid, *replicas);
            }
            Scale::Unknown { uid } => *by_controller.entry(uid).or_default() += 1,
            Scale::None { resource } => return Err(format!("{resource} does not implement the scale subresource")),
        }
    }
    Ok(by_controller.values().sum())
}

fn sufficiency(allowed: i32) -> &'static str {
    if allowed > 0 { "SufficientPods" } else { "InsufficientPods" }
}

/// A number as it stands, or a percentage of `whole`, rounded up.
fn share(value: &IntOrString, whole: i32) -> i32 {
    match value {
        IntOrString::Int(number) => *number,
        IntOrString::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            i32::try_from((i64::from(whole) * percent + 99) / 100).unwrap_or(i32::MAX)
        }
    }
}

/// Granted evictions whose pods have not begun to go, and when the first of them is given up.
fn still_disrupted(
    before: &PodDisruptionBudgetStatus,
    selected: &[Covered],
    now: Timestamp,
) -> (BTreeMap<String, Time>, Option<Timestamp>) {
    let granted = before.disrupted_pods.clone().unwrap_or_default();
    let still: BTreeMap<String, Time> = selected
        .iter()
        .filter(|pod| !pod.leaving)
        .filter_map(|pod| granted.get_key_value(&pod.name))
        .filter(|(_, since)| later(since.0, DELETION_TIMEOUT) > now)
        .map(|(name, since)| (name.clone(), since.clone()))
        .collect();
    let wake = still.values().map(|since| later(since.0, DELETION_TIMEOUT)).min();
    (still, wake)
}

fn conditions(
    before: Option<Vec<Condition>>,
    allowed: bool,
    reason: &str,
    message: String,
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let status = if allowed { "True" } else { "False" };
    let mut conditions = before.unwrap_or_default();
    let at = conditions.iter().position(|condition| condition.type_ == DISRUPTION_ALLOWED);
    let since = at.and_then(|at| conditions.get(at)).filter(|condition| condition.status == status);
    let after = Condition {
        type_: DISRUPTION_ALLOWED.into(),
        status: status.into(),
        reason: reason.into(),
        message,
        observed_generation: generation,
        last_transition_time: since.map_or_else(|| stamp(now), |condition| condition.last_transition_time.clone()),
    };
    match at.and_then(|at| conditions.get_mut(at)) {
        Some(condition) => *condition = after,
        None => conditions.push(after),
    }
    conditions
}

fn count(items: impl Iterator) -> i32 {
    i32::try_from(items.count()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_767_268_800 + seconds).unwrap()
    }

    fn budget(spec: Value, status: Value) -> PodDisruptionBudget {
        serde_json::from_value(json!({"metadata": {"name": "b", "generation": 1}, "spec": spec, "status": status}))
            .unwrap()
    }

    fn pod(name: &str, ready: bool) -> Covered {
        let owner = Some(Scale::Unknown { uid: "r".into() });
        Covered { name: name.into(), ready, leaving: false, owner }
    }

    fn written(outcome: &Outcome) -> PodDisruptionBudgetStatus {
        let [Action::BudgetStatus(budget)] = &outcome.actions[..] else { panic!("a status, not {outcome:?}") };
        budget.status.clone().unwrap()
    }

    /// allowed, healthy, desired, expected
    fn numbers(spec: Value, pods: &[Covered]) -> (i32, i32, i32, i32) {
        let status = written(&assess(&budget(spec, Value::Null), pods, at(0)));
        (status.disruptions_allowed, status.current_healthy, status.desired_healthy, status.expected_pods)
    }

    #[test]
    fn what_is_healthy_beyond_the_least_may_be_disrupted() {
        let three = [pod("a", true), pod("b", true), pod("c", false)];

        assert_eq!(numbers(json!({"minAvailable": 1}), &three), (1, 2, 1, 3));
        assert_eq!(numbers(json!({"minAvailable": 3}), &three), (0, 2, 3, 3));
        assert_eq!(numbers(json!({"minAvailable": "50%"}), &three), (0, 2, 2, 3));
        assert_eq!(numbers(json!({"maxUnavailable": 1}), &three), (0, 2, 2, 3));
        assert_eq!(numbers(json!({"maxUnavailable": "67%"}), &three), (2, 2, 0, 3));
    }

    #[test]
    fn the_controllers_say_how_many_pods_there_should_be() {
        let of = |uid: &str, replicas| Some(Scale::Wants { uid: uid.into(), replicas });
        let two = [Covered { owner: of("a", 4), ..pod("a", true) }, Covered { owner: of("a", 4), ..pod("b", true) }];
        assert_eq!(numbers(json!({"maxUnavailable": 1}), &two), (0, 2, 3, 4));

        let mixed = [two[0].clone(), Covered { owner: of("b", 2), ..pod("c", true) }];
        assert_eq!(numbers(json!({"minAvailable": "50%"}), &mixed), (0, 2, 3, 6));
    }

    #[test]
    fn a_budget_over_pods_whose_number_nobody_says_allows_nothing() {
        let daemon = Covered { owner: Some(Scale::None { resource: "daemonsets.apps" }), ..pod("a", true) };
        let known = budget(json!({"maxUnavailable": 1}), Value::Null);

        let status = written(&assess(&known, std::slice::from_ref(&daemon), at(0)));
        let condition = &status.conditions.as_ref().unwrap()[0];
        assert_eq!(status.disruptions_allowed, 0);
        assert_eq!(
            (condition.reason.as_str(), condition.message.as_str()),
            ("SyncFailed", "daemonsets.apps does not implement the scale subresource")
        );
        assert_eq!(numbers(json!({"minAvailable": 0}), &[daemon]), (1, 1, 0, 1), "a plain number needs nobody");
    }

    #[test]
    fn a_budget_without_pods_allows_nothing() {
        assert_eq!(numbers(json!({"minAvailable": 0}), &[]), (0, 0, 0, 0));
    }

    #[test]
    fn an_eviction_that_was_granted_counts_at_once_and_is_given_up_after_two_minutes() {
        let granted = budget(
            json!({"minAvailable": 1}),
            json!({
                "currentHealthy": 2, "desiredHealthy": 1, "disruptionsAllowed": 0, "expectedPods": 2,
                "disruptedPods": {"a": at(0).to_string()},
            }),
        );
        let two = [pod("a", true), pod("b", true)];

        let outcome = assess(&granted, &two, at(10));
        assert_eq!(written(&outcome).disruptions_allowed, 0);
        assert_eq!(outcome.wake, Some(at(120)));

        let outcome = assess(&granted, &two, at(120));
        assert_eq!(written(&outcome).disruptions_allowed, 1);
        assert_eq!(written(&outcome).disrupted_pods, None);
    }

    #[test]
    fn a_budget_that_is_up_to_date_is_not_written_again() {
        let pods = [pod("a", true)];
        let first = written(&assess(&budget(json!({"minAvailable": 0}), Value::Null), &pods, at(0)));
        let known = PodDisruptionBudget { status: Some(first), ..budget(json!({"minAvailable": 0}), Value::Null) };

        assert_eq!(assess(&known, &pods, at(60)), Outcome::nothing());
    }
}
