//! Create an object.

use std::sync::Arc;

use serde_json::json;

use super::Target;
use crate::apiserver::{
    meta_rules, namespaces,
    object::{Meta, Object, moment},
    resources::Generation,
    status::{Answer, already_exists, invalid, no_unique_name, unexplained},
    store::{Cause, Store, Stored, key},
};

/// How often a name is generated before giving up on finding a free one.
const ATTEMPTS: u64 = 8;

pub(crate) fn create(store: &mut Store, cause: &Cause<'_>, target: &Target, mut object: Object) -> Answer<Arc<Stored>> {
    target.check_identity(&mut object)?;
    target.conform(&mut object)?;
    target.complete(&mut object);
    let resource = &target.resource;
    if resource.namespaced {
        namespaces::check_accepts_objects(store, resource, &target.namespace, object.name())?;
    }
    if !object.resource_version().is_empty() {
        return Err(unexplained("resourceVersion should not be set on objects to be created"));
    }
    fill_system_fields(store, cause, &mut object);
    let generated = object.name().is_empty() && !object.meta_text("generateName").is_empty();
    if generated {
        let name = generate_name(store, target, object.meta_text("generateName"));
        object.set_meta("name", name);
    }
    resource.rules.prepare_create(&mut object, cause.at);
    if resource.generation != Generation::Never {
        object.set_meta("generation", 1);
    }

    let mut errors = vec![];
    meta_rules::validate(resource, &object, &mut errors);
    resource.rules.validate(&target.version, &object, &mut errors);
    if !errors.is_empty() {
        return Err(invalid(&resource.id.group, &resource.id.kind, object.name(), &errors));
    }

    let name = object.name().to_string();
    let key = key(&target.namespace, &name);
    if let Some(existing) = store.get(&resource.id, &key) {
        return Err(match generated {
            true => no_unique_name(&resource.id, &name),
            false => already_exists(&resource.id, &name, existing.object()?.is_deleting()),
        });
    }
    object.insert("apiVersion".into(), json!(resource.stored_api_version()));
    store.put(cause, &resource.id, &key, object)
}

fn fill_system_fields(store: &Store, cause: &Cause<'_>, object: &mut Object) {
    let uid = store.identities.uid(store.revision + 1);
    let meta = object.meta_mut();
    for name in ["deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "generation"] {
        meta.remove(name);
    }
    meta.insert("creationTimestamp".into(), moment(cause.at));
    meta.insert("uid".into(), json!(uid));
}

fn generate_name(store: &Store, target: &Target, base: &str) -> String {
    // A name has at most 63 letters, five of them random.
    let base: String = base.chars().take(58).collect();
    let named = |attempt| format!("{base}{}", store.identities.suffix(store.revision + 1, attempt));
    let is_free = |name: &String| store.get(&target.resource.id, &key(&target.namespace, name)).is_none();
    (0..ATTEMPTS).map(named).find(is_free).unwrap_or_else(|| named(ATTEMPTS))
}
