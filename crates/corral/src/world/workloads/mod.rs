//! Deployments, ReplicaSets, StatefulSets and DaemonSets: their controllers, and what the world remembers of them: whose
//! pods are whose, and how many there should be.

pub mod daemon_set;
pub mod deployment;
pub mod replica_set;
pub mod revisions;
pub mod stateful_set;
pub mod template;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::core::{Selector, SelectorExt};

use super::agenda::{Key, Look};
use super::budget::Scale;
use super::labels::{Labels, Selecting};
use super::notes::Owner;
use super::pods;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkloadKind {
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
}

impl WorkloadKind {
    pub fn named(kind: &str) -> Option<WorkloadKind> {
        match kind {
            "Deployment" => Some(WorkloadKind::Deployment),
            "ReplicaSet" => Some(WorkloadKind::ReplicaSet),
            "StatefulSet" => Some(WorkloadKind::StatefulSet),
            "DaemonSet" => Some(WorkloadKind::DaemonSet),
            _ => None,
        }
    }

    pub fn look(self, key: Key) -> Look {
        match self {
            WorkloadKind::Deployment => Look::Deployment(key),
            WorkloadKind::ReplicaSet => Look::ReplicaSet(key),
            WorkloadKind::StatefulSet => Look::StatefulSet(key),
            WorkloadKind::DaemonSet => Look::DaemonSet(key),
        }
    }
}

/// What is remembered of one.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadNote {
    pub uid: String,
    pub owner: Option<Owner>,
    /// How many pods it should have; none where the kind does not say.
    pub replicas: Option<i32>,
    pub selector: Selector,
    /// The labels of the pods that it makes.
    pub labels: Labels,
}

impl WorkloadNote {
    fn new(
        metadata: &ObjectMeta,
        replicas: Option<i32>,
        selector: LabelSelector,
        labels: Option<Labels>,
    ) -> Option<Self> {
        let selector = Selector::try_from(selector).ok().filter(|selector| !selector.selects_all())?;
        Some(WorkloadNote {
            uid: pods::uid(metadata).into(),
            owner: pods::controller(metadata).map(Owner::of),
            replicas,
            selector,
            labels: labels.unwrap_or_default(),
        })
    }

    pub fn of_deployment(deployment: &Deployment) -> Option<Self> {
        let spec = deployment.spec.as_ref()?;
        let labels = spec.template.metadata.as_ref().and_then(|metadata| metadata.labels.clone());
        WorkloadNote::new(&deployment.metadata, Some(spec.replicas.unwrap_or(1)), spec.selector.clone(), labels)
    }

    pub fn of_replica_set(set: &ReplicaSet) -> Option<Self> {
        let spec = set.spec.as_ref()?;
        let template = spec.template.as_ref().and_then(|template| template.metadata.as_ref());
        let labels = template.and_then(|metadata| metadata.labels.clone());
        WorkloadNote::new(&set.metadata, Some(spec.replicas.unwrap_or(1)), spec.selector.clone(), labels)
    }

    pub fn of_stateful_set(set: &StatefulSet) -> Option<Self> {
        let spec = set.spec.as_ref()?;
        let labels = spec.template.metadata.as_ref().and_then(|metadata| metadata.labels.clone());
        WorkloadNote::new(&set.metadata, Some(spec.replicas.unwrap_or(1)), spec.selector.clone(), labels)
    }

    pub fn of_daemon_set(set: &DaemonSet) -> Option<Self> {
        let spec = set.spec.as_ref()?;
        let labels = spec.template.metadata.as_ref().and_then(|metadata| metadata.labels.clone());
        WorkloadNote::new(&set.metadata, None, spec.selector.clone(), labels)
    }
}

#[derive(Debug, Default)]
pub struct Workloads {
    notes: BTreeMap<(WorkloadKind, Key), WorkloadNote>,
    /// ReplicaSets by the uid of their Deployment.
    sets_of: BTreeMap<String, BTreeSet<Key>>,
    /// ReplicaSets that nobody controls.
    lone: BTreeSet<Key>,
    selecting: Selecting<(WorkloadKind, Key)>,
}

