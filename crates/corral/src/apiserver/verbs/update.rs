//! Replace an object, or its status.

use std::sync::Arc;

use serde_json::json;

use super::{Target, create, read::no_number};
use crate::apiserver::{
    admission::Operation,
    fields::differ_in_times_only,
    meta_rules::{self, Look, looks},
    object::{Meta, Object, take_from},
    resources::{Generation, Resource},
    status::{Answer, FieldError, bad_request, conflict, invalid, not_found, stale, unexplained},
    store::Store,
    stored::{Shared, Stored},
    write::{Act, Draft, Outcome, Write},
};

/// Which part of an object a write may change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Part {
    Main,
    Status,
    /// A part with a name of its own, which only its kind knows.
    Other(&'static str),
}

pub(crate) fn draft(store: &Store, write: &Write<'_>, part: Part, mut new: Object) -> Answer<Draft> {
    let target = write.target;
    target.conform(&mut new)?;
    check_name(target, &new)?;
    let id = &target.resource.id;
    let Some(current) = store.get(id, &target.key()).cloned() else {
        if target.resource.create_on_update && part == Part::Main {
            check_uid(write, &Object::new(), new.uid())?;
            let version = new.meta_mut().remove("resourceVersion");
            let mut draft = create::draft(store, write, new)?;
            draft.stated_version = version.filter(|_| write.options.dry_run);
            return Ok(draft);
        }
        return Err(not_found(id, &target.name));
    };
    let old = current.shared()?;
    check_uid(write, &old, new.uid())?;
    if new.resource_version().is_empty() && !target.resource.unconditional_update {
        let error = FieldError::invalid("metadata.resourceVersion", &json!(0), "must be specified for an update");
        return Err(invalid(&id.group, &id.plural, &target.name, &[error]));
    }
    target.complete(&mut new);
    replace(write, part, current, old, new)
}

/// Drafts the replacement of `old`, the current version, by `new`, which looks as its kind does. Shared by updates and
/// patches.
pub(super) fn replace(
    write: &Write<'_>,
    part: Part,
    current: Arc<Stored>,
    old: Shared,
    mut new: Object,
) -> Answer<Draft> {
    let target = write.target;
    target.check_identity(&mut new)?;
    let mut new = match target.resource.form(&target.version) {
        None => write.track_and_keep(&old, new),
        Some(form) => {
            let mut shown = Object::clone(&old);
            (form.show)(&mut shown);
            write.track_and_keep(&shown, new)
        }
    };
    prepare_part(target, part, &mut new, &old);
    drafted(write, part, current, old, new)
}

/// What is written through a part changes that part alone. Whoever sends more along manages it all the same.
fn prepare_part(target: &Target, part: Part, new: &mut Object, old: &Object) {
    if let Part::Other(name) = part {
        target.resource.rules.prepare_part(name, new, old);
    }
}

/// A changed object on its way, its fields tracked.
pub(crate) fn drafted(write: &Write<'_>, part: Part, current: Arc<Stored>, old: Shared, new: Object) -> Answer<Draft> {
    let target = write.target;
    let version = new.resource_version();
    if !version.is_empty() && version.parse::<u64>().is_err() {
        return Err(unexplained(&no_number(version)));
    }
    if !version.is_empty() && version != old.resource_version() {
        return Err(stale(&target.resource.id, &target.name));
    }
    let operation = Operation::Update;
    let act = Act::Replace(part);
    Ok(Draft { operation, old: Some(old), new: Some(new), act, base: Some(current), ticket: 0, stated_version: None })
}

/// An object that admission has changed, decoded as if a client had sent it.
pub(crate) fn decode_again(target: &Target, mut object: Object) -> Answer<Object> {
    target.show(&mut object);
    target.conform(&mut object)?;
    target.complete(&mut object);
    target.keep(&mut object);
    Ok(object)
}

