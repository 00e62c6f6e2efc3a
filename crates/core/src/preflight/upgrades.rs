//! What Harvester demands of an Upgrade and of the cluster that it is created on, in its own words.

use std::collections::{BTreeMap, BTreeSet};

use drover_api::cluster_api::cluster::phases;
use drover_api::harvester::FLEET_NAMESPACE;
use drover_api::harvester::node::WITNESS;
use drover_api::harvester::setting::names;
use drover_api::harvester::upgrade::{annotations, cleanup, labels};
use drover_api::rancher::provisioning_cluster::LOCAL;

use super::intent::{setting, upgrade_under_way};
use super::{Asked, Check, Finding, Intent, Scope, Severity, path, some_of};
use crate::cluster::{Cluster, ObjectRef};
use crate::harvester::options;
use crate::harvester::upgrade_config::UpgradeConfig;

pub const CHECKS: &[Check] = &[
    Check {
        code: "DRV-UPG-001",
        severity: Severity::Blocks,
        scope: Scope::Harvester,
        title: "The Upgrade does not say what to upgrade to",
        consequence: "Harvester refuses the Upgrade.",
        remedy: "give spec.version, the name of a Version in harvester-system, or spec.image",
        reads: &["Version"],
        look: target,
    },
    Check {
        code: "DRV-UPG-002",
        severity: Severity::Blocks,
        scope: Scope::Harvester,
        title: "Another Upgrade is under way",
        consequence: "Harvester refuses the Upgrade; two at once would fight over the same nodes.",
        remedy: "wait for it, or find out what it waits for: drover why --all",
        reads: &["Upgrade"],
        look: under_way,
    },
    Check {
        code: "DRV-UPG-003",
        severity: Severity::Blocks,
        scope: Scope::Harvester,
        title: "An earlier Upgrade has not cleaned up",
        consequence: "Harvester refuses every later Upgrade until the clean-up is done.",
        remedy: "delete the earlier Upgrade once nothing of it runs any more",
        reads: &["Upgrade"],
        look: not_cleaned_up,
    },
    Check {
        code: "DRV-UPG-004",
        severity: Severity::Blocks,
        scope: Scope::Harvester,
        title: "The annotations of the Upgrade cannot be read",
        consequence: "Harvester refuses the Upgrade.",
        remedy: "correct the annotation",
        reads: &["Node"],
        look: bad_annotations,
    },
    Check {
        code: "DRV-UPG-005",
        severity: Severity::Blocks,
        scope: Scope::Harvester,
        title: "The setting upgrade-config is not valid",
        consequence: "nodes are not prepared, or not paused where they should be.",
        remedy: "correct the setting: kubectl edit settings.harvesterhci.io upgrade-config",
        reads: &["Setting", "Node"],
        look: bad_config,
    },
    Check {
        code: "DRV-UPG-006",
        severity: Severity::Blocks,
        scope: Scope::Harvester,
        title: "The cluster fleet-local/local is not provisioned",
        consequence: "Rancher has not finished what it was asked before, and does not begin with the upgrade.",
        remedy: "find out what Rancher waits for: kubectl -n fleet-local describe clusters.provisioning.cattle.io local",
        reads: &["Cluster"],
        look: not_provisioned,
    },
    Check {
        code: "DRV-UPG-007",
        severity: Severity::Blocks,
        scope: Scope::Harvester,
        title: "The cluster fleet-local/local is paused",
        consequence: "Rancher does nothing for a paused cluster: the upgrade of nodes never begins.",
        remedy: "kubectl -n fleet-local patch clusters.cluster.x-k8s.io local --type merge -p '{\"spec\":{\"paused\":false}}'",
        reads: &["Cluster"],
        look: paused,
    },
    Check {
        code: "DRV-UPG-008",
        severity: Severity::Blocks,
        scope: Scope::Harvester,
        title: "The kubeconfig Secret of the local cluster lacks its label",
        consequence: "Cluster API loses its connection to the cluster: the versions of kubelets are no longer noticed, and Rancher waits for them without end.",
        remedy: "kubectl -n fleet-local label secret local-kubeconfig cluster.x-k8s.io/cluster-name=local",
        reads: &["Secret"],
        look: unlabelled_kubeconfig,
    },
    Check {
        code: "DRV-UPG-009",
        severity: Severity::Informs,
        scope: Scope::Harvester,
        title: "Nodes pause before they are upgraded",
        consequence: "the upgrade stops at each of them, after Rancher has cordoned it, until somebody resumes the node.",
        remedy: "resume a node when you are ready: kubectl annotate node NODE harvesterhci.io/node-upgrade-pause-",
        reads: &["Setting", "Node"],
        look: pauses,
    },
    Check {
        code: "DRV-UPG-010",
        severity: Severity::Informs,
        scope: Scope::Harvester,
        title: "VMs are off while their only node is upgraded",
        consequence: "all VMs are shut off for as long as the upgrade of the node takes; without restoreVM they stay off.",
        remedy: "set restoreVM: true, and they are started again: kubectl edit settings.harvesterhci.io upgrade-config",
        reads: &["Setting", "Node", "VirtualMachineInstance"],
        look: off_meanwhile,
    },
];

