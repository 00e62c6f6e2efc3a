//! The update of a guest cluster's control plane: machine by machine, one more before one less. [`tanzu`] has that of a whole cluster.
//!
//! [`decide`] looks at the management cluster, at the guest and at its etcd, and says what comes next: deeds, waits with their
//! deadlines, or the end. It remembers nothing: whoever begins anew finds out from the objects how far the update is. A Machine is
//! replaced while it differs from what is asked for, and the update has succeeded when none does.

mod certificates;
mod copy;
mod cordon;
mod decide;
mod dialect;
mod etcd;
mod generated;
mod health;
mod kubeadm;
mod kubeadm_api;
pub mod levers;
mod order;
mod patch;
mod paused;
mod recovery;
mod removal;
mod seen;
pub mod tanzu;
mod view;
mod wait;

#[cfg(test)]
mod tests;

pub use certificates::KINDS as CERTIFICATES;
pub use cordon::failed as cordons_of_a_failed_try;
pub use decide::{decide, warnings};
pub use dialect::Dialect;
pub use etcd::Member;
pub use health::has_condition;
pub use kubeadm::cluster_configuration;
pub use order::{MACHINE_TIMEOUT, Order, OrderError, Patches, Version};
pub(crate) use order::{begins_with, may_lag};
pub use recovery::recover;
pub use seen::{Collection, Kept, Seen};
pub use view::View;
pub use wait::{Deed, Failure, Next, Object, Reason, Side, Wait, Write};
