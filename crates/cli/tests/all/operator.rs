//! `drover operator` and `drover corral`, each in a process of its own.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::served::Corral;
use drover_api::plan::Plan;
use drover_api::plan::conditions::{COMPLETE, TRUE};
use drover_operator::{Connection, connect};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use rustix::process::{Pid, Signal, kill_process};

/// One node, whose upgrade takes no longer than its pod needs to start.
const OBJECTS: &str = "
apiVersion: v1
kind: Node
metadata:
  name: node-1
  labels: {kubernetes.io/hostname: node-1}
  annotations: {corral.drover.dev/kubelet: simulated, corral.drover.dev/job-duration: 0s}
---
apiVersion: upgrade.cattle.io/v1
kind: Plan
metadata: {name: up, namespace: system-upgrade}
spec:
  version: v9.9.9
  concurrency: 1
  cordon: true
  nodeSelector: {}
  upgrade: {image: upgrade}
";

fn is_complete(plan: &Plan) -> bool {
    let mut conditions = plan.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| condition.type_ == COMPLETE && condition.status == TRUE)
}

/// Ends with the test.
struct Operator(Option<Child>);

impl Operator {
    fn start(corral: &Corral) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_drover"))
            .args(["operator", "-o", "json", "--kubeconfig"])
            .arg(corral.kubeconfig())
            .env("POD_NAME", "my-pod")
            .env("SYSTEM_UPGRADE_JOB_BACKOFF_LIMIT", "many")
            .env_remove("RUST_LOG")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Operator(Some(child))
    }

    fn stop(mut self) -> Output {
        let child = self.0.take().unwrap();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        child.wait_with_output().unwrap()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[tokio::test]
async fn it_upgrades_a_node_and_gives_its_lease_back_when_it_is_told_to_stop() {
    let folder = tempfile::tempdir().unwrap();
    let (objects, crds) = (folder.path().join("objects.yaml"), folder.path().join("crds.json"));
    std::fs::write(&objects, OBJECTS).unwrap();
    std::fs::write(
        &crds,
        serde_json::json!({ "kind": "List", "items": drover_api::crds::of(drover_api::crds::Controller::Plan) })
            .to_string(),
    )
    .unwrap();
    let corral = Corral::start(&["--load", folder.path().to_str().unwrap()]);
    let connection = Connection { kubeconfig: Some(corral.kubeconfig()), context: None, server: None };
    let client = connect(&connection).await.unwrap();
    let plans: Api<Plan> = Api::namespaced(client.clone(), "system-upgrade");
    let leases: Api<Lease> = Api::namespaced(client.clone(), "system-upgrade");
    let holder = async || leases.get("system-upgrade-controller").await.unwrap().spec.unwrap().holder_identity.unwrap();

    let operator = Operator::start(&corral);
    let mut looks = 0;
    while !is_complete(&plans.get("up").await.unwrap()) {
        looks += 1;
        assert!(looks < 300, "it did not end: {:#?}", plans.get("up").await.unwrap().status);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(holder().await.starts_with("my-pod-"), "{}", holder().await);
    let node = Api::<Node>::all(client.clone()).get("node-1").await.unwrap();
    assert_eq!(node.status.unwrap().node_info.unwrap().kubelet_version, "v9.9.9");
    assert_eq!(node.spec.unwrap().unschedulable, None);

    let output = operator.stop();
    assert!(output.status.success());
    assert_eq!(holder().await, "");

    let log = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said = |words: &str| lines.iter().any(|line| line["message"].as_str().unwrap().contains(words));
    assert!(said("Plans of namespace system-upgrade"), "{log}");
    assert!(said("SYSTEM_UPGRADE_JOB_BACKOFF_LIMIT is \"many\", which cannot be read: 2 is used instead"), "{log}");
    assert!(said("giving back the Lease"), "{log}");
}

/// What is answered to one request.
fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: drover\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn watching_only_it_tells_of_the_cluster_and_leaves_it_alone() {
    let corral = Corral::start(&["--scenario", "three-nodes"]);
    let mut child = Command::new(env!("CARGO_BIN_EXE_drover"))
        .args(["operator", "--watch-only", "--listen", "127.0.0.1:0", "-o", "json", "--kubeconfig"])
        .arg(corral.kubeconfig())
        .env_remove("RUST_LOG")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    // Its log is open as long as it runs.
    let mut log = BufReader::new(child.stderr.take().unwrap());
    log.read_line(&mut line).unwrap();
    let operator = Operator(Some(child));
    let said: serde_json::Value = serde_json::from_str(&line).unwrap();
    let address = said["message"].as_str().unwrap().split_once("answers on http://").unwrap().1.to_owned();

    let mut looks = 0;
    while !get(&address, "/status").contains(r#""nodes":{"all":3,"ready":3,"cordoned":0}"#) {
        looks += 1;
        assert!(looks < 150, "{}", get(&address, "/status"));
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(get(&address, "/status").contains(r#""driver":"nobody""#), "nobody acts on the Plan, this one neither");
    assert!(
        get(&address, "/metrics")
            .contains("drover_plan_nodes{namespace=\"system-upgrade\",plan=\"upgrade\",state=\"selected\"} 3")
    );
    assert!(operator.stop().status.success());
}
