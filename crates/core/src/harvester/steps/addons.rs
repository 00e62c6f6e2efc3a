//! Add-ons: each that the release names is brought to its version, and waited for if it is on.
//!
//! As under Harvester one that does not get on holds up nobody for ever: what is left of it is told.

use std::collections::BTreeMap;

use drover_api::harvester::addon::{conditions, names, states};
use drover_api::marks::ADDON_BEFORE;
use drover_api::rancher::managed_chart::annotations;
use jiff::SignedDuration;
use serde_json::json;

use super::manifests::{Component, Standing};
use super::{Next, Scene};
use crate::cluster::harvester::Addon;
use crate::decision::{Act, Kind, Purpose, Reason, Subject, Wait, Write};

/// How long one is waited for.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

/// The versions of those that the release names, by `NAMESPACE/NAME`. Monitoring and logging go with their charts.
fn named(scene: &Scene<'_>) -> BTreeMap<String, String> {
    let release = &scene.release;
    let mut all = release.addons.clone();
    for (namespace, name, version) in [
        (names::MONITORING_NAMESPACE, names::MONITORING, &release.monitoring_chart),
        (names::LOGGING_NAMESPACE, names::LOGGING, &release.logging_chart),
    ] {
        if !version.is_empty() {
            all.entry(format!("{namespace}/{name}")).or_insert_with(|| version.clone());
        }
    }
    all
}

/// Each for itself.
pub(super) fn components<'a>(scene: &Scene<'_>) -> Vec<Component<'a>> {
    let of = |(key, version): (String, String)| -> Component<'a> {
        let name = format!("addon.{}", key.replace('/', "."));
        (name, Box::new(move |scene: &Scene<'_>| raise(scene, &key, &version)))
    };
    named(scene).into_iter().map(of).collect()
}

/// One that is not there was never installed.
fn raise(scene: &Scene<'_>, key: &str, version: &str) -> Standing {
    let (namespace, name) = key.split_once('/').unwrap_or_default();
    let Some(addon) = scene.cluster.harvester.addons.get(namespace, name) else { return Standing::Done };
    if addon.spec.version != version {
        return Standing::Unfinished(ask(scene, addon, version));
    }
    if !addon.spec.enabled || is_settled(scene, addon) {
        return Standing::Done;
    }
    Standing::Limited(wait(scene, addon, &format!("Addon {namespace}/{name} is not deployed at {version}")), PATIENCE)
}

/// Those that nobody has named may follow the charts by themselves.
pub(super) fn others(scene: &Scene<'_>) -> Standing {
    let named = named(scene);
    let is_under_way = |addon: &&Addon| {
        let is_named = named.contains_key(&format!("{}/{}", addon.metadata.namespace, addon.metadata.name));
        !is_named && addon.spec.enabled && matches!(addon.status.status.as_str(), states::ENABLING | states::UPDATING)
    };
    let Some(addon) = scene.cluster.harvester.addons.iter().find(is_under_way) else { return Standing::Done };
    let sentence = format!("Addon {}/{} is not deployed", addon.metadata.namespace, addon.metadata.name);
    Standing::Limited(wait(scene, addon, &sentence), PATIENCE)
}

/// When Harvester was last at work on it, in its own words.
fn last_work(addon: &Addon) -> &str {
    addon.condition(conditions::IN_PROGRESS).map(|one| one.last_update_time.as_str()).unwrap_or_default()
}

fn ask(scene: &Scene<'_>, addon: &Addon, version: &str) -> Next {
    let change = json!({
        "metadata": {
            "resourceVersion": addon.metadata.resource_version.to_string(),
            "annotations": {
                annotations::LAST_UPGRADE_NAME: scene.order.upgrade,
                annotations::LAST_UPGRADE_VERSION: scene.release.harvester,
                annotations::LAST_UPGRADE_TIME: scene.now.to_string(),
                ADDON_BEFORE: last_work(addon),
            },
        },
        "spec": { "version": version },
    });
    let write = Write { purpose: Purpose::Step, subject: subject(addon), act: Act::Patch(change) };
    Next::Wait { writes: vec![write], waits: Vec::new() }
}

fn subject(addon: &Addon) -> Subject {
    Subject::new(Kind::Addon, &addon.metadata.namespace, &addon.metadata.name)
}

/// Harvester has noticed what this Upgrade asks for, and is done with it.
fn is_settled(scene: &Scene<'_>, addon: &Addon) -> bool {
    let told = |key: &str| addon.metadata.annotations.get(key).map(String::as_str);
    let is_asked = told(annotations::LAST_UPGRADE_NAME) == Some(scene.order.upgrade.as_str());
    let is_unnoticed = is_asked && told(ADDON_BEFORE) == Some(last_work(addon));
    let is_at_work = addon.condition(conditions::IN_PROGRESS).is_some_and(|one| one.status == "True");
    addon.status.status == states::DEPLOYED && !is_at_work && !is_unnoticed
}

/// With what Harvester says of it.
fn wait(scene: &Scene<'_>, addon: &Addon, sentence: &str) -> Wait {
    let failed = addon.condition(conditions::FAILED).filter(|one| one.status == "True");
    let said = match (failed, addon.status.status.as_str()) {
        (Some(failed), _) => format!(": {}", failed.message),
        (None, states::DEPLOYED | "") => ": Harvester has not taken it up yet".to_owned(),
        (None, state) => format!(": it is {state}"),
    };
    let (namespace, name) = (&addon.metadata.namespace, &addon.metadata.name);
    let remedy = match failed {
        Some(_) => format!("switch it off and on again: kubectl -n {namespace} edit addons.harvesterhci.io {name}"),
        None => format!("kubectl -n {namespace} describe addons.harvesterhci.io {name}"),
    };
    let wait = Wait::new(subject(addon), Reason::ServiceNotReady, format!("{sentence}{said}"), scene.now);
    wait.with_remedy(remedy)
}
