//! Simulated upgrades: what must hold, and that the search for what breaks it finds it.
//!
//! One program: linking each file for itself took longer than running them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test whose ground is missing has failed")]

mod guests;
mod harvester;
mod own_planner;
mod programs;
mod proof;
mod recovery;
mod regressions;
mod sabotage;
mod saved;
mod scenarios;
mod schema;
mod stories;
mod tkc;
mod why;
