//! What is checked in the metadata of every object.

use serde_json::{Value, json};

use super::{
    names,
    object::{Meta, Object},
    resources::{Naming, Resource},
    status::FieldError,
    verbs::update::Part,
};

/// All annotations of an object together may have this many bytes.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];
const IMMUTABLE: &str = "field is immutable";

/// What is looked at in an update, after what all kinds have in common. The original lists what it finds in this order,
/// and some of it more than once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Look {
    /// What changed in the metadata.
    MetaChange,
    /// The metadata as that of a new object.
    Meta,
    /// The object as a new one.
    Whole,
    /// What changed in the object.
    Change,
}

/// In which order updates of a kind are looked at.
pub(crate) fn looks(resource: &Resource, part: Part) -> &'static [Look] {
    use Look::{Change, Meta, MetaChange, Whole};
    match (resource.id.group.as_str(), resource.id.plural.as_str()) {
        ("policy", "poddisruptionbudgets") => &[Whole, Change],
        _ if part == Part::Status => &[MetaChange, Whole, Change],
        ("", "configmaps" | "secrets") => &[MetaChange, Change, Meta, Whole],
        ("", "pods" | "serviceaccounts") => &[MetaChange, Meta, Whole, Change],
        ("", "namespaces" | "nodes" | "persistentvolumes" | "replicationcontrollers")
        | ("batch", "jobs")
        | ("networking.k8s.io", "networkpolicies")
        | ("storage.k8s.io", "storageclasses") => &[Meta, Whole, MetaChange, Change],
        ("", "persistentvolumeclaims") => &[Meta, Whole, MetaChange, Meta, Whole, Change],
        ("rbac.authorization.k8s.io", _) => &[Meta, Whole, Meta, Whole, MetaChange, Change],
        _ => &[MetaChange, Whole, Change],
    }
}

/// Whether the metadata of a kind is looked at only when nothing else is wrong.
pub(crate) fn comes_last(resource: &Resource) -> bool {
    !looks(resource, Part::Main).contains(&Look::MetaChange)
}

/// What is wrong with the metadata of an object; labels and annotations that it had before are in order.
pub(crate) fn validate(resource: &Resource, object: &Object, old: Option<&Object>, errors: &mut Vec<FieldError>) {
    let naming = match resource.naming {
        Naming::Subdomain => names::subdomain,
        Naming::Label => names::label,
        Naming::ServiceLabel => names::service_label,
        Naming::PathSegment => names::path_segment,
    };
    let (name, prefix) = (object.name(), object.meta_text("generateName"));
    // Five letters follow, so a dash at the end is as good as one.
    let masked = prefix.strip_suffix('-').map(|start| format!("{start}a"));
    let prefix_errors = if prefix.is_empty() { vec![] } else { naming(masked.as_deref().unwrap_or(prefix)) };
    errors.extend(prefix_errors.iter().map(|why| FieldError::invalid("metadata.generateName", &json!(prefix), why)));
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        errors.extend(naming(name).iter().map(|why| FieldError::invalid("metadata.name", &json!(name), why)));
    }
    validate_marks(object, old, errors);
    validate_kept_by(resource, object, errors);
}

/// What is wrong with everything in the metadata but names.
fn validate_marks(object: &Object, old: Option<&Object>, errors: &mut Vec<FieldError>) {
    validate_own_labels(object, old, errors);
    validate_owners(object, errors);
    validate_finalizers(object, errors);
}

/// The oldest groups share a check that the others do not have.
fn validate_kept_by(resource: &Resource, object: &Object, errors: &mut Vec<FieldError>) {
    if resource.shape.is_none() || !matches!(resource.id.group.as_str(), "" | "apps" | "batch") {
        return;
    }
    for (place, finalizer) in object.finalizers().iter().enumerate() {
        if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(finalizer) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            let field = format!("metadata.finalizers[{place}]");
            errors.push(FieldError::invalid(field, &json!(finalizer), why));
        }
    }
}

fn validate_own_labels(object: &Object, old: Option<&Object>, errors: &mut Vec<FieldError>) {
    if let Some(metadata) = object.get("metadata").and_then(Value::as_object) {
        let before = old.and_then(|old| old.get("metadata")).and_then(Value::as_object);
        validate_changed_labels(metadata, before, "metadata", errors);
    }
}

/// What is wrong with labels and annotations, in an object or in a template of one that stands at `place`.
pub(crate) fn validate_labels(metadata: &Object, place: &str, errors: &mut Vec<FieldError>) {
    validate_changed_labels(metadata, None, place, errors);
}

