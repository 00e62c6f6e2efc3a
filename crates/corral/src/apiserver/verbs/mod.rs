//! What can be done to objects. A verb that writes has three steps, which `write` takes: it drafts, settles and commits.

use std::sync::Arc;

use kube::core::Status;
use serde_json::{Value, json};

use super::{
    object::{Meta, Object, fill, text},
    options::FieldValidation,
    resources::Resource,
    status::{Answer, FieldError, bad_request, invalid},
    store::key,
    write::Write,
};

pub(crate) mod apply;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod patch;
pub(crate) mod read;
mod strategic;
pub(crate) mod update;

/// The object, or the place for one, that a request is about.
#[derive(Clone)]
pub(crate) struct Target {
    pub resource: Arc<Resource>,
    /// The served version through which it is seen.
    pub version: String,
    pub namespace: String,
    pub name: String,
}

impl Target {
    pub fn key(&self) -> String {
        key(&self.namespace, &self.name)
    }

    /// Refuses an object that says it is something else than the URL says.
    fn check_identity(&self, object: &mut Object) -> Answer<()> {
        let (expected, kind) = (self.resource.api_version(&self.version), &self.resource.id.kind);
        if self.resource.shape.is_some() {
            fill(object, "apiVersion", expected.clone());
            fill(object, "kind", kind.clone());
        }
        let (found_version, found_kind) = (text(object, &["apiVersion"]), text(object, &["kind"]));
        if (found_version, found_kind) != (expected.as_str(), kind.as_str()) {
            return Err(self.other_kind(object, found_version, found_kind));
        }
        if !self.resource.namespaced {
            object.meta_mut().remove("namespace");
        } else if object.namespace().is_empty() {
            object.set_meta("namespace", self.namespace.clone());
        } else if object.namespace() != self.namespace {
            return Err(bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        Ok(())
    }

    fn other_kind(&self, object: &Object, api_version: &str, kind: &str) -> Box<Status> {
        let id = &self.resource.id;
        let expected = self.resource.api_version(&self.version);
        let version = api_version.rsplit('/').next().unwrap_or_default();
        if self.resource.shape.is_some() {
            let why = match api_version == expected {
                true => {
                    let package = id.group.split('.').next().filter(|name| !name.is_empty()).unwrap_or("core");
                    format!("converting ({version}.{kind}) to ({package}.{}): unknown conversion", id.kind)
                }
                false => format!(
                    "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:110\""
                ),
            };
            let own = &id.kind;
            return bad_request(format!("{kind} in version {version:?} cannot be handled as a {own}: {why}"));
        }
        if kind.is_empty() {
            return bad_request(format!("Object 'Kind' is missing in '{}'", json!(object)));
        }
        if api_version != expected {
            return bad_request(format!(
                "the API version in the data ({api_version}) does not match the expected API version ({expected})"
            ));
        }
        let error = FieldError::invalid("kind", &json!(kind), &format!("must be {}", id.kind));
        invalid(&id.group, kind, object.name(), &[error])
    }

    /// Deals with fields that the kind does not know, and with those that the body states more than once, as the client
    /// wants it: warns of them, or refuses them.
    pub fn check_fields(&self, write: &Write<'_>, object: &Object, duplicates: &[String]) -> Result<(), String> {
        if write.options.validation == FieldValidation::Ignore {
            return Ok(());
        }
        let unknown = self.resource.unknown_fields(&self.version, object);
        let duplicates = duplicates.iter().map(|path| format!("duplicate field {path:?}"));
        let named: Vec<_> = duplicates.chain(unknown.iter().map(|path| format!("unknown field {path:?}"))).collect();
        if named.is_empty() {
            return Ok(());
        }
        if write.options.validation == FieldValidation::Strict {
            return Err(format!("strict decoding error: {}", named.join(", ")));
        }
        named.into_iter().for_each(|warning| write.warn(warning));
        Ok(())
    }

    pub fn unrecognised(&self, why: &str) -> Box<Status> {
        let kind = &self.resource.id.kind;
        bad_request(format!("{kind} in version {:?} cannot be handled as a {kind}: {why}", self.version))
    }

    /// Drops what the kind does not know, and refuses what has a wrong type.
    fn conform(&self, object: &mut Object) -> Answer<()> {
        self.resource.conform(&self.version, object).map_err(|why| self.unrecognised(&why))
    }

    /// Drops what nobody keeps any more, and fills in defaults.
    fn complete(&self, object: &mut Object) {
        let meta = object.meta_mut();
        meta.remove("selfLink");
        for empty in ["labels", "annotations", "finalizers", "ownerReferences"] {
            if meta.get(empty).is_some_and(is_empty) {
                meta.remove(empty);
            }
        }
        self.resource.rules.fill_defaults(&self.version, object);
        if let Some(shape) = self.resource.shape {
            shape.complete(object);
        }
    }
}

fn is_empty(value: &Value) -> bool {
    value.is_null()
        || value.as_object().is_some_and(|object| object.is_empty())
        || value.as_array().is_some_and(|list| list.is_empty())
}