fn own(intent: &Intent) -> Option<&crate::cluster::harvester::Upgrade> {
    match &intent.asked {
        Asked::Upgrade(upgrade) => Some(upgrade),
        _ => None,
    }
}

fn target(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    if let Some(upgrade) = own(intent)
        && upgrade.spec.version.is_empty()
        && upgrade.spec.image.is_empty()
    {
        return vec![Finding::new("version or image field are not specified.").on(upgrade)];
    }
    match intent.harvester(cluster) {
        Some((version, None)) => vec![
            Finding::new(format!("version {version} is not found"))
                .about([ObjectRef::new("Version", drover_api::harvester::NAMESPACE, version)])
                .remedy("kubectl -n harvester-system get versions.harvesterhci.io"),
        ],
        _ => Vec::new(),
    }
}

fn under_way(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let finding = |upgrade: &crate::cluster::harvester::Upgrade| {
        let name = &upgrade.metadata.name;
        Finding::new(format!("cannot proceed until previous upgrade \"{name}\" completes"))
            .on(upgrade)
            .remedy(format!("drover why upgrade/{name}"))
    };
    upgrade_under_way(cluster, intent).map(finding).into_iter().collect()
}

fn not_cleaned_up(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let pending = cluster.harvester.upgrades.iter();
    let pending: Vec<_> = pending
        .filter(|upgrade| upgrade.metadata.labels.get(labels::CLEANUP).is_some_and(|state| state == cleanup::PENDING))
        .collect();
    let Some(first) = pending.first() else { return Vec::new() };
    let names: Vec<&str> = pending.iter().map(|upgrade| upgrade.metadata.name.as_str()).collect();
    let sentence =
        format!("cannot proceed until the following upgrades completed their cleanup process: {}", names.join(","));
    vec![Finding::new(sentence).about(pending.iter().map(|upgrade| ObjectRef::of(*upgrade))).remedy(format!(
        "kubectl -n {} delete upgrades.harvesterhci.io {}",
        first.metadata.namespace,
        names.join(" ")
    ))]
}

