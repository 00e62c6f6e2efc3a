//! One run: a scenario under a schedule of faults, in virtual time, from the first write to the last.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use drover_clock::{Clock, between, later};
use drover_corral::apiserver::{ApiServer, Direct, Options};
use drover_corral::world::World;
use drover_operator::Report;
use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use crate::faults::{Fault, Incident, Moment, Schedule};
use crate::gate::{Gate, Heard};
use crate::guests::{self, Servers};
use crate::invariants::{Leave, ends, standstill};
use crate::known::Known;
use crate::programs;
use crate::record::{Record, Saved, Violation};
use crate::sabotage::Sabotage;
use crate::scenario::Scenario;
use crate::shift::{Ears, Shift};
use crate::story::Story;

/// Every request costs this much virtual time, so that nothing happens at one instant for ever.
const LATENCY: Duration = Duration::from_millis(1);
/// What must still be true this long after the upgrade has ended.
const AFTERMATH: Duration = Duration::from_secs(90);
/// The run without faults takes no longer; that of a Harvester cluster takes one node after another.
const LIMIT: Duration = Duration::from_secs(3600);
const LIMIT_OF_A_NODE: Duration = Duration::from_secs(300);
/// How often it is looked whether a run has ended.
const LOOK: Duration = Duration::from_millis(500);
const WATCH_WINDOW: usize = 10_000;
/// What it takes, after the last fault, until an operator leads and sees again: the restart, the Lease that has to lapse,
/// a request that is never answered, the longest pause between tries, a watch that has gone silent.
const RECOVERY: Duration = Duration::from_secs(150);
/// 2026-01-01T12:00:00Z, a Thursday: where virtual time begins.
const NOON: i64 = 1_767_268_800;

/// What became of a run.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    pub seed: u64,
    pub violations: Vec<Violation>,
    /// How many writes the operators made.
    pub writes: usize,
    /// How long it took until the upgrade had ended.
    pub virtual_seconds: f64,
    /// A digest of all objects in the end.
    pub digest: String,
    /// Everything that happened.
    #[serde(skip)]
    pub story: Story,
    #[serde(skip)]
    pub started: Timestamp,
    /// How often anybody wrote, the world included.
    #[serde(skip)]
    pub commits: usize,
    /// A digest of the store after each commit.
    #[serde(skip)]
    pub states: Vec<u64>,
    /// At each write of an operator, the state that it met, and its purpose.
    #[serde(skip)]
    pub at_writes: Vec<(u64, String)>,
    #[serde(skip)]
    pub purposes: BTreeMap<String, usize>,
    #[serde(skip)]
    pub reasons: BTreeMap<String, usize>,
    /// The stores just before the first violation, for `drover corral --load`.
    #[serde(skip)]
    pub before: Option<Saved>,
    /// What of the schedule was to happen at a write that was never made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<Incident>,
}

impl Outcome {
    /// One line an event.
    pub fn trace(&self) -> Vec<String> {
        self.story.lines(self.started)
    }
}

/// How a scenario is run.
#[derive(Debug, Clone, Default)]
pub struct Terms {
    pub schedule: Schedule,
    pub seed: u64,
    /// How long the run without faults takes; none if this is it.
    pub calm: Option<Duration>,
    /// A planted bug.
    pub sabotage: Option<Sabotage>,
    /// Nothing is kept to be told later: neither what happened nor the store. Whoever wants to know runs it again, and the same
    /// happens.
    pub untold: bool,
}

impl Terms {
    pub fn calm(seed: u64) -> Self {
        Terms { seed, ..Terms::default() }
    }

    pub fn of(schedule: Schedule, seed: u64) -> Self {
        Terms { schedule, seed, ..Terms::default() }
    }
}

/// Runs on a runtime of its own, whose clock jumps.
pub fn run(scenario: &Scenario, terms: &Terms) -> Result<Outcome, std::io::Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    Ok(runtime.block_on(async {
        let stage = Stage::open(scenario, terms);
        stage.play().await;
        stage.close()
    }))
}

