//! `upgrade_manifests.sh`: what a stock release does to the system services, in its order.
//!
//! It asks and waits for all that it does once more whenever it begins, but for its own Plan, which it cannot create twice. Left out: what
//! it does for releases before the one that runs, Rancher itself, which runs in the version of the release, the add-ons but monitoring and
//! logging, and all that nothing of the world knows: settings, definitions, classes, the repository of charts.

use std::collections::BTreeMap;
use std::time::Duration;

use drover_api::fleet::bundle::{self, Bundle};
use drover_api::harvester::addon::{Addon, names as addons, states as of_addons};
use drover_api::harvester::jobs::names as suffixes;
use drover_api::harvester::upgrade::Upgrade;
use drover_api::harvester::upgrade::annotations::WORKLOAD_UPDATE_METHODS;
use drover_api::harvester::{CATTLE_NAMESPACE, FLEET_NAMESPACE, NAMESPACE};
use drover_api::kubevirt::kube_virt::{DEPLOYED, KubeVirt, NAME as KUBEVIRT};
use drover_api::longhorn::instance_manager::{InstanceManager, RUNNING};
use drover_api::longhorn::node::Node as LonghornNode;
use drover_api::plan::Plan;
use drover_api::plan::labels::plan_hash;
use drover_api::rancher::managed_chart::{ManagedChart, READY, annotations, names as charts};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{Broken, OFTEN, SELDOM, Script, text};

const PAUSED: [&str; 4] = [charts::HARVESTER, charts::HARVESTER_CRD, charts::MONITORING_CRD, charts::LOGGING_CRD];
/// An add-on, or a Bundle, that does not get on is left.
const TRIES_OF_ADDON: usize = 60;
const TRIES_OF_BUNDLES: usize = 9;
/// A new one every time, so that a chart that is asked for anew is deployed anew.
const LONGEST_TIMEOUT: i64 = 800;
const USUAL_TIMEOUT: i64 = 600;

