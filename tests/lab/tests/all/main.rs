//! What needs real programs: a control plane, nodes, clients.
//!
//! One program: linking each file for itself took longer than running them.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "it times real processes, and a test that cannot go on should stop there"
)]

mod clients_on_corral;
mod comes_and_goes;
mod definitions;
mod etcd;
mod harvester;
mod kubelets;
mod kubernetes;
mod nodes;
mod plan;
mod real_controllers_on_corral;
