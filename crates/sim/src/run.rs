//! One run: a scenario under a schedule of faults, in virtual time, from the first write to the last.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use drover_clock::{Clock, between};
use drover_corral::apiserver::{ApiServer, Commit, Direct, Options};
use drover_corral::world::World;
use drover_operator::{ElectionOptions, Operator, OperatorOptions, Report};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{JoinHandle, JoinSet};

use crate::faults::{Gate, Schedule};
use crate::invariants::{Change, Checker};
use crate::scenario::{NAMESPACE, Scenario};

/// Every request costs this much virtual time, so that nothing happens at one instant for ever.
const LATENCY: Duration = Duration::from_millis(1);
/// A pod that dies is started again after this time.
const RESTART: Duration = Duration::from_secs(1);
/// What must still be true this long after the upgrade has ended.
const AFTERMATH: Duration = Duration::from_secs(90);
/// No run of a few nodes takes longer, whatever happens to it.
const LIMIT: Duration = Duration::from_secs(3600);
/// How often it is looked whether a run has ended.
const LOOK: Duration = Duration::from_millis(500);
const WATCH_WINDOW: usize = 10_000;

/// What became of a run.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    pub seed: u64,
    pub violations: Vec<Violation>,
    /// One line an event.
    #[serde(skip)]
    pub trace: Vec<String>,
    /// How many writes the operators made.
    pub writes: usize,
    /// How long it took until the upgrade had ended.
    pub virtual_seconds: f64,
    /// A digest of all objects in the end.
    pub digest: String,
    /// A digest of the store after each commit.
    #[serde(skip)]
    pub states: Vec<u64>,
    #[serde(skip)]
    pub purposes: BTreeMap<String, usize>,
    #[serde(skip)]
    pub reasons: BTreeMap<String, usize>,
}

/// Something that must never happen, or never end so.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Violation {
    /// Virtual time since the start.
    pub seconds: f64,
    pub sentence: String,
}

/// Runs on a runtime of its own, whose clock jumps. `within` bounds the time until the end; none: only the general limit.
pub fn run(
    scenario: &Scenario,
    schedule: &Schedule,
    seed: u64,
    within: Option<Duration>,
) -> Result<Outcome, std::io::Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    Ok(runtime.block_on(simulate(scenario, schedule, seed, within)))
}

async fn simulate(scenario: &Scenario, schedule: &Schedule, seed: u64, within: Option<Duration>) -> Outcome {
    let stage = Stage::open(scenario, schedule, seed);
    let limit = within.unwrap_or(LIMIT);
    if stage.until(limit, |user| scenario.unmet_now(user)).await {
        // Whatever a dead leader left under way lands now at the latest, and must do no harm.
        stage.land_late_writes().await;
        stage.clock.sleep(AFTERMATH).await;
        let unmet = scenario.unmet_now(&stage.user);
        if !unmet.is_empty() {
            stage.note(format!("it did not stay so: {}", unmet.join("; ")));
        }
    }
    stage.close()
}

/// A scenario that runs, for whoever wants to look and act while it does. Only on a runtime whose clock is paused.
#[derive(Debug)]
pub struct Stage {
    pub server: ApiServer,
    /// Acts as a person with kubectl would.
    pub user: Direct,
    pub clock: Clock,
    gate: Gate,
    record: Arc<Mutex<Record>>,
    reported: Mutex<UnboundedReceiver<Report>>,
    tasks: JoinSet<()>,
    started: Timestamp,
    /// When what was waited for was met, and after how many writes.
    ended: Mutex<Option<(Duration, usize)>>,
    seed: u64,
}

impl Stage {
    pub fn open(scenario: &Scenario, schedule: &Schedule, seed: u64) -> Self {
        let started = Timestamp::from_second(1_767_268_800).unwrap_or(Timestamp::UNIX_EPOCH);
        let clock = Clock::virtual_from(started);
        let server = ApiServer::new(Options { clock, seed, latency: LATENCY, watch_window: WATCH_WINDOW });
        let record = Arc::new(Mutex::new(Record::new(scenario, started)));
        let observer = record.clone();
        server.observe(Box::new(move |commit| lock(&observer).see(commit)));

        let mut tasks = JoinSet::new();
        tasks.spawn(World::run(server.clone(), scenario.world()));
        let (deaths, died) = unbounded_channel();
        let (reports, reported) = unbounded_channel();
        let gate = Gate::new(server.clone(), clock, schedule.clone(), deaths);
        let shift = Shift { gate: gate.clone(), clock, reports };
        tasks.spawn(shift.keep_operators_running(schedule.second_leader_after.map(Duration::from_millis), died));

        let user = server.direct("user");
        let (reported, ended) = (Mutex::new(reported), Mutex::new(None));
        let stage = Stage { server, user, clock, gate, record, reported, tasks, started, ended, seed };
        if let Err(status) = scenario.set_up(&stage.user) {
            stage.note(format!("the scenario cannot be set up: {}", status.message));
        }
        stage
    }

