//! The kinds that are read and written.
//!
//! One program: linking each file for itself took longer than running them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test whose ground is missing has failed")]

mod definitions;
mod foreign_kinds;
