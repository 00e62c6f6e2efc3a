//! What is served: groups, versions and resources, for clients that ask before they act.
//!
//! Built-in kinds are told as they were recorded; custom ones are added from their definitions. A client that accepts it
//! gets everything in one document.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    ApiServer,
    builtin::named::{Group, GroupVersion, Named, RECORDED},
    request::Route,
    resources::Resource,
    status::{Answer, no_such_resource},
    store::Store,
};

/// The release that this server behaves as.
pub(super) const GIT_VERSION: &str = "v1.34.4";

/// What is known under a route; none if nothing is.
pub(super) fn answer(server: &ApiServer, route: &Route, host: &str) -> Answer<Option<Value>> {
    server.store().with(|store| {
        Ok(match route {
            Route::Version => Some(version()),
            Route::CoreVersions => {
                let everybody = json!({ "clientCIDR": "0.0.0.0/0", "serverAddress": host });
                Some(json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [everybody] }))
            }
            Route::Groups => Some(json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups(store) })),
            Route::Group(name) => one_group(store, name),
            Route::Resources { group, version } => return resources(store, group, version),
            _ => None,
        })
    })
}

/// Everything below `/api` or `/apis` in one document; none for other routes.
pub(super) fn aggregated(server: &ApiServer, route: &Route) -> Option<Value> {
    server.store().with(|store| {
        let items: Vec<Value> = match route {
            Route::CoreVersions => vec![whole_group(store, "", &["v1"])],
            Route::Groups => groups(store)
                .iter()
                .map(|group| {
                    let versions: Vec<_> = group.versions.iter().map(|version| version.version.as_str()).collect();
                    whole_group(store, &group.name, &versions)
                })
                .collect(),
            _ => return None,
        };
        let kind = "APIGroupDiscoveryList";
        Some(json!({ "kind": kind, "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items }))
    })
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "34", "gitVersion": GIT_VERSION, "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "", "goVersion": "", "compiler": "", "platform": "corral",
        "emulationMajor": "1", "emulationMinor": "34", "minCompatibilityMajor": "1", "minCompatibilityMinor": "33",
    })
}

/// The named groups: the built-in ones in their order, then those of definitions by name.
fn groups(store: &Store) -> Vec<Group> {
    let mut groups = RECORDED.groups.clone();
    let mut custom: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for resource in custom_resources(store) {
        let versions = custom.entry(&resource.id.group).or_default();
        let new = resource.versions.iter().map(String::as_str).filter(|version| !versions.contains(version));
        let new: Vec<_> = new.collect();
        versions.extend(new);
    }
    for (name, mut versions) in custom {
        versions.sort_by_key(|version| std::cmp::Reverse(super::crds::priority(version)));
        let named =
            |version: &str| GroupVersion { group_version: format!("{name}/{version}"), version: version.into() };
        let versions: Vec<_> = versions.into_iter().map(named).collect();
        if let Some(preferred_version) = versions.first().cloned() {
            groups.push(Group { name: name.into(), versions, preferred_version });
        }
    }
    groups
}

fn custom_resources(store: &Store) -> impl Iterator<Item = &Resource> {
    store.collections().map(|collection| &*collection.resource).filter(|resource| resource.shape.is_none())
}

fn one_group(store: &Store, name: &str) -> Option<Value> {
    let found = groups(store).into_iter().find(|group| group.name == name)?;
    let mut found = json!(found);
    found["kind"] = json!("APIGroup");
    found["apiVersion"] = json!("v1");
    Some(found)
}

fn resources(store: &Store, group: &str, version: &str) -> Answer<Option<Value>> {
    let entries = entries(store, group, version);
    if entries.is_empty() {
        return if store.has_built_in(group) { Err(no_such_resource()) } else { Ok(None) };
    }
    let group_version = group_version(group, version);
    let mut list = json!({ "kind": "APIResourceList", "groupVersion": group_version, "resources": entries });
    if !group.is_empty() {
        list["apiVersion"] = json!("v1");
    }
    Ok(Some(list))
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.into() } else { format!("{group}/{version}") }
}

