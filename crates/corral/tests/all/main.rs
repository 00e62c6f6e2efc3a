//! The embedded API server, asked as any client would.
//!
//! One program: linking each file for itself took longer than running them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod apiserver;
mod fuzzed;
mod requests;