impl Workloads {
    /// Remembers one as it is now, or forgets it; answers with what was known of it.
    pub fn note(&mut self, kind: WorkloadKind, key: &Key, note: Option<WorkloadNote>) -> Option<WorkloadNote> {
        let place = (kind, key.clone());
        let before = self.notes.remove(&place);
        if let Some(before) = &before {
            self.selecting.remove(&key.0, &before.selector, &place);
            self.untie(kind, key, before);
        }
        if let Some(note) = note {
            self.selecting.insert(&key.0, &note.selector, place.clone());
            match (kind, &note.owner) {
                (WorkloadKind::ReplicaSet, Some(owner)) => {
                    self.sets_of.entry(owner.uid.clone()).or_default().insert(key.clone());
                }
                (WorkloadKind::ReplicaSet, None) => {
                    self.lone.insert(key.clone());
                }
                _ => {}
            }
            self.notes.insert(place, note);
        }
        before
    }

    fn untie(&mut self, kind: WorkloadKind, key: &Key, note: &WorkloadNote) {
        match (kind, &note.owner) {
            (WorkloadKind::ReplicaSet, Some(owner)) => {
                if let Some(sets) = self.sets_of.get_mut(&owner.uid) {
                    sets.remove(key);
                    if sets.is_empty() {
                        self.sets_of.remove(&owner.uid);
                    }
                }
            }
            (WorkloadKind::ReplicaSet, None) => {
                self.lone.remove(key);
            }
            _ => {}
        }
    }

    pub fn get(&self, kind: WorkloadKind, key: &Key) -> Option<&WorkloadNote> {
        self.notes.get(&(kind, key.clone()))
    }

    pub fn all(&self, kind: WorkloadKind) -> impl Iterator<Item = &Key> {
        self.notes
            .range((kind, Key::default())..)
            .take_while(move |((found, _), _)| *found == kind)
            .map(|((_, key), _)| key)
    }

    /// The ReplicaSets of the Deployment with this uid.
    pub fn sets_of(&self, deployment: &str) -> impl Iterator<Item = &Key> {
        self.sets_of.get(deployment).into_iter().flatten()
    }

    /// ReplicaSets that nobody controls and that a Deployment selects.
    pub fn lone_sets<'a>(&'a self, deployment: &'a Key) -> impl Iterator<Item = &'a Key> {
        let selector = self.get(WorkloadKind::Deployment, deployment).map(|note| &note.selector);
        let lone = self.lone.iter().filter(|key| key.0 == deployment.0);
        lone.filter(move |key| {
            let labels = self.get(WorkloadKind::ReplicaSet, key).map(|note| &note.labels);
            labels.zip(selector).is_some_and(|(labels, selector)| selector.matches(labels))
        })
    }

    /// Those that select something with these labels.
    pub fn selecting(&self, namespace: &str, labels: &Labels) -> Vec<(WorkloadKind, Key)> {
        let candidates = self.selecting.candidates(namespace, labels).into_iter();
        let matches =
            |place: &&(WorkloadKind, Key)| self.notes.get(*place).is_some_and(|note| note.selector.matches(labels));
        candidates.filter(matches).cloned().collect()
    }

    /// How many pods the controller of a pod wants, as the disruption controller asks for it.
    pub fn scale_of(&self, namespace: &str, owner: &Owner) -> Scale {
        let known = WorkloadKind::named(&owner.kind).and_then(|kind| {
            let key = (namespace.to_string(), owner.name.clone());
            self.get(kind, &key).filter(|note| note.uid == owner.uid)
        });
        match (known, owner.kind.as_str()) {
            (Some(note), "ReplicaSet") => match &note.owner {
                Some(above) => self.scale_of(namespace, above),
                None => Scale::Wants { uid: note.uid.clone(), replicas: note.replicas.unwrap_or(0) },
            },
            (Some(WorkloadNote { uid, replicas: Some(replicas), .. }), _) => {
                Scale::Wants { uid: uid.clone(), replicas: *replicas }
            }
            (_, "DaemonSet") => Scale::None { resource: "daemonsets.apps" },
            (_, "Job") => Scale::None { resource: "jobs.batch" },
            _ => Scale::Unknown { uid: owner.uid.clone() },
        }
    }
}
