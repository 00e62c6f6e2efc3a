//! What can be done to objects. A verb that writes has three steps, which `write` takes: it drafts, settles and commits.

use std::sync::Arc;

use kube::core::Status;
use serde_json::{Value, json};

use super::{
    builtin::named::RECORDED,
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
    pub fn check_identity(&self, object: &mut Object) -> Answer<()> {
        self.check_kind(object)?;
        self.check_namespace(object)
    }

    pub fn check_kind(&self, object: &mut Object) -> Answer<()> {
        let (expected, kind) = (self.resource.api_version(&self.version), &self.resource.id.kind);
        if self.resource.shape.is_some() {
            fill(object, "apiVersion", expected.clone());
            fill(object, "kind", kind.clone());
        }
        let (found_version, found_kind) = (text(object, &["apiVersion"]), text(object, &["kind"]));
        if (found_version, found_kind) != (expected.as_str(), kind.as_str()) {
            return Err(self.other_kind(object, found_version, found_kind));
        }
        Ok(())
    }

    /// Why an object that says that it is something else cannot be one of this built-in kind.
    pub fn no_conversion(&self, object: &Object) -> Option<String> {
        let id = &self.resource.id;
        let (api_version, kind) = (text(object, &["apiVersion"]), text(object, &["kind"]));
        let expected = (self.resource.api_version(&self.version), &id.kind);
        let as_stated = |stated: &str, own: &str| stated.is_empty() || stated == own;
        if as_stated(api_version, &expected.0) && as_stated(kind, expected.1) {
            return None;
        }
        let version = api_version.rsplit('/').next().unwrap_or_default();
        Some(match RECORDED.has_kind(api_version, kind) {
            true => {
                let package = id.group.split('.').next().filter(|name| !name.is_empty()).unwrap_or("core");
                format!("converting ({version}.{kind}) to ({package}.{}): unknown conversion", id.kind)
            }
            false => format!(
                "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:110\""
            ),
        })
    }

    pub fn check_namespace(&self, object: &mut Object) -> Answer<()> {
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
        let is_other_version = kind == id.kind && self.resource.version_of(api_version).is_some();
        if self.resource.shape.is_some() && !is_other_version {
            let (own, why) = (&id.kind, self.no_conversion(object).unwrap_or_default());
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

    /// Deals with fields that the kind does not know, and with what else was found to be odd in the body, as the client
    /// wants it: warns of them, or refuses them.
    pub fn check_fields(&self, write: &Write<'_>, object: &Object, odd: &[String]) -> Result<(), String> {
        if write.options.validation == FieldValidation::Ignore {
            return Ok(());
        }
        let unknown = match self.states_other_version(object) {
            true => object
                .keys()
                .filter(|name| !["apiVersion", "kind", "metadata"].contains(&name.as_str()))
                .cloned()
                .collect(),
            false => self.resource.unknown_fields(&self.version, object),
        };
        let unknown = unknown.iter().map(|path| format!("unknown field {path:?}"));
        let named: Vec<_> = odd.iter().cloned().chain(unknown).collect();
        if named.is_empty() {
            return Ok(());
        }
        if write.options.validation == FieldValidation::Strict {
            return Err(format!("strict decoding error: {}", named.join(", ")));
        }
        named.into_iter().for_each(|warning| write.warn(warning));
        Ok(())
    }

    /// Of a version of a custom kind that is not the one that was asked for, no field is known.
    fn states_other_version(&self, object: &Object) -> bool {
        let stated = text(object, &["apiVersion"]);
        self.resource.shape.is_none() && !stated.is_empty() && stated != self.resource.api_version(&self.version)
    }

    /// Puts an object that is kept into the form in which this version shows it.
    pub fn show(&self, object: &mut Object) {
        if let Some(form) = self.resource.form(&self.version) {
            (form.show)(object);
        }
    }

    /// Puts an object into the form in which it is kept.
    pub fn keep(&self, object: &mut Object) {
        if let Some(form) = self.resource.form(&self.version) {
            (form.keep)(object);
        }
    }

    pub fn unrecognised(&self, why: &str) -> Box<Status> {
        let kind = &self.resource.id.kind;
        bad_request(format!("{kind} in version {:?} cannot be handled as a {kind}: {why}", self.version))
    }

    /// Drops what the kind does not know, and refuses what has a wrong type.
    pub fn conform(&self, object: &mut Object) -> Answer<()> {
        self.resource.conform(&self.version, object).map_err(|why| self.unrecognised(&why))
    }

    /// Drops what nobody keeps any more, and fills in defaults.
    fn complete(&self, object: &mut Object) {
        drop_empty_metadata(object);
        self.resource.rules.fill_defaults(&self.version, object);
        if let Some(shape) = self.resource.shape_in(&self.version) {
            shape.complete(object);
        }
    }

    /// The same for an object of which nothing but some fields has changed since it was stored.
    fn complete_fields<'a>(&self, names: impl Iterator<Item = &'a String>, object: &mut Object) {
        drop_empty_metadata(object);
        self.resource.rules.fill_defaults(&self.version, object);
        if let Some(shape) = self.resource.shape_in(&self.version) {
            shape.complete_fields(names, object);
        }
    }

    /// Whether objects look as they are stored, so that what a write leaves alone needs no look.
    fn is_kept_so(&self) -> bool {
        self.resource.shape.is_some() && self.resource.form(&self.version).is_none()
    }
}

fn drop_empty_metadata(object: &mut Object) {
    let meta = object.meta_mut();
    meta.remove("selfLink");
    for empty in ["labels", "annotations", "finalizers", "ownerReferences"] {
        if meta.get(empty).is_some_and(is_empty) {
            meta.remove(empty);
        }
    }
}

fn is_empty(value: &Value) -> bool {
    value.is_null()
        || value.as_object().is_some_and(|object| object.is_empty())
        || value.as_array().is_some_and(|list| list.is_empty())
}
