//! `drover` as a user calls it.
//!
//! One program: linking each file for itself took longer than running them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test whose ground is missing has failed")]

mod bad_input;
mod cluster_api;
mod clusters;
mod corral;
mod crds;
mod demo;
mod drain;
mod operator;
#[cfg(unix)]
mod plugin;
mod rights;
mod same_seed_same_trace;
mod served;
mod simulate;
