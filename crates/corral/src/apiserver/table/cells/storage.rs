//! Volumes, claims and who provides them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{NONE, UNSET, age, count, flag, is_deleting, list, name, text, text_or, texts};

/// Where the class of a volume stood before it had a field.
const OLD_CLASS: &str = "/metadata/annotations/volume.beta.kubernetes.io~1storage-class";

pub(super) fn volume(object: &Value, now: Timestamp) -> Vec<Value> {
    let claim = object.pointer("/spec/claimRef");
    let claim = claim.map(|claim| format!("{}/{}", text(claim, "/namespace"), text(claim, "/name")));
    vec![
        name(object),
        json!(text_or(object, "/spec/capacity/storage", "0")),
        json!(access_modes(list(object, "/spec/accessModes"))),
        json!(text(object, "/spec/persistentVolumeReclaimPolicy")),
        json!(phase(object)),
        json!(claim.unwrap_or_default()),
        json!(class_name(object)),
        json!(text_or(object, "/spec/volumeAttributesClassName", UNSET)),
        json!(text(object, "/status/reason")),
        age(object, now),
        json!(text_or(object, "/spec/volumeMode", UNSET)),
    ]
}

pub(super) fn claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let volume = text(object, "/spec/volumeName");
    let (capacity, modes) = match volume {
        "" => ("", String::new()),
        _ => (text_or(object, "/status/capacity/storage", "0"), access_modes(list(object, "/status/accessModes"))),
    };
    vec![
        name(object),
        json!(phase(object)),
        json!(volume),
        json!(capacity),
        json!(modes),
        json!(class_name(object)),
        json!(text_or(object, "/spec/volumeAttributesClassName", UNSET)),
        age(object, now),
        json!(text_or(object, "/spec/volumeMode", UNSET)),
    ]
}

fn phase(object: &Value) -> &str {
    if is_deleting(object) { "Terminating" } else { text(object, "/status/phase") }
}

fn class_name(object: &Value) -> &str {
    let old = object.pointer(OLD_CLASS).and_then(Value::as_str);
    old.unwrap_or_else(|| text(object, "/spec/storageClassName"))
}

fn access_modes(modes: &[Value]) -> String {
    let short =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let shown = short.iter().filter(|(mode, _)| modes.iter().any(|found| found == mode));
    shown.map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

pub(super) fn class(object: &Value, now: Timestamp) -> Vec<Value> {
    let annotation = |key: &str| object["metadata"]["annotations"][key] == "true";
    let is_default = annotation("storageclass.kubernetes.io/is-default-class")
        || annotation("storageclass.beta.kubernetes.io/is-default-class");
    let own = text(object, "/metadata/name");
    vec![
        json!(if is_default { format!("{own} (default)") } else { own.into() }),
        json!(text(object, "/provisioner")),
        json!(text_or(object, "/reclaimPolicy", "Delete")),
        json!(text_or(object, "/volumeBindingMode", "Immediate")),
        json!(flag(object, "/allowVolumeExpansion")),
        age(object, now),
    ]
}

pub(super) fn attributes_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(text(object, "/driverName")), age(object, now)]
}

pub(super) fn attachment(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        json!(text(object, "/spec/attacher")),
        json!(text(object, "/spec/source/persistentVolumeName")),
        json!(text(object, "/spec/nodeName")),
        json!(flag(object, "/status/attached")),
        age(object, now),
    ]
}

pub(super) fn node(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(count(object, "/spec/drivers")), age(object, now)]
}

pub(super) fn driver(object: &Value, now: Timestamp) -> Vec<Value> {
    let audiences = object.pointer("/spec/tokenRequests").and_then(Value::as_array);
    let audiences = audiences.map(|requests| texts(requests, "audience").join(","));
    let modes = texts(list(object, "/spec/volumeLifecycleModes"), "").join(",");
    vec![
        name(object),
        json!(object.pointer("/spec/attachRequired").and_then(Value::as_bool).unwrap_or(true)),
        json!(flag(object, "/spec/podInfoOnMount")),
        json!(flag(object, "/spec/storageCapacity")),
        json!(audiences.unwrap_or_else(|| UNSET.into())),
        json!(flag(object, "/spec/requiresRepublish")),
        json!(if modes.is_empty() { NONE } else { &modes }),
        age(object, now),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_shows_its_capacity_only_once_it_has_a_volume() {
        let mut object = json!({
            "metadata": { "name": "a" }, "spec": { "storageClassName": "fast", "volumeMode": "Filesystem" },
            "status": { "phase": "Pending", "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteMany", "ReadWriteOnce"] },
        });
        assert_eq!(claim(&object, Timestamp::UNIX_EPOCH)[1..6], ["Pending", "", "", "", "fast"]);
        object["spec"]["volumeName"] = json!("v");
        assert_eq!(claim(&object, Timestamp::UNIX_EPOCH)[1..6], ["Pending", "v", "1Gi", "RWO,RWX", "fast"]);
    }
}