/// The words that Go reads as true and false.
pub fn switch(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// What is wrong with a map of nodes that pause; `is_node` knows the nodes of the cluster.
pub fn pause_map_problems(text: &str, is_node: impl Fn(&str) -> bool) -> Vec<String> {
    let map: BTreeMap<String, String> = match serde_json::from_str(text) {
        Ok(map) => map,
        Err(error) => return vec![format!("fail to unmarshal {} annotation, err: {error}", annotations::PAUSE_MAP)],
    };
    let mut problems = Vec::new();
    for (node, action) in map {
        if ![annotations::PAUSE, annotations::UNPAUSE].contains(&action.as_str()) {
            problems.push(format!("desired action for node {node} must be either \"pause\" or \"unpause\""));
        }
        if !is_node(&node) {
            problems.push(format!("node {node} does not exist"));
        }
    }
    problems
}

fn bad_annotations(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some(upgrade) = own(intent) else { return Vec::new() };
    let mut findings = Vec::new();
    let mut say = |sentence: String| findings.push(Finding::new(sentence).on(upgrade));
    if let Some(text) = intent.annotation(annotations::PAUSE_MAP) {
        pause_map_problems(text, |node| cluster.nodes.named(node).is_some()).into_iter().for_each(&mut say);
    }
    options::misunderstood(&upgrade.metadata.annotations).into_iter().map(|one| one.sentence).for_each(&mut say);
    if let Some(value) = intent.annotation(annotations::SKIP_DISK_CHECK)
        && switch(value).is_none()
    {
        say(format!("invalid value {value} for {} annotation", annotations::SKIP_DISK_CHECK));
    }
    if let Some(value) = intent.annotation(annotations::MIN_CERTIFICATE_DAYS) {
        match value.parse::<i64>() {
            Err(_) => say(format!("invalid value {value} for annotation {}", annotations::MIN_CERTIFICATE_DAYS)),
            Ok(..=0) => say(format!(
                "invalid value {value} for annotation {}, it should be greater than 0",
                annotations::MIN_CERTIFICATE_DAYS
            )),
            Ok(_) => (),
        }
    }
    findings
}

/// What the setting says; the defaults where it cannot be read.
pub fn config(cluster: &Cluster) -> UpgradeConfig {
    let text = setting(cluster, names::UPGRADE_CONFIG);
    text.and_then(|text| UpgradeConfig::read(text).ok()).unwrap_or_default()
}

/// The nodes that will pause: as the Upgrade says, or as the setting does where it says nothing.
pub fn pausing(cluster: &Cluster, intent: &Intent) -> BTreeSet<String> {
    let map = match intent.annotation(annotations::PAUSE_MAP) {
        Some(text) => serde_json::from_str(text).unwrap_or_default(),
        None => config(cluster).pauses(cluster.nodes.iter().map(|node| node.metadata.name.as_str())),
    };
    map.into_iter().filter(|(_, action)| action == annotations::PAUSE).map(|(node, _)| node).collect()
}

fn pauses(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let nodes = pausing(cluster, intent);
    if nodes.is_empty() {
        return Vec::new();
    }
    let sentence = format!("nodes that pause before their upgrade: {}", some_of(nodes.iter().map(String::as_str)));
    vec![Finding::new(sentence).about(nodes.iter().map(|node| ObjectRef::new("Node", "", node)))]
}

fn off_meanwhile(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let hosts = cluster.nodes.iter().filter(|node| !node.metadata.labels.contains_key(WITNESS));
    let vms: Vec<_> = cluster.kubevirt.instances.iter().filter(|vm| !vm.is_over()).collect();
    if hosts.count() != 1 || vms.is_empty() {
        return Vec::new();
    }
    let names: Vec<String> = vms.iter().map(|vm| path(*vm)).collect();
    let after = if config(cluster).restores_vms() { "and started again after it" } else { "and stay off after it" };
    let sentence = format!(
        "VMs that are shut off for the upgrade of the only node, {after}: {}",
        some_of(names.iter().map(String::as_str))
    );
    vec![Finding::new(sentence).about(vms.into_iter().map(ObjectRef::of))]
}

fn bad_config(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let Some(text) = setting(cluster, names::UPGRADE_CONFIG) else { return Vec::new() };
    let problems = match UpgradeConfig::read(text) {
        Ok(config) => config.problems(|node| cluster.nodes.named(node).is_some()),
        Err(error) => vec![format!("the setting upgrade-config is no JSON: {error}")],
    };
    let about = || ObjectRef::new("Setting", "", names::UPGRADE_CONFIG);
    problems.into_iter().map(|problem| Finding::new(problem).about([about()])).collect()
}

fn not_provisioned(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let Some(local) = cluster.cluster_api.clusters.get(FLEET_NAMESPACE, LOCAL) else {
        let about = ObjectRef::new("Cluster", FLEET_NAMESPACE, LOCAL);
        return vec![Finding::new("can't find fleet-local/local cluster, err: it does not exist").about([about])];
    };
    let phase = &local.status.phase;
    if phase == phases::PROVISIONED {
        return Vec::new();
    }
    let sentence = format!("cluster fleet-local/local status is {phase}, please wait for it to be provisioned");
    vec![Finding::new(sentence).on(local)]
}

fn paused(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let local = cluster.cluster_api.clusters.get(FLEET_NAMESPACE, LOCAL).filter(|local| local.spec.paused);
    local
        .map(|local| Finding::new(format!("cluster {} is paused (spec.paused)", path(local))).on(local))
        .into_iter()
        .collect()
}

fn unlabelled_kubeconfig(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let Some(secret) = cluster.secrets.get(FLEET_NAMESPACE, "local-kubeconfig") else { return Vec::new() };
    let key = drover_api::cluster_api::labels::CLUSTER_NAME;
    match secret.metadata.labels.get(key).map(String::as_str) {
        Some(LOCAL) => Vec::new(),
        _ => vec![Finding::new(format!("secret {} has no label {key}=local", path(secret))).on(secret)],
    }
}
