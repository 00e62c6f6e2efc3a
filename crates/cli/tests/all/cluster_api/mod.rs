//! Guest clusters on real Cluster API: one whose control plane Drover replaces machine by machine, and one whose control plane is
//! KubeadmControlPlane's, side by side.
//!
//! Their machines are in memory only: API servers without kubelets, and members of etcd that can be asked, led and removed.
#![allow(clippy::disallowed_methods, reason = "what is measured here takes real time")]

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use drover_lab::ClusterApi;
use serde_json::Value;

const OLD: &str = "v1.33.13";
const NEW: &str = "v1.34.4";
const PATIENCE: Duration = Duration::from_secs(300);
const SHARED: &str = include_str!("shared.yaml");

struct Ground {
    cluster_api: ClusterApi,
}

impl Ground {
    fn kubectl(&self, arguments: &[&str]) -> String {
        self.cluster_api.lab().kubectl(arguments).unwrap()
    }

    /// `drover` as a person calls it who may do everything in the management cluster.
    fn drover(&self, arguments: &[&str]) -> Output {
        let lab = self.cluster_api.lab();
        let mut command = lab.command(env!("CARGO_BIN_EXE_drover"));
        command.args(arguments).arg("--kubeconfig").arg(lab.kubeconfig()).output().unwrap()
    }

    fn make(&self, name: &str, port: &str, control_plane: &str) {
        let address = self.cluster_api.guests_address();
        let filled = |text: &str| text.replace("NAME", name).replace("PORT", port).replace("ADDRESS", &address);
        self.cluster_api.lab().kubectl_apply(&filled(&format!("{control_plane}---\n{SHARED}"))).unwrap();
    }

    /// The Machines of a cluster, the control plane's or the workers'.
    fn machines(&self, cluster: &str, role: &str) -> Vec<Value> {
        let is_role = match role {
            "workers" => "!cluster.x-k8s.io/control-plane",
            _ => "cluster.x-k8s.io/control-plane",
        };
        let selector = format!("--selector=cluster.x-k8s.io/cluster-name={cluster},{is_role}");
        let list = self.kubectl(&["get", "machines.cluster.x-k8s.io", "--output=json", &selector]);
        let list: Value = serde_json::from_str(&list).unwrap();
        list["items"].as_array().unwrap().clone()
    }

    /// So many Machines, all Nodes of this version, and no other.
    fn are_all(&self, cluster: &str, role: &str, count: usize, version: &str) -> bool {
        let machines = self.machines(cluster, role);
        let is_node = |machine: &Value| {
            machine["spec"]["version"] == version
                && machine["status"]["nodeRef"]["name"].is_string()
                && machine["status"]["phase"] == "Running"
                && machine["metadata"]["deletionTimestamp"].is_null()
        };
        machines.len() == count && machines.iter().all(is_node)
    }

    fn await_all(&self, cluster: &str, role: &str, count: usize, version: &str) -> Duration {
        let started = Instant::now();
        while !self.are_all(cluster, role, count, version) {
            assert!(
                started.elapsed() < PATIENCE,
                "the {role} of {cluster} are not {count} of {version}: {:#?}",
                self.machines(cluster, role)
            );
            std::thread::sleep(Duration::from_millis(200));
        }
        started.elapsed()
    }

