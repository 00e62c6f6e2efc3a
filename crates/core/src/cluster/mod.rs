//! Everything that checks and explanations read, from one look at a cluster.
//!
//! It is filled object by object ([`Cluster::take`]) from a live cluster, a folder or a support bundle; nothing in here
//! knows which. Kinds that could not be read stand in [`Cluster::unseen`], so that nothing unseen counts as fine.

pub mod admission;
mod amount;
mod budget;
pub mod certificate;
pub mod cluster_api;
mod collection;
mod event;
mod followed;
pub mod harvester;
pub mod key;
pub mod kubevirt;
pub mod longhorn;
pub mod looks;
mod named;
mod node;
mod parts;
mod pod;
mod removed;
mod resources;
mod shelf;
pub mod snapshots;
mod storage;
pub mod tanzu;
#[cfg(test)]
mod tests;
mod wire;
mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use drover_api::plan::labels;
use drover_api::policy;
use jiff::Timestamp;
use serde::Deserialize;

use crate::accepted::Acceptance;
use crate::decision::Kind;
use crate::placement;
use crate::rooms::{self, Departure};
use crate::seen::{JobSeen, NodeSeen, PlanSeen, PodSeen, SecretSeen, Seen};

pub use amount::{Amount, Amounts};
pub use budget::{Bound, BudgetSpec, BudgetStatus, PodDisruptionBudget};
pub use collection::Collection;
pub use event::{Event, Regarding};
pub use followed::FOLLOWED;
pub use named::Unnamed;
pub use node::{Address, LEASES as NODE_LEASES, Lease, LeaseSpec, Node, NodeInfo, NodeSpec, NodeStatus, Taint};
pub use parts::{Condition, Meta, ObjectRef, OwnerReference, condition, is_true};
pub use pod::{
    Container, ContainerState, ContainerStatus, Pod, PodSpec, PodStatus, Resources, Running, Terminated, Volume,
    Waiting, last_words,
};
pub use removed::{OldVersion, REMOVED, RemovedApi};
pub use resources::{LOOKS, OF_UPGRADES, RESOURCES, Resource, resource_of};
pub use shelf::{Projection, Shelf};
pub use storage::{PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment};
pub use workload::{DaemonSet, Deployment, Job, ReplicaSet, Secret, ServiceAccount, StatefulSet};

/// What is unseen of a guest cluster that could not be looked into.
pub const INSIDE: &str = "GuestCluster";

/// What one look has found.
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    pub looked_at: Timestamp,
    pub nodes: Shelf<Node>,
    /// The kubelets' heartbeats are in the namespace `kube-node-lease`.
    pub leases: Shelf<Lease>,
    pub pods: Shelf<Pod>,
    pub budgets: Shelf<PodDisruptionBudget>,
    pub deployments: Shelf<Deployment>,
    pub replica_sets: Shelf<ReplicaSet>,
    pub stateful_sets: Shelf<StatefulSet>,
    pub daemon_sets: Shelf<DaemonSet>,
    pub jobs: Shelf<Job>,
    pub secrets: Shelf<Secret>,
    pub claims: Shelf<PersistentVolumeClaim>,
    pub volumes: Shelf<PersistentVolume>,
    pub storage_classes: Shelf<StorageClass>,
    pub attachments: Shelf<VolumeAttachment>,
    pub events: Shelf<Event>,
    pub service_accounts: Shelf<ServiceAccount>,
    /// Of Secrets whose contents could be read, by namespace and name.
    pub contents: BTreeMap<(String, String), certificate::Contents>,
    pub admission: admission::Admission,
    pub snapshots: snapshots::Snapshots,
    pub kubevirt: kubevirt::VirtualMachines,
    pub longhorn: longhorn::Longhorn,
    pub harvester: harvester::Harvester,
    pub cluster_api: cluster_api::ClusterApi,
    pub templates: cluster_api::Templates,
    pub machine_parts: cluster_api::Parts,
    pub tanzu: tanzu::Tanzu,
    pub looks: looks::Looks,
    /// Objects that somebody writes through a version of the API that is going to be removed.
    pub old_versions: Vec<OldVersion>,
    /// Who has accepted something in an object that asks for an upgrade.
    pub acceptances: BTreeMap<ObjectRef, Acceptance>,
    /// Who else writes what only the driver of an Upgrade does, by the names of the Upgrades.
    pub drivers: BTreeMap<String, Vec<String>>,
    /// The names of Upgrades that Drover has begun.
    pub begun_here: BTreeSet<String>,
    /// The same objects as the Plan engine reads them.
    pub engine: EngineObjects,
    pub unseen: Vec<Unseen>,
    /// Guest clusters that were looked into, by namespace and name.
    pub inside: BTreeMap<(String, String), Cluster>,
    /// Worked out when it is first asked for: several checks look at it, and it is dear.
    departures: OnceLock<BTreeMap<String, Departure>>,
    /// The same holds for this: it is the same for every pod that finds no node.
    free: OnceLock<placement::Free>,
}

