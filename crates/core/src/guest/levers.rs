//! The levers of Cluster API: what becomes of a person's word on a Cluster, its control plane and its workers.
//!
//! The rollout itself is Cluster API's. Whatever speaks against a start is said before anything is written, and the workers are
//! raised only once the control plane is done: a Cluster of a class sees to that itself.

mod awaited;
mod below;
mod following;
mod keeping;
mod stuck;

#[cfg(test)]
mod tests;

pub use awaited::{Awaited, Far, Waited};
pub(crate) use below::below;
pub use following::{Halted, Next, Waiting, follow};
pub use keeping::{AllAwaited, Said, Stand, Terms, Turn, Work, asked, keep, said, work};
pub use stuck::{READ, Stuck, seen};

use drover_api::cluster_api::PAUSED;
use drover_api::marks::{AFTER, PROGRESS, UPGRADE_TO};
use serde_json::{Value, json};

use super::order::{Version, may_lag};
use crate::after::{self, Name};
use crate::cluster::cluster_api::{Cluster as Guest, KubeadmControlPlane, Machine, MachineDeployment, is_paused};
use crate::cluster::{Cluster, Meta, ObjectRef, Projection};
use crate::why::{Pool, Progress, is_part_of_another};

/// One change of one object, guarded by what it was decided on.
#[derive(Debug, Clone, PartialEq)]
pub struct Lever {
    pub object: ObjectRef,
    /// A merge patch.
    pub patch: Value,
}

/// Why nothing is written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("{0:?} is no version of Kubernetes, such as v1.34.1")]
    NotAVersion(String),
    #[error(
        "{0} belongs to something else, which would change it back: change its TanzuKubernetesCluster, or Rancher's cluster"
    )]
    NotItsOwn(String),
    #[error("{0} is being deleted")]
    Deleting(String),
    #[error(
        "the control plane of {cluster} is a {kind}, and only those of kubeadm, and clusters of a class, can be started here"
    )]
    Provider { cluster: String, kind: String },
    #[error(
        "the machines of the control plane of {cluster} belong to nobody who would replace them: drover control-plane-upgrade \
         --cluster-namespace {namespace} --cluster-name {name} --kubernetes-version {to} --upgrade-id ID does; the workers are raised \
         after that"
    )]
    NobodysMachines { cluster: String, namespace: String, name: String, to: String },
    #[error("{cluster} is paused, and nothing would happen: drover upgrade resume {name}")]
    Paused { cluster: String, name: String },
    #[error("{to} is lower than {runs}, which {what} is of: a control plane cannot go back")]
    Lower { to: String, runs: String, what: String },
    #[error(
        "{to} is more than one minor version further than {runs}, which {what} is of: raise it one minor version at a time"
    )]
    Skips { to: String, runs: String, what: String },
    #[error(
        "{what} is of {runs}, more than {may_lag} minor versions behind {to}: raise the workers first, to what the control plane is of"
    )]
    WorkersTooOld { to: String, runs: String, what: String, may_lag: u64 },
    #[error(
        "the control plane is on its way to {to}, with {updated} of {wanted} machines: the workers are raised when it is done"
    )]
    ControlPlaneFirst { to: String, updated: i64, wanted: i64 },
    #[error("{cluster} comes after {other} ({AFTER}), which is not done: drover status cluster/{name}")]
    ComesAfter { cluster: String, other: String, name: String },
    #[error("{AFTER} of {cluster} names Cluster {name}, which is not there: mend it, or take it away")]
    AfterNobody { cluster: String, name: String },
    #[error("{cluster} comes after Cluster {name}, and that comes after it: take {AFTER} out of one of them")]
    Circle { cluster: String, name: String },
    #[error("{0} asks for {1} already: there is nothing to start")]
    Nothing(String, String),
    #[error("{0} is paused already")]
    AlreadyPaused(String),
    #[error("{0} is not paused")]
    NotPaused(String),
    #[error(
        "{cluster} is paused by its annotation, of whoever set it: kubectl -n {namespace} annotate cluster {name} {PAUSED}-"
    )]
    PausedByAnnotation { cluster: String, namespace: String, name: String },
    #[error("{}: {}", .0.why, .0.remedy)]
    PartPaused(Stuck),
}

impl Refusal {
    /// Who leaves it to an operator need not do anything about it.
    pub fn passes(&self) -> bool {
        matches!(
            self,
            Refusal::ComesAfter { .. }
                | Refusal::ControlPlaneFirst { .. }
                | Refusal::Nothing(..)
                | Refusal::NobodysMachines { .. }
                | Refusal::Paused { .. }
                | Refusal::PartPaused(_)
        )
    }
}

