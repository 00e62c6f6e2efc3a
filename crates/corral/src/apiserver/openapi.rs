//! The least of an OpenAPI document: which requests there are and what can be asked of them.
//!
//! It is what `kubectl apply` looks at to learn that the server checks fields itself. Schemas are not in it yet.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{resources::Resource, store::Store};

/// `/openapi/v3`: where the document of each version is.
pub(super) fn index(store: &Store) -> Value {
    let mut paths = BTreeMap::new();
    for resource in store.collections().map(|collection| &collection.resource) {
        for version in &resource.versions {
            let path = group_version(&resource.id.group, version);
            let entry = json!({ "serverRelativeURL": format!("/openapi/v3/{path}") });
            paths.insert(path, entry);
        }
    }
    json!({ "paths": paths })
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// `/openapi/v3/apis/GROUP/VERSION`; none if nothing of it is served.
pub(super) fn document(store: &Store, group: &str, version: &str) -> Option<Value> {
    let resources = store.collections().map(|collection| &collection.resource);
    let served = resources.filter(|resource| resource.id.group == group && resource.serves(version));
    let paths: BTreeMap<String, Value> = served.flat_map(|resource| paths(resource, version)).collect();
    if paths.is_empty() {
        return None;
    }
    let info = json!({ "title": "Kubernetes", "version": super::discovery::GIT_VERSION });
    Some(json!({ "openapi": "3.0.0", "info": info, "paths": paths }))
}

fn paths(resource: &Resource, version: &str) -> [(String, Value); 2] {
    let id = &resource.id;
    let root = group_version(&id.group, version);
    let collection = match resource.namespaced {
        true => format!("/{root}/namespaces/{{namespace}}/{}", id.plural),
        false => format!("/{root}/{}", id.plural),
    };
    let operation = |action: &str| {
        json!({
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": { "group": id.group, "version": version, "kind": id.kind },
            "parameters": [{ "name": "fieldValidation", "in": "query", "schema": { "type": "string" } }],
            "responses": { "200": { "description": "OK" } },
        })
    };
    let object = format!("{collection}/{{name}}");
    [
        (collection, json!({ "post": operation("post") })),
        (object, json!({ "put": operation("put"), "patch": operation("patch") })),
    ]
}
