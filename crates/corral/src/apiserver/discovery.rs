//! What is served: groups, versions and resources, for clients that ask before they act.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    ApiServer, openapi,
    request::Route,
    resources::Resource,
    status::{Answer, no_such_resource},
    store::Store,
};

/// The release that this server behaves as.
pub(super) const GIT_VERSION: &str = "v1.34.4";

/// What is known under a route; none if nothing is.
pub(super) fn answer(server: &ApiServer, route: &Route) -> Answer<Option<Bytes>> {
    let found = server.store().with(|store| match route {
        Route::Version => Ok(Some(version())),
        Route::CoreVersions => {
            Ok(Some(json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] })))
        }
        Route::Groups => Ok(Some(groups(store))),
        Route::Group(group) => Ok(one_group(store, group)),
        Route::Resources { group, version } => resources(store, group, version),
        Route::OpenApiIndex => Ok(Some(openapi::index(store))),
        Route::OpenApi { group, version } => Ok(openapi::document(store, group, version)),
        Route::Healthy | Route::Objects(_) => Ok(None),
    })?;
    Ok(found.map(|body| Bytes::from(format!("{body}\n"))))
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "34", "gitVersion": GIT_VERSION, "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "", "goVersion": "", "compiler": "", "platform": "corral",
        "emulationMajor": "1", "emulationMinor": "34", "minCompatibilityMajor": "1", "minCompatibilityMinor": "33",
    })
}

/// The versions of each named group, the preferred one first.
fn versions(store: &Store) -> BTreeMap<&str, Vec<&str>> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for resource in store.collections().map(|collection| &collection.resource) {
        if resource.id.group.is_empty() {
            continue;
        }
        let versions = groups.entry(&resource.id.group).or_default();
        for version in &resource.versions {
            if !versions.contains(&version.as_str()) {
                versions.push(version);
            }
        }
    }
    for versions in groups.values_mut() {
        versions.sort_by_key(|version| std::cmp::Reverse(super::crds::priority(version)));
    }
    groups
}

fn group(name: &str, versions: &[&str]) -> Value {
    let named = |version: &&str| json!({ "groupVersion": format!("{name}/{version}"), "version": version });
    let all: Vec<_> = versions.iter().map(named).collect();
    json!({ "name": name, "versions": all, "preferredVersion": all.first() })
}

fn groups(store: &Store) -> Value {
    let groups: Vec<_> = versions(store).iter().map(|(name, versions)| group(name, versions)).collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

fn one_group(store: &Store, name: &str) -> Option<Value> {
    let versions = versions(store);
    let mut found = group(name, versions.get(name)?);
    found["kind"] = json!("APIGroup");
    found["apiVersion"] = json!("v1");
    Some(found)
}

fn resources(store: &Store, group: &str, version: &str) -> Answer<Option<Value>> {
    let collections = store.collections().map(|collection| &collection.resource);
    let served = collections.filter(|resource| resource.id.group == group && resource.serves(version));
    let entries: Vec<_> = served.flat_map(|resource| entries(resource)).collect();
    if entries.is_empty() {
        return if store.has_built_in(group) { Err(no_such_resource()) } else { Ok(None) };
    }
    let group_version = if group.is_empty() { version.to_string() } else { format!("{group}/{version}") };
    let mut list = json!({ "kind": "APIResourceList", "groupVersion": group_version, "resources": entries });
    if !group.is_empty() {
        list["apiVersion"] = json!("v1");
    }
    Ok(Some(list))
}

/// A resource and its parts.
fn entries(resource: &Resource) -> Vec<Value> {
    let verbs = match resource.shape.is_some() {
        true => ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        false => ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
    };
    let mut main = json!({
        "name": resource.id.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": resource.id.kind, "verbs": verbs,
    });
    if !resource.short_names.is_empty() {
        main["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        main["categories"] = json!(resource.categories);
    }
    let mut entries = vec![main];
    let mut part = |name: &str, kind: &str, verbs: &[&str], more: Value| {
        let mut entry = json!({
            "name": format!("{}/{name}", resource.id.plural), "singularName": "",
            "namespaced": resource.namespaced, "kind": kind, "verbs": verbs,
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            entry[name] = value.clone();
        }
        entries.push(entry);
    };
    let core = resource.id.group.is_empty();
    if core && resource.id.plural == "pods" {
        part("binding", "Binding", &["create"], json!({}));
        part("eviction", "Eviction", &["create"], json!({ "group": "policy", "version": "v1" }));
        part("log", "Pod", &["get"], json!({}));
    }
    if core && resource.id.plural == "namespaces" {
        part("finalize", "Namespace", &["update"], json!({}));
    }
    if resource.status {
        part("status", &resource.id.kind, &["get", "patch", "update"], json!({}));
    }
    entries
}
