//! What is followed of the two clusters, as it was last told.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// One kind, as far as it concerns one guest cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Collection {
    Clusters,
    Machines,
    Configs,
    /// The objects that stand for the virtual machines, of whatever kind, as `KIND/NAME`.
    Infrastructure,
    Secrets,
    /// TanzuKubernetesClusters.
    Tanzu,
    /// VirtualMachineImages.
    Images,
    /// VirtualMachineClasses.
    Classes,
    StorageClasses,
    /// MachineDeployments, MachineSets, and the templates of their Machines.
    Deployments,
    Sets,
    MachineTemplates,
    ConfigTemplates,
    Jobs,
    /// What the installation wants of all clusters.
    Defaults,
    /// Deployments where the Jobs are: other controllers.
    Controllers,
    Nodes,
    /// The static pods of the control plane; where the Jobs are, theirs.
    Pods,
    ConfigMaps,
    Roles,
    RoleBindings,
    ClusterRoles,
    ClusterRoleBindings,
}

impl Collection {
    /// Those of the guest cluster.
    pub const OF_GUEST: [Collection; 7] = [
        Collection::Nodes,
        Collection::Pods,
        Collection::ConfigMaps,
        Collection::Roles,
        Collection::RoleBindings,
        Collection::ClusterRoles,
        Collection::ClusterRoleBindings,
    ];
}

/// An object in whatever form it is kept.
pub trait Kept {
    fn kind(&self) -> &str;
    fn name(&self) -> &str;
    /// How new it is.
    fn revision(&self) -> u64;
}

impl Kept for Value {
    fn kind(&self) -> &str {
        self["kind"].as_str().unwrap_or_default()
    }

    fn name(&self) -> &str {
        self["metadata"]["name"].as_str().unwrap_or_default()
    }

    fn revision(&self) -> u64 {
        self["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
    }
}

/// Objects by collection and name.
#[derive(Debug, Clone)]
pub struct Seen<O = Value> {
    collections: BTreeMap<Collection, BTreeMap<String, O>>,
}

impl<O> Default for Seen<O> {
    fn default() -> Self {
        Seen { collections: BTreeMap::new() }
    }
}

impl<O: Kept> Seen<O> {
    /// Takes in an object as it is now. What is older than what is known is no news: watches and answers to writes come in any order.
    pub fn put(&mut self, collection: Collection, object: O) {
        let name = key(collection, &object);
        let known = self.collections.entry(collection).or_default();
        if known.get(&name).is_some_and(|known| known.revision() >= object.revision()) {
            return;
        }
        known.insert(name, object);
    }

    /// One that is known to be newer stays: it was made after what is told of here.
    pub fn remove(&mut self, collection: Collection, object: &O) {
        let name = key(collection, object);
        let Some(known) = self.collections.get_mut(&collection) else { return };
        if known.get(&name).is_none_or(|known| known.revision() <= object.revision()) {
            known.remove(&name);
        }
    }

    /// A list is whole: what it tells of and is not in it is gone, unless it is newer than the list.
    pub fn keep(&mut self, collection: Collection, listed: Vec<O>, as_of: u64, tells_of: impl Fn(&O) -> bool) {
        let names: BTreeSet<String> = listed.iter().map(|object| key(collection, object)).collect();
        if let Some(known) = self.collections.get_mut(&collection) {
            known.retain(|name, object| names.contains(name) || object.revision() > as_of || !tells_of(object));
        }
        listed.into_iter().for_each(|object| self.put(collection, object));
    }

    /// The same objects in another form; those that have none are left out.
    pub fn turned<T>(&self, turn: impl Fn(&O) -> Option<T>) -> Seen<T> {
        let turned = |objects: &BTreeMap<String, O>| {
            objects.iter().filter_map(|(name, object)| Some((name.clone(), turn(object)?))).collect()
        };
        let collections = self.collections.iter().map(|(collection, objects)| (*collection, turned(objects)));
        Seen { collections: collections.collect() }
    }

    /// What was asked for is not there.
    pub fn forget(&mut self, collection: Collection, name: &str) {
        if let Some(known) = self.collections.get_mut(&collection) {
            known.remove(name);
        }
    }

    pub fn get(&self, collection: Collection, name: &str) -> Option<&O> {
        self.collections.get(&collection)?.get(name)
    }

    pub fn all(&self, collection: Collection) -> impl Iterator<Item = &O> {
        self.collections.get(&collection).into_iter().flat_map(BTreeMap::values)
    }
}

fn key(collection: Collection, object: &impl Kept) -> String {
    match collection {
        Collection::Infrastructure => format!("{}/{}", object.kind(), object.name()),
        _ => object.name().to_owned(),
    }
}
