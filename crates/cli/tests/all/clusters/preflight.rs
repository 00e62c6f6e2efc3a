//! Captured clusters before an upgrade: what `drover preflight` says of each, word for word, with its exit code.
//!
//! A case is a folder of `tests/clusters` with `preflight.yaml`: what is asked, and the code that has to come first.

use std::path::Path;
use std::process::{Command, Output};

use serde::Deserialize;
use serde_json::{Value, json};

use super::{assert_none, differs, folders_with, read};

const CASE: &str = "preflight.yaml";

#[derive(Deserialize)]
struct Case {
    /// The arguments: an object, or `--to VERSION`.
    asked: String,
    /// The exit code.
    exit: i32,
    /// The code of the finding that is told first; none if nothing is found.
    #[serde(default)]
    first: Option<String>,
}

fn preflight(args: &[&str], from: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drover"));
    command.arg("preflight").args(args).arg("--from").arg(from).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn differences(folder: &Path) -> Vec<String> {
    let case: Case = read(&folder.join(CASE));
    let args: Vec<&str> = case.asked.split_whitespace().collect();
    let objects = folder.join("objects");
    let name = folder.file_name().unwrap().to_string_lossy().into_owned();
    let (text, document) = (preflight(&args, &objects), preflight(&[&args[..], &["-o", "json"]].concat(), &objects));
    let report: Value = serde_json::from_str(&said(&document)).unwrap();
    let mut wrong = Vec::new();
    if text.status.code() != Some(case.exit) || document.status.code() != Some(case.exit) {
        wrong.push(format!("{name}: exit code {:?}, not {}", text.status.code(), case.exit));
    }
    let first = report["findings"][0]["code"].as_str().map(str::to_owned);
    if first != case.first {
        wrong.push(format!("{name}: {first:?} comes first, not {:?}", case.first));
    }
    wrong.extend(differs(&folder.join("preflight.txt"), &said(&text)));
    wrong.extend(differs(&folder.join("preflight.json"), &said(&document)));
    wrong
}

#[test]
fn every_captured_cluster_is_told_its_true_trouble_first() {
    let cases = folders_with(CASE);
    assert!(cases.len() >= 35, "{} cases", cases.len());
    assert_none(&cases.iter().flat_map(|folder| differences(folder)).collect::<Vec<_>>());
}

/// Nodes that are well, each with a pod that can be spared, and nothing that was left out.
fn healthy(nodes: usize) -> Value {
    let at = "2026-03-02T10:00:00Z";
    let mut items = vec![json!({
        "apiVersion": "drover.dev/v1", "kind": "Survey", "metadata": { "name": "survey" }, "lookedAt": at, "complete": true,
    })];
    items.push(json!({
        "apiVersion": "k3s.cattle.io/v1", "kind": "ETCDSnapshotFile", "metadata": { "name": "one" },
        "status": { "creationTime": "2026-03-02T05:00:00Z", "readyToUse": true },
    }));
    for index in 0..nodes {
        let name = format!("n{index}");
        let voter = json!({ "type": "EtcdIsVoter", "status": "True" });
        let ready = json!({ "type": "Ready", "status": "True" });
        let server = index < if nodes < 3 { 1 } else { 3 };
        let role = if server { "node-role.kubernetes.io/control-plane" } else { "pool" };
        items.push(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name, role: "true" } },
            "status": {
                "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "110" }, "nodeInfo": { "kubeletVersion": "v1.33.5+k3s1" },
                "conditions": if server { json!([ready, voter]) } else { json!([ready]) },
            },
        }));
        items.push(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": name, "namespace": "kube-node-lease" }, "spec": { "renewTime": "2026-03-02T09:59:55Z" },
        }));
        items.push(json!({
            "apiVersion": "drover.dev/v1", "kind": "Kubelet", "metadata": { "name": name },
            "diskUsed": 50u64 << 30, "diskCapacity": 200u64 << 30, "imageGarbageThreshold": 85,
        }));
        let owner =
            json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r", "controller": true }]);
        items.push(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": format!("web-{index}"), "namespace": "shop", "uid": format!("w{index}"),
                "labels": { "app": "web" }, "ownerReferences": owner },
            "spec": { "nodeName": name, "containers": [{ "name": "web", "resources": { "requests": { "cpu": "100m" } } }] },
            "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
        }));
    }
    items.push(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "web", "namespace": "shop" },
        "spec": { "maxUnavailable": 1, "selector": { "matchLabels": { "app": "web" } } },
        "status": { "expectedPods": nodes, "currentHealthy": nodes, "desiredHealthy": nodes - 1, "disruptionsAllowed": 1 },
    }));
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

