//! What happened to one resource lately: the events that watches read.
//!
//! Watchers keep a place in this log and no queue of their own, so a slow one costs a writer nothing. One whose place
//! was dropped from the log has missed something, and its stream ends.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    task::Waker,
};

use super::{status::Answer, status::too_old, stored::Stored};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum EventKind {
    Added,
    Modified,
    Deleted,
}

/// One change. The version after it carries the event's bytes; the one before it tells watches with selectors
/// whether the object came into sight or went out of it.
#[derive(Clone)]
pub(crate) struct Event {
    pub kind: EventKind,
    pub key: Box<str>,
    pub after: Arc<Stored>,
    pub before: Option<Arc<Stored>>,
}

/// Where a watch stands in the log: the number of the next event it has not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(u64);

struct Watcher {
    actor: Arc<str>,
    waker: Option<Waker>,
}

pub(crate) struct EventLog {
    events: VecDeque<Event>,
    window: usize,
    /// How many events were dropped from the front, ever.
    dropped: u64,
    /// The resourceVersion from which on nothing is missing.
    complete_from: u64,
    watchers: BTreeMap<u64, Watcher>,
}

impl EventLog {
    pub fn new(window: usize, revision: u64) -> Self {
        EventLog {
            events: VecDeque::new(),
            window: window.max(1),
            dropped: 0,
            complete_from: revision,
            watchers: BTreeMap::new(),
        }
    }

    /// Appends an event and hands out whom to wake for it.
    pub fn append(&mut self, event: Event, wake: &mut Vec<Waker>) {
        if self.events.len() >= self.window
            && let Some(oldest) = self.events.pop_front()
        {
            self.dropped += 1;
            self.complete_from = oldest.after.revision;
        }
        self.events.push_back(event);
        wake.extend(self.watchers.values_mut().filter_map(|watcher| watcher.waker.take()));
    }

    /// Forgets all events up to now.
    pub fn compact(&mut self, revision: u64) {
        self.dropped += self.events.len() as u64;
        self.events.clear();
        self.complete_from = self.complete_from.max(revision);
    }

    pub fn end(&self) -> Place {
        Place(self.dropped + self.events.len() as u64)
    }

    /// The place after everything up to `revision`.
    pub fn place_after(&self, revision: u64) -> Answer<Place> {
        let first = self.since(revision)?;
        Ok(Place(self.dropped + first as u64))
    }

    /// All events after `revision`, oldest first.
    pub fn events_since(&self, revision: u64) -> Answer<impl Iterator<Item = &Event>> {
        Ok(self.events.range(self.since(revision)?..))
    }

    fn since(&self, revision: u64) -> Answer<usize> {
        if revision < self.complete_from {
            return Err(too_old(revision, self.complete_from));
        }
        Ok(self.events.partition_point(|event| event.after.revision <= revision))
    }

    /// Up to `limit` events from a place on; none if the place was dropped.
    pub fn read(&self, place: Place, limit: usize) -> Option<impl Iterator<Item = &Event>> {
        let start = place.0.checked_sub(self.dropped)? as usize;
        Some(self.events.range(start.min(self.events.len())..).take(limit))
    }

    pub fn enter(&mut self, id: u64, actor: Arc<str>) {
        self.watchers.insert(id, Watcher { actor, waker: None });
    }

    pub fn leave(&mut self, id: u64) {
        self.watchers.remove(&id);
    }

    /// Asks to be woken at the next event. False if the watch was cut.
    pub fn wait(&mut self, id: u64, waker: &Waker) -> bool {
        match self.watchers.get_mut(&id) {
            Some(watcher) => {
                watcher.waker = Some(waker.clone());
                true
            }
            None => false,
        }
    }

    pub fn is_open(&self, id: u64) -> bool {
        self.watchers.contains_key(&id)
    }

    /// Ends the watches of one actor, or all.
    pub fn cut(&mut self, actor: Option<&str>, wake: &mut Vec<Waker>) {
        self.watchers.retain(|_, watcher| {
            let stays = actor.is_some_and(|actor| actor != &*watcher.actor);
            if !stays {
                wake.extend(watcher.waker.take());
            }
            stays
        });
    }
}

impl Place {
    pub fn next(self) -> Self {
        Place(self.0 + 1)
    }
}
