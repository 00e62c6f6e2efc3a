//! The Plan engine: decides what one `upgrade.cattle.io/v1` Plan does next.
//!
//! [`decide`] looks at the Plan, its nodes, its Jobs and its Secrets at one moment. Every node goes the same way:
//! claimed on the Plan, taken by a mark (and a cordon), upgraded by a Job, released when it is Ready again.

mod announce;
mod between;
pub mod channel;
mod container;
mod decide;
pub mod duration;
mod expand;
mod failure;
pub mod gate;
pub mod hash;
mod image;
pub mod job;
mod jobs;
mod labels;
mod marking;
pub mod names;
mod nodes;
mod orphans;
mod pace;
mod selection;
pub mod selector;
mod start;
mod status;
mod syntax;
mod tend;
#[cfg(test)]
mod tests;
pub mod validate;
pub mod version;
mod waiting;
pub mod window;

pub use channel::{Answer, Heard};
pub use decide::{Trouble, View, decide};
pub use gate::{GateSeen, Target};
pub use orphans::undo_orphaned_marks;