    /// Lets time pass until nothing is unmet any more; false, and a violation, if that takes too long.
    pub async fn until(&self, limit: Duration, unmet: impl Fn(&Direct) -> Vec<String>) -> bool {
        let mut seen = usize::MAX;
        loop {
            self.clock.sleep(LOOK).await;
            let passed = between(self.started, self.clock.now());
            let changes = lock(&self.record).changes;
            if std::mem::replace(&mut seen, changes) == changes && passed <= limit {
                continue;
            }
            let unmet = unmet(&self.user);
            if unmet.is_empty() {
                *lock(&self.ended) = Some((passed, self.gate.writes()));
                return true;
            }
            if passed > limit {
                self.note(format!("it did not end within {} s: {}", limit.as_secs(), unmet.join("; ")));
                return false;
            }
        }
    }

    /// Lets every write land that a dead operator had under way.
    pub async fn land_late_writes(&self) -> usize {
        self.gate.land_all().await
    }

    /// Ends all that runs and tells what became of it.
    pub fn close(mut self) -> Outcome {
        self.tasks.abort_all();
        let mut record = lock(&self.record);
        record.count_upgrades();
        let so_far = || (between(self.started, self.clock.now()), self.gate.writes());
        let (ended, writes) = lock(&self.ended).unwrap_or_else(so_far);
        record.outcome(self.seed, writes, ended, self.server.digest(), &mut lock(&self.reported))
    }

    fn note(&self, sentence: String) {
        lock(&self.record).note(self.clock.now(), Some(sentence));
    }
}

/// Starts operators, and others where they die.
struct Shift {
    gate: Gate,
    clock: Clock,
    reports: UnboundedSender<Report>,
}

impl Shift {
    async fn keep_operators_running(self, second_after: Option<Duration>, mut died: UnboundedReceiver<String>) {
        let mut alive: BTreeMap<String, Running> = BTreeMap::new();
        let mut number = 1;
        self.start(&mut alive, number, "system-upgrade-controller");
        if let Some(after) = second_after {
            self.clock.sleep(after).await;
            number += 1;
            self.start(&mut alive, number, "another-lease");
        }
        while let Some(name) = died.recv().await {
            let Some(running) = alive.remove(&name) else { continue };
            running.task.abort();
            self.clock.sleep(RESTART).await;
            number += 1;
            self.start(&mut alive, number, &running.lease);
        }
    }

    fn start(&self, alive: &mut BTreeMap<String, Running>, number: usize, lease: &str) {
        let name = format!("operator-{number}");
        let mut options = OperatorOptions::new(NAMESPACE, &name, self.clock);
        options.election = ElectionOptions::new(NAMESPACE, lease);
        let operator = Operator::new(self.gate.client(&name), options).reporting_to(self.reports.clone());
        let task = tokio::spawn(operator.run(std::future::pending()));
        alive.insert(name, Running { task, lease: lease.to_owned() });
    }
}

/// Dies with its handle.
struct Running {
    task: JoinHandle<()>,
    lease: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is written down while a run goes on.
#[derive(Debug)]
struct Record {
    started: Timestamp,
    checker: Checker,
    trace: Vec<String>,
    violations: Vec<Violation>,
    meanings: BTreeMap<(String, String, String), u64>,
    state: u64,
    states: Vec<u64>,
    /// Commits that can make a difference: all but renewals of Leases.
    changes: usize,
}

impl Record {
    fn new(scenario: &Scenario, started: Timestamp) -> Self {
        let limit = usize::try_from(scenario.concurrency).unwrap_or(0);
        let checker = Checker::new(limit, &scenario.cordoned);
        Record {
            started,
            checker,
            trace: Vec::new(),
            violations: Vec::new(),
            meanings: BTreeMap::new(),
            state: 0,
            states: Vec::new(),
            changes: 0,
        }
    }