    fn in_guest(&self, kubeconfig: &Path, arguments: &[&str]) -> String {
        let output =
            self.cluster_api.lab().kubectl_command().arg("--kubeconfig").arg(kubeconfig).args(arguments).output();
        let output = output.unwrap();
        assert!(output.status.success(), "kubectl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What kubelets and kubeadm leave behind, and machines in memory do not: that static pods are those of files, so that a drain
    /// leaves them alone, and the configuration of kubelets. Pods are written whole: one that was patched is unreadable to the etcd
    /// in memory, which keeps its members there.
    fn play_kubelets_and_kubeadm(&self, cluster: &str) -> PathBuf {
        let kubeconfig = self.cluster_api.kubeconfig_of("default", cluster).unwrap();
        let system = "--namespace=kube-system";
        let pods =
            self.in_guest(&kubeconfig, &["get", "pods", system, "--selector=tier=control-plane", "--output=json"]);
        let mut pods: Value = serde_json::from_str(&pods).unwrap();
        for pod in pods["items"].as_array_mut().unwrap() {
            pod["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "file".into();
        }
        let file = self.cluster_api.lab().dir().join("static-pods.json");
        std::fs::write(&file, pods.to_string()).unwrap();
        self.in_guest(&kubeconfig, &["replace", "--validate=false", "--filename", file.to_str().unwrap()]);
        self.in_guest(&kubeconfig, &["create", "configmap", system, "kubelet-config", "--from-literal=kubelet={}"]);
        kubeconfig
    }

    fn upgrade_own(&self) -> String {
        let output = self.drover(&[
            "control-plane-upgrade",
            "--cluster-namespace=default",
            "--cluster-name=own",
            &format!("--kubernetes-version={NEW}"),
            "--upgrade-id=one",
            "--machine-timeout=5m",
        ]);
        said(&output)
    }

    /// Raises what is next of a cluster. Its workers are, once their control plane says that it is done.
    fn start(&self, cluster: &str) -> String {
        let started = Instant::now();
        loop {
            let output = self.drover(&["upgrade", "start", &format!("cluster/default/{cluster}"), "--to", NEW]);
            let is_early = String::from_utf8_lossy(&output.stderr).contains("the workers are raised when it is done");
            if !is_early || started.elapsed() > PATIENCE {
                return said(&output);
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// How a cluster stands in the table of all.
    fn in_the_table(&self, cluster: &str) -> Value {
        let table: Value = serde_json::from_str(&said(&self.drover(&["status", "clusters", "--output=json"]))).unwrap();
        let lines = table["clusters"].as_array().unwrap();
        lines.iter().find(|line| line["object"]["name"] == cluster).unwrap_or_else(|| panic!("{table:#}")).clone()
    }

    /// Real conditions are read as they are meant: of a cluster that has all that it asks for, nothing is said to be waited for or to be wrong.
    fn await_calm(&self, cluster: &str) {
        let object = format!("cluster/default/{cluster}");
        let started = Instant::now();
        loop {
            let (why, line) = (said(&self.drover(&["why", &object])), self.in_the_table(cluster));
            let preflight = self.drover(&["preflight", &object]);
            // Where something cannot be checked it ends with 2.
            let is_clear = preflight.status.code() != Some(1);
            if why.contains("it waits for nothing") && line["complete"] == true && is_clear {
                return;
            }
            let preflight = String::from_utf8_lossy(&preflight.stdout);
            assert!(
                started.elapsed() < PATIENCE,
                "{cluster} is done, and this is said of it: {why}{line:#}{preflight}"
            );
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    /// The certificates of a cluster, by name.
    fn certificates(&self, cluster: &str) -> Vec<(String, Value)> {
        let read = |end: &&str| {
            let name = format!("{cluster}-{end}");
            let secret: Value =
                serde_json::from_str(&self.kubectl(&["get", "secret", &name, "--output=json"])).unwrap();
            (name, secret["data"].clone())
        };
        ["ca", "etcd", "sa", "proxy"].iter().map(read).collect()
    }
}

fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
#[ignore = "needs the lab: make test-real"]
fn a_control_plane_and_workers_roll_by_our_engine_and_by_kubeadm_control_plane() {
    let started = Instant::now();
    let ground = Ground { cluster_api: ClusterApi::up(Duration::from_secs(120)).unwrap() };
    println!("Cluster API is up after {:.1} s", started.elapsed().as_secs_f32());

    let machine = |name: &str| include_str!("machine.yaml").replace("MACHINE", name);
    let nobodys = ["own-a", "own-b", "own-c"].map(machine).join("---\n");
    ground.make("own", "6443", &format!("{}---\n{nobodys}", include_str!("nobodys.yaml")));
    ground.make("kcp", "6444", include_str!("owned.yaml"));
    for cluster in ["own", "kcp"] {
        ground.await_all(cluster, "control plane", 3, OLD);
        ground.await_all(cluster, "workers", 2, OLD);
    }
    println!("two clusters of five machines are there after {:.1} s", started.elapsed().as_secs_f32());
    let guest = ground.play_kubelets_and_kubeadm("own");
    let certificates = ground.certificates("own");

    let began = Instant::now();
    let told = ground.upgrade_own();
    let by_drover = began.elapsed();
    assert!(ground.are_all("own", "control plane", 3, NEW), "{told}");
    // Whichever began the cluster led it, and there is no other way to its members than the port-forward: nothing can be run in these pods.
    assert!(told.contains("-one of etcd lead"), "{told}");
    for name in ["own-a", "own-b", "own-c"] {
        assert!(told.contains(&format!("remove the member {name} of etcd")), "{told}");
    }
    assert_eq!(ground.certificates("own"), certificates, "no machine's end has changed a certificate");
    let nodes = ground.in_guest(
        &guest,
        &[
            "get",
            "nodes",
            "--selector=node-role.kubernetes.io/control-plane",
            "--output=jsonpath={.items[*].status.nodeInfo.kubeletVersion}",
        ],
    );
    assert_eq!(nodes, [NEW; 3].join(" "));
    assert!(!ground.upgrade_own().contains("make a machine"), "a second time there is nothing to do");

    let began = Instant::now();
    ground.start("kcp");
    let (why, line) = (said(&ground.drover(&["why", "cluster/default/kcp"])), ground.in_the_table("kcp"));
    assert!(why.contains(&format!("from {OLD} to {NEW}")), "{why}");
    assert_eq!(line["needsSomebody"], false, "nobody has to do anything about a control plane that is replaced: {why}");
    ground.await_all("kcp", "control plane", 3, NEW);
    let by_kubeadm_control_plane = began.elapsed();

    // The same command, for the workers of both.
    for cluster in ["own", "kcp"] {
        ground.start(cluster);
    }
    let workers = ["own", "kcp"].map(|cluster| ground.await_all(cluster, "workers", 2, NEW)).iter().sum::<Duration>();

    ground.await_calm("kcp");

    println!("three machines of a control plane, {OLD} to {NEW}:");
    println!("  drover control-plane-upgrade  {:6.1} s", by_drover.as_secs_f32());
    println!("  KubeadmControlPlane           {:6.1} s", by_kubeadm_control_plane.as_secs_f32());
    println!("two workers of each, at once:   {:6.1} s", workers.as_secs_f32());
    println!("all of it:                      {:6.1} s", started.elapsed().as_secs_f32());
}
