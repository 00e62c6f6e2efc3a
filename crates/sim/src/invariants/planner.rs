//! Where an operator plans the machines of a cluster itself: claims of nodes stay within what their tier allows, servers have their turn before
//! workers, a machine gets its plan when its node is out, empty, and whoever is asked before has answered; and its node comes back when
//! that plan is carried out.

use k8s_openapi::ByteString;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::claims::nodes;
use super::{Change, Checker, claim, is_cordoned, is_ready, mark, node_of, written_claims};
use crate::known::Known;

const OWNER: &str = "RKEControlPlane";
const NODE: &str = "rke.cattle.io/node-name";
/// What a node is drained with, and what says that it has been.
const ASKED: &str = "rke.cattle.io/drain-options";
const DRAINED: &str = "rke.cattle.io/drain-done";

/// Those that share a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tier {
    Server,
    ControlPlane,
    Worker,
}

impl Tier {
    fn of(node: &Value) -> Self {
        let has = |role: &str| node["metadata"]["labels"][format!("node-role.kubernetes.io/{role}")] == "true";
        match (has("etcd"), has("control-plane")) {
            (true, _) => Tier::Server,
            (false, true) => Tier::ControlPlane,
            (false, false) => Tier::Worker,
        }
    }

    /// How many of so many may be out at once; none for any number.
    fn limit(self, plane: &Value, all: usize) -> Option<usize> {
        let strategy = &plane["spec"]["upgradeStrategy"];
        let text = match self {
            Tier::Server => return Some(1),
            Tier::ControlPlane => strategy["controlPlaneConcurrency"].as_str(),
            Tier::Worker => strategy["workerConcurrency"].as_str(),
        };
        let text = text.filter(|text| !text.is_empty()).unwrap_or("1");
        match text.strip_suffix('%').map(str::parse::<usize>) {
            Some(share) => Some((share.unwrap_or(0) * all).div_ceil(100).max(1)),
            None => Some(text.parse().unwrap_or(1)).filter(|limit| *limit > 0),
        }
    }
}

impl Checker {
    /// The claims of whoever plans machines stand on the control plane.
    pub(super) fn check_planner_claims(&mut self, known: &Known, change: &Change<'_>) {
        let (Some(before), Some(after)) = (change.before, change.after) else { return };
        let (old, new) = (written_claims(before), written_claims(after));
        if !self.check_hands(change, &old, &new) {
            return;
        }
        self.check_ended(known, change, &old, &new);
        let begun = nodes(&new).filter(|(node, claim)| old["nodes"][node.as_str()]["id"] != claim["id"]);
        for (name, node) in begun.filter_map(|(name, _)| Some((name, known.node(name)?))) {
            self.check_in_turn(known, change, after, &new, (name, Tier::of(node)));
        }
    }

    /// No more of its tier than may, and no worker before the servers.
    fn check_in_turn(
        &mut self,
        known: &Known,
        change: &Change<'_>,
        plane: &Value,
        claims: &Value,
        (name, tier): (&str, Tier),
    ) {
        let actor = change.actor;
        let of_tier = |name: &str| known.node(name).is_some_and(|node| Tier::of(node) == tier);
        let out = nodes(claims).filter(|(name, _)| of_tier(name)).count();
        let all = known.all("Node").filter(|node| Tier::of(node) == tier).count();
        if let Some(limit) = tier.limit(plane, all).filter(|limit| out > *limit) {
            self.violation(format!("{actor} claimed {name} as number {out} of {limit}"));
        }
        if tier != Tier::Worker {
            return;
        }
        let base = |version: &Value| {
            let text = version.as_str().unwrap_or_default();
            text.split(['+', '-']).next().unwrap_or_default().to_owned()
        };
        let wanted = base(&plane["spec"]["kubernetesVersion"]);
        let is_behind = |name: &str, node: &Value| {
            base(&node["status"]["nodeInfo"]["kubeletVersion"]) != wanted || claims["nodes"].get(name).is_some()
        };
        let mut servers = known.named("Node").filter(|(_, _, node)| Tier::of(node) != Tier::Worker);
        if let Some((_, server, _)) = servers.find(|(_, name, node)| is_behind(name, node)) {
            self.violation(format!("{actor} claimed the worker {name} before {server} was done"));
        }
    }

