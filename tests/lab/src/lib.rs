//! The lab: a real Kubernetes control plane on this machine, built from pinned sources, for the tests that an
//! imitation could not pass.
//!
//! [`Binaries::ensure`] builds etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl and KWOK once,
//! into a cache outside the checkout. [`Lab::up`] starts them on loopback; dropping the [`Lab`] ends them, and so
//! does the death of the process that owns it. [`ClusterApi::up`] adds Cluster API, and [`Members`] are those of an etcd alone.
#![allow(
    clippy::disallowed_methods,
    reason = "the lab waits for processes of this machine, which know no clock but the wall's"
)]

mod audit;
mod binaries;
mod cluster_api;
mod control_plane;
mod controllers;
pub mod demo;
mod error;
mod etcd;
pub mod images;
mod kubectl;
mod kwok;
mod lab;
mod members;
mod network;
pub mod nodes;
mod pins;
mod pki;
mod ports;
mod processes;
mod programs;
mod protobuf;
mod ready;
mod record;
pub mod rollout;
mod traffic;

pub use audit::Audited;
pub use binaries::{Binaries, Clients};
pub use cluster_api::ClusterApi;
pub use controllers::Controllers;
pub use error::{Error, Result};
pub use lab::{Lab, LabOptions};
pub use members::Members;
pub use protobuf::write_table;
pub use record::record;
pub use traffic::{Tally, Traffic};
