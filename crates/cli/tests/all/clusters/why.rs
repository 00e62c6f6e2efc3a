//! What `why` and `status` say of clusters that are stuck.

use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{assert_none, differs, folders_with, read};

const CASE: &str = "case.yaml";
/// What is said of each is held by the tests of `drover-core`; of every so many of them, that the program prints just that.
const EVERY: usize = 8;

/// What is compared, and the command that prints it; `ASK` stands for what the case asks about.
const OUTPUTS: [(&str, &[&str]); 4] = [
    ("why.txt", &["why", "ASK"]),
    ("why.json", &["why", "ASK", "-o", "json"]),
    ("status.txt", &["status"]),
    ("status.json", &["status", "-o", "json"]),
];

/// What is compared beside that where the case asks about a guest cluster.
const OF_GUESTS: [(&str, &[&str]); 2] =
    [("cluster.txt", &["status", "ASK"]), ("cluster.json", &["status", "ASK", "-o", "json"])];

#[derive(Deserialize)]
struct Case {
    /// `upgrade/NAME`, `plan/NAMESPACE/NAME`, `node/NAME`, `pod/NAMESPACE/NAME`, ….
    ask: String,
}

pub fn drover(args: &[&str], objects: &Path) -> String {
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

fn differences(folder: &Path) -> Vec<String> {
    let case: Case = read(&folder.join(CASE));
    let asked = |command: &[&'static str]| -> String {
        let args: Vec<&str> = command.iter().map(|arg| if *arg == "ASK" { case.ask.as_str() } else { arg }).collect();
        drover(&args, &folder.join("objects"))
    };
    let is_guest = ["tkc/", "cluster/"].iter().any(|kind| case.ask.starts_with(kind));
    let outputs = OUTPUTS.iter().chain(OF_GUESTS.iter().filter(|_| is_guest));
    outputs.filter_map(|(file, command)| differs(&folder.join(file), &asked(command))).collect()
}

#[test]
fn what_is_said_of_captured_clusters_is_printed() {
    let folders = folders_with(CASE);
    assert_none(&folders.iter().step_by(EVERY).flat_map(|folder| differences(folder)).collect::<Vec<_>>());
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
