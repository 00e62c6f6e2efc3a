//! Captured clusters, played: what `drover` says of each, word for word, and that the true cause comes first.
//!
//! See `tests/clusters/README.md` for how a case is added.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what went wrong by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use serde_json::{Value, json};

/// The least number of clusters that are stuck or will be.
const CASES: usize = 40;

/// What is compared, and the command that prints it; `ASK` stands for what the case asks about.
const OUTPUTS: [(&str, &[&str]); 4] = [
    ("why.txt", &["why", "ASK"]),
    ("why.json", &["why", "ASK", "-o", "json"]),
    ("status.txt", &["status"]),
    ("status.json", &["status", "-o", "json"]),
];

#[derive(Deserialize)]
struct Case {
    /// `plan/NAMESPACE/NAME`, `node/NAME` or `pod/NAMESPACE/NAME`.
    ask: String,
    /// The object that holds it up in truth: `Pod/shop/cart-0`.
    cause: String,
    /// Something that the first statement or its remedy says.
    says: String,
}

fn clusters() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clusters")
}

fn drover(args: &[&str], objects: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_drover")).args(args).arg("--from").arg(objects).output().unwrap();
    assert!(
        output.status.success() || !output.stdout.is_empty(),
        "drover {} of {}: {}",
        args.join(" "),
        objects.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn cases() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(clusters()).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<PathBuf> = entries.filter(|path| path.join("case.yaml").is_file()).collect();
    cases.sort();
    cases
}

fn read(folder: &Path) -> Case {
    let text = std::fs::read_to_string(folder.join("case.yaml")).unwrap();
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
}

/// What differs from what is written down; with `UPDATE=1` it is written down anew.
fn differences(folder: &Path, case: &Case) -> Vec<String> {
    let update = std::env::var_os("UPDATE").is_some();
    let mut differences = Vec::new();
    for (file, command) in OUTPUTS {
        let args: Vec<&str> = command.iter().map(|arg| if *arg == "ASK" { case.ask.as_str() } else { arg }).collect();
        let said = drover(&args, &folder.join("objects"));
        let path = folder.join(file);
        if update {
            std::fs::write(&path, said).unwrap();
        } else if std::fs::read_to_string(&path).unwrap_or_default() != said {
            differences.push(format!("{}: drover {} says now:\n{said}", path.display(), args.join(" ")));
        }
    }
    differences
}

fn first_cause(folder: &Path, case: &Case) -> Option<String> {
    let said: Value =
        serde_json::from_str(&drover(&["why", &case.ask, "-o", "json"], &folder.join("objects"))).unwrap();
    let first = &said["causes"][0];
    let parts = ["kind", "namespace", "name"].map(|field| first["object"][field].as_str().unwrap_or_default());
    let object = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
    let said = [&first["statement"], &first["remedy"]].map(|text| text.as_str().unwrap_or_default().to_owned());
    let is_told = object == case.cause && said.iter().any(|text| text.contains(&case.says));
    (!is_told).then(|| format!("{}: {object} is named first ({}), not {}", folder.display(), said[0], case.cause))
}

#[test]
fn every_captured_cluster_names_its_true_cause_first() {
    let cases = cases();
    assert!(cases.len() >= CASES, "{} cases", cases.len());
    let wrong: Vec<String> = cases.iter().filter_map(|folder| first_cause(folder, &read(folder))).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_said_of_captured_clusters_stays_as_it_is() {
    let wrong: Vec<String> = cases().iter().flat_map(|folder| differences(folder, &read(folder))).collect();
    assert!(wrong.is_empty(), "{}\nif it is meant: UPDATE=1 cargo test -p drover --test clusters", wrong.join("\n"));
}

#[test]
fn healthy_clusters_of_every_size_raise_no_alarm() {
    for nodes in [1, 3, 10, 1000] {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("healthy-{nodes}.json"));
        std::fs::write(&path, healthy(nodes).to_string()).unwrap();
        assert_eq!(drover(&["why", "--all"], &path), "nothing waits\n", "{nodes} nodes");
        let status: Value = serde_json::from_str(&drover(&["status", "-o", "json"], &path)).unwrap();
        assert_eq!(status["nodes"]["ready"], nodes, "{nodes} nodes");
        assert_eq!(status["plans"][0]["counts"]["updated"], nodes, "{nodes} nodes");
        assert_eq!(status["drains"], json!([]), "{nodes} nodes");
        std::fs::remove_file(&path).unwrap();
    }
}

/// Nodes that all are upgraded, with pods that can be spared.
fn healthy(nodes: usize) -> Value {
    /// Of a Plan for version v1 without a service account and Secrets.
    const HASH: &str = "a1e0da6de7d820c953e767885bfdeb3b120cd9ec65af03e00036c2d6";
    let at = "2026-03-02T09:59:55Z";
    let mut items = vec![json!({"apiVersion": "upgrade.cattle.io/v1", "kind": "Plan",
        "metadata": {"name": "up", "namespace": "system-upgrade", "uid": "p", "creationTimestamp": "2026-03-01T09:00:00Z"},
        "spec": {"concurrency": 1, "nodeSelector": {}, "upgrade": {"image": "x"}, "version": "v1"},
        "status": {"latestVersion": "v1", "latestHash": HASH, "conditions": [
            {"type": "Validated", "status": "True", "lastUpdateTime": "2026-03-01T09:00:00Z"},
            {"type": "Complete", "status": "True", "reason": "Complete", "lastUpdateTime": "2026-03-01T09:30:00Z"}]}})];
    for index in 0..nodes {
        let name = format!("n{index}");
        items.push(json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "plan.upgrade.cattle.io/up": HASH}},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": at}]}}));
        items.push(json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": {"holderIdentity": name, "renewTime": at}}));
        let owner =
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r", "controller": true}]);
        items.push(json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("web-{index}"), "namespace": "shop", "uid": format!("w{index}"),
                "labels": {"app": "web"}, "ownerReferences": owner},
            "spec": {"nodeName": name, "containers": [{"name": "web", "resources": {"requests": {"cpu": "100m"}}}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}));
    }
    let spare = nodes.saturating_sub(1);
    if nodes > 1 {
        items.push(json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
            "status": {"expectedPods": nodes, "currentHealthy": nodes, "desiredHealthy": spare, "disruptionsAllowed": 1}}));
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}
