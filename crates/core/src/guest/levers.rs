//! The levers of Cluster API: what becomes of a person's word on a Cluster, its control plane and its workers.
//!
//! The rollout itself is Cluster API's. Whatever speaks against a start is said before anything is written, and the workers are
//! raised only once the control plane is done: a Cluster of a class sees to that itself.

mod following;
mod keeping;

pub use following::{Awaited, Halted, Next, follow};
pub use keeping::{AllAwaited, Said, Stand, Terms, Turn, asked, has_work, keep, said};

use drover_api::cluster_api::PAUSED;
use drover_api::marks::{AFTER, UPGRADE_TO};
use serde_json::{Value, json};

use super::order::Version;
use crate::after::{self, Name};
use crate::cluster::cluster_api::{Cluster as Guest, KubeadmControlPlane, Machine, MachineDeployment, is_paused};
use crate::cluster::{Cluster, Meta, ObjectRef, Projection};
use crate::why::{Pool, Progress, is_part_of_another};

/// More minor versions a worker may not be behind.
const WIDEST_SKEW: u64 = 3;

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
        "{what} is of {runs}, more than {WIDEST_SKEW} minor versions behind {to}: raise the workers first, to what the control plane is of"
    )]
    WorkersTooOld { to: String, runs: String, what: String },
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
        let name = format!("cluster/{namespace}/{name}");
        return Err(Refusal::Paused { cluster: words(own), name });
    }
    let plane = api.control_plane_of(own).filter(|_| own.spec.control_plane_ref.kind == KubeadmControlPlane::KIND);
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
    if let Some(plane) = plane.filter(|plane| is_behind(&plane.spec.version)) {
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
    let raise = json!({ "spec": { "template": { "spec": { "version": to } } } });
    Ok(behind.into_iter().map(|deployment| lever(deployment, raise.clone())).collect())
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
        if Progress::of_cluster(cluster, other).differs {
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
        if runs.minor() + WIDEST_SKEW < version.minor() {
            let (runs, what) = said(&(runs, ObjectRef::of(*deployment).in_words()));
            return Err(Refusal::WorkersTooOld { to: to.to_owned(), runs, what });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABEL: &str = "cluster.x-k8s.io/cluster-name";

    pub fn object(kind: &str, name: &str, more: Value) -> Value {
        let group = if kind == "KubeadmControlPlane" { "controlplane.cluster.x-k8s.io" } else { "cluster.x-k8s.io" };
        let mut object = json!({
            "apiVersion": format!("{group}/v1beta1"), "kind": kind,
            "metadata": { "name": name, "namespace": "guests", "resourceVersion": "4", "labels": { LABEL: "g" } },
        });
        json_patch::merge(&mut object, &more);
        object
    }

    /// A cluster of one machine and one pool, all of v1.33.1, with these changes of its parts by name.
    pub fn guest(changes: &[(&str, Value)]) -> Cluster {
        let plane = json!({ "controlPlaneRef": { "kind": "KubeadmControlPlane", "name": "plane" } });
        let labels = json!({ LABEL: "g", "cluster.x-k8s.io/control-plane": "" });
        let pool = json!({ "clusterName": "g", "replicas": 1, "template": { "spec": { "version": "v1.33.1" } } });
        let parts = [
            object("Cluster", "g", json!({ "spec": plane })),
            object("KubeadmControlPlane", "plane", json!({ "spec": { "version": "v1.33.1", "replicas": 1 } })),
            object(
                "Machine",
                "m",
                json!({
                    "metadata": { "labels": labels }, "spec": { "clusterName": "g", "version": "v1.33.1" },
                    "status": { "nodeRef": { "name": "n" } },
                }),
            ),
            object("MachineDeployment", "pool", json!({ "spec": pool })),
        ];
        let mut cluster = Cluster::new("2026-01-01T12:00:00Z".parse().unwrap());
        for mut part in parts {
            let own = part["metadata"]["name"].clone();
            for (_, change) in changes.iter().filter(|(name, _)| own == *name) {
                json_patch::merge(&mut part, change);
            }
            cluster.take(part.to_string().as_bytes());
        }
        assert_eq!(cluster.unseen, []);
        cluster
    }

    /// What is written, or why nothing is.
    fn started(to: &str, changes: &[(&str, Value)]) -> String {
        let cluster = guest(changes);
        match start(&cluster, cluster.cluster_api.clusters.get("guests", "g").unwrap(), to) {
            Ok(levers) => levers.iter().map(|lever| format!("{} {}", lever.object, lever.patch["spec"])).collect(),
            Err(refusal) => refusal.to_string(),
        }
    }

    pub fn version(version: &str) -> Value {
        json!({ "spec": { "version": version } })
    }

    #[test]
    fn a_control_plane_is_raised_first_and_its_workers_when_it_is_done() {
        let first = started("1.34.1", &[]);
        assert_eq!(first, r#"KubeadmControlPlane/guests/plane {"version":"v1.34.1"}"#);
        let under_way = started("v1.34.1", &[("plane", version("v1.34.1"))]);
        assert!(
            under_way.starts_with("the control plane is on its way to v1.34.1, with 0 of 1 machines"),
            "{under_way}"
        );
        let raised = [("plane", version("v1.34.1")), ("m", version("v1.34.1"))];
        let workers = r#"MachineDeployment/guests/pool {"template":{"spec":{"version":"v1.34.1"}}}"#;
        assert_eq!(started("v1.34.1", &raised), workers);
        let more = ("plane", json!({ "spec": { "version": "v1.34.1", "replicas": 2 } }));
        let one_of_two = started("v1.34.1", &[more, raised[1].clone()]);
        assert!(one_of_two.contains("with 1 of 2 machines"), "{one_of_two}");
        let no_node = ("m", json!({ "status": { "nodeRef": null } }));
        let not_ready = started("v1.34.1", &[raised.to_vec(), vec![no_node]].concat());
        assert!(not_ready.contains("with 0 of 1 machines"), "{not_ready}");
        let new_pool = json!({ "spec": { "template": { "spec": { "version": "v1.34.1" } } } });
        let all = [raised[0].clone(), raised[1].clone(), ("pool", new_pool)];
        assert!(started("v1.34.1", &all).contains("there is nothing to start"));
    }

    #[test]
    fn a_cluster_of_a_class_is_raised_by_its_topology() {
        let class = |version: &str| [("g", json!({ "spec": { "topology": { "class": "c", "version": version } } }))];
        let raised = started("v1.34.1", &class("v1.33.1"));
        assert_eq!(raised, r#"Cluster/guests/g {"topology":{"version":"v1.34.1"}}"#);
        assert!(started("v1.34.1", &class("v1.34.1")).contains("there is nothing to start"));
    }

    #[test]
    fn what_cannot_be_or_would_come_to_nothing_is_refused() {
        let old_pool = |version: &str| ("pool", json!({ "spec": { "template": { "spec": { "version": version } } } }));
        let of = |spec: Value| ("g", json!({ "spec": spec }));
        let cases = [
            ("soon", vec![], "is no version of Kubernetes"),
            ("v1.33.0", vec![], "a control plane cannot go back"),
            ("v1.35.0", vec![], "more than one minor version further"),
            ("v2.33.1", vec![], "more than one minor version further"),
            ("v1.34.0", vec![old_pool("v1.30.9")], "more than 3 minor versions behind v1.34.0"),
            ("v1.34.0", vec![of(json!({ "paused": true }))], "is paused, and nothing would happen"),
            ("v1.34.0", vec![of(json!({ "controlPlaneRef": { "kind": "K3sControlPlane" } }))], "is a K3sControlPlane"),
            ("v1.34.0", vec![of(json!({ "controlPlaneRef": null }))], "belong to nobody who would replace them"),
            (
                "v1.34.0",
                vec![("g", json!({ "metadata": { "deletionTimestamp": "2026-01-01T11:00:00Z" } }))],
                "is being deleted",
            ),
        ];
        for (to, changes, expected) in cases {
            let said = started(to, &changes);
            assert!(said.contains(expected), "{to}: {said}");
        }
        assert!(
            started("v1.34.0", &[old_pool("v1.31.0")]).starts_with("KubeadmControlPlane"),
            "three are not too many"
        );
    }

    #[test]
    fn a_cluster_is_paused_and_resumed_by_who_has_paused_it() {
        let own = |change: Value| guest(&[("g", change)]).cluster_api.clusters.get("guests", "g").unwrap().clone();
        let (runs, rests) = (own(json!({})), own(json!({ "spec": { "paused": true } })));
        assert_eq!(
            pause(&runs).unwrap().patch,
            json!({ "metadata": { "resourceVersion": "4" }, "spec": { "paused": true } })
        );
        assert!(matches!(pause(&rests), Err(Refusal::AlreadyPaused(_))));
        assert_eq!(resume(&rests).unwrap().patch["spec"], json!({ "paused": false }));
        assert!(matches!(resume(&runs), Err(Refusal::NotPaused(_))));
        let annotated = own(json!({ "metadata": { "annotations": { PAUSED: "" } } }));
        assert!(matches!(resume(&annotated), Err(Refusal::PausedByAnnotation { .. })));
    }
}
