//! The store without HTTP: synchronous, without latency, by the same rules. For the simulated world, for tests, and
//! for checkers.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::{Resource, core::Status};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    ApiServer,
    object::{Meta as _, Object},
    status::{Answer, bad_request, internal, no_such_resource},
    store::{Cause, Store, Verb, key},
    stored::Stored,
    verbs::{
        Target,
        delete::{DeleteOptions, Preconditions, Propagation},
        update::Part,
    },
    write::{self, Intent, Write},
};

mod controllers;

/// The server as one actor inside the process sees it.
#[derive(Clone, Debug)]
pub struct Direct {
    server: ApiServer,
    actor: Arc<str>,
}

/// A kind that the types know at compile time: those of k8s-openapi and of derived custom resources.
pub trait Kind: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Send + Sync + 'static {}

impl<K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Kind for K {}

impl Direct {
    pub(super) fn new(server: ApiServer, actor: &str) -> Self {
        Direct { server, actor: actor.into() }
    }

    /// None if there is no such object.
    pub fn get<K: Kind>(&self, namespace: Option<&str>, name: &str) -> Answer<Option<K>> {
        self.stored::<K>(namespace, name)?.map(|stored| stored.typed()).transpose()
    }

    /// The same for those who only read it: it is shared with everybody else who does, and stays at hand.
    pub fn get_shared<K: Kind>(&self, namespace: Option<&str>, name: &str) -> Answer<Option<Arc<K>>> {
        let Some(stored) = self.stored::<K>(namespace, name)? else { return Ok(None) };
        self.server.store().with(|store| store.take_to_hand(&stored))?;
        stored.typed_shared().map(Some)
    }

    fn stored<K: Kind>(&self, namespace: Option<&str>, name: &str) -> Answer<Option<Arc<Stored>>> {
        self.server.store().with(|store| {
            let collection = store.find(&K::group(&()), &K::plural(&())).ok_or_else(no_such_resource)?;
            Ok::<_, Box<Status>>(collection.objects.get(&*key(namespace.unwrap_or_default(), name)).cloned())
        })
    }

    /// All objects of a kind, by namespace and name.
    pub fn list<K: Kind>(&self) -> Answer<Vec<K>> {
        let found: Vec<_> = self.server.store().with(|store| {
            let collection = store.find(&K::group(&()), &K::plural(&())).ok_or_else(no_such_resource)?;
            Ok::<_, Box<Status>>(collection.objects.values().cloned().collect())
        })?;
        found.iter().map(|stored| stored.typed()).collect()
    }

    pub fn create<K: Kind>(&self, object: &K) -> Answer<K> {
        self.make(object)?.typed()
    }

    /// Replaces an object; its resourceVersion is checked if it has one.
    pub fn update<K: Kind>(&self, object: &K) -> Answer<K> {
        self.replace(object, Part::Main)?.typed()
    }

    pub fn update_status<K: Kind>(&self, object: &K) -> Answer<K> {
        self.replace(object, Part::Status)?.typed()
    }

    /// The same for those who do not look at what is stored then: reading it back costs as much as writing it.
    pub(crate) fn put_new<K: Kind>(&self, object: &K) -> Answer<()> {
        self.make(object).map(drop)
    }

    pub(crate) fn put<K: Kind>(&self, object: &K) -> Answer<()> {
        self.replace(object, Part::Main).map(drop)
    }

    pub(crate) fn put_status<K: Kind>(&self, object: &K) -> Answer<()> {
        self.replace(object, Part::Status).map(drop)
    }

    /// Deletes an object, and its dependents in the background. With a uid, only that one.
    pub fn delete<K: Kind>(&self, namespace: Option<&str>, name: &str, uid: Option<&str>) -> Answer<()> {
        let options = DeleteOptions {
            preconditions: uid.map(|uid| Preconditions { uid: Some(uid.into()), resource_version: None }),
            propagation_policy: Some(Propagation::Background),
            ..DeleteOptions::default()
        };
        self.delete_with::<K>(namespace, name, &options)
    }

    /// Deletes an object without the time that it would be given to end, as a kubelet does when the pod has ended.
    pub fn delete_now<K: Kind>(&self, namespace: Option<&str>, name: &str, uid: Option<&str>) -> Answer<()> {
        let options = DeleteOptions {
            grace_period_seconds: Some(0),
            preconditions: uid.map(|uid| Preconditions { uid: Some(uid.into()), resource_version: None }),
            propagation_policy: Some(Propagation::Background),
            ..DeleteOptions::default()
        };
        self.delete_with::<K>(namespace, name, &options)
    }

    fn delete_with<K: Kind>(&self, namespace: Option<&str>, name: &str, options: &DeleteOptions) -> Answer<()> {
        self.server.store().with(|store| {
            let target = target::<K>(store, namespace.unwrap_or_default(), name)?;
            self.write(store, Verb::Delete, "", &target, Intent::Delete(options.clone())).map(|_| ())
        })
    }

    /// Says where a pod runs, once, as a scheduler does. No update can.
    pub fn bind(&self, namespace: &str, pod: &str, node: &str) -> Answer<()> {
        let binding = json!({ "metadata": { "name": pod }, "target": { "kind": "Node", "name": node } });
        self.server.store().with(|store| {
            let target = target::<Pod>(store, namespace, pod)?;
            let bind = Intent::Bind(untyped(&binding)?);
            write::now(store, &Write::inside(self.cause(Verb::Update, "binding"), &target), bind).map(|_| ())
        })
    }

