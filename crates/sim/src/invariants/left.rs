//! What an Upgrade leaves behind when it is called cleaned up: nothing that it has made, no mark on a node, and what it has set otherwise is
//! as before.

use serde_json::Value;

use super::{Change, Checker};
use crate::known::Known;

const SYSTEM: &str = "harvester-system";
const FLEET: &str = "fleet-local";
const REPLENISHMENT: &str = "replica-replenishment-wait-interval";
const PAUSE_MAP: &str = "harvesterhci.io/node-upgrade-pause-map";
/// Who acts as people do.
const PERSON: &str = "user";

impl Checker {
    /// How something is that Upgrades set otherwise, as long as none has, and since a person has last changed it.
    pub(super) fn note_before(&mut self, change: &Change<'_>) {
        let Some(after) = change.after else { return };
        let Some(value) = held(change.kind, change.name, after) else { return };
        if change.before.is_none() || change.actor == PERSON {
            let place = (change.kind.to_owned(), change.namespace.to_owned(), change.name.to_owned());
            self.before.insert(place, value.clone());
        }
    }

    /// In sentences. One that has failed may leave the planner to its user, with a node in its hands.
    pub(super) fn left(&self, known: &Known, upgrade: &str, has_succeeded: bool) -> Vec<String> {
        let mut left = Vec::new();
        let plans =
            known.named("Plan").filter(|(_, _, plan)| plan["metadata"]["labels"]["harvesterhci.io/upgrade"] == upgrade);
        left.extend(plans.map(|(_, name, _)| format!("its Plan {name} is there")));
        let map = known.get("Upgrade", SYSTEM, upgrade).map(|one| &one["metadata"]["annotations"][PAUSE_MAP]);
        left.extend(map.filter(|map| map.is_string()).map(|_| "its map of nodes that pause is there".to_owned()));
        let repository = format!("upgrade-repo-{upgrade}");
        let served = ["Deployment", "Service", "VirtualMachine"].into_iter();
        let served = served.filter(|kind| known.get(kind, SYSTEM, &repository).is_some());
        left.extend(served.map(|kind| format!("its {kind} {repository} is there")));
        for (_, name, node) in known.named("Node").filter(|(namespace, ..)| namespace.is_empty()) {
            let marks = ["harvesterhci.io/pendingOSImage", "harvesterhci.io/node-upgrade-pause"];
            let marked = marks.iter().find(|mark| node["metadata"]["annotations"][**mark].is_string());
            left.extend(marked.map(|mark| format!("{name} carries {mark}")));
            let mut taints = node["spec"]["taints"].as_array().into_iter().flatten();
            if has_succeeded && taints.any(|taint| taint["key"] == "kubevirt.io/drain") {
                left.push(format!("{name} sends its VMs away"));
            }
        }
        for ((kind, namespace, name), before) in self.before.iter().filter(|_| has_succeeded) {
            let mut now = known.named(kind).filter(|(own, one, _)| own == namespace && one == name);
            let other = now.find_map(|(_, _, object)| held(kind, name, object)).filter(|value| !is_same(value, before));
            left.extend(other.map(|value| format!("{kind} {name} has {value}, and had {before}")));
        }
        left
    }
}

/// What is not there is as good as what says no.
fn is_same(one: &Value, other: &Value) -> bool {
    let is_nothing =
        |value: &Value| value.is_null() || *value == false || value.as_object().is_some_and(serde_json::Map::is_empty);
    one == other || is_nothing(one) && is_nothing(other)
}

/// What of an object is set otherwise while an Upgrade is under way.
fn held<'a>(kind: &str, name: &str, object: &'a Value) -> Option<&'a Value> {
    match kind {
        "ManagedChart" => Some(&object["spec"]["paused"]),
        "Setting" if name == REPLENISHMENT => Some(&object["value"]),
        "Addon" if name == "descheduler" => Some(&object["spec"]["enabled"]),
        // Of provisioning.cattle.io.
        "Cluster" if object["metadata"]["namespace"] == FLEET && object["spec"]["rkeConfig"].is_object() => {
            Some(&object["spec"]["rkeConfig"]["upgradeStrategy"])
        }
        _ => None,
    }
}
