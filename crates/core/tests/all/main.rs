//! Decisions and explanations over whole clusters.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test whose ground is missing has failed")]

mod captured;
mod explained;
mod measured;
mod read;
mod registered;
mod seen;
mod varied;
