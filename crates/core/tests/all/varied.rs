//! Captured clusters with one thing otherwise: what is said of each, word for word.
//!
//! What is otherwise stands in `varied.yaml` of a captured cluster, and what is said then in `varied.txt`. See `tests/clusters/README.md`.

use std::collections::BTreeMap;
use std::path::Path;

use drover_core::cluster::{Cluster, ObjectRef};
use drover_core::preflight::examine;
use drover_core::status::{of_guest, of_tanzu, overview};
use drover_core::why::explain;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::captured::cases::{assert_none, differs, folders_with, read};
use super::captured::{Before, Case, cluster_of, documents, intent};

/// The least number of changes.
const CHANGES: usize = 60;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Variation {
    /// What is otherwise, in a sentence.
    what: String,
    /// What is asked about, if not what the case asks.
    #[serde(default)]
    ask: Option<String>,
    /// Objects (`Kind/namespace/name`) and what is laid over them; null takes a field away.
    #[serde(default)]
    change: BTreeMap<String, Value>,
    /// Objects that are not there.
    #[serde(default)]
    gone: Vec<String>,
    /// Objects that are there as well.
    #[serde(default)]
    with: Vec<Value>,
    /// When it is looked at, if not at the newest heartbeat.
    #[serde(default)]
    at: Option<Timestamp>,
}

/// The objects of a list that says nothing of what they are; of others nothing is changed here.
fn one_by_one((file, mut document): (String, Value)) -> Vec<(String, Value)> {
    match document.get_mut("items").filter(|items| items[0]["kind"].is_string()).map(Value::take) {
        Some(Value::Array(items)) => items.into_iter().map(|item| (file.clone(), item)).collect(),
        _ => vec![(file, document)],
    }
}

fn name_of(document: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &document["metadata"];
    match text(&metadata["namespace"]).as_str() {
        "" => format!("{}/{}", text(&document["kind"]), text(&metadata["name"])),
        namespace => format!("{}/{namespace}/{}", text(&document["kind"]), text(&metadata["name"])),
    }
}

fn lay_over(value: &mut Value, over: &Value) {
    let Value::Object(fields) = over else {
        *value = over.clone();
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let own = value.as_object_mut().unwrap();
    for (key, over) in fields {
        match over {
            Value::Null => {
                own.remove(key);
            }
            _ => lay_over(own.entry(key.clone()).or_insert(Value::Null), over),
        }
    }
}

fn varied(folder: &Path, mut all: Vec<(String, Value)>, variation: &Variation) -> Cluster {
    for (name, over) in &variation.change {
        let mut found = 0;
        for (_, document) in all.iter_mut().filter(|(_, document)| name_of(document) == *name) {
            lay_over(document, over);
            found += 1;
        }
        assert_eq!(found, 1, "{}: {}: {name}", folder.display(), variation.what);
    }
    for name in &variation.gone {
        let before = all.len();
        all.retain(|(_, document)| name_of(document) != *name);
        assert_eq!(all.len() + 1, before, "{}: {}: {name}", folder.display(), variation.what);
    }
    all.extend(variation.with.iter().map(|document| (String::new(), document.clone())));
    let mut cluster = cluster_of(all);
    cluster.looked_at = variation.at.unwrap_or(cluster.looked_at);
    cluster
}

/// How it is explained, and how it stands.
fn stuck(cluster: &Cluster, ask: &str) -> String {
    let object = ObjectRef::named(ask).unwrap_or_else(|_| match ask.split('/').collect::<Vec<_>>()[..] {
        [kind, namespace, name] => ObjectRef::new(kind, namespace, name),
        _ => panic!("{ask}"),
    });
    let now = cluster.looked_at;
    let mut text = match explain(cluster, &object) {
        Ok(explanation) => explanation.text(now),
        Err(unexplained) => format!("{unexplained}\n"),
    };
    let (namespace, name) = (object.namespace.as_str(), object.name.as_str());
    text.push_str("\n-- status\n");
    text.push_str(&match object.kind.as_str() {
        "TanzuKubernetesCluster" => {
            cluster.tanzu.clusters.get(namespace, name).map(|own| of_tanzu(cluster, own).text()).unwrap_or_default()
        }
        "Cluster" => cluster
            .cluster_api
            .clusters
            .get(namespace, name)
            .map(|own| of_guest(cluster, own).text())
            .unwrap_or_default(),
        _ => overview(cluster).text(now),
    });
    text
}

/// What is found before an upgrade, a line each.
fn before(cluster: &Cluster, folder: &Path) -> String {
    let asked: Before = read(&folder.join("preflight.yaml"));
    let report = examine(cluster, &intent(cluster, &asked.asked));
    let mut text = String::new();
    for finding in &report.findings {
        let accepted = if finding.accepted { ", accepted" } else { "" };
        text.push_str(&format!("{:?} {}{accepted}: {}\n", finding.severity, finding.code, finding.sentence));
        let objects: Vec<String> = finding.objects.iter().map(ToString::to_string).collect();
        text.push_str(&format!("    {}\n", objects.join(", ")));
        text.push_str(&format!("    {}\n", finding.remedy));
    }
    text.extend(report.unchecked.iter().map(|one| format!("unchecked: {}\n", serde_json::to_string(one).unwrap())));
    text
}

#[test]
fn what_is_said_of_captured_clusters_with_one_thing_otherwise_stays_as_it_is() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for folder in folders_with("varied.yaml") {
        let mut said = String::new();
        let variations: Vec<Variation> = read(&folder.join("varied.yaml"));
        count += variations.len();
        let all: Vec<(String, Value)> = documents(&folder).into_iter().flat_map(one_by_one).collect();
        for variation in &variations {
            let cluster = varied(&folder, all.clone(), variation);
            said.push_str(&format!("==== {}\n\n", variation.what));
            let case = folder.join("case.yaml");
            if let Some(ask) = &variation.ask {
                said.push_str(&stuck(&cluster, ask));
            } else if case.is_file() {
                said.push_str(&stuck(&cluster, &read::<Case>(&case).ask));
            }
            if folder.join("preflight.yaml").is_file() {
                said.push_str(&before(&cluster, &folder));
            }
            said.push('\n');
        }
        wrong.extend(differs(&folder.join("varied.txt"), &said));
    }
    assert!(count >= CHANGES, "{count} changes");
    assert_none(&wrong);
}
