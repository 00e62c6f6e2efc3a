//! What Rancher and Fleet have installed, and whether it is as it should be.

use drover_api::harvester::FLEET_NAMESPACE;
use drover_api::harvester::addon::states;

use super::intent::is_upgrading;
use super::{Check, Finding, Intent, Scope, Severity, path};
use crate::cluster::harvester::{Addon, Bundle, ManagedChart};
use crate::cluster::{Cluster, Condition, condition};

pub const CHECKS: &[Check] = &[
    Check {
        code: "DRV-CHART-001",
        severity: Severity::Blocks,
        scope: Scope::Harvester,
        title: "A managed chart is not ready",
        consequence: "the upgrade raises the charts and waits for them: one that is not ready before is not ready after, and \"Upgrading System Service\" never ends.",
        remedy: "find out what Fleet says of it",
        reads: &["ManagedChart"],
        look: chart_not_ready,
    },
    Check {
        code: "DRV-CHART-002",
        severity: Severity::Blocks,
        scope: Scope::Harvester,
        title: "A managed chart is paused, and no upgrade is under way",
        consequence: "an earlier upgrade left it behind: Fleet does not apply the new chart, and the upgrade waits for it without end.",
        remedy: "un-pause the chart",
        reads: &["ManagedChart", "Upgrade"],
        look: chart_paused,
    },
    Check {
        code: "DRV-CHART-003",
        severity: Severity::Blocks,
        scope: Scope::Harvester,
        title: "A bundle of Fleet is not ready",
        consequence: "what Fleet cannot apply now it does not apply during the upgrade, either.",
        remedy: "find out what Fleet says of it; a bundle that is Modified is applied again with forceSyncGeneration",
        reads: &["Bundle"],
        look: bundle_not_ready,
    },
    Check {
        code: "DRV-CHART-004",
        severity: Severity::Blocks,
        scope: Scope::Harvester,
        title: "An add-on is between two states",
        consequence: "the upgrade refuses to begin, or finds the add-on half installed.",
        remedy: "wait for it, or switch it off and on again",
        reads: &["Addon"],
        look: addon_in_between,
    },
    Check {
        code: "DRV-CHART-005",
        severity: Severity::Risks,
        scope: Scope::Everything,
        title: "A Helm release was left in the middle of a change",
        consequence: "Helm refuses to upgrade it: \"another operation (install/upgrade/rollback) is in progress\".",
        remedy: "roll the release back",
        reads: &["Secret"],
        look: pending_release,
    },
];

/// Why something is not ready, in its own words.
fn unready(conditions: &[Condition]) -> Option<String> {
    match condition(conditions, "Ready") {
        Some(ready) if ready.is_true() => None,
        Some(ready) if ready.message.is_empty() => Some(String::new()),
        Some(ready) => Some(format!(": {}", ready.message)),
        None => Some(String::new()),
    }
}

fn charts(cluster: &Cluster) -> impl Iterator<Item = &ManagedChart> {
    cluster.harvester.charts.in_namespace(FLEET_NAMESPACE)
}

fn chart_not_ready(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let finding = |chart: &ManagedChart| {
        let why = unready(&chart.status.conditions)?;
        let name = &chart.metadata.name;
        let sentence = format!("managed chart {name} is not ready, please wait for it to be ready or fix it{why}");
        let remedy = format!("kubectl -n {FLEET_NAMESPACE} describe bundle mcc-{name}");
        Some(Finding::new(sentence).on(chart).remedy(remedy))
    };
    charts(cluster).filter_map(finding).collect()
}

fn chart_paused(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    if is_upgrading(cluster, intent) {
        return Vec::new();
    }
    let finding = |chart: &ManagedChart| {
        let name = &chart.metadata.name;
        Finding::new(format!("managed chart {name} is paused, and no upgrade is under way")).on(chart).remedy(format!(
            "kubectl -n {FLEET_NAMESPACE} patch managedcharts.management.cattle.io {name} --type merge -p '{{\"spec\":{{\"paused\":false}}}}'"
        ))
    };
    charts(cluster).filter(|chart| chart.spec.paused).map(finding).collect()
}

fn bundle_not_ready(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let finding = |bundle: &Bundle| {
        let why = unready(&bundle.status.conditions)?;
        let state = match bundle.status.display.state.as_str() {
            "" => String::new(),
            state => format!(" ({state})"),
        };
        let sentence = format!("bundle {} is not ready{state}{why}", path(bundle));
        let remedy = format!("kubectl -n {} describe bundle {}", bundle.metadata.namespace, bundle.metadata.name);
        Some(Finding::new(sentence).on(bundle).remedy(remedy))
    };
    cluster.harvester.bundles.iter().filter_map(finding).collect()
}

fn addon_in_between(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let finding = |addon: &Addon| {
        let status = addon.status.status.as_str();
        let sentence = match (addon.spec.enabled, status) {
            (true, states::DEPLOYED) | (false, states::DISABLED | "") => return None,
            (true, _) => format!(
                "addon {} is enabled but still on status {status}, please wait for it to be ready or fix it",
                path(addon)
            ),
            (false, _) => format!(
                "addon {} is disabled but still on status {status}, please wait for it to be ready or fix it",
                path(addon)
            ),
        };
        let remedy =
            format!("kubectl -n {} describe addons.harvesterhci.io {}", addon.metadata.namespace, addon.metadata.name);
        Some(Finding::new(sentence).on(addon).remedy(remedy))
    };
    cluster.harvester.addons.iter().filter_map(finding).collect()
}

fn pending_release(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let label =
        |secret: &crate::cluster::Secret, key: &str| secret.metadata.labels.get(key).cloned().unwrap_or_default();
    let releases = cluster.secrets.iter().filter(|secret| label(secret, "owner") == "helm");
    let finding = |secret: &crate::cluster::Secret| {
        let status = label(secret, "status");
        status.starts_with("pending-").then(|| {
            let (namespace, name) = (&secret.metadata.namespace, label(secret, "name"));
            Finding::new(format!("Helm release {namespace}/{name} is {status}"))
                .on(secret)
                .remedy(format!("helm -n {namespace} rollback {name}"))
        })
    };
    releases.filter_map(finding).collect()
}
