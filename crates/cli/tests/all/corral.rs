//! `drover corral` serves clients that know nothing of it.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::process::{Command, Output};

use crate::served::Corral;

/// What kubectl prints; none where there is no kubectl.
fn kubectl(corral: &Corral, cache: &Path, arguments: &[&str]) -> Option<String> {
    let kubectl = Command::new("kubectl")
        .arg("--request-timeout=20s")
        .arg("--kubeconfig")
        .arg(corral.kubeconfig())
        .arg("--cache-dir")
        .arg(cache)
        .args(arguments)
        .output();
    let output = match kubectl {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("skipped: there is no kubectl here");
            return None;
        }
        Err(error) => panic!("kubectl does not start: {error}"),
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn kubectl_sees_its_three_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let corral = Corral::start(&["--write-kubeconfig", kubeconfig.to_str().unwrap()]);

    assert_eq!(corral.kubeconfig(), kubeconfig);
    assert!(corral.ready["address"].as_str().unwrap().starts_with("https://127.0.0.1:"));
    let Some(nodes) = kubectl(&corral, folder.path(), &["get", "nodes", "-o", "name"]) else { return };
    assert_eq!(nodes, "node/node-1\nnode/node-2\nnode/node-3\n");
}

#[test]
fn it_begins_with_the_objects_that_it_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let objects = folder.path().join("objects");
    std::fs::create_dir(&objects).unwrap();
    std::fs::write(objects.join("1.yaml"), "apiVersion: v1\nkind: Node\nmetadata: {name: mine}\n").unwrap();
    let list = r#"{"apiVersion":"v1","kind":"List","items":[
        {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"shop"},"data":{"a":"b"}}]}"#;
    std::fs::write(objects.join("2.json"), list).unwrap();
    let corral = Corral::start(&["--load", objects.to_str().unwrap()]);

    let Some(nodes) = kubectl(&corral, folder.path(), &["get", "nodes", "-o", "name"]) else { return };
    assert_eq!(nodes, "node/mine\n");
    let settings = ["get", "configmap", "-n", "shop", "settings", "-o", "jsonpath={.data.a}"];
    assert_eq!(kubectl(&corral, folder.path(), &settings).as_deref(), Some("b"));
}

#[test]
fn a_scenario_brings_its_plan_along() {
    let folder = tempfile::tempdir().unwrap();
    let corral = Corral::start(&["--scenario", "three-nodes"]);

    let plans = ["get", "plans.upgrade.cattle.io", "-A", "-o", "name"];
    let Some(plans) = kubectl(&corral, folder.path(), &plans) else { return };
    assert_eq!(plans, "plan.upgrade.cattle.io/upgrade\n");
}

#[test]
fn a_scenario_brings_its_guest_clusters_along() {
    let corral = Corral::start(&["--scenario", "guest-tkc"]);
    let kubeconfig = corral.kubeconfig();

    let asked = drover(&[
        "why",
        "tkc/default/my-tkc",
        "--into-guest",
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
        "-o",
        "json",
    ]);
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    let said: serde_json::Value = serde_json::from_slice(&asked.stdout).unwrap();
    let unseen = said["unseen"].to_string();
    assert!(!unseen.contains("my-tkc"), "the guest answers where its kubeconfig leads: {unseen}");
    // No operator is there to update it, and nothing else is wrong with it.
    let statements: Vec<&str> =
        said["causes"].as_array().unwrap().iter().filter_map(|cause| cause["statement"].as_str()).collect();
    assert!(statements.iter().all(|statement| !statement.contains("no distribution")), "{statements:?}");
    assert_eq!(said["object"]["name"], "my-tkc");
}

/// A zip archive with these files.
fn archive(path: &Path, files: &[(&str, &str)]) {
    let mut archive = zip::ZipWriter::new(File::create(path).unwrap());
    for (file, text) in files {
        archive.start_file(*file, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(text.as_bytes()).unwrap();
    }
    archive.finish().unwrap();
}

/// As Harvester's collector writes it: without what a server fills in, and with "null" for what is empty.
const NODES: &str = r#"
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata:
    name: harv-1
    uid: 9d5c4a3e-0000-4000-8000-000000000001
    resourceVersion: "1000"
    creationTimestamp: "2026-01-01T00:00:00Z"
    labels: {kubernetes.io/hostname: harv-1, node-role.kubernetes.io/etcd: "null"}
  spec: {}
  status:
    conditions:
    - {type: Ready, status: "False", reason: KubeletNotReady, message: cni plugin not initialized, lastTransitionTime: "2026-01-01T09:00:00Z", lastHeartbeatTime: "2026-01-01T10:00:00Z"}
"#;
const CONFIGMAPS: &str = r#"
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: settings, namespace: shop}
  data: {empty: "null", a: b}
"#;

fn drover(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_drover")).args(arguments).output().unwrap()
}

#[test]
fn a_support_bundle_is_served_to_kubectl_and_explained() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("supportbundle.zip");
    let root = "supportbundle_1/yamls";
    archive(
        &bundle,
        &[
            ("supportbundle_1/metadata.yaml", "projectName: Harvester\n"),
            (&format!("{root}/cluster/v1/nodes.yaml"), NODES),
            (&format!("{root}/namespaced/shop/v1/configmaps.yaml"), CONFIGMAPS),
            ("supportbundle_1/logs/kube-system/etcd/etcd.log", "hello"),
        ],
    );
    let corral = Corral::start(&["--load", bundle.to_str().unwrap()]);

    if let Some(nodes) = kubectl(&corral, folder.path(), &["get", "nodes", "--no-headers"]) {
        assert!(nodes.starts_with("harv-1 ") && nodes.contains("NotReady") && nodes.contains("etcd"), "{nodes}");
        let data = ["get", "configmap", "-n", "shop", "settings", "-o", "jsonpath={.data.a}/{.data.empty}"];
        assert_eq!(kubectl(&corral, folder.path(), &data).as_deref(), Some("b/"));
    }
    let why = drover(&["why", "node/harv-1", "--from", bundle.to_str().unwrap()]);
    let said = String::from_utf8(why.stdout).unwrap();
    assert!(said.contains("! Node harv-1 is not Ready: cni plugin not initialized\n"), "{said}");
}

#[test]
fn an_archive_of_upgrade_logs_is_told_from_a_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let logs = folder.path().join("hvst-upgrade-x-upgradelog-archive.zip");
    archive(&logs, &[("logs/hvst-upgrade-x/apply-manifests.log", "Waiting for plan…")]);

    for command in [["why", "--all"], ["preflight", "--to=v1.6.0"], ["status", "--output=json"]] {
        let output = drover(&[&command[..], &["--from", logs.to_str().unwrap()]].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{command:?}");
        assert!(said.contains("holds logs and no objects; give a support bundle"), "{command:?}: {said}");
    }
}
