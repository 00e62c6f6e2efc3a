//! What a write takes from those who managed it before.

use std::collections::BTreeMap;

use super::{
    KindType, Writer,
    compare::compare,
    managers::{Manager, Managers},
    reset_fields,
    set::FieldSet,
};
use crate::apiserver::{object::Object, resources::Resource};

/// The fields that a write sets anew and those that it removes, in the terms of its own version.
#[derive(Debug)]
pub(super) struct Taken {
    pub set: FieldSet,
    pub removed: FieldSet,
    /// The same in the terms of versions that have other fields, by their names, if somebody manages fields in them.
    elsewhere: BTreeMap<String, (FieldSet, FieldSet)>,
}

impl Taken {
    /// Compares two versions of an object, or says what has no place in its kind.
    pub fn between(
        kind: &KindType,
        resource: &Resource,
        old: &Object,
        new: &Object,
        managers: &Managers,
        writer: Writer<'_>,
    ) -> Result<Self, String> {
        let reset = reset_fields(resource, writer.subresource);
        let changes = compare(&kind.types, kind.root, old, new)?.without(&reset);
        let mut elsewhere = BTreeMap::new();
        for manager in managers.0.iter().filter(|manager| manager.version != writer.version) {
            let versions = (resource.version_of(writer.version), resource.version_of(&manager.version));
            let (Some(own), Some(other)) = versions else { continue };
            let looks_alike = resource.form(own).is_none() && resource.form(other).is_none();
            let Some(kind) = resource.kind_type(other).filter(|_| !looks_alike) else { continue };
            let [old, new] = [old, new].map(|object| seen_in(resource, own, other, object));
            let changes = compare(&kind.types, kind.root, &old, &new)?.without(&reset);
            elsewhere.insert(manager.version.clone(), (changes.set_anew(), changes.removed));
        }
        Ok(Taken { set: changes.set_anew(), removed: changes.removed, elsewhere })
    }

    /// What is set and what is removed, in the terms in which a manager manages.
    pub fn of(&self, manager: &Manager) -> (&FieldSet, &FieldSet) {
        match self.elsewhere.get(&manager.version) {
            Some((set, removed)) => (set, removed),
            None => (&self.set, &self.removed),
        }
    }
}

/// An object of one version in the form of another.
fn seen_in(resource: &Resource, from: &str, to: &str, object: &Object) -> Object {
    let mut object = object.clone();
    if let Some(form) = resource.form(from) {
        (form.keep)(&mut object);
    }
    if let Some(form) = resource.form(to) {
        (form.show)(&mut object);
    }
    object
}
