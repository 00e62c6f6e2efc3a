//! Looking at Deployments, ReplicaSets, StatefulSets, DaemonSets and Services.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::agenda::Key;
use super::look::Wake;
use super::notes::PodNote;
use super::outcome::{Action, Outcome};
use super::workloads::revisions::History;
use super::workloads::{WorkloadKind, daemon_set, deployment, replica_set, stateful_set, template};
use super::{Part, World, endpoint_slices, pods};
use crate::apiserver::{Answer, Kind};

impl World {
    pub(super) fn look_at_deployment(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(deployment) = self.read_for::<Deployment>(Part::Deployments, &key.0, &key.1)? else { return Ok(None) };
        let workloads = &self.index.workloads;
        let own = workloads.sets_of(pods::uid(&deployment.metadata)).chain(workloads.lone_sets(key));
        let mut sets = Vec::new();
        for (namespace, name) in own {
            sets.extend(self.direct(Part::Deployments).get::<ReplicaSet>(Some(namespace), name)?);
        }
        let left =
            |set: &ReplicaSet| self.index.pods_of(pods::uid(&set.metadata)).filter(|(_, pod)| !pod.has_ended()).count();
        let pods_of: BTreeMap<String, usize> =
            sets.iter().map(|set| (pods::uid(&set.metadata).to_string(), left(set))).collect();
        self.perform(Part::Deployments, &deployment::reconcile(&deployment, sets, &pods_of, now), now)
    }

    pub(super) fn look_at_replica_set(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(set) = self.read_for::<ReplicaSet>(Part::ReplicaSets, &key.0, &key.1)? else { return Ok(None) };
        self.adopt(Part::ReplicaSets, WorkloadKind::ReplicaSet, key, &set, now)?;
        let own = self.controlled(&set);
        // Pods of the same Deployment crowd a node as much as those of the same ReplicaSet.
        let above = pods::controller(&set.metadata).map(|owner| owner.uid.as_str());
        let family = above.into_iter().flat_map(|uid| self.index.workloads.sets_of(uid));
        let family = family.filter_map(|key| self.index.workloads.get(WorkloadKind::ReplicaSet, key));
        let mut crowd: BTreeMap<&str, usize> = BTreeMap::new();
        let surplus =
            own.len() > usize::try_from(set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)).unwrap_or(0);
        for (_, pod) in family.filter(|_| surplus).flat_map(|set| self.index.pods_of(&set.uid)) {
            if let Some(node) = pod.node.as_deref().filter(|_| pod.is_active()) {
                *crowd.entry(node).or_default() += 1;
            }
        }
        self.perform(Part::ReplicaSets, &replica_set::reconcile(&set, &own, &crowd, now), now)
    }

    pub(super) fn look_at_stateful_set(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(set) = self.read_for::<StatefulSet>(Part::StatefulSets, &key.0, &key.1)? else { return Ok(None) };
        let Some(spec) = &set.spec else { return Ok(None) };
        self.adopt(Part::StatefulSets, WorkloadKind::StatefulSet, key, &set, now)?;
        let labels = spec.selector.match_labels.clone().unwrap_or_default();
        let collisions = set.status.as_ref().and_then(|status| status.collision_count);
        let history = History::of(&set, &spec.template, labels, collisions, self.owned_by(&set)?);
        self.perform(Part::StatefulSets, &stateful_set::reconcile(&set, &history, &self.controlled(&set), now), now)
    }

    pub(super) fn look_at_daemon_set(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(set) = self.read_for::<DaemonSet>(Part::DaemonSets, &key.0, &key.1)? else { return Ok(None) };
        let Some(spec) = &set.spec else { return Ok(None) };
        self.adopt(Part::DaemonSets, WorkloadKind::DaemonSet, key, &set, now)?;
        let labels = spec.template.metadata.as_ref().and_then(|metadata| metadata.labels.clone()).unwrap_or_default();
        let collisions = set.status.as_ref().and_then(|status| status.collision_count);
        let history = History::of(&set, &spec.template, labels, collisions, self.owned_by(&set)?);
        let outcome = daemon_set::reconcile(&set, &history, &self.controlled(&set), self.index.places(), now);
        self.perform(Part::DaemonSets, &outcome, now)
    }

    pub(super) fn look_at_service(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(service) = self.read_for::<Service>(Part::EndpointSlices, &key.0, &key.1)? else { return Ok(None) };
        let Some(selector) = self.index.services.get(key) else { return Ok(None) };
        let selected: Vec<(&Key, &PodNote)> = self.index.selected(&key.0, selector).collect();
        let direct = self.direct(Part::EndpointSlices);
        let example = match selected.first() {
            Some(((namespace, name), _)) => direct.get::<Pod>(Some(namespace), name)?,
            None => None,
        };
        let known = self.owned_by::<EndpointSlice, _>(&service)?;
        let outcome = endpoint_slices::reconcile(&service, &selected, example.as_ref(), known, now);
        self.perform(Part::EndpointSlices, &outcome, now)
    }

    /// The pods that an object controls.
    fn controlled<K: Kind>(&self, owner: &K) -> Vec<(&Key, &PodNote)> {
        self.index.pods_of(pods::uid(owner.meta())).collect()
    }

    /// Pods without a controller that the object selects become its own, unless it is on its way out.
    fn adopt<K: Kind>(&self, part: Part, kind: WorkloadKind, key: &Key, owner: &K, now: Timestamp) -> Answer<()> {
        let Some(note) = self.index.workloads.get(kind, key).filter(|_| owner.meta().deletion_timestamp.is_none())
        else {
            return Ok(());
        };
        let lone =
            self.index.selected(&key.0, &note.selector).filter(|(_, pod)| pod.owner.is_none() && pod.is_active());
        let actions = lone.map(|((namespace, name), pod)| Action::AdoptPod {
            namespace: namespace.clone(),
            name: name.clone(),
            uid: pod.uid.clone(),
            owner: Box::new(template::controlled_by(owner)),
        });
        self.perform(part, &Outcome::act(actions.collect()), now).map(drop)
    }

    /// The objects of a kind that belong to another one.
    pub(super) fn owned_by<T: Kind, K: Kind>(&self, owner: &K) -> Answer<Vec<T>> {
        let direct = self.server.direct("world");
        let mut found = Vec::new();
        for entry in self.owners.dependents(pods::uid(owner.meta())) {
            if entry.resource.plural == T::plural(&()) && entry.resource.group == T::group(&()) {
                found.extend(direct.get::<T>(Some(&entry.header.namespace), &entry.header.name)?);
            }
        }
        Ok(found)
    }
}
