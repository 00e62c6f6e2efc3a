//! Operators that are killed, doubled and frozen, as processes of their own on a real control plane. What they did is read from a
//! watch: an audit log does not say what became of a request whose sender was killed meanwhile.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use drover_lab::{Lab, LabOptions};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const NAMESPACE: &str = "system-upgrade";
const PLAN: &str = "upgrade";
const PATIENCE: Duration = Duration::from_secs(400);

/// A lab with nodes and the definition of Plan.
fn lab(nodes: usize) -> Result<Lab> {
    let options = LabOptions { kwok: true, patience: Duration::from_secs(120), ..LabOptions::default() };
    let lab = Lab::up(&options)?;
    let names: Vec<String> = (1..=nodes).map(|number| format!("node-{number}")).collect();
    lab.add_kwok_nodes(&names.iter().map(String::as_str).collect::<Vec<_>>(), &[])?;
    super::install_plans(&lab)?;
    Ok(lab)
}

fn plan(concurrency: usize) -> String {
    json!({
        "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan", "metadata": { "name": PLAN, "namespace": NAMESPACE },
        "spec": { "concurrency": concurrency, "cordon": true, "version": "v2", "nodeSelector": {},
                  "upgrade": { "image": "upgrade" } },
    })
    .to_string()
}

/// A process that dies with this.
struct Process(Child);

impl Process {
    /// `drover operator`.
    fn start(kubeconfig: &Path, log: &Path, arguments: &[&str]) -> Result<Self> {
        let child = Command::new(drover()?)
            .args(["operator", "--kubeconfig"])
            .arg(kubeconfig)
            .args(arguments)
            .env("CATTLE_ELECTION_LEASE_DURATION", "3s")
            .env("CATTLE_ELECTION_RENEW_DEADLINE", "2s")
            .env("CATTLE_ELECTION_RETRY_PERIOD", "500ms")
            .env_remove("RUST_LOG")
            .stderr(File::options().create(true).append(true).open(log)?)
            .spawn()?;
        Ok(Process(child))
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.0), signal)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A frozen process dies of it, too.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The binary that cargo has built beside this test.
fn drover() -> Result<PathBuf> {
    let test = std::env::current_exe()?;
    let folder = test.parent().and_then(Path::parent).context("this test is in no target folder")?;
    let binary = folder.join("drover");
    ensure!(binary.exists(), "{} is not built: cargo build --bin drover", binary.display());
    Ok(binary)
}

fn get(lab: &Lab, what: &[&str]) -> Result<Value> {
    serde_json::from_str(&lab.kubectl(&[&["get", "-o", "json"], what].concat())?).context("kubectl's answer is no JSON")
}

fn items(list: Value) -> Vec<Value> {
    list["items"].as_array().cloned().unwrap_or_default()
}

/// How many nodes are updated.
fn updated(lab: &Lab) -> Result<i64> {
    let counts = lab.kubectl(&[
        "-n",
        NAMESPACE,
        "get",
        "plans.upgrade.cattle.io",
        PLAN,
        "-o",
        "jsonpath={.status.counts.updated}",
    ])?;
    Ok(counts.trim().parse().unwrap_or(0))
}

fn wait_for_the_end(lab: &Lab) -> Result<()> {
    let limit = format!("--timeout={}s", PATIENCE.as_secs());
    lab.kubectl(&["-n", NAMESPACE, "wait", "--for=condition=Complete", &limit, "plans.upgrade.cattle.io", PLAN])
        .map(drop)?;
    Ok(())
}

/// Every node is done, in service and without a mark; every upgrade ran once.
fn assert_whole(lab: &Lab, nodes: usize) -> Result<()> {
    let plan = get(lab, &["-n", NAMESPACE, "plans.upgrade.cattle.io", PLAN])?;
    let hash = plan["status"]["latestHash"].as_str().unwrap_or_default();
    ensure!(plan["status"]["counts"]["updated"] == nodes, "{}", plan["status"]);
    for node in items(get(lab, &["nodes"])?) {
        let meta = &node["metadata"];
        ensure!(meta["labels"][format!("plan.upgrade.cattle.io/{PLAN}")] == hash, "{} is left out", meta["name"]);
        ensure!(node["spec"]["unschedulable"] != true, "{} is still cordoned", meta["name"]);
        let marks = [&meta["labels"], &meta["annotations"]].map(|of| of.to_string().contains("drover.dev/"));
        ensure!(marks == [false, false], "{} still carries marks", meta["name"]);
    }
    let pods = items(get(lab, &["-n", NAMESPACE, "pods"])?);
    let on: BTreeSet<&str> = pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
    ensure!(pods.len() == nodes && on.len() == nodes, "{} pods ran on {} nodes", pods.len(), on.len());
    Ok(())
}

/// A watch of all Nodes: a line for each that there is, then one for each change.
struct NodeWatch {
    lines: PathBuf,
    _kubectl: Process,
}

impl NodeWatch {
    fn start(lab: &Lab, nodes: usize) -> Result<Self> {
        let lines = lab.dir().join("nodes.watch");
        let line = r#"{.metadata.name} {.metadata.resourceVersion} claimed:{.metadata.labels.drover\.dev/claim}{"\n"}"#;
        let kubectl = lab
            .kubectl_command()
            .args(["get", "nodes", "--watch", "-o", &format!("jsonpath={line}")])
            .stdout(File::create(&lines)?)
            .spawn()?;
        let watch = NodeWatch { lines, _kubectl: Process(kubectl) };
        watch.until("it lists every node", |seen| Ok(seen.len() >= nodes))?;
        Ok(watch)
    }

