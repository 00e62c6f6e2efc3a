//! Simulated upgrades: the real operator on the embedded cluster in virtual time, with faults.
//!
//! A run is a [`Scenario`] under a [`Schedule`] of faults. After every single write, [`invariants`] checks what must
//! always hold, with code that shares nothing with the engines. The same seed gives the same trace, byte for byte.

mod acts;
pub mod campaign;
mod channel;
pub mod faults;
mod gate;
mod guests;
pub mod invariants;
pub mod known;
pub mod live;
mod original;
pub mod programs;
mod record;
mod repository;
pub mod run;
pub mod sabotage;
pub mod scenario;
mod shift;
mod stock;
pub mod story;
mod updates;

pub use campaign::{Campaign, CampaignReport};
pub use faults::{Fault, Incident, Moment, Schedule};
pub use record::{Saved, Violation};
pub use run::{Outcome, Stage, Terms, run};
pub use scenario::{Scenario, ScenarioError};
