//! Change parts of an object.

use json_patch::{AddOperation, PatchOperation};
use serde_json::{Value, json};

use super::{
    Target, strategic,
    update::{Part, check_name, replace},
};
use crate::apiserver::{
    object::Object,
    status::{Answer, FieldError, invalid, not_found, patch_rejected},
    store::Store,
    write::{Draft, Write},
};

/// What is to be changed, in one of the forms in which it can be stated.
#[derive(Clone)]
pub(crate) enum Patch {
    Json(json_patch::Patch),
    Merge(Value),
    /// For built-in kinds.
    Strategic(Object),
}

pub(crate) fn draft(store: &Store, write: &Write<'_>, part: Part, patch: &Patch) -> Answer<Draft> {
    let target = write.target;
    let id = &target.resource.id;
    let Some(current) = store.get(id, &target.key()).cloned() else {
        return Err(not_found(id, &target.name));
    };
    let old = current.object()?;
    let mut new = old.clone();
    new.insert("apiVersion".into(), json!(target.resource.api_version(&target.version)));
    let mut new = apply(target, patch, new)?;
    let known = target.check_fields(write, &new, &[]);
    // Decoded here first, since what a patch makes undecodable is the patch's fault.
    if let Err(why) = known.and_then(|()| target.resource.conform(&target.version, &mut new)) {
        let error = FieldError::invalid("patch", &json!(Value::Object(new).to_string()), &why);
        return Err(invalid("", "", "", &[error]));
    }
    check_name(target, &new)?;
    replace(write, part, current, old, new)
}

fn apply(target: &Target, patch: &Patch, object: Object) -> Answer<Object> {
    let mut value = Value::Object(object);
    match patch {
        Patch::Merge(changes) => json_patch::merge(&mut value, changes),
        Patch::Strategic(changes) => {
            // Every built-in kind has a schema, and only they are patched so.
            if let (Value::Object(object), Some(kind)) = (&mut value, target.resource.kind_type(&target.version)) {
                strategic::merge(kind.place(), object, changes)?;
            }
        }
        Patch::Json(operations) => {
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
