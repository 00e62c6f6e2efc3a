//! Node lifecycle: a machine that falls silent, taints that mirror a node's condition, pods that are not ready because
//! their node is not, and pods that a taint drives out.
//!
//! Models `pkg/controller/nodelifecycle` and `pkg/controller/tainteviction` of Kubernetes 1.34 with their default times,
//! without the limits on how fast many zones are tainted. Only Leases of simulated machines are watched over: what a
//! captured cluster said when it was captured stays as it is.

use std::time::Duration;

use drover_api::node::UNSCHEDULABLE_TAINT;
use drover_clock::later;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};

use super::events::{self, Note};
use super::outcome::{Action, Outcome, seconds_after, sooner, stamp};
use super::pods;
use super::scheduler::fit::tolerates;

pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
pub const DISK_PRESSURE: &str = "node.kubernetes.io/disk-pressure";
pub const MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";
pub const PID_PRESSURE: &str = "node.kubernetes.io/pid-pressure";

const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";

/// For how long a kubelet may be silent before its node counts as lost.
const GRACE_PERIOD: Duration = Duration::from_secs(50);
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// A node whose kubelet has not renewed its Lease for too long: nobody knows how it is.
pub fn watch_over(node: &Node, lease: &Lease, now: Timestamp) -> Outcome {
    let Some(renewed) = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref()) else {
        return Outcome::nothing();
    };
    let lapses = later(renewed.0, GRACE_PERIOD);
    if now < lapses {
        return Outcome::wait_until(lapses);
    }
    if ready(node) == Some("Unknown") {
        return Outcome::nothing();
    }
    let mut lost = node.clone();
    for condition in lost.status.get_or_insert_default().conditions.iter_mut().flatten() {
        if REPORTED.contains(&condition.type_.as_str()) && condition.status != "Unknown" {
            condition.status = "Unknown".into();
            condition.reason = Some("NodeStatusUnknown".into());
            condition.message = Some("Kubelet stopped posting node status.".into());
            condition.last_transition_time = Some(stamp(now));
        }
    }
    let sentence = format!("Node {} status is now: NodeNotReady", pods::name(&node.metadata));
    let event = Note::normal("NodeNotReady", sentence).by("node-controller").about(node);
    Outcome::act(vec![Action::NodeStatus(Box::new(lost)), Action::Note(Box::new(event))])
}

/// Ends a pod that does not tolerate the taints of its node, or no longer.
pub fn drive_out(pod: &Pod, taints: &[Taint], now: Timestamp) -> Outcome {
    if pods::is_leaving(pod) || pods::has_ended(pod) {
        return Outcome::nothing();
    }
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
    let ends = taints.iter().map(|taint| tolerated_until(taint, tolerations, now)).fold(None, sooner);
    match ends {
        None => return Outcome::nothing(),
        Some(moment) if now < moment => return Outcome::wait_until(moment),
        Some(_) => {}
    }
    let mut status = pod.status.clone().unwrap_or_default();
    let why = "Taint manager: deleting due to NoExecute taint";
    let conditions = status.conditions.get_or_insert_default();
    pods::set_condition(conditions, "DisruptionTarget", true, Some("DeletionByTaintManager"), Some(why.into()), now);
    let sentence = format!("Marking for deletion Pod {}", events::named(&pod.metadata));
    Outcome::act(vec![
        Action::Note(Box::new(
            Note::normal("TaintManagerEviction", sentence).by("taint-eviction-controller").about(pod),
        )),
        Action::PodStatus(Box::new(Pod { status: Some(status), ..pod.clone() })),
        Action::delete_pod(pod),
    ])
}

/// The moment at which a pod has to go because of a taint; none if it may stay for ever.
fn tolerated_until(taint: &Taint, tolerations: &[Toleration], now: Timestamp) -> Option<Timestamp> {
    let since = taint.time_added.clone().unwrap_or_else(|| stamp(now));
    let matching: Vec<&Toleration> = tolerations.iter().filter(|one| tolerates(one, taint)).collect();
    if matching.is_empty() {
        return Some(now);
    }
    matching.iter().filter_map(|one| one.toleration_seconds).min().map(|seconds| seconds_after(&since, seconds))
}