#[test]
fn healthy_clusters_of_every_size_raise_no_alarm() {
    for nodes in [1, 3, 10, 1000] {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("preflight-{nodes}.json"));
        std::fs::write(&path, healthy(nodes).to_string()).unwrap();
        let output = preflight(&["--to", "v1.33.6+k3s1", "-o", "json"], &path);
        let report: Value = serde_json::from_str(&said(&output)).unwrap();
        assert_eq!(report["findings"], json!([]), "{nodes} nodes");
        assert_eq!(report["unchecked"], json!([]), "{nodes} nodes");
        assert_eq!((&report["verdict"], output.status.code()), (&json!("clear"), Some(0)), "{nodes} nodes");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn what_a_folder_does_not_hold_is_said_and_never_counts_as_passed() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("preflight-part");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("nodes.yaml"), "kind: List\napiVersion: v1\nitems: []\n").unwrap();
    std::fs::write(folder.join("poddisruptionbudgets.yaml"), "kind: List\napiVersion: v1\nitems: []\n").unwrap();

    let output = preflight(&[], &folder);

    assert_eq!(output.status.code(), Some(2));
    let text = said(&output);
    assert!(text.contains("NOT CHECKED  Pod: not collected\n"), "{text}");
    assert!(!text.contains("PodDisruptionBudget: not collected"), "{text}");
    assert!(!text.contains("longhorn"), "a product of which nothing is there is not there: {text}");
}

#[test]
fn a_manifest_is_checked_before_it_is_applied() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (cluster, plan) = (folder.join("preflight-cluster.json"), folder.join("preflight-plan.yaml"));
    std::fs::write(&cluster, healthy(3).to_string()).unwrap();
    let manifest = "apiVersion: upgrade.cattle.io/v1\nkind: Plan\nmetadata: {name: up, namespace: ns}\n\
                    spec: {concurrency: 1, version: v1.33.6, nodeSelector: {}, secrets: [{name: gone, path: /x}], upgrade: {image: x}}\n";
    std::fs::write(&plan, manifest).unwrap();

    let output = preflight(&["-f", &plan.to_string_lossy(), "-o", "markdown"], &cluster);

    assert_eq!(output.status.code(), Some(1));
    let text = said(&output);
    assert!(text.starts_with("## Pre-flight of plan/ns/up\n\n**blocked (1 finding blocks, "), "{text}");
    let row = "| **blocks** | DRV-PLAN-002<br>docs/checks.md#drv-plan-002 | Plan ns/up: secrets \"gone\" not found.";
    assert!(text.contains(row), "{text}");
}

#[test]
fn what_cannot_be_checked_for_is_said_in_a_sentence() {
    let cluster = Path::new(env!("CARGO_TARGET_TMPDIR")).join("preflight-one.json");
    std::fs::write(&cluster, healthy(1).to_string()).unwrap();
    let refusal = |args: &[&str], from: &Path| {
        let output = preflight(args, from);
        assert!(output.stdout.is_empty(), "{}", said(&output));
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };

    let (code, error) = refusal(&["plan/ns/nothing"], &cluster);
    assert_eq!((code, error.as_str()), (Some(2), "error: there is no plan/ns/nothing, or it cannot be seen\n"));
    let (code, error) = refusal(&["pod/ns/x"], &cluster);
    assert!(code == Some(2) && error.contains("give plan/NAMESPACE/NAME"), "{error}");
    let (code, error) = refusal(&[], Path::new("/nowhere"));
    assert!(code == Some(1) && error.contains("cannot read /nowhere"), "{error}");
    let (code, error) = refusal(&["-f", &cluster.to_string_lossy()], &cluster);
    assert!(code == Some(1) && error.contains("asks for no upgrade"), "{error}");
}
