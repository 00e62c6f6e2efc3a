//! How long a decision takes and how much memory an operator needs with 1,000 nodes: `make bench`.
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use drover_core::decision::Kind;
use drover_core::plan::job::JobSettings;
use drover_core::plan::{View, decide};
use drover_core::seen::Seen;
use serde_json::json;

const NODES: usize = 1000;

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<()> {
    println!("operator with {NODES} nodes");
    decisions()?;
    memory()
}

fn decisions() -> Result<()> {
    let mut nodes = BTreeMap::new();
    for number in 0..NODES {
        let json = json!({
            "metadata": { "name": format!("node-{number}"), "uid": format!("uid-{number}"), "resourceVersion": "1",
                          "labels": { "kubernetes.io/hostname": format!("node-{number}"), "kubernetes.io/os": "linux" } },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        if let Some(Seen::Node(node)) = Seen::decode(Kind::Node, json.to_string().as_bytes())? {
            nodes.insert(node.meta.name.clone(), node);
        }
    }
    let plan = json!({
        "metadata": { "name": "up", "namespace": "ns", "uid": "uid-plan", "resourceVersion": "2" },
        "spec": { "concurrency": 10, "cordon": true, "version": "v2", "upgrade": { "image": "x" },
                  "nodeSelector": { "matchLabels": { "kubernetes.io/os": "linux" } } },
    });
    let Some(Seen::Plan(plan)) = Seen::decode(Kind::Plan, plan.to_string().as_bytes())? else { bail!("no Plan") };
    let (secrets, settings) = (BTreeMap::new(), JobSettings::default());
    let view = View {
        me: "operator-1",
        plan: &plan,
        nodes: &nodes,
        jobs: Vec::new(),
        pods: Vec::new(),
        secrets: &secrets,
        settings: &settings,
        plans: &BTreeMap::new(),
        claiming: BTreeSet::new(),
        channels: &BTreeMap::new(),
        gates: &BTreeMap::new(),
        poll_interval: jiff::SignedDuration::from_mins(15),
        status_written: None,
        trouble: Vec::new(),
    };
    let now = "2026-01-01T12:00:00Z".parse()?;
    let mut times: Vec<Duration> = (0..500)
        .map(|_| {
            let started = Instant::now();
            black_box(decide(black_box(&view), now));
            started.elapsed()
        })
        .collect();
    times.sort();
    println!(
        "  a decision: median {:?}, p99 {:?} (target: below 1 ms)",
        times[times.len() / 2],
        times[times.len() * 99 / 100]
    );
    Ok(())
}

/// Two processes: the embedded cluster, and the operator that is measured.
fn memory() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let scenario = dir.path().join("scenario.yaml");
    fs::write(&scenario, format!("nodes: {NODES}\nconcurrency: 1\njobSeconds: 3600\n"))?;
    let kubeconfig = dir.path().join("kubeconfig");
    let drover = env!("CARGO_BIN_EXE_drover");
    let quiet = |command: &mut Command| command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut corral = Command::new(drover);
    corral.args(["corral", "--scenario"]).arg(&scenario).arg("--write-kubeconfig").arg(&kubeconfig);
    let _corral = Running(quiet(&mut corral)?);
    wait_until("the embedded cluster is up", || kubeconfig.exists())?;

    let mut operator = Command::new(drover);
    operator.args(["operator", "--kubeconfig"]).arg(&kubeconfig).stderr(fs::File::create(dir.path().join("log"))?);
    let operator = Running(operator.stdout(Stdio::null()).spawn()?);
    let log = || fs::read_to_string(dir.path().join("log")).unwrap_or_default();
    // A created Job means that all nodes were listed and several decisions taken.
    wait_until("the operator works", || log().contains("CreateJob")).with_context(log)?;
    std::thread::sleep(Duration::from_secs(5));
    let status = fs::read_to_string(Path::new("/proc").join(operator.0.id().to_string()).join("status"))?;
    let line = |name: &str| {
        status
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or("")
            .split_whitespace()
            .nth(1)
            .and_then(|kb| kb.parse::<f64>().ok())
    };
    let mb = |kb: Option<f64>| kb.unwrap_or(f64::NAN) / 1024.0;
    println!(
        "  resident memory: {:.1} MB, at most {:.1} MB (target: below 30 MB)",
        mb(line("VmRSS")),
        mb(line("VmHWM"))
    );
    Ok(())
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
    let started = Instant::now();
    while !is_so() {
        if started.elapsed() > Duration::from_secs(60) {
            bail!("waited a minute in vain until {what}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both may have ended by themselves.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
