//! The simulated world: small controllers that make an embedded cluster move.
//!
//! Each part is a pure function from what it sees to writes and the moment to look again ([`outcome::Outcome`]). One task
//! receives the store's changes, finds what each of them concerns, and lets the parts look at it. Nothing is kept
//! outside the store: what is remembered here is made anew at every start, and timers follow from times in objects.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use drover_clock::later;
use jiff::Timestamp;
use kube::core::Status;
use tokio::sync::mpsc::UnboundedReceiver;

use self::agenda::{Agenda, Look};
use self::index::Index;
use self::kubelet::KubeletOptions;
use self::owners::Owners;
use crate::apiserver::{ApiServer, Change, Direct};

pub mod annotations;
pub mod definitions;
pub mod kubelet;

mod act;
mod agenda;
mod budget;
pub mod chart_repository;
pub mod charts;
mod endpoint_slices;
mod etcd;
mod events;
pub mod fleet;
mod garbage;
pub mod guest;
pub mod helm;
mod images;
mod index;
mod job;
mod kubevirt;
mod labels;
mod lifecycle;
mod longhorn;
mod look;
mod look_at_workloads;
mod loose;
mod notes;
mod notice;
mod outcome;
mod owners;
mod pod_garbage;
mod pods;
mod rancher;
mod scheduler;
mod workloads;

#[cfg(test)]
mod part_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod workload_tests;

/// What a cluster begins with that Rancher has provisioned.
pub mod provisioned {
    pub use super::rancher::seeds::{Seed, settled};
}

/// A part of the world, which can be left out where the real one, or none, is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Kubelets,
    NodeLifecycle,
    TaintEviction,
    Jobs,
    Deployments,
    ReplicaSets,
    StatefulSets,
    DaemonSets,
    EndpointSlices,
    Scheduler,
    Budgets,
    Garbage,
    PodGarbage,
    KubeVirt,
    Longhorn,
    Rancher,
    SystemAgents,
    Etcd,
    Charts,
    Images,
    ClusterApi,
    KubeadmBootstrap,
    GuestMachines,
}

impl Part {
    /// Those of Kubernetes itself.
    pub const KUBERNETES: [Part; 13] = [
        Part::Kubelets,
        Part::NodeLifecycle,
        Part::TaintEviction,
        Part::Jobs,
        Part::Deployments,
        Part::ReplicaSets,
        Part::StatefulSets,
        Part::DaemonSets,
        Part::EndpointSlices,
        Part::Scheduler,
        Part::Budgets,
        Part::Garbage,
        Part::PodGarbage,
    ];

    /// Those of a Harvester cluster beside them. They have to be asked for: what a captured cluster says of its machines and
    /// volumes stays as it is.
    pub const HARVESTER: [Part; 7] =
        [Part::KubeVirt, Part::Longhorn, Part::Rancher, Part::SystemAgents, Part::Etcd, Part::Charts, Part::Images];

    /// Those of a cluster that manages guest clusters beside those of Kubernetes.
    pub const GUESTS: [Part; 3] = [Part::ClusterApi, Part::KubeadmBootstrap, Part::GuestMachines];

    /// The name under which it writes.
    pub fn actor(self) -> &'static str {
        match self {
            Part::Kubelets => "world/kubelet",
            Part::NodeLifecycle => "world/node-lifecycle",
            Part::TaintEviction => "world/taint-eviction",
            Part::Jobs => "world/job",
            Part::Deployments => "world/deployment",
            Part::ReplicaSets => "world/replicaset",
            Part::StatefulSets => "world/statefulset",
            Part::DaemonSets => "world/daemonset",
            Part::EndpointSlices => "world/endpointslice",
            Part::Scheduler => "world/scheduler",
            Part::Budgets => "world/budget",
            Part::Garbage => "world/garbage",
            Part::PodGarbage => "world/pod-garbage",
            Part::KubeVirt => "world/kubevirt",
            Part::Longhorn => "world/longhorn",
            Part::Rancher => "world/rancher",
            Part::SystemAgents => "world/system-agent",
            Part::Etcd => "world/etcd",
            Part::Charts => "world/charts",
            Part::Images => "world/images",
            Part::ClusterApi => "world/cluster-api",
            Part::KubeadmBootstrap => "world/kubeadm-bootstrap",
            Part::GuestMachines => "world/guest-machines",
        }
    }
}