/// A scenario that runs, for whoever wants to look and act while it does.
#[derive(Debug)]
pub struct Stage {
    pub server: ApiServer,
    /// The API servers of guest clusters.
    pub guests: Servers,
    /// Acts as a person with kubectl would.
    pub user: Direct,
    pub clock: Clock,
    scenario: Scenario,
    terms: Terms,
    gate: Gate,
    record: Arc<Mutex<Record>>,
    tasks: JoinSet<()>,
    started: Timestamp,
    /// When what was waited for was met, and after how many writes.
    ended: Mutex<Option<(Duration, usize)>>,
}

impl Stage {
    pub fn open(scenario: &Scenario, terms: &Terms) -> Self {
        let clock = Clock::virtual_from(Timestamp::from_second(NOON).unwrap_or(Timestamp::UNIX_EPOCH));
        let options = Options { clock, seed: terms.seed, latency: LATENCY, watch_window: WATCH_WINDOW };
        Stage::on(ApiServer::without_own_managers(options), scenario, terms, None)
    }

    /// On a server of one's own, whose clock need not jump. What the operators decide is told to `audience`, too.
    pub fn on(
        server: ApiServer,
        scenario: &Scenario,
        terms: &Terms,
        audience: Option<UnboundedSender<Report>>,
    ) -> Self {
        let clock = server.clock();
        let started = clock.now();
        let incidents: Vec<Incident> = scenario.faults.iter().chain(&terms.schedule.faults).cloned().collect();
        let leave = Leave::of(incidents.iter().map(|incident| &incident.what));
        let (met, once) = unbounded_channel();
        let awaited = incidents.iter().filter_map(|incident| match &incident.at {
            Moment::Once(pattern) => Some((pattern.clone(), incident.what.clone())),
            _ => None,
        });
        let record = Arc::new(Mutex::new(Record::new(scenario, started, leave, awaited.collect(), met, !terms.untold)));
        let observer = record.clone();
        server.observe(Box::new(move |commit| lock(&observer).see(commit)));
        let guests = scenario.guest_servers(Options {
            clock,
            seed: terms.seed.wrapping_add(1),
            latency: LATENCY,
            watch_window: WATCH_WINDOW,
        });
        for (key, guest) in &guests {
            let (observer, key) = (record.clone(), key.clone());
            guest.observe(Box::new(move |commit| lock(&observer).see_guest(&key, commit)));
        }
        let guests_are_set_up = scenario.set_up_guests(&guests);
        if let Err(status) = scenario.set_up(&server).and(guests_are_set_up) {
            lock(&record).note(started, format!("the scenario cannot be set up: {}", status.message));
        }

        let (orders, ordered) = unbounded_channel();
        let (reports, reported) = unbounded_channel();
        let (plans, planned) = unbounded_channel();
        let heard = Heard { reports: reported, planned, audience };
        let at_writes =
            incidents.iter().filter(|incident| matches!(incident.at, Moment::Write(_) | Moment::Purpose(_)));
        let at_writes = at_writes.cloned().collect();
        let gate = Gate::new(server.clone(), at_writes, orders, heard, terms.sabotage, record.clone(), guests.clone());
        let mut tasks = JoinSet::new();
        let mut world = scenario.world();
        for (key, guest) in &guests {
            world.guests.insert(key.clone(), guest.clone());
            tasks.spawn(World::run(guest.clone(), Scenario::guest_world()));
            tasks.spawn(guests::cut_off(server.clone(), guest.clone(), key.clone()));
        }
        tasks.spawn(World::run(server.clone(), world));
        if scenario.runs_programs() {
            let told = gate.clone();
            let listener = Arc::new(move |saying: &_| told.hear_program(saying));
            let files = scenario.release_files(server.clone());
            let (updates, of_programs, servers) = (scenario.tanzu().is_some(), gate.clone(), guests.clone());
            let ways = Arc::new(move |actor: &str| of_programs.way(actor, updates.then(|| servers.clone())));
            tasks.spawn(programs::run(server.clone(), ways, updates, files, listener));
        }
        tasks.spawn(
            Shift::new(gate.clone(), Ears { reports, plans }, scenario, guests.clone()).keep_operators_running(ordered),
        );
        tasks.spawn(let_happen(gate.clone(), once));
        for incident in incidents {
            if let Moment::Time(span) = incident.at {
                let gate = gate.clone();
                tasks.spawn(async move {
                    gate.clock().sleep(span.0).await;
                    gate.happen(&incident.what).await;
                });
            }
        }
        let user = server.direct("user");
        let ended = Mutex::new(None);
        let (scenario, terms) = (scenario.clone(), terms.clone());
        Stage { server, guests, user, clock, scenario, terms, gate, record, tasks, started, ended }
    }

