//! Who manages which field, and what follows from it: `managedFields` on every write, and server-side apply.
//!
//! The algebra is that of structured-merge-diff: sets of fields (`set`), what kinds look like (`types`), how two
//! versions differ (`compare`), what an object states (`collect`), and one object laid over another (`merge`).

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use serde_json::{Value, json};

use self::{
    managers::{Manager, ManagerId, Managers},
    set::FieldSet,
    taken::Taken,
    types::{TypeId, Types},
};
use super::{
    object::{Meta, Object},
    recorded,
    resources::Resource,
};

mod apply;
mod collect;
mod compare;
pub(super) mod managers;
mod merge;
pub(super) mod set;
pub(super) mod step;
mod strategy;
mod taken;
pub(super) mod types;

pub(super) use self::{
    apply::{BEFORE_FIRST, Conflict, Refusal, apply},
    strategy::{ListPatch, Place},
};

/// The type of a kind among the types of its schema.
#[derive(Clone, Debug)]
pub(crate) struct KindType {
    types: Arc<Types>,
    root: TypeId,
}

type Documents = BTreeMap<String, Option<Arc<Types>>>;

/// The types of the built-in kinds, group by group, read when they are first needed.
static BUILT_IN: LazyLock<Mutex<Documents>> = LazyLock::new(Mutex::default);

impl KindType {
    /// The type of a built-in kind; none if nothing was recorded of it.
    pub fn of_built_in(group: &str, version: &str, kind: &str) -> Option<Self> {
        let place = if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
        let mut known = BUILT_IN.lock().unwrap_or_else(PoisonError::into_inner);
        let read = || {
            let document = recorded::document(&format!("/openapi/v3/{place}"))?;
            Types::read(&document).map(Arc::new)
        };
        let types = known.entry(place.clone()).or_insert_with(read).clone()?;
        let root = types.of_kind(group, version, kind)?;
        Some(KindType { types, root })
    }

    /// Whether a value could stand in a field of the object.
    pub fn fits(&self, field: &str, value: &Value) -> bool {
        let place = self.types.get(self.root).map.as_ref().and_then(|map| map.field(field));
        place.is_none_or(|id| collect::fits(&self.types, id, value))
    }

    /// The type of a custom kind.
    pub fn of_custom(schema: &Value) -> Option<Self> {
        // Any document of built-in kinds tells what metadata looks like; this is a small one.
        let metadata = recorded::document("/openapi/v3/apis/coordination.k8s.io/v1")?;
        let (types, root) = Types::of_custom(schema, &metadata)?;
        Some(KindType { types: Arc::new(types), root })
    }
}

/// Who writes, as managed fields note it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    pub name: &'a str,
    /// `v1`, `apps/v1`: the version through which the object is written.
    pub version: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// The moment, as objects state it.
    pub time: &'a str,
}

/// What nobody manages: what the server sets, and what says which object it is.
static NOT_MANAGED: LazyLock<FieldSet> = LazyLock::new(|| {
    let mut fields = FieldSet::default();
    for name in ["apiVersion", "kind", "metadata"] {
        fields.insert(&[step::field(name)]);
    }
    let meta = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    for name in meta {
        fields.insert(&[step::field("metadata"), step::field(name)]);
    }
    fields
});

/// The fields that a write to a subresource, or to the object itself, does not change, whatever it says.
pub(crate) fn reset_fields(resource: &Resource, subresource: &str) -> FieldSet {
    let mut fields = FieldSet::default();
    let mut add = |path: &[&str]| fields.insert(&path.iter().map(|name| step::field(name)).collect::<Vec<_>>());
    match (subresource, resource.id.qualified().as_str()) {
        ("status", qualified) => {
            add(&["spec"]);
            match qualified {
                "pods" => {
                    add(&["metadata", "deletionTimestamp"]);
                    add(&["metadata", "ownerReferences"]);
                }
                "deployments.apps" => add(&["metadata", "labels"]),
                "customresourcedefinitions.apiextensions.k8s.io" => add(&["metadata"]),
                _ => {}
            }
        }
        ("ephemeralcontainers" | "resize", "pods") => {}
        _ if resource.status => add(&["status"]),
        _ => {}
    }
    fields
}

