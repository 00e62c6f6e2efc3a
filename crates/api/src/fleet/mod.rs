//! The kinds of Fleet that an upgrade looks at. See <https://fleet.rancher.io/reference/ref-crds>.

pub mod bundle;
pub mod cluster;
