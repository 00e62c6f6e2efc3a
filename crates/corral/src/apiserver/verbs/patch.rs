//! Change parts of an object.

use json_patch::{AddOperation, PatchOperation};
use kube::core::Status;
use serde_json::{Value, json};

use super::{
    Target, strategic,
    update::{Part, check_name, replace},
};
use crate::apiserver::{
    gotext::printed,
    object::{Meta, Object, with_some_fields, without_managers},
    status::{Answer, FieldError, invalid, not_found, patch_rejected},
    store::Store,
    write::{Draft, Write},
};

/// What is to be changed, in one of the forms in which it can be stated.
#[derive(Clone)]
pub(crate) enum Patch {
    Json {
        operations: json_patch::Patch,
        /// What else stands in it.
        odd: Vec<String>,
    },
    Merge(Value),
    /// For built-in kinds.
    Strategic(Object),
}

impl Patch {
    /// Whether it may say something of who manages what.
    fn may_touch_managers(&self) -> bool {
        let directs = |fields: &Object| fields.keys().any(|name| name.starts_with('$'));
        let says = |changes: &Object| {
            directs(changes)
                || changes.get("metadata").is_some_and(|metadata| match metadata {
                    Value::Object(metadata) => metadata.contains_key("managedFields") || directs(metadata),
                    _ => true,
                })
        };
        match self {
            Patch::Json { .. } => true,
            Patch::Merge(changes) => changes.as_object().is_none_or(says),
            Patch::Strategic(changes) => says(changes),
        }
    }
}

pub(crate) fn draft(store: &Store, write: &Write<'_>, part: Part, patch: &Patch) -> Answer<Draft> {
    let target = write.target;
    let id = &target.resource.id;
    let Some(current) = store.get(id, &target.key()).cloned() else {
        return Err(not_found(id, &target.name));
    };
    let old = current.shared()?;
    let mut new = if patch.may_touch_managers() { Object::clone(&old) } else { without_managers(&old) };
    new.insert("apiVersion".into(), json!(target.resource.api_version(&target.version)));
    target.show(&mut new);
    let mut new = apply(target, patch, new)?;
    // Decoded here first, since what a patch makes undecodable is the patch's fault.
    let named = named_fields(target, patch);
    if let Err(why) = decode(write, patch, named, &mut new) {
        if !patch.may_touch_managers() {
            new.keep_meta("managedFields", &old);
        }
        return Err(undecodable(patch, new, &why));
    }
    check_name(target, &new)?;
    match named {
        Some(named) => target.complete_fields(named.keys(), &mut new),
        None => target.complete(&mut new),
    }
    replace(write, part, current, old, new)
}

/// Of a built-in kind as it is stored, only the fields that a merge patch names can have come to be anything else, unless it
/// says that the object is another one.
fn named_fields<'a>(target: &Target, patch: &'a Patch) -> Option<&'a Object> {
    let says_what_it_is = |changes: &Object| changes.contains_key("apiVersion") || changes.contains_key("kind");
    match patch {
        Patch::Merge(Value::Object(changes)) if target.is_kept_so() && !says_what_it_is(changes) => Some(changes),
        _ => None,
    }
}

fn decode(write: &Write<'_>, patch: &Patch, named: Option<&Object>, new: &mut Object) -> Result<(), String> {
    match named {
        Some(named) => with_some_fields(new, named.keys(), |changed| decode_whole(write, patch, changed)),
        None => decode_whole(write, patch, new),
    }
}

fn decode_whole(write: &Write<'_>, patch: &Patch, new: &mut Object) -> Result<(), String> {
    let target = write.target;
    if target.resource.shape.is_some()
        && let Some(why) = target.no_conversion(new)
    {
        return Err(why);
    }
    let odd = match patch {
        Patch::Json { odd, .. } => odd.as_slice(),
        Patch::Merge(_) | Patch::Strategic(_) => &[],
    };
    target.check_fields(write, new, odd)?;
    match patch {
        Patch::Strategic(_) => target.resource.restore(&target.version, new),
        Patch::Json { .. } | Patch::Merge(_) => target.resource.conform(&target.version, new),
    }
}

/// What a patch made of an object cannot be read. The original shows it as it lies before it: in the order of its own
/// fields where the patch changed nothing, and sorted where it did.
pub(crate) fn undecodable(patch: &Patch, new: Object, why: &str) -> Box<Status> {
    let shown = match patch {
        Patch::Strategic(changes) => printed(&without_nulls(&Value::Object(changes.clone()))),
        Patch::Merge(Value::Object(changes)) => in_order(&new, !changes.contains_key("metadata")),
        _ => in_order(&new, true),
    };
    invalid("", "", "", &[FieldError::invalid("patch", &json!(shown), why)])
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let stated = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(stated.map(|(name, value)| (name.clone(), without_nulls(value))).collect())
        }
        other => other.clone(),
    }
}

/// As JSON, with the fields of the metadata in the order in which the original has them.
fn in_order(object: &Object, metadata_too: bool) -> String {
    let fields = object.iter().map(|(name, value)| match value {
        Value::Object(metadata) if name == "metadata" && metadata_too => {
            let known = METADATA.iter().filter_map(|name| metadata.get_key_value(*name));
            let others = metadata.iter().filter(|(name, _)| !METADATA.contains(&name.as_str()));
            let fields: Vec<_> = known.chain(others).map(|(name, value)| format!("{}:{value}", json!(name))).collect();
            format!("\"metadata\":{{{}}}", fields.join(","))
        }
        value => format!("{}:{value}", json!(name)),
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

const METADATA: [&str; 14] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
];

pub(crate) fn apply(target: &Target, patch: &Patch, object: Object) -> Answer<Object> {
    let mut value = Value::Object(object);
    match patch {
        Patch::Merge(changes) => json_patch::merge(&mut value, changes),
        Patch::Strategic(changes) => {
            // Every built-in kind has a schema, and only they are patched so.
            if let (Value::Object(object), Some(kind)) = (&mut value, target.resource.kind_type(&target.version)) {
                strategic::merge(kind.place(), object, changes)?;
            }
        }
        Patch::Json { operations, .. } => {
            for operation in operations.iter() {
                let operation = survivable(operation, &value)?;
                json_patch::patch(&mut value, &[operation]).map_err(|_| patch_rejected())?;
            }
        }
    }
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(patch_rejected()),
    }
}

/// An operation as the original takes it: it replaces fields that are not there, and no list may be asked for the
/// last element that it does not have.
fn survivable(operation: &PatchOperation, value: &Value) -> Answer<PatchOperation> {
    match operation {
        PatchOperation::Replace(replace) if value.pointer(replace.path.as_str()).is_none() => {
            let (path, value) = (replace.path.clone(), replace.value.clone());
            Ok(PatchOperation::Add(AddOperation { path, value }))
        }
        PatchOperation::Move(operation) if operation.from.as_str().ends_with("/-") => Err(patch_rejected()),
        operation => Ok(operation.clone()),
    }
}
