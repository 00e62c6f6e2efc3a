//! How fast a Plan is carried out on a real control plane, and what that costs: `make bench-plan`.
//!
//! For each size a fresh control plane with KWOK nodes is started. First as many Jobs are created directly, as many at a time:
//! nothing can be faster than that. Then the operator, or another controller, carries out a Plan over the same nodes. What it
//! asked of the API server is taken from the audit log.
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

#[path = "plan/direct.rs"]
mod direct;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use drover_lab::{Audited, Lab, LabOptions};
use serde_json::{Value, json};

const NAMESPACE: &str = "system-upgrade";
const PLAN: &str = "bench";
/// The user that the measured controller is: its requests are told from others' by it.
const USER: &str = "measured";

#[derive(Debug, Parser)]
struct Args {
    /// The drover binary
    #[arg(long, value_name = "FILE")]
    operator: PathBuf,
    /// Sizes as NODES/CONCURRENCY, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "10/1,10/10,100/10,100/100,1000/100", value_parser = size)]
    sizes: Vec<Size>,
    /// Measure this controller instead; it runs in a shell with $KUBECONFIG and the variables of its Deployment
    #[arg(long, value_name = "COMMAND")]
    controller_command: Option<String>,
    /// How cargo calls a benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Debug, Clone, Copy)]
struct Size {
    nodes: usize,
    concurrency: usize,
}

fn size(text: &str) -> Result<Size, String> {
    let (nodes, concurrency) = text.split_once('/').ok_or("write it as 100/10")?;
    let number = |text: &str| text.parse::<usize>().map_err(|error| error.to_string());
    Ok(Size { nodes: number(nodes)?, concurrency: number(concurrency)? })
}

fn main() -> Result<()> {
    let args = Args::parse();
    println!("nodes/at once  limit s  wall s  ratio  requests/node  CPU s  peak MB  by verb");
    for size in &args.sizes {
        let row = measure(&args, *size).with_context(|| format!("at {}/{}", size.nodes, size.concurrency))?;
        println!("{row}");
    }
    Ok(())
}

fn measure(args: &Args, size: Size) -> Result<String> {
    let lab =
        Lab::up(&LabOptions { kwok: true, audit: true, patience: Duration::from_secs(300), ..LabOptions::default() })?;
    let names: Vec<String> = (1..=size.nodes).map(|number| format!("node-{number}")).collect();
    lab.add_kwok_nodes(&names.iter().map(String::as_str).collect::<Vec<_>>(), &[])?;
    lab.kubectl(&["create", "namespace", NAMESPACE])?;
    let crds = json!({ "apiVersion": "v1", "kind": "List", "items": drover_api::crds::all() });
    lab.define(&crds.to_string())?;

    let limit = direct::jobs(lab.kubeconfig(), &names, size.concurrency, &plan(size))?;
    lab.kubectl(&["delete", "namespace", direct::NAMESPACE, "--timeout=300s"])?;

    let kubeconfig = lab.kubeconfig_for(USER, Some("system:masters"))?;
    let controller = Controller::start(args, &kubeconfig, lab.dir())?;
    // Its first lists are not what is measured.
    std::thread::sleep(Duration::from_secs(4));
    let before = lab.audited()?.len();
    let started = Instant::now();
    lab.kubectl_apply(&plan(size).to_string())?;
    lab.kubectl(&[
        "-n",
        NAMESPACE,
        "wait",
        "--for=condition=Complete",
        "--timeout=3600s",
        "plans.upgrade.cattle.io",
        PLAN,
    ])?;
    let wall = started.elapsed();
    let (cpu, peak) = controller.cost()?;
    drop(controller);
    let requests = counted(&lab.audited()?[before..]);
    let total: usize = requests.iter().map(|(_, count)| count).sum();
    let verbs: Vec<String> = requests.iter().map(|(verb, count)| format!("{verb} {count}")).collect();
    Ok(format!(
        "{:>13}  {:>7.1}  {:>6.1}  {:>5.2}  {:>13.2}  {:>5.2}  {:>7.1}  {}",
        format!("{}/{}", size.nodes, size.concurrency),
        limit.as_secs_f64(),
        wall.as_secs_f64(),
        wall.as_secs_f64() / limit.as_secs_f64(),
        total as f64 / size.nodes as f64,
        cpu,
        peak,
        verbs.join(", "),
    ))
}

/// As the original was measured: with a cordon, and Jobs that need nothing.
fn plan(size: Size) -> Value {
    json!({
        "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan",
        "metadata": { "name": PLAN, "namespace": NAMESPACE },
        "spec": {
            "concurrency": size.concurrency, "cordon": true, "version": "v1.0.0", "nodeSelector": {},
            "upgrade": { "image": "upgrade" },
        },
    })
}

/// The requests of the measured controller by verb and kind; without its Lease, its lists and its watches.
fn counted(audited: &[Audited]) -> Vec<(String, usize)> {
    let mut counts = std::collections::BTreeMap::new();
    let its = audited.iter().filter(|request| request.user() == USER);
    for request in
        its.filter(|request| request.resource() != "leases" && !["list", "watch"].contains(&request.verb.as_str()))
    {
        let subresource = Some(request.subresource()).filter(|name| !name.is_empty());
        let what =
            subresource.map_or_else(|| request.resource().to_owned(), |name| format!("{}/{name}", request.resource()));
        *counts.entry(format!("{} {what}", request.verb)).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}

/// A controller at work; it ends with this.
struct Controller(Child);

impl Controller {
    fn start(args: &Args, kubeconfig: &Path, dir: &Path) -> Result<Self> {
        let mut command = match &args.controller_command {
            Some(line) => {
                let mut shell = Command::new("sh");
                shell.arg("-c").arg(format!("exec {line}"));
                shell
            }
            None => {
                let mut operator = Command::new(&args.operator);
                operator.arg("operator");
                operator
            }
        };
        let child = command
            .env("KUBECONFIG", kubeconfig)
            .env("SYSTEM_UPGRADE_CONTROLLER_KUBE_CONFIG", kubeconfig)
            .env("SYSTEM_UPGRADE_CONTROLLER_NAME", "system-upgrade-controller")
            .env("SYSTEM_UPGRADE_CONTROLLER_NAMESPACE", NAMESPACE)
            .env("SYSTEM_UPGRADE_CONTROLLER_LEADER_ELECT", "true")
            .env_remove("RUST_LOG")
            .stderr(File::create(dir.join("controller.log"))?)
            .spawn()
            .context("the controller cannot be started")?;
        Ok(Controller(child))
    }

    /// CPU seconds so far and the peak of its memory in MB.
    fn cost(&self) -> Result<(f64, f64)> {
        let process = Path::new("/proc").join(self.0.id().to_string());
        let stat = std::fs::read_to_string(process.join("stat"))?;
        // After the name, which may hold blanks, come the state and then numbers; ticks are hundredths of a second.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(f64::NAN);
        let status = std::fs::read_to_string(process.join("status"))?;
        let peak =
            status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse::<f64>().ok());
        Ok(((ticks(11) + ticks(12)) / 100.0, peak.unwrap_or(f64::NAN) / 1024.0))
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
