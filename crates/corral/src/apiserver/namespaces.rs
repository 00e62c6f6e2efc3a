//! Namespaces: what may be created in one, and how one ends.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    object::{Meta, Object, at, child, moment, take_from, text},
    resources::{Resource, ResourceId, Rules},
    status::{Answer, FieldError, cause, forbidden, not_found},
    store::{Cause, Store},
    stored::Stored,
};

/// The namespaces that every cluster has.
pub(crate) const INITIAL: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];

/// The finalizer in the spec, which the namespace controller removes once the namespace is empty.
const KUBERNETES: &str = "kubernetes";
/// The place of the phase among the selectable fields.
const PHASE: usize = 0;
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub(crate) fn id() -> ResourceId {
    ResourceId::new("", "namespaces", "Namespace")
}

/// Refuses to create something in a namespace that does not exist or is on its way out.
pub(crate) fn check_accepts_objects(store: &Store, resource: &Resource, namespace: &str, name: &str) -> Answer<()> {
    let Some(found) = store.get(&id(), namespace) else {
        return Err(not_found(&id(), namespace));
    };
    if found.fields.nth(PHASE) == "Terminating" {
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let ending = format!("namespace {namespace} is being terminated");
        let causes = vec![cause("NamespaceTerminating", &ending, "metadata.namespace")];
        return Err(forbidden(&resource.id, name, &why, causes));
    }
    Ok(())
}

/// Refuses to delete what no cluster can do without.
pub(crate) fn check_mortal(name: &str) -> Answer<()> {
    match IMMORTAL.contains(&name) {
        true => Err(forbidden(&id(), name, "this namespace may not be deleted", vec![])),
        false => Ok(()),
    }
}

/// Starts the end of a namespace, which then stays until a controller has emptied and finalized it. None if it may go
/// at once.
pub(crate) fn terminate(
    store: &mut Store,
    by: &Cause<'_>,
    current: &Arc<Stored>,
    mut object: Object,
) -> Answer<Option<Arc<Stored>>> {
    if !object.is_deleting() {
        object.set_meta("deletionTimestamp", moment(by.at));
        child(&mut object, "status").insert("phase".into(), json!("Terminating"));
        let name = object.name().to_string();
        return Ok(Some(store.put(by, &id(), &name, object)?));
    }
    Ok(is_held(&object).then(|| current.clone()))
}

/// Whether the spec keeps a namespace that was deleted.
fn is_held(object: &Object) -> bool {
    at(object, &["spec", "finalizers"]).and_then(Value::as_array).is_some_and(|held| !held.is_empty())
}

/// The part through which a namespace controller says that it is done.
pub(crate) const FINALIZE: &str = "finalize";

pub(crate) struct NamespaceRules;

impl Rules for NamespaceRules {
    fn fill_defaults(&self, _version: &str, object: &mut Object) {
        let name = object.name().to_string();
        if !name.is_empty() {
            child(object.meta_mut(), "labels").insert(NAME_LABEL.into(), json!(name));
        }
    }

    fn prepare_create(&self, object: &mut Object, _at: Timestamp) {
        self.fill_defaults("v1", object);
        object.insert("status".into(), json!({ "phase": "Active" }));
        let spec = child(object, "spec");
        let finalizers = spec.entry("finalizers").or_insert_with(|| json!([]));
        if let Value::Array(finalizers) = finalizers
            && !finalizers.iter().any(|name| name == KUBERNETES)
        {
            finalizers.push(json!(KUBERNETES));
        }
    }

    fn prepare_update(&self, new: &mut Object, old: &Object) {
        take_from(new, "spec", old);
    }

    /// Only here the finalizers of the spec change.
    fn prepare_part(&self, _part: &str, new: &mut Object, old: &Object) {
        take_from(new, "status", old);
    }

    fn validate_status(&self, new: &Object, _old: &Object, errors: &mut Vec<FieldError>) {
        let phase = text(new, &["status", "phase"]);
        let why = match (new.is_deleting(), phase) {
            (false, "Active") | (true, "Terminating") | (_, "") => return,
            (false, _) => "may only be 'Active' if `deletionTimestamp` is empty",
            (true, _) => "may only be 'Terminating' if `deletionTimestamp` is not empty",
        };
        errors.push(FieldError::invalid("status.Phase", &json!(phase), why));
    }

    fn is_held(&self, object: &Object) -> bool {
        is_held(object)
    }

    fn selectable(&self) -> &[&'static str] {
        &["status.phase"]
    }
}
