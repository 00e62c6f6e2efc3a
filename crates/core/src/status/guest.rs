//! Guest clusters on one screen: one with its machines, or all of them in one table.

use std::cmp::Reverse;

use jiff::Timestamp;
use serde::Serialize;

use super::{WaitLine, columns, told, wait_line};
use crate::cluster::cluster_api::{self, Machine};
use crate::cluster::tanzu::GuestCluster;
use crate::cluster::{Cluster, ObjectRef, Projection as _};
use crate::why::{self, Explanation, Outlook, Pool, Progress};

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GuestStatus {
    pub object: ObjectRef,
    #[serde(flatten)]
    pub progress: Progress,
    pub complete: bool,
    /// Somebody has to do something before it goes on.
    pub needs_somebody: bool,
    /// Control plane first.
    pub machines: Vec<MachineLine>,
    /// What holds it up, the most decisive first, a line each.
    pub waits: Vec<WaitLine>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineLine {
    pub name: String,
    pub control_plane: bool,
    /// In small letters, whichever version of Cluster API says it.
    pub phase: String,
    pub ready: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
}

/// All guest clusters; what needs somebody comes first.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Guests {
    pub looked_at: Timestamp,
    pub clusters: Vec<GuestStatus>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<String>,
}

pub fn of_guest(cluster: &Cluster, own: &cluster_api::Cluster) -> GuestStatus {
    of(cluster, why::guest_explanation(cluster, own), Progress::of_cluster(cluster, own))
}

pub fn of_tanzu(cluster: &Cluster, guest: &GuestCluster) -> GuestStatus {
    of(cluster, why::tanzu_explanation(cluster, guest), Progress::of_tanzu(cluster, guest))
}

fn of(cluster: &Cluster, explanation: Explanation, progress: Progress) -> GuestStatus {
    let object = explanation.object;
    let mut machines: Vec<MachineLine> =
        cluster.cluster_api.machines_of(&object.namespace, &object.name).map(line).collect();
    machines.sort_by_key(|machine| (!machine.control_plane, machine.name.clone()));
    let needs = |cause: &why::Cause| cause.alarm && cause.resolves_itself == Outlook::No;
    GuestStatus {
        needs_somebody: explanation.causes.iter().any(needs),
        complete: explanation.complete,
        progress,
        machines,
        waits: explanation.causes.iter().map(wait_line).collect(),
        object,
    }
}

fn line(machine: &Machine) -> MachineLine {
    MachineLine {
        name: machine.metadata.name.clone(),
        control_plane: machine.is_of_control_plane(),
        phase: machine.status.phase.to_lowercase(),
        ready: machine.is_ready(),
        version: machine.spec.version.clone(),
        node: machine.status.node_ref.name.clone(),
    }
}

/// Every guest cluster, each by the kind that it is asked for by.
pub fn guests(cluster: &Cluster) -> Guests {
    let tanzu = cluster.tanzu.clusters.iter().map(|guest| of_tanzu(cluster, guest));
    let own = cluster.cluster_api.clusters.iter().filter(|own| !why::is_part_of_another(cluster, own));
    let mut clusters: Vec<GuestStatus> = tanzu.chain(own.map(|own| of_guest(cluster, own))).collect();
    clusters.sort_by_key(|one| (Reverse(one.urgency()), one.object.clone()));
    let kinds = ["TanzuKubernetesCluster", "Cluster", "Machine", "MachineDeployment", "KubeadmControlPlane"];
    let unseen = cluster.unseen.iter().filter(|unseen| unseen.may_hide_something());
    let unseen = unseen.filter(|unseen| kinds.contains(&unseen.kind.as_str())).map(ToString::to_string).collect();
    Guests { looked_at: cluster.looked_at, clusters, unseen }
}

impl GuestStatus {
    /// What needs somebody, then what is wrong and may pass, then what is on its way.
    fn urgency(&self) -> u8 {
        match self {
            one if one.needs_somebody => 3,
            one if one.waits.iter().any(|wait| wait.alarm) => 2,
            one if one.progress.differs || !one.complete => 1,
            _ => 0,
        }
    }

    /// As it is named on the command line.
    fn name(&self) -> String {
        let ObjectRef { kind, namespace, name } = &self.object;
        let kind = if kind == GuestCluster::KIND { "tkc" } else { "cluster" };
        format!("{kind}/{namespace}/{name}")
    }

    fn version(&self) -> String {
        let Progress { from, to, .. } = &self.progress;
        match (from.as_str(), to.as_str()) {
            (from, "") => from.to_owned(),
            ("", to) => to.to_owned(),
            (from, to) if why::is_of(from, to) => from.to_owned(),
            (from, to) => format!("{from} > {to}"),
        }
    }

    fn phase(&self) -> String {
        let phase = if self.progress.phase.is_empty() { "unknown" } else { &self.progress.phase };
        let paused = if self.progress.paused { ", paused" } else { "" };
        format!("{phase}{paused}")
    }

    /// One line of the table of all.
    fn cells(&self) -> [String; 7] {
        let first = self.waits.first();
        let mark = if first.is_some_and(|wait| wait.alarm) { "!" } else { " " };
        let Progress { control_plane, workers, .. } = &self.progress;
        let waits = first.map_or("-", |wait| wait.statement.as_str()).to_owned();
        let pools = [control_plane, workers].map(cell);
        let [control_plane, workers] = pools;
        [mark.to_owned(), self.name(), self.phase(), self.version(), control_plane, workers, waits]
    }

    pub fn text(&self) -> String {
        let mut text = format!("{}  {}  {}\n", self.name(), self.phase(), self.version());
        for (pool, name) in [(&self.progress.control_plane, "control plane"), (&self.progress.workers, "workers")] {
            let Pool { wanted, ready, updated } = pool;
            if *wanted > 0 {
                text.push_str(&format!("  {name}: {ready} ready, {updated} updated, {wanted} wanted\n"));
            }
        }
        if self.complete {
            text.push_str("  done\n");
        }
        let row = |machine: &MachineLine| {
            let role = if machine.control_plane { "control plane" } else { "worker" };
            let ready = if machine.ready { "ready" } else { "not ready" };
            let texts = [&machine.name, role, &machine.phase, ready, &machine.version];
            texts.map(ToString::to_string)
        };
        text.push_str(&columns(&self.machines.iter().map(row).collect::<Vec<_>>(), "  "));
        text.push_str(&told(&self.waits));
        text
    }
}

fn cell(pool: &Pool) -> String {
    format!("{}/{}/{}", pool.ready, pool.updated, pool.wanted)
}

impl Guests {
    /// One table: each pool in numbers of machines that are ready, updated, and wanted.
    pub fn text(&self) -> String {
        let mut text = table(&self.clusters);
        if self.clusters.is_empty() {
            text.push_str("no guest clusters\n");
        }
        if !self.unseen.is_empty() {
            text.push_str("\ncould not be looked at:\n");
            self.unseen.iter().for_each(|what| text.push_str(&format!("  {what}\n")));
        }
        text
    }
}

pub(super) fn table(clusters: &[GuestStatus]) -> String {
    if clusters.is_empty() {
        return String::new();
    }
    let heading = ["", "CLUSTER", "PHASE", "VERSION", "CONTROL PLANE", "WORKERS", "WAITS FOR"].map(str::to_owned);
    let rows: Vec<[String; 7]> = [heading].into_iter().chain(clusters.iter().map(GuestStatus::cells)).collect();
    format!("{}(machines: ready/updated/wanted)\n", columns(&rows, ""))
}
