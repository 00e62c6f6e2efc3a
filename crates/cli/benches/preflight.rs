//! What a look at a large cluster costs: `make bench-preflight`.
//!
//! Two processes: the embedded cluster, and `drover preflight`, which is measured while it reads and checks. Explanations
//! are measured in this one, from the moment on when the objects are there.
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use drover_core::cluster::{Cluster, ObjectRef};
use drover_core::why::{explain, explain_all};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

const NODES: usize = 1_000;
const VMS: usize = 10_000;
const PODS: usize = 30_000;
/// So many more find no node, where everything is explained.
const PENDING: usize = 100;

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<()> {
    println!("preflight of {NODES} nodes, {VMS} VMs, {PODS} pods");
    let dir = tempfile::tempdir()?;
    let objects = dir.path().join("objects.json");
    write_cluster(&objects)?;
    println!("  objects: {} MB as JSON", fs::metadata(&objects)?.len() >> 20);

    let drover = env!("CARGO_BIN_EXE_drover");
    let mut folder = Command::new(drover);
    folder.args(["preflight", "--to", "v1.34.1", "-o", "json", "--from"]).arg(&objects);
    println!("  from a file: {}", measure(&mut folder)?);

    let kubeconfig = dir.path().join("kubeconfig");
    let mut corral = Command::new(drover);
    corral.args(["corral", "--load"]).arg(&objects).arg("--write-kubeconfig").arg(&kubeconfig);
    let _corral = Running(corral.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
    let started = Instant::now();
    while !kubeconfig.exists() {
        if started.elapsed() > Duration::from_secs(300) {
            bail!("waited five minutes in vain until the embedded cluster is up");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut live = Command::new(drover);
    live.args(["preflight", "--to", "v1.34.1", "-o", "json", "--kubeconfig"]).arg(&kubeconfig);
    println!("  live: {} (target: below 3 s of CPU and 300 MB)", measure(&mut live)?);
    measure_why(&fs::read(&objects)?)
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

fn measure_why(objects: &[u8]) -> Result<()> {
    let mut cluster = Cluster::new("2026-01-01T12:00:00Z".parse()?);
    for object in serde_json::from_slice::<List<'_>>(objects)?.items {
        cluster.take(object.get().as_bytes());
    }
    for index in 0..PENDING {
        cluster.take(pending(index).to_string().as_bytes());
    }
    let started = Instant::now();
    let one = explain(&cluster, &ObjectRef::new("Pod", "ns-0", "pending-0"))?;
    let took = started.elapsed();
    println!("  why one pod that finds no node: {:.0} ms (target: below 200)", took.as_secs_f64() * 1e3);
    let again = Instant::now();
    let all = explain_all(&cluster);
    let took = again.elapsed();
    if !one.is_alarming() || all.len() != PENDING {
        bail!("{PENDING} pods wait, and {} objects are explained", all.len());
    }
    println!("  why of everything, {PENDING} such pods: {:.0} ms (target: below 200)", took.as_secs_f64() * 1e3);
    Ok(())
}

/// Runs a command, and looks at what it uses as long as it runs.
fn measure(command: &mut Command) -> Result<String> {
    let started = Instant::now();
    let mut child = Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
    let place = Path::new("/proc").join(child.0.id().to_string());
    let (mut memory, mut ticks) = (0.0_f64, 0.0_f64);
    let status = loop {
        let text = fs::read_to_string(place.join("status")).unwrap_or_default();
        let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        memory = memory.max(peak.and_then(|peak| peak.split_whitespace().next()?.parse().ok()).unwrap_or(0.0));
        let text = fs::read_to_string(place.join("stat")).unwrap_or_default();
        let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let used: f64 = [11, 12].iter().filter_map(|at| fields.get(*at)?.parse::<f64>().ok()).sum();
        ticks = ticks.max(used);
        if let Some(status) = child.0.try_wait()? {
            break status;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    // Linux counts in hundredths of a second.
    let (cpu, took) = (ticks / 100.0, started.elapsed().as_secs_f64());
    Ok(format!(
        "{cpu:.2} s of CPU, {took:.1} s in all, at most {:.0} MB, exit code {:?}",
        memory / 1024.0,
        status.code()
    ))
}

/// Objects as a real cluster has them: what nobody reads is most of them.
fn write_cluster(path: &Path) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    write!(file, "{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[")?;
    let mut first = true;
    let mut add = |object: Value| -> Result<()> {
        if !std::mem::take(&mut first) {
            file.write_all(b",")?;
        }
        Ok(serde_json::to_writer(&mut file, &object)?)
    };
    for (plural, kind) in [("virtualmachines", "VirtualMachine"), ("virtualmachineinstances", "VirtualMachineInstance")]
    {
        add(definition(plural, kind))?;
    }
    for namespace in 0..100 {
        add(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": format!("ns-{namespace}") } }))?;
    }
    for index in 0..NODES {
        add(node(index))?;
    }
    for index in 0..VMS {
        let metadata = json!({ "name": format!("vm-{index}"), "namespace": format!("ns-{}", index % 100) });
        add(json!({ "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": metadata,
            "spec": { "template": { "spec": { "volumes": [{ "name": "root" }], "domain": ballast(1500) } } },
            "status": { "printableStatus": "Running" } }))?;
        add(json!({ "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": metadata,
            "spec": { "volumes": [{ "name": "root" }], "domain": { "devices": {}, "cpu": ballast(1500) } },
            "status": { "phase": "Running", "nodeName": format!("node-{}", index % NODES),
                "conditions": [{ "type": "LiveMigratable", "status": "True" }] } }))?;
    }
    for index in 0..PODS {
        add(pod(index))?;
    }
    for index in 0..300 {
        add(json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": format!("app-{index}"), "namespace": format!("ns-{}", index % 100) },
            "spec": { "maxUnavailable": 1, "selector": { "matchLabels": { "app": format!("app-{index}") } } },
            "status": { "expectedPods": 100, "currentHealthy": 100, "desiredHealthy": 99, "disruptionsAllowed": 1 } }))?;
    }
    file.write_all(b"]}")?;
    Ok(file.flush()?)
}

fn definition(plural: &str, kind: &str) -> Value {
    json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.kubevirt.io") },
        "spec": { "group": "kubevirt.io", "scope": "Namespaced",
            "names": { "plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List") },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }] } })
}

