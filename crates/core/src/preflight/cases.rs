//! Every check, in cases: a few objects, and what is said of them. The cases are files, a family each.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Intent, catalogue};
use crate::cluster::Cluster;

const FAMILIES: &[(&str, &str)] = &[
    ("apis", include_str!("cases/apis.yaml")),
    ("boundaries", include_str!("cases/boundaries.yaml")),
    ("budgets", include_str!("cases/budgets.yaml")),
    ("capacity", include_str!("cases/capacity.yaml")),
    ("certificates", include_str!("cases/certificates.yaml")),
    ("charts", include_str!("cases/charts.yaml")),
    ("clusters", include_str!("cases/clusters.yaml")),
    ("etcd", include_str!("cases/etcd.yaml")),
    ("guests", include_str!("cases/guests.yaml")),
    ("nodes", include_str!("cases/nodes.yaml")),
    ("plans", include_str!("cases/plans.yaml")),
    ("storage", include_str!("cases/storage.yaml")),
    ("upgrades", include_str!("cases/upgrades.yaml")),
    ("versions", include_str!("cases/versions.yaml")),
    ("vms", include_str!("cases/vms.yaml")),
    ("webhooks", include_str!("cases/webhooks.yaml")),
    ("workloads", include_str!("cases/workloads.yaml")),
];

#[derive(Deserialize)]
struct Case {
    check: String,
    /// What the case shows.
    case: String,
    /// A manifest, a version, or nothing: any upgrade.
    #[serde(default)]
    asked: Value,
    objects: Vec<Value>,
    /// The sentences, word for word; none where the check passes.
    finds: Vec<String>,
}

fn cases() -> Vec<Case> {
    let read = |(family, text): &(&str, &str)| -> Vec<Case> {
        serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{family}: {}", error.without_snippet()))
    };
    FAMILIES.iter().flat_map(read).collect()
}

/// Objects may leave out what is always the same: `apiVersion` follows from the kind, unless it says so.
fn whole(object: &Value) -> Value {
    let mut object = object.clone();
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    if object["apiVersion"].is_null() {
        let resources = || crate::cluster::RESOURCES.iter();
        let known = resources().find(|resource| resource.kind == kind);
        let known = known.or_else(|| resources().find(|resource| resource.bare_kind() == kind));
        let version = match known {
            Some(resource) if resource.group.is_empty() => resource.versions[0].to_owned(),
            Some(resource) => format!("{}/{}", resource.group, resource.versions[0]),
            None => crate::cluster::looks::API_VERSION.to_owned(),
        };
        object["apiVersion"] = json!(version);
    }
    // `name: ns/name` for `metadata: { namespace: ns, name: name }`.
    if let Some(name) = object["name"].as_str().map(str::to_owned) {
        let (namespace, name) = name.split_once('/').unwrap_or(("", &name));
        object["metadata"]["name"] = json!(name);
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = json!(namespace);
        }
    }
    object
}

fn cluster(objects: &[Value]) -> Cluster {
    let mut cluster = Cluster::new("2026-01-01T12:00:00Z".parse().unwrap());
    objects.iter().for_each(|object| cluster.take(whole(object).to_string().as_bytes()));
    assert_eq!(cluster.unseen, [], "a case is made of objects that can be read");
    cluster
}

fn intent(asked: &Value) -> Intent {
    match asked {
        Value::Null => Intent::anything(),
        Value::String(version) => Intent::version(version),
        manifest => Intent::of_manifest(whole(manifest).to_string().as_bytes()).unwrap().unwrap(),
    }
}

#[test]
fn every_case_is_as_it_says() {
    let mut wrong = Vec::new();
    for Case { check, case, asked, objects, finds } in cases() {
        let found = catalogue().find(|known| known.code == check);
        let known = found.unwrap_or_else(|| panic!("{check} is no check"));
        let (cluster, intent) = (cluster(&objects), intent(&asked));
        assert!(intent.concerns(known.scope, &cluster), "{check}: {case}: the check is not for what is asked");
        let said: Vec<String> = (known.look)(&cluster, &intent).into_iter().map(|finding| finding.sentence).collect();
        if said != finds {
            wrong.push(format!("{check}: {case}\n  finds {said:#?}\n  not   {finds:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_check_has_a_case_in_which_it_fails_and_one_in_which_it_passes() {
    let mut seen: BTreeMap<String, (bool, bool)> = BTreeMap::new();
    for case in cases() {
        let (fails, passes) = seen.entry(case.check).or_default();
        *(if case.finds.is_empty() { passes } else { fails }) = true;
    }
    let lacking: Vec<&str> =
        catalogue().map(|check| check.code).filter(|code| seen.get(*code) != Some(&(true, true))).collect();
    assert_eq!(lacking, Vec::<&str>::new());
}

#[test]
fn no_code_is_given_twice() {
    let codes: Vec<&str> = catalogue().map(|check| check.code).collect();
    let mut once = codes.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), codes.len());
}
