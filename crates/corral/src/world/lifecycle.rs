//! Node lifecycle: taints that mirror a node's condition, and pods that are not ready because their node is not.
//!
//! Models `pkg/controller/nodelifecycle` of Kubernetes 1.34, without its monitoring of Leases (`Ready` turns `Unknown`
//! only if somebody says so) and without the eviction of pods by NoExecute taints.

use drover_api::node::UNSCHEDULABLE_TAINT;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, Taint};

use super::outcome::{Action, Outcome, stamp};
use super::pods;

pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";

/// Brings the taints of a node in line with its condition. Taints of others are left alone.
pub fn taint(node: &Node, now: Timestamp) -> Outcome {
    let wanted = wanted(node);
    let found = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let is_wanted = |taint: &Taint| wanted.contains(&(taint.key.as_str(), taint.effect.as_str()));
    let mut taints: Vec<Taint> = found.iter().filter(|taint| !is_ours(taint) || is_wanted(taint)).cloned().collect();
    for (key, effect) in &wanted {
        if !taints.iter().any(|taint| taint.key == *key && taint.effect == *effect) {
            let added = Some(stamp(now));
            taints.push(Taint { key: (*key).into(), effect: (*effect).into(), value: None, time_added: added });
        }
    }
    if taints == found {
        return Outcome::nothing();
    }
    let mut node = node.clone();
    node.spec.get_or_insert_default().taints = Some(taints).filter(|taints| !taints.is_empty());
    Outcome::act(vec![Action::UpdateNode(Box::new(node))])
}

/// A pod on a node that is not ready cannot be ready itself.
pub fn mark_not_ready(pod: &Pod, now: Timestamp) -> Outcome {
    if !pods::is_ready(pod) {
        return Outcome::nothing();
    }
    let mut status = pod.status.clone().unwrap_or_default();
    pods::set_condition(status.conditions.get_or_insert_default(), pods::READY, false, None, None, now);
    Outcome::act(vec![Action::PodStatus(Box::new(Pod { status: Some(status), ..pod.clone() }))])
}

/// False for a node whose `Ready` condition says something else than `True`.
pub fn is_ready(node: &Node) -> bool {
    ready(node).is_none_or(|status| status == "True")
}

fn ready(node: &Node) -> Option<&str> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "Ready").map(|condition| condition.status.as_str())
}

fn wanted(node: &Node) -> Vec<(&'static str, &'static str)> {
    let mut wanted = match ready(node) {
        Some("False") => vec![(NOT_READY, NO_SCHEDULE), (NOT_READY, NO_EXECUTE)],
        Some("Unknown") => vec![(UNREACHABLE, NO_SCHEDULE), (UNREACHABLE, NO_EXECUTE)],
        _ => Vec::new(),
    };
    if node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true)) {
        wanted.push((UNSCHEDULABLE_TAINT, NO_SCHEDULE));
    }
    wanted
}

fn is_ours(taint: &Taint) -> bool {
    match taint.key.as_str() {
        NOT_READY | UNREACHABLE => matches!(taint.effect.as_str(), NO_SCHEDULE | NO_EXECUTE),
        UNSCHEDULABLE_TAINT => taint.effect == NO_SCHEDULE,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn noon() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    fn node(ready: &str, spec: Value) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": "n1"}, "spec": spec, "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }))
        .unwrap()
    }

    /// The taints after the controller has looked, as `key:effect`.
    fn taints(node: &Node) -> Vec<String> {
        let outcome = taint(node, noon());
        let node = match &outcome.actions[..] {
            [Action::UpdateNode(node)] => node,
            [] => node,
            other => panic!("it writes the node only, not {other:?}"),
        };
        let taints = node.spec.as_ref().unwrap().taints.iter().flatten();
        taints.map(|taint| format!("{}:{}", taint.key, taint.effect)).collect()
    }

    #[test]
    fn a_node_that_is_not_ready_is_tainted_for_pods_new_and_old() {
        assert_eq!(
            taints(&node("False", json!({}))),
            ["node.kubernetes.io/not-ready:NoSchedule", "node.kubernetes.io/not-ready:NoExecute"]
        );
    }

    #[test]
    fn a_node_that_fell_silent_is_tainted_as_unreachable_instead() {
        let silent = node("Unknown", json!({"taints": [{"key": NOT_READY, "effect": NO_EXECUTE}]}));

        assert_eq!(
            taints(&silent),
            ["node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"]
        );
    }

    #[test]
    fn a_cordon_shows_as_a_taint_and_goes_with_it() {
        let cordoned = node("True", json!({"unschedulable": true, "taints": [{"key": "role", "effect": NO_SCHEDULE}]}));
        assert_eq!(taints(&cordoned), ["role:NoSchedule", "node.kubernetes.io/unschedulable:NoSchedule"]);

        let Action::UpdateNode(mut node) = taint(&cordoned, noon()).actions.remove(0) else { panic!("an update") };
        assert_eq!(taint(&node, noon()), Outcome::nothing());
        node.spec.as_mut().unwrap().unschedulable = None;
        assert_eq!(taints(&node), ["role:NoSchedule"]);
    }

    #[test]
    fn pods_of_a_lost_node_are_not_ready() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }))
        .unwrap();

        let outcome = mark_not_ready(&pod, noon());

        let [Action::PodStatus(pod)] = &outcome.actions[..] else { panic!("a status") };
        assert!(!pods::is_ready(pod));
        assert_eq!(mark_not_ready(pod, noon()), Outcome::nothing());
    }
}