/// Notes in `new` who manages its fields, after a create, an update or a patch by `writer`. `old` is what was stored, or
/// an object without content.
pub(crate) fn track(kind: &KindType, resource: &Resource, old: &Object, new: &mut Object, writer: Writer<'_>) {
    let stated = new.meta_mut().remove("managedFields");
    let mut managers = current_managers(old.meta("managedFields"), stated, writer.subresource);
    // What was never tracked stays so, until it is applied for the first time.
    if managers.0.is_empty() && !old.uid().is_empty() {
        return;
    }
    if update(kind, resource, old, new, &mut managers, writer).is_ok()
        && let Some(entries) = managers.write()
    {
        new.set_meta("managedFields", entries);
    }
}

/// The managers before a write: those that the client states, if it states any, or else those that are stored.
fn current_managers(known: Option<&Value>, stated: Option<Value>, subresource: &str) -> Managers {
    let stored = || Managers::read(known.cloned()).unwrap_or_default();
    if !subresource.is_empty() && stated.as_ref() != known {
        return stored();
    }
    if Managers::is_reset(stated.as_ref()) {
        return Managers::default();
    }
    Managers::read(stated).filter(|managers| !managers.0.is_empty()).unwrap_or_else(stored)
}

/// Whether two versions of an object differ in nothing but the times at which their fields came to be managed.
pub(crate) fn differ_in_times_only(new: &Object, old: &Object) -> bool {
    let [after, before] = [new, old].map(|object| object.iter().filter(|(name, _)| *name != "metadata"));
    let [after_meta, before_meta] = [new, old].map(|object| {
        let meta = object.get("metadata").and_then(Value::as_object).into_iter().flatten();
        meta.filter(|(name, _)| *name != "managedFields")
    });
    after_meta.eq(before_meta) && after.eq(before) && {
        let entries = |object| Meta::meta(object, "managedFields").and_then(Value::as_array).map(Vec::as_slice);
        let (after, before) = (entries(new).unwrap_or_default(), entries(old).unwrap_or_default());
        after.len() == before.len() && after.iter().zip(before).all(|(one, other)| same_but_for_time(one, other))
    }
}

fn same_but_for_time(one: &Value, other: &Value) -> bool {
    let [one, other] = [one, other].map(|entry| {
        let fields = entry.as_object().into_iter().flatten();
        fields.filter(|(name, _)| *name != "time")
    });
    one.eq(other)
}

/// An object of a kind without content, from which on a create is tracked.
pub(crate) fn empty_object(resource: &Resource, version: &str) -> Object {
    let mut empty = resource.shape_in(version).map(|shape| shape.empty()).unwrap_or_default();
    empty.insert("apiVersion".into(), json!(resource.api_version(version)));
    empty.insert("kind".into(), json!(resource.id.kind));
    empty
}

/// Gives the fields that differ to the writer, and takes them from everybody else.
fn update(
    kind: &KindType,
    resource: &Resource,
    old: &Object,
    new: &Object,
    managers: &mut Managers,
    writer: Writer<'_>,
) -> Result<(), String> {
    let taken = Taken::between(kind, resource, old, new, managers, writer)?;
    take_from_others(resource, managers, None, &taken);

    let own = taken.set.difference(&NOT_MANAGED);
    if !own.is_empty() {
        let id = ManagerId::new(writer.name, false, writer.version, writer.subresource);
        let fields = match managers.take_fields(&id) {
            Some(known) => known.union(&own),
            None => own,
        };
        managers.put(Manager { id, version: writer.version.into(), time: Some(writer.time.into()), fields });
    }
    managers.cap();
    Ok(())
}

/// Takes fields from all managers but one, and forgets those that manage nothing any more or that manage in terms of a
/// version that is not served.
fn take_from_others(resource: &Resource, managers: &mut Managers, except: Option<&ManagerId>, taken: &Taken) {
    managers.0.retain_mut(|manager| {
        if Some(&manager.id) == except {
            return true;
        }
        let version = manager.version.rsplit('/').next().unwrap_or_default();
        let fields = std::mem::take(&mut manager.fields);
        let (set, removed) = taken.of(manager);
        manager.fields = fields.difference(set).difference(removed);
        resource.serves(version) && !manager.fields.is_empty()
    });
}
