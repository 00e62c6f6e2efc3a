//! Change parts of an object.

use json_patch::{AddOperation, PatchOperation};
use serde_json::{Value, json};

use super::{
    Target, strategic,
    update::{Part, Updated, check_name, replace},
};
use crate::apiserver::{
    object::Object,
    status::{Answer, FieldError, bad_request, invalid, not_found, patch_rejected},
    store::{Cause, Store},
};

/// A change, and whether it may bring fields that are not known.
pub(crate) struct Patch {
    pub changes: Changes,
    pub strict: bool,
}

/// What is to be changed, in one of the forms in which it can be stated.
pub(crate) enum Changes {
    Json(json_patch::Patch),
    Merge(Value),
    /// For built-in kinds.
    Strategic(Object),
}

pub(crate) fn patch(
    store: &mut Store,
    cause: &Cause<'_>,
    target: &Target,
    part: Part,
    patch: &Patch,
) -> Answer<Updated> {
    let id = &target.resource.id;
    let Some(current) = store.get(id, &target.key()) else {
        return Err(not_found(id, &target.name));
    };
    let old = current.object()?;
    let mut new = old.clone();
    new.insert("apiVersion".into(), json!(target.resource.api_version(&target.version)));
    let mut new = apply(&patch.changes, new)?;
    let known = if patch.strict { target.unknown_fields(&new) } else { Ok(()) };
    // Decoded here first, since what a patch makes undecodable is the patch's fault.
    if let Err(why) = known.and_then(|()| target.resource.conform(&target.version, &mut new)) {
        let error = FieldError::invalid("patch", &json!(Value::Object(new).to_string()), &why);
        return Err(invalid("", "", "", &[error]));
    }
    check_name(target, &new)?;
    replace(store, cause, target, part, &old, new)
}

fn apply(changes: &Changes, object: Object) -> Answer<Object> {
    let mut value = Value::Object(object);
    match changes {
        Changes::Merge(changes) => json_patch::merge(&mut value, changes),
        Changes::Strategic(changes) => {
            if let Value::Object(object) = &mut value {
                strategic::merge(object, changes).map_err(bad_request)?;
            }
        }
        Changes::Json(operations) => {
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
