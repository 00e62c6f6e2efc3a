//! Replace an object, or its status.

use std::sync::Arc;

use serde_json::json;

use super::{Target, create::create};
use crate::apiserver::{
    meta_rules,
    object::{Meta, Object, take_from},
    resources::{Generation, Resource},
    status::{Answer, FieldError, bad_request, conflict, invalid, not_found, stale},
    store::{Cause, Store, Stored},
};

/// Which part of an object a write may change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Part {
    Main,
    Status,
}

/// What an update came to.
pub(crate) enum Updated {
    /// Also if nothing was to be changed.
    Changed(Arc<Stored>),
    Created(Arc<Stored>),
    /// It took away the last thing that kept a deleted object.
    Removed(Arc<Stored>),
}

impl Updated {
    pub fn stored(&self) -> &Arc<Stored> {
        match self {
            Updated::Changed(stored) | Updated::Created(stored) | Updated::Removed(stored) => stored,
        }
    }
}

pub(crate) fn update(
    store: &mut Store,
    cause: &Cause<'_>,
    target: &Target,
    part: Part,
    mut new: Object,
) -> Answer<Updated> {
    target.conform(&mut new)?;
    check_name(target, &new)?;
    let id = &target.resource.id;
    let Some(current) = store.get(id, &target.key()).cloned() else {
        if target.resource.create_on_update && part == Part::Main {
            return Ok(Updated::Created(create(store, cause, target, new)?));
        }
        return Err(not_found(id, &target.name));
    };
    if new.resource_version().is_empty() && !target.resource.unconditional_update {
        let error = FieldError::invalid("metadata.resourceVersion", &json!(0), "must be specified for an update");
        return Err(invalid(&id.group, &id.plural, &target.name, &[error]));
    }
    let old = current.object()?;
    check_uid(target, &old, &new)?;
    replace(store, cause, target, part, &old, new)
}

/// Replaces `old`, the current version, by `new`, which looks as its kind does. Shared by updates and patches.
pub(super) fn replace(
    store: &mut Store,
    cause: &Cause<'_>,
    target: &Target,
    part: Part,
    old: &Object,
    mut new: Object,
) -> Answer<Updated> {
    let resource = &target.resource;
    target.check_identity(&mut new)?;
    target.complete(&mut new);
    if !new.resource_version().is_empty() && new.resource_version() != old.resource_version() {
        return Err(stale(&resource.id, &target.name));
    }
    keep_system_fields(&mut new, old);
    new.insert("apiVersion".into(), json!(resource.stored_api_version()));
    match part {
        Part::Main => {
            if resource.status {
                take_from(&mut new, "status", old);
            }
            resource.rules.prepare_update(&mut new, old);
            if raises_generation(resource, &new, old) {
                new.set_meta("generation", old.generation() + 1);
            }
        }
        Part::Status => resource.rules.prepare_status_update(&mut new, old),
    }

    let mut errors = vec![];
    meta_rules::validate(resource, &new, &mut errors);
    meta_rules::validate_update(&new, old, &mut errors);
    resource.rules.validate(&target.version, &new, &mut errors);
    if part == Part::Main {
        resource.rules.validate_update(&new, old, &mut errors);
    }
    if !errors.is_empty() {
        return Err(invalid(&resource.id.group, &resource.id.kind, &target.name, &errors));
    }

    let key = target.key();
    if nothing_keeps(resource, &new, old) {
        // Watchers see it go as it last was; the caller sees what it asked for.
        let asked_for = Stored::unsaved(resource, new)?;
        store.remove(cause, &resource.id, &key, old.clone())?;
        return Ok(Updated::Removed(Arc::new(asked_for)));
    }
    if new == *old {
        let current = store.get(&resource.id, &key).cloned();
        return current.map(Updated::Changed).ok_or_else(|| not_found(&resource.id, &target.name));
    }
    Ok(Updated::Changed(store.put(cause, &resource.id, &key, new)?))
}

pub(super) fn check_name(target: &Target, new: &Object) -> Answer<()> {
    match new.name() {
        "" => Err(bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            target.name
        ))),
        name if name != target.name => Err(bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            target.name
        ))),
        _ => Ok(()),
    }
}

/// A uid in an update means that very object; in a patch it is a change like any other, and refused as one.
fn check_uid(target: &Target, old: &Object, new: &Object) -> Answer<()> {
    if new.uid().is_empty() || new.uid() == old.uid() {
        return Ok(());
    }
    let id = &target.resource.id;
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {}, UID in object meta: {}",
        id.plural,
        target.key(),
        new.uid(),
        old.uid()
    );
    Err(conflict(id, &target.name, &why))
}

/// What no update changes: identity, age, generation and the course of a deletion.
fn keep_system_fields(new: &mut Object, old: &Object) {
    let kept =
        ["creationTimestamp", "generation", "resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds"];
    for name in kept {
        new.keep_meta(name, old);
    }
    if new.uid().is_empty() {
        new.keep_meta("uid", old);
    }
}

fn raises_generation(resource: &Resource, new: &Object, old: &Object) -> bool {
    match resource.generation {
        Generation::Never => false,
        Generation::OnSpec => new.get("spec") != old.get("spec"),
        Generation::OnContent => {
            let inside = |name: &str| name != "metadata" && (name != "status" || !resource.status);
            let [after, before] = [new, old].map(|object| object.iter().filter(|(name, _)| inside(name)));
            !after.eq(before)
        }
    }
}

/// Whether a deleted object has neither a finalizer nor time left.
fn nothing_keeps(resource: &Resource, new: &Object, old: &Object) -> bool {
    old.is_deleting()
        && new.finalizers().is_empty()
        && old.grace_period().unwrap_or_default() == 0
        && !resource.rules.is_held(new)
}
