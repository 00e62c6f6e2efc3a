//! The operator on the embedded API server.
//!
//! One program: linking each file for itself took longer than running them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test whose ground is missing has failed")]

mod admitting;
mod cases;
mod clusters;
mod draining;
mod following;
mod leading;
mod planning;
mod support;
mod updating;
mod upgrading;
mod verbs;
mod watching;
