//! An upgrade of Cluster API that somebody follows: the workers after the control plane, and a halt where a new machine fails.

use std::collections::BTreeSet;

use drover_api::marks::CLUSTER_FAILED;
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::below::below;
use super::keeping::{Stand, said};
use super::{Awaited, Lever, Refusal, Stuck, annotate, pause, start, stuck};
use crate::cluster::cluster_api::{Cluster as Guest, Machine};
use crate::cluster::{Cluster, ObjectRef};
use crate::guest::order::Version;
use crate::why::{Pool, Progress};

/// What comes next of an upgrade that somebody follows.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    Raise(Vec<Lever>),
    Waits(Waiting),
    /// Cluster API is told to leave the cluster as it is, so that no other machine goes the same way.
    Halt {
        lever: Box<Lever>,
        why: String,
    },
    Done,
}

/// What is on its way.
#[derive(Debug, Clone, PartialEq)]
pub struct Waiting {
    pub sentence: String,
    /// Some part is of a lower version, or machines of the new one are to come yet; else some are not well, for whatever reason.
    pub is_behind: bool,
    /// Nothing has come of it for too long: what keeps it, and what would help.
    pub stalled: Option<Stuck>,
}

/// Why a cluster was paused, as kept in [`CLUSTER_FAILED`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Halted {
    /// The uids of Machines: whoever resumes the cluster has seen them, and it is not halted for one of them again.
    pub machines: BTreeSet<String>,
    pub why: String,
}

impl Halted {
    pub fn of(own: &Guest) -> Option<Self> {
        serde_json::from_str(own.metadata.annotations.get(CLUSTER_FAILED)?).ok()
    }

    /// What is left to be written when all is over.
    pub(super) fn outlived(own: &Guest) -> Option<Value> {
        own.metadata.annotations.get(CLUSTER_FAILED).map(|_| annotate(CLUSTER_FAILED, Value::Null))
    }
}

/// Machines of the new version that stay.
pub(super) fn raised<'a>(cluster: &'a Cluster, own: &'a Guest, to: &str) -> impl Iterator<Item = &'a Machine> {
    let version = Version::parse(to);
    let machines = cluster.cluster_api.machines_of(&own.metadata.namespace, &own.metadata.name);
    machines.filter(move |one| Version::parse(&one.spec.version) == version && !one.is_being_deleted())
}

/// The control plane, then the workers, until nothing differs. A new Machine that has failed, or is no Node after `limit`, halts it.
pub fn follow(
    cluster: &Cluster,
    own: &Guest,
    to: &str,
    awaited: &Awaited,
    limit: SignedDuration,
) -> Result<Next, Refusal> {
    let known = Halted::of(own).unwrap_or_default();
    let is_behind = is_behind(cluster, own, to);
    let stranded = stranded(cluster, own, to, awaited, limit, &known);
    // Where every part is of the version, no other machine would go the same way: others have made this one.
    if let Some((machine, why)) = stranded.filter(|_| is_behind && !own.is_paused()) {
        let mut machines = known.machines;
        machines.insert(machine.metadata.uid.clone());
        let mut lever = pause(own)?;
        let halted = Halted { machines, why: why.clone() };
        json_patch::merge(&mut lever.patch, &annotate(CLUSTER_FAILED, json!(halted).to_string()));
        return Ok(Next::Halt { lever: Box::new(lever), why });
    }
    let started = start(cluster, own, to);
    if let (Err(Refusal::ControlPlaneFirst { .. } | Refusal::Nothing(..)), Some(version)) =
        (&started, Version::parse(to))
        && let Some(paused) = stuck::paused(cluster, own, &version).filter(|_| is_behind)
    {
        return Err(Refusal::PartPaused(paused));
    }
    let still = awaited.still(limit);
    let waits = |sentence: String| {
        let stalled = still.is_all().then(|| stuck::said(cluster, own, to));
        let sentence = match &stalled {
            Some(stuck) => {
                format!("{sentence}; nothing has come of it for {} minutes: {}", still.limit.as_mins(), stuck.why)
            }
            None => sentence,
        };
        Next::Waits(Waiting { sentence, is_behind, stalled })
    };
    match started {
        Ok(levers) => Ok(Next::Raise(levers)),
        Err(refusal @ Refusal::ControlPlaneFirst { .. }) => Ok(waits(refusal.to_string())),
        Err(Refusal::Nothing(..)) => Ok(coming(cluster, own, to).map_or(Next::Done, waits)),
        Err(refusal) => Err(refusal),
    }
}

/// What is not there yet of what every part asks for.
fn coming(cluster: &Cluster, own: &Guest, to: &str) -> Option<String> {
    let Progress { control_plane, workers, differs, .. } = Progress::of_cluster(cluster, own);
    let pools = [(&control_plane, "the control plane is on its way"), (&workers, "the workers are on their way")];
    for (Pool { wanted, updated, .. }, goes) in pools {
        if updated < wanted {
            return Some(format!("{goes} to {to}, with {updated} of {wanted} machines"));
        }
    }
    match Version::parse(to).and_then(|version| below(cluster, own, &version).next()) {
        Some(old) => Some(format!("{} is still of a lower version than {to}", old.in_words())),
        None => differs.then(|| format!("every machine is of {to}, and not every one is ready")),
    }
}

