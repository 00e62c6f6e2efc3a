//! Create an object.

use serde_json::json;

use super::Target;
use crate::apiserver::{
    admission::Operation,
    fields::empty_object,
    meta_rules, namespaces,
    object::{Meta, Object, moment},
    resources::Generation,
    status::{Answer, already_exists, invalid, no_unique_name, unexplained},
    store::{Cause, Store, key},
    write::{Act, Draft, Outcome, Write},
};

/// How often a name is generated before giving up on finding a free one.
const ATTEMPTS: u64 = 8;

pub(crate) fn draft(store: &Store, write: &Write<'_>, mut object: Object) -> Answer<Draft> {
    let target = write.target;
    target.check_kind(&mut object)?;
    target.conform(&mut object)?;
    target.check_namespace(&mut object)?;
    target.complete(&mut object);
    if target.resource.namespaced {
        namespaces::check_accepts_objects(store, &target.resource, &target.namespace, object.name())?;
    }
    let meta = object.meta_mut();
    meta.remove("deletionTimestamp");
    meta.remove("deletionGracePeriodSeconds");
    let empty = empty_object(&target.resource, &target.version);
    Ok(drafted(write.track_and_keep(&empty, object)))
}

/// A new object on its way, its fields tracked.
pub(super) fn drafted(object: Object) -> Draft {
    let generated = object.name().is_empty() && !object.meta_text("generateName").is_empty();
    let act = Act::Create { generated };
    Draft {
        operation: Operation::Create,
        old: None,
        new: Some(object),
        act,
        base: None,
        ticket: 0,
        stated_version: None,
    }
}

/// Gives a new object its identity and what else only the server may set, and checks it.
pub(crate) fn settle(store: &Store, write: &Write<'_>, mut draft: Draft) -> Answer<Draft> {
    let resource = &write.target.resource;
    let mut object = draft.new.take().unwrap_or_default();
    if !object.resource_version().is_empty() {
        return Err(unexplained("resourceVersion should not be set on objects to be created"));
    }
    fill_system_fields(store, &write.cause, draft.ticket, &mut object);
    if object.name().is_empty() && !object.meta_text("generateName").is_empty() {
        let name = generate_name(store, write.target, draft.ticket, object.meta_text("generateName"));
        object.set_meta("name", name);
    }
    resource.rules.admit(store, &mut object)?;
    resource.rules.prepare_create(&mut object, write.cause.at);
    if let Some(shape) = resource.shape {
        shape.complete(&mut object);
    }
    if resource.generation != Generation::Never {
        object.set_meta("generation", 1);
    }

    let mut errors = vec![];
    if !meta_rules::comes_last(resource) {
        meta_rules::validate(resource, &object, None, &mut errors);
    }
    resource.rules.validate(&write.target.version, &object, &mut errors);
    if meta_rules::comes_last(resource) && errors.is_empty() {
        meta_rules::validate(resource, &object, None, &mut errors);
    }
    resource.rules.judge(&write.target.version, &object, None, &mut errors);
    if !errors.is_empty() {
        return Err(invalid(&resource.id.group, &resource.id.kind, object.name(), &errors));
    }
    write.advise(None, &object);
    object.insert("apiVersion".into(), json!(resource.stored_api_version()));
    draft.new = Some(object);
    Ok(draft)
}

pub(crate) fn commit(store: &mut Store, write: &Write<'_>, mut object: Object, generated: bool) -> Answer<Outcome> {
    let id = &write.target.resource.id;
    let name = object.name().to_string();
    let key = key(&write.target.namespace, &name);
    if let Some(existing) = store.get(id, &key) {
        return Err(match generated {
            true => no_unique_name(id, &name),
            false => already_exists(id, &name, existing.object()?.is_deleting()),
        });
    }
    write.target.resource.rules.allocate(store, &write.cause, &mut object)?;
    store.put(&write.cause, id, &key, object).map(Outcome::Created)
}

fn fill_system_fields(store: &Store, cause: &Cause<'_>, ticket: u64, object: &mut Object) {
    let uid = store.identities.uid(store.revision + 1, ticket);
    let meta = object.meta_mut();
    for name in ["deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion"] {
        meta.remove(name);
    }
    meta.insert("creationTimestamp".into(), moment(cause.at));
    meta.insert("uid".into(), json!(uid));
}

fn generate_name(store: &Store, target: &Target, ticket: u64, base: &str) -> String {
    // A name has at most 63 letters, five of them random.
    let base: String = base.chars().take(58).collect();
    let named =
        |attempt| format!("{base}{}", store.identities.suffix(store.revision + 1, ticket * (ATTEMPTS + 1) + attempt));
    let is_free = |name: &String| store.get(&target.resource.id, &key(&target.namespace, name)).is_none();
    (0..ATTEMPTS).map(named).find(is_free).unwrap_or_else(|| named(ATTEMPTS))
}
