//! DaemonSets: one pod on every node that suits.
//!
//! Models `pkg/controller/daemon` (daemon_controller.go, update.go) of Kubernetes 1.34: which nodes, rolling updates within
//! maxUnavailable or maxSurge, OnDelete, revisions. Left out: the back-off of pods that fail again and again.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec, DaemonSetStatus};
use k8s_openapi::api::core::v1::{
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, PodTemplateSpec, Toleration,
};

use super::replica_set::delete;
use super::revisions::{self, History, POD_REVISION};
use super::template::{self, count, next_available, share};
use crate::world::agenda::Key;
use crate::world::events::Note;
use crate::world::lifecycle;
use crate::world::notes::{Phase, PodNote};
use crate::world::outcome::{Action, Outcome};
use crate::world::scheduler::fit::{is_tolerated, is_wanted, keeps_out};
use crate::world::scheduler::{Place, Request};
use drover_api::daemon_set::{POD_TEMPLATE_GENERATION, TEMPLATE_GENERATION};
use drover_api::node::UNSCHEDULABLE_TAINT;

/// What to do about a DaemonSet, given its revisions, the pods that it controls, and all nodes.
pub fn reconcile<'a>(
    set: &DaemonSet,
    history: &History,
    pods: &[(&Key, &PodNote)],
    places: impl Iterator<Item = &'a Place>,
    now: Timestamp,
) -> Outcome {
    let (Some(spec), Some(update)) = (&set.spec, history.update()) else { return Outcome::nothing() };
    let Some(request) = Request::of(&pod_for(set, &spec.template, None, "")) else { return Outcome::nothing() };
    let suits = places.map(|place| (place.name.as_str(), suits(&request, place))).collect();
    let daemons = Daemons { set, spec, update: revisions::hash_of(update), by_node: by_node(pods), suits, now };
    let mut actions = history.actions.clone();
    if set.metadata.deletion_timestamp.is_none() {
        let managed = daemons.manage();
        actions.extend(if managed.is_empty() { daemons.roll() } else { managed });
    }
    let live = |hash: &str| pods.iter().any(|(_, pod)| pod.label(POD_REVISION) == Some(hash));
    actions.extend(history.forget(spec.revision_history_limit, |revision| live(revisions::hash_of(revision))));
    let status = daemons.status();
    if set.status.as_ref() != Some(&status) {
        actions.push(Action::DaemonSetStatus(Box::new(DaemonSet { status: Some(status), ..set.clone() })));
    }
    let wake = next_available(pods.iter().map(|(_, pod)| *pod), spec.min_ready_seconds.unwrap_or(0), now);
    Outcome { actions, wake }
}

/// Whether a node should get a pod, and whether one that is there may stay.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Suits {
    get: bool,
    keep: bool,
}

fn suits(request: &Request, place: &Place) -> Suits {
    if !is_wanted(request, place) {
        return Suits { get: false, keep: false };
    }
    let mut untolerated = place.taints.iter().filter(|taint| !is_tolerated(&request.tolerations, taint));
    let driven_out = untolerated.clone().any(|taint| taint.effect == "NoExecute");
    Suits { get: !untolerated.any(keeps_out), keep: !driven_out }
}

struct Daemons<'a> {
    set: &'a DaemonSet,
    spec: &'a DaemonSetSpec,
    /// The revision that pods should be of.
    update: &'a str,
    by_node: BTreeMap<&'a str, Vec<(&'a Key, &'a PodNote)>>,
    suits: BTreeMap<&'a str, Suits>,
    now: Timestamp,
}

