//! What guest clusters cost that nobody changes: `make bench-guests`. 200 TanzuKubernetesClusters of 6 machines under the operator, a process
//! of its own, over TCP; fails if it takes more than it may, or if it talks to a guest meanwhile.
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use drover_api::cluster_api::secrets;
use drover_clock::Clock;
use drover_corral::apiserver::{ApiServer, Options};
use drover_corral::serve::{Served, serve};
use drover_sim::Scenario;
use drover_sim::scenario::Guest;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use serde_json::{Value, json};

const CLUSTERS: usize = 200;
const CONTROL_PLANE: usize = 3;
const WORKERS: usize = 3;
const VERSION: &str = "v1.16.7+vmware.1-guest.1";
/// Of one core.
const CORES: f64 = 0.1;
const MEGABYTES: f64 = 60.0;
/// How long nothing happens before it is measured that nothing happens.
const QUIET: Duration = Duration::from_secs(15);
const PATIENCE: Duration = Duration::from_secs(600);

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<ExitCode> {
    // All clusters are looked at every five minutes, whatever happens: that belongs to what they cost.
    let seconds = std::env::var("SECONDS_MEASURED").ok().and_then(|text| text.parse().ok()).unwrap_or(330);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(measure(Duration::from_secs(seconds)))
}

async fn measure(period: Duration) -> Result<ExitCode> {
    let dir = tempfile::tempdir()?;
    let scenario = scenario()?;
    let options = Options { clock: Clock::real(), seed: 1, latency: Duration::ZERO, watch_window: 10_000 };
    let guests = scenario.guest_servers(options);
    scenario.set_up_guests(&guests).map_err(|status| anyhow!("a guest cannot be set up: {}", status.message))?;
    guests.values().try_for_each(ready).map_err(|status| anyhow!("a Node cannot be changed: {}", status.message))?;
    let asked = Asked::default();
    let mut served = BTreeMap::new();
    for (key, server) in &guests {
        asked.listen(server);
        served.insert(key.clone(), serve(server.clone(), local()).await?);
    }
    let management = ApiServer::new(Options { seed: 2, ..options });
    let requests = Asked::default();
    let size = fill(&management, &scenario, &served)?;
    requests.listen(&management);
    let way = serve(management.clone(), local()).await?;
    let kubeconfig = dir.path().join("kubeconfig");
    way.write_kubeconfig(&kubeconfig)?;
    println!(
        "{CLUSTERS} guest clusters of {} machines: {} objects, {:.1} MB of JSON",
        CONTROL_PLANE + WORKERS,
        size.0,
        size.1 as f64 / 1e6
    );

    let log = dir.path().join("log");
    let mut operator = Command::new(env!("CARGO_BIN_EXE_drover"));
    operator.args(["operator", "--controllers", "guest", "--kubeconfig"]).arg(&kubeconfig);
    let operator = Running(operator.stdout(Stdio::null()).stderr(fs::File::create(&log)?).spawn()?);
    let started = Instant::now();
    settled(&management, &asked).await.with_context(|| tail(&log))?;
    println!(
        "  all are as they are asked for after {:.0} s, {:.1} s of a core and {} requests to guests",
        started.elapsed().as_secs_f64(),
        operator.worked()?.as_secs_f64(),
        asked.requests()
    );

    let before = (Instant::now(), operator.worked()?, asked.requests(), requests.requests());
    tokio::time::sleep(period).await;
    let cores = (operator.worked()? - before.1).as_secs_f64() / before.0.elapsed().as_secs_f64();
    let (now, most) = (operator.memory("VmRSS")?, operator.memory("VmHWM")?);
    let (in_guests, watches) = (asked.requests() - before.2, asked.watches());
    let is_met = [cores < CORES, now < MEGABYTES, in_guests == 0, watches == 0];
    let told = |met: bool| if met { "ok" } else { "MISSED" };
    println!("  in {:.0} s in which nothing is changed", before.0.elapsed().as_secs_f64());
    println!("  work: {cores:.4} cores (target: below {CORES})  {}", told(is_met[0]));
    println!(
        "  resident memory: {now:.1} MB, at most {most:.1} MB (target: below {MEGABYTES} MB)  {}",
        told(is_met[1])
    );
    // The program's own code is read from its file, and shared with others that run it.
    let (own, file) = (operator.memory("RssAnon")?, operator.memory("RssFile")?);
    println!("  of that, what it keeps: {own:.1} MB; its program: {file:.1} MB");
    println!("  requests to guests: {in_guests} (target: none)  {}", told(is_met[2]));
    println!("  watches of guests, ever: {watches} (target: none)  {}", told(is_met[3]));
    println!("  requests to the management cluster: {}", requests.requests() - before.3);
    Ok(if is_met.into_iter().all(|met| met) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn local() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

/// Clusters that are as they are asked for.
fn scenario() -> Result<Scenario> {
    let mut all = (0..CLUSTERS).map(|number| Guest {
        namespace: format!("team-{number}"),
        name: format!("tkc-{number}"),
        machines: CONTROL_PLANE,
        workers: Some(WORKERS),
        tanzu: true,
        ..Guest::default()
    });
    let mut scenario = Scenario::parse("idle", "{}", Path::new("."))?;
    (scenario.from, scenario.to) = (VERSION.to_owned(), VERSION.to_owned());
    scenario.guest = all.next();
    if let Some(first) = &mut scenario.guest {
        let value = "{ apiVersion: v1, kind: ConfigMap, metadata: { name: calico-config, namespace: kube-system }, data: { mtu: '1440' } }";
        first.old_addons.insert("calico".to_owned(), json!({ "name": "calico", "version": "3.14", "value": value }));
    }
    scenario.beside = all.collect();
    Ok(scenario)
}

/// No kubelet runs on the Nodes: they are said to be ready once, and stay so.
fn ready(guest: &ApiServer) -> Result<(), Box<kube::core::Status>> {
    let direct = guest.direct("kubelet");
    for mut node in direct.list::<Node>()? {
        let ready = NodeCondition { type_: "Ready".to_owned(), status: "True".to_owned(), ..NodeCondition::default() };
        node.status.get_or_insert_default().conditions = Some(vec![ready]);
        direct.update_status(&node)?;
    }
    Ok(())
}

/// What is in the management cluster: how many objects, and how large they are. The kubeconfigs lead to the guests, and machines are told
/// as much as real ones are.
fn fill(
    server: &ApiServer,
    scenario: &Scenario,
    guests: &BTreeMap<(String, String), Served>,
) -> Result<(usize, usize)> {
    let refused = |status: Box<kube::core::Status>| anyhow!("the cluster cannot be set up: {}", status.message);
    let draft =
        ApiServer::new(Options { clock: Clock::real(), seed: 2, latency: Duration::ZERO, watch_window: 10_000 });
    scenario.set_up(&draft).map_err(refused)?;
    let mut list = draft.save();
    for object in list["items"].as_array_mut().into_iter().flatten() {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
        if object["kind"] == "KubeadmConfig" {
            let script = "echo 'an entry of a script that machines run before they join'\n".repeat(40);
            object["spec"]["files"] =
                json!([{ "path": "/etc/prepare.sh", "permissions": "0755", "owner": "root", "content": script }]);
        }
        let cluster = name.strip_suffix(secrets::KUBECONFIG).filter(|_| object["kind"] == "Secret");
        if let Some(guest) = cluster.and_then(|cluster| guests.get(&(namespace, cluster.to_owned()))) {
            object["data"][secrets::VALUE] = json!(ByteString(guest.kubeconfig().as_bytes().to_vec()));
        }
    }
    server.load(&list).map_err(refused)?;
    Ok((list["items"].as_array().map_or(0, Vec::len), list.to_string().len()))
}

/// Waits until every cluster runs with Nodes that are ready, and nobody asks a guest any more.
async fn settled(management: &ApiServer, asked: &Asked) -> Result<()> {
    let started = Instant::now();
    let (mut quiet_since, mut requests) = (Instant::now(), 0);
    loop {
        if started.elapsed() > PATIENCE {
            bail!("waited {} s in vain until all clusters are as they are asked for", PATIENCE.as_secs());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        if std::mem::replace(&mut requests, asked.requests()) != requests || requests == 0 {
            quiet_since = Instant::now();
        }
        if quiet_since.elapsed() >= QUIET {
            let list = management.save();
            let clusters = list["items"].as_array().into_iter().flatten();
            let are_there = clusters.filter(|object| object["kind"] == "TanzuKubernetesCluster" && is_settled(object));
            if are_there.count() == CLUSTERS {
                return Ok(());
            }
        }
    }
}

fn is_settled(tkc: &Value) -> bool {
    let nodes = tkc["status"]["nodeStatus"].as_object();
    let are_ready =
        nodes.is_some_and(|all| all.len() == CONTROL_PLANE + WORKERS && all.values().all(|state| *state == "ready"));
    tkc["status"]["phase"] == "running" && are_ready && tkc["status"]["addons"]["cni"]["status"] == "applied"
}

/// Counts what API servers are asked for.
#[derive(Debug, Clone, Default)]
struct Asked {
    all: Arc<AtomicUsize>,
    watches: Arc<AtomicUsize>,
}

impl Asked {
    fn listen(&self, server: &ApiServer) {
        let counted = self.clone();
        server.hear_requests(Box::new(move |_, head| {
            counted.all.fetch_add(1, Ordering::Relaxed);
            if head.uri.query().is_some_and(|query| query.contains("watch=")) {
                counted.watches.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }

    fn requests(&self) -> usize {
        self.all.load(Ordering::Relaxed)
    }

    fn watches(&self) -> usize {
        self.watches.load(Ordering::Relaxed)
    }
}

fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().take(10).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

struct Running(Child);

impl Running {
    fn files(&self) -> PathBuf {
        Path::new("/proc").join(self.0.id().to_string())
    }

    /// In megabytes.
    fn memory(&self, name: &str) -> Result<f64> {
        let status = fs::read_to_string(self.files().join("status"))?;
        let line = status.lines().find(|line| line.starts_with(name));
        let kb = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
        Ok(kb.with_context(|| format!("the operator has ended, or nothing tells its {name}"))? / 1024.0)
    }

    /// How long its threads have run on a core.
    fn worked(&self) -> Result<Duration> {
        let mut worked = Duration::ZERO;
        for thread in fs::read_dir(self.files().join("task")).context("the operator has ended")? {
            let text = fs::read_to_string(thread?.path().join("schedstat"))?;
            worked += Duration::from_nanos(text.split_whitespace().next().unwrap_or("").parse()?);
        }
        Ok(worked)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
