//! Rancher: the planner that upgrades the nodes of an RKE2 cluster one after another, its drains with their hooks, and the
//! agents that carry out its plans on the machines.
//!
//! Models `pkg/capr` (planner, machinedrain, plansecret) of Rancher 2.12, rancher-system-agent 0.3, and of Cluster API what
//! they read: Machines that know the kubelet of their Node. It is written from what the original does, its weaknesses
//! included; some of them have to be switched on (see [`wedges`]). Which form tokens have follows from the setting
//! `server-version`; from 2.15 on a plan that has failed once stays failed. Left out: making and removing machines, etcd
//! snapshots and restores, rotation of certificates and keys, Windows, k3s, files of plans beyond one, periodic
//! instructions, and the restart of the kubelet that comes with an installation.

pub mod agent;
pub mod drain;
pub mod notes;
pub mod options;
pub mod plan;
pub mod planner;
pub mod seeds;
pub mod status;

#[cfg(test)]
mod tests;
mod watch;

use drover_api::rancher::machine_plan::{annotations, keys, labels};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use sha2::{Digest, Sha256};

use super::kubelet::hex;

/// What Rancher is told to do wrong, in the annotation `corral.drover.dev/wedges` of the RKEControlPlane, separated by commas.
pub mod wedges {
    /// The planner writes a Secret from an old reading, and so brings back the annotations of a drain that was over.
    pub const STALE_ANNOTATIONS: &str = "stale-annotations";
    /// The planner forgets its limit, and begins with all nodes of a tier at once.
    pub const NO_LIMIT: &str = "no-limit";
    /// The planner and its drains do nothing any more, and say nothing of it.
    pub const SILENT: &str = "silent";
}

/// An annotation of a plan Secret; one that is empty counts as missing.
pub fn note<'a>(secret: &'a Secret, key: &str) -> Option<&'a str> {
    secret.metadata.annotations.as_ref()?.get(key).map(String::as_str).filter(|value| !value.is_empty())
}

pub fn set_note(secret: &mut Secret, key: &str, value: &str) {
    secret.metadata.annotations.get_or_insert_default().insert(key.into(), value.into());
}

pub fn label<'a>(secret: &'a Secret, key: &str) -> Option<&'a str> {
    secret.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

pub fn has_role(secret: &Secret, role: &str) -> bool {
    label(secret, role) == Some("true")
}

pub fn is_init_node(secret: &Secret) -> bool {
    label(secret, labels::INIT_NODE) == Some("true")
}

/// What stands under a key of a plan Secret.
pub fn datum<'a>(secret: &'a Secret, key: &str) -> Option<&'a str> {
    let bytes = secret.data.as_ref()?.get(key)?;
    std::str::from_utf8(&bytes.0).ok().filter(|text| !text.is_empty())
}

pub fn set_datum(secret: &mut Secret, key: &str, value: &str) {
    secret.data.get_or_insert_default().insert(key.into(), ByteString(value.as_bytes().to_vec()));
}

pub fn checksum(plan: &str) -> String {
    hex(&Sha256::digest(plan.as_bytes()))
}

/// The agent has carried out the plan that stands there.
pub fn is_in_sync(secret: &Secret) -> bool {
    match (datum(secret, keys::PLAN), datum(secret, keys::APPLIED_CHECKSUM)) {
        (Some(plan), Some(applied)) => checksum(plan) == applied,
        _ => false,
    }
}

/// A drain of its node has begun and was not cleared away.
pub fn is_in_drain(secret: &Secret) -> bool {
    [annotations::PRE_DRAIN, annotations::POST_DRAIN, annotations::DRAIN_OPTIONS, annotations::UNCORDON]
        .iter()
        .any(|key| note(secret, key).is_some())
}