impl<'a> Daemons<'a> {
    /// Pods where they should be and are not, and none where they should not be.
    fn manage(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for (node, suits) in &self.suits {
            let pods = self.on(node);
            if pods.is_empty() {
                actions.extend(suits.get.then(|| self.create(node)));
            } else if !suits.keep {
                actions.extend(pods.iter().filter(|(_, pod)| !pod.leaving).map(|(key, pod)| delete(key, pod)));
            } else {
                actions.extend(self.tidy(pods));
            }
        }
        let gone = self.by_node.iter().filter(|(node, _)| !self.suits.contains_key(*node));
        let lost = gone.flat_map(|(_, pods)| pods).filter(|(_, pod)| !pod.leaving);
        actions.extend(lost.map(|(key, pod)| delete(key, pod)));
        actions
    }

    /// Pods that have ended are replaced; of several of one revision the oldest stays.
    fn tidy(&self, pods: &[(&Key, &PodNote)]) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut kept: Vec<&str> = Vec::new();
        for (key, pod) in pods.iter().filter(|(_, pod)| !pod.leaving) {
            let revision = pod.label(POD_REVISION).unwrap_or_default();
            if pod.phase == Phase::Failed {
                let sentence = format!(
                    "Found failed daemon pod {}/{} on node {}, will try to kill it",
                    key.0,
                    key.1,
                    pod.node.as_deref().unwrap_or_default()
                );
                let event = Note::warning("FailedDaemonPod", sentence).by("daemonset-controller").about(self.set);
                actions.push(Action::Note(Box::new(event)));
                actions.push(delete(key, pod));
            } else if pod.phase == Phase::Succeeded || kept.contains(&revision) || (kept.len() > 1) {
                actions.push(delete(key, pod));
            } else {
                kept.push(revision);
            }
        }
        if kept.len() > 1 && self.max_surge() == 0 {
            let old = pods.iter().filter(|(_, pod)| !pod.leaving && !self.is_updated(pod));
            actions.extend(old.map(|(key, pod)| delete(key, pod)));
        }
        actions
    }

    fn roll(&self) -> Vec<Action> {
        let strategy = self.spec.update_strategy.as_ref();
        if strategy.is_some_and(|strategy| strategy.type_.as_deref() == Some("OnDelete")) {
            return Vec::new();
        }
        if self.max_surge() > 0 { self.roll_with_surge() } else { self.roll_in_place() }
    }

    /// Old pods that are not available go at once; of the others as many as may be unavailable.
    fn roll_in_place(&self) -> Vec<Action> {
        let (mut unavailable, mut lame, mut well) = (0, Vec::new(), Vec::new());
        for node in self.wanted() {
            let (new, old) = self.new_and_old(node);
            match (new, old) {
                (Some((_, new)), _) => unavailable += i32::from(!self.is_available(new)),
                (None, Some((_, old))) if old.leaving => unavailable += 1,
                (None, Some((key, old))) if !self.is_available(old) => {
                    unavailable += 1;
                    lame.push(delete(key, old));
                }
                (None, Some((key, old))) => well.push(delete(key, old)),
                (None, None) => unavailable += 1,
            }
        }
        let room = usize::try_from(self.max_unavailable() - unavailable).unwrap_or(0);
        lame.extend(well.into_iter().take(room));
        lame
    }

    /// New pods come beside old ones, which go when the new ones are available.
    fn roll_with_surge(&self) -> Vec<Action> {
        let (mut surge, mut at_once, mut later, mut actions) = (0, Vec::new(), Vec::new(), Vec::new());
        for node in self.wanted() {
            match self.new_and_old(node) {
                (None, Some((_, old))) if old.leaving || !self.is_available(old) => at_once.push(node),
                (None, Some(_)) => later.push(node),
                (Some((_, new)), Some((key, old))) => {
                    if !old.leaving && (self.is_available(new) || !self.is_available(old)) {
                        actions.push(delete(key, old));
                    } else {
                        surge += 1;
                    }
                }
                (_, None) => {}
            }
        }
        let room = usize::try_from(self.max_surge() - surge).unwrap_or(0);
        actions.extend(at_once.into_iter().chain(later.into_iter().take(room)).map(|node| self.create(node)));
        actions
    }

    fn status(&self) -> DaemonSetStatus {
        let before = self.set.status.clone().unwrap_or_default();
        let wanted: Vec<&str> = self.wanted().collect();
        // The oldest pod of a node speaks for it.
        let pods: Vec<&PodNote> = wanted
            .iter()
            .filter_map(|node| {
                self.on(node).iter().map(|(_, pod)| *pod).filter(|pod| !pod.leaving).min_by_key(|pod| pod.created)
            })
            .collect();
        let desired = count(wanted.iter());
        let available = count(pods.iter().filter(|pod| self.is_available(pod)));
        let astray = self.by_node.keys().filter(|node| !self.suits.get(*node).is_some_and(|suits| suits.get));
        let some = |number: i32| Some(number).filter(|number| *number > 0);
        DaemonSetStatus {
            desired_number_scheduled: desired,
            current_number_scheduled: count(wanted.iter().filter(|node| !self.on(node).is_empty())),
            number_misscheduled: count(astray),
            number_ready: count(pods.iter().filter(|pod| pod.ready)),
            updated_number_scheduled: some(count(pods.iter().filter(|pod| self.is_updated(pod)))),
            number_available: some(available),
            number_unavailable: some(desired - available),
            observed_generation: self.set.metadata.generation,
            ..before
        }
    }

    fn wanted(&self) -> impl Iterator<Item = &'a str> {
        self.suits.iter().filter(|(_, suits)| suits.get).map(|(node, _)| *node)
    }

    fn on(&self, node: &str) -> &[(&'a Key, &'a PodNote)] {
        self.by_node.get(node).map(Vec::as_slice).unwrap_or_default()
    }

    #[allow(clippy::type_complexity, reason = "two of the same, one line below the only place that makes them")]
    fn new_and_old(&self, node: &str) -> (Option<(&'a Key, &'a PodNote)>, Option<(&'a Key, &'a PodNote)>) {
        let pods = self.on(node);
        let new = pods.iter().find(|(_, pod)| !pod.leaving && self.is_updated(pod));
        let old = pods.iter().filter(|(_, pod)| !self.is_updated(pod)).min_by_key(|(_, pod)| pod.leaving);
        (new.copied(), old.copied())
    }

    fn create(&self, node: &str) -> Action {
        Action::CreatePod(Box::new(pod_for(self.set, &self.spec.template, Some(node), self.update)))
    }

    fn is_updated(&self, pod: &PodNote) -> bool {
        pod.label(POD_REVISION) == Some(self.update)
    }

    fn is_available(&self, pod: &PodNote) -> bool {
        pod.is_available(self.spec.min_ready_seconds.unwrap_or(0), self.now)
    }

    fn max_surge(&self) -> i32 {
        let rolling = self.spec.update_strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
        share(rolling.and_then(|rolling| rolling.max_surge.as_ref()), count(self.wanted()), true)
    }

    fn max_unavailable(&self) -> i32 {
        let rolling = self.spec.update_strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
        share(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()), count(self.wanted()), true).max(1)
    }
}

