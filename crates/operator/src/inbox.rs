//! Everything that reaches the engine, in one queue: one order of events, one owner of the store.

use drover_core::decision::Kind;
use drover_core::plan::{Answer, GateSeen, Target};
use drover_core::seen::Seen;

use crate::act::Failure;
use crate::engine::Work;

#[derive(Debug)]
pub enum Message {
    /// All objects of a kind, as of one resourceVersion.
    Listed {
        kind: Kind,
        objects: Vec<Seen>,
        resource_version: u64,
    },
    Changed(Box<Seen>),
    /// A watch saw it go.
    Gone {
        kind: Kind,
        name: String,
        uid: String,
        resource_version: u64,
    },
    /// An answer said that it is no more.
    Missing {
        kind: Kind,
        name: String,
    },
    /// A watch is open again.
    Watching {
        kind: Kind,
    },
    /// A kind cannot be listed or watched now; what is known of it gets old.
    Unseen {
        kind: Kind,
        sentence: String,
        forbidden: bool,
    },
    /// The Lease is ours, or no longer.
    Leading(bool),
    /// The object that a gate is over.
    GateSeen {
        target: Target,
        seen: GateSeen,
    },
    /// A Plan's channel was asked.
    Answered {
        plan: String,
        url: String,
        answer: Result<Answer, String>,
    },
    /// A batch of writes is over.
    Done {
        work: Work,
        failure: Option<Box<Failure>>,
    },
}
