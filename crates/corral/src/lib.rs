//! Corral: an embedded Kubernetes cluster, to try, rehearse and test on.

pub mod apiserver;
pub mod serve;
pub mod world;
