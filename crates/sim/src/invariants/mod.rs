//! What must hold after every single write.
//!
//! This code reads the objects as they are stored and shares nothing with the engines: not a type, not a constant.

mod claims;
mod delivery;
mod drains;
mod drivers;
pub mod ends;
pub mod guests;
mod harvester;
mod left;
mod nodes;
mod places;
mod planner;
pub mod selector;
pub mod standstill;
mod status;
mod upgrades;
pub mod window;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;

use crate::faults::Fault;
use crate::known::Known;

/// One change of one object, as the store commits it.
#[derive(Debug)]
pub struct Change<'a> {
    pub at: Timestamp,
    pub actor: &'a str,
    /// It was an eviction, not a plain delete.
    pub evicted: bool,
    pub kind: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    pub before: Option<&'a Value>,
    pub after: Option<&'a Value>,
}

impl Change<'_> {
    fn is_by_an_operator(&self) -> bool {
        self.actor.starts_with("operator")
    }
}

/// What of a run lets something be right that would be wrong otherwise.
#[derive(Debug, Clone, Copy, Default)]
pub struct Leave {
    /// People or other controllers change nodes, Jobs or Plans: an upgrade may run twice.
    pub meddled: bool,
    /// What an operator sees may be up to a minute old.
    pub late: bool,
    /// Not all clocks agree.
    pub clocks: bool,
}

impl Leave {
    pub fn of<'a>(faults: impl Iterator<Item = &'a Fault>) -> Self {
        let mut leave = Leave::default();
        for fault in faults {
            match fault {
                Fault::ClockAhead | Fault::ClockBehind | Fault::ClockSetAhead | Fault::ClockSetBack => {
                    leave.clocks = true;
                }
                Fault::Suspended
                | Fault::Overtaken
                | Fault::WatchesLag
                | Fault::KindLags(_)
                | Fault::ServerAway
                | Fault::StaleLists => leave.late = true,
                fault if !fault.is_done_to_a_write() && *fault != Fault::SecondLeader => leave.meddled = true,
                _ => {}
            }
        }
        leave
    }
}

/// Watches all changes of a run and notes what should not have happened.
#[derive(Debug, Default)]
pub struct Checker {
    leave: Leave,
    /// Nodes that others than Drover have cordoned.
    cordoned: BTreeSet<String>,
    /// Those among them that Rancher's planner has cordoned.
    by_planner: BTreeSet<String>,
    /// Nodes that others have uncordoned while they were out.
    uncordoned: BTreeSet<String>,
    /// How often an upgrade has succeeded, by node and the result that it stands for.
    upgrades: BTreeMap<(String, String), usize>,
    /// Jobs of other controllers that are at work, and since when.
    foreign: BTreeMap<String, Timestamp>,
    /// All Jobs that other controllers have ever made.
    strangers: BTreeSet<String>,
    /// Plans whose claims somebody else has changed.
    tampered: BTreeSet<String>,
    /// Secrets that are gone, by namespace and name, and since when.
    gone_secrets: BTreeMap<(String, String), Timestamp>,
    /// By namespace and name of the Cluster.
    guests: BTreeMap<(String, String), guests::GuestSeen>,
    /// Certificate Secrets that a person has deleted, as they were, by namespace and name.
    lost_certificates: BTreeMap<(String, String), Value>,
    /// How many guest clusters may be updated at once; none: as many as there are.
    guest_limit: Option<usize>,
    nodes: harvester::NodesSeen,
    /// Who else drives an Upgrade, and since when, by its name.
    drivers: BTreeMap<String, (String, Timestamp)>,
    /// Programs that have written what only a driver writes, by the name of the Upgrade.
    writers: BTreeMap<String, BTreeSet<String>>,
    /// Harvester's own controller was switched off once.
    harvester_was_off: bool,
    /// What Upgrades set otherwise for a while, as it was before, by kind, namespace and name.
    before: BTreeMap<(String, String, String), Value>,
    /// Jobs of control planes that have failed and that an operator has deleted, by namespace and name.
    given_up: BTreeSet<(String, String)>,
    violations: Vec<String>,
}

impl Checker {
    pub fn new(cordoned: &BTreeSet<String>, guest_limit: Option<usize>, leave: Leave) -> Self {
        Checker { cordoned: cordoned.clone(), guest_limit, leave, ..Checker::default() }
    }

    /// What was found since it was last asked.
    pub fn take_violations(&mut self) -> Vec<String> {
        std::mem::take(&mut self.violations)
    }

    /// Nodes that others than Drover have cordoned.
    pub fn cordoned(&self) -> &BTreeSet<String> {
        &self.cordoned
    }

