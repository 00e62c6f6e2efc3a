//! Decisions, pure: what to write, what to wait for, when to look again.
//!
//! Nothing in here talks to a server, reads a clock or draws a random number. A decision follows from what was
//! seen and the moment it is taken at, so a test states the one and compares the other.

pub mod accepted;
pub mod after;
mod announce;
pub mod claims;
pub mod cluster;
pub mod decision;
pub mod drain;
pub mod forecast;
pub mod guest;
pub mod harvester;
mod managed;
mod merge;
pub mod metrics;
pub mod placement;
pub mod plan;
pub mod planner;
pub mod preflight;
mod quorum;
mod rooms;
pub mod seen;
pub mod status;
#[cfg(test)]
mod stories;
pub mod why;
pub mod yaml;