    /// Adds to what a pod has printed, for `kubectl logs`.
    pub fn append_log(&self, namespace: &str, pod: &str, text: &str) {
        let now = self.server.clock().now();
        self.server.store().with(|store| store.append_log(&key(namespace, pod), text, now));
    }

    /// All objects of a kind as JSON, by namespace and name, for kinds that no type is at hand for.
    pub fn list_json(&self, group: &str, plural: &str) -> Answer<Vec<Value>> {
        let found: Vec<_> = self.server.store().with(|store| {
            let collection = store.find(group, plural).ok_or_else(no_such_resource)?;
            Ok::<_, Box<Status>>(collection.objects.values().cloned().collect())
        })?;
        found.iter().map(|stored| stored.object().map(Value::Object)).collect()
    }

    fn make<K: Kind>(&self, object: &K) -> Answer<Arc<Stored>> {
        let object = untyped(object)?;
        self.server.store().with(|store| {
            let target = target::<K>(store, object.namespace(), object.name())?;
            self.write(store, Verb::Create, "", &target, Intent::Create(object))
        })
    }

    fn replace<K: Kind>(&self, object: &K, part: Part) -> Answer<Arc<Stored>> {
        let mut object = untyped(object)?;
        self.server.store().with(|store| {
            let target = target::<K>(store, object.namespace(), object.name())?;
            // Over HTTP some kinds insist on a resourceVersion; here leaving it out always means the current one.
            if object.resource_version().is_empty()
                && let Some(current) = store.get(&target.resource.id, &target.key())
            {
                object.set_meta("resourceVersion", current.revision.to_string());
            }
            let subresource = match part {
                Part::Main => "",
                Part::Status => "status",
                Part::Other(name) => name,
            };
            self.write(store, Verb::Update, subresource, &target, Intent::Update(part, object))
        })
    }

    /// Writes an object, and hands out what is stored then.
    fn write(
        &self,
        store: &mut Store,
        verb: Verb,
        subresource: &str,
        target: &Target,
        intent: Intent,
    ) -> Answer<Arc<Stored>> {
        let is_noted = self.server.shared.notes_own_managers;
        let write = Write { is_noted, ..Write::inside(self.cause(verb, subresource), target) };
        let outcome = write::now(store, &write, intent)?;
        outcome.stored().cloned().ok_or_else(|| internal("nothing was stored"))
    }

    fn cause<'a>(&'a self, verb: Verb, subresource: &'a str) -> Cause<'a> {
        Cause { actor: &self.actor, at: self.server.clock().now(), verb, subresource }
    }
}

fn target<K: Kind>(store: &Store, namespace: &str, name: &str) -> Answer<Target> {
    let collection = store.find(&K::group(&()), &K::plural(&())).ok_or_else(no_such_resource)?;
    let version = K::version(&()).into_owned();
    if !collection.resource.serves(&version) {
        return Err(no_such_resource());
    }
    let resource = collection.resource.clone();
    // As with any client, what says no namespace goes into the default one.
    let namespace = if resource.namespaced && namespace.is_empty() { "default" } else { namespace };
    Ok(Target { resource, version, namespace: namespace.into(), name: name.into() })
}

fn untyped<K: Serialize>(object: &K) -> Answer<Object> {
    match serde_json::to_value(object) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(bad_request("the object is not an object")),
        Err(error) => Err(bad_request(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use drover_clock::Clock;
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::apiserver::Options;

    /// Who is noted as a manager of a ConfigMap that somebody else has made, and that is changed from inside.
    fn managers(server: impl Fn(Options) -> ApiServer) -> Vec<String> {
        let clock = Clock::virtual_from("2026-01-01T12:00:00Z".parse().unwrap());
        let server = server(Options { clock, seed: 1, latency: Duration::ZERO, watch_window: 10 });
        let map = json!({ "metadata": { "name": "map", "namespace": "default" }, "data": { "a": "1" } });
        let (kubectl, world) = (server.direct("kubectl"), server.direct("world"));
        server.store().with(|store| {
            let target = target::<ConfigMap>(store, "default", "map").unwrap();
            let create = Intent::Create(untyped(&map).unwrap());
            write::now(store, &Write::inside(kubectl.cause(Verb::Create, ""), &target), create).unwrap();
        });
        let mut map: ConfigMap = world.get(Some("default"), "map").unwrap().unwrap();
        map.data.get_or_insert_default().insert("b".into(), "2".into());
        assert_eq!(world.update(&map).unwrap().data.unwrap().len(), 2);
        let stored = &server.direct("").list_json("", "configmaps").unwrap()[0];
        let fields = stored["metadata"]["managedFields"].as_array().unwrap().iter();
        fields.map(|one| one["manager"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_simulation_leaves_managed_fields_as_clients_have_made_them() {
        assert_eq!(managers(ApiServer::new), ["kubectl", "world"]);
        assert_eq!(managers(ApiServer::without_own_managers), ["kubectl"]);
    }
}
