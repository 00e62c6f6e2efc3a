//! Many runs of one scenario: every fault at every write, and random schedules.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;

use crate::faults::{Fault, Schedule};
use crate::run::{Outcome, run};
use crate::scenario::Scenario;

/// What a takeover costs on top of the upgrade itself: the restart, the Lease that has to lapse, a suspension, the
/// pauses between tries.
const TAKEOVER: Duration = Duration::from_secs(150);

#[derive(Debug, Clone)]
pub struct Campaign {
    pub scenario: Scenario,
    pub seed: u64,
}

/// Told after each run how many are done, and of how many.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// What a campaign found.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CampaignReport {
    pub scenario: String,
    pub schedules: usize,
    /// Writes of the run without faults: each is a place for a fault.
    pub writes: usize,
    pub distinct_states: usize,
    pub failures: Vec<Failure>,
    pub purposes: BTreeMap<String, usize>,
    pub reasons: BTreeMap<String, usize>,
    #[serde(skip)]
    states: BTreeSet<u64>,
}

/// A schedule under which something went wrong, with its story.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    pub schedule: Schedule,
    pub outcome: Outcome,
    pub trace: Vec<String>,
}

impl Campaign {
    /// Every fault at every write, a late write at every later moment, a second leader from many moments on.
    pub fn exhaustive(&self, progress: Progress<'_>) -> Result<CampaignReport, std::io::Error> {
        let (mut report, calm) = self.calm()?;
        self.run_all(&mut report, self.schedules(calm.writes), &calm, progress)?;
        Ok(report)
    }

    /// `count` schedules with one to three faults each, drawn from the seed.
    pub fn random(&self, count: usize, progress: Progress<'_>) -> Result<CampaignReport, std::io::Error> {
        let (mut report, calm) = self.calm()?;
        let mut dice = Dice(self.seed);
        let schedules = (0..count).map(|_| dice.schedule(calm.writes)).collect();
        self.run_all(&mut report, schedules, &calm, progress)?;
        Ok(report)
    }

    /// The run without faults, that all others are measured by.
    fn calm(&self) -> Result<(CampaignReport, Outcome), std::io::Error> {
        let outcome = run(&self.scenario, &Schedule::default(), self.seed, None)?;
        let mut report = CampaignReport {
            scenario: self.scenario.name.clone(),
            writes: outcome.writes,
            ..CampaignReport::default()
        };
        report.count(&Schedule::default(), outcome.clone());
        Ok((report, outcome))
    }

    /// A thread a core; each run has a runtime of its own, so that no run knows of another.
    fn run_all(
        &self,
        report: &mut CampaignReport,
        schedules: Vec<Schedule>,
        calm: &Outcome,
        progress: Progress<'_>,
    ) -> Result<(), std::io::Error> {
        let (next, report) = (AtomicUsize::new(0), Mutex::new(report));
        let work = || -> Result<(), std::io::Error> {
            while let Some(schedule) = schedules.get(next.fetch_add(1, Ordering::Relaxed)) {
                let outcome = self.run_one(schedule, calm)?;
                let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
                report.count(schedule, outcome);
                progress(report.schedules, schedules.len() + 1);
            }
            Ok(())
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
            workers
                .into_iter()
                .try_for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    }

    fn run_one(&self, schedule: &Schedule, calm: &Outcome) -> Result<Outcome, std::io::Error> {
        let faults = u32::try_from(schedule.faults.len().max(1)).unwrap_or(u32::MAX);
        let within = Duration::from_secs_f64(2.0 * calm.virtual_seconds) + TAKEOVER * faults;
        run(&self.scenario, schedule, self.seed, Some(within))
    }

    fn schedules(&self, writes: usize) -> Vec<Schedule> {
        let mut schedules = Vec::new();
        for write in 0..writes {
            schedules.extend(Fault::AT_EVERY_WRITE.iter().map(|fault| Schedule::one(write, *fault)));
            schedules.extend((1..=writes - write).map(|after| Schedule::one(write, Fault::LandsAfter(after))));
        }
        let moments = (0..20).map(|step| step * 700);
        schedules.extend(moments.map(|after| Schedule { faults: BTreeMap::new(), second_leader_after: Some(after) }));
        schedules
    }
}

impl CampaignReport {
    fn count(&mut self, schedule: &Schedule, mut outcome: Outcome) {
        self.schedules += 1;
        self.states.extend(outcome.states.drain(..));
        self.distinct_states = self.states.len();
        for (all, own) in [(&mut self.purposes, &outcome.purposes), (&mut self.reasons, &outcome.reasons)] {
            for (name, count) in own {
                *all.entry(name.clone()).or_default() += count;
            }
        }
        if !outcome.violations.is_empty() {
            let trace = std::mem::take(&mut outcome.trace);
            self.failures.push(Failure { schedule: schedule.clone(), outcome, trace });
        }
    }
}

/// SplitMix64: the same throws for the same seed, on every machine.
struct Dice(u64);

impl Dice {
    fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.throw() % bound.max(1) as u64).unwrap_or(0)
    }

    fn schedule(&mut self, writes: usize) -> Schedule {
        let count = 1 + self.below(3);
        let faults = (0..count).map(|_| {
            let fault = match self.below(Fault::AT_EVERY_WRITE.len() + 1) {
                index if index < Fault::AT_EVERY_WRITE.len() => Fault::AT_EVERY_WRITE[index],
                _ => Fault::LandsAfter(1 + self.below(writes)),
            };
            // A run with faults makes more writes than one without.
            (self.below(writes + writes / 2), fault)
        });
        Schedule { faults: faults.collect(), second_leader_after: None }
    }
}
