//! Simulated upgrades: the real operator on the embedded cluster in virtual time, with faults.
//!
//! A run is a [`Scenario`] under a [`Schedule`] of faults. After every single write, [`invariants`] checks what must
//! always hold, with code that shares nothing with the engines. The same seed gives the same trace, byte for byte.

pub mod campaign;
pub mod embedded;
pub mod faults;
pub mod invariants;
pub mod programs;
pub mod run;
pub mod scenario;

pub use campaign::{Campaign, CampaignReport};
pub use faults::{Fault, Schedule};
pub use run::{Outcome, Stage, Violation, run};
pub use scenario::{Scenario, ScenarioError};
