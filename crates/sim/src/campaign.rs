//! Many runs of one scenario: a crash at each write, every fault at every write, two crashes, random schedules.

mod dice;
mod report;
mod shrink;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

pub use self::report::{CampaignReport, Failure, Regression, not_reached};
use crate::faults::{Fault, Incident, Moment, Schedule};
use crate::run::{Outcome, Terms, run};
use crate::sabotage::Sabotage;
use crate::scenario::Scenario;
use dice::Dice;

#[derive(Debug, Clone)]
pub struct Campaign {
    pub scenario: Scenario,
    pub seed: u64,
    /// A planted bug that is to be found.
    pub sabotage: Option<Sabotage>,
    /// Ends with the first failure, which is not shrunk.
    pub first_only: bool,
    /// Of all schedules, every n-th only.
    pub every: usize,
}

/// Told after each run how many are done, and of how many.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Which part of a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The operator dies before and after every write.
    Crashes,
    /// Every other fault at every write that has another purpose, or comes after one of another purpose, than those before.
    Pairs,
    /// Two crashes, unless the second one meets a state in which it was tried before.
    DoubleCrashes,
    /// So many random schedules with one to three faults each.
    Random(usize),
}

/// The run without faults, that all others are measured by.
struct Calm {
    writes: usize,
    /// The writes where a fault may tell something new: the first of each purpose after each other purpose. The second node
    /// goes the way of the first, and a Lease that is renewed while nothing happens is like the one before.
    telling: Vec<usize>,
    time: Duration,
}

impl Calm {
    fn of(outcome: &Outcome) -> Self {
        let (mut met, mut telling, mut before) = (BTreeSet::new(), Vec::new(), "");
        for (index, (_, purpose)) in outcome.at_writes.iter().take(outcome.writes).enumerate() {
            if met.insert((before, purpose.as_str())) {
                telling.push(index + 1);
            }
            // Renewals come between any two others.
            if purpose != "Election" {
                before = purpose;
            }
        }
        Calm { writes: outcome.writes, telling, time: Duration::from_secs_f64(outcome.virtual_seconds) }
    }
}

impl Campaign {
    pub fn new(scenario: Scenario, seed: u64) -> Self {
        Campaign { scenario, seed, sabotage: None, first_only: false, every: 1 }
    }

    /// Runs the parts one after the other, each whole.
    pub fn run(&self, parts: &[Part], progress: Progress<'_>) -> Result<CampaignReport, std::io::Error> {
        let mut report = CampaignReport::of(&self.scenario.name);
        let outcome = run(&self.scenario, &self.terms(Schedule::default(), None))?;
        report.writes = outcome.writes;
        let calm = Calm::of(&outcome);
        report.count(&self.scenario, &Schedule::default(), outcome);
        let mut singles = Vec::new();
        for part in parts {
            if self.first_only && !report.failures.is_empty() {
                break;
            }
            let mut schedules = match part {
                Part::Crashes => self.at_writes(1..=calm.writes, &[Fault::CrashBefore, Fault::CrashAfter]),
                Part::Pairs => {
                    let mut faults = Fault::at_every_write(&self.scenario);
                    faults.retain(|fault| !matches!(fault, Fault::CrashBefore | Fault::CrashAfter));
                    self.at_writes(calm.telling.iter().copied(), &faults)
                }
                Part::DoubleCrashes => self.double_crashes(&calm, &singles),
                Part::Random(count) => {
                    let mut dice = Dice::new(self.seed, Fault::at_every_write(&self.scenario));
                    (0..*count).map(|_| dice.schedule(calm.writes)).collect()
                }
            };
            schedules = schedules.into_iter().step_by(self.every.max(1)).collect();
            let outcomes = self.run_all(&mut report, &schedules, &calm, progress)?;
            if *part == Part::Crashes {
                singles = schedules.into_iter().zip(outcomes).collect();
            }
        }
        if !self.first_only {
            self.shrink_first(&mut report, &calm)?;
        }
        Ok(report)
    }

