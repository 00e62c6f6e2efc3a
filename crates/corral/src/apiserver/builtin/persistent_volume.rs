//! PersistentVolumes and the claims to them.

use drover_api::quantity;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    selector,
    values::{IMMUTABLE, check_known, check_subdomain},
};
use crate::apiserver::{
    object::{Meta, Object, at, child, fill, moment, text},
    resources::{ResourceId, Rules},
    status::{Answer, FieldError},
    store::Store,
};

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];
/// What in the spec of a volume is not where its data is.
const NO_SOURCE: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];
const IS_DEFAULT: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

pub(super) struct VolumeRules;

impl Rules for VolumeRules {
    fn fill_defaults(&self, _version: &str, object: &mut Object) {
        let spec = child(object, "spec");
        fill(spec, "persistentVolumeReclaimPolicy", "Retain");
        fill(spec, "volumeMode", "Filesystem");
        if let Some(Value::Object(path)) = spec.get_mut("hostPath") {
            fill(path, "type", "");
        }
        fill(child(object, "status"), "phase", "Pending");
    }

    fn prepare_create(&self, object: &mut Object, now: Timestamp) {
        object.insert("status".into(), json!({ "phase": "Pending", "lastPhaseTransitionTime": moment(now) }));
    }

    fn validate(&self, _version: &str, object: &Object, errors: &mut Vec<FieldError>) {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let modes = spec["accessModes"].as_array().map(Vec::as_slice).unwrap_or_default();
        if modes.is_empty() {
            errors.push(FieldError::required("spec.accessModes", ""));
        }
        check_access_modes(modes, errors);
        check_capacity(&spec["capacity"], errors);
        let policies = ["Delete", "Recycle", "Retain"];
        let policy = &spec["persistentVolumeReclaimPolicy"];
        check_known("spec.persistentVolumeReclaimPolicy", policy, &policies, errors);
        let sources: Vec<_> = sources(spec).collect();
        match sources.as_slice() {
            [] => errors.push(FieldError::required("spec", "must specify a volume type")),
            [_, others @ ..] => errors.extend(others.iter().map(|(name, _)| {
                FieldError::forbidden(format!("spec.{name}"), "may not specify more than 1 volume type")
            })),
        }
        if !spec["local"].is_null() && spec["nodeAffinity"].is_null() {
            errors.push(FieldError::required("spec.nodeAffinity", "Local volume requires node affinity"));
        }
        if let Some(class) = spec["storageClassName"].as_str().filter(|class| !class.is_empty()) {
            check_subdomain("spec.storageClassName", class, errors);
        }
        check_known("spec.volumeMode", &spec["volumeMode"], &VOLUME_MODES, errors);
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
        let [before, after] = [old, new].map(|object| object.get("spec").cloned().unwrap_or_default());
        if !sources(&before).eq(sources(&after)) {
            let why = "spec.persistentvolumesource is immutable after creation";
            errors.push(FieldError::forbidden("spec.persistentvolumesource", why));
        }
        if before["volumeMode"] != after["volumeMode"] {
            errors.push(FieldError::invalid("volumeMode", &after["volumeMode"], IMMUTABLE));
        }
        if !before["nodeAffinity"].is_null() && before["nodeAffinity"] != after["nodeAffinity"] {
            errors.push(FieldError::invalid("nodeAffinity", &after["nodeAffinity"], IMMUTABLE));
        }
    }
}

/// Where the data of a volume is; one, in a volume that is well formed.
fn sources(spec: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let fields = spec.as_object().into_iter().flatten();
    fields.filter(|(name, value)| !NO_SOURCE.contains(&name.as_str()) && !value.is_null())
}

fn check_capacity(capacity: &Value, errors: &mut Vec<FieldError>) {
    let amounts = capacity.as_object().cloned().unwrap_or_default();
    if amounts.is_empty() {
        errors.push(FieldError::required("spec.capacity", ""));
    }
    if amounts.len() != 1 || !amounts.contains_key("storage") {
        errors.push(FieldError::unsupported("spec.capacity", capacity, &["storage".into()]));
    }
    for (name, amount) in &amounts {
        check_positive(&format!("spec.capacity[{name}]"), amount, errors);
    }
}

fn check_positive(field: &str, amount: &Value, errors: &mut Vec<FieldError>) {
    let text = amount.as_str().unwrap_or_default();
    if quantity::compare(text, "0").is_some_and(|order| order.is_le()) {
        errors.push(FieldError::invalid(field, amount, "must be greater than zero"));
    }
}

