//! How long something has been waited for, by no clock that anybody can set.
//!
//! Whoever looks counts what it has itself seen pass. How far it has counted is published in thirds, and whoever comes next goes on from
//! there: the clocks of two machines are never compared. An operator that dies takes a third along at most.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Reason, View, Wait, rollout, time};
use crate::guest::wait::Object;

/// In so many steps a count is published: often enough for operators that die, and seldom enough for who reads.
const STEPS: i64 = 3;
/// A deadline that is published stays as it is while the clock is no more than this off.
const NEARLY: SignedDuration = SignedDuration::from_secs(5);

/// Since when each wait has been counted, by the steady clock of who looks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Watched {
    from: BTreeMap<(String, Reason), Timestamp>,
}

/// How much of the time of a wait is over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spent {
    pub waited: SignedDuration,
    pub limit: SignedDuration,
}

impl Spent {
    pub fn is_all(&self) -> bool {
        self.waited >= self.limit
    }

    /// What is worth telling who comes next, in seconds.
    pub fn told(&self) -> Option<i64> {
        let step = self.step();
        let steps = self.waited.as_secs().checked_div(step)?.min(STEPS);
        (steps > 0).then_some(steps * step)
    }

    fn step(&self) -> i64 {
        self.limit.as_secs() / STEPS
    }

    /// When there is something to do about it, or to tell.
    fn next(&self) -> Option<SignedDuration> {
        let step = SignedDuration::from_secs(self.told().unwrap_or(0) + self.step());
        let next = if step > self.waited { step.min(self.limit) } else { self.limit };
        (!self.is_all()).then(|| next.saturating_sub(self.waited))
    }
}

impl View<'_> {
    /// How long that has been waited for: what was seen here, or what the one before has told.
    pub(super) fn waited(&self, subject: &Object, reason: Reason) -> SignedDuration {
        let waited = match self.watched.from.get(&(subject.to_string(), reason)) {
            Some(from) => self.steady.duration_since(*from),
            None => {
                let told = self.published(subject, reason).and_then(|wait| wait["waitedSeconds"].as_i64());
                SignedDuration::from_secs(told.unwrap_or(0))
            }
        };
        waited.max(SignedDuration::ZERO)
    }

    /// Whether it is waited for already, here or by the one before.
    pub(super) fn is_counted(&self, subject: &Object, reason: Reason) -> bool {
        self.watched.from.contains_key(&(subject.to_string(), reason)) || self.published(subject, reason).is_some()
    }
}

impl Wait {
    /// Something else is said when it has lasted so long.
    pub(super) fn counted(mut self, view: &View<'_>, limit: SignedDuration) -> Self {
        self.spent = Some(Spent { waited: view.waited(&self.subject, self.reason), limit });
        self
    }

    /// It fails when it has lasted so long.
    pub(super) fn at_most(mut self, view: &View<'_>, limit: SignedDuration) -> Self {
        let spent = Spent { waited: view.waited(&self.subject, self.reason), limit };
        let left = limit.saturating_sub(spent.waited);
        let deadline = view.now.checked_add(left).unwrap_or(Timestamp::MAX);
        let known = view.published(&self.subject, self.reason).and_then(|wait| time(&wait["deadline"]));
        let is_near = |known: &Timestamp| deadline.duration_since(*known).abs() <= NEARLY;
        self.deadline = Some(known.filter(is_near).unwrap_or(deadline));
        self.spent = Some(spent);
        self
    }

    pub(super) fn is_over(&self) -> bool {
        self.spent.is_some_and(|spent| spent.is_all())
    }
}

/// What is counted from now on, and when to look again for the sake of it.
pub fn counted(view: &View<'_>, waits: &[Wait]) -> (Watched, Option<Timestamp>) {
    let limited = waits.iter().filter_map(|wait| Some((wait.subject.clone(), wait.reason, wait.spent?)));
    let all: Vec<(Object, Reason, Spent)> = limited.chain(rollout::leaving(view)).collect();
    let from = |(subject, reason, spent): &(Object, Reason, Spent)| {
        let from = view.steady.checked_sub(spent.waited).unwrap_or(view.steady);
        ((subject.to_string(), *reason), from)
    };
    let next = all.iter().filter_map(|(_, _, spent)| spent.next()).min();
    let look_again = next.and_then(|next| view.steady.checked_add(next).ok());
    (Watched { from: all.iter().map(from).collect() }, look_again)
}

impl<'a> View<'a> {
    /// What the status says of a wait.
    pub(super) fn published(&self, subject: &Object, reason: Reason) -> Option<&'a Value> {
        let shown = subject.to_string();
        let mut published = self.tkc["status"]["waits"].as_array().into_iter().flatten();
        published.find(|wait| wait["subject"] == shown && wait["reason"] == reason.to_string())
    }
}
