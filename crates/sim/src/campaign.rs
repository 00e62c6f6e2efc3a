//! Many runs of one scenario: a crash at each write, every fault at every write, two crashes, random schedules.

mod cores;
mod dice;
pub(crate) mod lot;
pub(crate) mod reach;
mod report;
mod shrink;
mod survey;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use self::cores::on_all_cores;
use self::lot::{draw, is_drawn};
pub use self::reach::{all_purposes, all_reasons, not_reached};
pub use self::report::{CampaignReport, Failure, Regression};
use self::survey::Calm;
pub use self::survey::{Surveyed, survey};
use crate::faults::{Fault, Incident, Mishap, Moment, Schedule, Turn};
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
    /// Of all schedules, one in so many only.
    pub every: usize,
}

/// Told after each run how many are done, and of how many.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Which part of a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The operator dies before and after every write that meets a state of its own.
    Crashes,
    /// The operators of one run die before each write that meets a state of its own, those of another one after it. In two more, programs in pods
    /// die so at their own writes; in another one, each of these is refused, or gets no answer.
    CrashesThroughout,
    /// So many runs in which operators die before writes that meet a state of their own, and as many after them; each state has its turn in
    /// one of them. For scenarios whose crashes are sampled: so every write meets one all the same. On a side of the writes where a scenario
    /// leaves out operators that die so often, they are more runs, and in each they die less often.
    CrashesInTurn(u64),
    /// Every other fault at every kind of write that is this scenario's to try.
    Pairs,
    /// Every fault, crashes included, at a write for each purpose of each engine, where the samples of all scenarios have left it out: what
    /// is this scenario's to try of that.
    PairsLeft,
    /// Two crashes, unless the second one meets a state in which it was tried before; of these one in so many.
    DoubleCrashes { every: usize },
    /// So many random schedules with one to three faults each.
    Random(usize),
}

impl Part {
    /// It is tried whole, even where of all else one in so many is.
    fn is_whole(self) -> bool {
        matches!(self, Part::CrashesThroughout | Part::CrashesInTurn(_))
    }
}

impl Campaign {
    pub fn new(scenario: Scenario, seed: u64) -> Self {
        Campaign { scenario, seed, sabotage: None, first_only: false, every: 1 }
    }

    /// Runs the parts one after the other, each whole.
    pub fn run(&self, parts: &[Part], progress: Progress<'_>) -> Result<CampaignReport, std::io::Error> {
        let mut report = CampaignReport::of(&self.scenario.name);
        for surveyed in survey(vec![self.clone()])? {
            report = surveyed.run(parts, progress)?;
        }
        Ok(report)
    }

    fn terms(&self, schedule: Schedule, calm: Option<&Calm>) -> Terms {
        Terms { schedule, seed: self.seed, calm: calm.map(|calm| calm.time), sabotage: self.sabotage, untold: true }
    }

    /// A run that breaks something is run again, to be told.
    fn play(&self, schedule: &Schedule, calm: Option<&Calm>) -> Result<Outcome, std::io::Error> {
        let terms = self.terms(schedule.clone(), calm);
        let outcome = run(&self.scenario, &terms)?;
        if outcome.violations.is_empty() {
            return Ok(outcome);
        }
        run(&self.scenario, &Terms { untold: false, ..terms })
    }
}

