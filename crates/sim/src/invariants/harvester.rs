//! What must hold while nodes of a Harvester cluster are upgraded: etcd keeps its quorum, one node at a time is out, no volume loses
//! its last sound replica, and no VM is stopped that could have moved. No node is sent on its way that its user has paused, or that has not
//! the images of the release; the planner is answered when the Job for it is done, and the Upgrade succeeds when every node has booted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use drover_clock::between;
use jiff::Timestamp;
use serde_json::Value;

use super::{Change, Checker, has_condition, is_cordoned, is_finished, is_ready};
use crate::known::Known;

/// How soon an operator knows of a member that is lost, or of a node that is paused.
const NOTICED: Duration = Duration::from_secs(3);

const UPGRADE: &str = "harvesterhci.io/upgrade";
const JOB_TYPE: &str = "harvesterhci.io/upgradeJobType";
const NODE: &str = "harvesterhci.io/node";
const STATE: &str = "harvesterhci.io/upgradeState";
const CLEANUP: &str = "harvesterhci.io/upgradeCleanup";
const MANAGED: &str = "harvesterhci.io/managed";
const PAUSE: &str = "harvesterhci.io/node-upgrade-pause";
const PAUSE_MAP: &str = "harvesterhci.io/node-upgrade-pause-map";
const PENDING: &str = "harvesterhci.io/pendingOSImage";
/// What the planner drained a node for.
const DRAINED: &str = "rke.cattle.io/drain-done";
/// By these the machine of a pod is told that it boots, and that its step has ended.
const REBOOT: &str = "corral.drover.dev/reboot";
const EXIT_CODE: &str = "corral.drover.dev/exit-code.apply";
/// What Rancher's planner asks with, what it is answered with, and the Job that comes before the answer.
const HOOKS: [(&str, &str, &str); 2] = [
    ("rke.cattle.io/pre-drain", "harvesterhci.io/pre-hook", "pre-drain"),
    ("rke.cattle.io/post-drain", "harvesterhci.io/post-hook", "post-drain"),
];