/// Plans, and whatever a decision about them rests on.
#[derive(Debug, Clone, Default)]
pub struct EngineObjects {
    pub nodes: BTreeMap<String, NodeSeen>,
    pub namespaces: BTreeMap<String, EngineNamespace>,
}

/// One namespace that holds Plans, Jobs or Secrets, each by name.
#[derive(Debug, Clone, Default)]
pub struct EngineNamespace {
    pub plans: BTreeMap<String, PlanSeen>,
    pub jobs: BTreeMap<String, JobSeen>,
    /// Only those whose contents were read.
    pub secrets: BTreeMap<String, SecretSeen>,
    /// The pods of Plans' Jobs.
    pub pods: BTreeMap<String, PodSeen>,
}

/// Something that could not be looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct Unseen {
    pub kind: String,
    /// One object, if the others of its kind were seen.
    pub object: Option<ObjectRef>,
    pub cause: Cause,
}

/// Why something was not seen.
#[derive(Debug, Clone, PartialEq)]
pub enum Cause {
    Forbidden,
    /// The cluster does not have such objects: there is nothing to miss.
    NoSuchKind,
    /// The server did not answer, in these words.
    Unreachable(String),
    /// The object was there, but it is not what its kind says.
    Unreadable(String),
    /// A folder or a bundle that was made without it.
    NotCollected,
}

impl Unseen {
    /// Objects may be there that nobody has seen: not so where their kind is not even known.
    pub fn may_hide_something(&self) -> bool {
        self.cause != Cause::NoSuchKind
    }
}

impl std::fmt::Display for Unseen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = &self.kind;
        match (&self.object, &self.cause) {
            (None, Cause::Forbidden) => write!(f, "{kind}: no permission to list them"),
            (Some(object), Cause::Forbidden) => write!(f, "{object}: no permission to read it"),
            (_, Cause::NoSuchKind) => write!(f, "{kind}: the cluster has no such kind"),
            (_, Cause::NotCollected) => write!(f, "{kind}: not collected"),
            (None, Cause::Unreachable(why) | Cause::Unreadable(why)) => write!(f, "{kind}: {why}"),
            (Some(object), Cause::Unreachable(why) | Cause::Unreadable(why)) => write!(f, "{object}: {why}"),
        }
    }
}

/// What tells one kind from another.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: Name,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Name {
    namespace: String,
    name: String,
}

impl Cluster {
    /// An empty one, looked at now.
    pub fn new(looked_at: Timestamp) -> Self {
        Cluster { looked_at, ..Cluster::default() }
    }

    /// Takes one object of any kind, as JSON with `apiVersion` and `kind`. Kinds that nobody asks for are left out; an
    /// object that cannot be read counts as unseen.
    pub fn take(&mut self, json: &[u8]) {
        self.take_item("", "", json);
    }

    /// Takes an item of a list. Those of built-in kinds do not say what they are: then they are what their list is of.
    pub fn take_item(&mut self, api_version: &str, kind: &str, json: &[u8]) {
        self.reckon_anew();
        match serde_json::from_slice::<Head>(json) {
            Ok(mut head) => {
                if head.kind.is_empty() {
                    head.api_version = api_version.to_owned();
                    head.kind = kind.to_owned();
                }
                self.old_versions.extend(OldVersion::of(
                    &head.kind,
                    &head.metadata.namespace,
                    &head.metadata.name,
                    json,
                ));
                self.note_acceptance(&head, json);
                if let Err(error) = self.put(&head, json) {
                    self.miss(&head, Cause::Unreadable(error.to_string()));
                }
            }
            Err(error) => {
                let cause = Cause::Unreadable(error.to_string());
                self.unseen.push(Unseen { kind: "an object".to_owned(), object: None, cause });
            }
        }
    }

    /// What was worked out does not hold any more.
    fn reckon_anew(&mut self) {
        (self.departures, self.free) = (OnceLock::new(), OnceLock::new());
    }