/// Some part is of a lower version, or machines of the new one are to come yet. Once all were seen to be of it, others that come are no matter
/// of the upgrade.
fn is_behind(cluster: &Cluster, own: &Guest, to: &str) -> bool {
    let Progress { control_plane, workers, .. } = Progress::of_cluster(cluster, own);
    let lacks = |pool: &Pool| pool.updated < pool.wanted;
    let is_lower = Version::parse(to).is_some_and(|version| below(cluster, own, &version).next().is_some());
    let was_done = said(own).is_some_and(|said| said.to == to && said.stand == Stand::UpToDate);
    is_lower || !was_done && (lacks(&control_plane) || lacks(&workers))
}

/// A Machine of the new version that does not get there, and why; none that somebody knows of.
fn stranded<'a>(
    cluster: &'a Cluster,
    own: &'a Guest,
    to: &str,
    awaited: &Awaited,
    limit: SignedDuration,
    known: &Halted,
) -> Option<(&'a Machine, String)> {
    let is_news = |machine: &&Machine| !known.machines.contains(&machine.metadata.uid);
    raised(cluster, own, to).filter(is_news).find_map(|machine| {
        let name = ObjectRef::of(machine).in_words();
        if let Some(why) = machine.failure() {
            return Some((machine, format!("{name} has failed: {why}")));
        }
        let minutes = limit.as_mins();
        (awaited.waited(machine) > limit).then(|| (machine, format!("{name} is no Node after {minutes} minutes")))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::{guest, version};
    use super::*;

    /// What follows when that has been so for as many minutes.
    fn followed_for(minutes: i64, changes: &[(&str, Value)]) -> String {
        let cluster = guest(changes);
        let own = cluster.cluster_api.clusters.get("guests", "g").unwrap();
        let noon: jiff::Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let limit = SignedDuration::from_mins(15);
        let mut awaited = Awaited::default();
        awaited.look(&cluster, own, "v1.34.1", noon);
        awaited.look(&cluster, own, "v1.34.1", noon + SignedDuration::from_mins(minutes));
        match follow(&cluster, own, "v1.34.1", &awaited, limit).unwrap() {
            Next::Raise(levers) => levers.iter().map(|lever| format!("raises {}", lever.object)).collect(),
            Next::Waits(waiting) => waiting.sentence,
            Next::Halt { lever, why } => format!("{why}: {} {}", lever.object, lever.patch["spec"]),
            Next::Done => "done".to_owned(),
        }
    }

    fn followed(changes: &[(&str, Value)]) -> String {
        followed_for(0, changes)
    }

    #[test]
    fn whoever_follows_has_the_workers_raised_when_their_turn_comes_and_is_told_of_the_end() {
        let node = |version: &str| json!({ "spec": { "version": version }, "status": { "nodeRef": { "name": "n" } } });
        let (plane, machine) = (("plane", version("v1.34.1")), ("m", node("v1.34.1")));
        let new_pool = json!({ "spec": { "template": { "spec": { "version": "v1.34.1" } } } });
        let status = json!({ "status": { "replicas": 1, "updatedReplicas": 1, "upToDateReplicas": 1, "readyReplicas": 1, "availableReplicas": 1 } });

        assert_eq!(followed(&[]), "raises KubeadmControlPlane/guests/plane");
        let under_way = followed(&[plane.clone(), ("m", node("v1.33.1"))]);
        assert!(
            under_way.starts_with("the control plane is on its way to v1.34.1, with 0 of 1 machines"),
            "{under_way}"
        );
        assert_eq!(followed(&[plane.clone(), machine.clone()]), "raises MachineDeployment/guests/pool");
        let rolling = [plane.clone(), machine.clone(), ("pool", new_pool.clone())];
        assert_eq!(followed(&rolling), "the workers are on their way to v1.34.1, with 0 of 1 machines");
        let done = [plane, machine, ("pool", new_pool), ("pool", status)];
        assert_eq!(followed(&done), "done");
    }

    #[test]
    fn a_new_machine_that_fails_or_is_late_halts_the_cluster_and_an_old_one_does_not() {
        // Clocks differ: when a Machine was made is not asked.
        let made = |version: &str, status: Value| json!({ "metadata": { "creationTimestamp": "2020-01-01T00:00:00Z" }, "spec": { "version": version }, "status": status });
        let plane = ("plane", version("v1.34.1"));
        let failed = json!({ "failureMessage": "no quota" });
        let said = followed(&[plane.clone(), ("m", made("v1.34.1", failed.clone()))]);
        assert_eq!(said, r#"Machine guests/m has failed: no quota: Cluster/guests/g {"paused":true}"#);
        let no_node = json!({ "nodeRef": null });
        let late = followed_for(16, &[plane.clone(), ("m", made("v1.34.1", no_node.clone()))]);
        assert_eq!(late, r#"Machine guests/m is no Node after 15 minutes: Cluster/guests/g {"paused":true}"#);
        for (version, minutes, status) in
            [("v1.34.1", 14, no_node), ("v1.34.1", 60, json!({ "nodeRef": { "name": "n" } })), ("v1.33.1", 60, failed)]
        {
            let said = followed_for(minutes, &[plane.clone(), ("m", made(version, status))]);
            assert!(!said.contains("paused"), "{said}");
        }
    }
}
