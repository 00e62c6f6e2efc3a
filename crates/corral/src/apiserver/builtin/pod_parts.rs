//! The parts through which a pod that runs can be changed: containers to debug it with, and what its containers may use.

use serde_json::{Value, json};

use super::pod::quality_of_service;
use crate::apiserver::{
    object::{Meta, Object, at, child},
    status::FieldError,
};

pub(crate) const EPHEMERAL_CONTAINERS: &str = "ephemeralcontainers";
pub(crate) const RESIZE: &str = "resize";

const LIST: &str = "ephemeralContainers";
/// What a resize may change in a container.
const SIZES: [&str; 2] = ["resources", "resizePolicy"];

pub(super) fn prepare(part: &str, new: &mut Object, old: &Object) {
    let mut kept = old.clone();
    for name in ["managedFields", "resourceVersion", "uid"] {
        kept.keep_meta(name, new);
    }
    match part {
        EPHEMERAL_CONTAINERS => {
            let spec = child(&mut kept, "spec");
            match at(new, &["spec", LIST]) {
                Some(list) => spec.insert(LIST.into(), list.clone()),
                None => spec.remove(LIST),
            };
        }
        _ => ["containers", "initContainers"].into_iter().for_each(|list| take_sizes(list, &mut kept, new)),
    }
    *new = kept;
}

fn take_sizes(list: &str, kept: &mut Object, new: &Object) {
    let Some(Value::Array(wanted)) = at(new, &["spec", list]) else { return };
    let Some(Value::Array(containers)) = child(kept, "spec").get_mut(list) else { return };
    let same = wanted.len() == containers.len()
        && wanted.iter().zip(containers.iter()).all(|(new, old)| new["name"] == old["name"]);
    if !same {
        // The check of the whole refuses it.
        containers.clone_from(wanted);
        return;
    }
    for (container, wanted) in containers.iter_mut().zip(wanted) {
        let Value::Object(container) = container else { continue };
        for name in SIZES {
            match wanted.get(name) {
                Some(value) => container.insert(name.into(), value.clone()),
                None => container.remove(name),
            };
        }
    }
}

pub(super) fn validate(part: &str, new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
    match part {
        EPHEMERAL_CONTAINERS => validate_ephemeral(new, old, errors),
        _ => validate_resize(new, old, errors),
    }
}

fn listed<'a>(pod: &'a Object, list: &str) -> impl Iterator<Item = &'a Value> + Clone {
    at(pod, &["spec", list]).and_then(Value::as_array).into_iter().flatten()
}

/// What was added stays as it is.
fn validate_ephemeral(new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
    for before in listed(old, LIST) {
        let name = before["name"].as_str().unwrap_or_default();
        let why = match listed(new, LIST).find(|container| container["name"] == before["name"]) {
            None => format!("existing ephemeral containers {name:?} may not be removed\n"),
            Some(after) if after != before => format!("existing ephemeral containers {name:?} may not be changed\n"),
            Some(_) => continue,
        };
        errors.push(FieldError::forbidden("spec.ephemeralContainers", &why));
    }
}

fn validate_resize(new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
    let class = quality_of_service(new);
    if class != quality_of_service(old) {
        let why = "Pod QOS Class may not change as a result of resizing";
        errors.push(FieldError::invalid("spec", &json!(class), why));
    }
    for (place, (after, before)) in listed(new, "containers").zip(listed(old, "containers")).enumerate() {
        for (part, what) in [("requests", "resource requests"), ("limits", "resource limits")] {
            let [after, before] = [after, before].map(|container| container["resources"][part].as_object());
            let removed =
                before.into_iter().flatten().any(|(name, _)| !after.is_some_and(|now| now.contains_key(name)));
            if removed {
                let field = format!("spec.containers[{place}].resources.{part}");
                errors.push(FieldError::forbidden(field, &format!("{what} cannot be removed")));
            }
        }
    }
    let fixed = |pod: &Object, list: &str| -> Vec<Value> {
        let mut containers: Vec<Value> = listed(pod, list).cloned().collect();
        for container in &mut containers {
            for part in ["requests", "limits"] {
                if let Some(amounts) = container["resources"].get_mut(part).and_then(Value::as_object_mut) {
                    amounts.retain(|name, _| !matches!(name.as_str(), "cpu" | "memory"));
                }
            }
        }
        containers
    };
    if fixed(new, "containers") != fixed(old, "containers") {
        errors.push(FieldError::forbidden("spec", "only cpu and memory resources are mutable"));
    }
}
