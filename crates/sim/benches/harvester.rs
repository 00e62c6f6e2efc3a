//! What an upgrade of a Harvester cluster costs: `make bench-harvester`. How long it waits for nobody, and how many requests it makes,
//! on 3, 10 and 100 nodes, in virtual time; fails if that is more than it may be.
//!
//! An upgrade waits for nobody from the moment at which a cause stands in the API (Rancher asks, a Job is complete, a node runs its
//! new system, a chart is ready) until the action that follows from it is written. Each request takes a millisecond.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use drover_clock::{Clock, between};
use drover_corral::apiserver::{ApiServer, Commit, Options};
use drover_sim::scenario::built_in;
use drover_sim::{Scenario, Stage, Terms};
use jiff::Timestamp;
use serde_json::Value;

/// 2026-01-01T12:00:00Z.
const NOON: i64 = 1_767_268_800;
/// For a node, and for the system services.
const IDLE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];
/// For a node.
const REQUESTS: usize = 60;

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    println!("nobody works, at most 1 s a node and 5 s for the services; Harvester's own pauses: 50 to 60 s and 105 s");
    let mut reached = true;
    for nodes in [3, 10, 100] {
        reached &= measure(nodes)?;
    }
    Ok(if reached { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn measure(nodes: usize) -> Result<bool, Box<dyn std::error::Error>> {
    let known = built_in()?.into_iter().find(|scenario| scenario.name == "harvester-three-nodes");
    let scenario = Scenario { nodes, ..known.ok_or("the scenario harvester-three-nodes is gone")? };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let (seen, took, unmet) = runtime.block_on(play(&scenario));
    let mut worst: Vec<Duration> = seen.nodes.values().map(NodeSeen::idle).collect();
    worst.sort_unstable();
    let sum = worst.iter().fold(Duration::ZERO, |sum, one| sum.saturating_add(*one));
    let mean = sum / u32::try_from(worst.len().max(1))?;
    let most = worst.last().copied().unwrap_or(Duration::MAX);
    let requests = |phase: &str| seen.requests.get(phase).copied().unwrap_or(0);
    let with_nodes = requests("PreparingNodes") + requests("UpgradingNodes");
    let each = with_nodes.div_ceil(nodes);
    let once: usize = seen.requests.values().sum::<usize>() - with_nodes - seen.started_with;
    let reached =
        unmet.is_empty() && worst.len() == nodes && most <= IDLE[0] && seen.services <= IDLE[1] && each <= REQUESTS;
    println!(
        "{nodes:>3} nodes in {took:>6.0} s: nobody works {:.3} s a node (most {:.3}), {:.3} s for the services; {each} requests a node (at most \
         {REQUESTS}), {once} once, {} to start  {}",
        mean.as_secs_f64(),
        most.as_secs_f64(),
        seen.services.as_secs_f64(),
        seen.started_with,
        if reached { "ok" } else { "MISSED" },
    );
    unmet.iter().for_each(|sentence| println!("    {sentence}"));
    Ok(reached)
}

async fn play(scenario: &Scenario) -> (Seen, f64, Vec<String>) {
    let clock = Clock::virtual_from(Timestamp::from_second(NOON).unwrap_or(Timestamp::UNIX_EPOCH));
    let latency = Duration::from_millis(1);
    let server = ApiServer::new(Options { clock, seed: 1, latency, watch_window: 10_000 });
    let seen = Arc::new(Mutex::new(Seen::default()));
    let (observer, listener) = (seen.clone(), seen.clone());
    server.observe(Box::new(move |commit| lock(&observer).see(commit)));
    server.hear_requests(Box::new(move |actor, head| {
        let is_ours = actor.starts_with("operator") || actor.ends_with("/steps");
        if is_ours && !head.uri.path().contains("/leases") {
            lock(&listener).count();
        }
    }));
    let stage = Stage::on(server, scenario, &Terms::calm(1), None);
    let started = clock.now();
    let longest = Duration::from_secs(300) * u32::try_from(scenario.nodes).unwrap_or(u32::MAX);
    let mut changes = usize::MAX;
    let mut unmet = Vec::new();
    while between(started, clock.now()) < longest {
        clock.sleep(Duration::from_secs(1)).await;
        let now = stage.changes();
        if std::mem::replace(&mut changes, now) != now {
            unmet = stage.unmet_now();
        }
        if unmet.is_empty() {
            break;
        }
    }
    unmet.extend(stage.violations().into_iter().map(|violation| violation.sentence));
    let took = between(started, clock.now()).as_secs_f64();
    drop(stage);
    let seen = std::mem::take(&mut *lock(&seen));
    (seen, took, unmet)
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What was noticed of a run.
#[derive(Default)]
struct Seen {
    nodes: BTreeMap<String, NodeSeen>,
    /// In which nobody works on the system services.
    services: Duration,
    /// The last cause that the services wait for.
    services_cause: Option<Timestamp>,
    /// By the state of the Upgrade.
    requests: BTreeMap<String, usize>,
    /// Until the Upgrade has begun: lists, watches, and the look at the whole cluster.
    started_with: usize,
    state: String,
}

/// Causes and actions of one node, in their order.
#[derive(Default)]
struct NodeSeen {
    cause: Option<Timestamp>,
    idle: Duration,
    /// Which of the actions were taken.
    taken: Vec<&'static str>,
}

impl NodeSeen {
    fn idle(&self) -> Duration {
        // One of which an action was not seen was not measured.
        if self.taken.len() == ACTIONS.len() { self.idle } else { Duration::MAX }
    }

    fn caused(&mut self, at: Timestamp) {
        self.cause = Some(at);
    }

    fn acted(&mut self, action: &'static str, at: Timestamp) {
        if !self.taken.contains(&action) {
            self.taken.push(action);
            let waited = self.cause.map_or(Duration::MAX, |cause| between(cause, at));
            self.idle = self.idle.saturating_add(waited);
        }
    }
}

const ACTIONS: [&str; 6] =
    ["pre-drain made", "pre-drain ends", "pre-hook", "post-drain made", "post-drain ends", "post-hook"];

/// The kinds that causes and actions stand in.
const READ: [&str; 10] = [
    "Upgrade",
    "Secret",
    "Job",
    "Pod",
    "Node",
    "ManagedChart",
    "Cluster",
    "VirtualMachineInstance",
    "VirtualMachineInstanceMigration",
    "Engine",
];

impl Seen {
    fn count(&mut self) {
        if self.state.is_empty() {
            self.started_with += 1;
        }
        *self.requests.entry(self.state.clone()).or_default() += 1;
    }

    fn see(&mut self, commit: &Commit<'_>) {
        let kind = commit.resource.kind.as_str();
        if !READ.contains(&kind) {
            return;
        }
        let parsed = |bytes: Option<&bytes::Bytes>| bytes.and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
        let Some(after) = parsed(commit.after) else { return };
        let before = parsed(commit.before).unwrap_or_default();
        match kind {
            "Upgrade" => self.see_upgrade(&after),
            "Secret" => self.see_secret(commit, &before, &after),
            "Job" => self.see_job(commit, &before, &after),
            "Pod" => self.see_pod(commit, &before, &after),
            "Node" if commit.namespace.is_empty() => self.see_node(commit, &before, &after),
            "ManagedChart" => self.see_chart(commit),
            "Cluster" => self.see_cluster(commit, &before, &after),
            // VMs and volumes that leave are waited for; the last of it is the cause of what follows.
            _ => self.see_machines(commit),
        }
    }

    fn see_upgrade(&mut self, after: &Value) {
        self.state =
            after["metadata"]["labels"]["harvesterhci.io/upgradeState"].as_str().unwrap_or_default().to_owned();
    }

    fn see_secret(&mut self, commit: &Commit<'_>, before: &Value, after: &Value) {
        let Some(node) = after["metadata"]["labels"]["rke.cattle.io/node-name"].as_str() else { return };
        let node = self.nodes.entry(node.to_owned()).or_default();
        let is_new = |key: &str| {
            let of = |secret: &Value| secret["metadata"]["annotations"][key].as_str().map(str::to_owned);
            of(after).is_some() && of(after) != of(before)
        };
        if is_new("rke.cattle.io/pre-drain") || is_new("rke.cattle.io/post-drain") {
            node.caused(commit.at);
        }
        for (hook, action) in [("harvesterhci.io/pre-hook", ACTIONS[2]), ("harvesterhci.io/post-hook", ACTIONS[5])] {
            if is_new(hook) {
                node.acted(action, commit.at);
            }
        }
    }

    fn see_job(&mut self, commit: &Commit<'_>, before: &Value, after: &Value) {
        let labels = &after["metadata"]["labels"];
        let is_done = |job: &Value| {
            let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
            conditions.into_iter().any(|one| one["type"] == "Complete" && one["status"] == "True")
        };
        let ends = is_done(after) && !is_done(before);
        let Some(node) = labels["harvesterhci.io/node"].as_str() else {
            if labels["harvesterhci.io/upgradeComponent"] == "manifest" {
                if before.is_null() {
                    self.serviced(commit.at);
                } else if ends {
                    self.services_cause = Some(commit.at);
                }
            }
            return;
        };
        let node = self.nodes.entry(node.to_owned()).or_default();
        let kind = &labels["harvesterhci.io/upgradeJobType"];
        if before.is_null() && kind == "pre-drain" {
            node.acted(ACTIONS[0], commit.at);
        } else if before.is_null() && kind == "post-drain" {
            node.acted(ACTIONS[3], commit.at);
        } else if ends {
            node.caused(commit.at);
        }
    }

    /// The program of a Job begins when its container runs, and has ended when its kubelet knows.
    fn see_pod(&mut self, commit: &Commit<'_>, before: &Value, after: &Value) {
        let labels = &after["metadata"]["labels"];
        let runs = |pod: &Value| pod["status"]["containerStatuses"][0]["state"]["running"].is_object();
        let has_ended = |pod: &Value| pod["metadata"]["annotations"]["corral.drover.dev/exit-code.apply"].is_string();
        let (begins, ends) = (runs(after) && !runs(before), has_ended(after) && !has_ended(before));
        if labels["harvesterhci.io/upgradeComponent"] == "manifest" {
            if begins {
                self.services_cause = Some(commit.at);
            } else if ends {
                self.serviced(commit.at);
            }
            return;
        }
        let Some(node) = labels["harvesterhci.io/node"].as_str() else { return };
        let node = self.nodes.entry(node.to_owned()).or_default();
        let is_first = labels["harvesterhci.io/upgradeJobType"] == "pre-drain";
        if begins {
            node.caused(commit.at);
        } else if ends {
            node.acted(if is_first { ACTIONS[1] } else { ACTIONS[4] }, commit.at);
        }
    }

    fn see_node(&mut self, commit: &Commit<'_>, before: &Value, after: &Value) {
        let is_back = |node: &Value| {
            let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
            let ready = conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
            ready && node["status"]["nodeInfo"]["osImage"] == "Harvester v1.8.0"
        };
        let node = self.nodes.entry(commit.name.to_owned()).or_default();
        if is_back(after) && !is_back(before) {
            node.caused(commit.at);
        }
        let loaded =
            |node: &Value| node["metadata"]["labels"]["plan.upgrade.cattle.io/hvst-upgrade-1-prepare"].is_string();
        if loaded(after) && !loaded(before) {
            self.services_cause = Some(commit.at);
        }
    }

    fn see_machines(&mut self, commit: &Commit<'_>) {
        for node in self.nodes.values_mut().filter(|node| node.taken.last() == Some(&ACTIONS[0])) {
            node.caused(commit.at);
        }
    }

    fn see_chart(&mut self, commit: &Commit<'_>) {
        match commit.actor.ends_with("/steps") {
            true => self.serviced(commit.at),
            false => self.services_cause = Some(commit.at),
        }
    }

    /// Rancher's planner is asked when the services are done.
    fn see_cluster(&mut self, commit: &Commit<'_>, before: &Value, after: &Value) {
        let asked = |cluster: &Value| cluster["spec"]["rkeConfig"]["provisionGeneration"].clone();
        if commit.actor.starts_with("operator") && asked(before) != asked(after) && self.state != "Succeeded" {
            self.serviced(commit.at);
        }
    }

    fn serviced(&mut self, at: Timestamp) {
        if let Some(cause) = self.services_cause.take() {
            self.services += between(cause, at);
        }
    }
}
