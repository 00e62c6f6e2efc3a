//! The definitions of the kinds that Drover brings along, as `drover crds` prints them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use kube::CustomResourceExt;

use crate::harvester::upgrade::Upgrade;
use crate::harvester::upgrade_log::UpgradeLog;
use crate::harvester::version::Version;
use crate::plan::Plan;
use crate::tanzu::tanzu_kubernetes_cluster::TanzuKubernetesCluster;
use crate::tanzu::tanzu_kubernetes_release::TanzuKubernetesRelease;

/// Whose definitions: each controller of Drover brings those of the kinds that users write for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    Plan,
    Harvester,
    Guest,
}

impl Controller {
    pub const ALL: [Controller; 3] = [Controller::Plan, Controller::Harvester, Controller::Guest];
}

/// All of them, in the order in which they are printed.
pub fn all() -> Vec<CustomResourceDefinition> {
    Controller::ALL.into_iter().flat_map(of).collect()
}

/// Those of one controller. Kinds of other products are never among them.
pub fn of(controller: Controller) -> Vec<CustomResourceDefinition> {
    match controller {
        Controller::Plan => vec![finished(Plan::crd())],
        // Of an Upgrade only Drover writes the status, and a client that puts back the object without one must not wipe it. Collectors
        // of logs are Harvester's, and write the status with the object: theirs would be lost under a definition that has one.
        Controller::Harvester => {
            let log = without_status_subresource(finished(UpgradeLog::crd()));
            vec![finished(Upgrade::crd()), log, finished(Version::crd())]
        }
        Controller::Guest => vec![finished(TanzuKubernetesCluster::crd()), finished(TanzuKubernetesRelease::crd())],
    }
}

/// The definitions that Harvester itself installs in place of [`of`]: none has a status subresource, its controllers and its page write
/// the status with the object.
pub fn as_harvester_installs() -> Vec<CustomResourceDefinition> {
    of(Controller::Harvester).into_iter().map(without_status_subresource).collect()
}

fn finished(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    definition.spec.names.list_kind = Some(format!("{}List", definition.spec.names.kind));
    for version in &mut definition.spec.versions {
        if let Some(schema) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            read_as_go_types(schema);
        }
    }
    definition
}

fn without_status_subresource(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut definition.spec.versions {
        version.subresources = None;
    }
    definition
}

/// Fields that refer to another object, or to a part of one. A reference is replaced as a whole, never merged.
const REFERENCES: [&str; 8] = [
    "configMapKeyRef",
    "configMapRef",
    "fieldRef",
    "fileKeyRef",
    "imagePullSecrets",
    "resourceFieldRef",
    "secretKeyRef",
    "secretRef",
];

/// Makes a derived schema accept, merge and store what one that was generated from the Go types does, so that an
/// object means the same under either definition: null is absent, selectors and references are atomic, and the name in a
/// reference may be left out.
fn read_as_go_types(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    if let Some(JSONSchemaPropsOrArray::Schema(item)) = &mut schema.items {
        read_as_go_types(item);
    }
    let Some(properties) = &mut schema.properties else { return };
    if properties.contains_key("matchExpressions") {
        schema.x_kubernetes_map_type = Some("atomic".to_owned());
    }
    for (field, property) in properties {
        read_as_go_types(property);
        if REFERENCES.contains(&field.as_str()) {
            match &mut property.items {
                Some(JSONSchemaPropsOrArray::Schema(item)) => refer(item),
                _ => refer(property),
            }
        }
    }
}

