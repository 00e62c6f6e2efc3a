//! Every kind that Drover reads or writes, a file each, with the words of the outside world that belong to it.
//!
//! Labels, annotations, condition types, reasons and messages stand here once. Users' scripts read them, so a change
//! here is a change of what Drover promises.

pub mod cluster_api;
pub mod crds;
pub mod daemon_set;
pub mod fleet;
pub mod foreign;
pub mod harvester;
pub mod helm;
pub mod kubevirt;
pub mod longhorn;
pub mod marks;
pub mod node;
pub mod plan;
pub mod policy;
pub mod quantity;
pub mod rancher;
pub mod tanzu;
pub mod vm_operator;
pub mod wcp;
