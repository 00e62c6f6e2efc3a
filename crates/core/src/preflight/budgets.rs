//! PodDisruptionBudgets that hold up a drain for ever.

use std::collections::{BTreeMap, BTreeSet};

use super::{Check, Finding, Intent, Scope, Severity, path, some_of};
use crate::cluster::{Bound, Cluster, ObjectRef, Pod, PodDisruptionBudget, condition};
use crate::plan::selector::Selector;

pub const CHECKS: &[Check] = &[
    Check {
        code: "DRV-PDB-001",
        severity: Severity::Blocks,
        scope: Scope::Drains,
        title: "A budget never allows an eviction: it wants as many pods as there are",
        consequence: "every eviction of these pods is refused, so that the drain of their nodes never ends.",
        remedy: "give the workload one replica more than the budget wants, or let the budget spare one",
        reads: &["Node", "Pod", "PodDisruptionBudget"],
        look: too_few,
    },
    Check {
        code: "DRV-PDB-002",
        severity: Severity::Blocks,
        scope: Scope::Drains,
        title: "A budget allows no eviction: pods that it covers are not healthy",
        consequence: "evictions of these pods are refused until the others are healthy again.",
        remedy: "repair the unhealthy pods, or let the budget evict them: unhealthyPodEvictionPolicy: AlwaysAllow",
        reads: &["Node", "Pod", "PodDisruptionBudget"],
        look: unhealthy,
    },
    Check {
        code: "DRV-PDB-003",
        severity: Severity::Blocks,
        scope: Scope::Drains,
        title: "Several budgets cover the same pods",
        consequence: "the API server refuses to evict a pod that more than one budget covers, whatever they allow.",
        remedy: "change the selectors so that each pod has one budget",
        reads: &["Node", "Pod", "PodDisruptionBudget"],
        look: overlapping,
    },
    Check {
        code: "DRV-PDB-004",
        severity: Severity::Risks,
        scope: Scope::Drains,
        title: "A budget is not kept up to date",
        consequence: "evictions are refused as long as the controller cannot count the pods.",
        remedy: "look at the conditions of the budget; often a pod that it covers has no controller with a scale",
        reads: &["PodDisruptionBudget"],
        look: unsynced,
    },
];

/// A budget, and the pods that it covers and that have not ended.
struct Covered<'a> {
    budget: &'a PodDisruptionBudget,
    pods: Vec<&'a Pod>,
}

/// The budgets that a drain of the nodes would meet. Those of Longhorn's instance managers and of KubeVirt's machines
/// are left out: their controllers lift them when a node is drained.
fn met<'a>(cluster: &'a Cluster, intent: &Intent) -> Vec<Covered<'a>> {
    let nodes: BTreeSet<&str> = intent.nodes(cluster).iter().map(|node| node.metadata.name.as_str()).collect();
    let mut met = Vec::new();
    for budget in cluster.budgets.iter().filter(|budget| !is_lifted(budget)) {
        let selector = budget.spec.selector.as_ref().and_then(|selector| Selector::parse(selector).ok());
        let Some(selector) = selector else { continue };
        let pods = cluster.pods.in_namespace(&budget.metadata.namespace);
        let pods: Vec<&Pod> = pods.filter(|pod| !pod.has_ended() && selector.matches(&pod.metadata.labels)).collect();
        if pods.iter().any(|pod| nodes.contains(pod.spec.node_name.as_str()) && !pod.is_of_daemon_set()) {
            met.push(Covered { budget, pods });
        }
    }
    met
}

fn is_lifted(budget: &PodDisruptionBudget) -> bool {
    let metadata = &budget.metadata;
    let of_machine = metadata.owner_references.iter().any(|owner| owner.kind == "VirtualMachineInstance");
    let of_longhorn = metadata.namespace == drover_api::longhorn::NAMESPACE
        && (metadata.name.starts_with("instance-manager") || metadata.name.starts_with("share-manager"));
    of_machine || of_longhorn || metadata.name.starts_with("kubevirt-")
}

impl Covered<'_> {
    /// How many pods there should be, as the disruption controller has counted; or as they are, where it has not.
    fn expected(&self) -> i64 {
        match self.budget.status.expected_pods {
            0 => i64::try_from(self.pods.len()).unwrap_or(i64::MAX),
            counted => counted,
        }
    }

    /// How many have to be healthy.
    fn desired(&self) -> Option<i64> {
        let spec = &self.budget.spec;
        match (&spec.min_available, &spec.max_unavailable) {
            (Some(bound), _) => bound.of(self.expected()),
            (None, Some(bound)) => Some(self.expected() - bound.of(self.expected())?),
            (None, None) => None,
        }
    }

    fn is_hopeless(&self) -> bool {
        self.desired().is_some_and(|desired| desired >= self.expected())
    }
}