    /// `known` is how everything is after the change.
    pub fn see(&mut self, known: &Known, change: &Change<'_>) {
        match change.kind {
            "Node" => {
                self.check_node(known, change);
                self.note_member(change);
            }
            "Pod" => {
                self.check_pod(known, change);
                self.check_drained(known, change);
                self.check_boot(known, change);
            }
            "Job" => {
                self.check_job(known, change);
                self.check_add_ons_first(known, change);
                self.check_turn(known, change);
                self.check_node_job(known, change);
                self.check_delivery_by_job(known, change);
                self.check_not_tried_again(change);
            }
            "MachineDeployment" => self.check_turn(known, change),
            "ConfigMap" => self.check_places(known, change),
            "Plan" => {
                self.check_claims(known, change);
                self.check_status(known, change);
            }
            "Secret" => {
                self.note_secret(change);
                self.check_certificates(known, change);
                self.check_answer(known, change);
                self.check_delivery(known, change);
                self.check_plan(known, change);
            }
            "RKEControlPlane" => self.check_planner_claims(known, change),
            "Machine" => self.check_machines(known, change),
            "Cluster" => {
                self.check_made_once(change);
                self.note_before(change);
            }
            "ManagedChart" | "Setting" | "Addon" => self.note_before(change),
            "Upgrade" => self.check_upgrade(known, change),
            "TanzuKubernetesCluster" => {
                self.note_cluster(change);
                self.check_runs(known, change);
            }
            "VirtualMachine" => self.check_stopped(known, change),
            _ => {}
        }
        self.check_only_driver(known, change);
        self.check_other_drivers(known, change);
        self.note_drivers(known, change);
    }

    /// Whether a pod belongs to a Job that another controller has made. Pods carry no claim themselves.
    fn is_strangers(&self, pod: &Value) -> bool {
        job_of(pod).is_some_and(|job| self.strangers.contains(job))
    }

    fn violation(&mut self, sentence: String) {
        self.violations.push(sentence);
    }
}

fn claim(object: &Value) -> Option<&str> {
    object["metadata"]["labels"]["drover.dev/claim"].as_str()
}

/// What an operator has written on a node that is out.
fn mark(node: &Value) -> Option<Value> {
    serde_json::from_str(node["metadata"]["annotations"]["drover.dev/claim"].as_str()?).ok()
}

/// The uid of whoever a node is out for.
fn owner(node: &Value) -> Option<String> {
    mark(node)?["owner"]["uid"].as_str().map(str::to_owned)
}

fn is_cordoned_for_an_upgrade(node: &Value) -> bool {
    mark(node).is_some_and(|mark| mark["cordoned"] == true)
}

fn plan_with_uid<'a>(known: &'a Known, uid: &str) -> Option<&'a Value> {
    known.all("Plan").find(|plan| plan["metadata"]["uid"] == uid)
}

/// The Plan that a Job or a pod is of.
fn plan_of<'a>(known: &'a Known, object: &Value) -> Option<&'a Value> {
    let name = object["metadata"]["labels"]["upgrade.cattle.io/plan"].as_str()?;
    known.named("Plan").find(|(_, plan, _)| *plan == name).map(|(_, _, plan)| plan)
}

fn limit(plan: &Value) -> usize {
    plan["spec"]["concurrency"].as_u64().and_then(|limit| usize::try_from(limit).ok()).unwrap_or(0)
}

/// The claims that are written on a Plan.
fn written_claims(plan: &Value) -> Value {
    let text = plan["metadata"]["annotations"]["drover.dev/claims"].as_str().unwrap_or_default();
    serde_json::from_str(text).unwrap_or_default()
}

fn is_cordoned(node: &Value) -> bool {
    node["spec"]["unschedulable"] == true
}

fn has_condition(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| condition["type"] == kind && condition["status"] == "True")
}

fn is_ready(node: &Value) -> bool {
    has_condition(node, "Ready")
}

fn is_finished(job: &Value) -> bool {
    has_condition(job, "Complete") || has_condition(job, "Failed")
}

fn node_of(pod: &Value) -> Option<&str> {
    pod["spec"]["nodeName"].as_str()
}

fn job_of(pod: &Value) -> Option<&str> {
    pod["metadata"]["labels"]["batch.kubernetes.io/job-name"].as_str()
}

/// The hash that a Job, a pod or a node carries for a Plan.
fn hash_for<'a>(object: &'a Value, plan: &str) -> Option<&'a str> {
    object["metadata"]["labels"][format!("plan.upgrade.cattle.io/{plan}")].as_str()
}

/// A pod of an upgrade that is on a node and has not ended.
fn is_at_work(pod: &Value) -> bool {
    // Of a large upgrade most have ended: this is asked of all of them whenever a pod changes.
    let has_ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    !has_ended && job_of(pod).is_some() && node_of(pod).is_some()
}