    /// From the start to the end, and a while longer. What goes wrong in that while begins it anew: it needs its time,
    /// too.
    async fn play(&self) {
        while self.until_met().await {
            let ended = self.clock.now();
            self.look_on().await;
            if self.gate.troubled_until() <= ended {
                return self.judge();
            }
        }
    }

    /// Looks on for a while after the end, whether it stays so, and whether all that is said is true.
    pub async fn stay(&self) {
        self.look_on().await;
        self.judge();
    }

    async fn look_on(&self) {
        // Whatever a dead leader left under way lands now at the latest, and must do no harm.
        self.land_late_writes().await;
        self.clock.sleep(AFTERMATH).await;
    }

    fn judge(&self) {
        let unmet = self.unmet();
        if !unmet.is_empty() {
            self.note(format!("it did not stay so: {}", unmet.join("; ")));
        }
        let calm = self.terms.schedule.faults.is_empty() && self.scenario.faults.is_empty();
        let refusing = self.gate.troubled_until() > self.clock.now();
        let untrue = self.looking(|record| {
            let mut untrue = ends::untrue(&record.known, self.clock.now(), refusing, calm);
            untrue.extend(standstill::untrue(&record.known));
            untrue
        });
        untrue.into_iter().for_each(|sentence| self.note(sentence));
    }

    /// Lets time pass until all that the scenario expects is so; false, and a violation, if that takes too long.
    async fn until_met(&self) -> bool {
        self.wait(|| self.unmet(), || self.limit()).await
    }

    /// Lets time pass until nothing is unmet any more; false, and a violation, if that takes too long.
    pub async fn until(&self, limit: Duration, unmet: impl Fn(&Direct) -> Vec<String>) -> bool {
        let ends = later(self.started, limit);
        self.wait(|| unmet(&self.user), || ends).await
    }

    async fn wait(&self, unmet: impl Fn() -> Vec<String>, limit: impl Fn() -> Timestamp) -> bool {
        let mut seen = usize::MAX;
        loop {
            self.clock.sleep(LOOK).await;
            let now = self.clock.now();
            let too_late = now > limit();
            let changes = self.changes();
            if std::mem::replace(&mut seen, changes) == changes && !too_late {
                continue;
            }
            let unmet = unmet();
            if unmet.is_empty() && self.nothing_is_to_come() {
                *lock(&self.ended) = Some((between(self.started, now), self.gate.writes()));
                return true;
            }
            if too_late {
                let passed = between(self.started, now).as_secs();
                self.note(format!("it has not ended after {passed} s: {}", unmet.join("; ")));
                return false;
            }
        }
    }

    /// The scenario's own faults belong to it: it has not ended before they have happened. Those of the schedule are tried,
    /// and may come too late; under them, what the scenario waits for to let something happen may never be said.
    fn nothing_is_to_come(&self) -> bool {
        let last = self.scenario.faults.iter().filter_map(|incident| match incident.at {
            Moment::Time(span) => Some(later(self.started, span.0)),
            _ => None,
        });
        let all_came = !self.terms.schedule.faults.is_empty() || self.looking(Record::awaited) == 0;
        all_came && last.max().is_none_or(|last| last < self.clock.now())
    }

