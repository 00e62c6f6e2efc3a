//! What is known of one TanzuKubernetesCluster beside its objects, and when to look at it next.

use std::collections::BTreeMap;
use std::time::Duration;

use drover_clock::later;
use drover_core::guest::tanzu::Watched;
use drover_core::guest::tanzu::addons::Told;
use jiff::Timestamp;

use super::ear::Visit;
use crate::engine::desk::{COALESCE, pause_after};

/// A guest is asked for its Nodes when its Machines change, and for that no more often than this.
pub const PEEK_AGAIN: Duration = Duration::from_secs(10);
/// What a guest refuses is hardly mended within the first pauses of all.
const FIRST_TRIES: u32 = 3;

/// What is known of one cluster beside its objects.
#[derive(Debug)]
pub struct Desk {
    /// When to decide next.
    pub due: Timestamp,
    pub failures: u32,
    pub not_before: Timestamp,
    pub nodes: Option<BTreeMap<String, bool>>,
    /// The ClusterConfiguration of the guest, as text.
    pub configuration: Option<Box<str>>,
    pub addons: Option<Told>,
    /// How often in a row its add-ons could not all be applied.
    pub tries: u32,
    /// When the guest itself is asked next.
    pub asks_at: Timestamp,
    pub asking: bool,
    pub asked: Timestamp,
    /// It took its time when it was last asked: others that answer do not wait for it.
    pub is_slow: bool,
    pub status_written: Timestamp,
    /// How long what it waits for has lasted.
    pub watched: Watched,
    /// Nothing was to be done when it was last looked at, and nothing waited for; or it was not looked at yet.
    pub is_idle: bool,
}

impl Desk {
    pub fn new(due: Timestamp) -> Self {
        Desk {
            due,
            failures: 0,
            not_before: Timestamp::MIN,
            nodes: None,
            configuration: None,
            addons: None,
            tries: 0,
            asks_at: Timestamp::MIN,
            asking: false,
            asked: Timestamp::MIN,
            is_slow: false,
            status_written: Timestamp::MIN,
            watched: Watched::default(),
            is_idle: true,
        }
    }

    /// The guest has been asked. What is applied stays so while it does not answer.
    pub fn hear(&mut self, visit: Visit, is_slow: bool, now: Timestamp) {
        (self.asking, self.is_slow) = (false, is_slow);
        let told = match visit {
            Visit::Told(told) => told,
            Visit::Unasked => return,
            Visit::Unanswered => {
                self.asks_at = now;
                self.due = now;
                return;
            }
            // Whoever leads goes on where this ended: that may be this operator, back from where nobody ran it.
            Visit::BrokenOff => {
                self.asks_at = self.asks_at.min(later(now, PEEK_AGAIN));
                self.due = self.due.min(self.asks_at);
                return;
            }
        };
        self.tries = if told.again { self.tries + 1 } else { 0 };
        if told.again {
            self.asks_at = self.asks_at.min(later(now, pause_after(self.tries + FIRST_TRIES)));
        }
        let is_known = self.addons.as_ref().is_some_and(|known| known.key == told.key && known.answered);
        if (told.answered || !is_known) && self.addons.as_ref() != Some(&told) {
            self.addons = Some(told);
        }
        // Meanwhile something else may be wanted.
        self.due = self.due.min(later(now, COALESCE));
    }
}
