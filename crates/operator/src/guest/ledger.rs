//! What is known of all TanzuKubernetesClusters and what they are made of, by namespace. Where all clusters are
//! idle, they are kept as text: trees of JSON take several times as much, and most clusters are idle most of the time.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use drover_api::marks::{AFTER, DEFAULTS, PLACES};
use drover_api::node::roles::MASTER;
use drover_api::tanzu::tanzu_kubernetes_cluster::jobs::OF_POD;
use drover_api::tanzu::{NAMESPACE, PLACES_MAP};
use drover_core::guest::{Collection, Kept, Object, Seen};
use serde_json::{Value, json};

use super::folded::Folded;
use crate::follow;

/// The controllers that did this before.
const INCUMBENT: &str = drover_api::tanzu::CONTROLLER_NAME;

/// A kind that is followed: what it is kept as, its API and its kind.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    pub collection: Collection,
    api_version: &'static str,
    pub kind: &'static str,
    /// Only in this namespace; empty: in all.
    namespace: &'static str,
    /// Only with this label; empty: all.
    label: &'static str,
}

const fn part(collection: Collection, api_version: &'static str, kind: &'static str, namespace: &'static str) -> Part {
    Part { collection, api_version, kind, namespace, label: "" }
}

pub const PARTS: [Part; 18] = [
    part(Collection::Tanzu, "run.tanzu.vmware.com/v1alpha1", "TanzuKubernetesCluster", ""),
    part(Collection::Images, "vmoperator.vmware.com/v1alpha1", "VirtualMachineImage", ""),
    part(Collection::Clusters, "cluster.x-k8s.io/v1alpha2", "Cluster", ""),
    part(Collection::Machines, "cluster.x-k8s.io/v1alpha2", "Machine", ""),
    part(Collection::Sets, "cluster.x-k8s.io/v1alpha2", "MachineSet", ""),
    part(Collection::Deployments, "cluster.x-k8s.io/v1alpha2", "MachineDeployment", ""),
    part(Collection::Configs, "bootstrap.cluster.x-k8s.io/v1alpha2", "KubeadmConfig", ""),
    part(Collection::ConfigTemplates, "bootstrap.cluster.x-k8s.io/v1alpha2", "KubeadmConfigTemplate", ""),
    part(Collection::Infrastructure, "infrastructure.cluster.vmware.com/v1alpha2", "WCPMachine", ""),
    part(Collection::MachineTemplates, "infrastructure.cluster.vmware.com/v1alpha2", "WCPMachineTemplate", ""),
    part(Collection::Jobs, "batch/v1", "Job", NAMESPACE),
    part(Collection::Classes, "vmoperator.vmware.com/v1alpha1", "VirtualMachineClass", ""),
    part(Collection::StorageClasses, "storage.k8s.io/v1", "StorageClass", ""),
    Part { label: OF_POD, ..part(Collection::Pods, "v1", "Pod", NAMESPACE) },
    // Where the original lets its Jobs run.
    Part { label: MASTER, ..part(Collection::Nodes, "v1", "Node", "") },
    part(Collection::Controllers, "apps/v1", "Deployment", NAMESPACE),
    Part { label: PLACES, ..part(Collection::ConfigMaps, "v1", "ConfigMap", NAMESPACE) },
    Part { label: DEFAULTS, ..part(Collection::Defaults, "v1", "ConfigMap", NAMESPACE) },
];

impl Part {
    pub fn followed(self) -> follow::Collection {
        let metadata_only = self.collection == Collection::Nodes;
        follow::Collection { path: self.path_in(self.namespace), label: self.label, name: String::new(), metadata_only }
    }

    /// As far as it concerns clusters of a namespace.
    pub fn path_for(self, namespace: &str) -> String {
        match self.collection {
            Collection::Images | Collection::Classes | Collection::StorageClasses | Collection::Nodes => {
                self.path_in("")
            }
            _ if self.namespace.is_empty() => self.path_in(namespace),
            _ => self.path_in(self.namespace),
        }
    }

    fn path_in(self, namespace: &str) -> String {
        let place = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
        let root = if self.api_version.contains('/') { "apis" } else { "api" };
        let plural = if self.kind.ends_with('s') { "es" } else { "s" };
        format!("/{root}/{}{place}/{}{plural}", self.api_version, self.kind.to_lowercase())
    }