/// What is remembered of the nodes.
#[derive(Debug, Default)]
pub struct NodesSeen {
    /// Members of etcd that do not vote, or are not Ready, and since when.
    unwell: BTreeMap<String, Timestamp>,
    /// Nodes that pause, by one mark or the other, and since when; until somebody who is no operator resumes them.
    paused: BTreeMap<String, Timestamp>,
    /// What the maps of Upgrades have said last that can be read, by name.
    maps: BTreeMap<String, Value>,
    /// The systems that nodes have on disk and have not booted.
    pending: BTreeMap<String, String>,
    /// Nodes that have carried the result of a Plan, with its name.
    carried: BTreeSet<(String, String)>,
    /// The nodes that were there when an Upgrade was made, by its name.
    there: BTreeMap<String, BTreeSet<String>>,
    /// Nodes that a user goes on without.
    skipped: BTreeSet<String>,
    /// Jobs that were done once: the uid of their Upgrade, their node and their type.
    done: BTreeSet<(String, String, String)>,
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
        let name = change.name.to_owned();
        let Some(node) = change.after else {
            // Who deletes a Node, which registers anew, has resumed nothing.
            self.nodes.pending.remove(&name);
            return;
        };
        let annotation = |key: &str| node["metadata"]["annotations"][key].as_str().map(str::to_owned);
        let was_marked = change.before.is_some_and(|before| before["metadata"]["annotations"][PAUSE].is_string());
        match (was_marked, annotation(PAUSE).is_some()) {
            (false, true) => drop(self.nodes.paused.entry(name.clone()).or_insert(change.at)),
            (true, false) if !change.is_by_an_operator() => drop(self.nodes.paused.remove(&name)),
            _ => {}
        }
        self.nodes.pending.extend(annotation(PENDING).map(|system| (name.clone(), system)));
        if self.nodes.pending.get(&name).is_some_and(|system| node["status"]["nodeInfo"]["osImage"] == system.as_str())
        {
            self.nodes.pending.remove(&name);
        }
        let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
        let plans = labels.filter_map(|(key, _)| key.strip_prefix("plan.upgrade.cattle.io/"));
        self.nodes.carried.extend(plans.map(|plan| (plan.to_owned(), name.clone())));
    }

    /// A Job that empties a node, or installs its system, takes it out of service.
    pub(super) fn check_node_job(&mut self, known: &Known, change: &Change<'_>) {
        let Some(job) = change.after else { return };
        let labels = &job["metadata"]["labels"];
        let kind = labels[JOB_TYPE].as_str().unwrap_or_default();
        let node = labels[NODE].as_str().unwrap_or_default();
        if change.before.is_none() && matches!(kind, "pre-drain" | "single-node-upgrade") && change.is_by_an_operator()
        {
            self.check_may_go(known, change, labels[UPGRADE].as_str().unwrap_or_default(), node);
        }
        if change.before.is_none() && matches!(kind, "pre-drain" | "post-drain") && change.is_by_an_operator() {
            self.check_quorum(known, change, node, "was sent on its way");
        }
        if change.before.is_none() && kind == "pre-drain" {
            let upgrade = labels["harvesterhci.io/upgrade"].as_str().unwrap_or_default();
            self.check_others(known, upgrade, node);
        }
        let is_done = |job: &Value| has_condition(job, "Complete");
        if !kind.is_empty() && is_done(job) {
            self.nodes.done.insert((owner(job), node.to_owned(), kind.to_owned()));
        }
        if kind == "pre-drain" && is_done(job) && !change.before.is_some_and(is_done) {
            self.check_last_replicas(known, node);
        }
    }

    /// Its user lets it, and the images of the release are there.
    fn check_may_go(&mut self, known: &Known, change: &Change<'_>, upgrade: &str, node: &str) {
        if self.leave.late || self.leave.clocks {
            return;
        }
        if self.nodes.paused.get(node).is_some_and(|since| between(*since, change.at) > NOTICED) {
            self.violation(format!("{node} was sent on its way, and its user has paused it"));
        }
        let mut settings = known.named("Setting").filter(|(_, name, _)| *name == "upgrade-config");
        let is_skipped =
            settings.any(|(_, _, setting)| setting["value"].as_str().is_some_and(|text| text.contains("skip")));
        let was_there = self.nodes.there.get(upgrade).is_some_and(|nodes| nodes.contains(node));
        let is_loaded = self.nodes.carried.contains(&(format!("{upgrade}-prepare"), node.to_owned()));
        if was_there && !is_loaded && !is_skipped && !self.leave.meddled {
            self.violation(format!(
                "{node} was sent on its way, and the images of the release were never loaded there"
            ));
        }
    }

    /// Rancher's planner drains a node, or gives it back, when it is answered: what is to be done before that is done.
    pub(super) fn check_answer(&mut self, known: &Known, change: &Change<'_>) {
        let Some(after) = change.after.filter(|_| change.is_by_an_operator()) else { return };
        let note = |secret: &Value, key: &str| {
            secret["metadata"]["annotations"][key].as_str().filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let node = after["metadata"]["labels"]["rke.cattle.io/node-name"].as_str().unwrap_or_default();
        for (asks, answers, kind) in HOOKS {
            let answer = note(after, answers);
            let was_given = answer == change.before.and_then(|before| note(before, answers));
            if answer.is_none() || was_given || answer != note(after, asks) {
                continue;
            }
            // One that is drained for this very question is out, whatever the planner is told.
            if kind == "pre-drain" && note(after, DRAINED) != answer {
                self.check_quorum(known, change, node, "was given to the planner");
            }
            if self.nodes.skipped.contains(node) {
                continue;
            }
            let is_done = |upgrade: &Value| {
                let uid = upgrade["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
                let is_over =
                    matches!(upgrade["status"]["nodeStatuses"][node]["state"].as_str(), Some("Succeeded" | "Skipped"));
                is_over || self.nodes.done.contains(&(uid, node.to_owned(), kind.to_owned()))
            };
            if !known.all("Upgrade").any(is_done) {
                self.violation(format!(
                    "the planner was told to go on with {node} before the Job {kind} was done there"
                ));
            }
        }
    }

    /// The machine boots its new system when the step that has installed it ends well.
    pub(super) fn check_boot(&mut self, known: &Known, change: &Change<'_>) {
        let Some(pod) = change.after else { return };
        let kind = pod["metadata"]["labels"][JOB_TYPE].as_str().unwrap_or_default();
        let ends = |pod: &Value| {
            let told = &pod["metadata"]["annotations"];
            told[REBOOT].is_string() && told[EXIT_CODE] == "0"
        };
        if matches!(kind, "post-drain" | "single-node-upgrade") && ends(pod) && !change.before.is_some_and(ends) {
            let node = super::node_of(pod).unwrap_or_default();
            self.check_quorum(known, change, node, "boots");
        }
    }

    /// Who pauses by the map of an Upgrade. One that cannot be read resumes nobody; what an Upgrade that has ended says counts for nobody.
    pub(super) fn note_map(&mut self, known: &Known, change: &Change<'_>) {
        let over =
            |upgrade: &Value| matches!(upgrade["metadata"]["labels"][STATE].as_str(), Some("Succeeded" | "Failed"));
        let Some(upgrade) = change.after.filter(|upgrade| !over(upgrade)) else {
            if !change.before.is_some_and(over) {
                self.nodes.paused.clear();
            }
            self.nodes.maps.remove(change.name);
            return;
        };
        let text = upgrade["metadata"]["annotations"][PAUSE_MAP].as_str().unwrap_or("{}");
        let Some(map) = serde_json::from_str::<Value>(text).ok().filter(Value::is_object) else { return };
        let before = self.nodes.maps.insert(change.name.to_owned(), map.clone()).unwrap_or_default();
        let names =
            |map: &Value| map.as_object().map(|map| map.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
        for name in names(&before).into_iter().chain(names(&map)).filter(|name| before[name] != map[name]) {
            let is_marked = known.node(&name).is_some_and(|node| node["metadata"]["annotations"][PAUSE].is_string());
            match map[&name].as_str() {
                Some("pause") => drop(self.nodes.paused.entry(name).or_insert(change.at)),
                Some(_) if !change.is_by_an_operator() => drop(self.nodes.paused.remove(&name)),
                None if !is_marked => drop(self.nodes.paused.remove(&name)),
                _ => {}
            }
        }
    }

    /// What an Upgrade says of its end.
    pub(super) fn check_upgrade(&mut self, known: &Known, change: &Change<'_>) {
        self.note_map(known, change);
        let Some(upgrade) = change.after else { return };
        let is_managed = |node: &Value| node["metadata"]["labels"][MANAGED] == "true";
        if change.before.is_none() {
            let nodes = known.named("Node").filter(|(namespace, _, node)| namespace.is_empty() && is_managed(node));
            self.nodes.there.insert(change.name.to_owned(), nodes.map(|(_, name, _)| name.to_owned()).collect());
        }
        let skipped = upgrade["metadata"]["annotations"]["drover.dev/skip"].as_str().unwrap_or_default();
        self.nodes.skipped.extend(skipped.split(',').map(|name| name.trim().to_owned()));
        let has_come = |label: &str| {
            let is = |upgrade: &Value| upgrade["metadata"]["labels"][label] == "Succeeded";
            is(upgrade) && !change.before.is_some_and(is) && change.is_by_an_operator()
        };
        if has_come(STATE) {
            self.check_success(known, change.name);
        }
        // What others put there, or what is seen late, is no fault of an operator.
        if has_come(CLEANUP) && !self.leave.late && !self.leave.meddled {
            let has_succeeded = upgrade["metadata"]["labels"][STATE] == "Succeeded";
            for left in self.left(known, change.name, has_succeeded) {
                self.violation(format!("{} is called cleaned up, and {left}", change.name));
            }
        }
    }

    /// Nothing of it is at work any more, and every node has booted what was installed.
    fn check_success(&mut self, known: &Known, upgrade: &str) {
        let at_work = known.named("Job").find(|(_, _, job)| {
            let labels = &job["metadata"]["labels"];
            let is_step = matches!(labels[JOB_TYPE].as_str(), Some("pre-drain" | "post-drain" | "single-node-upgrade"));
            let is_there = labels[NODE].as_str().is_some_and(|node| known.node(node).is_some());
            let ends = job["metadata"]["deletionTimestamp"].is_string();
            labels[UPGRADE] == upgrade && is_step && is_there && !ends && !is_finished(job)
        });
        if let Some(job) = at_work.map(|(_, name, _)| name.to_owned()) {
            self.violation(format!("{upgrade} is called a success, and its Job {job} is at work"));
        }
        let is_part = |name: &str| {
            let is_managed = known.node(name).is_some_and(|node| node["metadata"]["labels"][MANAGED] == "true");
            let mut machines = known.all("Machine");
            is_managed && machines.any(|machine| machine["status"]["nodeRef"]["name"] == name)
        };
        let unbooted = self.nodes.pending.iter().find(|(name, _)| !self.nodes.skipped.contains(*name) && is_part(name));
        if let Some((name, system)) = unbooted.map(|(name, system)| (name.clone(), system.clone())) {
            self.violation(format!("{upgrade} is called a success, and {name} has not booted {system}"));
        }
        let waits = self.nodes.there.get(upgrade).into_iter().flatten().find(|name| {
            let has_run = known.all("Job").any(|job| {
                let labels = &job["metadata"]["labels"];
                labels[UPGRADE] == upgrade && labels[NODE] == name.as_str() && labels[JOB_TYPE].is_string()
            });
            !has_run && is_part(name) && !self.nodes.skipped.contains(*name) && !self.leave.meddled
        });
        if let Some(name) = waits.cloned() {
            self.violation(format!("{upgrade} is called a success, and no Job of it has been on {name}"));
        }
    }

    /// `what` happens to the node that takes it out.
    pub(super) fn check_quorum(&mut self, known: &Known, change: &Change<'_>, node: &str, what: &str) {
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
        let accepted = known.all("Upgrade").chain(known.all("Cluster")).any(|one| {
            let accepted = one["metadata"]["annotations"]["drover.dev/accept"].as_str();
            accepted.is_some_and(|codes| codes.contains("DRV-ETCD-001"))
        });
        let may_go = members.len() == 1 || members.len() == 2 && accepted;
        if !may_go && left < members.len() / 2 + 1 {
            let all = members.len();
            self.violation(format!("{node} {what}, and etcd has {left} of {all} members left without it"));
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

/// The uid of the Upgrade that a Job is of.
fn owner(job: &Value) -> String {
    job["metadata"]["ownerReferences"][0]["uid"].as_str().unwrap_or_default().to_owned()
}

/// It has a say in etcd, or had one; a learner has none.
fn is_member(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    let mut said = conditions.filter(|condition| condition["type"] == "EtcdIsVoter");
    said.any(|condition| condition["reason"] != "MemberIsLearner")
}
