//! The kinds that Upgrades and their steps rest on, where they are, and with which label.

use std::collections::BTreeSet;

use drover_api::daemon_set::POD_TEMPLATE_GENERATION;
use drover_api::harvester::addon::names::DESCHEDULER_NAMESPACE;
use drover_api::harvester::jobs::UPGRADE;
use drover_api::harvester::{CATTLE_NAMESPACE, FLEET_NAMESPACE, NAMESPACE};
use drover_api::helm::helm_chart;
use drover_api::longhorn::NAMESPACE as STORAGE;
use drover_api::rancher::machine_plan::labels::MACHINE_NAME;

use super::names;
use super::progress::{Progress, Step};
use super::release::Steps;
use super::steps::Kind;
use crate::cluster::Cluster;

/// Objects of one kind that are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Followed {
    /// As [`crate::cluster::Resource::kind`] names it.
    pub kind: &'static str,
    /// Empty: in all of them.
    pub namespace: &'static str,
    /// Only those that carry it, or that it selects; empty: all.
    pub label: &'static str,
    /// They are read at the beginning, and what becomes of them does not matter.
    pub once: bool,
}

const fn all(kind: &'static str) -> Followed {
    labelled(kind, "", "")
}

const fn within(kind: &'static str, namespace: &'static str) -> Followed {
    labelled(kind, namespace, "")
}

const fn labelled(kind: &'static str, namespace: &'static str, label: &'static str) -> Followed {
    Followed { kind, namespace, label, once: false }
}

const fn once(kind: &'static str, namespace: &'static str) -> Followed {
    Followed { kind, namespace, label: "", once: true }
}

/// What decisions about Upgrades rest on.
pub const BY_UPGRADES: &[Followed] = &[
    within("Upgrade", NAMESPACE),
    within("Version", NAMESPACE),
    within("UpgradeLog", NAMESPACE),
    within("VirtualMachineImage", NAMESPACE),
    all("Setting"),
    all("Setting.management.cattle.io"),
    all("Node"),
    within("Machine", FLEET_NAMESPACE),
    within("Cluster", FLEET_NAMESPACE),
    within("Cluster.provisioning.cattle.io", FLEET_NAMESPACE),
    labelled("Secret", FLEET_NAMESPACE, MACHINE_NAME),
    within("ManagedChart", FLEET_NAMESPACE),
    within("Setting.longhorn.io", STORAGE),
    within("Deployment", NAMESPACE),
    labelled("VirtualMachine", NAMESPACE, UPGRADE),
    labelled("VirtualMachineInstance", NAMESPACE, UPGRADE),
    labelled("Service", NAMESPACE, UPGRADE),
    labelled("ConfigMap", NAMESPACE, UPGRADE),
    labelled("Job", NAMESPACE, UPGRADE),
    labelled("Job", CATTLE_NAMESPACE, UPGRADE),
    labelled("Pod", NAMESPACE, UPGRADE),
    // One of a stock release carries no label.
    within("Plan", CATTLE_NAMESPACE),
    within("Addon", DESCHEDULER_NAMESPACE),
    labelled("HelmChart", helm_chart::NAMESPACE, UPGRADE),
];

/// Objects that are followed for a while, beside those of [`BY_UPGRADES`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Meanwhile {
    /// As [`crate::cluster::Resource::kind`] names it.
    pub kind: &'static str,
    pub namespace: &'static str,
    /// Only the one that is called so; empty: all.
    pub name: String,
}

/// What decisions about Upgrades rest on as they are now, and did not all the time.
pub fn meanwhile(cluster: &Cluster) -> BTreeSet<Meanwhile> {
    let upgrades = cluster.harvester.upgrades.in_namespace(NAMESPACE);
    let begun = upgrades.filter_map(|upgrade| Some((upgrade.metadata.name.as_str(), Progress::of(upgrade)?)));
    begun.flat_map(|(name, progress)| by_steps_of_release(name, &progress)).collect()
}

/// Drover's own steps label what they make, and look themselves at what they wait for.
fn by_steps_of_release(upgrade: &str, progress: &Progress) -> Vec<Meanwhile> {
    let mut all = Vec::new();
    if progress.steps != Steps::Release || progress.ended.is_some() || !progress.is_among_nodes() {
        return all;
    }
    if progress.chosen.as_ref().is_none_or(|chosen| chosen.restores_vms) {
        let name = names::restore_list(upgrade);
        all.push(Meanwhile { kind: "ConfigMap", namespace: NAMESPACE, name });
    }
    // There are many volumes, and what is told of them never ends.
    if progress.nodes.values().any(|node| node.step == Step::PreDraining) {
        let all_of = |kind: &&'static str| Meanwhile { kind, namespace: STORAGE, name: String::new() };
        all.extend(OF_VOLUMES.iter().map(all_of));
    }
    all
}

