//! Every kind that Drover reads or writes, a file each, with the words of the outside world that belong to it.
//!
//! Labels, annotations, condition types, reasons and messages stand here once. Users' scripts read them, so a change
//! here is a change of what Drover promises.

pub mod crds;
pub mod marks;
pub mod node;
pub mod plan;
