//! What is followed of the two clusters, as it was last told.

use std::collections::BTreeMap;

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
    /// The static pods of the control plane.
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

/// Objects by collection and name.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    collections: BTreeMap<Collection, BTreeMap<String, Value>>,
}

impl Seen {
    /// Takes in an object as it is now. What is older than what is known is no news: watches and answers to writes come in any order.
    pub fn put(&mut self, collection: Collection, object: Value) {
        let name = key(collection, &object);
        let known = self.collections.entry(collection).or_default();
        if known.get(&name).is_some_and(|known| revision(known) >= revision(&object)) {
            return;
        }
        known.insert(name, object);
    }

    /// One that is known to be newer stays: it was made after what is told of here.
    pub fn remove(&mut self, collection: Collection, object: &Value) {
        let name = key(collection, object);
        let Some(known) = self.collections.get_mut(&collection) else { return };
        if known.get(&name).is_none_or(|known| revision(known) <= revision(object)) {
            known.remove(&name);
        }
    }

    /// A list is whole: what it tells of and is not in it is gone, unless it is newer than the list.
    pub fn keep(&mut self, collection: Collection, listed: &[Value], as_of: u64, tells_of: impl Fn(&Value) -> bool) {
        let names: Vec<String> = listed.iter().map(|object| key(collection, object)).collect();
        if let Some(known) = self.collections.get_mut(&collection) {
            known.retain(|name, object| names.contains(name) || revision(object) > as_of || !tells_of(object));
        }
        listed.iter().for_each(|object| self.put(collection, object.clone()));
    }

    /// What was asked for is not there.
    pub fn forget(&mut self, collection: Collection, name: &str) {
        if let Some(known) = self.collections.get_mut(&collection) {
            known.remove(name);
        }
    }

    pub fn get(&self, collection: Collection, name: &str) -> Option<&Value> {
        self.collections.get(&collection)?.get(name)
    }

    pub fn all(&self, collection: Collection) -> impl Iterator<Item = &Value> {
        self.collections.get(&collection).into_iter().flat_map(BTreeMap::values)
    }
}

fn key(collection: Collection, object: &Value) -> String {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    match collection {
        Collection::Infrastructure => format!("{}/{name}", object["kind"].as_str().unwrap_or_default()),
        _ => name.to_owned(),
    }
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}