fn validate_changed_labels(metadata: &Object, before: Option<&Object>, place: &str, errors: &mut Vec<FieldError>) {
    let is_new = |field: &str, key: &str, value: &Value| {
        before.is_none_or(|before| before.get(field).and_then(|marks| marks.get(key)) != Some(value))
    };
    let unchanged = |field: &str| before.is_some_and(|before| before.get(field) == metadata.get(field));
    let labels = (!unchanged("labels")).then(|| entries(metadata, "labels"));
    for (key, value) in labels.into_iter().flatten().filter(|(key, value)| is_new("labels", key, value)) {
        let wrong = |text: &str, why: &String| FieldError::invalid(format!("{place}.labels"), &json!(text), why);
        errors.extend(names::qualified(key).iter().map(|why| wrong(key, why)));
        let value = value.as_str().unwrap_or_default();
        errors.extend(names::label_value(value).iter().map(|why| wrong(value, why)));
    }
    let mut size = 0;
    for (key, value) in entries(metadata, "annotations") {
        size += key.len() + value.as_str().unwrap_or_default().len();
        let wrong = |why: &String| FieldError::invalid(format!("{place}.annotations"), &json!(key), why);
        if is_new("annotations", key, value) && !names::qualified(key).is_empty() {
            errors.extend(names::qualified(&key.to_lowercase()).iter().map(wrong));
        }
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(FieldError::too_long(format!("{place}.annotations"), ANNOTATIONS_LIMIT as u64));
    }
}

fn entries<'a>(metadata: &'a Object, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    metadata.get(name).and_then(Value::as_object).into_iter().flatten()
}

fn validate_owners(object: &Object, errors: &mut Vec<FieldError>) {
    let owners = object.meta("ownerReferences").and_then(Value::as_array);
    let mut controller: Option<String> = None;
    for owner in owners.into_iter().flatten() {
        let text = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default();
        if text("apiVersion").is_empty() {
            let field = "metadata.ownerReferences.apiVersion";
            errors.push(FieldError::invalid(field, &json!(""), "version must not be empty"));
        }
        for name in ["kind", "name", "uid"] {
            if text(name).is_empty() {
                let field = format!("metadata.ownerReferences.{name}");
                errors.push(FieldError::invalid(field, &json!(""), "must not be empty"));
            }
        }
        if (text("apiVersion"), text("kind")) == ("v1", "Event") {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid_as("metadata.ownerReferences", &shown_owner(owner), why));
        }
        if owner.get("controller").and_then(Value::as_bool) == Some(true) {
            let this = format!("{}/{}", text("kind"), text("name"));
            if let Some(first) = &controller {
                let why = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                );
                let all: Vec<_> = owners.into_iter().flatten().map(shown_owner).collect();
                errors.push(FieldError::invalid_as("metadata.ownerReferences", &format!("[{}]", all.join(",")), &why));
            }
            controller.get_or_insert(this);
        }
    }
}

/// In the order in which the original has its fields.
fn shown_owner(owner: &Value) -> String {
    let names = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let stated = names.iter().filter_map(|name| Some(format!("{name:?}:{}", owner.get(name)?)));
    format!("{{{}}}", stated.collect::<Vec<_>>().join(","))
}

fn validate_finalizers(object: &Object, errors: &mut Vec<FieldError>) {
    let finalizers = object.finalizers();
    for finalizer in &finalizers {
        let wrong = |why: &String| FieldError::invalid("metadata.finalizers", &json!(finalizer), why);
        errors.extend(names::qualified(finalizer).iter().map(wrong));
    }
    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid("metadata.finalizers", &json!(finalizers), why));
    }
}

/// What is wrong with the metadata of an update of any kind.
pub(crate) fn validate_update(new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
    validate_marks(new, Some(old), errors);
    validate_changes(new, old, errors);
}

/// What a kind itself finds wrong with a change of metadata.
pub(crate) fn validate_change(resource: &Resource, new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
    validate_changes(new, old, errors);
    validate_kept_by(resource, new, errors);
}

fn validate_changes(new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
    if old.is_deleting() {
        let before = old.finalizers();
        let added: Vec<_> = new.finalizers().into_iter().filter(|name| !before.contains(name)).collect();
        if !added.is_empty() {
            let listed: Vec<_> = added.iter().map(|name| format!("{name:?}")).collect();
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                listed.join(", ")
            );
            errors.push(FieldError::forbidden("metadata.finalizers", &why));
        }
    }
    for name in ["name", "namespace", "uid"] {
        if new.meta_text(name) != old.meta_text(name) {
            let field = format!("metadata.{name}");
            errors.push(FieldError::invalid(field, &json!(new.meta_text(name)), IMMUTABLE));
        }
    }
    // What is being deleted stays so; nothing else is deleted by saying that it is.
    if !old.is_deleting() {
        for name in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
            if let Some(stated) = new.meta(name) {
                errors.push(FieldError::invalid(format!("metadata.{name}"), stated, IMMUTABLE));
            }
        }
    }
    validate_own_labels(new, Some(old), errors);
    validate_owners(new, errors);
}
