//! What is known about one piece of work beside the objects themselves.

use std::collections::BTreeSet;
use std::time::Duration;

use drover_clock::later;
use drover_core::decision::Wait;
use jiff::Timestamp;

use crate::act::Failure;

/// After this time the epoch is raised again, should another operator have raised it; it doubles each time.
const FIRST_PAUSE_BETWEEN_EPOCHS: Duration = Duration::from_secs(1);

/// A Plan, or all orphaned marks.
#[derive(Debug, Default)]
pub(super) struct Desk {
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

    /// When to decide; never while a batch is under way, and not before the pause after a failure is over.
    pub fn due_at(&self) -> Option<Timestamp> {
        let due = self.due.filter(|_| !self.in_flight)?;
        Some(self.not_before.map_or(due, |pause_ends| due.max(pause_ends)))
    }
}