/// By the node that a pod is on or is meant for.
fn by_node<'a>(pods: &[(&'a Key, &'a PodNote)]) -> BTreeMap<&'a str, Vec<(&'a Key, &'a PodNote)>> {
    let mut by_node: BTreeMap<&str, Vec<(&Key, &PodNote)>> = BTreeMap::new();
    for (key, pod) in pods {
        let meant = || pod.request.as_ref().and_then(|request| request.named_nodes()?.into_iter().next());
        if let Some(node) = pod.node.as_deref().or_else(meant) {
            by_node.entry(node).or_default().push((key, pod));
        }
    }
    by_node
}

/// A pod for one node; without a node, one to ask with which nodes suit.
fn pod_for(set: &DaemonSet, template: &PodTemplateSpec, node: Option<&str>, revision: &str) -> Pod {
    let mut pod = template::pod(set, template);
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(POD_REVISION.into(), revision.into());
    labels.insert(POD_TEMPLATE_GENERATION.into(), template_generation(set));
    let spec = pod.spec.get_or_insert_default();
    tolerate_what_happens_to_nodes(spec);
    if let Some(node) = node {
        pin(spec, node);
    }
    pod
}

/// The API server counts it; one that comes from elsewhere may have none.
fn template_generation(set: &DaemonSet) -> String {
    let counted = set.metadata.annotations.as_ref().and_then(|all| all.get(TEMPLATE_GENERATION));
    counted.cloned().unwrap_or_else(|| "1".into())
}

