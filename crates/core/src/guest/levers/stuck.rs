//! What keeps an upgrade from going on, and what would help: a part that somebody has paused, or what the parts say themselves when nothing
//! has come of it for too long.

use jiff::Timestamp;

use super::below::below;
use super::{named, plane_of};
use crate::cluster::cluster_api::{Cluster as Guest, MachineDeployment, is_paused};
use crate::cluster::{Cause, Cluster, ObjectRef, Unseen};
use crate::guest::order::Version;
use crate::why::{self, Pool, Progress};

/// What a decision about a Cluster rests on; those of other products need not be served.
pub const READ: [&str; 6] =
    ["Cluster", "KubeadmControlPlane", "MachineDeployment", "MachineSet", "Machine", "TanzuKubernetesCluster"];

/// A cluster of which only that is read: nobody knows what there is of the rest.
pub fn seen(now: Timestamp) -> Cluster {
    let mut cluster = Cluster::new(now);
    let unread = |kind: &str| Unseen { kind: kind.to_owned(), object: None, cause: Cause::NotCollected };
    cluster.unseen.extend(["Secret", "MachineTemplate"].map(unread));
    cluster
}

/// Why it does not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stuck {
    pub why: String,
    pub remedy: String,
    /// Other parts go on nevertheless.
    pub others_move: bool,
}

/// The part whose turn it is, if somebody has paused it alone.
pub fn paused(cluster: &Cluster, own: &Guest, version: &Version) -> Option<Stuck> {
    let of = |link: why::Link, others_move: bool| {
        let remedy = link.remedy.unwrap_or_default();
        Stuck { why: link.statement, remedy, others_move }
    };
    let Pool { wanted, updated, .. } = Progress::of_cluster(cluster, own).control_plane;
    let plane = plane_of(cluster, own);
    let is_lower = |text: &str| Version::parse(text).is_none_or(|runs| runs < *version);
    if let Some(plane) = plane.filter(|plane| is_lower(&plane.spec.version) || updated < wanted) {
        return is_paused(&plane.metadata).then(|| of(why::paused(plane, "kubeadmcontrolplane"), false));
    }
    let is_left = |one: &MachineDeployment| is_lower(&one.spec.template.spec.version) || one.updated() < one.wanted();
    let all = cluster.cluster_api.deployments_of(&own.metadata.namespace, &own.metadata.name);
    let (paused, others): (Vec<_>, Vec<_>) = all.filter(|one| is_left(one)).partition(|one| one.is_paused());
    let first = paused.into_iter().next()?;
    Some(of(why::paused(first, "machinedeployment"), !others.is_empty()))
}

/// What the parts of a cluster say of it, the most decisive first; else what there still is of a lower version.
pub fn said(cluster: &Cluster, own: &Guest, to: &str) -> Stuck {
    let told = why::guest_parts(cluster, own).into_iter().next();
    let looks = format!("drover why {} tells more", named(own));
    if let Some(cause) = told {
        return Stuck { why: cause.statement, remedy: cause.remedy.unwrap_or(looks), others_move: false };
    }
    let left = Version::parse(to).and_then(|version| below(cluster, own, &version).last());
    let left = left.unwrap_or_else(|| ObjectRef::of(own)).in_words();
    Stuck { why: format!("nothing says what {left} waits for"), remedy: looks, others_move: false }
}
