//! Never two drivers of an Upgrade: where another program has written what only its driver writes, or Harvester's own controller is at work, an
//! operator writes nothing for it before its user has named that program.

use std::time::Duration;

use drover_clock::between;
use serde_json::Value;

use super::{Change, Checker};
use crate::known::Known;

/// How soon an operator notices that another one drives.
const NOTICED: Duration = Duration::from_secs(3);

const UPGRADE: &str = "harvesterhci.io/upgrade";
const STATE: &str = "harvesterhci.io/upgradeState";
const CLEANUP: &str = "harvesterhci.io/upgradeCleanup";
const PROGRESS: &str = "drover.dev/progress";
const DRIVE: &str = "drover.dev/drive";
const FLEET: &str = "fleet-local";
/// Of a Node, and of a machine-plan Secret, what an Upgrade alone writes there.
const OF_NODE: [&str; 2] = ["harvesterhci.io/pendingOSImage", "harvesterhci.io/node-upgrade-pause"];
const OF_SECRET: [&str; 2] = ["harvesterhci.io/pre-hook", "harvesterhci.io/post-hook"];

impl Checker {
    /// Who drives which Upgrade beside the operators, and since when.
    pub(super) fn note_drivers(&mut self, known: &Known, change: &Change<'_>) {
        let is_harvester = change.kind == "Deployment" && change.name == "harvester";
        if change.kind != "Upgrade" && !is_harvester {
            return;
        }
        self.harvester_was_off |= is_harvester && change.after.is_some_and(|deployment| !is_at_work(deployment));
        if change.kind == "Upgrade" {
            self.note_writers(change);
        }
        let (was_off, before) = (self.harvester_was_off, std::mem::take(&mut self.drivers));
        let driven = known.named("Upgrade").filter_map(|(_, name, upgrade)| {
            let writer = self.writers.get(name).and_then(|writers| writers.first().cloned());
            let driver = writer.or_else(|| incumbent(known, upgrade, was_off))?;
            let since = before.get(name).map_or(change.at, |(_, since)| *since);
            Some((name.to_owned(), (driver, since)))
        });
        self.drivers = driven.collect();
    }

    /// Who writes over what another program has written takes nothing back by that: only a word of the user does.
    fn note_writers(&mut self, change: &Change<'_>) {
        let writers = self.writers.entry(change.name.to_owned()).or_default();
        let Some(upgrade) = change.after else { return writers.clear() };
        let managed = upgrade["metadata"]["managedFields"].as_array().into_iter().flatten();
        let others = managed.filter(|entry| drives(&entry["fieldsV1"])).filter_map(|entry| entry["manager"].as_str());
        let programs = others.filter(|name| *name != "drover" && !name.starts_with("kubectl"));
        writers.extend(programs.map(str::to_owned));
        writers.retain(|name| !is_named(upgrade, name));
    }

    pub(super) fn check_other_drivers(&mut self, known: &Known, change: &Change<'_>) {
        if !change.is_by_an_operator() || self.leave.late || self.drivers.is_empty() {
            return;
        }
        let is_noticed = |name: &str| self.drivers.get(name).filter(|(_, since)| between(*since, change.at) > NOTICED);
        let driver = match of_upgrade(change) {
            Of::Nothing => None,
            Of::Upgrade(name) => is_noticed(&name).map(|(driver, _)| driver.clone()),
            // It is for the one that is under way.
            Of::Any => {
                let mut under_way = known.named("Upgrade").filter(|(_, _, upgrade)| !is_over(upgrade));
                under_way.find_map(|(_, name, _)| is_noticed(name)).map(|(driver, _)| driver.clone())
            }
        };
        if let Some(driver) = driver {
            let (actor, kind, name) = (change.actor, change.kind, change.name);
            self.violation(format!("{actor} wrote {kind} {name} for an Upgrade that {driver} drives"));
        }
    }
}

/// What a write of an operator is for.
enum Of {
    Nothing,
    Upgrade(String),
    Any,
}

fn of_upgrade(change: &Change<'_>) -> Of {
    let Some(object) = change.after.or(change.before) else { return Of::Nothing };
    let differs = |pointer: &str| {
        let of = |object: Option<&Value>| object.and_then(|object| object.pointer(pointer)).cloned();
        of(change.before) != of(change.after)
    };
    let notes =
        |keys: &[&str]| keys.iter().any(|key| differs(&format!("/metadata/annotations/{}", key.replace('/', "~1"))));
    match change.kind {
        "Event" => Of::Nothing,
        "Upgrade" => Of::Upgrade(change.name.to_owned()),
        "Node" if notes(&OF_NODE) => Of::Any,
        "Secret" if notes(&OF_SECRET) => Of::Any,
        // Of Cluster API, or of Rancher: what they are asked for. The status is the planner's.
        "Cluster" if change.namespace == FLEET && differs("/spec") => Of::Any,
        "ManagedChart" | "Addon" => Of::Any,
        // Its Plans are carried out like any other.
        "Plan" if change.before.is_some() && change.after.is_some() => Of::Nothing,
        "Job" if object["metadata"]["labels"]["upgrade.cattle.io/plan"].is_string() => Of::Nothing,
        _ => object["metadata"]["labels"][UPGRADE].as_str().map_or(Of::Nothing, |name| Of::Upgrade(name.to_owned())),
    }
}

/// Its user has said that an Upgrade may be driven beside this program.
fn is_named(upgrade: &Value, name: &str) -> bool {
    let words = upgrade["metadata"]["annotations"][DRIVE].as_str().unwrap_or_default();
    words.split(',').any(|word| word.trim() == name)
}

/// Harvester's own controller, if it is at work and nobody has said that Drover may be, too.
fn incumbent(known: &Known, upgrade: &Value, was_off: bool) -> Option<String> {
    let is_there = known.get("Deployment", "harvester-system", "harvester").is_some_and(is_at_work);
    let may = is_named(upgrade, "harvester") || is_named(upgrade, "true") && !was_off;
    (is_there && !may && !is_over(upgrade)).then(|| "Deployment harvester".to_owned())
}

fn drives(fields: &Value) -> bool {
    let (metadata, status) = (&fields["f:metadata"], &fields["f:status"]);
    let labels = [STATE, CLEANUP].iter().any(|label| metadata["f:labels"][format!("f:{label}")].is_object());
    labels
        || metadata["f:annotations"][format!("f:{PROGRESS}")].is_object()
        || status["f:conditions"].is_object()
        || status["f:nodeStatuses"].is_object()
}

fn is_at_work(deployment: &Value) -> bool {
    deployment["spec"]["replicas"].as_i64() != Some(0)
}

fn is_over(upgrade: &Value) -> bool {
    let label = |key: &str| upgrade["metadata"]["labels"][key].as_str().unwrap_or_default();
    matches!(label(STATE), "Succeeded" | "Failed") && label(CLEANUP) == "Succeeded"
}
