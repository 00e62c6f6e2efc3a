//! What is known of all TanzuKubernetesClusters and what they are made of, by namespace.

use std::collections::{BTreeMap, BTreeSet};

use drover_api::marks::{DEFAULTS, PLACES};
use drover_api::tanzu::{NAMESPACE, PLACES_MAP};
use drover_core::guest::{Collection, Object, Seen};
use serde_json::{Value, json};

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

pub const PARTS: [Part; 14] = [
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
    part(Collection::Controllers, "apps/v1", "Deployment", NAMESPACE),
    Part { label: PLACES, ..part(Collection::ConfigMaps, "v1", "ConfigMap", NAMESPACE) },
    Part { label: DEFAULTS, ..part(Collection::Defaults, "v1", "ConfigMap", NAMESPACE) },
];

impl Part {
    pub fn followed(self) -> follow::Collection {
        follow::Collection { path: self.path_in(self.namespace), label: self.label, metadata_only: false }
    }

    /// As far as it concerns clusters of a namespace.
    pub fn path_for(self, namespace: &str) -> String {
        match self.collection {
            Collection::Images => self.path_in(""),
            _ if self.namespace.is_empty() => self.path_in(namespace),
            _ => self.path_in(self.namespace),
        }
    }

    fn path_in(self, namespace: &str) -> String {
        let place = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
        let root = if self.api_version.contains('/') { "apis" } else { "api" };
        format!("/{root}/{}{place}/{}s", self.api_version, self.kind.to_lowercase())
    }

    /// An object as it is kept: what is large and never read is left out, and it says what it is.
    pub fn kept(self, json: &str) -> Option<Value> {
        let mut object: Value = serde_json::from_str(json).ok()?;
        object["metadata"]["name"].as_str()?;
        object["apiVersion"] = json!(self.api_version);
        object["kind"] = json!(self.kind);
        let large: [(&str, &str); 3] =
            [("/metadata", "managedFields"), ("/status", "bootstrapData"), ("/spec/bootstrap", "data")];
        for (path, field) in large {
            if let Some(fields) = object.pointer_mut(path).and_then(Value::as_object_mut) {
                fields.remove(field);
            }
        }
        Some(object)
    }
}

/// Of which collection an object is.
pub fn collection_of(object: &Object) -> Option<Part> {
    PARTS.into_iter().find(|part| part.kind == object.kind)
}

#[derive(Debug, Default)]
pub struct Ledger {
    spaces: BTreeMap<String, Seen>,
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
    pub fn put(&mut self, part: Part, object: Value) {
        self.spaces.entry(key_of(&object).0).or_default().put(part.collection, object);
    }

    pub fn remove(&mut self, part: Part, object: &Value) {
        if let Some(space) = self.spaces.get_mut(&key_of(object).0) {
            space.remove(part.collection, object);
        }
    }

    /// It was asked for, and is not there.
    pub fn forget(&mut self, part: Part, object: &Object) {
        let Some(space) = self.spaces.get_mut(&object.namespace) else { return };
        match part.collection {
            Collection::Infrastructure => space.forget(part.collection, &format!("{}/{}", object.kind, object.name)),
            collection => space.forget(collection, &object.name),
        }
    }

    /// A list is whole, over all namespaces.
    pub fn replace(&mut self, part: Part, objects: Vec<Value>, as_of: u64) {
        let mut by_space: BTreeMap<String, Vec<Value>> =
            self.spaces.keys().map(|space| (space.clone(), Vec::new())).collect();
        for object in objects {
            by_space.entry(key_of(&object).0).or_default().push(object);
        }
        for (space, objects) in by_space {
            self.spaces.entry(space).or_default().keep(part.collection, &objects, as_of, |_| true);
        }
        self.listed.insert(part.collection);
    }

    /// A kind that is not served has no objects.
    pub fn note_absent(&mut self, part: Part) {
        self.listed.insert(part.collection);
    }

    pub fn is_whole(&self) -> bool {
        PARTS.iter().all(|part| self.listed.contains(&part.collection))
    }

    pub fn space(&self, namespace: &str) -> &Seen {
        self.spaces.get(namespace).unwrap_or(&self.none)
    }

    pub fn cluster(&self, key: &Key) -> Option<&Value> {
        self.space(&key.0).get(Collection::Tanzu, &key.1)
    }

    pub fn clusters(&self) -> impl Iterator<Item = &Value> {
        self.spaces.values().flat_map(|space| space.all(Collection::Tanzu))
    }

    /// The ConfigMap that says which clusters are updated now.
    pub fn places(&self) -> Option<&Value> {
        self.space(NAMESPACE).get(Collection::ConfigMaps, PLACES_MAP)
    }

    /// Other controllers that do the same, and are at work.
    pub fn incumbent(&self) -> Option<String> {
        let other = self.space(NAMESPACE).get(Collection::Controllers, INCUMBENT)?;
        let replicas = other["spec"]["replicas"].as_i64().unwrap_or(1);
        (replicas > 0).then(|| format!("Deployment {NAMESPACE}/{INCUMBENT}"))
    }
}
