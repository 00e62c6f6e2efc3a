//! Proof by difference: the same requests go to Corral and to a real kube-apiserver, and the answers must be equal.
//!
//! A [`Script`] is a readable file of requests and watches. A side ([`Corral`] or [`Real`]) answers it; what differs by
//! chance (uids, versions, times) is made equal in `normal`. The answers of the real server are kept in a
//! [`recording`], so that Corral is held to them where no real server is. What is known to differ stands in a file,
//! each entry with its reason, and an entry that excuses nothing any more is itself a failure ([`known`]).

mod answers;
pub mod compare;
mod error;
mod folder;
mod generate;
pub mod known;
mod normal;
mod print;
mod proof;
pub mod recording;
mod script;
pub mod shrink;
mod side;

pub use answers::Answered;
pub use error::{Error, Result};
pub use folder::Folder;
pub use generate::Generator;
pub use proof::{COUNT, Live, Proof, SEED, Tally};
pub use script::{Ask, Body, Reading, Script, Step};
pub use side::{Corral, Real, Side};
