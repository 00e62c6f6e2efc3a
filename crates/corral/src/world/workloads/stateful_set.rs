//! StatefulSets: pods with names that stay, one after another or all at once.
//!
//! Models `pkg/controller/statefulset` (stateful_set_control.go) of Kubernetes 1.34: ordered and parallel pod management,
//! rolling updates with a partition, OnDelete, revisions. Left out: the volume claims of its pods, and maxUnavailable,
//! which is off by default.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume};

use super::replica_set::delete;
use super::revisions::{self, History, POD_REVISION};
use super::template::{self, count, next_available};
use crate::world::agenda::Key;
use crate::world::notes::{Phase, PodNote};
use crate::world::outcome::{Action, Outcome};
use crate::world::pods;

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// What to do about a StatefulSet, given its revisions and the pods that it controls.
pub fn reconcile(set: &StatefulSet, history: &History, pods: &[(&Key, &PodNote)], now: Timestamp) -> Outcome {
    let (Some(spec), Some(update)) = (&set.spec, history.update()) else { return Outcome::nothing() };
    let mut actions = history.actions.clone();
    let control = Control::new(set, spec, revisions::name(update), pods, now);
    if set.metadata.deletion_timestamp.is_none() {
        actions.extend(control.act(history));
    }
    let live = |name: &str| {
        control.status.current_revision.as_deref() == Some(name)
            || pods.iter().any(|(_, pod)| pod.label(POD_REVISION) == Some(name))
    };
    actions.extend(history.forget(spec.revision_history_limit, |revision| live(revisions::name(revision))));
    if set.status.as_ref() != Some(&control.status) {
        let status = Some(control.status);
        actions.push(Action::StatefulSetStatus(Box::new(StatefulSet { status, ..set.clone() })));
    }
    let wake = next_available(pods.iter().map(|(_, pod)| *pod), spec.min_ready_seconds.unwrap_or(0), now);
    Outcome { actions, wake }
}

struct Control<'a> {
    set: &'a StatefulSet,
    spec: &'a StatefulSetSpec,
    update: &'a str,
    first: i32,
    last: i32,
    by_ordinal: BTreeMap<i32, (&'a Key, &'a PodNote)>,
    status: StatefulSetStatus,
    now: Timestamp,
}

