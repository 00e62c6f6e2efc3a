//! The steps that run inside the Jobs of an Upgrade, as far as they are about Kubernetes.
//!
//! Each is a function from what is seen to what is done next; a step that is begun anew finds out by itself what is done
//! already. What is done to the machine itself is named here ([`HostDeed`]) and done by whoever runs the step.

mod addons;
pub mod brought;
mod chart_repository;
mod fleet;
mod manifests;
mod node;
mod products;
pub(super) mod rancher;
mod rollouts;
#[cfg(test)]
mod tests;
mod vms;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};

use drover_api::harvester::NAMESPACE;
use drover_api::harvester::jobs::UPGRADE;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::progress::Progress;
use super::release::Noted;
use crate::cluster::Cluster;
use crate::cluster::harvester::Upgrade;
use crate::decision::{self, Act, Purpose, Reason, Subject, Wait, Write};

/// Which steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    PreDrain,
    PostDrain,
    SingleNode,
    RestoreVms,
    Manifests,
}

/// What is to be done, and for whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    pub kind: Kind,
    pub upgrade: String,
    /// Empty for the system services.
    pub node: String,
}

/// What is done to the machine, each as often as it is asked for without harm.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostDeed {
    /// The agent of Rancher may restart RKE2 again.
    RecoverAgent,
    /// The new system is on disk, and boots when the step has ended well.
    InstallSystem { os: String },
}

impl std::fmt::Display for HostDeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HostDeed::RecoverAgent => write!(f, "lets Rancher's agent go by its own unit again"),
            HostDeed::InstallSystem { os } => write!(f, "installs {os}"),
        }
    }
}

/// What was done, and found out, since a step began.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Done {
    /// To the machine.
    pub host: BTreeSet<HostDeed>,
    /// Files of the release, by their URLs.
    pub files: BTreeMap<String, Tried<String>>,
    /// Objects of its manifests ([`brought::shown`]), each with the generation that it has since.
    pub applied: BTreeMap<String, Tried<i64>>,
}

/// What came of something, or why not, in words.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried<T> {
    pub at: Timestamp,
    pub answer: Result<T, String>,
}

impl Done {
    /// To the machine, and nothing else.
    pub fn to_host(deeds: impl IntoIterator<Item = HostDeed>) -> Self {
        Done { host: deeds.into_iter().collect(), ..Done::default() }
    }

    /// A file of the release was read, or an object was refused: either may be tried again by and by.
    pub fn may_change(&self) -> bool {
        !self.files.is_empty() || self.applied.values().any(|tried| tried.answer.is_err())
    }
}

/// What comes next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Writes, if any, and then whatever changes.
    Wait {
        writes: Vec<Write>,
        waits: Vec<Wait>,
    },
    Host(HostDeed),
    /// A file of the release is read, from this URL.
    Read(String),
    /// An object of whatever kind is applied, by Drover as its manager.
    Apply(Value),
    Done,
    /// Nothing can be done, in a sentence.
    Fail(String),
}

/// Everything one step rests on.
pub(super) struct Scene<'a> {
    pub cluster: &'a Cluster,
    pub order: &'a Order,
    pub upgrade: &'a Upgrade,
    pub release: Noted,
    /// Who voted in etcd when the Upgrade began.
    pub voters: BTreeSet<String>,
    /// Since the step began.
    pub done: &'a Done,
    pub now: Timestamp,
}

pub fn next(cluster: &Cluster, order: &Order, done: &Done, now: Timestamp) -> Next {
    match cluster.harvester.upgrades.get(NAMESPACE, &order.upgrade) {
        Some(upgrade) => next_for(cluster, order, upgrade, done, now),
        None => Next::Fail(format!("there is no Upgrade {NAMESPACE}/{}", order.upgrade)),
    }
}

/// For an Upgrade that need not be as it is in the cluster.
pub(crate) fn next_for(cluster: &Cluster, order: &Order, upgrade: &Upgrade, done: &Done, now: Timestamp) -> Next {
    let progress = Progress::of(upgrade).unwrap_or_default();
    if progress.aborting && matches!(order.kind, Kind::PreDrain | Kind::Manifests) {
        return Next::Fail(format!("Upgrade {NAMESPACE}/{} was called off", order.upgrade));
    }
    let Some(release) = progress.release else {
        return Next::Fail(format!("Upgrade {NAMESPACE}/{} does not say which release it is for", order.upgrade));
    };
    let scene = Scene { cluster, order, upgrade, release, voters: progress.voters, done, now };
    match order.kind {
        Kind::PreDrain => node::pre_drain(&scene),
        Kind::PostDrain => node::post_drain(&scene),
        Kind::SingleNode => node::single(&scene),
        Kind::RestoreVms => vms::restore(&scene),
        Kind::Manifests => manifests::apply(&scene),
    }
}

/// What the steps of a stock release leave attached to a node that they empty: writes that detach what nobody uses, and what is waited for.
/// Nothing if the planner may drain it. When its VMs have left, none of its replicas may be the last one, either.
pub(super) fn unused_volumes(
    cluster: &Cluster,
    upgrade: &Upgrade,
    node: &str,
    is_emptied: bool,
    now: Timestamp,
) -> Option<(Vec<Write>, Vec<Wait>)> {
    let order = Order { kind: Kind::PreDrain, upgrade: upgrade.metadata.name.clone(), node: node.to_owned() };
    let (release, done, voters) = (Noted::default(), Done::default(), BTreeSet::new());
    let scene = Scene { cluster, order: &order, upgrade, release, voters, done: &done, now };
    let left = volumes::detach_unused(&scene);
    match left.or_else(|| volumes::last_here(&scene).filter(|_| is_emptied))? {
        Next::Wait { writes, waits } => Some((writes, waits)),
        _ => None,
    }
}

impl Scene<'_> {
    fn wait(&self, subject: Subject, reason: Reason, sentence: impl Into<String>) -> Next {
        Next::Wait { writes: Vec::new(), waits: vec![Wait::new(subject, reason, sentence, self.now)] }
    }

    /// On the node that the step is for, so that its status tells it.
    fn wait_on_node(&self, reason: Reason, sentence: impl Into<String>, remedy: Option<String>) -> Next {
        let wait = Wait { remedy, ..Wait::new(Subject::node(&self.order.node), reason, sentence, self.now) };
        Next::Wait { writes: Vec::new(), waits: vec![wait] }
    }

    fn write(&self, subject: Subject, act: Act) -> Next {
        Next::Wait { writes: vec![Write { purpose: Purpose::Step, subject, act }], waits: Vec::new() }
    }

    /// Adds this to a ConfigMap that goes with the Upgrade, or makes it.
    fn keep(&self, name: &str, data: Value) -> Write {
        let act = match self.cluster.harvester.config_maps.get(NAMESPACE, name) {
            Some(map) => Act::Patch(json!({
                "metadata": { "resourceVersion": map.metadata.resource_version.to_string() }, "data": data,
            })),
            None => Act::Create(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {
                    "name": name, "namespace": NAMESPACE, "labels": { UPGRADE: self.order.upgrade },
                    "ownerReferences": [{
                        "apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade", "name": self.order.upgrade,
                        "uid": self.upgrade.metadata.uid,
                    }],
                },
                "data": data,
            })),
        };
        Write { purpose: Purpose::Step, subject: Subject::new(decision::Kind::ConfigMap, NAMESPACE, name), act }
    }
}