impl Script<'_> {
    pub(super) async fn services(&self) -> Result<(), Broken> {
        let release = self.release().await?;
        // Another chart of RKE2 is told something, and given the time to hear it.
        self.clock.sleep(SELDOM).await;
        for chart in PAUSED {
            self.pause(chart);
        }
        self.keep_agents_from_restarting().await?;
        self.hold_kubevirt().await?;
        let version = text(&release["harvesterChart"]);
        self.raise_chart(charts::HARVESTER_CRD, &version, &release).await;
        self.raise_chart(charts::HARVESTER, &version, &release).await;
        self.until(OFTEN, || self.kubevirt_is(&text(&release["kubevirt"]))).await;
        self.until(OFTEN, || self.instance_managers_are_single()).await;
        self.raise_chart(charts::MONITORING_CRD, &text(&release["monitoringChart"]), &release).await;
        self.raise_chart(charts::LOGGING_CRD, &text(&release["loggingChart"]), &release).await;
        for (namespace, name, version) in [
            (addons::MONITORING_NAMESPACE, addons::MONITORING, &release["monitoringChart"]),
            (addons::LOGGING_NAMESPACE, addons::LOGGING, &release["loggingChart"]),
        ] {
            self.raise_addon(namespace, name, &text(version)).await;
        }
        self.clock.sleep(SELDOM).await;
        self.for_a_while(SELDOM, TRIES_OF_BUNDLES, || self.all::<Bundle>().iter().all(is_deployed)).await;
        Ok(())
    }

    /// By a Plan that runs on managed nodes, and is waited for on all.
    async fn keep_agents_from_restarting(&self) -> Result<(), Broken> {
        let name = format!("{}-{}", self.order.upgrade, suffixes::SKIP_RESTART_AGENT);
        // Random in the original: what nodes carry of an earlier one counts for nothing.
        let version = format!("{:x}", self.clock.now().as_second());
        let plan = json!({
            "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan",
            "metadata": { "name": name, "namespace": CATTLE_NAMESPACE },
            "spec": {
                "concurrency": 10, "version": version, "serviceAccountName": "system-upgrade-controller",
                "nodeSelector": { "matchLabels": { "harvesterhci.io/managed": "true" } },
                "tolerations": [{ "operator": "Exists" }],
                "upgrade": {
                    "image": "registry.suse.com/bci/bci-base:16.0", "command": ["sh", "-c"],
                    "args": ["mkdir -p /host/run/systemd/system/rancher-system-agent.service.d"],
                },
            },
        });
        let plan: Plan = serde_json::from_value(plan).map_err(|_| Broken)?;
        self.direct.create(&plan).map_err(|_| Broken)?;
        self.until(SELDOM, || self.has_run_everywhere(&name, &version)).await;
        // One that somebody has deleted meanwhile breaks it off as well.
        self.direct.delete::<Plan>(Some(CATTLE_NAMESPACE), &name, None).map_err(|_| Broken)
    }

    fn has_run_everywhere(&self, name: &str, version: &str) -> bool {
        let plan = self.direct.get::<Plan>(Some(CATTLE_NAMESPACE), name).ok().flatten();
        let Some(status) = plan.and_then(|plan| plan.status).filter(|status| status.latest_version == version) else {
            return false;
        };
        let (label, nodes) = (plan_hash(name), self.all::<Node>());
        nodes.iter().all(|node| node.labels().get(&label) == Some(&status.latest_hash))
    }

    /// What was asked for before is noted on the Upgrade, once.
    async fn hold_kubevirt(&self) -> Result<(), Broken> {
        let Some(chart) = self.chart(charts::HARVESTER) else { return Ok(()) };
        let methods = "/kubevirt/spec/workloadUpdateStrategy/workloadUpdateMethods";
        let values = chart.spec.and_then(|spec| spec.values).unwrap_or_default();
        let before = values.pointer(methods).cloned().unwrap_or_default();
        let upgrade = self.direct.get::<Upgrade>(Some(NAMESPACE), &self.order.upgrade).ok().flatten().ok_or(Broken)?;
        if !upgrade.annotations().contains_key(WORKLOAD_UPDATE_METHODS) {
            self.annotate(&upgrade, WORKLOAD_UPDATE_METHODS, &before.to_string()).await?;
        }
        self.change_chart(charts::HARVESTER, |chart| {
            let spec = chart.spec.get_or_insert_default();
            let values = spec.values.get_or_insert_default();
            values["kubevirt"]["spec"]["workloadUpdateStrategy"]["workloadUpdateMethods"] = json!([]);
            spec.paused = Some(false);
        });
        self.until(OFTEN, || self.chart_is_ready(charts::HARVESTER)).await;
        self.pause(charts::HARVESTER);
        Ok(())
    }

    async fn annotate(&self, upgrade: &Upgrade, key: &str, value: &str) -> Result<(), Broken> {
        let api: kube::Api<Upgrade> = kube::Api::namespaced(self.client.clone(), NAMESPACE);
        let patch = kube::api::Patch::Merge(json!({ "metadata": { "annotations": { key: value } } }));
        let by = kube::api::PatchParams { field_manager: Some("kubectl-annotate".to_owned()), ..Default::default() };
        let name = upgrade.name_any();
        let patched = api.patch_metadata(&name, &by, &patch);
        let limit = self.clock.on_the_wall(super::ANSWERS_WITHIN);
        match tokio::time::timeout(limit, patched).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(Broken),
        }
    }

    fn chart(&self, name: &str) -> Option<ManagedChart> {
        self.direct.get::<ManagedChart>(Some(FLEET_NAMESPACE), name).ok().flatten()
    }

    fn change_chart(&self, name: &str, change: impl Fn(&mut ManagedChart)) {
        self.change::<ManagedChart>(Some(FLEET_NAMESPACE), name, change);
    }

    fn pause(&self, chart: &str) {
        self.change_chart(chart, |chart| chart.spec.get_or_insert_default().paused = Some(true));
    }

    async fn raise_chart(&self, name: &str, version: &str, release: &Value) {
        if self.chart(name).is_none() {
            return;
        }
        let notes = BTreeMap::from([
            (annotations::LAST_UPGRADE_NAME.to_owned(), self.order.upgrade.clone()),
            (annotations::LAST_UPGRADE_VERSION.to_owned(), text(&release["harvester"])),
            (annotations::LAST_UPGRADE_TIME.to_owned(), self.clock.now().to_string()),
        ]);
        self.change_chart(name, |chart| {
            chart.annotations_mut().extend(notes.clone());
            let spec = chart.spec.get_or_insert_default();
            let timeout = spec.timeout_seconds.unwrap_or(USUAL_TIMEOUT);
            spec.timeout_seconds = Some(if timeout > LONGEST_TIMEOUT { USUAL_TIMEOUT } else { timeout + 1 });
            (spec.version, spec.paused) = (Some(version.to_owned()), Some(false));
        });
        self.until(OFTEN, || self.chart_is_ready(name)).await;
    }

    fn chart_is_ready(&self, name: &str) -> bool {
        self.chart(name).is_none_or(|chart| {
            let status = chart.status.unwrap_or_default();
            let mut conditions = status.conditions.iter().flatten();
            status.observed_generation == chart.metadata.generation
                && conditions.any(|one| one.type_ == READY && one.is_true())
        })
    }

    fn kubevirt_is(&self, version: &str) -> bool {
        let installed = self.direct.get::<KubeVirt>(Some(NAMESPACE), KUBEVIRT).ok().flatten();
        let status = installed.and_then(|installed| installed.status).unwrap_or_default();
        status.observed_version.as_deref() == Some(version) && status.phase.as_deref() == Some(DEPLOYED)
    }

    /// Of each node that keeps volumes.
    fn instance_managers_are_single(&self) -> bool {
        let managers = self.all::<InstanceManager>();
        let running = |node: &str| {
            let here = managers.iter().filter(|one| {
                let state = one.status.as_ref().and_then(|status| status.current_state.as_deref());
                state == Some(RUNNING) && one.spec.as_ref().and_then(|spec| spec.node_id.as_deref()) == Some(node)
            });
            here.count()
        };
        self.all::<LonghornNode>().iter().all(|node| running(&node.name_any()) == 1)
    }

    async fn raise_addon(&self, namespace: &str, name: &str, version: &str) {
        let addon = || self.direct.get::<Addon>(Some(namespace), name).ok().flatten();
        if addon().is_none() {
            return;
        }
        self.change::<Addon>(Some(namespace), name, |addon| {
            addon.spec.get_or_insert_default().version = Some(version.to_owned());
        });
        let is_deployed = || {
            addon().is_none_or(|addon| {
                let is_on = addon.spec.and_then(|spec| spec.enabled).unwrap_or(false);
                let state = addon.status.and_then(|status| status.status).unwrap_or_default();
                !is_on || state == of_addons::DEPLOYED
            })
        };
        self.for_a_while(OFTEN, TRIES_OF_ADDON, is_deployed).await;
    }

    async fn for_a_while(&self, between: Duration, tries: usize, met: impl Fn() -> bool) {
        for _ in 0..tries {
            if met() {
                return;
            }
            self.clock.sleep(between).await;
        }
    }
}

fn is_deployed(bundle: &Bundle) -> bool {
    let mut conditions = bundle.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|one| one.type_ == bundle::READY && one.is_true())
}
