//! The volumes of a pod, or of a template of pods.

use serde_json::{Value, json};

use super::values::check_label;
use crate::apiserver::{
    object::{Object, fill},
    status::FieldError,
};

/// Where a volume can come from, in the order in which the original looks.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

pub(super) fn fill_defaults(volume: &mut Object) {
    if volume.keys().all(|name| name == "name") {
        volume.insert("emptyDir".into(), json!({}));
    }
    for (source, name, value) in [
        ("secret", "defaultMode", json!(0o644)),
        ("configMap", "defaultMode", json!(0o644)),
        ("downwardAPI", "defaultMode", json!(0o644)),
        ("projected", "defaultMode", json!(0o644)),
        ("hostPath", "type", json!("")),
    ] {
        if let Some(Value::Object(source)) = volume.get_mut(source) {
            fill(source, name, value);
        }
    }
}

/// Checks the volumes of the spec at `path`, and names those that may be mounted.
pub(super) fn check<'a>(path: &str, spec: &'a Value, errors: &mut Vec<FieldError>) -> Vec<&'a str> {
    let mut good: Vec<&str> = vec![];
    for (index, volume) in spec["volumes"].as_array().into_iter().flatten().enumerate() {
        let place = format!("{path}.volumes[{index}]");
        let before = errors.len();
        check_source(&place, volume, errors);
        let name = volume["name"].as_str().unwrap_or_default();
        match name {
            "" => errors.push(FieldError::required(format!("{place}.name"), "")),
            name => check_label(&format!("{place}.name"), name, errors),
        }
        if good.contains(&name) {
            errors.push(FieldError::duplicate(format!("{place}.name"), &json!(name)));
        }
        if errors.len() == before {
            good.push(name);
        }
    }
    good
}

fn check_source(place: &str, volume: &Value, errors: &mut Vec<FieldError>) {
    let mut stated = SOURCES.iter().filter(|name| volume.get(**name).is_some_and(|source| !source.is_null()));
    let Some(first) = stated.next() else {
        errors.push(FieldError::required(place, "must specify a volume type"));
        return;
    };
    let needed = match *first {
        "hostPath" => "path",
        "secret" => "secretName",
        "configMap" => "name",
        "persistentVolumeClaim" => "claimName",
        "csi" => "driver",
        _ => "",
    };
    if !needed.is_empty() && volume[first][needed].as_str().unwrap_or_default().is_empty() {
        errors.push(FieldError::required(format!("{place}.{first}.{needed}"), ""));
    }
    for other in stated {
        errors.push(FieldError::forbidden(format!("{place}.{other}"), "may not specify more than 1 volume type"));
    }
}