/// Puts back what an update may not change, and checks the rest.
pub(crate) fn settle(write: &Write<'_>, part: Part, mut draft: Draft) -> Answer<Draft> {
    let target = write.target;
    let resource = &target.resource;
    let (Some(old), Some(mut new)) = (&draft.old, draft.new.take()) else { return Ok(draft) };
    keep_system_fields(&mut new, old);
    let managed = new.meta_mut().remove("managedFields");
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
        Part::Other(_) => {
            if raises_generation(resource, &new, old) {
                new.set_meta("generation", old.generation() + 1);
            }
        }
    }
    match managed {
        Some(managed) => new.set_meta("managedFields", managed),
        None => drop(new.meta_mut().remove("managedFields")),
    }
    if differ_in_times_only(&new, old) {
        new.keep_meta("managedFields", old);
    }

    let mut errors = vec![];
    meta_rules::validate_update(&new, old, &mut errors);
    for look in looks(resource, part) {
        match look {
            Look::MetaChange => meta_rules::validate_change(resource, &new, old, &mut errors),
            Look::Meta => meta_rules::validate(resource, &new, Some(old), &mut errors),
            // The status of a custom kind is checked by the schema of the whole.
            Look::Whole if part == Part::Status && resource.shape.is_some() => {}
            Look::Whole => resource.rules.validate(&target.version, &new, &mut errors),
            Look::Change => match part {
                Part::Main => resource.rules.validate_change(&target.version, &new, old, &mut errors),
                Part::Status => resource.rules.validate_status(&new, old, &mut errors),
                Part::Other(name) => resource.rules.validate_part(name, &new, old, &mut errors),
            },
        }
    }
    let known = match part {
        Part::Status => resource.rules.judge_status(&target.version, &new, old, &mut errors),
        Part::Main | Part::Other(_) => resource.rules.judge(&target.version, &new, Some(old), &mut errors),
    };
    known.into_iter().for_each(|warning| write.warn(warning));
    if !errors.is_empty() {
        return Err(invalid(&resource.id.group, &resource.id.kind, &target.name, &errors));
    }
    if part == Part::Main {
        write.advise(Some(old), &new);
    }
    draft.new = Some(new);
    Ok(draft)
}

pub(crate) fn commit(
    store: &mut Store,
    write: &Write<'_>,
    old: &Object,
    current: Option<Arc<Stored>>,
    mut new: Object,
) -> Answer<Outcome> {
    let resource = &write.target.resource;
    let key = write.target.key();
    if nothing_keeps(resource, &new, old) {
        // Watchers see it go as it last was; the caller sees what it asked for.
        let asked_for = Stored::unsaved(resource, new)?;
        store.remove(&write.cause, &resource.id, &key, old.clone())?;
        return Ok(Outcome::Changed(Arc::new(asked_for)));
    }
    let is_kept_as_shown = |current: &Arc<Stored>| !(current.is_new() && resource.rules.is_shown_with_more(old));
    if let Some(current) = current.filter(|current| new == *old && is_kept_as_shown(current)) {
        return Ok(Outcome::Changed(current));
    }
    resource.rules.allocate(store, &write.cause, &mut new)?;
    store.put(&write.cause, &resource.id, &key, new).map(Outcome::Changed)
}

pub(crate) fn check_name(target: &Target, new: &Object) -> Answer<()> {
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
pub(crate) fn check_uid(write: &Write<'_>, old: &Object, uid: &str) -> Answer<()> {
    let target = write.target;
    if uid.is_empty() || uid == old.uid() {
        return Ok(());
    }
    let id = &target.resource.id;
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {}/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {}, UID in object meta: {}",
        if write.options.dry_run { "" } else { "/registry" },
        target.resource.stored_under(),
        target.key(),
        uid,
        old.uid()
    );
    Err(conflict(id, &target.name, &why))
}

/// What no update changes: identity, age, generation and the course of a deletion.
fn keep_system_fields(new: &mut Object, old: &Object) {
    for name in ["creationTimestamp", "generation", "resourceVersion"] {
        new.keep_meta(name, old);
    }
    if old.is_deleting() {
        new.keep_meta("deletionTimestamp", old);
        new.keep_meta("deletionGracePeriodSeconds", old);
    }
    if new.uid().is_empty() {
        new.keep_meta("uid", old);
    }
}

fn raises_generation(resource: &Resource, new: &Object, old: &Object) -> bool {
    match resource.generation {
        Generation::Never => false,
        Generation::OnSpec => new.get("spec") != old.get("spec"),
        Generation::OnSpecOrAnnotations => {
            new.get("spec") != old.get("spec") || new.meta("annotations") != old.meta("annotations")
        }
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