fn too_few(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let hopeless = met(cluster, intent).into_iter().filter(Covered::is_hopeless);
    let finding = |covered: Covered<'_>| {
        let (budget, expected) = (covered.budget, covered.expected());
        let pods = if expected == 1 { "1 pod".to_owned() } else { format!("{expected} pods") };
        let names = some_of(covered.pods.iter().map(|pod| pod.metadata.name.as_str()));
        let sentence = format!(
            "PodDisruptionBudget {} ({}) covers {pods} ({names}) and can never allow an eviction",
            path(budget),
            budget.rule()
        );
        let objects = covered.pods.iter().map(|pod| ObjectRef::of(*pod));
        Finding::new(sentence).on(budget).about(objects).remedy(room(cluster, &covered))
    };
    hopeless.map(finding).collect()
}

/// One replica more where that helps, else a budget that spares one.
fn room(cluster: &Cluster, covered: &Covered<'_>) -> String {
    let budget = covered.budget;
    let namespace = &budget.metadata.namespace;
    let owner = covered.pods.first().and_then(|pod| cluster.root_owner(&pod.metadata));
    match (&budget.spec.min_available, owner) {
        (Some(Bound::Number(wanted)), Some(owner)) if matches!(owner.kind.as_str(), "Deployment" | "StatefulSet") => {
            let kind = owner.kind.to_lowercase();
            format!("kubectl -n {namespace} scale {kind} {} --replicas={}", owner.name, wanted + 1)
        }
        _ => format!(
            "kubectl -n {namespace} patch poddisruptionbudget {} --type merge -p '{{\"spec\":{{\"minAvailable\":null,\"maxUnavailable\":1}}}}'",
            budget.metadata.name
        ),
    }
}

fn unhealthy(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let mut findings = Vec::new();
    for covered in met(cluster, intent).into_iter().filter(|covered| !covered.is_hopeless()) {
        let sick: Vec<&Pod> = covered.pods.iter().filter(|pod| !pod.is_ready()).copied().collect();
        let healthy = i64::try_from(covered.pods.len() - sick.len()).unwrap_or(i64::MAX);
        let Some(desired) = covered.desired().filter(|desired| healthy <= *desired && !sick.is_empty()) else {
            continue;
        };
        let budget = covered.budget;
        let names = some_of(sick.iter().map(|pod| pod.metadata.name.as_str()));
        let sentence = format!(
            "PodDisruptionBudget {} wants {desired} healthy and has {healthy}: {names} not ready",
            path(budget)
        );
        let remedy = match sick.first() {
            Some(pod) => format!("kubectl -n {} describe pod {}", pod.metadata.namespace, pod.metadata.name),
            None => continue,
        };
        findings.push(Finding::new(sentence).on(budget).about(sick.into_iter().map(ObjectRef::of)).remedy(remedy));
    }
    findings
}

fn overlapping(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let met = met(cluster, intent);
    let mut budgets_of: BTreeMap<(&str, &str), (ObjectRef, Vec<&PodDisruptionBudget>)> = BTreeMap::new();
    for covered in &met {
        for pod in covered.pods.iter().filter(|pod| !pod.is_of_daemon_set()) {
            let key = (pod.metadata.namespace.as_str(), pod.metadata.name.as_str());
            budgets_of.entry(key).or_insert_with(|| (ObjectRef::of(*pod), Vec::new())).1.push(covered.budget);
        }
    }
    // One finding for each group of budgets, whatever pods it shares.
    let mut shared: BTreeMap<Vec<String>, (Vec<ObjectRef>, Vec<ObjectRef>)> = BTreeMap::new();
    for (pod, budgets) in budgets_of.into_values().filter(|(_, budgets)| budgets.len() > 1) {
        let names = budgets.iter().map(|budget| path(*budget)).collect();
        let group = shared.entry(names).or_default();
        group.0 = budgets.into_iter().map(ObjectRef::of).collect();
        group.1.push(pod);
    }
    let finding = |(names, (budgets, pods)): (Vec<String>, (Vec<ObjectRef>, Vec<ObjectRef>))| {
        let pod_names = some_of(pods.iter().map(|pod| pod.name.as_str()));
        let sentence = format!("PodDisruptionBudgets {} cover the same pods: {pod_names}", names.join(" and "));
        let last = budgets.last().cloned().unwrap_or_default();
        let remedy = format!(
            "delete one of them, or change its selector: kubectl -n {} edit poddisruptionbudget {}",
            last.namespace, last.name
        );
        Finding::new(sentence).about(budgets).about(pods).remedy(remedy)
    };
    shared.into_iter().map(finding).collect()
}

fn unsynced(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let finding = |budget: &PodDisruptionBudget| {
        let condition = condition(&budget.status.conditions, "DisruptionAllowed")?;
        let failed = condition.reason == "SyncFailed";
        failed.then(|| {
            Finding::new(format!("PodDisruptionBudget {} is not kept: {}", path(budget), condition.message))
                .on(budget)
                .remedy(format!(
                    "kubectl -n {} describe poddisruptionbudget {}",
                    budget.metadata.namespace, budget.metadata.name
                ))
        })
    };
    cluster.budgets.iter().filter_map(finding).collect()
}