fn check_access_modes(modes: &[Value], errors: &mut Vec<FieldError>) {
    for mode in modes {
        check_known("spec.accessModes", mode, &ACCESS_MODES, errors);
    }
    let exclusive = |mode: &&Value| **mode == "ReadWriteOncePod";
    let known = |mode: &&Value| ACCESS_MODES.iter().any(|known| **mode == *known);
    if modes.iter().any(|mode| exclusive(&mode)) && modes.iter().any(|mode| known(&mode) && !exclusive(&mode)) {
        let why = "may not use ReadWriteOncePod with other access modes";
        errors.push(FieldError::forbidden("spec.accessModes", why));
    }
}

/// What every claim has, in a template of one, too.
pub(super) fn fill_claim(claim: &mut Object) {
    fill(child(claim, "spec"), "volumeMode", "Filesystem");
    fill(child(claim, "status"), "phase", "Pending");
}

pub(super) struct ClaimRules;

impl Rules for ClaimRules {
    fn fill_defaults(&self, _version: &str, object: &mut Object) {
        fill_claim(object);
    }

    fn prepare_create(&self, object: &mut Object, _at: Timestamp) {
        object.insert("status".into(), json!({ "phase": "Pending" }));
    }

    /// A claim that names no class gets the default one.
    fn admit(&self, store: &Store, object: &mut Object) -> Answer<()> {
        let old_form = object.meta("annotations").and_then(|map| map.get("volume.beta.kubernetes.io/storage-class"));
        if at(object, &["spec", "storageClassName"]).is_none()
            && old_form.is_none()
            && let Some(class) = default_class(store)
        {
            child(object, "spec").insert("storageClassName".into(), json!(class));
        }
        Ok(())
    }

    fn validate(&self, _version: &str, object: &Object, errors: &mut Vec<FieldError>) {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let modes = spec["accessModes"].as_array().map(Vec::as_slice).unwrap_or_default();
        if modes.is_empty() {
            errors.push(FieldError::required("spec.accessModes", "at least 1 access mode is required"));
        }
        if !spec["selector"].is_null() {
            selector::check("spec.selector", &spec["selector"], errors);
        }
        check_access_modes(modes, errors);
        match &spec["resources"]["requests"]["storage"] {
            Value::Null => errors.push(FieldError::required("spec.resources[storage]", "")),
            amount => check_positive("spec.resources[storage]", amount, errors),
        }
        if let Some(class) = spec["storageClassName"].as_str().filter(|class| !class.is_empty()) {
            check_subdomain("spec.storageClassName", class, errors);
        }
        check_known("spec.volumeMode", &spec["volumeMode"], &VOLUME_MODES, errors);
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
        let [before, mut after] = [old, new].map(|object| object.get("spec").cloned().unwrap_or_default());
        let request = |spec: &Value| spec["resources"]["requests"]["storage"].clone();
        let (was, wanted) = (request(&before), request(&after));
        // A claim is bound once, and one that is bound may grow.
        if before["volumeName"].is_null()
            && let Some(spec) = after.as_object_mut()
        {
            spec.remove("volumeName");
        }
        if text(new, &["status", "phase"]) == "Bound" {
            after["resources"]["requests"]["storage"] = was.clone();
        }
        if after != before {
            let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for \
                       bound claims";
            errors.push(FieldError::forbidden("spec", why));
        }
        let smaller = |left: &Value, right: &Value| {
            quantity::compare(left.as_str().unwrap_or("0"), right.as_str().unwrap_or("0"))
        };
        let has = at(old, &["status", "capacity", "storage"]).cloned().unwrap_or_default();
        if smaller(&wanted, &was).is_some_and(|order| order.is_lt())
            && smaller(&wanted, &has).is_some_and(|order| order.is_le())
        {
            let why = "field can not be less than status.capacity";
            errors.push(FieldError::forbidden("spec.resources.requests.storage", why));
        }
        if before["volumeMode"] != after["volumeMode"] {
            errors.push(FieldError::invalid("volumeMode", &after["volumeMode"], IMMUTABLE));
        }
    }
}

/// The newest class that is marked as the default one.
fn default_class(store: &Store) -> Option<String> {
    let id = ResourceId::new("storage.k8s.io", "storageclasses", "StorageClass");
    let classes = store.find(&id.group, &id.plural)?.objects.values().filter_map(|stored| stored.object().ok());
    let is_default = |class: &Object| {
        let annotations = class.meta("annotations");
        annotations.is_some_and(|map| IS_DEFAULT.iter().any(|key| map[*key] == "true"))
    };
    let newest = classes.filter(is_default).max_by_key(|class| class.meta_text("creationTimestamp").to_string());
    newest.map(|class| class.name().to_string())
}
