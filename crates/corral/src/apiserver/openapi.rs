//! Schemas of all kinds, for clients that explain, complete or check: OpenAPI v3, a document for each version of a group,
//! and v2, one document for all.
//!
//! Built-in kinds are described as recorded, custom ones by their definitions.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest, Sha512};

use super::{ApiServer, builtin::named::RECORDED, object::Object, recorded, resources::Resource, store::Store};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
/// A recorded document that has the schemas of metadata in it.
const WITH_METADATA: &str = "/openapi/v3/apis/apps/v1";
const REFERENCE_V3: &str = "#/components/schemas/";
const REFERENCE_V2: &str = "#/definitions/";

/// A document, and what tells whether it has changed.
pub(super) struct Document {
    pub body: Bytes,
    pub tag: String,
}

impl Document {
    pub fn new(body: Bytes) -> Self {
        let tag = Sha512::digest(&body).iter().map(|byte| format!("{byte:02X}")).collect();
        Document { body, tag }
    }
}

/// `/openapi/v3`: where the document of each version is.
pub(super) fn index(server: &ApiServer) -> Document {
    let mut paths = BTreeMap::new();
    for path in RECORDED.resources.keys().map(|group_version| path_of(group_version)) {
        paths.insert(path.clone(), entry(&path, &recorded_tag(&path)));
    }
    for (group_version, document) in custom_documents(server) {
        let path = path_of(&group_version);
        let entry = entry(&path, &document.tag);
        paths.insert(path, entry);
    }
    Document::new(Bytes::from(format!("{}\n", json!({ "paths": paths }))))
}

fn entry(path: &str, tag: &str) -> Value {
    json!({ "serverRelativeURL": format!("/openapi/v3/{path}?hash={tag}") })
}

/// `api/v1`, `apis/GROUP/VERSION`
fn path_of(group_version: &str) -> String {
    if group_version.contains('/') { format!("apis/{group_version}") } else { format!("api/{group_version}") }
}

/// `/openapi/v3/apis/GROUP/VERSION`; none if nothing of it is served.
pub(super) fn document(server: &ApiServer, group: &str, version: &str) -> Option<Document> {
    let group_version = if group.is_empty() { version.into() } else { format!("{group}/{version}") };
    if RECORDED.resources.contains_key(&group_version) {
        let path = path_of(&group_version);
        let body = recorded::document(&format!("/openapi/v3/{path}"))?;
        return Some(Document { body, tag: recorded_tag(&path) });
    }
    custom_documents(server).remove(&group_version)
}

/// What the original says has to change for a recorded document to be read again.
fn recorded_tag(path: &str) -> String {
    let index: Option<Value> = recorded::document("/openapi/v3").and_then(|body| serde_json::from_slice(&body).ok());
    let url = index.map(|index| index["paths"][path]["serverRelativeURL"].clone()).unwrap_or_default();
    url.as_str().and_then(|url| url.split_once("hash=")).map(|(_, tag)| tag.to_string()).unwrap_or_default()
}

/// `/openapi/v2`: everything in one document.
pub(super) fn whole(server: &ApiServer) -> Document {
    let recorded = RECORDED.resources.keys().filter_map(|group_version| {
        serde_json::from_slice(&recorded::document(&format!("/openapi/v3/{}", path_of(group_version)))?).ok()
    });
    let custom =
        custom_documents(server).into_values().filter_map(|document| serde_json::from_slice(&document.body).ok());
    let mut definitions = Object::new();
    for mut document in recorded.chain(custom) {
        let document: &mut Value = &mut document;
        if let Value::Object(schemas) = document["components"]["schemas"].take() {
            definitions.extend(schemas);
        }
    }
    definitions.values_mut().for_each(as_older_version);
    let info = json!({ "title": "Kubernetes", "version": super::discovery::GIT_VERSION });
    let whole = json!({ "swagger": "2.0", "info": info, "paths": {}, "definitions": definitions });
    Document::new(Bytes::from(format!("{whole}\n")))
}

/// Turns a schema of v3 into one of v2, where references are elsewhere and stand alone.
fn as_older_version(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(as_older_version),
        Value::Object(fields) => {
            if let Some([Value::Object(reference)]) = fields.get("allOf").and_then(Value::as_array).map(Vec::as_slice)
                && reference.contains_key("$ref")
            {
                let reference = reference["$ref"].clone();
                fields.remove("allOf");
                fields.insert("$ref".into(), reference);
            }
            if let Some(Value::String(reference)) = fields.get_mut("$ref") {
                *reference = reference.replace(REFERENCE_V3, REFERENCE_V2);
            }
            fields.values_mut().for_each(as_older_version);
        }
        _ => {}
    }
}