    fn note_acceptance(&mut self, head: &Head, json: &[u8]) {
        const ASKING: [(&str, &str); 4] = [
            ("upgrade.cattle.io", "Plan"),
            ("harvesterhci.io", "Upgrade"),
            ("run.tanzu.vmware.com", "TanzuKubernetesCluster"),
            ("cluster.x-k8s.io", "Cluster"),
        ];
        let group = head.api_version.split_once('/').map_or("", |(group, _)| group);
        if (group, head.kind.as_str()) == ("harvesterhci.io", "Upgrade") {
            let name = head.metadata.name.clone();
            match crate::harvester::drivers::is_ours(json) {
                true => drop(self.begun_here.insert(name.clone())),
                false => drop(self.begun_here.remove(&name)),
            }
            match crate::harvester::drivers::others(json) {
                others if others.is_empty() => drop(self.drivers.remove(&name)),
                others => drop(self.drivers.insert(name, others)),
            }
        }
        let acceptance = ASKING.contains(&(group, head.kind.as_str())).then(|| Acceptance::read(json));
        if let Some(acceptance) = acceptance.flatten() {
            let object = ObjectRef::new(&head.kind, &head.metadata.namespace, &head.metadata.name);
            self.acceptances.insert(object, acceptance);
        }
    }

    fn put(&mut self, head: &Head, json: &[u8]) -> Result<(), serde_json::Error> {
        let group = head.api_version.split_once('/').map_or("", |(group, _)| group);
        match (group, head.kind.as_str()) {
            ("", "Node") => {
                self.nodes.decode(json)?;
                self.for_engine(Kind::Node, json)
            }
            ("", "Pod") => {
                let pod = self.pods.decode(json)?;
                match pod.metadata.labels.contains_key(labels::PLAN) {
                    true => self.for_engine(Kind::Pod, json),
                    false => Ok(()),
                }
            }
            ("batch", "Job") => {
                self.jobs.decode(json)?;
                self.for_engine(Kind::Job, json)
            }
            ("", "Secret") => {
                let secret = self.secrets.decode(json)?;
                let key = (secret.metadata.namespace.clone(), secret.metadata.name.clone());
                if let Some(contents) = certificate::Contents::read(json) {
                    self.contents.insert(key, contents);
                }
                self.for_engine(Kind::Secret, json)
            }
            ("upgrade.cattle.io", "Plan") => self.for_engine(Kind::Plan, json),
            ("coordination.k8s.io", "Lease") => self.leases.decode(json).map(drop),
            ("policy", "PodDisruptionBudget") => {
                let budget = self.budgets.decode(json)?;
                if head.api_version == policy::VERSION_BEFORE {
                    budget.spare_all_by_an_empty_selector();
                }
                Ok(())
            }
            ("apps", "Deployment") => self.deployments.decode(json).map(drop),
            ("apps", "ReplicaSet") => self.replica_sets.decode(json).map(drop),
            ("apps", "StatefulSet") => self.stateful_sets.decode(json).map(drop),
            ("apps", "DaemonSet") => self.daemon_sets.decode(json).map(drop),
            ("", "PersistentVolumeClaim") => self.claims.decode(json).map(drop),
            ("", "PersistentVolume") => self.volumes.decode(json).map(drop),
            ("storage.k8s.io", "StorageClass") => self.storage_classes.decode(json).map(drop),
            ("storage.k8s.io", "VolumeAttachment") => self.attachments.decode(json).map(drop),
            ("" | "events.k8s.io", "Event") => self.events.decode(json).map(drop),
            ("", "ServiceAccount") => self.service_accounts.decode(json).map(drop),
            (group, kind) => self.put_foreign(group, kind, head, json),
        }
    }

    /// The kinds of other products, and those that are rarely looked at.
    fn put_foreign(&mut self, group: &str, kind: &str, head: &Head, json: &[u8]) -> Result<(), serde_json::Error> {
        if kind.ends_with("Template") && cluster_api::has_templates(group) {
            self.templates.insert(ObjectRef::new(kind, &head.metadata.namespace, &head.metadata.name));
            return Ok(());
        }
        if cluster_api::is_part(group, kind) {
            let object = ObjectRef::new(kind, &head.metadata.namespace, &head.metadata.name);
            self.machine_parts.insert(object, serde_json::from_slice(json)?);
            return Ok(());
        }
        let put = (self.admission.put(group, kind, json))
            .or_else(|| self.snapshots.put(group, kind, json))
            .or_else(|| self.kubevirt.put(group, kind, json))
            .or_else(|| self.longhorn.put(group, kind, json))
            .or_else(|| self.harvester.put(group, kind, json))
            .or_else(|| self.cluster_api.put(group, kind, json))
            .or_else(|| self.tanzu.put(group, kind, json))
            .or_else(|| self.looks.put(group, kind, json));
        put.unwrap_or(Ok(()))
    }

