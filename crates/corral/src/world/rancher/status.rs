//! What the planner waits for, where people look: the conditions of the control plane, and of the two Clusters.
//!
//! Models `pkg/controllers/{capr,provisioningv2}` of Rancher 2.12, and the phase of a Cluster as Cluster API shows it.

use drover_api::cluster_api::cluster::{Cluster as CapiCluster, phases};
use drover_api::rancher::provisioning_cluster::Cluster;
use drover_api::rancher::rke_control_plane::{RKEControlPlane, conditions};
use jiff::Timestamp;

use crate::world::loose::set_as_wrangler;
use crate::world::outcome::Action;

/// The control plane takes over what its Cluster asks for.
pub fn with_spec_of(control_plane: &RKEControlPlane, cluster: &Cluster) -> RKEControlPlane {
    let mut after = control_plane.clone();
    let asked = cluster.spec.clone().unwrap_or_default();
    let config = asked.rke_config.unwrap_or_default();
    let spec = after.spec.get_or_insert_default();
    spec.kubernetes_version = asked.kubernetes_version;
    spec.provision_generation = Some(config.provision_generation.unwrap_or(0));
    spec.upgrade_strategy = Some(config.upgrade_strategy.unwrap_or_default());
    after
}

/// Status, reason and message of a condition.
type Words<'a> = (&'a str, &'a str, &'a str);

fn words(waits_for: Option<&str>) -> Words<'_> {
    match waits_for {
        Some(message) => ("Unknown", "Waiting", message),
        None => ("True", "", ""),
    }
}

pub fn of_control_plane(before: &RKEControlPlane, waits_for: Option<&str>, now: Timestamp) -> Option<Action> {
    let mut after = before.clone();
    let generation = after.metadata.generation;
    let (status, reason, message) = words(waits_for);
    let own = after.status.get_or_insert_default();
    for kind in [conditions::READY, conditions::RECONCILED] {
        set_as_wrangler(&mut own.conditions, kind, status, reason, message, now);
    }
    own.observed_generation = generation;
    if waits_for.is_none() {
        own.applied_spec = serde_json::to_value(&before.spec).ok();
    }
    Action::change(before, &after)
}

pub fn of_cluster(before: &Cluster, waits_for: Option<&str>, now: Timestamp) -> Option<Action> {
    let mut after = before.clone();
    let generation = after.metadata.generation;
    let (status, reason, message) = words(waits_for);
    let own = after.status.get_or_insert_default();
    for kind in ["Updated", conditions::PROVISIONED, conditions::RECONCILED, conditions::READY] {
        set_as_wrangler(&mut own.conditions, kind, status, reason, message, now);
    }
    own.ready = Some(waits_for.is_none());
    own.observed_generation = generation;
    Action::change(before, &after)
}

pub fn of_capi_cluster(before: &CapiCluster, waits_for: Option<&str>, now: Timestamp) -> Option<Action> {
    let mut after = before.clone();
    let generation = after.metadata.generation;
    let (status, reason, message) = words(waits_for);
    let own = after.status.get_or_insert_default();
    crate::world::loose::set(&mut own.conditions, "ControlPlaneReady", status, Some((reason, message)), now);
    own.phase = Some(if waits_for.is_some() { phases::PROVISIONING } else { phases::PROVISIONED }.into());
    own.control_plane_ready = Some(waits_for.is_none());
    own.observed_generation = generation;
    Action::change(before, &after)
}