impl<'a> Control<'a> {
    fn new(
        set: &'a StatefulSet,
        spec: &'a StatefulSetSpec,
        update: &'a str,
        pods: &[(&'a Key, &'a PodNote)],
        now: Timestamp,
    ) -> Self {
        let first = spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0);
        let last = first + spec.replicas.unwrap_or(1) - 1;
        let own = pods.iter().filter_map(|(key, pod)| Some((ordinal(set, &key.1)?, (*key, *pod))));
        let by_ordinal: BTreeMap<i32, (&Key, &PodNote)> = own.collect();
        let mut control =
            Control { set, spec, update, first, last, by_ordinal, status: StatefulSetStatus::default(), now };
        control.status = control.count();
        control
    }

    fn count(&self) -> StatefulSetStatus {
        let before = self.set.status.clone().unwrap_or_default();
        let current = before.current_revision.clone().unwrap_or_else(|| self.update.into());
        let made: Vec<&PodNote> = self.by_ordinal.values().map(|(_, pod)| *pod).collect();
        let of = |revision: &str| {
            Some(count(made.iter().filter(|pod| !pod.leaving && pod.label(POD_REVISION) == Some(revision))))
        };
        let some = |number: Option<i32>| number.filter(|number| *number > 0);
        let ready = count(made.iter().filter(|pod| is_running_and_ready(pod)));
        let mut status = StatefulSetStatus {
            replicas: count(made.iter()),
            ready_replicas: some(Some(ready)),
            available_replicas: Some(count(made.iter().filter(|pod| self.is_available(pod)))),
            current_replicas: some(of(&current)),
            updated_replicas: some(of(self.update)),
            current_revision: Some(current),
            update_revision: Some(self.update.into()),
            observed_generation: self.set.metadata.generation,
            collision_count: before.collision_count.or(Some(0)),
            conditions: before.conditions,
        };
        let all_updated = status.updated_replicas.unwrap_or(0) == status.replicas && ready == status.replicas;
        if !self.is_on_delete() && all_updated && status.current_revision != status.update_revision {
            status.current_revision.clone_from(&status.update_revision);
            status.current_replicas = status.updated_replicas;
        }
        status
    }

    /// In ordered management one thing at a time; in parallel management everything but updates.
    fn act(&self, history: &History) -> Vec<Action> {
        let mut actions = Vec::new();
        let ordered = self.spec.pod_management_policy.as_deref() != Some("Parallel");
        for ordinal in self.first..=self.last {
            let waits = match self.by_ordinal.get(&ordinal) {
                None => {
                    actions.extend(self.pod(ordinal, history).map(|pod| Action::CreatePod(Box::new(pod))));
                    true
                }
                Some((key, pod)) if pod.has_ended() => {
                    // Its successor has the same name, so it has to be gone first.
                    actions.extend((!pod.leaving).then(|| delete(key, pod)));
                    return actions;
                }
                Some((_, pod)) => pod.leaving || !self.is_available(pod),
            };
            if ordered && waits {
                return actions;
            }
        }
        self.scale_down(ordered, &mut actions);
        if actions.is_empty() && !self.is_on_delete() {
            actions.extend(self.update_one());
        }
        actions
    }

    /// The pods that there should not be go from the highest ordinal down.
    fn scale_down(&self, ordered: bool, actions: &mut Vec<Action>) {
        let is_wanted = |ordinal: &i32| (self.first..=self.last).contains(ordinal);
        let condemned = self.by_ordinal.iter().rev().filter(|(ordinal, _)| !is_wanted(ordinal));
        let unhealthy = self.by_ordinal.iter().find(|(_, (_, pod))| pod.leaving || !is_running_and_ready(pod));
        let first_unhealthy = unhealthy.map(|(ordinal, _)| *ordinal);
        for (ordinal, (key, pod)) in condemned {
            if pod.leaving {
                if ordered {
                    return;
                }
                continue;
            }
            if ordered && !self.is_available(pod) && first_unhealthy != Some(*ordinal) {
                return;
            }
            actions.push(delete(key, pod));
            if ordered {
                return;
            }
        }
    }

    /// From the highest ordinal down to the partition, one at a time, each only when the one before is well.
    fn update_one(&self) -> Option<Action> {
        let strategy = self.spec.update_strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
        let partition = self.first + strategy.and_then(|rolling| rolling.partition).unwrap_or(0);
        for (_, (key, pod)) in self.by_ordinal.range(partition..=self.last.max(partition)).rev() {
            if pod.label(POD_REVISION) != Some(self.update) && !pod.leaving {
                return Some(delete(key, pod));
            }
            if pod.leaving || !is_running_and_ready(pod) {
                return None;
            }
        }
        None
    }

    fn pod(&self, ordinal: i32, history: &History) -> Option<Pod> {
        let revision = history.named(&self.revision_for(ordinal)).or(history.update())?;
        let template = revisions::template_of(revision).unwrap_or_else(|| self.spec.template.clone());
        Some(identified(self.set, self.spec, &template, ordinal, revisions::name(revision)))
    }

    /// Below the partition, or as long as old ones are counted on, a pod is made of the old revision.
    fn revision_for(&self, ordinal: i32) -> String {
        let current = self.status.current_revision.clone().unwrap_or_default();
        let strategy = self.spec.update_strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
        let is_old = match strategy.and_then(|rolling| rolling.partition) {
            _ if self.is_on_delete() => false,
            Some(partition) if partition > 0 => ordinal < self.first + partition,
            _ => ordinal < self.first + self.status.current_replicas.unwrap_or(0),
        };
        if is_old { current } else { self.update.into() }
    }

    fn is_available(&self, pod: &PodNote) -> bool {
        is_running_and_ready(pod) && pod.is_available(self.spec.min_ready_seconds.unwrap_or(0), self.now)
    }

    fn is_on_delete(&self) -> bool {
        let strategy = self.spec.update_strategy.as_ref().and_then(|strategy| strategy.type_.as_deref());
        strategy == Some("OnDelete")
    }
}

fn is_running_and_ready(pod: &PodNote) -> bool {
    pod.phase == Phase::Running && pod.ready
}

fn ordinal(set: &StatefulSet, pod: &str) -> Option<i32> {
    pod.strip_prefix(pods::name(&set.metadata))?.strip_prefix('-')?.parse().ok()
}

