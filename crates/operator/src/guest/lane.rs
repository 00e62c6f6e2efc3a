//! Guests are asked a few at once, and those that are slow to answer have places of their own: they hold up none that answers soon.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;

use super::ear::News;
use super::errand::{Errand, PATIENCE};
use super::ledger::Key;

/// So many guests are asked at once in each lane: each takes memory for as long as it is asked, and an operator that begins has all of
/// them to ask.
const PLACES: usize = 10;
/// Whoever takes longer is slow.
pub const SOON: Duration = Duration::from_secs(3);

/// Guests that are asked now, and those that wait for it.
#[derive(Debug)]
pub struct Lane {
    patience: Duration,
    asked: JoinSet<()>,
    queue: VecDeque<Key>,
}

impl Lane {
    /// Of those that answer soon, as far as is known.
    pub fn prompt() -> Self {
        Lane { patience: SOON, asked: JoinSet::new(), queue: VecDeque::new() }
    }

    pub fn slow() -> Self {
        Lane { patience: PATIENCE, ..Lane::prompt() }
    }

    pub fn has_room(&self) -> bool {
        self.asked.len() < PLACES
    }

    pub fn send(&mut self, errand: Errand, news: UnboundedSender<News>) {
        self.asked.spawn(errand.run(self.patience, news));
    }

    /// Has its turn when there is room.
    pub fn queue(&mut self, key: &Key) {
        if !self.queue.contains(key) {
            self.queue.push_back(key.clone());
        }
    }

    /// Until one has been asked; never if nobody is.
    pub async fn one_is_done(&mut self) {
        if self.asked.join_next().await.is_none() {
            std::future::pending().await
        }
    }

    /// Those whose turn it is: of all that wait, whoever failed least often, and then whoever came first.
    pub fn next(&mut self, failures: impl Fn(&Key) -> u32) -> Vec<Key> {
        let free = PLACES.saturating_sub(self.asked.len()).min(self.queue.len());
        self.queue.make_contiguous().sort_by_key(failures);
        self.queue.drain(..free).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_failed_least_often_has_its_turn_first() {
        let mut lane = Lane::slow();
        let key = |number: usize| ("default".to_owned(), format!("tkc-{number}"));
        (0..PLACES + 2).chain([3]).for_each(|number| lane.queue(&key(number)));

        let first = lane.next(|one| if *one == key(0) { 7 } else { 0 });

        assert_eq!(first, (1..=PLACES).map(key).collect::<Vec<_>>());
        assert_eq!(lane.next(|_| 0), [key(PLACES + 1), key(0)]);
    }
}