fn node(index: usize) -> Value {
    let name = format!("node-{index}");
    let role = if index < 3 { "node-role.kubernetes.io/control-plane" } else { "pool" };
    json!({ "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name, role: "true" },
            "annotations": { "example.com/ballast": ballast(3000) } },
        "status": { "allocatable": { "cpu": "64", "memory": "256Gi", "pods": "200" }, "nodeInfo": { "kubeletVersion": "v1.33.5",
                "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "",
                "machineID": "", "operatingSystem": "linux", "osImage": "", "systemUUID": "" },
            "conditions": [{ "type": "Ready", "status": "True" }] } })
}

/// About 4.7 kB, as pods of real clusters are.
fn pod(index: usize) -> Value {
    let app = format!("app-{}", index % 300);
    json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": format!("pod-{index}"), "namespace": format!("ns-{}", index % 100), "uid": format!("uid-{index}"),
            "labels": { "app": app, "pod-template-hash": "5d4f8c7b9" },
            "annotations": { "example.com/ballast": ballast(2800) },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": "r", "controller": true }] },
        "spec": { "nodeName": format!("node-{}", index % NODES), "serviceAccountName": "default",
            "containers": [{ "name": "main", "image": "registry.example.com/team/app:1.2.3",
                "resources": { "requests": { "cpu": "100m", "memory": "256Mi" }, "limits": { "memory": "512Mi" } },
                "env": (0..12).map(|n| json!({ "name": format!("SETTING_{n}"), "value": format!("value of setting {n}") })).collect::<Vec<_>>() }],
            "tolerations": [{ "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 }] },
        "status": { "phase": "Running", "podIP": "10.0.0.1", "startTime": "2026-01-01T00:00:00Z",
            "conditions": [{ "type": "Ready", "status": "True" }, { "type": "ContainersReady", "status": "True" }],
            "containerStatuses": [{ "name": "main", "ready": true, "restartCount": 0, "image": "x", "imageID": "y",
                "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } } }] } })
}

/// A pod that asks for more than any node has left.
fn pending(index: usize) -> Value {
    let owner =
        json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "large", "uid": "large", "controller": true });
    json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": format!("pending-{index}"), "namespace": format!("ns-{}", index % 100), "uid": format!("p-{index}"),
            "creationTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": [owner] },
        "spec": { "containers": [{ "name": "main", "image": "registry.example.com/team/app:1.2.3",
            "resources": { "requests": { "cpu": "63" } } }] },
        "status": { "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/1000 nodes are available: 1000 Insufficient cpu.", "lastTransitionTime": "2026-01-01T00:00:00Z" }] } })
}

fn ballast(bytes: usize) -> String {
    "x".repeat(bytes)
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