#[derive(Clone, Debug)]
pub struct WorldOptions {
    pub parts: BTreeSet<Part>,
    pub kubelet: KubeletOptions,
    /// From a change to what the world does about it; what changes meanwhile is dealt with at once.
    pub reaction: Duration,
    /// The API servers of guest clusters, by namespace and name of their Clusters.
    pub guests: BTreeMap<(String, String), ApiServer>,
}

impl Default for WorldOptions {
    fn default() -> Self {
        WorldOptions {
            parts: BTreeSet::from(Part::KUBERNETES),
            kubelet: KubeletOptions::default(),
            reaction: Duration::from_millis(5),
            guests: BTreeMap::new(),
        }
    }
}

impl WorldOptions {
    pub fn with(mut self, parts: impl IntoIterator<Item = Part>) -> Self {
        self.parts.extend(parts);
        self
    }

    pub fn without(mut self, part: Part) -> Self {
        self.parts.remove(&part);
        self
    }
}

/// How soon the world looks again at what another writer has changed in the same moment.
const AFTER_A_CONFLICT: Duration = Duration::from_millis(10);
/// And at what the server refused for another reason, which will hardly pass by itself.
const AFTER_A_REFUSAL: Duration = Duration::from_secs(5);

/// How many looks are taken before other tasks get their turn.
const AT_A_TIME: usize = 64;

/// The world on one server.
#[derive(Debug)]
pub struct World {
    server: ApiServer,
    options: WorldOptions,
    index: Index,
    owners: Owners,
    agenda: Agenda,
}

impl World {
    /// Runs the world until the future is dropped.
    pub async fn run(server: ApiServer, options: WorldOptions) {
        let clock = server.clock();
        // Before the first reading, so that nothing slips through between the two.
        let mut changes = server.changes();
        let mut world =
            World { server, options, index: Index::default(), owners: Owners::default(), agenda: Agenda::default() };
        world.notice_everything();
        loop {
            for _ in 0..AT_A_TIME {
                world.catch_up(&mut changes);
                match world.agenda.take_due(clock.now()) {
                    Some(look) => world.take(&look, clock.now()),
                    None => break,
                }
            }
            tokio::task::yield_now().await;
            let due = world.agenda.next_moment();
            if due.is_some_and(|moment| moment <= clock.now()) {
                continue;
            }
            tokio::select! {
                biased;
                change = changes.recv() => match change {
                    Some(change) => world.notice(&change),
                    None => return,
                },
                () = clock.sleep_until(due.unwrap_or(Timestamp::MAX)), if due.is_some() => {}
            }
        }
    }

    /// Takes in every change so far, the world's own among them: a look must not rest on less than was written.
    fn catch_up(&mut self, changes: &mut UnboundedReceiver<Change>) {
        let mut seen = BTreeSet::new();
        while let Ok(change) = changes.try_recv() {
            seen.insert((change.resource, change.namespace, change.name));
        }
        for (resource, namespace, name) in seen {
            self.notice(&Change { resource, namespace, name });
        }
    }

    /// Looks at one thing, and sees to it that it is looked at again when it is time.
    fn take(&mut self, look: &Look, now: Timestamp) {
        let again = match self.look(look, now) {
            Ok(wake) => wake,
            Err(status) if is_outdated(&status) => Some(later(now, AFTER_A_CONFLICT)),
            Err(status) => {
                tracing::warn!("the world cannot act on {look}: {}", status.message);
                Some(later(now, AFTER_A_REFUSAL))
            }
        };
        if let Some(moment) = again {
            self.agenda.add(look.clone(), moment);
        }
    }

    fn has(&self, part: Part) -> bool {
        self.options.parts.contains(&part)
    }

    fn direct(&self, part: Part) -> Direct {
        self.server.direct(part.actor())
    }

    /// To be looked at after the time that the world takes to react.
    fn soon(&mut self, look: Look) {
        self.after(self.options.reaction, look);
    }

    fn after(&mut self, time: Duration, look: Look) {
        let moment = later(self.server.clock().now(), time);
        self.agenda.add(look, moment);
    }
}

/// What was read is no longer so.
fn is_outdated(status: &Status) -> bool {
    status.is_conflict() || status.is_not_found()
}
