//! The engine shell: sees through watches, decides with `drover_core`, acts through the API.
//!
//! Every watch and every answer to a write goes into one inbox; one task owns the store, decides, and sends the
//! writes off. There is no other state, so a process that dies loses nothing that the next one cannot see.

mod act;
mod api;
mod channels;
pub mod clusters;
mod connect;
pub mod drain;
mod election;
mod engine;
mod follow;
mod gates;
pub mod guest;
pub mod harvester;
mod head;
mod http_channels;
mod inbox;
mod listening;
mod mirror;
pub mod objects;
mod planner;
mod presence;
mod store;
pub mod survey;
mod watch;
mod webhook;

pub use act::Failure;
pub use api::ApiError;
pub use channels::{Channels, NoChannels};
pub use connect::{ConnectError, Connection, connect, connect_with};
pub use election::ElectionOptions;
pub use engine::{Operator, OperatorOptions, Report};
pub use http_channels::HttpChannels;
pub use planner::{Planner, PlannerOptions};
pub use watch::{WatchError, WatchOptions, Watcher};
pub use webhook::{Place, WebhookError, WebhookOptions, Webhooks};
