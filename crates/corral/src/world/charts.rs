//! Charts that are deployed for others: ManagedCharts of Rancher, the Bundles of Fleet behind them, and the add-ons of Harvester.
//!
//! Models `pkg/controllers/managementuser/managedchart` of Rancher 2.12, the deployment of a Bundle to the local cluster by Fleet
//! 0.13, and the add-on controller of Harvester 1.7, as far as versions and readiness go: what is asked for is there after a
//! while, and what is paused does not move; the agent of Fleet is in [`super::fleet`], where charts come from in
//! [`super::chart_repository`]. Left out: what the charts install, Helm's
//! releases, BundleDeployments, and clusters other than the local one.

use std::collections::BTreeMap;
use std::time::Duration;

use drover_api::fleet::bundle::{self, Bundle};
use drover_api::harvester::FLEET_NAMESPACE;
use drover_api::harvester::addon::{Addon, states};
use drover_api::rancher::cluster_repo::ClusterRepo;
use drover_api::rancher::managed_chart::{DEFINED, Display, ManagedChart, Summary};
use drover_clock::later;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::agenda::{Key, Look};
use super::annotations::{self, CHART_DURATION, DEPLOYED, Lasts};
use super::kubelet::{digest, hex};
use super::look::Wake;
use super::outcome::{Action, Outcome};
use super::{Part, World, chart_repository, loose, pods};
use crate::apiserver::Answer;

const PART: Part = Part::Charts;
/// How long a chart takes to be deployed if nothing else is said.
const DEPLOYING: Duration = Duration::from_secs(10);
const READY: &str = bundle::READY;
const IN_PROGRESS: &str = "InProgress";

/// What the name of the Bundle of a ManagedChart begins with.
pub const BUNDLE_PREFIX: &str = "mcc-";

/// A ManagedChart that is deployed, and its Bundle: where a made-up cluster begins.
pub fn deployed(name: &str, chart: &str, version: &str) -> [Value; 2] {
    let spec = json!({
        "chart": chart, "version": version, "releaseName": name, "repoName": "harvester-charts", "paused": false,
        "defaultNamespace": "harvester-system", "timeoutSeconds": 600,
    });
    let ready = json!([{ "type": READY, "status": "True" }]);
    let summary = json!({ "ready": 1, "desiredReady": 1 });
    let mut managed: ManagedChart = ManagedChart::named(name);
    managed.metadata.namespace = Some(FLEET_NAMESPACE.into());
    managed.spec = serde_json::from_value(spec.clone()).unwrap_or_default();
    let bundle = bundle_spec(&managed);
    [
        json!({
            "apiVersion": "management.cattle.io/v3", "kind": "ManagedChart",
            "metadata": { "name": name, "namespace": FLEET_NAMESPACE }, "spec": spec,
            "status": { "observedGeneration": 1, "unavailable": 0, "summary": summary, "conditions": ready },
        }),
        json!({
            "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Bundle",
            "metadata": { "name": format!("{BUNDLE_PREFIX}{name}"), "namespace": FLEET_NAMESPACE }, "spec": bundle,
            "status": { "observedGeneration": 1, "summary": summary, "conditions": ready },
        }),
    ]
}

fn bundle_spec(chart: &ManagedChart) -> Value {
    let spec = chart.spec.clone().unwrap_or_default();
    let helm = [
        ("chart", json!(spec.chart)),
        ("version", json!(spec.version)),
        ("releaseName", json!(spec.release_name)),
        ("values", json!(spec.values)),
        ("timeoutSeconds", json!(spec.timeout_seconds)),
    ];
    // What is not said is left out, so that what is stored compares equal to it.
    let helm: BTreeMap<&str, Value> = helm.into_iter().filter(|(_, value)| !value.is_null()).collect();
    json!({
        "paused": spec.paused.unwrap_or(false),
        "defaultNamespace": spec.default_namespace.unwrap_or_default(),
        "helm": helm,
    })
}

