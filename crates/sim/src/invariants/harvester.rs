//! What must hold while nodes of a Harvester cluster are upgraded: etcd keeps its quorum, one node at a time is out, no volume loses
//! its last sound replica, and no VM is stopped that could have moved.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use drover_clock::between;
use jiff::Timestamp;
use serde_json::Value;

use super::{Change, Checker, has_condition, is_cordoned, is_finished, is_ready};
use crate::known::Known;

/// How soon an operator knows of a member that is lost.
const NOTICED: Duration = Duration::from_secs(3);

/// What is remembered of the nodes.
#[derive(Debug, Default)]
pub struct NodesSeen {
    /// Members of etcd that do not vote, or are not Ready, and since when.
    unwell: BTreeMap<String, Timestamp>,
}

impl Checker {
    pub(super) fn note_member(&mut self, change: &Change<'_>) {
        if !change.namespace.is_empty() {
            return;
        }
        let is_well = |node: &Value| has_condition(node, "EtcdIsVoter") && is_ready(node);
        match change.after {
            Some(node) if is_member(node) && !is_well(node) => {
                self.nodes.unwell.entry(change.name.to_owned()).or_insert(change.at);
            }
            _ => drop(self.nodes.unwell.remove(change.name)),
        }
    }

    /// A Job that empties a node, or installs its system, takes it out of service.
    pub(super) fn check_node_job(&mut self, known: &Known, change: &Change<'_>) {
        let Some(job) = change.after else { return };
        let labels = &job["metadata"]["labels"];
        let kind = labels["harvesterhci.io/upgradeJobType"].as_str().unwrap_or_default();
        let node = labels["harvesterhci.io/node"].as_str().unwrap_or_default();
        if change.before.is_none() && matches!(kind, "pre-drain" | "post-drain") && change.is_by_an_operator() {
            self.check_quorum(known, change, node);
        }
        if change.before.is_none() && kind == "pre-drain" {
            let upgrade = labels["harvesterhci.io/upgrade"].as_str().unwrap_or_default();
            self.check_others(known, upgrade, node);
        }
        let is_done = |job: &Value| has_condition(job, "Complete");
        if kind == "pre-drain" && is_done(job) && !change.before.is_some_and(is_done) {
            self.check_last_replicas(known, node);
        }
    }

    fn check_quorum(&mut self, known: &Known, change: &Change<'_>, node: &str) {
        let is_voter = |node: &str| known.node(node).is_some_and(|node| has_condition(node, "EtcdIsVoter"));
        // What an operator cannot know yet is no fault of its own.
        if self.leave.late || self.leave.clocks || !is_voter(node) {
            return;
        }
        let members: BTreeSet<&str> = known
            .named("Node")
            .filter(|(namespace, _, object)| namespace.is_empty() && is_member(object))
            .map(|(_, name, _)| name)
            .collect();
        let is_out = |name: &str| self.nodes.unwell.get(name).is_some_and(|since| between(*since, change.at) > NOTICED);
        let left = members.iter().filter(|name| **name != node && !is_out(name)).count();
        let accepted = known.all("Upgrade").any(|upgrade| {
            let accepted = upgrade["metadata"]["annotations"]["drover.dev/accept"].as_str();
            accepted.is_some_and(|codes| codes.contains("DRV-ETCD-001"))
        });
        let may_go = members.len() == 1 || members.len() == 2 && accepted;
        if !may_go && left < members.len() / 2 + 1 {
            let all = members.len();
            self.violation(format!("{node} was sent on its way, and etcd has {left} of {all} members left without it"));
        }
    }

    /// One node after another, whatever Rancher's planner asks for.
    fn check_others(&mut self, known: &Known, upgrade: &str, node: &str) {
        let jobs = known.all("Job").filter(|job| {
            let labels = &job["metadata"]["labels"];
            let takes_out =
                ["pre-drain", "post-drain"].iter().any(|kind| labels["harvesterhci.io/upgradeJobType"] == *kind);
            labels["harvesterhci.io/upgrade"] == upgrade && takes_out
        });
        let unfinished = jobs.filter(|job| !is_finished(job) && !job["metadata"]["deletionTimestamp"].is_string());
        let other = unfinished
            .filter_map(|job| job["metadata"]["labels"]["harvesterhci.io/node"].as_str())
            .find(|other| *other != node && known.node(other).is_some())
            .map(str::to_owned);
        if let Some(other) = other {
            self.violation(format!("{node} was sent on its way while {other} was out"));
        }
    }

    /// A node that is about to be drained holds no replica that a volume in use could not do without.
    fn check_last_replicas(&mut self, known: &Known, node: &str) {
        let is_sound = |replica: &Value| {
            let text = |field: &str| replica["spec"][field].as_str().unwrap_or_default().to_owned();
            text("failedAt").is_empty() && !text("healthyAt").is_empty()
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut lost = Vec::new();
        for (_, name, volume) in known.named("Volume") {
            let is_alone = volume["spec"]["numberOfReplicas"].as_i64().unwrap_or(3) < 2;
            if is_alone || volume["status"]["state"] != "attached" {
                continue;
            }
            let own = known.all("Replica").filter(|replica| replica["spec"]["volumeName"] == name && is_sound(replica));
            let places: Vec<String> = own.map(|replica| text(&replica["spec"]["nodeID"])).collect();
            if !places.is_empty() && places.iter().all(|place| place == node) {
                lost.push(name.to_owned());
            }
        }
        for volume in lost {
            self.violation(format!("{node} is drained, and holds the last sound replica of {volume}"));
        }
    }

    /// The steps on a node stop only what cannot move; to a node that is away for a while it could.
    pub(super) fn check_stopped(&mut self, known: &Known, change: &Change<'_>) {
        let Some(node) = change.actor.strip_suffix("/steps") else { return };
        // Where the strategy stays as it is, a request in the status stops the machine.
        let is_off = |machine: &Value| {
            let mut requests = machine["status"]["stateChangeRequests"].as_array().into_iter().flatten();
            machine["spec"]["runStrategy"] == "Halted"
                || machine["spec"]["running"] == false
                || requests.any(|request| request["action"] == "Stop")
        };
        let (Some(before), Some(after)) = (change.before, change.after) else { return };
        if is_off(before) || !is_off(after) {
            return;
        }
        let instance = known.get("VirtualMachineInstance", change.namespace, change.name);
        let can_move = instance.is_some_and(|instance| has_condition(instance, "LiveMigratable"));
        let is_host = |(namespace, name, object): &(&str, &str, &Value)| {
            namespace.is_empty()
                && *name != node
                && !is_cordoned(object)
                && !object["metadata"]["labels"]["node-role.harvesterhci.io/witness"].is_string()
        };
        if can_move && known.named("Node").any(|node| is_host(&node)) {
            self.violation(format!("{} was stopped on {node}, and could have moved", change.name));
        }
    }
}

/// It has a say in etcd, or had one; a learner has none.
fn is_member(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    let mut said = conditions.filter(|condition| condition["type"] == "EtcdIsVoter");
    said.any(|condition| condition["reason"] != "MemberIsLearner")
}
