//! Captured clusters: what is said of each, field by field, and that the true cause comes first.
//!
//! See `tests/clusters/README.md` for how a case is added. What the command line prints of them is held in `crates/cli/tests/all/clusters`.

#[path = "../../../../tests/clusters/cases.rs"]
pub mod cases;

use std::path::{Path, PathBuf};

use drover_core::cluster::{Cluster, Collection, ObjectRef};
use drover_core::preflight::{Intent, examine};
use drover_core::status::{of_guest, of_tanzu, overview};
use drover_core::why::explain;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use self::cases::{assert_none, differs, folders_with, read};

/// The least number of clusters that are stuck or will be.
const CASES: usize = 120;
/// And of those that are looked at before an upgrade.
const BEFORE: usize = 35;

#[derive(serde::Deserialize)]
pub struct Case {
    /// `upgrade/NAME`, `plan/NAMESPACE/NAME`, `node/NAME`, `pod/NAMESPACE/NAME`, ….
    pub ask: String,
    /// The object that holds it up in truth: `Pod/shop/cart-0`.
    cause: String,
    /// Something that the first statement or its remedy says.
    says: String,
}

#[derive(serde::Deserialize)]
pub struct Before {
    /// The arguments: an object, or `--to VERSION`.
    #[serde(default)]
    pub asked: String,
    /// The code of the finding that is told first; none if nothing is found.
    #[serde(default)]
    first: Option<String>,
}

fn cluster(folder: &Path) -> Cluster {
    cluster_of(documents(folder))
}

/// Each object with the name of the file that it stands in.
pub fn documents(folder: &Path) -> Vec<(String, Value)> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder.join("objects")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let stem = file.file_stem().unwrap().to_string_lossy().into_owned();
        let documents: Vec<Value> = serde_saphyr::from_multiple(&std::fs::read_to_string(&file).unwrap()).unwrap();
        // A file without an object says, too, that its kind was looked at.
        all.push((stem.clone(), Value::Null));
        all.extend(documents.into_iter().map(|document| (stem.clone(), document)));
    }
    all
}

pub fn cluster_of(documents: Vec<(String, Value)>) -> Cluster {
    let mut collection = Collection::new(Timestamp::UNIX_EPOCH);
    for (file, document) in documents {
        collection.saw_resource(&file);
        take(&mut collection, document);
    }
    collection.finish()
}

pub fn intent(cluster: &Cluster, asked: &str) -> Intent {
    match asked.split_whitespace().collect::<Vec<_>>()[..] {
        [] => Intent::anything(),
        ["--to", version] => Intent::version(version),
        [object] => Intent::named(cluster, object).unwrap(),
        _ => panic!("{asked}"),
    }
}

/// A list stands for its items; an empty one says that there is none.
fn take(collection: &mut Collection, mut document: Value) {
    let kind = document["kind"].as_str().unwrap_or_default().to_owned();
    let Some(Value::Array(items)) = document.get_mut("items").map(Value::take) else {
        if !document.is_null() && kind != "List" {
            collection.take(&document.to_string());
        }
        return;
    };
    let api_version = document["apiVersion"].as_str().unwrap_or_default().to_owned();
    let of = kind.trim_end_matches("List");
    if items.is_empty() && !of.is_empty() {
        collection.saw(&api_version, of);
    }
    for mut item in items {
        if item.get("kind").is_none() {
            item["kind"] = of.into();
            item["apiVersion"] = api_version.as_str().into();
        }
        take(collection, item);
    }
}

fn json(said: &impl Serialize) -> String {
    serde_json::to_string_pretty(said).unwrap() + "\n"
}

#[test]
fn every_cluster_that_is_stuck_names_its_true_cause_first() {
    let cases = folders_with("case.yaml");
    assert!(cases.len() >= CASES, "{} cases", cases.len());
    let mut wrong = Vec::new();
    for folder in &cases {
        let case: Case = read(&folder.join("case.yaml"));
        let explanation = explain(&cluster(folder), &ObjectRef::named(&case.ask).unwrap()).unwrap();
        let Some(first) = explanation.causes.first() else {
            wrong.push(format!("{}: no cause is named", folder.display()));
            continue;
        };
        let says = [first.statement.as_str(), first.remedy.as_deref().unwrap_or_default()];
        if first.object.to_string() != case.cause || !says.iter().any(|text| text.contains(&case.says)) {
            let named = &first.object;
            wrong.push(format!("{}: {named} is named first ({}), not {}", folder.display(), says[0], case.cause));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_said_of_clusters_that_are_stuck_stays_as_it_is() {
    let mut wrong = Vec::new();
    for folder in folders_with("case.yaml") {
        let case: Case = read(&folder.join("case.yaml"));
        let (cluster, object) = (cluster(&folder), ObjectRef::named(&case.ask).unwrap());
        let (explanation, status) = (explain(&cluster, &object).unwrap(), overview(&cluster));
        let mut said = vec![
            ("why.txt", explanation.text(cluster.looked_at)),
            ("why.json", json(&explanation)),
            ("status.txt", status.text(cluster.looked_at)),
            ("status.json", json(&status)),
        ];
        let (namespace, name) = (object.namespace.as_str(), object.name.as_str());
        let guest = match object.kind.as_str() {
            "TanzuKubernetesCluster" => cluster.tanzu.clusters.get(namespace, name).map(|own| of_tanzu(&cluster, own)),
            "Cluster" => cluster.cluster_api.clusters.get(namespace, name).map(|own| of_guest(&cluster, own)),
            _ => None,
        };
        if let Some(guest) = guest {
            said.extend([("cluster.txt", guest.text()), ("cluster.json", json(&guest))]);
        }
        wrong.extend(said.iter().filter_map(|(file, text)| differs(&folder.join(file), text)));
    }
    assert_none(&wrong);
}

#[test]
fn every_cluster_before_an_upgrade_is_told_its_true_trouble_first() {
    let cases = folders_with("preflight.yaml");
    assert!(cases.len() >= BEFORE, "{} cases", cases.len());
    let mut wrong = Vec::new();
    for folder in &cases {
        let case: Before = read(&folder.join("preflight.yaml"));
        let cluster = cluster(folder);
        let intent = intent(&cluster, &case.asked);
        let report = examine(&cluster, &intent);
        let first = report.findings.first().map(|finding| finding.code.to_owned());
        if first != case.first {
            wrong.push(format!("{}: {first:?} comes first, not {:?}", folder.display(), case.first));
        }
        wrong.extend(differs(&folder.join("preflight.json"), &json(&report)));
    }
    assert_none(&wrong);
}