/// The documents of all versions of groups that definitions declare, by `GROUP/VERSION`.
fn custom_documents(server: &ApiServer) -> BTreeMap<String, Document> {
    let mut parts: BTreeMap<String, (Object, Object)> = BTreeMap::new();
    server.store().with(|store| {
        for resource in store.collections().map(|collection| &collection.resource) {
            for version in resource.versions.iter().filter(|_| resource.shape.is_none()) {
                let (paths, schemas) = parts.entry(resource.api_version(version)).or_default();
                paths.extend(paths_of(resource, version));
                schemas.extend(schemas_of(store, resource, version));
            }
        }
    });
    if parts.is_empty() {
        return BTreeMap::new();
    }
    let metadata = metadata_schemas();
    let documents = parts.into_iter().map(|(group_version, (paths, mut schemas))| {
        schemas.extend(metadata.clone());
        let info = json!({ "title": "Kubernetes CRD Swagger", "version": "v0.1.0" });
        let document =
            json!({ "openapi": "3.0.0", "info": info, "paths": paths, "components": { "schemas": schemas } });
        (group_version, Document::new(Bytes::from(format!("{document}\n"))))
    });
    documents.collect()
}

/// What every object and every list has.
fn metadata_schemas() -> Object {
    let document: Option<Value> = recorded::document(WITH_METADATA).and_then(|body| serde_json::from_slice(&body).ok());
    let schemas = document.map(|mut document| document["components"]["schemas"].take()).unwrap_or_default();
    let names = ["FieldsV1", "ListMeta", "ManagedFieldsEntry", "ObjectMeta", "OwnerReference", "Time"];
    let wanted = names.map(|name| format!("{META}.{name}"));
    wanted.into_iter().map(|name| (name.clone(), schemas[&name].clone())).collect()
}

/// `dev.example.v1.Plan`
fn schema_name(group: &str, version: &str, kind: &str) -> String {
    let mut parts: Vec<_> = group.split('.').rev().collect();
    parts.extend([version, kind]);
    parts.join(".")
}

fn schemas_of(store: &Store, resource: &Resource, version: &str) -> [(String, Value); 2] {
    let id = &resource.id;
    let kinds = |kind: &str| json!([{ "group": id.group, "version": version, "kind": kind }]);
    let text = |description: &str| json!({ "type": "string", "description": description });
    let described = json!({
        "apiVersion": text(
            "APIVersion defines the versioned schema of this representation of an object. Servers should convert \
             recognized schemas to the latest internal value, and may reject unrecognized values. More info: \
             https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources"
        ),
        "kind": text(
            "Kind is a string value representing the REST resource this object represents. Servers may infer this from \
             the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: \
             https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds"
        ),
    });
    let mut object = super::crds::schema(store, &id.group, &id.plural, version);
    if !object["properties"].is_object() {
        object["properties"] = json!({});
    }
    let mut list = json!({
        "type": "object", "required": ["items"], "description": format!("{} is a list of {}", resource.list_kind, id.kind),
        "properties": {
            "items": {
                "type": "array", "items": { "$ref": format!("{REFERENCE_V3}{}", schema_name(&id.group, version, &id.kind)) },
                "description": format!(
                    "List of {}. More info: \
                     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md",
                    id.plural
                ),
            },
            "metadata": { "allOf": [{ "$ref": format!("{REFERENCE_V3}{META}.ListMeta") }] },
        },
        "x-kubernetes-group-version-kind": kinds(&resource.list_kind),
    });
    for schema in [&mut object, &mut list] {
        for (name, described) in described.as_object().into_iter().flatten() {
            schema["properties"][name] = described.clone();
        }
    }
    object["properties"]["metadata"] = json!({
        "description": "Standard object's metadata. More info: \
                        https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata",
        "allOf": [{ "$ref": format!("{REFERENCE_V3}{META}.ObjectMeta") }],
    });
    object["x-kubernetes-group-version-kind"] = kinds(&id.kind);
    [(schema_name(&id.group, version, &id.kind), object), (schema_name(&id.group, version, &resource.list_kind), list)]
}

/// Which requests there are and what can be asked of them: that the server checks fields itself, above all.
fn paths_of(resource: &Resource, version: &str) -> [(String, Value); 2] {
    let id = &resource.id;
    let root = format!("/apis/{}/{version}", id.group);
    let collection = match resource.namespaced {
        true => format!("{root}/namespaces/{{namespace}}/{}", id.plural),
        false => format!("{root}/{}", id.plural),
    };
    let query = |name: &str| json!({ "name": name, "in": "query", "schema": { "type": "string" } });
    let parameters = ["dryRun", "fieldManager", "fieldValidation"].map(query);
    let operation = |action: &str| {
        json!({
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": { "group": id.group, "version": version, "kind": id.kind },
            "parameters": parameters,
            "responses": { "200": { "description": "OK" } },
        })
    };
    let object = format!("{collection}/{{name}}");
    [
        (collection, json!({ "get": operation("list"), "post": operation("post") })),
        (object, json!({ "get": operation("get"), "put": operation("put"), "patch": operation("patch") })),
    ]
}
