//! What the world remembers of Deployments, ReplicaSets, StatefulSets and DaemonSets: whose pods are whose, and how many
//! there should be.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::core::Selector;

use super::agenda::Key;
use super::budget::Scale;
use super::labels::Labels;
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
}

impl Workloads {
    /// Remembers one as it is now, or forgets it; answers with what was known of it.
    pub fn note(&mut self, kind: WorkloadKind, key: &Key, note: Option<WorkloadNote>) -> Option<WorkloadNote> {
        let place = (kind, key.clone());
        match note {
            Some(note) => self.notes.insert(place, note),
            None => self.notes.remove(&place),
        }
    }

    pub fn get(&self, kind: WorkloadKind, key: &Key) -> Option<&WorkloadNote> {
        self.notes.get(&(kind, key.clone()))
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