    fn see(&mut self, commit: &Commit<'_>) {
        let digest = |json: &[u8]| Sha256::digest(json);
        let short = commit.after.map_or_else(
            || "gone".to_owned(),
            |after| digest(after).iter().take(4).map(|byte| format!("{byte:02x}")).collect(),
        );
        let place = if commit.namespace.is_empty() { String::new() } else { format!("{}/", commit.namespace) };
        let subresource =
            if commit.subresource.is_empty() { String::new() } else { format!("/{}", commit.subresource) };
        self.trace.push(format!(
            "{:>9.3}s {:<18} {:<7} {}{subresource} {place}{} @{} {short}",
            self.seconds(commit.at),
            commit.actor,
            format!("{:?}", commit.verb).to_lowercase(),
            commit.resource.kind,
            commit.name,
            commit.resource_version,
        ));
        if commit.resource.kind == "Lease" {
            return;
        }
        self.changes += 1;
        let change = |json: Option<&bytes::Bytes>| json.and_then(|json| serde_json::from_slice::<Value>(json).ok());
        let (before, after) = (change(commit.before), change(commit.after));
        self.count_state(commit, after.as_ref());
        let (kind, name) = (commit.resource.kind.as_str(), commit.name);
        self.checker.see(&Change { actor: commit.actor, kind, name, before: before.as_ref(), after: after.as_ref() });
        let new = self.checker.violations().len().saturating_sub(self.violations.len());
        let sentences: Vec<String> = self.checker.violations().iter().rev().take(new).rev().cloned().collect();
        for sentence in sentences {
            self.note(commit.at, Some(sentence));
        }
    }

    /// The state of the store is the sum of what its objects mean.
    fn count_state(&mut self, commit: &Commit<'_>, after: Option<&Value>) {
        let key = (commit.resource.kind.clone(), commit.namespace.to_owned(), commit.name.to_owned());
        let before = match after.map(meaning) {
            Some(meaning) => {
                self.state = self.state.wrapping_add(meaning);
                self.meanings.insert(key, meaning)
            }
            None => self.meanings.remove(&key),
        };
        self.state = self.state.wrapping_sub(before.unwrap_or(0));
        self.states.push(self.state);
    }

    /// No fault of the operator's makes an upgrade run twice on a node.
    fn count_upgrades(&mut self) {
        let often: Vec<String> = self
            .checker
            .upgrades()
            .iter()
            .filter(|(_, count)| **count > 1)
            .map(|(node, count)| format!("{node} was upgraded {count} times"))
            .collect();
        let at = self.started;
        for sentence in often {
            self.note(at, Some(sentence));
        }
    }

    fn note(&mut self, at: Timestamp, sentence: Option<String>) {
        if let Some(sentence) = sentence {
            let seconds = self.seconds(at);
            self.trace.push(format!("{seconds:>9.3}s VIOLATION          {sentence}"));
            self.violations.push(Violation { seconds, sentence });
        }
    }

    fn seconds(&self, at: Timestamp) -> f64 {
        between(self.started, at).as_secs_f64()
    }

    fn outcome(
        &mut self,
        seed: u64,
        writes: usize,
        ended: Duration,
        digest: String,
        reported: &mut UnboundedReceiver<Report>,
    ) -> Outcome {
        let (mut purposes, mut reasons) = (BTreeMap::new(), BTreeMap::new());
        while let Ok(report) = reported.try_recv() {
            for write in report.decision.writes() {
                *purposes.entry(format!("{:?}", write.purpose)).or_default() += 1;
            }
            for wait in &report.decision.waits {
                *reasons.entry(wait.reason.to_string()).or_default() += 1;
            }
        }
        Outcome {
            seed,
            violations: std::mem::take(&mut self.violations),
            trace: std::mem::take(&mut self.trace),
            writes,
            virtual_seconds: ended.as_secs_f64(),
            digest,
            states: std::mem::take(&mut self.states),
            purposes,
            reasons,
        }
    }
}

/// What of an object makes a state a different one: not when it was written, nor in which order.
fn meaning(object: &Value) -> u64 {
    fn strip(value: &Value) -> Value {
        const PASSING: [&str; 8] = [
            "resourceVersion",
            "uid",
            "managedFields",
            "renewTime",
            "acquireTime",
            "holderIdentity",
            "leaseTransitions",
            "generation",
        ];
        match value {
            Value::Object(fields) => {
                let kept = fields.iter().filter(|(key, _)| !PASSING.contains(&key.as_str()));
                kept.map(|(key, value)| (key.clone(), strip(value))).collect()
            }
            Value::Array(items) => items.iter().map(strip).collect(),
            Value::String(text) if text.parse::<Timestamp>().is_ok() => Value::Null,
            other => other.clone(),
        }
    }
    let digest = Sha256::digest(strip(object).to_string());
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    u64::from_le_bytes(first)
}