/// A pod of the set with the name, the host name and the volumes that stay with its ordinal.
fn identified(
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    template: &PodTemplateSpec,
    ordinal: i32,
    revision: &str,
) -> Pod {
    let mut pod = template::pod(set, template);
    let name = format!("{}-{ordinal}", pods::name(&set.metadata));
    pod.metadata.generate_name = None;
    pod.metadata.name = Some(name.clone());
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(POD_NAME.into(), name.clone());
    labels.insert(POD_INDEX.into(), ordinal.to_string());
    labels.insert(POD_REVISION.into(), revision.into());
    let inner = pod.spec.get_or_insert_default();
    inner.subdomain.clone_from(&spec.service_name);
    for claim in spec.volume_claim_templates.iter().flatten() {
        let volume = pods::name(&claim.metadata);
        let source = PersistentVolumeClaimVolumeSource { claim_name: format!("{volume}-{name}"), ..Default::default() };
        let volumes = inner.volumes.get_or_insert_default();
        volumes.retain(|known| known.name != volume);
        volumes.push(Volume { name: volume.into(), persistent_volume_claim: Some(source), ..Volume::default() });
    }
    inner.hostname = Some(name);
    pod
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_767_268_800 + seconds).unwrap()
    }

    fn set(replicas: i32, extra: Value) -> StatefulSet {
        let mut set = json!({
            "metadata": {"name": "db", "namespace": "ns", "uid": "s"},
            "spec": {
                "replicas": replicas, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
                "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "db:1"}]}},
            },
        });
        json_patch::merge(&mut set["spec"], &extra);
        serde_json::from_value(set).unwrap()
    }

    fn history(set: &StatefulSet) -> History {
        History::of(set, &set.spec.as_ref().unwrap().template, [].into(), None, Vec::new())
    }

    fn pod(name: &str, revision: &str, ready: bool) -> (Key, PodNote) {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "ns", "uid": name, "labels": {POD_REVISION: revision}},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
        }))
        .unwrap();
        (("ns".into(), name.into()), PodNote::of(&pod))
    }

    /// What it does, in words.
    fn deeds(set: &StatefulSet, history: &History, pods: &[(Key, PodNote)]) -> Vec<String> {
        let pods: Vec<(&Key, &PodNote)> = pods.iter().map(|(key, pod)| (key, pod)).collect();
        let outcome = reconcile(set, history, &pods, at(0));
        let words = outcome.actions.iter().filter_map(|act| match act {
            Action::CreatePod(pod) => Some(format!("create {}", pods::name(&pod.metadata))),
            Action::DeletePod { name, .. } => Some(format!("delete {name}")),
            _ => None,
        });
        words.collect()
    }

    #[test]
    fn pods_come_one_after_another_or_all_at_once() {
        let ordered = set(3, json!({}));
        let history_of = history(&ordered);
        let now = revisions::name(history_of.update().unwrap()).to_string();
        assert_eq!(deeds(&ordered, &history_of, &[]), ["create db-0"]);
        assert_eq!(deeds(&ordered, &history_of, &[pod("db-0", &now, false)]), [] as [&str; 0]);
        assert_eq!(deeds(&ordered, &history_of, &[pod("db-0", &now, true)]), ["create db-1"]);

        let parallel = set(3, json!({"podManagementPolicy": "Parallel"}));
        assert_eq!(deeds(&parallel, &history(&parallel), &[]), ["create db-0", "create db-1", "create db-2"]);
    }

    #[test]
    fn the_highest_goes_first_when_there_are_too_many() {
        let small = set(1, json!({}));
        let history = history(&small);
        let now = revisions::name(history.update().unwrap()).to_string();
        let three = [pod("db-0", &now, true), pod("db-1", &now, true), pod("db-2", &now, true)];
        assert_eq!(deeds(&small, &history, &three), ["delete db-2"]);
    }

    #[test]
    fn an_update_goes_from_the_highest_down_to_the_partition_one_at_a_time() {
        let rolling = set(3, json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}}));
        let history = history(&rolling);
        let new = revisions::name(history.update().unwrap()).to_string();
        let old = |name| pod(name, "db-old", true);
        assert_eq!(deeds(&rolling, &history, &[old("db-0"), old("db-1"), old("db-2")]), ["delete db-2"]);
        let unwell = [old("db-0"), old("db-1"), pod("db-2", &new, false)];
        assert_eq!(deeds(&rolling, &history, &unwell), [] as [&str; 0]);
        assert_eq!(deeds(&rolling, &history, &[old("db-0"), old("db-1"), pod("db-2", &new, true)]), ["delete db-1"]);
        let done = [old("db-0"), pod("db-1", &new, true), pod("db-2", &new, true)];
        assert_eq!(deeds(&rolling, &history, &done), [] as [&str; 0], "below the partition nothing is updated");
    }

    #[test]
    fn on_delete_waits_for_the_user() {
        let manual = set(1, json!({"updateStrategy": {"type": "OnDelete"}}));
        assert_eq!(deeds(&manual, &history(&manual), &[pod("db-0", "db-old", true)]), [] as [&str; 0]);
    }

    #[test]
    fn a_pod_keeps_its_name_and_its_volumes() {
        let with_claims = set(1, json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}]}));
        let outcome = reconcile(&with_claims, &history(&with_claims), &[], at(0));

        let pod =
            outcome.actions.iter().find_map(|act| if let Action::CreatePod(pod) = act { Some(pod) } else { None });
        let spec = pod.unwrap().spec.as_ref().unwrap();
        assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some("db-0"), Some("db")));
        let claim = spec.volumes.as_ref().unwrap()[0].persistent_volume_claim.as_ref().unwrap();
        assert_eq!(claim.claim_name, "data-db-0");
    }
}