/// A change that nobody undoes who has not seen the object as it is.
fn lever<T: Projection>(object: &T, mut patch: Value) -> Lever {
    let Meta { resource_version, .. } = object.metadata();
    json_patch::merge(&mut patch, &json!({ "metadata": { "resourceVersion": resource_version.to_string() } }));
    Lever { object: ObjectRef::of(object), patch }
}

/// Of an object, this annotation; it goes with `null`.
fn annotate(key: &str, value: impl Into<Value>) -> Value {
    json!({ "metadata": { "annotations": { key: value.into() } } })
}

/// As the command line names it.
pub(crate) fn named(own: &Guest) -> String {
    format!("cluster/{}/{}", own.metadata.namespace, own.metadata.name)
}

fn words(own: &Guest) -> String {
    ObjectRef::of(own).in_words()
}

pub fn pause(own: &Guest) -> Result<Lever, Refusal> {
    match own.spec.paused {
        true => Err(Refusal::AlreadyPaused(words(own))),
        false => Ok(lever(own, json!({ "spec": { "paused": true } }))),
    }
}

pub fn resume(own: &Guest) -> Result<Lever, Refusal> {
    let (namespace, name) = (own.metadata.namespace.clone(), own.metadata.name.clone());
    match own.spec.paused {
        true => Ok(lever(own, json!({ "spec": { "paused": false } }))),
        false if is_paused(&own.metadata) => Err(Refusal::PausedByAnnotation { cluster: words(own), namespace, name }),
        false => Err(Refusal::NotPaused(words(own))),
    }
}

/// Leaves it to an operator to raise a cluster to a version.
pub fn leave(own: &Guest, to: &str) -> Result<Lever, Refusal> {
    let version = Version::parse(to).ok_or_else(|| Refusal::NotAVersion(to.to_owned()))?;
    match own.metadata.deletion_timestamp {
        Some(_) => Err(Refusal::Deleting(words(own))),
        None => Ok(lever(own, annotate(UPGRADE_TO, format!("v{version}")))),
    }
}

/// Takes back what was left to an operator for an older version than somebody raises it to now, with what was said of it.
pub fn take_back(own: &Guest, to: &str) -> Option<Lever> {
    let left = Some(asked(own)).filter(|left| !left.is_empty())?;
    let is_older = Version::parse(left).is_none_or(|left| Version::parse(to).is_some_and(|to| left < to));
    let gone = json!({ "metadata": { "annotations": { UPGRADE_TO: Value::Null, PROGRESS: Value::Null } } });
    is_older.then(|| lever(own, gone))
}

/// What raises a cluster to a version: its class, or its control plane, or, once that is done, its workers.
pub fn start(cluster: &Cluster, own: &Guest, to: &str) -> Result<Vec<Lever>, Refusal> {
    let levers = levers(cluster, own, to)?;
    in_its_turn(cluster, own)?;
    Ok(levers)
}

/// The same, whoever else has to be done first.
fn levers(cluster: &Cluster, own: &Guest, to: &str) -> Result<Vec<Lever>, Refusal> {
    let version = Version::parse(to).ok_or_else(|| Refusal::NotAVersion(to.to_owned()))?;
    let to = format!("v{version}");
    let api = &cluster.cluster_api;
    let (namespace, name) = (&own.metadata.namespace, &own.metadata.name);
    if is_part_of_another(cluster, own) {
        return Err(Refusal::NotItsOwn(words(own)));
    }
    if own.metadata.deletion_timestamp.is_some() {
        return Err(Refusal::Deleting(words(own)));
    }
    if own.is_paused() {
        return Err(Refusal::Paused { cluster: words(own), name: named(own) });
    }
    let plane = plane_of(cluster, own);
    let is_nobodys = own.spec.control_plane_ref.kind.is_empty() && own.spec.topology.is_none();
    if plane.is_none() && own.spec.topology.is_none() && !is_nobodys {
        let kind = own.spec.control_plane_ref.kind.clone();
        return Err(Refusal::Provider { cluster: words(own), kind });
    }
    let deployments: Vec<&MachineDeployment> = api.deployments_of(namespace, name).collect();
    let members: Vec<&Machine> =
        api.machines_of(namespace, name).filter(|machine| machine.is_of_control_plane()).collect();
    refuse(&version, &to, &versions(own, plane, &members), &deployments)?;

    if let Some(topology) = &own.spec.topology {
        return match Version::parse(&topology.version).is_some_and(|asked| asked >= version) {
            true => Err(Refusal::Nothing(words(own), to)),
            false => Ok(vec![lever(own, json!({ "spec": { "topology": { "version": to } } }))]),
        };
    }
    let is_behind = |text: &str| Version::parse(text).is_none_or(|asked| asked < version);
    let paused = || stuck::paused(cluster, own, &version);
    if let Some(plane) = plane.filter(|plane| is_behind(&plane.spec.version)) {
        if let Some(paused) = paused() {
            return Err(Refusal::PartPaused(paused));
        }
        return Ok(vec![lever(plane, json!({ "spec": { "version": to } }))]);
    }
    let is_left = members.is_empty() || members.iter().any(|machine| is_behind(&machine.spec.version));
    if is_nobodys && is_left {
        let (namespace, name) = (namespace.clone(), name.clone());
        return Err(Refusal::NobodysMachines { cluster: words(own), namespace, name, to });
    }
    let behind: Vec<&MachineDeployment> =
        deployments.into_iter().filter(|one| is_behind(&one.spec.template.spec.version)).collect();
    if behind.is_empty() {
        return Err(Refusal::Nothing(words(own), to));
    }
    let Pool { wanted, updated, ready } = Progress::of_cluster(cluster, own).control_plane;
    let updated = updated.min(ready);
    if updated < wanted || is_left {
        return Err(Refusal::ControlPlaneFirst { to, updated, wanted });
    }
    // What somebody has paused stays as it is.
    let (rest, behind): (Vec<_>, Vec<_>) = behind.into_iter().partition(|one| one.is_paused());
    if let Some(paused) = paused().filter(|_| behind.is_empty() && !rest.is_empty()) {
        return Err(Refusal::PartPaused(paused));
    }
    let raise = json!({ "spec": { "template": { "spec": { "version": to } } } });
    Ok(behind.into_iter().map(|deployment| lever(deployment, raise.clone())).collect())
}

