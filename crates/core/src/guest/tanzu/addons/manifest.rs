//! The manifests of an add-on: read from the annotation of an image, and shaped so that no pod is replaced on a Node whose
//! image has not what the new one needs.
//!
//! The containers of add-ons are on the images of machines alone, those of a distribution on the Nodes of that distribution.
//! So pods of a DaemonSet change with their Nodes, and those of a Deployment go only where the distribution runs, and only when
//! the new one does.

use drover_api::marks::{ADDON, ADDON_DIGEST};
use drover_api::tanzu::DISTRIBUTION_LABEL;
use drover_api::vm_operator::virtual_machine_image::addons::INLINE;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::{text, wanted::short};
use crate::yaml;

/// What an annotation brings.
#[derive(Debug, Clone, PartialEq)]
pub struct Brought {
    pub name: Option<String>,
    pub version: Option<String>,
    pub objects: Vec<Value>,
}

#[derive(Deserialize)]
struct Said {
    name: Option<String>,
    version: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    value: Option<String>,
}

/// Reads an annotation; else what is wrong with it, and where.
pub fn read(said: &str) -> Result<Brought, String> {
    let said: Said = serde_json::from_str(said).map_err(|error| format!("is not the JSON of an add-on: {error}"))?;
    if let Some(kind) = said.kind.filter(|kind| kind != INLINE) {
        return Err(format!("field type is {kind:?}, and has to be {INLINE:?}"));
    }
    let value = said.value.ok_or("has no field value")?;
    let objects = objects(&value).map_err(|flaw| format!("field value{flaw}"))?;
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    Ok(Brought { name: given(said.name), version: given(said.version), objects })
}

/// The objects of YAML documents; else what is wrong with them, to be said after their name.
pub fn objects(text: &str) -> Result<Vec<Value>, String> {
    let documents = yaml::documents(text).map_err(|why| format!(" is not YAML: {why}"))?;
    let mut objects = Vec::new();
    for (number, document) in (1..).zip(documents) {
        let flaw = |what: String| format!(": document {number} {what}");
        for object in unpacked(document) {
            check(&object).map_err(flaw)?;
            if objects.iter().any(|known| is_same(known, &object)) {
                return Err(flaw(format!("is {} again", shown(&object))));
            }
            objects.push(object);
        }
    }
    // Taken for an add-on without objects, it would let all of them be deleted.
    if objects.is_empty() {
        return Err(" holds no object".to_owned());
    }
    Ok(objects)
}

/// The items of a List; an empty document is none.
fn unpacked(document: Value) -> Vec<Value> {
    match document {
        Value::Null => Vec::new(),
        Value::Object(mut fields) if fields.get("kind").is_some_and(|kind| kind == "List") => {
            match fields.remove("items") {
                Some(Value::Array(items)) => items,
                _ => Vec::new(),
            }
        }
        other => vec![other],
    }
}

fn check(object: &Value) -> Result<(), String> {
    if !object.is_object() {
        return Err("is no object".to_owned());
    }
    for field in ["/apiVersion", "/kind", "/metadata/name"] {
        if object.pointer(field).and_then(Value::as_str).unwrap_or_default().is_empty() {
            return Err(format!("has no {}", field[1..].replace('/', ".")));
        }
    }
    Ok(())
}

/// The same object, whichever version or group it is written in: some kinds have moved from one group to another.
pub fn is_same(one: &Value, other: &Value) -> bool {
    let key = |object: &Value| {
        let metadata = &object["metadata"];
        (text(&object["kind"]).to_owned(), text(&metadata["namespace"]).to_owned(), text(&metadata["name"]).to_owned())
    };
    key(one) == key(other)
}

fn shown(object: &Value) -> String {
    format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]))
}

/// As it has to be on the guest, with our marks. `label` is what Nodes of the distribution carry.
pub fn shaped(object: Value, addon: &str, label: &str) -> Value {
    let mut object = rolled_with_nodes(object, label);
    *field(field(field(&mut object, "metadata"), "labels"), ADDON) = json!(addon);
    let digest = short(&object.to_string(), 8);
    *field(field(field(&mut object, "metadata"), "annotations"), ADDON_DIGEST) = json!(digest);
    object
}

/// Its pods follow the Nodes of the distribution, as the original has them do.
pub fn rolled_with_nodes(mut object: Value, label: &str) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["resourceVersion", "uid", "creationTimestamp", "generation", "managedFields", "selfLink"] {
            metadata.remove(field);
        }
    }
    let kind = text(&object["kind"]).to_owned();
    match kind.as_str() {
        "DaemonSet" => *field(field(&mut object, "spec"), "updateStrategy") = json!({ "type": "OnDelete" }),
        "Deployment" => {
            *field(field(&mut object, "spec"), "strategy") =
                json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 0, "maxSurge": 1 } });
            let pod = field(field(field(&mut object, "spec"), "template"), "spec");
            *field(field(pod, "nodeSelector"), DISTRIBUTION_LABEL) = json!(label);
        }
        _ => {}
    }
    object
}

/// What is no object is nothing that a server would accept: it becomes one.
fn field<'a>(parent: &'a mut Value, name: &str) -> &'a mut Value {
    if !parent.is_object() {
        *parent = json!({});
    }
    &mut parent[name]
}

/// Whether all that is wanted is there. Servers add fields, and write some values in another way: what seems to differ then is
/// applied once more, which changes nothing.
pub fn holds(there: &Value, wanted: &Value) -> bool {
    match (there, wanted) {
        (_, Value::Null) => true,
        (Value::Object(there), Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| holds(there.get(key).unwrap_or(&Value::Null), value))
        }
        (Value::Array(there), Value::Array(wanted)) => {
            there.len() == wanted.len() && there.iter().zip(wanted).all(|(there, wanted)| holds(there, wanted))
        }
        (there, wanted) => there == wanted,
    }
}
