//! The storage classes that an owner wants in the guest: each leads to the one of the same name in the management cluster.
//!
//! They stand beside the add-ons, since they are kept as those are. A class of the name that is there already, whoever made it, stays as it
//! is: its parameters cannot be changed, and volumes may be of it.

use drover_api::marks::ADDON;
use drover_api::tanzu::storage::{DEFAULT, PROVISIONER, SUPERVISOR_CLASS};
use serde_json::{Value, json};

use super::super::distribution::Distribution;
use super::super::{View, text};
use super::{Addon, Source, manifest};
use crate::guest::seen::Collection;

/// What it is called among add-ons.
pub const ID: &str = "storage-classes";

/// None if the owner asks for no classes.
pub fn classes(view: &View<'_>, distribution: &Distribution) -> Option<Addon> {
    let asked = asked(view);
    let default = text(&asked["defaultClass"]);
    let listed = asked["classes"].as_array().into_iter().flatten().map(text);
    let mut names: Vec<&str> = listed.chain([default]).filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return None;
    }
    let is_known = view.global.all(Collection::StorageClasses).next().is_some();
    let is_missing = |name: &&&str| is_known && view.global.get(Collection::StorageClasses, name).is_none();
    let source = match names.iter().find(is_missing) {
        Some(missing) => {
            let field = if *missing == default { "defaultClass" } else { "classes" };
            Source::Broken(format!(
                "spec.settings.storage.{field} names {missing:?}, and there is no StorageClass of that name; \
                 choose of: kubectl get storageclasses; or have it made"
            ))
        }
        None => {
            let made =
                names.iter().map(|name| manifest::shaped(class(name, *name == default), ID, &distribution.label()));
            Source::Objects(made.collect())
        }
    };
    Some(Addon {
        place: ID.to_owned(),
        id: ID.to_owned(),
        name: ID.to_owned(),
        version: distribution.version.clone(),
        source,
    })
}

/// What is asked for.
pub fn asked<'a>(view: &View<'a>) -> &'a Value {
    &view.tkc["spec"]["settings"]["storage"]
}

/// A class that is not ours.
pub fn is_anothers(addon: &Addon, live: &Value) -> bool {
    addon.id == ID && live["metadata"]["labels"][ADDON] != ID
}

fn class(name: &str, is_default: bool) -> Value {
    let mut class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": name },
        "provisioner": PROVISIONER, "parameters": { SUPERVISOR_CLASS: name },
    });
    if is_default {
        class["metadata"]["annotations"] = json!({ DEFAULT: "true" });
    }
    class
}