fn refer(reference: &mut JSONSchemaProps) {
    reference.x_kubernetes_map_type = Some("atomic".to_owned());
    let Some(properties) = &mut reference.properties else { return };
    if let Some(name) = properties.get_mut("name") {
        name.default = Some(JSON(serde_json::Value::from("")));
        if let Some(required) = &mut reference.required {
            required.retain(|field| field != "name");
        }
        reference.required.take_if(|required| required.is_empty());
    }
    // Only a key of a file, which names a path in a volume, is stored with its default.
    if properties.contains_key("volumeName")
        && let Some(optional) = properties.get_mut("optional")
    {
        optional.default = Some(JSON(serde_json::Value::from(false)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn definition() -> Value {
        json!(of(Controller::Plan).remove(0))
    }

    fn schema(path: &str) -> Value {
        let at = path.split('.').map(|field| format!("/properties/{field}")).collect::<String>();
        let all = definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        all.pointer(&at).unwrap_or_else(|| panic!("there is no {path}")).clone()
    }

    fn without_descriptions(schema: Value) -> Value {
        match schema {
            Value::Object(fields) => fields
                .into_iter()
                .filter(|(name, value)| name != "description" || !value.is_string())
                .map(|(name, value)| (name, without_descriptions(value)))
                .collect(),
            Value::Array(items) => items.into_iter().map(without_descriptions).collect(),
            other => other,
        }
    }

    #[test]
    fn a_plan_is_a_namespaced_kind_without_short_names() {
        let definition = definition();

        assert_eq!(definition["metadata"]["name"], "plans.upgrade.cattle.io");
        assert_eq!(definition["spec"]["group"], "upgrade.cattle.io");
        assert_eq!(definition["spec"]["scope"], "Namespaced");
        assert_eq!(
            definition["spec"]["names"],
            json!({ "kind": "Plan", "listKind": "PlanList", "plural": "plans", "singular": "plan" })
        );
    }

    #[test]
    fn a_plan_has_one_version_with_a_status_of_its_own() {
        let versions = definition()["spec"]["versions"].clone();

        assert_eq!(versions.as_array().unwrap().len(), 1);
        assert_eq!(versions[0]["name"], "v1");
        assert_eq!((&versions[0]["served"], &versions[0]["storage"]), (&json!(true), &json!(true)));
        assert_eq!(versions[0]["subresources"], json!({ "status": {} }));
    }

    #[test]
    fn kubectl_shows_the_columns_that_users_know() {
        let column = |name: &str, path: &str| json!({ "name": name, "type": "string", "jsonPath": path });

        assert_eq!(
            definition()["spec"]["versions"][0]["additionalPrinterColumns"],
            json!([
                column("Image", ".spec.upgrade.image"),
                column("Channel", ".spec.channel"),
                column("Version", ".spec.version"),
                column("Complete", ".status.conditions[?(@.type=='Complete')].status"),
                column("Message", ".status.conditions[?(@.message!='')].message"),
                { "name": "Applying", "type": "string", "jsonPath": ".status.applying", "priority": 10 },
            ])
        );
    }

    #[test]
    fn only_what_cannot_be_left_out_is_required() {
        assert_eq!(schema("spec")["required"], json!(["upgrade"]));
        assert_eq!(schema("spec.upgrade")["required"], json!(["image"]));
        assert_eq!(schema("spec.prepare")["required"], json!(["image"]));
        assert_eq!(schema("spec.upgrade.volumes")["items"]["required"], json!(["destination", "name", "source"]));
        assert_eq!(schema("spec.secrets")["items"]["required"], json!(["name", "path"]));
        assert_eq!(schema("spec.drain")["required"], Value::Null);
        assert_eq!(schema("spec.window")["required"], Value::Null);
        assert_eq!(schema("status")["required"], Value::Null);
        assert_eq!(schema("status.conditions")["items"]["required"], json!(["status", "type"]));
    }

    #[test]
    fn a_window_is_open_on_one_of_28_words_at_least() {
        let days = schema("spec.window.days");

        assert_eq!(days["minItems"], 1);
        let words = days["items"]["enum"].as_array().unwrap();
        assert_eq!(words.len(), 28);
        for word in ["0", "su", "sun", "sunday", "6", "sa", "sat", "saturday"] {
            assert!(words.contains(&json!(word)), "{word}");
        }
    }

    #[test]
    fn conditions_are_told_apart_by_their_type() {
        let conditions = schema("status.conditions");

        assert_eq!(conditions["x-kubernetes-list-type"], "map");
        assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]));
    }

    #[test]
    fn fields_are_typed_as_their_go_types_are() {
        assert_eq!(without_descriptions(schema("spec.concurrency")), json!({ "type": "integer", "format": "int64" }));
        assert_eq!(without_descriptions(schema("spec.postCompleteDelay")), json!({ "type": "string" }));
        assert_eq!(without_descriptions(schema("spec.drain.timeout")), json!({ "x-kubernetes-int-or-string": true }));
        assert_eq!(
            without_descriptions(schema("spec.imagePullSecrets")),
            json!({ "type": "array", "items": {
                "type": "object",
                "properties": { "name": { "type": "string", "default": "" } },
                "x-kubernetes-map-type": "atomic",
            } })
        );
        assert_eq!(schema("spec.nodeSelector")["x-kubernetes-map-type"], "atomic");
    }

    #[test]
    fn nothing_may_be_null_and_only_references_have_defaults() {
        fn walk(path: &str, schema: &Value) {
            assert_eq!(schema.get("nullable"), None, "{path}");
            if schema.get("default").is_some() {
                let of_a_reference = path.ends_with(".name") || path.ends_with(".fileKeyRef.optional");
                assert!(of_a_reference, "{path}");
            }
            for (field, property) in schema["properties"].as_object().into_iter().flatten() {
                walk(&format!("{path}.{field}"), property);
            }
            if let Some(items) = schema.get("items") {
                walk(path, items);
            }
        }

        walk("plan", &definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]);
    }
}