    fn terms(&self, schedule: Schedule, calm: Option<&Calm>) -> Terms {
        Terms { schedule, seed: self.seed, calm: calm.map(|calm| calm.time), sabotage: self.sabotage }
    }

    /// Each fault at each of these writes, or at every n-th of them.
    fn at_writes(&self, writes: impl Iterator<Item = usize>, faults: &[Fault]) -> Vec<Schedule> {
        let at = |write| faults.iter().map(move |fault| Schedule::one(write, fault.clone()));
        writes.step_by(self.scenario.sampled.unwrap_or(1)).flat_map(at).collect()
    }

    /// A second crash at each write after the first. If it meets a state and a purpose in which a crash was tried
    /// before, nothing new can come of it: what is left to happen is the same.
    fn double_crashes(&self, calm: &Calm, singles: &[(Schedule, Vec<(u64, String)>)]) -> Vec<Schedule> {
        let mut met = BTreeSet::new();
        let mut schedules = Vec::new();
        for (first, at_writes) in singles {
            let Some(Incident { at: Moment::Write(write), .. }) = first.faults.first() else { continue };
            // Those of the run without faults come first: a second crash there is a single one.
            met.extend(at_writes.iter().take(*write).cloned());
        }
        for (first, at_writes) in singles {
            let Some(Incident { at: Moment::Write(write), .. }) = first.faults.first() else { continue };
            let later = at_writes.iter().enumerate().skip(*write).take(calm.writes);
            for (index, meeting) in later {
                if met.insert(meeting.clone()) {
                    let second = Incident { at: Moment::Write(index + 1), what: Fault::CrashAfter };
                    schedules.push(Schedule { faults: first.faults.iter().cloned().chain([second]).collect() });
                }
            }
        }
        schedules
    }

    /// A thread a core; each run has a runtime of its own, so that no run knows of another. Gives back the states that the
    /// writes of each run met.
    fn run_all(
        &self,
        report: &mut CampaignReport,
        schedules: &[Schedule],
        calm: &Calm,
        progress: Progress<'_>,
    ) -> Result<Vec<Vec<(u64, String)>>, std::io::Error> {
        let before = report.schedules;
        let (next, enough) = (AtomicUsize::new(0), AtomicBool::new(false));
        let shared = Mutex::new((report, vec![Vec::new(); schedules.len()]));
        let work = || -> Result<(), std::io::Error> {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(schedule) = schedules.get(index).filter(|_| !enough.load(Ordering::Relaxed)) else {
                    return Ok(());
                };
                let mut outcome = run(&self.scenario, &self.terms(schedule.clone(), Some(calm)))?;
                if self.first_only && !outcome.violations.is_empty() {
                    enough.store(true, Ordering::Relaxed);
                }
                let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
                shared.1[index] = std::mem::take(&mut outcome.at_writes);
                shared.0.count(&self.scenario, schedule, outcome);
                progress(shared.0.schedules - before, schedules.len());
            }
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
            workers
                .into_iter()
                .try_for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })?;
        Ok(shared.into_inner().unwrap_or_else(PoisonError::into_inner).1)
    }

    /// The first failure is told in its smallest form.
    fn shrink_first(&self, report: &mut CampaignReport, calm: &Calm) -> Result<(), std::io::Error> {
        report.failures.sort_by_key(|failure| failure.schedule.faults.len());
        let Some(first) = report.failures.first_mut() else { return Ok(()) };
        let fails = |schedule: &Schedule| -> Result<Option<Outcome>, std::io::Error> {
            let outcome = run(&self.scenario, &self.terms(schedule.clone(), Some(calm)))?;
            Ok(Some(outcome).filter(|outcome| !outcome.violations.is_empty()))
        };
        if let Some((schedule, outcome)) = shrink::shrink(&first.schedule, fails)? {
            *first = Failure::new(&self.scenario, &schedule, outcome);
        }
        Ok(())
    }
}