/// The control plane, if it is kubeadm's.
fn plane_of<'a>(cluster: &'a Cluster, own: &Guest) -> Option<&'a KubeadmControlPlane> {
    let plane = cluster.cluster_api.control_plane_of(own);
    plane.filter(|_| own.spec.control_plane_ref.kind == KubeadmControlPlane::KIND)
}

/// The Clusters that one comes after.
pub fn predecessors(own: &Guest) -> Vec<Name> {
    let text = own.metadata.annotations.get(AFTER).map(String::as_str).unwrap_or_default();
    after::named(&own.metadata.namespace, text)
}

/// Every Cluster that this one comes after is as it is asked for.
fn in_its_turn(cluster: &Cluster, own: &Guest) -> Result<(), Refusal> {
    let find = |(namespace, name): &Name| cluster.cluster_api.clusters.get(namespace, name);
    let mine = (own.metadata.namespace.clone(), own.metadata.name.clone());
    for key in predecessors(own) {
        let name = format!("{}/{}", key.0, key.1);
        let Some(other) = find(&key) else { return Err(Refusal::AfterNobody { cluster: words(own), name }) };
        if after::leads_to(&key, &mine, |key| find(key).map(predecessors).unwrap_or_default()) {
            return Err(Refusal::Circle { cluster: words(own), name });
        }
        if !below::is_done(cluster, other) {
            return Err(Refusal::ComesAfter { cluster: words(own), other: words(other), name });
        }
    }
    Ok(())
}

/// What a control plane is of, or is to be of, with who says so.
fn versions(own: &Guest, plane: Option<&KubeadmControlPlane>, members: &[&Machine]) -> Vec<(Version, String)> {
    let topology = own.spec.topology.iter().map(|topology| (topology.version.as_str(), words(own)));
    let planes = plane.into_iter().flat_map(|plane| {
        let name = ObjectRef::of(plane).in_words();
        [plane.spec.version.as_str(), plane.status.version.as_str()].map(|version| (version, name.clone()))
    });
    let machines = members.iter().map(|machine| (machine.spec.version.as_str(), ObjectRef::of(*machine).in_words()));
    let all = topology.chain(planes).chain(machines);
    all.filter_map(|(version, who)| Some((Version::parse(version)?, who))).collect()
}

fn refuse(
    version: &Version,
    to: &str,
    running: &[(Version, String)],
    deployments: &[&MachineDeployment],
) -> Result<(), Refusal> {
    let said = |(runs, what): &(Version, String)| (format!("v{runs}"), what.clone());
    if let Some(higher) = running.iter().filter(|(runs, _)| runs > version).max() {
        let (runs, what) = said(higher);
        return Err(Refusal::Lower { to: to.to_owned(), runs, what });
    }
    let skips = |(runs, _): &&(Version, String)| runs.major() != version.major() || runs.minor() + 1 < version.minor();
    if let Some(lower) = running.iter().filter(skips).min() {
        let (runs, what) = said(lower);
        return Err(Refusal::Skips { to: to.to_owned(), runs, what });
    }
    for deployment in deployments {
        let Some(runs) = Version::parse(&deployment.spec.template.spec.version) else { continue };
        let may_lag = may_lag(version.minor());
        if runs.minor() + may_lag < version.minor() {
            let (runs, what) = said(&(runs, ObjectRef::of(*deployment).in_words()));
            return Err(Refusal::WorkersTooOld { to: to.to_owned(), runs, what, may_lag });
        }
    }
    Ok(())
}
