//! The system services, component by component. Each finds out by itself whether it is done, so that whoever begins anew
//! goes on where the last one stopped; how far each is stands in a ConfigMap.

use std::collections::{BTreeMap, BTreeSet};

use drover_api::harvester::{FLEET_NAMESPACE, NAMESPACE};
use drover_api::rancher::managed_chart::{DEFINED, READY, annotations, names as charts};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::super::cleanup::HELD_CHARTS;
use super::super::names;
use super::{Next, Scene, addons, brought, chart_repository, fleet, products, rancher};
use crate::cluster::harvester::ManagedChart;
use crate::cluster::{condition, is_true};
use crate::decision::{Act, Kind, Purpose, Reason, Subject, Wait, Write};

/// How far a component is.
pub(super) enum Standing {
    /// It is as the release asks.
    Done,
    /// It is so everywhere but on these nodes, which take no part in the upgrade.
    Without(BTreeSet<String>),
    Unfinished(Next),
    /// It is waited for, but not for longer than this.
    Limited(Wait, SignedDuration),
}

/// A component, by its name in the book.
pub(super) type Component<'a> = (String, Box<dyn Fn(&Scene<'_>) -> Standing + 'a>);

const DONE: &str = "done";
const WAITS: &str = "waits";
const UNDER_WAY: &str = "under way";
/// And a moment: the component is left as it is then.
const UNTIL: &str = "under way until ";
/// And what it was waited for: it is left to its user.
const LEFT: &str = "left: ";

/// In this order: what comes later needs what comes earlier.
fn components<'a>(scene: &Scene<'_>) -> Vec<Component<'a>> {
    let named =
        |name: &str, standing: fn(&Scene<'_>) -> Standing| -> Component<'a> { (name.to_owned(), Box::new(standing)) };
    let mut all = vec![
        named("hold-charts", |scene| hold_charts(scene).into()),
        named("hold-kubevirt", |scene| products::hold_kubevirt(scene).into()),
        named("rancher", |scene| rancher::raise(scene).into()),
        named("fleet-agent", fleet::agent),
        named("chart-repository", |scene| chart_repository::raise(scene).into()),
        named("harvester-crd", |scene| chart(scene, charts::HARVESTER_CRD, &scene.release.harvester_chart).into()),
        named("harvester", |scene| chart(scene, charts::HARVESTER, &scene.release.harvester_chart).into()),
        named("kubevirt", |scene| products::kubevirt(scene).into()),
        named("longhorn", products::longhorn),
        named("rancher-monitoring-crd", |scene| {
            chart(scene, charts::MONITORING_CRD, &scene.release.monitoring_chart).into()
        }),
        named("rancher-logging-crd", |scene| chart(scene, charts::LOGGING_CRD, &scene.release.logging_chart).into()),
    ];
    all.extend(brought::components(scene));
    all.extend(addons::components(scene));
    all.push(named("addons", addons::others));
    all.push(named("bundles", fleet::bundles));
    all
}

impl From<Option<Next>> for Standing {
    fn from(unfinished: Option<Next>) -> Self {
        unfinished.map_or(Standing::Done, Standing::Unfinished)
    }
}

pub(super) fn apply(scene: &Scene<'_>) -> Next {
    let mut states = BTreeMap::new();
    let mut next = Next::Done;
    for (name, component) in components(scene) {
        if next != Next::Done {
            states.insert(name, WAITS.to_owned());
            continue;
        }
        let state = match component(scene) {
            Standing::Done => DONE.to_owned(),
            Standing::Without(nodes) if nodes.is_empty() => DONE.to_owned(),
            Standing::Without(nodes) => {
                format!("{DONE} without {}", nodes.into_iter().collect::<Vec<String>>().join(", "))
            }
            Standing::Unfinished(unfinished) => {
                next = unfinished;
                UNDER_WAY.to_owned()
            }
            Standing::Limited(mut wait, limit) => {
                let deadline = deadline(scene, &name, limit);
                if scene.now >= deadline {
                    format!("{LEFT}{}", wait.sentence)
                } else {
                    wait.deadline = Some(deadline);
                    next = Next::Wait { writes: Vec::new(), waits: vec![wait] };
                    format!("{UNTIL}{deadline}")
                }
            }
        };
        states.insert(name, state);
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

/// What is told of a component.
fn told<'a>(scene: &Scene<'a>, component: &str) -> Option<&'a String> {
    let book = scene.cluster.harvester.config_maps.get(NAMESPACE, &names::apply_manifests(&scene.order.upgrade));
    book.and_then(|book| book.data.get(component))
}

/// The book remembers it for whoever begins anew. What is left once is not waited for again.
fn deadline(scene: &Scene<'_>, component: &str, limit: SignedDuration) -> Timestamp {
    let known = told(scene, component).map(String::as_str).unwrap_or_default();
    if known.starts_with(LEFT) {
        return scene.now;
    }
    let noted: Option<Timestamp> = known.strip_prefix(UNTIL).and_then(|moment| moment.parse().ok());
    // One that is further off says only that a clock was set back.
    let latest = scene.now.checked_add(limit).unwrap_or(Timestamp::MAX);
    noted.map_or(latest, |noted| noted.min(latest))
}

/// How far each component is, where people can see it.
fn tell(scene: &Scene<'_>, states: &BTreeMap<String, String>) -> Option<Write> {
    let name = names::apply_manifests(&scene.order.upgrade);
    let is_told = states.iter().all(|(component, state)| told(scene, component) == Some(state));
    (!is_told).then(|| scene.keep(&name, json!(states)))
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
    // A chart that Rancher does not find says nothing of the version that is asked for, but there; until it has looked it is about the old one.
    let missing = condition(&chart.status.conditions, DEFINED)
        .filter(|defined| defined.status == "False" && defined.said().contains(version));
    let ready = condition(&chart.status.conditions, READY).filter(|_| settled);
    let said = missing.or(ready).map(|one| one.said());
    let said = said.filter(|said| !said.is_empty()).map(|said| format!(": {said}")).unwrap_or_default();
    let sentence = format!("ManagedChart {FLEET_NAMESPACE}/{name} is not ready at {version}{said}");
    Some(scene.wait(Subject::new(Kind::ManagedChart, FLEET_NAMESPACE, name), Reason::ServiceNotReady, sentence))
}