/// What happens to a node in its life does not keep its daemons away.
fn tolerate_what_happens_to_nodes(spec: &mut PodSpec) {
    let host_network = spec.host_network == Some(true);
    let tolerations = spec.tolerations.get_or_insert_default();
    let mut add = |key: &str, effect: &str| {
        let toleration = Toleration {
            key: Some(key.into()),
            operator: Some("Exists".into()),
            effect: Some(effect.into()),
            ..Toleration::default()
        };
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    };
    add(lifecycle::NOT_READY, "NoExecute");
    add(lifecycle::UNREACHABLE, "NoExecute");
    add(lifecycle::DISK_PRESSURE, "NoSchedule");
    add(lifecycle::MEMORY_PRESSURE, "NoSchedule");
    add(lifecycle::PID_PRESSURE, "NoSchedule");
    add(UNSCHEDULABLE_TAINT, "NoSchedule");
    if host_network {
        add("node.kubernetes.io/network-unavailable", "NoSchedule");
    }
}

/// Replaces the terms of node affinity by the node's name, as the original does.
fn pin(spec: &mut PodSpec, node: &str) {
    let field =
        NodeSelectorRequirement { key: "metadata.name".into(), operator: "In".into(), values: Some(vec![node.into()]) };
    let affinity = spec.affinity.get_or_insert_default().node_affinity.get_or_insert_default();
    let required = &mut affinity.required_during_scheduling_ignored_during_execution;
    match required.as_mut().filter(|required| !required.node_selector_terms.is_empty()) {
        Some(required) => {
            for term in &mut required.node_selector_terms {
                term.match_fields = Some(vec![field.clone()]);
            }
        }
        None => {
            let term = NodeSelectorTerm { match_fields: Some(vec![field]), match_expressions: None };
            *required = Some(NodeSelector { node_selector_terms: vec![term] });
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use serde_json::{Value, json};

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_767_268_800 + seconds).unwrap()
    }

    fn set(extra: Value) -> DaemonSet {
        let mut set = json!({
            "metadata": {"name": "agent", "namespace": "ns", "uid": "d", "generation": 1},
            "spec": {
                "selector": {"matchLabels": {"app": "agent"}},
                "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "c", "image": "a:1"}]}},
            },
        });
        json_patch::merge(&mut set["spec"], &extra);
        serde_json::from_value(set).unwrap()
    }

    fn history(set: &DaemonSet) -> History {
        History::of(set, &set.spec.as_ref().unwrap().template, [].into(), None, Vec::new())
    }

    fn place(name: &str, extra: Value) -> Place {
        let mut node =
            json!({"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        json_patch::merge(&mut node, &extra);
        Place::of(&serde_json::from_value::<Node>(node).unwrap())
    }

    fn pod(name: &str, node: &str, revision: &str, ready: bool) -> (Key, PodNote) {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "ns", "uid": name, "labels": {POD_REVISION: revision}},
            "spec": {"nodeName": node, "containers": []},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
        }))
        .unwrap();
        (("ns".into(), name.into()), PodNote::of(&pod))
    }

    /// What it does, in words, and the numbers desired, current and astray.
    fn deeds(set: &DaemonSet, pods: &[(Key, PodNote)], places: &[Place]) -> (Vec<String>, (i32, i32, i32)) {
        let pods: Vec<(&Key, &PodNote)> = pods.iter().map(|(key, pod)| (key, pod)).collect();
        let outcome = reconcile(set, &history(set), &pods, places.iter(), at(0));
        let mut numbers = (0, 0, 0);
        let mut words = Vec::new();
        for act in &outcome.actions {
            match act {
                Action::CreatePod(pod) => {
                    let request = Request::of(pod).unwrap();
                    words.push(format!("create on {}", request.named_nodes().unwrap().first().unwrap()));
                }
                Action::DeletePod { name, .. } => words.push(format!("delete {name}")),
                Action::DaemonSetStatus(set) => {
                    let status = set.status.as_ref().unwrap();
                    numbers =
                        (status.desired_number_scheduled, status.current_number_scheduled, status.number_misscheduled);
                }
                _ => {}
            }
        }
        (words, numbers)
    }

    #[test]
    fn every_node_that_suits_gets_one_even_if_it_is_cordoned() {
        let cordoned = json!({"spec": {"unschedulable": true, "taints": [
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        ]}});
        let tainted = json!({"spec": {"taints": [{"key": "role", "effect": "NoSchedule"}]}});
        let places = [place("n1", json!({})), place("n2", cordoned), place("n3", tainted)];

        assert_eq!(
            deeds(&set(json!({})), &[], &places),
            (vec!["create on n1".into(), "create on n2".into()], (2, 0, 0))
        );
    }

    #[test]
    fn a_pod_goes_from_a_node_that_no_longer_suits() {
        let picky = set(json!({"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}));
        let places = [place("n1", json!({})), place("n2", json!({"metadata": {"labels": {"disk": "ssd"}}}))];
        let pods = [pod("a", "n1", "x", true), pod("b", "gone", "x", true)];

        let (words, numbers) = deeds(&picky, &pods, &places);
        assert_eq!(words, ["delete a", "create on n2", "delete b"]);
        assert_eq!(numbers, (1, 0, 2));
    }

    #[test]
    fn an_update_replaces_as_many_as_may_be_unavailable() {
        let set = set(json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}}));
        let new = revisions::hash_of(history(&set).update().unwrap()).to_string();
        let places = [place("n1", json!({})), place("n2", json!({})), place("n3", json!({}))];
        let old = |name: &str, node: &str, ready| pod(name, node, "old", ready);

        let all_old = [old("a", "n1", true), old("b", "n2", true), old("c", "n3", true)];
        assert_eq!(deeds(&set, &all_old, &places).0, ["delete a"]);
        let under_way = [pod("a", "n1", &new, false), old("b", "n2", true), old("c", "n3", true)];
        assert_eq!(deeds(&set, &under_way, &places).0, [] as [&str; 0]);
        let one_is_lame = [old("a", "n1", true), old("b", "n2", false), old("c", "n3", true)];
        assert_eq!(deeds(&set, &one_is_lame, &places).0, ["delete b"], "who is lame goes first and counts");
    }

    #[test]
    fn with_surge_the_new_pod_comes_before_the_old_one_goes() {
        let rolling = json!({"maxSurge": 1, "maxUnavailable": 0});
        let set = set(json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}));
        let new = revisions::hash_of(history(&set).update().unwrap()).to_string();
        let places = [place("n1", json!({})), place("n2", json!({}))];
        let old = [pod("a", "n1", "old", true), pod("b", "n2", "old", true)];

        assert_eq!(deeds(&set, &old, &places).0, ["create on n1"]);
        let both = |ready| [old[0].clone(), old[1].clone(), pod("a2", "n1", &new, ready)];
        assert_eq!(deeds(&set, &both(false), &places).0, [] as [&str; 0]);
        assert_eq!(deeds(&set, &both(true), &places).0, ["delete a", "create on n2"]);
    }

    #[test]
    fn on_delete_waits_for_the_user() {
        let manual = set(json!({"updateStrategy": {"type": "OnDelete"}}));
        assert_eq!(deeds(&manual, &[pod("a", "n1", "old", true)], &[place("n1", json!({}))]).0, [] as [&str; 0]);
    }
}
