//! The Plan engine: decides what one `upgrade.cattle.io/v1` Plan does next.
//!
//! [`decide`] looks at the Plan, its nodes, its Jobs and its Secrets at one moment. Every node goes the same way:
//! claimed on the Plan, taken by a mark (and a cordon), upgraded by a Job, released when it is Ready again.

mod announce;
mod container;
mod decide;
pub mod duration;
pub mod hash;
mod image;
pub mod job;
mod labels;
mod marking;
pub mod names;
mod nodes;
mod orphans;
mod selection;
pub mod selector;
mod status;
mod syntax;
#[cfg(test)]
mod tests;
pub mod validate;
pub mod version;
pub mod window;

pub use decide::{Trouble, View, decide};
pub use orphans::undo_orphaned_marks;