    /// The most nodes that carried a claim at one moment, by all that the API server stored.
    fn most_out(&self, lab: &Lab) -> Result<usize> {
        let mut last = Vec::new();
        for node in items(get(lab, &["nodes"])?) {
            let meta = &node["metadata"];
            last.push(format!(
                "{} {}",
                meta["name"].as_str().unwrap_or_default(),
                meta["resourceVersion"].as_str().unwrap_or_default()
            ));
        }
        let seen = self.until("it has seen each node as it is now", |seen| {
            Ok(last.iter().all(|now| seen.iter().any(|line| line.starts_with(&format!("{now} ")))))
        })?;
        let (mut out, mut most) = (BTreeSet::new(), 0);
        for line in &seen {
            let (name, claim) = (line.split(' ').next(), line.rsplit("claimed:").next());
            if claim.is_some_and(|claim| !claim.is_empty()) {
                out.insert(name);
            } else {
                out.remove(&name);
            }
            most = most.max(out.len());
        }
        Ok(most)
    }

    fn until(&self, what: &str, holds: impl Fn(&[String]) -> Result<bool>) -> Result<Vec<String>> {
        let started = Instant::now();
        loop {
            let text = std::fs::read_to_string(&self.lines)?;
            // The last line may be half written.
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            let seen: Vec<String> = whole.lines().map(str::to_owned).collect();
            if holds(&seen)? {
                return Ok(seen);
            }
            ensure!(started.elapsed() < Duration::from_secs(60), "the watch of Nodes is not so far that {what}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// SplitMix64: the same throws in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

#[test]
#[ignore = "needs the lab: make test-real"]
fn an_operator_that_is_killed_fifty_times_leaves_no_node_out_and_runs_nothing_twice() -> Result<()> {
    const NODES: usize = 100;
    const LIMIT: usize = 5;
    let lab = lab(NODES)?;
    let nodes = NodeWatch::start(&lab, NODES)?;
    let log = lab.dir().join("operator.log");
    let arguments = ["--leader-elect=false"];
    lab.kubectl_apply(&plan(LIMIT))?;
    let mut dice = Dice(1);
    for kill in 0..50 {
        let operator = Process::start(lab.kubeconfig(), &log, &arguments)?;
        std::thread::sleep(Duration::from_millis(300 + dice.below(1500)));
        operator.signal(Signal::KILL)?;
        ensure!(
            updated(&lab)? < i64::try_from(NODES)? || kill > 30,
            "it was done after {kill} kills: they tell too little"
        );
    }
    let _operator = Process::start(lab.kubeconfig(), &log, &arguments)?;
    wait_for_the_end(&lab)?;
    assert_whole(&lab, NODES)?;
    let most = nodes.most_out(&lab)?;
    ensure!((1..=LIMIT).contains(&most), "{most} nodes were out at once");
    Ok(())
}

#[test]
#[ignore = "needs the lab: make test-real"]
fn two_operators_without_an_election_keep_the_limit() -> Result<()> {
    const NODES: usize = 30;
    let lab = lab(NODES)?;
    let nodes = NodeWatch::start(&lab, NODES)?;
    let operators = ["a", "b"].map(|name| {
        let kubeconfig = lab.kubeconfig_for(name, Some("system:masters"))?;
        Process::start(&kubeconfig, &lab.dir().join(format!("{name}.log")), &["--leader-elect=false"])
    });
    let _running = operators.into_iter().collect::<Result<Vec<_>>>()?;
    lab.kubectl_apply(&plan(3))?;
    wait_for_the_end(&lab)?;
    assert_whole(&lab, NODES)?;
    let most = nodes.most_out(&lab)?;
    ensure!((1..=3).contains(&most), "{most} nodes were out at once");
    Ok(())
}

#[test]
#[ignore = "needs the lab: make test-real"]
fn an_operator_that_was_frozen_for_a_minute_and_wakes_beside_its_successor_keeps_the_limit() -> Result<()> {
    // So many that a fast machine is not done within the minute.
    const NODES: usize = 160;
    const LIMIT: usize = 2;
    let lab = lab(NODES)?;
    let nodes = NodeWatch::start(&lab, NODES)?;
    let first =
        Process::start(&lab.kubeconfig_for("first", Some("system:masters"))?, &lab.dir().join("first.log"), &[])?;
    lab.kubectl_apply(&plan(LIMIT))?;
    let started = Instant::now();
    while updated(&lab)? < 5 {
        if started.elapsed() > PATIENCE {
            bail!("the first operator does not get on");
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    first.signal(Signal::STOP)?;
    let _second =
        Process::start(&lab.kubeconfig_for("second", Some("system:masters"))?, &lab.dir().join("second.log"), &[])?;
    std::thread::sleep(Duration::from_secs(60));
    ensure!(updated(&lab)? < i64::try_from(NODES)?, "it was done before the first operator woke");
    first.signal(Signal::CONT)?;
    wait_for_the_end(&lab)?;
    assert_whole(&lab, NODES)?;
    let most = nodes.most_out(&lab)?;
    ensure!((1..=LIMIT).contains(&most), "{most} nodes were out at once");
    Ok(())
}