/// The resources of a version of a group, and their parts.
fn entries(store: &Store, group: &str, version: &str) -> Vec<Named> {
    let recorded = RECORDED.resources.get(&group_version(group, version)).cloned().unwrap_or_default();
    let custom = custom_resources(store).filter(|resource| resource.id.group == group && resource.serves(version));
    recorded.into_iter().chain(custom.flat_map(|resource| custom_entries(resource, version))).collect()
}

fn custom_entries(resource: &Resource, version: &str) -> Vec<Named> {
    let texts = |words: &[&str]| -> Vec<String> { words.iter().map(|word| word.to_string()).collect() };
    let id = &resource.id;
    let mut entries = vec![Named {
        name: id.plural.clone(),
        singular_name: resource.singular.clone(),
        namespaced: resource.namespaced,
        kind: id.kind.clone(),
        verbs: texts(&["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]),
        short_names: resource.short_names.clone(),
        categories: resource.categories.clone(),
        storage_version_hash: Some(storage_version_hash(resource)),
        ..Named::default()
    }];
    let part = |name: &str, kind: &str| Named {
        name: format!("{}/{name}", id.plural),
        namespaced: resource.namespaced,
        kind: kind.into(),
        verbs: texts(&["get", "patch", "update"]),
        ..Named::default()
    };
    if resource.rules.has_status(version).unwrap_or(resource.status) {
        entries.push(part("status", &id.kind));
    }
    if resource.rules.has_scale(version) {
        let scale = part("scale", "Scale");
        entries.push(Named { group: Some("autoscaling".into()), version: Some("v1".into()), ..scale });
    }
    entries
}

/// What tells apart the versions that objects can be stored in, without saying which they are.
fn storage_version_hash(resource: &Resource) -> String {
    let id = &resource.id;
    let hash = Sha256::digest(format!("{}/{}/{}", id.group, resource.storage_version, id.kind));
    STANDARD.encode(&hash[..8])
}

/// A group as the document of everything tells it.
fn whole_group(store: &Store, name: &str, versions: &[&str]) -> Value {
    let versions: Vec<_> = versions
        .iter()
        .map(|version| {
            let built_in = RECORDED.resources.contains_key(&group_version(name, version));
            let own = if built_in { ("", "") } else { (name, *version) };
            let entries = entries(store, name, version);
            json!({ "version": version, "resources": whole_resources(&entries, own), "freshness": "Current" })
        })
        .collect();
    let metadata = if name.is_empty() { json!({}) } else { json!({ "name": name }) };
    json!({ "metadata": metadata, "versions": versions })
}

/// Resources with their parts inside them. Built-in ones do not say their own group and version.
fn whole_resources(entries: &[Named], own: (&str, &str)) -> Vec<Value> {
    let response_kind = |named: &Named| {
        let (group, version) = match (&named.group, &named.version) {
            (None, None) => own,
            (group, version) => (group.as_deref().unwrap_or_default(), version.as_deref().unwrap_or_default()),
        };
        json!({ "group": group, "version": version, "kind": named.kind })
    };
    let main = entries.iter().filter(|named| !named.name.contains('/'));
    main.map(|named| {
        let mut entry = json!({
            "resource": named.name, "responseKind": response_kind(named), "singularResource": named.singular_name,
            "scope": if named.namespaced { "Namespaced" } else { "Cluster" }, "verbs": named.verbs,
        });
        if !named.short_names.is_empty() {
            entry["shortNames"] = json!(named.short_names);
        }
        if !named.categories.is_empty() {
            entry["categories"] = json!(named.categories);
        }
        let prefix = format!("{}/", named.name);
        let parts: Vec<_> = entries
            .iter()
            .filter_map(|part| {
                let subresource = part.name.strip_prefix(&prefix)?;
                Some(json!({ "subresource": subresource, "responseKind": response_kind(part), "verbs": part.verbs }))
            })
            .collect();
        if !parts.is_empty() {
            entry["subresources"] = json!(parts);
        }
        entry
    })
    .collect()
}