/// Runs several campaigns at once, the dearest first, so that no core is idle while the last run of a part ends on another. Whoever wants
/// to show something gets a `progress` for each, and is told of each that has ended.
pub fn run_all(
    surveyed: Vec<Surveyed>,
    parts: impl Fn(&Scenario) -> Vec<Part> + Sync,
    progress: impl Fn(&Scenario) -> Box<dyn Fn(usize, usize) + Sync> + Sync,
    ended: impl Fn(&CampaignReport) + Sync,
) -> Result<CampaignReport, std::io::Error> {
    let names: Vec<&str> = surveyed.iter().map(|one| one.scenario().name.as_str()).collect();
    let mut all = CampaignReport::of(&names.join(", "));
    let mut order: Vec<usize> = (0..surveyed.len()).collect();
    order.sort_by_key(|index| Reverse(surveyed[*index].calm.commits));
    let due: Vec<Mutex<Option<Surveyed>>> = surveyed.into_iter().map(|one| Mutex::new(Some(one))).collect();
    let reports: Vec<Mutex<Option<CampaignReport>>> = due.iter().map(|_| Mutex::default()).collect();
    on_all_cores(order.len(), |turn| {
        let index = order[turn];
        let Some(one) = lock(&due[index]).take() else { return Ok(ControlFlow::Continue(())) };
        let (parts, progress) = (parts(one.scenario()), progress(one.scenario()));
        let report = one.run(&parts, &*progress)?;
        ended(&report);
        *lock(&reports[index]) = Some(report);
        Ok::<_, std::io::Error>(ControlFlow::Continue(()))
    })?;
    // In the order of the scenarios, whichever ended first: the same is told each time.
    reports.iter().filter_map(|report| lock(report).take()).for_each(|report| all.absorb(report));
    Ok(all)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Surveyed {
    pub fn scenario(&self) -> &Scenario {
        &self.campaign.scenario
    }

    /// Runs the parts one after the other, each whole.
    pub fn run(mut self, parts: &[Part], progress: Progress<'_>) -> Result<CampaignReport, std::io::Error> {
        let mut singles = Vec::new();
        for part in parts {
            if self.campaign.first_only && !self.report.failures.is_empty() {
                break;
            }
            let schedules = self.schedules(*part, &singles);
            let every = if part.is_whole() { 1 } else { self.campaign.every.max(1) };
            let name = &self.scenario().name;
            let drawn = schedules.into_iter().filter(|schedule| is_drawn((name, schedule.names()), every));
            let schedules: Vec<Schedule> = drawn.collect();
            let outcomes = self.run_all(&schedules, progress)?;
            if *part == Part::Crashes {
                singles = schedules.into_iter().zip(outcomes).collect();
            }
        }
        if !self.campaign.first_only {
            self.shrink_first()?;
        }
        Ok(self.report)
    }

    fn schedules(&self, part: Part, singles: &[Single]) -> Vec<Schedule> {
        match part {
            Part::Crashes => self.crashes(),
            Part::CrashesThroughout => {
                let scenario = self.scenario();
                // Each scenario has another one of those that programs survive.
                let survived = draw(Mishap::SURVIVED, |mishap| (&scenario.name, mishap.to_string()));
                let mishaps = [Mishap::DiesBefore, Mishap::DiesAfter].into_iter().chain(survived);
                let of_programs = mishaps.map(Fault::Programs).filter(|_| scenario.runs_programs());
                let all = [Fault::CrashesBefore, Fault::CrashesAfter].into_iter().chain(of_programs);
                all.filter(|fault| !scenario.untried.contains(fault)).map(|fault| Schedule::one(1, fault)).collect()
            }
            Part::CrashesInTurn(of) => {
                let turns = [false, true].into_iter().flat_map(|after| {
                    let of = if self.leaves_crashes_out(after) { of * MORE_TURNS } else { of };
                    (0..of).map(move |part| Turn { after, part, of })
                });
                turns.map(|turn| Schedule::one(1, Fault::CrashesInTurn(turn))).collect()
            }
            Part::Pairs => self.pairs.clone(),
            Part::PairsLeft => self.left.clone(),
            Part::DoubleCrashes { every } => self.double_crashes(singles, every),
            Part::Random(count) => {
                let mut dice = Dice::new(self.campaign.seed, Fault::at_every_write(self.scenario()));
                (0..count).map(|_| dice.schedule(self.calm.writes)).collect()
            }
        }
    }

    /// Whether operators that die again and again on this side of their writes are too many crashes for what is expected.
    fn leaves_crashes_out(&self, after_writes: bool) -> bool {
        self.scenario().untried.iter().any(|fault| match fault {
            Fault::CrashesBefore => !after_writes,
            Fault::CrashesAfter => after_writes,
            Fault::CrashesInTurn(turn) => turn.after == after_writes,
            _ => false,
        })
    }

    /// Of a large scenario, one in so many.
    fn sampled(&self) -> usize {
        self.scenario().sampled.unwrap_or(1)
    }

    fn crashes(&self) -> Vec<Schedule> {
        let at = |write| [Fault::CrashBefore, Fault::CrashAfter].map(|fault| Schedule::one(write, fault));
        let name = &self.scenario().name;
        let drawn = self.calm.fresh.iter().filter(|(_, occasion)| is_drawn((name, occasion), self.sampled()));
        drawn.flat_map(|(write, _)| at(*write)).collect()
    }

    /// A second crash at each write after the first. If it meets a state and a purpose in which a crash was tried
    /// before, nothing new can come of it: what is left to happen is the same.
    fn double_crashes(&self, singles: &[Single], every: usize) -> Vec<Schedule> {
        let (name, one_in) = (&self.scenario().name, self.sampled().max(every));
        let mut met = BTreeSet::new();
        let mut schedules = Vec::new();
        for (first, at_writes) in singles {
            let Some(Incident { at: Moment::Write(write), .. }) = first.faults.first() else { continue };
            // Those of the run without faults come first: a second crash there is a single one.
            met.extend(at_writes.iter().take(*write).cloned());
        }
        for (first, at_writes) in singles {
            let Some(Incident { at: Moment::Write(write), .. }) = first.faults.first() else { continue };
            let later = at_writes.iter().enumerate().skip(*write).take(self.calm.writes);
            for (index, meeting) in later {
                if met.insert(meeting.clone()) {
                    let second = Incident { at: Moment::Write(index + 1), what: Fault::CrashAfter };
                    let both = Schedule { faults: first.faults.iter().cloned().chain([second]).collect() };
                    schedules.extend(is_drawn(("two crashes", name, both.names()), one_in).then_some(both));
                }
            }
        }
        schedules
    }

    /// Each run has a runtime of its own, so that no run knows of another. Gives back the states that the writes of each
    /// run met.
    fn run_all(&mut self, schedules: &[Schedule], progress: Progress<'_>) -> Result<Vec<Meetings>, std::io::Error> {
        let (campaign, calm) = (&self.campaign, &self.calm);
        let before = self.report.schedules;
        let shared = Mutex::new((&mut self.report, vec![Vec::new(); schedules.len()]));
        on_all_cores(schedules.len(), |index| {
            let schedule = &schedules[index];
            let begun = now();
            let mut outcome = campaign.play(schedule, Some(calm))?;
            let took = begun.elapsed();
            let enough = campaign.first_only && !outcome.violations.is_empty();
            let mut shared = lock(&shared);
            // Of what breaks something they tell where it is.
            shared.1[index] = match outcome.violations.is_empty() {
                true => std::mem::take(&mut outcome.at_writes),
                false => outcome.at_writes.clone(),
            };
            shared.0.count(&campaign.scenario, schedule, outcome);
            shared.0.seconds += took.as_secs_f64();
            progress(shared.0.schedules - before, schedules.len());
            Ok::<_, std::io::Error>(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(shared.into_inner().unwrap_or_else(PoisonError::into_inner).1)
    }

    /// The first failure is told in its smallest form.
    fn shrink_first(&mut self) -> Result<(), std::io::Error> {
        self.report.failures.sort_by_key(|failure| failure.schedule.faults.len());
        let Some(first) = self.report.failures.first_mut() else { return Ok(()) };
        let (campaign, calm) = (&self.campaign, &self.calm);
        let fails = |schedule: &Schedule| -> Result<Option<Outcome>, std::io::Error> {
            let outcome = campaign.play(schedule, Some(calm))?;
            Ok(Some(outcome).filter(|outcome| !outcome.violations.is_empty()))
        };
        if let Some((schedule, outcome)) = shrink::shrink(&first.schedule, fails)? {
            *first = Failure::new(&campaign.scenario, &schedule, outcome);
        }
        Ok(())
    }
}

/// So many times as many runs share the crashes of a scenario that bears fewer of them at once.
const MORE_TURNS: u64 = 4;

/// Real time: what campaigns cost is told, and no run knows of it.
#[allow(clippy::disallowed_methods, reason = "nothing that is simulated follows from it")]
fn now() -> Instant {
    Instant::now()
}

/// At each write of a run, the state that it met, and its purpose.
type Meetings = Vec<(u64, String)>;

/// One crash, and what the run met.
type Single = (Schedule, Meetings);