    /// It takes a node that its user has not paused, under a claim that stands on the control plane, and one server at a time.
    pub(super) fn check_taken(&mut self, known: &Known, change: &Change<'_>, node: &Value) {
        let (actor, name) = (change.actor, change.name);
        let is_paused =
            |node: &Value| node["metadata"]["annotations"]["harvesterhci.io/node-upgrade-pause"].is_string();
        if change.before.is_some_and(is_paused) {
            self.violation(format!("{actor} took {name}, which its user has paused"));
        }
        if !is_held(known, name, node) {
            self.violation(format!("{actor} took {name} under a claim that does not stand on the control plane"));
        }
        let is_server = |node: &Value| Tier::of(node) == Tier::Server;
        // A Plan that neither cordons nor drains has nodes that stay in service: those are not out.
        let is_out = |name: &str, node: &Value| is_cordoned(node) || is_held(known, name, node);
        let servers = known.named("Node").filter(|(_, _, node)| is_server(node));
        let out = servers.filter(|(_, name, node)| is_out(name, node)).count();
        if is_server(node) && out > 1 {
            self.violation(format!("{actor} took {name} as server number {out}"));
        }
    }

    /// A node comes back Ready, when its machine has carried out its plan, and nobody is asked about it any more; or when all is paused before
    /// anything was done to it.
    pub(super) fn check_given_back(&mut self, known: &Known, change: &Change<'_>) {
        let is_taken = |node: &Value| mark(node).is_some_and(|mark| mark["owner"]["kind"] == OWNER);
        let (Some(before), Some(after)) = (change.before, change.after) else { return };
        if !is_taken(before) || is_taken(after) {
            return;
        }
        let (actor, name) = (change.actor, change.name);
        let is_paused = known.all("Cluster").any(|cluster| cluster["spec"]["paused"] == true);
        if !is_ready(after) && !is_paused {
            self.violation(format!("{actor} gave {name} back while it was not Ready"));
        }
        let Some(secret) = known.all("Secret").find(|secret| secret["metadata"]["labels"][NODE] == name) else {
            return;
        };
        if !is_carried_out(secret) {
            self.violation(format!("{actor} gave {name} back before its machine had carried out its plan"));
        }
        if note(secret, ASKED).is_some() {
            self.violation(format!("{actor} gave {name} back in the middle of its drain"));
        }
    }

    /// What an operator writes on the Secret that a machine gets its plan by.
    pub(super) fn check_plan(&mut self, known: &Known, change: &Change<'_>) {
        let (Some(before), Some(after)) = (change.before, change.after) else { return };
        let Some(name) = after["metadata"]["labels"][NODE].as_str().filter(|_| change.is_by_an_operator()) else {
            return;
        };
        let Some(node) = known.node(name) else { return };
        let token = note(after, ASKED).unwrap_or_default();
        let asked: Value = serde_json::from_str(token).unwrap_or_default();
        let is_drained = |secret: &Value| !token.is_empty() && note(secret, DRAINED) == Some(token);
        let is_out = is_cordoned(node) && !self.uncordoned.contains(name);
        if is_drained(after) && !is_drained(before) && asked["enabled"] == true && is_out {
            let mut left = known.named("Pod").filter(|(_, _, pod)| node_of(pod) == Some(name));
            if let Some((_, pod, _)) = left.find(|(_, _, pod)| goes_elsewhere(pod)) {
                self.violation(format!("{name} is said to be drained, and {pod} is still there"));
            }
        }
        if before["data"]["plan"] == after["data"]["plan"] {
            return;
        }
        if !is_held(known, name, node) && !self.leave.meddled {
            self.violation(format!("the machine of {name} got a plan, and no claim of it stands"));
        }
        if asked["enabled"] == true && !is_drained(after) {
            self.violation(format!("the machine of {name} got its plan before it was drained"));
        }
        let hooks = asked["preDrainHooks"].as_array().into_iter().flatten();
        let mut hooks = hooks.filter_map(|hook| hook["annotation"].as_str()).filter(|hook| !hook.is_empty());
        if let Some(hook) = hooks.find(|hook| note(after, hook) != Some(token)) {
            self.violation(format!("the machine of {name} got its plan before {hook} was answered"));
        }
    }
}

/// A claim that stands on the control plane holds this node.
fn is_held(known: &Known, name: &str, node: &Value) -> bool {
    let held = |claims: &Value| claim(node).is_some() && claims["nodes"][name]["id"].as_str() == claim(node);
    known.all(OWNER).any(|plane| held(&written_claims(plane)))
}

fn note<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][key].as_str().filter(|text| !text.is_empty())
}

/// Its agent notes the sum of the plan that it was done with last.
fn is_carried_out(secret: &Value) -> bool {
    let datum = |key: &str| serde_json::from_value::<ByteString>(secret["data"][key].clone()).unwrap_or_default().0;
    let sum: String = Sha256::digest(datum("plan")).iter().map(|byte| format!("{byte:02x}")).collect();
    datum("applied-checksum") == sum.as_bytes()
}

/// A pod that a drain takes: another one comes elsewhere.
fn goes_elsewhere(pod: &Value) -> bool {
    let has_ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let mut owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.any(|owner| owner["kind"] == "ReplicaSet" || owner["kind"] == "StatefulSet") && !has_ended
}