/// Rancher passes a chart on to Fleet, if it has it, and tells how it is there.
pub fn reconcile_chart(
    chart: &ManagedChart,
    repo: Option<&ClusterRepo>,
    bundle: Option<&Bundle>,
    now: Timestamp,
) -> Outcome {
    let conditions = chart.status.as_ref().and_then(|status| status.conditions.as_ref());
    let undefined = loose::find(conditions, DEFINED).filter(|defined| !defined.is_true());
    let missing = chart_repository::missing(chart, repo);
    if missing.is_some() || undefined.is_some() {
        let (word, reason) = if missing.is_some() { ("False", "Error") } else { ("True", "") };
        let mut after = chart.clone();
        let conditions = &mut after.status.get_or_insert_default().conditions;
        loose::set_as_wrangler(conditions, DEFINED, word, reason, &missing.unwrap_or_default(), now);
        return Outcome::act(Action::change(chart, &after).into_iter().collect());
    }
    let wanted = bundle_spec(chart);
    let Some(known) = bundle else {
        let mut bundle = Bundle::named(&format!("{BUNDLE_PREFIX}{}", pods::name(&chart.metadata)));
        bundle.metadata.namespace = chart.metadata.namespace.clone();
        bundle.rest.insert("spec".into(), wanted);
        return Outcome::act(vec![Action::create(&bundle)]);
    };
    let mut after = known.clone();
    after.rest.insert("spec".into(), wanted);
    if let Some(update) = Action::change(known, &after) {
        return Outcome::act(vec![update]);
    }
    let below = known.status.clone().unwrap_or_default();
    let ready = loose::find(below.conditions.as_ref(), READY).is_some_and(|ready| ready.is_true());
    let is_settled = below.observed_generation == known.metadata.generation;
    let is_paused = chart.spec.as_ref().and_then(|spec| spec.paused).unwrap_or(false);
    if !is_settled && !is_paused {
        return Outcome::nothing();
    }
    let mut after = chart.clone();
    let generation = after.metadata.generation;
    let status = after.status.get_or_insert_default();
    status.observed_generation = generation;
    status.unavailable = Some(i64::from(!ready));
    status.summary = Some(Summary { ready: Some(i64::from(ready)), desired_ready: Some(1), ..Summary::default() });
    let clusters = format!("{}/1", u8::from(ready));
    status.display = Some(Display { ready_clusters: Some(clusters), ..Display::default() });
    let own = loose::find(status.conditions.as_ref(), DEFINED).cloned();
    status.conditions = below.conditions;
    if let Some(own) = own {
        status.conditions.get_or_insert_default().push(own);
    }
    Outcome::act(Action::change(chart, &after).into_iter().collect())
}

/// Fleet deploys what a Bundle asks for, unless it is paused; what its agent does is not done without one.
pub fn reconcile_bundle(bundle: &Bundle, has_agent: bool, now: Timestamp) -> Outcome {
    if bundle.rest.get("spec").is_some_and(|spec| spec["paused"] == true) {
        return Outcome::nothing();
    }
    let mut after = bundle.clone();
    let status = after.status.get_or_insert_default();
    let known = loose::find(status.conditions.as_ref(), READY).cloned();
    if status.observed_generation != bundle.metadata.generation || known.is_none() {
        status.observed_generation = bundle.metadata.generation;
        status.rest.insert("summary".into(), json!({ "ready": 0, "desiredReady": 1, "waitApplied": 1 }));
        let generation = bundle.metadata.generation.unwrap_or(0);
        let why = format!("WaitApplied(1) [Cluster {FLEET_NAMESPACE}/local]; generation {generation}");
        loose::set_as_wrangler(&mut status.conditions, READY, "False", "Error", &why, now);
        return Outcome::act(vec![Action::status(&after)]);
    }
    let Some(waiting) = known.filter(|ready| !ready.is_true() && has_agent) else { return Outcome::nothing() };
    match done_at(bundle.metadata.annotations.as_ref(), waiting.last_update_time.as_ref(), now) {
        None => Outcome::nothing(),
        Some(moment) if now < moment => Outcome::wait_until(moment),
        Some(_) => {
            status.rest.insert("summary".into(), json!({ "ready": 1, "desiredReady": 1 }));
            loose::set_as_wrangler(&mut status.conditions, READY, "True", "", "", now);
            Outcome::act(vec![Action::status(&after)])
        }
    }
}

/// When what has begun then is done; never, if it is told so.
fn done_at(told: Option<&annotations::Annotations>, since: Option<&String>, now: Timestamp) -> Option<Timestamp> {
    let takes = match annotations::lasts_for_all(told, CHART_DURATION) {
        Some(Lasts::Forever) => return None,
        Some(Lasts::For(time)) => time,
        None => DEPLOYING,
    };
    Some(later(loose::moment(since).unwrap_or(now), takes))
}