    /// Takes a Secret of which only the metadata was asked for.
    pub fn take_secret_metadata(&mut self, json: &[u8]) {
        if let Err(error) = self.secrets.decode(json) {
            let cause = Cause::Unreadable(error.to_string());
            self.unseen.push(Unseen { kind: Secret::KIND.to_owned(), object: None, cause });
        }
    }

    fn for_engine(&mut self, kind: Kind, json: &[u8]) -> Result<(), serde_json::Error> {
        let Some(seen) = Seen::decode(kind, json)? else { return Ok(()) };
        let (namespace, name) = (seen.meta().namespace.clone(), seen.meta().name.clone());
        let EngineObjects { nodes, namespaces } = &mut self.engine;
        let room = || namespaces.entry(namespace).or_default();
        match seen {
            Seen::Node(node) => drop(nodes.insert(name, node)),
            Seen::Plan(plan) => drop(room().plans.insert(name, *plan)),
            Seen::Job(job) => drop(room().jobs.insert(name, job)),
            Seen::Secret(secret) => drop(room().secrets.insert(name, secret)),
            Seen::Pod(pod) => drop(room().pods.insert(name, pod)),
        }
        Ok(())
    }

    fn miss(&mut self, head: &Head, cause: Cause) {
        let group = head.api_version.split_once('/').map_or("", |(group, _)| group);
        let kind = resource_of(group, &head.kind).map_or(head.kind.as_str(), |resource| resource.kind);
        let object = ObjectRef::new(kind, &head.metadata.namespace, &head.metadata.name);
        self.unseen.push(Unseen { kind: kind.to_owned(), object: Some(object), cause });
    }

    /// All objects of the kind that could not be seen, for this reason; none if they were.
    pub fn blind_to(&self, kind: &str) -> Option<&Unseen> {
        self.unseen
            .iter()
            .find(|unseen| unseen.kind == kind && unseen.object.is_none() && unseen.cause != Cause::NoSuchKind)
    }

    pub fn plans(&self) -> impl Iterator<Item = &PlanSeen> {
        self.engine.namespaces.values().flat_map(|room| room.plans.values())
    }

    pub fn plan(&self, namespace: &str, name: &str) -> Option<&PlanSeen> {
        self.engine.namespaces.get(namespace)?.plans.get(name)
    }

    /// What the pods on each node leave of it.
    pub(crate) fn free(&self) -> &placement::Free {
        self.free.get_or_init(|| placement::free(self))
    }

    /// What would become of the pods of each node, if it alone went.
    pub(crate) fn departures(&self) -> &BTreeMap<String, Departure> {
        self.departures.get_or_init(|| rooms::departures(self))
    }

    /// The pods that are on a node and have not ended.
    pub fn pods_on<'a>(&'a self, node: &str) -> impl Iterator<Item = &'a Pod> {
        self.pods.iter().filter(move |pod| pod.spec.node_name == node && !pod.has_ended())
    }

    /// The budgets that cover a pod.
    pub fn budgets_of<'a>(&'a self, pod: &Pod) -> impl Iterator<Item = &'a PodDisruptionBudget> {
        self.budgets.in_namespace(&pod.metadata.namespace).filter(move |budget| budget.covers(pod))
    }

    /// Who is in charge of an object: its controller's controller, as far as they are there.
    pub fn root_owner(&self, metadata: &Meta) -> Option<ObjectRef> {
        let owner = metadata.controller()?;
        let above = match owner.kind.as_str() {
            "ReplicaSet" => self.replica_sets.get(&metadata.namespace, &owner.name).map(|set| &set.metadata),
            "Job" => self.jobs.get(&metadata.namespace, &owner.name).map(|job| &job.metadata),
            "MachineSet" => self.cluster_api.sets.get(&metadata.namespace, &owner.name).map(|set| &set.metadata),
            _ => None,
        };
        let higher = above.and_then(|above| self.root_owner(above));
        Some(higher.unwrap_or_else(|| ObjectRef::new(&owner.kind, &metadata.namespace, &owner.name)))
    }

    /// Events about an object, the latest last.
    pub fn events_about(&self, object: &ObjectRef) -> Vec<&Event> {
        let mut events: Vec<&Event> = match object.namespace.as_str() {
            // Events about objects of the cluster stand in some namespace, usually `default`.
            "" => self.events.iter().filter(|event| event.is_about(object)).collect(),
            namespace => self.events.in_namespace(namespace).filter(|event| event.is_about(object)).collect(),
        };
        events.sort_by_key(|event| event.last_seen());
        events
    }
}
