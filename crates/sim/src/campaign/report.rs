//! What campaigns found: failures with their stories, and what was never reached.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::faults::Schedule;
use crate::record::Saved;
use crate::run::Outcome;
use crate::scenario::Scenario;

/// What a campaign found, or several.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CampaignReport {
    pub scenario: String,
    pub schedules: usize,
    /// Writes of the run without faults: each is a place for a fault.
    pub writes: usize,
    /// Those of them that meet a state in which no write for the same purpose was made before: a crash at any other is one
    /// at them.
    pub fresh: usize,
    pub distinct_states: usize,
    /// What the runs took of a core, one by one: two at once count twice.
    pub seconds: f64,
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
    pub scenario: String,
    pub schedule: Schedule,
    /// What makes it a regression test.
    pub regression: Regression,
    pub outcome: Outcome,
    /// One line an event.
    pub trace: Vec<String>,
    /// The stores just before, for `drover corral --load`.
    #[serde(skip)]
    pub before: Option<Saved>,
}

/// All that is needed to run a failure again: a line in a file of regressions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Regression {
    pub scenario: String,
    pub seed: u64,
    pub faults: Schedule,
}

impl Failure {
    pub(super) fn new(scenario: &Scenario, schedule: &Schedule, mut outcome: Outcome) -> Self {
        let trace = outcome.trace();
        let before = outcome.before.take();
        outcome.story = Default::default();
        let (schedule, faults) = (schedule.clone(), schedule.clone().by_purpose(&outcome.at_writes));
        let regression = Regression { scenario: scenario.name.clone(), seed: outcome.seed, faults };
        Failure { scenario: scenario.name.clone(), schedule, regression, outcome, trace, before }
    }
}

impl CampaignReport {
    /// Nothing is found yet.
    pub fn of(scenario: &str) -> Self {
        CampaignReport { scenario: scenario.to_owned(), ..CampaignReport::default() }
    }

    pub(super) fn count(&mut self, scenario: &Scenario, schedule: &Schedule, mut outcome: Outcome) {
        self.schedules += 1;
        self.states.extend(outcome.states.drain(..));
        self.distinct_states = self.states.len();
        add(&mut self.purposes, &outcome.purposes);
        add(&mut self.reasons, &outcome.reasons);
        if !outcome.violations.is_empty() {
            self.failures.push(Failure::new(scenario, schedule, outcome));
        }
    }

    /// Takes in what another campaign found.
    pub fn absorb(&mut self, other: CampaignReport) {
        self.schedules += other.schedules;
        self.seconds += other.seconds;
        self.writes += other.writes;
        self.fresh += other.fresh;
        self.states.extend(other.states);
        self.distinct_states = self.states.len();
        self.failures.extend(other.failures);
        add(&mut self.purposes, &other.purposes);
        add(&mut self.reasons, &other.reasons);
    }
}

fn add(all: &mut BTreeMap<String, usize>, own: &BTreeMap<String, usize>) {
    for (name, count) in own {
        *all.entry(name.clone()).or_default() += count;
    }
}
