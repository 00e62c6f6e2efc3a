//! The system services, component by component. Each finds out by itself whether it is done, so that whoever begins anew
//! goes on where the last one stopped; how far each is stands in a ConfigMap.

use std::collections::BTreeMap;

use drover_api::harvester::addon::states;
use drover_api::harvester::{FLEET_NAMESPACE, NAMESPACE};
use drover_api::rancher::managed_chart::{READY, annotations, names as charts};
use serde_json::json;

use super::super::cleanup::HELD_CHARTS;
use super::super::names;
use super::{Next, Scene, rancher};
use crate::cluster::harvester::ManagedChart;
use crate::cluster::is_true;
use crate::decision::{Act, Kind, Purpose, Reason, Subject, Write};

/// One component: nothing if it is as the release asks.
type Component = (&'static str, fn(&Scene<'_>) -> Option<Next>);

/// In this order: what comes later needs what comes earlier.
const COMPONENTS: [Component; 7] = [
    ("hold-charts", hold_charts),
    ("rancher", rancher::raise),
    ("harvester-crd", |scene| chart(scene, charts::HARVESTER_CRD, &scene.release.harvester_chart)),
    ("harvester", |scene| chart(scene, charts::HARVESTER, &scene.release.harvester_chart)),
    ("rancher-monitoring-crd", |scene| chart(scene, charts::MONITORING_CRD, &scene.release.monitoring_chart)),
    ("rancher-logging-crd", |scene| chart(scene, charts::LOGGING_CRD, &scene.release.logging_chart)),
    ("addons", addons),
];

pub(super) fn apply(scene: &Scene<'_>) -> Next {
    let mut states = BTreeMap::new();
    let mut next = Next::Done;
    for (name, component) in COMPONENTS {
        if next != Next::Done {
            states.insert(name, "waits");
            continue;
        }
        match component(scene) {
            None => drop(states.insert(name, "done")),
            Some(unfinished) => {
                states.insert(name, "under way");
                next = unfinished;
            }
        }
    }
    match (tell(scene, &states), next) {
        (Some(write), Next::Wait { mut writes, waits }) => {
            writes.push(write);
            Next::Wait { writes, waits }
        }
        (Some(write), Next::Done) => Next::Wait { writes: vec![write], waits: Vec::new() },
        (_, next) => next,
    }
}

/// How far each component is, where people can see it.
fn tell(scene: &Scene<'_>, states: &BTreeMap<&str, &str>) -> Option<Write> {
    let name = names::apply_manifests(&scene.order.upgrade);
    let known = scene.cluster.harvester.config_maps.get(NAMESPACE, &name);
    let is_told =
        |(key, value): (&&str, &&str)| known.and_then(|map| map.data.get(*key)).is_some_and(|told| told == value);
    match known.is_some() && states.iter().all(is_told) {
        true => None,
        false => Some(scene.keep(&name, json!(states))),
    }
}

/// A chart that was raised for this Upgrade says so.
fn is_raised(scene: &Scene<'_>, chart: &ManagedChart) -> bool {
    chart.metadata.annotations.get(annotations::LAST_UPGRADE_NAME) == Some(&scene.order.upgrade)
}

/// Until its turn comes, no chart moves by itself.
fn hold_charts(scene: &Scene<'_>) -> Option<Next> {
    let known = HELD_CHARTS.iter().filter_map(|name| scene.cluster.harvester.charts.get(FLEET_NAMESPACE, name));
    let loose: Vec<&ManagedChart> = known.filter(|chart| !chart.spec.paused && !is_raised(scene, chart)).collect();
    if loose.is_empty() {
        return None;
    }
    let writes = loose.iter().map(|chart| patch(chart, json!({ "spec": { "paused": true } }))).collect();
    Some(Next::Wait { writes, waits: Vec::new() })
}

fn patch(chart: &ManagedChart, mut change: serde_json::Value) -> Write {
    change["metadata"]["resourceVersion"] = json!(chart.metadata.resource_version.to_string());
    let subject = Subject::new(Kind::ManagedChart, FLEET_NAMESPACE, &chart.metadata.name);
    Write { purpose: Purpose::Step, subject, act: Act::Patch(change) }
}

/// Brings a chart to a version, and lets it go. A version that the release does not say leaves it as it is.
fn chart(scene: &Scene<'_>, name: &str, version: &str) -> Option<Next> {
    let chart = scene.cluster.harvester.charts.get(FLEET_NAMESPACE, name)?;
    let version = if version.is_empty() { &chart.spec.version } else { version };
    if chart.spec.version != version || chart.spec.paused || !is_raised(scene, chart) {
        let change = json!({
            "metadata": { "annotations": {
                annotations::LAST_UPGRADE_NAME: scene.order.upgrade,
                annotations::LAST_UPGRADE_VERSION: scene.release.harvester,
                annotations::LAST_UPGRADE_TIME: scene.now.to_string(),
            }},
            "spec": { "version": version, "paused": false },
        });
        return Some(Next::Wait { writes: vec![patch(chart, change)], waits: Vec::new() });
    }
    let settled = chart.status.observed_generation == chart.metadata.generation;
    if settled && is_true(&chart.status.conditions, READY) {
        return None;
    }
    let said = chart.status.conditions.iter().find(|one| one.kind == READY && settled).map(|one| one.said());
    let said = said.filter(|said| !said.is_empty()).map(|said| format!(": {said}")).unwrap_or_default();
    let sentence = format!("ManagedChart {FLEET_NAMESPACE}/{name} is not ready at {version}{said}");
    Some(scene.wait(Subject::new(Kind::ManagedChart, FLEET_NAMESPACE, name), Reason::ServiceNotReady, sentence))
}

/// Add-ons follow the charts by themselves; those that are on have to be deployed again.
fn addons(scene: &Scene<'_>) -> Option<Next> {
    let unfinished = scene.cluster.harvester.addons.iter().find(|addon| {
        addon.spec.enabled && matches!(addon.status.status.as_str(), states::ENABLING | states::UPDATING)
    })?;
    let (namespace, name) = (&unfinished.metadata.namespace, &unfinished.metadata.name);
    let sentence = format!("Addon {namespace}/{name} is {}", unfinished.status.status);
    let subject = Subject::new(Kind::Upgrade, NAMESPACE, &scene.order.upgrade);
    Some(scene.wait(subject, Reason::ServiceNotReady, sentence))
}