/// Harvester switches an add-on on and off, and brings it to the version that is asked for.
pub fn reconcile_addon(addon: &Addon, now: Timestamp) -> Outcome {
    let spec = addon.spec.clone().unwrap_or_default();
    let enabled = spec.enabled.unwrap_or(false);
    let status = addon.status.clone().unwrap_or_default();
    let state = status.status.as_deref().unwrap_or_default();
    let version = spec.version.unwrap_or_default();
    let asked = format!("{version} {}", &hex(&digest(&[&spec.values_content.unwrap_or_default()]))[..8]);
    let told = addon.metadata.annotations.as_ref();
    let has = told.and_then(|told| told.get(DEPLOYED));
    let next = match (enabled, state) {
        (true, "" | states::DISABLED | states::DISABLING) => Some(states::ENABLING),
        // One that was deployed before anybody looked is taken as it is.
        (true, states::DEPLOYED) if has.is_some_and(|has| *has != asked) => Some(states::UPDATING),
        (false, states::DEPLOYED | states::ENABLING | states::UPDATING) => Some(states::DISABLING),
        _ => None,
    };
    if let Some(next) = next {
        return Outcome::act(vec![turn(addon, next, true, now)]);
    }
    let under_way = matches!(state, states::ENABLING | states::UPDATING | states::DISABLING);
    if !under_way {
        let untold = enabled && state == states::DEPLOYED && has.is_none();
        return if untold { Outcome::act(vec![remember(addon, &asked)]) } else { Outcome::nothing() };
    }
    let since = loose::find(status.conditions.as_ref(), IN_PROGRESS).and_then(|one| one.last_update_time.as_ref());
    match done_at(told, since, now) {
        None => Outcome::nothing(),
        Some(moment) if now < moment => Outcome::wait_until(moment),
        Some(_) if state == states::DISABLING => Outcome::act(vec![turn(addon, states::DISABLED, false, now)]),
        Some(_) if has != Some(&asked) => Outcome::act(vec![remember(addon, &asked)]),
        Some(_) => Outcome::act(vec![turn(addon, states::DEPLOYED, false, now)]),
    }
}

fn remember(addon: &Addon, asked: &str) -> Action {
    let mut after = addon.clone();
    after.metadata.annotations.get_or_insert_default().insert(DEPLOYED.into(), asked.into());
    Action::update(&after)
}

fn turn(addon: &Addon, state: &str, under_way: bool, now: Timestamp) -> Action {
    let mut after = addon.clone();
    let status = after.status.get_or_insert_default();
    status.status = Some(state.into());
    let word = if under_way { "True" } else { "False" };
    loose::set_as_wrangler(&mut status.conditions, IN_PROGRESS, word, "", state, now);
    Action::status(&after)
}

impl World {
    pub(super) fn notice_chart(&mut self, plural: &str, key: &Key) {
        if !self.has(PART) {
            return;
        }
        match plural {
            "managedcharts" => self.soon(Look::Chart(key.clone())),
            "bundles" => {
                self.soon(Look::Bundle(key.clone()));
                if let Some(chart) = key.1.strip_prefix(BUNDLE_PREFIX) {
                    self.soon(Look::Chart((key.0.clone(), chart.into())));
                }
            }
            "addons" => self.soon(Look::Addon(key.clone())),
            _ => {}
        }
    }

    pub(super) fn look_at_chart(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(chart) = self.read_for::<ManagedChart>(PART, &key.0, &key.1)? else { return Ok(None) };
        let bundle = self.read_for::<Bundle>(PART, &key.0, &format!("{BUNDLE_PREFIX}{}", key.1))?;
        let from = chart.spec.as_ref().and_then(|spec| spec.repo_name.clone()).unwrap_or_default();
        let repo = self.read_for::<ClusterRepo>(PART, "", &from)?;
        self.perform(PART, &reconcile_chart(&chart, repo.as_ref(), bundle.as_ref(), now), now)
    }

    pub(super) fn look_at_bundle(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(bundle) = self.read_for::<Bundle>(PART, &key.0, &key.1)? else { return Ok(None) };
        self.perform(PART, &reconcile_bundle(&bundle, self.has_fleet_agent()?, now), now)
    }

