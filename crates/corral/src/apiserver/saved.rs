//! The whole store as one list, and back.

use jiff::Timestamp;
use kube::core::Status;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use sha2::{Digest, Sha256};

use super::{
    crds, event_forms, namespaces,
    object::{Meta, Object, child},
    status::{Answer, bad_request},
    store::{Cause, Store, Verb, key},
    verbs::Target,
    write::{self, Intent, Write},
};

/// What a pod has printed, in its saved form only.
const LOG: &str = "corral.drover.dev/log";

/// All objects by group, plural, namespace and name.
pub(crate) fn save(store: &Store) -> Value {
    let mut items = vec![];
    for collection in store.collections() {
        for (key, stored) in &collection.objects {
            let Ok(mut object) = stored.object() else { continue };
            let log = store.pod_logs.text(key);
            if collection.resource.id.plural == "pods" && collection.resource.id.group.is_empty() && !log.is_empty() {
                child(object.meta_mut(), "annotations").insert(LOG.into(), json!(log));
            }
            items.push(Value::Object(object));
        }
    }
    let metadata = json!({ "resourceVersion": store.revision.to_string() });
    json!({ "apiVersion": "v1", "kind": "List", "metadata": metadata, "items": items })
}

pub(crate) fn digest(store: &Store) -> String {
    let mut hash = Sha256::new();
    for collection in store.collections() {
        for stored in collection.objects.values() {
            hash.update(stored.json());
            hash.update(b"\n");
        }
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn load(store: &mut Store, at: Timestamp, list: &Value) -> Answer<()> {
    let cause = Cause { actor: "load", at, verb: Verb::Create, subresource: "" };
    let mut objects = vec![];
    for item in list["items"].as_array().into_iter().flatten() {
        match item {
            Value::Object(object) => objects.push(object.clone()),
            _ => return Err(not_an_object()),
        }
    }
    objects.sort_by_key(|object| turn(object.get("kind").and_then(Value::as_str).unwrap_or_default()));
    for object in objects {
        load_one(store, &cause, object)?;
    }
    if let Some(revision) = list["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()) {
        store.revision = store.revision.max(revision);
    }
    store.compact();
    Ok(())
}

/// Takes in objects that are still text. Only one at a time is read, which is what makes room for a large cluster: read
/// all at once, they would take many times as much.
pub(crate) fn load_text(store: &mut Store, at: Timestamp, mut objects: Vec<Box<RawValue>>) -> Answer<()> {
    let cause = Cause { actor: "load", at, verb: Verb::Create, subresource: "" };
    objects.sort_by_cached_key(|text| {
        serde_json::from_str(text.get()).map(|Head { kind }| turn(&kind)).unwrap_or(Turn::Object)
    });
    for text in objects {
        let object = serde_json::from_str(text.get()).map_err(|_| not_an_object())?;
        drop(text);
        load_one(store, &cause, object)?;
    }
    store.compact();
    Ok(())
}

#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    kind: String,
}

/// Kinds and places come before what is of that kind and in that place.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Definition,
    Namespace,
    Object,
}

fn turn(kind: &str) -> Turn {
    match kind {
        "CustomResourceDefinition" => Turn::Definition,
        "Namespace" => Turn::Namespace,
        _ => Turn::Object,
    }
}

fn not_an_object() -> Box<Status> {
    bad_request("the list holds something that is no object")
}

fn load_one(store: &mut Store, cause: &Cause<'_>, mut object: Object) -> Answer<()> {
    let target = target(store, &object)?;
    if target.resource.namespaced && store.get(&namespaces::id(), &target.namespace).is_none() {
        load_one(store, cause, namespace(&target.namespace))?;
    }
    let log = object.meta("annotations").and_then(|found| found.get(LOG)).and_then(Value::as_str).map(String::from);
    if log.is_some() {
        let annotations = child(object.meta_mut(), "annotations");
        annotations.remove(LOG);
        if annotations.is_empty() {
            object.meta_mut().remove("annotations");
        }
    }
    let key = key(&target.namespace, object.name());
    if object.uid().is_empty() {
        // Written by hand: it becomes an object as if it were created, and keeps the status it states.
        let status = object.get("status").cloned();
        object.meta_mut().remove("resourceVersion");
        let created = write::now(store, &Write::inside(*cause, &target), Intent::Create(object))?;
        if let (Some(stored), Some(status), true) =
            (created.stored(), status, target.resource.status && target.resource.id != crds::id())
        {
            let mut object = stored.object()?;
            object.insert("status".into(), status);
            store.restore(cause, &target.resource.id, &key, object, None)?;
        }
    } else {
        target.keep(&mut object);
        object.insert("apiVersion".into(), json!(target.resource.stored_api_version()));
        let revision = object.resource_version().parse().ok();
        store.restore(cause, &target.resource.id, &key, object, revision)?;
    }
    if let Some(log) = log {
        store.append_log(&key, &log, cause.at);
    }
    Ok(())
}

fn namespace(name: &str) -> Object {
    let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    object.as_object().cloned().unwrap_or_default()
}

fn target(store: &Store, object: &Object) -> Answer<Target> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let (group, version) = if group == event_forms::GROUP { ("", event_forms::NEWER) } else { (group, version) };
    let mut resources = store.collections().map(|collection| &collection.resource);
    let resource = resources.find(|resource| resource.id.group == group && resource.id.kind == kind);
    let Some(resource) = resource else {
        return Err(bad_request(format!("{api_version} {kind} {:?} is of a kind that is not served", object.name())));
    };
    let namespace = match (resource.namespaced, object.namespace()) {
        (false, _) => "",
        (true, "") => "default",
        (true, namespace) => namespace,
    };
    let resource = resource.clone();
    Ok(Target { resource, version: version.into(), namespace: namespace.into(), name: object.name().into() })
}
