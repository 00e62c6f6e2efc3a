//! What the API server promises, asked over the service as any client would.

mod admission;
mod applies;
mod binding_and_eviction;
mod builtin_kinds;
mod custom_kinds;
mod deletes;
mod discovery;
mod dry_runs;
mod lists;
mod more_kinds;
mod parts;
mod pod_logs;
mod save_and_load;
mod server;
mod support;
mod tables;
mod warnings;
mod watches;
mod writes;
