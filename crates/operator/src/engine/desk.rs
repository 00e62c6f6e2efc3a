//! What is known about one piece of work beside the objects themselves.

use std::collections::BTreeSet;
use std::time::Duration;

use drover_clock::later;
use drover_core::decision::{Purpose, Reason, Wait, Write};
use drover_core::plan::Trouble;
use jiff::Timestamp;

use crate::act::Failure;
use crate::api::plural;

/// Events that come in a burst are decided on together.
pub(crate) const COALESCE: Duration = Duration::from_millis(50);
/// Everything is looked at again after this time, should an event have been lost.
pub(crate) const LOOK_AT_ALL: Duration = Duration::from_secs(300);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// So many Events are remembered by name, so that none is sent twice.
const REMEMBERED_EVENTS: usize = 2000;
/// A write that fails this often in a row, for a reason that may pass, is published as a wait.
const FAILURES_TO_TELL: u32 = 3;

/// After this time the epoch is raised again, should another operator have raised it; it doubles each time.
const FIRST_PAUSE_BETWEEN_EPOCHS: Duration = Duration::from_secs(1);

/// How long nothing is tried after so many failures in a row.
pub(crate) fn pause_after(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.min(16)).min(LONGEST_PAUSE)
}

/// A Plan, an Upgrade, or all orphaned marks.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    /// Decide at this moment, or earlier if an event comes.
    pub due: Option<Timestamp>,
    /// A batch is under way: nothing is decided until its answers are in.
    pub in_flight: bool,
    pub failures: u32,
    pub not_before: Option<Timestamp>,
    pub last_failure: Option<Box<Failure>>,
    pub status_written: Option<Timestamp>,
    pub told: Vec<Wait>,
    /// The batch under way changes claims.
    pub claiming: bool,
    /// How often this process has raised the epoch, and when it may again.
    pub raised: u32,
    pub raise_not_before: Option<Timestamp>,
    /// Names of Events that were sent: a decision that is taken again need not tell them again.
    pub announced: BTreeSet<String>,
}

impl Desk {
    /// Two operators that lead at once take the epoch from each other. Whoever had it once leaves the other one time to work.
    pub fn may_raise(&mut self, now: Timestamp) -> bool {
        if let Some(moment) = self.raise_not_before.filter(|moment| now < *moment) {
            self.due = Some(self.due.map_or(moment, |due| due.min(moment)));
            return false;
        }
        let pause = FIRST_PAUSE_BETWEEN_EPOCHS.saturating_mul(1 << self.raised.min(4));
        self.raised += 1;
        self.raise_not_before = Some(later(now, pause));
        true
    }

    /// Leaves out the Events that were sent before, and the stages in which nothing is left.
    pub fn without_told(&mut self, mut stages: Vec<Vec<Write>>) -> Vec<Vec<Write>> {
        for stage in &mut stages {
            stage.retain(|write| write.purpose != Purpose::Announce || !self.announced.contains(&write.subject.name));
        }
        stages.retain(|stage| !stage.is_empty());
        if self.announced.len() > REMEMBERED_EVENTS {
            self.announced.clear();
        }
        let events = stages.iter().flatten().filter(|write| write.purpose == Purpose::Announce);
        self.announced.extend(events.map(|write| write.subject.name.clone()));
        stages
    }

    /// Something has changed: decide soon.
    pub fn wake(&mut self, now: Timestamp) {
        let soon = later(now, COALESCE);
        self.due = Some(self.due.map_or(soon, |due| due.min(soon)));
    }

    /// Logs the waits that are new, and remembers them all. `whose` is as in `plan up`.
    pub fn tell(&mut self, whose: &str, waits: &[Wait]) {
        for wait in waits.iter().filter(|wait| !self.told.iter().any(|told| told.sentence == wait.sentence)) {
            tracing::info!("{whose} waits: {}: {}", wait.reason, wait.sentence);
        }
        self.told = waits.to_vec();
    }

    /// A batch is over, well or not.
    pub fn end(&mut self, failure: Option<Box<Failure>>, now: Timestamp) {
        (self.in_flight, self.claiming) = (false, false);
        match failure {
            None => (self.failures, self.not_before, self.last_failure) = (0, None, None),
            Some(failure) => {
                let pause = pause_after(self.failures).max(failure.error.retry_after().unwrap_or_default());
                self.failures += 1;
                self.not_before = Some(later(now, pause));
                if !failure.is_lost_race() {
                    tracing::warn!("{failure}");
                }
                self.last_failure = Some(failure);
            }
        }
    }

    /// The write that does not get through, in the words of a wait.
    pub fn trouble(&self) -> Option<Trouble> {
        let failure = self.last_failure.as_ref()?;
        let forbidden = failure.error.is_forbidden();
        let told = forbidden || failure.error.code() == Some(422) || self.failures >= FAILURES_TO_TELL;
        (told && !failure.is_lost_race()).then(|| Trouble {
            reason: if forbidden { Reason::NoPermission } else { Reason::ApiRefuses },
            sentence: failure.to_string(),
            remedy: forbidden
                .then(|| format!("grant the operator what it lacks on {}", plural(failure.write.subject.kind))),
            blind: false,
        })
    }

    /// When to decide; never while a batch is under way, and not before the pause after a failure is over.
    pub fn due_at(&self) -> Option<Timestamp> {
        let due = self.due.filter(|_| !self.in_flight)?;
        Some(self.not_before.map_or(due, |pause_ends| due.max(pause_ends)))
    }
}
