//! ReplicaSets: keep as many pods as they should have.
//!
//! Models `pkg/controller/replicaset` of Kubernetes 1.34, with the order in which `pkg/controller` (ActivePodsWithRanks)
//! takes pods away.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};

use super::template::{self, count, next_available};
use crate::world::agenda::Key;
use crate::world::notes::{Phase, PodNote};
use crate::world::outcome::{Action, Outcome};

/// At most this many pods are made or deleted in one look.
const BURST: usize = 500;

/// What to do about a ReplicaSet, given the pods that it controls, and how many pods of its kind are on each node.
pub fn reconcile(
    set: &ReplicaSet,
    pods: &[(&Key, &PodNote)],
    crowd: &BTreeMap<&str, usize>,
    now: Timestamp,
) -> Outcome {
    let Some(spec) = &set.spec else { return Outcome::nothing() };
    let mut active: Vec<(&Key, &PodNote)> = pods.iter().filter(|(_, pod)| pod.is_active()).copied().collect();
    let mut actions = Vec::new();
    if set.metadata.deletion_timestamp.is_none() {
        let wanted = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or(0);
        if let Some(template) = spec.template.as_ref().filter(|_| active.len() < wanted) {
            let missing = (wanted - active.len()).min(BURST);
            let pod = Box::new(template::pod(set, template));
            actions.extend(std::iter::repeat_n(Action::CreatePod(pod), missing));
        } else if active.len() > wanted {
            active.sort_by(|one, other| dispensability(one, crowd).cmp(&dispensability(other, crowd)));
            let surplus = (active.len() - wanted).min(BURST);
            actions.extend(active.iter().take(surplus).map(|(key, pod)| delete(key, pod)));
        }
    }
    let status = status(set, &active, now);
    if set.status.as_ref() != Some(&status) {
        actions.push(Action::ReplicaSetStatus(Box::new(ReplicaSet { status: Some(status), ..set.clone() })));
    }
    let wake = next_available(active.iter().map(|(_, pod)| *pod), spec.min_ready_seconds.unwrap_or(0), now);
    Outcome { actions, wake }
}

pub fn delete(key: &Key, pod: &PodNote) -> Action {
    Action::DeletePod { namespace: key.0.clone(), name: key.1.clone(), uid: pod.uid.clone() }
}

/// What of a pod says whether it goes before another: the smaller one goes first.
type Dispensability<'a> = (
    bool,
    Phase,
    bool,
    i32,
    std::cmp::Reverse<usize>,
    std::cmp::Reverse<Timestamp>,
    std::cmp::Reverse<i32>,
    std::cmp::Reverse<Timestamp>,
    &'a str,
);

fn dispensability<'a>((_, pod): &(&'a Key, &'a PodNote), crowd: &BTreeMap<&str, usize>) -> Dispensability<'a> {
    use std::cmp::Reverse;
    let around = pod.node.as_deref().and_then(|node| crowd.get(node)).copied().unwrap_or(0);
    (
        pod.node.is_some(),
        pod.phase,
        pod.ready,
        pod.deletion_cost,
        Reverse(around),
        Reverse(pod.ready_since.filter(|_| pod.ready).unwrap_or(Timestamp::MAX)),
        Reverse(pod.restarts),
        Reverse(pod.created),
        &pod.uid,
    )
}

fn status(set: &ReplicaSet, active: &[(&Key, &PodNote)], now: Timestamp) -> ReplicaSetStatus {
    let spec = set.spec.clone().unwrap_or_default();
    let labels = spec.template.and_then(|template| template.metadata).and_then(|metadata| metadata.labels);
    let labels = labels.unwrap_or_default();
    let has_all = |pod: &PodNote| labels.iter().all(|(key, value)| pod.labels.get(key) == Some(value));
    let some = |number: i32| Some(number).filter(|number| *number > 0);
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    ReplicaSetStatus {
        replicas: count(active.iter()),
        fully_labeled_replicas: some(count(active.iter().filter(|(_, pod)| has_all(pod)))),
        ready_replicas: some(count(active.iter().filter(|(_, pod)| pod.ready))),
        available_replicas: some(count(active.iter().filter(|(_, pod)| pod.is_available(min_ready, now)))),
        observed_generation: set.metadata.generation,
        ..set.status.clone().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_767_268_800 + seconds).unwrap()
    }

    fn set(replicas: i32) -> ReplicaSet {
        serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "ns", "uid": "r", "generation": 2},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}},
            },
        }))
        .unwrap()
    }

    fn pod(name: &str, extra: Value) -> (Key, PodNote) {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "ns", "uid": name, "labels": {"app": "web"}, "creationTimestamp": at(0).to_string()},
            "spec": {"nodeName": "n1", "containers": []},
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": at(0).to_string()},
            ]},
        });
        json_patch::merge(&mut pod, &extra);
        (("ns".into(), name.into()), PodNote::of(&serde_json::from_value::<Pod>(pod).unwrap()))
    }

    fn looked(set: &ReplicaSet, pods: &[(Key, PodNote)]) -> Outcome {
        let pods: Vec<(&Key, &PodNote)> = pods.iter().map(|(key, pod)| (key, pod)).collect();
        let mut crowd = BTreeMap::new();
        for (_, pod) in &pods {
            *crowd.entry(pod.node.as_deref().unwrap_or_default()).or_default() += 1;
        }
        reconcile(set, &pods, &crowd, at(60))
    }

    fn deleted(outcome: &Outcome) -> Vec<&str> {
        let names = outcome.actions.iter();
        names
            .filter_map(|act| if let Action::DeletePod { name, .. } = act { Some(name.as_str()) } else { None })
            .collect()
    }

    #[test]
    fn missing_pods_are_made_and_those_that_leave_or_have_ended_do_not_count() {
        let leaving = json!({"metadata": {"deletionTimestamp": at(90).to_string()}});
        let pods = [pod("a", json!({})), pod("b", leaving), pod("c", json!({"status": {"phase": "Failed"}}))];

        let outcome = looked(&set(3), &pods);

        let made = outcome.actions.iter().filter(|act| matches!(act, Action::CreatePod(_))).count();
        assert_eq!(made, 2);
        let Some(Action::ReplicaSetStatus(set)) = outcome.actions.last() else { panic!("a status") };
        let status = set.status.as_ref().unwrap();
        assert_eq!((status.replicas, status.ready_replicas, status.observed_generation), (1, Some(1), Some(2)));
    }

    #[test]
    fn of_too_many_pods_those_go_first_that_do_least() {
        let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
        let pods = [
            pod("settled", json!({"spec": {"nodeName": "n2"}})),
            pod("crowded", json!({})),
            pod("cheap", json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}})),
            pod("unready", not_ready),
            pod("pending", json!({"status": {"phase": "Pending"}})),
            pod("unassigned", json!({"spec": {"nodeName": null}, "status": {"phase": "Pending"}})),
        ];

        assert_eq!(deleted(&looked(&set(1), &pods)), ["unassigned", "pending", "unready", "cheap", "crowded"]);
    }

    #[test]
    fn a_pod_is_available_when_it_has_been_ready_for_long_enough() {
        let mut patient = set(1);
        patient.spec.as_mut().unwrap().min_ready_seconds = Some(90);

        let outcome = looked(&patient, &[pod("a", json!({}))]);

        let [Action::ReplicaSetStatus(set)] = &outcome.actions[..] else { panic!("a status") };
        assert_eq!(set.status.as_ref().unwrap().available_replicas, None);
        assert_eq!(outcome.wake, Some(at(90)));
    }
}
