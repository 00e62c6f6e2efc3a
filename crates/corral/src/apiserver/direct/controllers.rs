//! What controllers need beyond objects of a known kind: objects of any kind, and the end of namespaces.

use bytes::Bytes;
use kube::api::PropagationPolicy;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Direct, untyped};
use crate::apiserver::{
    namespaces,
    object::{Meta as _, child},
    resources::ResourceId,
    status::{Answer, no_such_resource},
    store::{Store, Verb, key, key_parts},
    verbs::{
        Target,
        delete::{DeleteOptions, Preconditions, Propagation},
        patch::Patch,
        read::get,
        update::Part,
    },
    write::{self, Intent, Write},
};

impl Direct {
    /// Every kind that is served, by group and plural.
    pub fn resources(&self) -> Vec<ResourceId> {
        self.server.store().with(|store| store.collections().map(|found| found.resource.id.clone()).collect())
    }

    /// Namespace and name of every object of a kind.
    pub fn names(&self, id: &ResourceId) -> Vec<(String, String)> {
        let parts = |key: &str| {
            let (namespace, name) = key_parts(key);
            (namespace.to_string(), name.to_string())
        };
        self.server.store().with(|store| {
            let found = store.find(&id.group, &id.plural);
            found.into_iter().flat_map(|found| found.objects.keys()).map(|key| parts(key)).collect()
        })
    }

    /// An object as it is stored.
    pub fn json(&self, id: &ResourceId, namespace: &str, name: &str) -> Option<Bytes> {
        self.server.store().with(|store| store.get(id, &key(namespace, name)).map(|stored| stored.json()))
    }

    /// What its metadata say of an object; nothing, if they cannot be read so.
    pub fn metadata<T: DeserializeOwned>(&self, id: &ResourceId, namespace: &str, name: &str) -> Option<T> {
        self.server.store().with(|store| store.get(id, &key(namespace, name)).and_then(|stored| stored.metadata().ok()))
    }

    /// Deletes the object with this uid, and does to its dependents what the policy says.
    pub fn delete_object(
        &self,
        id: &ResourceId,
        namespace: &str,
        name: &str,
        uid: &str,
        policy: PropagationPolicy,
    ) -> Answer<()> {
        let options = DeleteOptions {
            preconditions: Some(Preconditions { uid: Some(uid.into()), resource_version: None }),
            propagation_policy: Some(match policy {
                PropagationPolicy::Background => Propagation::Background,
                PropagationPolicy::Foreground => Propagation::Foreground,
                PropagationPolicy::Orphan => Propagation::Orphan,
            }),
            ..DeleteOptions::default()
        };
        self.server.store().with(|store| {
            let target = target(store, id, namespace, name)?;
            self.write(store, Verb::Delete, "", &target, Intent::Delete(options)).map(|_| ())
        })
    }

    /// Applies a merge patch; a uid or resourceVersion in it has to be the current one.
    pub fn patch_object(&self, id: &ResourceId, namespace: &str, name: &str, merge: &Value) -> Answer<()> {
        self.server.store().with(|store| {
            let target = target(store, id, namespace, name)?;
            let merge = Intent::Patch(Part::Main, Patch::Merge(merge.clone()));
            self.write(store, Verb::Patch, "", &target, merge).map(|_| ())
        })
    }

    /// Makes an object of any kind.
    pub fn create_object(&self, id: &ResourceId, object: &Value) -> Answer<()> {
        let object = untyped(object)?;
        self.server.store().with(|store| {
            let target = target(store, id, object.namespace(), object.name())?;
            self.write(store, Verb::Create, "", &target, Intent::Create(object)).map(|_| ())
        })
    }

    /// Replaces an object of any kind, or its status. Where the status is no part of its own, it goes with the object.
    pub fn replace_object(&self, id: &ResourceId, object: &Value, status: bool) -> Answer<()> {
        let object = untyped(object)?;
        self.server.store().with(|store| {
            let target = target(store, id, object.namespace(), object.name())?;
            let resource = &target.resource;
            let apart = resource.rules.has_status(&target.version).unwrap_or(resource.status);
            let (part, subresource) = if status && apart { (Part::Status, "status") } else { (Part::Main, "") };
            self.write(store, Verb::Update, subresource, &target, Intent::Update(part, object)).map(|_| ())
        })
    }

    /// Asks for the end of a pod as a drain does: its budget may refuse. With a grace period, if one is stated.
    pub fn evict(&self, namespace: &str, pod: &str, grace_period_seconds: Option<i64>) -> Answer<()> {
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "namespace": namespace, "name": pod },
        });
        let options = DeleteOptions { grace_period_seconds, ..DeleteOptions::default() };
        self.server.store().with(|store| {
            let target = target(store, &ResourceId::new("", "pods", "Pod"), namespace, pod)?;
            let evict = Intent::Evict(untyped(&eviction)?, options);
            write::now(store, &Write::inside(self.cause(Verb::Evict, "eviction"), &target), evict).map(|_| ())
        })
    }

    /// Says that a namespace which is on its way out is empty, as `namespaces/finalize` does.
    pub fn finalize_namespace(&self, name: &str) -> Answer<()> {
        let cause = self.cause(Verb::Update, namespaces::FINALIZE);
        self.server.store().with(|store| {
            let target = target(store, &namespaces::id(), "", name)?;
            let mut namespace = get(store, &target, "")?.object()?;
            child(&mut namespace, "spec").remove("finalizers");
            let empty = Intent::Update(Part::Other(namespaces::FINALIZE), namespace);
            write::now(store, &Write::inside(cause, &target), empty).map(|_| ())
        })
    }
}

fn target(store: &Store, id: &ResourceId, namespace: &str, name: &str) -> Answer<Target> {
    let resource = store.find(&id.group, &id.plural).ok_or_else(no_such_resource)?.resource.clone();
    let version = resource.storage_version.clone();
    Ok(Target { resource, version, namespace: namespace.into(), name: name.into() })
}
