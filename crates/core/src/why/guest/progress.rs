//! How far a guest cluster is, as the management cluster knows it: by its Machines, not by what somebody says of them.

use drover_api::cluster_api::machine::conditions::UP_TO_DATE;
use drover_api::marks::PAUSED;
use serde::Serialize;

use super::super::link::Costs;
use crate::cluster::Cluster;
use crate::cluster::cluster_api::{self, Machine, MachineDeployment};
use crate::cluster::tanzu::GuestCluster;
use crate::guest::{Version, begins_with};
use crate::preflight::guest_version;

/// What runs, and what is asked for.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// In the words of its own status.
    pub phase: String,
    /// The lowest version that a machine has.
    pub from: String,
    /// The version that is asked for.
    pub to: String,
    pub paused: bool,
    pub control_plane: Pool,
    pub workers: Pool,
    /// Something is left to be done.
    pub differs: bool,
}

/// Machines, in numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Pool {
    pub wanted: i64,
    /// That are nodes, and well as far as is known.
    pub ready: i64,
    /// That are as they are asked for.
    pub updated: i64,
}

impl Progress {
    pub fn of_cluster(cluster: &Cluster, own: &cluster_api::Cluster) -> Self {
        let api = &cluster.cluster_api;
        let (namespace, name) = (&own.metadata.namespace, &own.metadata.name);
        let plane = api.control_plane_of(own);
        let machines: Vec<&Machine> = api.machines_of(namespace, name).collect();
        let members = || machines.iter().filter(|machine| machine.is_of_control_plane());
        let to = match (&own.spec.topology, plane) {
            (Some(topology), _) => topology.version.clone(),
            (None, Some(plane)) => plane.spec.version.clone(),
            // Nobody asks for a version of machines that belong to nobody: they are what the newest of them is.
            (None, None) => newest(members()).unwrap_or_default(),
        };
        let is_updated = |machine: &&&Machine| is_of(&machine.spec.version, &to) && is_up_to_date(machine);
        let control_plane = Pool {
            wanted: plane.map_or_else(|| count(members()), |plane| plane.wanted()),
            ready: count(members().filter(|machine| machine.is_ready())),
            updated: count(members().filter(is_updated)),
        };
        let mut workers = Pool::default();
        let mut is_behind = false;
        for deployment in api.deployments_of(namespace, name) {
            workers.add(deployment);
            is_behind |= own.spec.topology.is_some() && !is_of(&deployment.spec.template.spec.version, &to);
        }
        let differs = !control_plane.is_done() || !workers.is_done() || is_behind;
        let from = lowest(&machines).or(plane.map(|plane| plane.status.version.clone())).unwrap_or_default();
        let (phase, paused) = (own.status.phase.clone(), own.is_paused());
        Progress { phase, from, to, paused, control_plane, workers, differs }
    }

    pub fn of_tanzu(cluster: &Cluster, guest: &GuestCluster) -> Self {
        let api = &cluster.cluster_api;
        let (namespace, name) = (&guest.metadata.namespace, &guest.metadata.name);
        let to = guest_version(cluster, guest).unwrap_or_default().to_owned();
        let machines: Vec<&Machine> = api.machines_of(namespace, name).collect();
        let members = || machines.iter().filter(|machine| machine.is_of_control_plane());
        let control_plane = Pool {
            wanted: guest.spec.topology.control_plane.count,
            ready: count(members().filter(|machine| machine.is_ready())),
            updated: count(members().filter(|machine| is_of(&machine.spec.version, &to))),
        };
        let mut workers = Pool::default();
        for deployment in api.deployments_of(namespace, name) {
            workers.add(deployment);
            if !is_of(&deployment.spec.template.spec.version, &to) {
                workers.updated = 0;
            }
        }
        workers.wanted = guest.spec.topology.workers.count;
        let runs = &guest.status.version;
        let is_done = control_plane.is_done() && workers.is_done();
        let differs = !to.is_empty() && *runs != to || !is_done && !machines.is_empty();
        let by_owner = guest.metadata.annotations.get(PAUSED).is_some_and(|said| said != "false");
        let paused = by_owner || api.clusters.get(namespace, name).is_some_and(cluster_api::Cluster::is_paused);
        let from = if runs.is_empty() { lowest(&machines).unwrap_or_default() } else { runs.clone() };
        Progress { phase: guest.status.phase.clone(), from, to, paused, control_plane, workers, differs }
    }