    pub(super) fn look_at_addon(&self, key: &Key, now: Timestamp) -> Answer<Wake> {
        let Some(addon) = self.read_for::<Addon>(PART, &key.0, &key.1)? else { return Ok(None) };
        self.perform(PART, &reconcile_addon(&addon, now), now)
    }
}

#[cfg(test)]
mod tests {
    use super::super::WorldOptions;
    use super::super::tests::Cluster;
    use super::*;

    fn with_chart() -> Cluster {
        let cluster = Cluster::new(WorldOptions::default().with([Part::Charts]));
        cluster.define_harvester();
        cluster.load(deployed("harvester", "harvester", "1.7.0").into());
        cluster
    }

    fn is_ready(cluster: &Cluster) -> bool {
        let chart: ManagedChart = cluster.get(FLEET_NAMESPACE, "harvester").unwrap();
        let status = chart.status.unwrap();
        status.observed_generation == chart.metadata.generation
            && loose::find(status.conditions.as_ref(), READY).unwrap().is_true()
    }

    fn change(cluster: &Cluster, edit: impl Fn(&mut drover_api::rancher::managed_chart::ManagedChartSpec)) {
        let mut chart: ManagedChart = cluster.get(FLEET_NAMESPACE, "harvester").unwrap();
        edit(chart.spec.get_or_insert_default());
        cluster.direct.update(&chart).unwrap();
    }

    fn version(cluster: &Cluster) -> Value {
        let bundle: Bundle = cluster.get(FLEET_NAMESPACE, "mcc-harvester").unwrap();
        bundle.rest["spec"]["helm"]["version"].clone()
    }

    #[tokio::test(start_paused = true)]
    async fn a_chart_reaches_its_version_after_a_while() {
        let cluster = with_chart();
        cluster.passes(60).await;
        assert!(is_ready(&cluster));
        change(&cluster, |spec| spec.version = Some("1.8.0".into()));
        cluster.passes(5).await;
        assert!(!is_ready(&cluster));
        cluster.passes(20).await;
        assert!(is_ready(&cluster));
        assert_eq!(version(&cluster), "1.8.0");
    }

    #[tokio::test(start_paused = true)]
    async fn a_chart_that_is_paused_does_not_move() {
        let cluster = with_chart();
        change(&cluster, |spec| spec.paused = Some(true));
        cluster.passes(5).await;
        change(&cluster, |spec| spec.version = Some("1.8.0".into()));
        cluster.passes(600).await;
        let bundle: Bundle = cluster.get(FLEET_NAMESPACE, "mcc-harvester").unwrap();
        assert_ne!(bundle.status.unwrap().observed_generation, bundle.metadata.generation);

        change(&cluster, |spec| spec.paused = Some(false));
        cluster.passes(5).await;
        assert!(!is_ready(&cluster));
        cluster.until("it is deployed", is_ready).await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_addon_is_enabled_updated_and_disabled() {
        let cluster = Cluster::new(WorldOptions::default().with([Part::Charts]));
        cluster.define_harvester();
        cluster.create::<Addon>(json!({
            "apiVersion": "harvesterhci.io/v1beta1", "kind": "Addon",
            "metadata": {"name": "descheduler", "namespace": "default"},
            "spec": {"chart": "descheduler", "version": "0.33.0", "enabled": true},
        }));
        let state = |cluster: &Cluster| {
            cluster
                .get::<Addon>("default", "descheduler")
                .unwrap()
                .status
                .and_then(|status| status.status)
                .unwrap_or_default()
        };
        let change = |edit: &dyn Fn(&mut drover_api::harvester::addon::AddonSpec)| {
            let mut addon: Addon = cluster.get("default", "descheduler").unwrap();
            edit(addon.spec.get_or_insert_default());
            cluster.direct.update(&addon).unwrap();
        };
        cluster.passes(5).await;
        assert_eq!(state(&cluster), "AddonEnabling");
        cluster.passes(10).await;
        assert_eq!(state(&cluster), "AddonDeploySuccessful");
        change(&|spec| spec.version = Some("0.34.0".into()));
        cluster.passes(5).await;
        assert_eq!(state(&cluster), "AddonUpdating");
        cluster.passes(10).await;
        assert_eq!(state(&cluster), "AddonDeploySuccessful");
        change(&|spec| spec.enabled = Some(false));
        cluster.passes(5).await;
        assert_eq!(state(&cluster), "AddonDisabling");
        cluster.passes(10).await;
        assert_eq!(state(&cluster), "AddonDisabled");
    }
}