    /// Without it less can be explained or refused beforehand: rights of an earlier release may lack it.
    pub fn is_dispensable(self) -> bool {
        matches!(
            self.collection,
            Collection::Pods | Collection::Nodes | Collection::Classes | Collection::StorageClasses
        )
    }

    /// It is looked at for every cluster, whatever its namespace: it is never folded.
    fn is_common(self) -> bool {
        let is_in_none = matches!(
            self.collection,
            Collection::Images | Collection::Classes | Collection::StorageClasses | Collection::Nodes
        );
        !self.namespace.is_empty() || is_in_none
    }

    /// An object as it is kept: what is large and never read is left out, and it says what it is.
    pub fn kept(self, json: &str) -> Option<Folded> {
        Folded::told(self.api_version, self.kind, json)
    }
}

/// What the clusters of a namespace are made of.
#[derive(Debug)]
enum Space {
    Open(Seen),
    Folded(Seen<Folded>),
}

impl Default for Space {
    fn default() -> Self {
        Space::Folded(Seen::default())
    }
}

impl Space {
    fn put(&mut self, collection: Collection, object: Folded) {
        match self {
            Space::Open(seen) => object.unfolded().into_iter().for_each(|object| seen.put(collection, object)),
            Space::Folded(seen) => seen.put(collection, object),
        }
    }

    fn remove(&mut self, collection: Collection, object: &Folded) {
        match self {
            Space::Open(seen) => object.unfolded().iter().for_each(|object| seen.remove(collection, object)),
            Space::Folded(seen) => seen.remove(collection, object),
        }
    }

    fn get(&self, collection: Collection, name: &str) -> Option<Cow<'_, Value>> {
        match self {
            Space::Open(seen) => seen.get(collection, name).map(Cow::Borrowed),
            Space::Folded(seen) => seen.get(collection, name)?.unfolded().map(Cow::Owned),
        }
    }

    fn forget(&mut self, collection: Collection, name: &str) {
        match self {
            Space::Open(seen) => seen.forget(collection, name),
            Space::Folded(seen) => seen.forget(collection, name),
        }
    }

    fn keep(&mut self, collection: Collection, listed: Vec<Folded>, as_of: u64) {
        match self {
            Space::Open(seen) => {
                let listed = listed.iter().filter_map(Folded::unfolded).collect();
                seen.keep(collection, listed, as_of, |_| true);
            }
            Space::Folded(seen) => seen.keep(collection, listed, as_of, |_| true),
        }
    }
}

fn kind_of(object: &Value) -> Option<&'static str> {
    PARTS.iter().map(|part| part.kind).find(|kind| *kind == object.kind())
}

/// Of which collection an object is.
pub fn collection_of(object: &Object) -> Option<Part> {
    PARTS.into_iter().find(|part| part.kind == object.kind)
}

#[derive(Debug, Default)]
pub struct Ledger {
    /// What is not of a single cluster.
    common: BTreeMap<String, Seen>,
    spaces: BTreeMap<String, Space>,
    /// What others ask of each cluster: who it is, and whom it comes after.
    cards: BTreeMap<Key, Value>,
    none: Seen,
    listed: BTreeSet<Collection>,
}

/// A namespace and a name.
pub type Key = (String, String);

