//! Real nodes come up fast, run pods, crash and boot again, and leave nothing behind.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use drover_lab::nodes::{Cluster, ClusterOptions, OLD_KUBELET};
use drover_lab::{Lab, images};

const PROGRAM: &str = env!("CARGO_BIN_EXE_drover-lab");

/// Two pods of a server, on different nodes.
const WEB: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec:
  replicas: 2
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec:
      topologySpreadConstraints:
      - { maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: { matchLabels: { app: web } } }
      containers: [{ name: web, image: "localhost/web:lab", imagePullPolicy: Never }]
"#;

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(90), "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn field(lab: &Lab, object: &str, path: &str) -> String {
    lab.kubectl(&["get", object, "-o", &format!("jsonpath={path}")]).unwrap()
}

fn those_there(paths: &[PathBuf]) -> Vec<&PathBuf> {
    paths.iter().filter(|path| path.exists()).collect()
}

#[test]
#[ignore = "needs the lab and root: make test-real"]
fn three_real_nodes_run_pods_survive_a_crash_and_go_away_wholly() {
    let images = vec![images::web().unwrap()];
    let started = Instant::now();
    let mut cluster = Cluster::up(&ClusterOptions { images, ..ClusterOptions::new(3, PROGRAM) }).unwrap();
    eprintln!("three nodes in {:.1?}", started.elapsed());
    let versions = "jsonpath={.items[*].status.nodeInfo.kubeletVersion}";
    assert_eq!(cluster.lab().kubectl(&["get", "nodes", "-o", versions]).unwrap(), [OLD_KUBELET; 3].join(" "));

    cluster.lab().kubectl_apply(WEB).unwrap();
    cluster.lab().kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]).unwrap();
    let pods = cluster.lab().kubectl(&[
        "get",
        "pods",
        "-o",
        "jsonpath={range .items[*]}{.metadata.name} {.spec.nodeName}{\"\\n\"}{end}",
    ]);
    let pods = pods.unwrap();
    let (pod, node) = pods.lines().next().unwrap().split_once(' ').unwrap();
    assert!(cluster.lab().kubectl(&["logs", pod]).unwrap().contains("serving on 0.0.0.0:8080"));

    let boot = field(cluster.lab(), &format!("node/{node}"), "{.status.nodeInfo.bootID}");
    let crashed = Instant::now();
    cluster.crash(node).unwrap();
    cluster.boot(node).unwrap();
    until("the node has a new boot id", || {
        field(cluster.lab(), &format!("node/{node}"), "{.status.nodeInfo.bootID}") != boot
    });
    until("its pod runs again", || {
        field(cluster.lab(), &format!("pod/{pod}"), "{.status.containerStatuses[0].restartCount}") == "1"
            && cluster.lab().kubectl(&["wait", "--for=condition=Ready", &format!("pod/{pod}"), "--timeout=30s"]).is_ok()
    });
    eprintln!("{node} crashed, booted, and its pod ran again in {:.1?}", crashed.elapsed());

    let (dir, cgroups) = (cluster.lab().dir().to_owned(), cluster.cgroups());
    let processes: Vec<PathBuf> = cluster.lab().process_ids().iter().map(|pid| format!("/proc/{pid}").into()).collect();
    assert_eq!(those_there(&cgroups).len(), cgroups.len());
    let ending = Instant::now();
    drop(cluster);
    eprintln!("gone in {:.1?}", ending.elapsed());

    assert!(!dir.exists());
    assert_eq!(those_there(&processes), Vec::<&PathBuf>::new());
    assert_eq!(those_there(&cgroups), Vec::<&PathBuf>::new());
}

#[test]
#[ignore = "needs the lab and root: make test-real"]
fn a_node_goes_away_wholly_when_its_owner_is_killed() {
    let mut command = Command::new(PROGRAM);
    let mut owner = command.args(["up", "--real-nodes", "1"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines().map(Result::unwrap);
    let logs = lines.find_map(|line| line.strip_prefix("The components' logs are in ").map(str::to_owned)).unwrap();
    let dir = PathBuf::from(logs.split_once("/logs.").unwrap().0);
    let cgroups: Vec<PathBuf> = fs::read_to_string(dir.join("cgroups")).unwrap().lines().map(PathBuf::from).collect();
    let record = fs::read_to_string(dir.join("pids/node-n1")).unwrap();
    let first_process = Path::new("/proc").join(record.split_once(' ').unwrap().0);
    assert!(first_process.exists() && !cgroups.is_empty() && those_there(&cgroups).len() == cgroups.len());

    owner.kill().unwrap();
    owner.wait().unwrap();

    until("everything is gone", || !dir.exists() && !first_process.exists() && those_there(&cgroups).is_empty());
}