    /// Twice the time without faults after the last fault, plus the deadlines of the waits that are open.
    fn limit(&self) -> Timestamp {
        let Some(calm) = self.terms.calm else {
            let nodes = u32::try_from(self.scenario.nodes).unwrap_or(u32::MAX);
            let each = if self.scenario.harvester.is_some() { LIMIT_OF_A_NODE } else { Duration::ZERO };
            return later(self.started, LIMIT.max(each.saturating_mul(nodes)));
        };
        let troubled_until = self.gate.troubled_until();
        later(troubled_until.max(self.started), calm * 2 + RECOVERY).max(self.open_deadline(calm))
    }

    fn open_deadline(&self, calm: Duration) -> Timestamp {
        let deadline = self.looking(|record| {
            let waits = record.known.all("Plan").filter_map(|plan| plan["status"]["waits"].as_array()).flatten();
            let deadlines = waits.filter_map(|wait| wait["deadline"].as_str()?.parse::<Timestamp>().ok());
            deadlines.max()
        });
        deadline.map_or(self.started, |deadline| later(deadline, calm))
    }

    fn unmet(&self) -> Vec<String> {
        self.looking(|record| {
            let mut unmet = self.scenario.unmet(&record.known, record.checker.cordoned());
            unmet.extend(self.scenario.unmet_of_guests(&record.known, &record.guests));
            unmet
        })
    }

    /// What of the scenario is not so yet.
    pub fn unmet_now(&self) -> Vec<String> {
        let mut unmet = self.unmet();
        if !self.nothing_is_to_come() {
            unmet.push("something is still to happen".to_owned());
        }
        unmet
    }

    /// What should not have happened so far.
    pub fn violations(&self) -> Vec<Violation> {
        self.looking(|record| record.violations.clone())
    }

    /// How many times the store has changed, renewals of Leases aside: as long as it stays the same, nobody does anything.
    pub fn changes(&self) -> usize {
        self.looking(|record| record.changes)
    }

    /// How many writes the operators have made, those of their elections included.
    pub fn writes(&self) -> usize {
        self.gate.writes()
    }

    /// Lets every write land that a dead operator had under way.
    pub async fn land_late_writes(&self) -> usize {
        self.gate.land_all().await
    }

    /// Lets something go wrong now.
    pub async fn happen(&self, fault: &Fault) {
        self.gate.happen(fault).await;
    }

    /// Ends all that runs and tells what became of it.
    pub fn close(mut self) -> Outcome {
        self.tasks.abort_all();
        let so_far = || (between(self.started, self.clock.now()), self.gate.writes());
        let (ended, writes) = lock(&self.ended).unwrap_or_else(so_far);
        let (purposes, reasons) = self.gate.tallies();
        let digest = self.server.digest();
        let mut missed = self.gate.still_to_come();
        missed.retain(|incident| self.terms.schedule.faults.contains(incident));
        let mut record = lock(&self.record);
        if !record.violations.is_empty() {
            record.save_now();
        }
        Outcome {
            seed: self.terms.seed,
            commits: record.commits,
            violations: std::mem::take(&mut record.violations),
            story: std::mem::take(&mut record.story),
            started: self.started,
            writes,
            virtual_seconds: ended.as_secs_f64(),
            digest,
            states: std::mem::take(&mut record.states),
            at_writes: std::mem::take(&mut record.at_writes),
            purposes,
            reasons,
            before: record.before.take(),
            missed,
        }
    }

    fn looking<T>(&self, look: impl FnOnce(&Record) -> T) -> T {
        look(&lock(&self.record))
    }

    fn note(&self, sentence: String) {
        let mut record = lock(&self.record);
        record.save_now();
        record.note(self.clock.now(), sentence);
    }

    /// Everything that is known of the store.
    pub fn known(&self) -> Known {
        self.looking(|record| record.known.clone())
    }
}

/// What is to happen once something is so, when it is.
async fn let_happen(gate: Gate, mut once: UnboundedReceiver<Fault>) {
    while let Some(fault) = once.recv().await {
        gate.happen(&fault).await;
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