const OF_VOLUMES: [&str; 4] =
    ["Volume.longhorn.io", "Engine.longhorn.io", "Replica.longhorn.io", "VolumeAttachment.longhorn.io"];

/// What a step rests on. Each Job asks for these once and watches them: what a step does not look at would cost requests on every
/// node.
pub const fn by_step(kind: Kind) -> &'static [Followed] {
    match kind {
        Kind::PreDrain => BY_PRE_DRAIN,
        Kind::PostDrain => BY_POST_DRAIN,
        Kind::SingleNode => BY_SINGLE_NODE,
        Kind::RestoreVms => BY_RESTORING,
        Kind::Manifests => BY_SERVICE_STEPS,
    }
}

/// The release of an Upgrade stays; and who calls it off takes the Job away.
const BY_PRE_DRAIN: &[Followed] = &[
    once("Upgrade", NAMESPACE),
    all("Node"),
    all("VirtualMachine"),
    all("VirtualMachineInstance"),
    all("VirtualMachineInstanceMigration"),
    within("Volume.longhorn.io", STORAGE),
    within("Engine.longhorn.io", STORAGE),
    within("Replica.longhorn.io", STORAGE),
    within("VolumeAttachment.longhorn.io", STORAGE),
    labelled("ConfigMap", NAMESPACE, UPGRADE),
];

/// What its user accepts may be said while a node waits to boot.
const BY_POST_DRAIN: &[Followed] = &[within("Upgrade", NAMESPACE), all("Node")];

const BY_SINGLE_NODE: &[Followed] = &[
    within("Upgrade", NAMESPACE),
    all("Node"),
    all("VirtualMachine"),
    all("VirtualMachineInstance"),
    all("VirtualMachineInstanceMigration"),
    within("Cluster.provisioning.cattle.io", FLEET_NAMESPACE),
    labelled("ConfigMap", NAMESPACE, UPGRADE),
];

const BY_RESTORING: &[Followed] = &[
    within("Upgrade", NAMESPACE),
    all("VirtualMachine"),
    all("VirtualMachineInstance"),
    labelled("ConfigMap", NAMESPACE, UPGRADE),
];

const BY_SERVICE_STEPS: &[Followed] = &[
    within("Upgrade", NAMESPACE),
    within("ManagedChart", FLEET_NAMESPACE),
    within("Bundle", FLEET_NAMESPACE),
    within("Cluster.fleet.cattle.io", FLEET_NAMESPACE),
    all("Addon"),
    labelled("ConfigMap", NAMESPACE, UPGRADE),
    all("Setting.management.cattle.io"),
    within("HelmChart", helm_chart::NAMESPACE),
    all("ClusterRepo"),
    labelled("HelmRelease", CATTLE_NAMESPACE, RELEASE_OF_RANCHER),
    within("KubeVirt", NAMESPACE),
    within("Setting.longhorn.io", STORAGE),
    within("Node.longhorn.io", STORAGE),
    within("InstanceManager.longhorn.io", STORAGE),
    // Manifests of the release may bring them anywhere.
    all("Deployment"),
    all("StatefulSet"),
    all("DaemonSet"),
    labelled("Pod", "", POD_TEMPLATE_GENERATION),
    // Who takes part, and who does not and is waited for by nobody.
    all("Node"),
    within("Machine", FLEET_NAMESPACE),
    labelled("Job", helm_chart::NAMESPACE, CHART_OF_RANCHER),
    labelled("Pod", helm_chart::NAMESPACE, CHART_OF_RANCHER),
];

const RELEASE_OF_RANCHER: &str = "owner=helm,name=rancher";
const CHART_OF_RANCHER: &str = "helmcharts.helm.cattle.io/chart=rancher";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{OF_UPGRADES, RESOURCES};

    #[test]
    fn what_helm_keeps_of_rancher_is_found_by_its_labels() {
        use drover_api::helm::{helm_chart::labels::CHART, release::labels};
        use drover_api::rancher::embedded::NAME as RANCHER;

        let release = format!("{}={},{}={RANCHER}", labels::OWNER, labels::OWNER_HELM, labels::NAME);
        assert_eq!((RELEASE_OF_RANCHER, CHART_OF_RANCHER), (release.as_str(), format!("{CHART}={RANCHER}").as_str()));
    }

    #[test]
    fn every_kind_has_its_place() {
        let kinds = [Kind::PreDrain, Kind::PostDrain, Kind::SingleNode, Kind::RestoreVms, Kind::Manifests];
        for followed in BY_UPGRADES.iter().chain(kinds.into_iter().flat_map(by_step)) {
            let known = RESOURCES.iter().chain(OF_UPGRADES).any(|resource| resource.kind == followed.kind);
            assert!(known, "{}", followed.kind);
        }
    }
}