    /// In a line.
    pub fn summary(&self) -> String {
        let phase = if self.phase.is_empty() { "not looked at by anybody yet" } else { &self.phase };
        let mut text = phase.to_owned();
        if self.paused {
            text.push_str(", paused");
        }
        match (self.from.as_str(), self.to.as_str()) {
            ("", to) => text.push_str(&format!(", version {to}")),
            (from, to) if is_of(from, to) || to.is_empty() => text.push_str(&format!(", version {from}")),
            (from, to) => text.push_str(&format!(", from {from} to {to}")),
        }
        for (pool, name) in [(&self.control_plane, "control plane"), (&self.workers, "workers")] {
            if pool.wanted > 0 {
                text.push_str(&format!(", {name} {} of {} updated", pool.updated, pool.wanted));
            }
        }
        text
    }

    /// What it costs that a part of it does not go on.
    pub fn costs(&self, of_control_plane: bool) -> Costs {
        let (pool, phase) = match of_control_plane {
            true => (&self.control_plane, "control plane"),
            false => (&self.workers, "workers"),
        };
        let behind = if of_control_plane { self.workers.wanted - self.workers.updated } else { 0 };
        let waiting = (pool.wanted - pool.updated).max(0) + behind.max(0);
        Costs { out: Vec::new(), waiting, phase: phase.to_owned() }
    }
}

impl Pool {
    fn is_done(&self) -> bool {
        self.updated >= self.wanted && self.ready >= self.wanted
    }

    fn add(&mut self, deployment: &MachineDeployment) {
        let status = &deployment.status;
        self.wanted += deployment.wanted();
        self.ready += status.ready_replicas.max(status.available_replicas);
        self.updated += deployment.updated();
    }
}

fn count<T>(all: impl Iterator<Item = T>) -> i64 {
    i64::try_from(all.count()).unwrap_or(i64::MAX)
}

/// Is this Kubernetes the one of that version or distribution? `v1.17.8+vmware.1` is that of `v1.17.8+vmware.1-tkg.1`.
pub fn is_of(version: &str, wanted: &str) -> bool {
    begins_with(wanted.trim_start_matches('v'), version.trim_start_matches('v'))
}

/// A change of something else than the version is told by a condition.
fn is_up_to_date(machine: &Machine) -> bool {
    machine.condition(UP_TO_DATE).is_none_or(|condition| condition.status != "False")
}

fn lowest(machines: &[&Machine]) -> Option<String> {
    versions(machines.iter()).min().map(|(_, version)| version.to_owned())
}

fn newest<'a>(machines: impl Iterator<Item = &'a &'a Machine>) -> Option<String> {
    versions(machines).max().map(|(_, version)| version.to_owned())
}

fn versions<'a>(machines: impl Iterator<Item = &'a &'a Machine>) -> impl Iterator<Item = (Version, &'a str)> {
    let versions = machines.map(|machine| machine.spec.version.as_str());
    versions.filter_map(|version| Some((Version::parse(version)?, version)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_that_its_owner_has_paused_is_paused() {
        let told = |said: Option<&str>| {
            let annotations = said.map(|said| json!({ "drover.dev/paused": said })).unwrap_or(json!({}));
            let metadata = json!({ "namespace": "team", "name": "web", "annotations": annotations });
            let guest: GuestCluster = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
            Progress::of_tanzu(&Cluster::default(), &guest).paused
        };
        assert_eq!([told(None), told(Some("true")), told(Some("false"))], [false, true, false]);
    }
}