pub fn key_of(object: &Value) -> Key {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

impl Ledger {
    pub fn put(&mut self, part: Part, object: Folded) {
        let (namespace, key) = (object.key.0.clone(), object.key.clone());
        if !part.is_common() {
            self.spaces.entry(namespace).or_default().put(part.collection, object);
            self.file(part, key);
        } else if let Some(object) = object.unfolded() {
            self.common.entry(namespace).or_default().put(part.collection, object);
        }
    }

    pub fn remove(&mut self, part: Part, object: &Folded) {
        if let Some(space) = self.spaces.get_mut(&object.key.0).filter(|_| !part.is_common()) {
            space.remove(part.collection, object);
            self.file(part, object.key.clone());
        } else if let (Some(common), Some(object)) = (self.common.get_mut(&object.key.0), object.unfolded()) {
            common.remove(part.collection, &object);
        }
    }

    /// It was asked for, and is not there.
    pub fn forget(&mut self, part: Part, object: &Object) {
        let name = match part.collection {
            Collection::Infrastructure => format!("{}/{}", object.kind, object.name),
            _ => object.name.clone(),
        };
        if let Some(space) = self.spaces.get_mut(&object.namespace).filter(|_| !part.is_common()) {
            space.forget(part.collection, &name);
            self.file(part, (object.namespace.clone(), object.name.clone()));
        } else if let Some(common) = self.common.get_mut(&object.namespace) {
            common.forget(part.collection, &name);
        }
    }

    /// A list is whole, over all namespaces.
    pub fn replace(&mut self, part: Part, objects: Vec<Folded>, as_of: u64) {
        let known = self.spaces.keys().chain(self.common.keys());
        let mut by_space: BTreeMap<String, Vec<Folded>> = known.map(|space| (space.clone(), Vec::new())).collect();
        for object in objects {
            by_space.entry(object.key.0.clone()).or_default().push(object);
        }
        let keys: Vec<Key> =
            self.cards.keys().cloned().chain(by_space.values().flatten().map(|one| one.key.clone())).collect();
        for (space, objects) in by_space {
            if part.is_common() {
                let objects = objects.iter().filter_map(Folded::unfolded).collect();
                self.common.entry(space).or_default().keep(part.collection, objects, as_of, |_| true);
            } else {
                self.spaces.entry(space).or_default().keep(part.collection, objects, as_of);
            }
        }
        self.listed.insert(part.collection);
        if part.collection == Collection::Tanzu {
            keys.into_iter().for_each(|key| self.file(part, key));
        }
    }

    /// Notes of a cluster what others ask of it.
    fn file(&mut self, part: Part, key: Key) {
        if part.collection != Collection::Tanzu {
            return;
        }
        let known = self.spaces.get(&key.0).and_then(|space| space.get(Collection::Tanzu, &key.1));
        let card = known.map(|tkc| {
            let metadata = &tkc["metadata"];
            let after = metadata["annotations"][AFTER].clone();
            json!({ "metadata": {
                "namespace": key.0, "name": key.1, "uid": metadata["uid"],
                "annotations": if after.is_null() { json!({}) } else { json!({ AFTER: after }) },
            }})
        });
        match card {
            Some(card) => drop(self.cards.insert(key, card)),
            None => drop(self.cards.remove(&key)),
        }
    }

    /// What is looked at again and again is kept as it is read.
    pub fn open(&mut self, namespace: &str) {
        if let Some(space) = self.spaces.get_mut(namespace)
            && let Space::Folded(seen) = space
        {
            *space = Space::Open(seen.turned(Folded::unfolded));
        }
    }

    pub fn fold(&mut self, namespace: &str) {
        if let Some(space) = self.spaces.get_mut(namespace)
            && let Space::Open(seen) = space
        {
            *space = Space::Folded(seen.turned(|object| Some(Folded::of(kind_of(object)?, object))));
        }
    }

    /// A kind that is not served has no objects.
    pub fn note_absent(&mut self, part: Part) {
        self.listed.insert(part.collection);
    }

    pub fn is_whole(&self) -> bool {
        PARTS.iter().all(|part| self.listed.contains(&part.collection))
    }

    /// What the clusters of a namespace are made of.
    pub fn space(&self, namespace: &str) -> Cow<'_, Seen> {
        match self.spaces.get(namespace) {
            None => Cow::Borrowed(&self.none),
            Some(Space::Open(seen)) => Cow::Borrowed(seen),
            Some(Space::Folded(seen)) => Cow::Owned(seen.turned(Folded::unfolded)),
        }
    }

    /// What is not of a single cluster, and is in no namespace or in that of the controllers.
    pub fn common(&self, namespace: &str) -> &Seen {
        self.common.get(namespace).unwrap_or(&self.none)
    }

    /// Of a cluster, who it is and whom it comes after; the rest is among what it is made of.
    pub fn card(&self, key: &Key) -> Option<&Value> {
        self.cards.get(key)
    }

    pub fn cards(&self) -> impl Iterator<Item = &Value> {
        self.cards.values()
    }

    /// The ConfigMap that says which clusters are updated now.
    pub fn places(&self) -> Option<&Value> {
        self.common(NAMESPACE).get(Collection::ConfigMaps, PLACES_MAP)
    }

    /// Other controllers that do the same, and are at work.
    pub fn incumbent(&self) -> Option<String> {
        let other = self.common(NAMESPACE).get(Collection::Controllers, INCUMBENT)?;
        let replicas = other["spec"]["replicas"].as_i64().unwrap_or(1);
        (replicas > 0).then(|| format!("Deployment {NAMESPACE}/{INCUMBENT}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINES: Part = PARTS[3];

    fn machine(name: &str, revision: u64) -> Folded {
        let metadata = json!({ "name": name, "namespace": "team", "resourceVersion": revision.to_string() });
        MACHINES.kept(&json!({ "metadata": metadata, "spec": { "version": "v1.16.7" } }).to_string()).unwrap()
    }

    fn known(ledger: &Ledger) -> Vec<(String, u64)> {
        let space = ledger.space("team");
        space.all(Collection::Machines).map(|one| (one.name().to_owned(), one.revision())).collect()
    }

    /// Whatever is told, it makes no difference whether a namespace is folded meanwhile.
    #[test]
    fn a_folded_namespace_hears_all_that_an_open_one_hears() {
        let tell: [fn(&mut Ledger); 5] = [
            |ledger| ledger.put(MACHINES, machine("a", 5)),
            |ledger| ledger.put(MACHINES, machine("a", 4)),
            |ledger| ledger.replace(MACHINES, vec![machine("a", 5), machine("b", 6)], 7),
            |ledger| ledger.remove(MACHINES, &machine("a", 8)),
            |ledger| ledger.put(MACHINES, machine("c", 9)),
        ];
        let after: [&[(&str, u64)]; 5] =
            [&[("a", 5)], &[("a", 5)], &[("a", 5), ("b", 6)], &[("b", 6)], &[("b", 6), ("c", 9)]];
        for kept_open in [true, false] {
            let mut ledger = Ledger::default();
            for (tell, after) in tell.iter().zip(after) {
                tell(&mut ledger);
                let expected: Vec<(String, u64)> =
                    after.iter().map(|(name, revision)| ((*name).to_owned(), *revision)).collect();
                assert_eq!(known(&ledger), expected);
                ledger.open("team");
                assert_eq!(known(&ledger), expected);
                if !kept_open {
                    ledger.fold("team");
                    assert_eq!(known(&ledger), expected);
                }
            }
        }
    }

    #[test]
    fn others_know_of_a_cluster_who_it_is_and_whom_it_comes_after_until_it_is_gone() {
        const TANZU: Part = PARTS[0];
        let tkc = |revision: u64, after: Value| {
            let metadata = json!({ "name": "web", "namespace": "team", "uid": "u", "resourceVersion": revision.to_string(), "annotations": after });
            TANZU.kept(&json!({ "metadata": metadata, "spec": { "topology": {} } }).to_string()).unwrap()
        };
        let key = ("team".to_owned(), "web".to_owned());
        let mut ledger = Ledger::default();
        ledger.replace(TANZU, vec![tkc(1, json!({ "drover.dev/after": "db" }))], 1);
        assert_eq!(ledger.card(&key).unwrap()["metadata"]["annotations"], json!({ "drover.dev/after": "db" }));
        ledger.put(TANZU, tkc(2, json!({})));
        let card = ledger.card(&key).unwrap();
        assert_eq!((&card["metadata"]["uid"], &card["metadata"]["annotations"]), (&json!("u"), &json!({})));
        ledger.remove(TANZU, &tkc(3, json!({})));
        assert_eq!(ledger.cards().count(), 0);
        ledger.put(TANZU, tkc(4, json!({})));
        ledger.replace(TANZU, Vec::new(), 5);
        assert_eq!(ledger.cards().count(), 0);
    }

    #[test]
    fn an_object_is_folded_and_unfolded_whole() {
        let mut ledger = Ledger::default();
        ledger.put(MACHINES, machine("a", 5));
        let before = ledger.space("team").into_owned();
        ledger.open("team");
        ledger.fold("team");
        let same = |seen: &Seen| seen.get(Collection::Machines, "a").cloned();
        assert_eq!(same(&ledger.space("team")), same(&before));
        assert_eq!(same(&before).unwrap()["spec"]["version"], "v1.16.7");
    }
}