/// The taints of a node that pods already there must tolerate.
pub fn evicting_taints(node: &Node) -> impl Iterator<Item = &Taint> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.into_iter().flatten().filter(|taint| taint.effect == NO_EXECUTE)
}

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

/// Conditions that keep new pods away while they are true.
const PRESSURES: [(&str, &str); 4] = [
    ("MemoryPressure", MEMORY_PRESSURE),
    ("DiskPressure", DISK_PRESSURE),
    ("PIDPressure", PID_PRESSURE),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
];

fn wanted(node: &Node) -> Vec<(&'static str, &'static str)> {
    let mut wanted = match ready(node) {
        Some("False") => vec![(NOT_READY, NO_SCHEDULE), (NOT_READY, NO_EXECUTE)],
        Some("Unknown") => vec![(UNREACHABLE, NO_SCHEDULE), (UNREACHABLE, NO_EXECUTE)],
        _ => Vec::new(),
    };
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    for (kind, taint) in PRESSURES {
        if conditions.into_iter().flatten().any(|condition| condition.type_ == kind && condition.status == "True") {
            wanted.push((taint, NO_SCHEDULE));
        }
    }
    if node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true)) {
        wanted.push((UNSCHEDULABLE_TAINT, NO_SCHEDULE));
    }
    wanted
}

fn is_ours(taint: &Taint) -> bool {
    match taint.key.as_str() {
        NOT_READY | UNREACHABLE => matches!(taint.effect.as_str(), NO_SCHEDULE | NO_EXECUTE),
        UNSCHEDULABLE_TAINT => taint.effect == NO_SCHEDULE,
        key => taint.effect == NO_SCHEDULE && PRESSURES.iter().any(|(_, taint)| *taint == key),
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
    fn pressure_keeps_new_pods_away_while_it_lasts() {
        let mut pressed = node("True", json!({}));
        let conditions = pressed.status.as_mut().unwrap().conditions.as_mut().unwrap();
        conditions.push(serde_json::from_value(json!({"type": "DiskPressure", "status": "True"})).unwrap());
        assert_eq!(taints(&pressed), ["node.kubernetes.io/disk-pressure:NoSchedule"]);
    }

    fn after(seconds: i64) -> Timestamp {
        later(noon(), Duration::from_secs(u64::try_from(seconds).unwrap()))
    }

    #[test]
    fn a_kubelet_that_is_silent_for_too_long_makes_its_node_unknown() {
        let lease: Lease =
            serde_json::from_value(json!({"spec": {"renewTime": "2026-01-01T12:00:00.000000Z"}})).unwrap();
        let silent = node("True", json!({}));
        assert_eq!(watch_over(&silent, &lease, after(49)), Outcome::wait_until(after(50)));

        let outcome = watch_over(&silent, &lease, after(50));
        let [Action::NodeStatus(lost), Action::Note(event)] = &outcome.actions[..] else { panic!("{outcome:?}") };
        assert_eq!((ready(lost), event.reason()), (Some("Unknown"), "NodeNotReady"));
        assert_eq!(watch_over(lost, &lease, after(60)), Outcome::nothing());
    }

    #[test]
    fn a_taint_drives_out_at_once_later_or_never_as_the_pod_tolerates_it() {
        let taint =
            Taint { key: UNREACHABLE.into(), effect: NO_EXECUTE.into(), time_added: Some(stamp(noon())), value: None };
        let pod = |tolerations: Value| -> Pod {
            serde_json::from_value(json!({
                "metadata": {"name": "p", "namespace": "ns"}, "spec": {"containers": [], "tolerations": tolerations},
            }))
            .unwrap()
        };
        let out = |pod: &Pod, now| drive_out(pod, std::slice::from_ref(&taint), now);

        assert!(matches!(&out(&pod(json!([])), noon()).actions[..], [.., Action::DeletePod { .. }]));
        let patient = pod(json!([{"key": UNREACHABLE, "operator": "Exists", "tolerationSeconds": 300}]));
        assert_eq!(out(&patient, after(10)), Outcome::wait_until(after(300)));
        assert!(matches!(&out(&patient, after(300)).actions[..], [.., Action::DeletePod { .. }]));
        assert_eq!(out(&pod(json!([{"operator": "Exists"}])), after(900)), Outcome::nothing());
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
