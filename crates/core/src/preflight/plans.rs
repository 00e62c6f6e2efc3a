//! Plans that would hang, or do nothing.

use drover_api::plan::PlanSpec;

use super::{Asked, Check, Finding, Intent, Scope, Severity, etcd, some_of};
use crate::cluster::{Cluster, ObjectRef};
use crate::plan::validate;
use crate::seen::PlanSeen;

pub const CHECKS: &[Check] = &[
    Check {
        code: "DRV-PLAN-001",
        severity: Severity::Blocks,
        scope: Scope::Plans,
        title: "The Plan is not valid",
        consequence: "no node is upgraded.",
        remedy: "correct the Plan",
        reads: &["Plan"],
        look: invalid,
    },
    Check {
        code: "DRV-PLAN-002",
        severity: Severity::Blocks,
        scope: Scope::Nodes,
        title: "A Secret of a Plan is missing",
        consequence: "no Job is made, and nothing in the cluster says why; or its pods never start.",
        remedy: "create the Secret in the namespace of the Plan",
        reads: &["Plan", "Secret"],
        look: secret_missing,
    },
    Check {
        code: "DRV-PLAN-003",
        severity: Severity::Risks,
        scope: Scope::Plans,
        title: "The Plan selects no node",
        consequence: "it is complete at once and has upgraded nothing.",
        remedy: "compare spec.nodeSelector with the labels of the nodes: kubectl get nodes --show-labels",
        reads: &["Node"],
        look: selects_none,
    },
    Check {
        code: "DRV-PLAN-004",
        severity: Severity::Blocks,
        scope: Scope::Plans,
        title: "The Plan may take out so many members of etcd that the rest has no quorum",
        consequence: "the API server stops to answer in the middle of the upgrade.",
        remedy: "set spec.concurrency to 1, or select members of etcd by a Plan of their own",
        reads: &["Node", "Pod"],
        look: too_many_at_once,
    },
    Check {
        code: "DRV-PLAN-005",
        severity: Severity::Blocks,
        scope: Scope::Plans,
        title: "The service account of the Plan is missing",
        consequence: "the Jobs cannot make pods.",
        remedy: "create the service account in the namespace of the Plan",
        reads: &["ServiceAccount"],
        look: account_missing,
    },
    Check {
        code: "DRV-PLAN-006",
        severity: Severity::Risks,
        scope: Scope::Plans,
        title: "A node is not called as it calls itself",
        consequence: "system-upgrade-controller compares names with host names, deletes the node's Job again and again, and never ends; Drover does not.",
        remedy: "drive the Plan with Drover, or set the label kubernetes.io/hostname to the node's name",
        reads: &["Node"],
        look: other_host_name,
    },
    Check {
        code: "DRV-PLAN-007",
        severity: Severity::Risks,
        scope: Scope::Plans,
        title: "Another Plan works on the same nodes",
        consequence: "both may take nodes out at the same time, so that together they exceed the limit of each.",
        remedy: "let one come after the other (drover.dev/after), or make both exclusive",
        reads: &["Plan", "Node"],
        look: beside_another,
    },
];

fn plan(intent: &Intent) -> Option<&PlanSeen> {
    match &intent.asked {
        Asked::Plan(plan) => Some(plan),
        _ => None,
    }
}

/// The Plan, if it can be read.
fn sound(intent: &Intent) -> Option<(&PlanSeen, &PlanSpec)> {
    let plan = plan(intent)?;
    Some((plan, plan.spec.as_ref().ok()?))
}

fn about(plan: &PlanSeen) -> ObjectRef {
    ObjectRef::new("Plan", &plan.meta.namespace, &plan.meta.name)
}

fn invalid(_: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some(plan) = plan(intent) else { return Vec::new() };
    let problem = match &plan.spec {
        Err(problem) => Some(problem.clone()),
        Ok(spec) => validate::problem(&plan.meta.name, spec).or_else(|| {
            let unresolved = spec.version.is_empty() && spec.channel.is_empty();
            unresolved.then(|| {
                "neither spec.version nor spec.channel is given, so that there is nothing to upgrade to".to_owned()
            })
        }),
    };
    problem.map(|problem| Finding::new(problem).about([about(plan)])).into_iter().collect()
}

fn secret_missing(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    match plan(intent) {
        Some(plan) => secrets_of(cluster, plan),
        // Whatever else is asked for, a Plan that hangs can be what it waits for.
        None => {
            cluster.plans().flat_map(|plan| secrets_of(cluster, plan)).map(|one| one.only(Severity::Risks)).collect()
        }
    }
}

fn secrets_of(cluster: &Cluster, plan: &PlanSeen) -> Vec<Finding> {
    let (namespace, name) = (&plan.meta.namespace, &plan.meta.name);
    let named = plan.spec.iter().flat_map(|spec| &spec.secrets).map(|secret| &secret.name);
    let missing = named.filter(|secret| cluster.secrets.get(namespace, secret).is_none());
    let finding = |secret: &String| {
        Finding::new(format!("Plan {namespace}/{name}: secrets \"{secret}\" not found"))
            .about([about(plan), ObjectRef::new("Secret", namespace, secret)])
            .remedy(format!("kubectl -n {namespace} create secret generic {secret} --from-file=…"))
    };
    missing.map(finding).collect()
}

fn selects_none(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some((plan, spec)) = sound(intent) else { return Vec::new() };
    // A selector that cannot be used is told by the check of the Plan itself.
    if spec.node_selector.is_none() || !intent.nodes(cluster).is_empty() {
        return Vec::new();
    }
    vec![Finding::new("spec.nodeSelector matches none of the nodes").about([about(plan)])]
}

fn too_many_at_once(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some((plan, spec)) = sound(intent) else { return Vec::new() };
    let members = etcd::members(cluster);
    let selected = intent.nodes(cluster);
    let taken = members.iter().filter(|member| selected.iter().any(|node| node.metadata.name == member.metadata.name));
    let at_once = taken.count().min(usize::try_from(spec.concurrency).unwrap_or(0));
    let quorum = members.len() / 2 + 1;
    // One at a time is the affair of the check of the quorum.
    if at_once < 2 || members.len() - at_once >= quorum {
        return Vec::new();
    }
    let sentence = format!(
        "spec.concurrency is {}: {at_once} of {} members of etcd may be out at once, and {quorum} are needed",
        spec.concurrency,
        members.len()
    );
    let remedy = format!(
        "kubectl -n {} patch plans.upgrade.cattle.io {} --type merge -p '{{\"spec\":{{\"concurrency\":1}}}}'",
        plan.meta.namespace, plan.meta.name
    );
    vec![Finding::new(sentence).about([about(plan)]).remedy(remedy)]
}

fn account_missing(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some((plan, spec)) = sound(intent) else { return Vec::new() };
    let (namespace, name) = (&plan.meta.namespace, &spec.service_account_name);
    if name.is_empty() || cluster.service_accounts.get(namespace, name).is_some() {
        return Vec::new();
    }
    vec![
        Finding::new(format!("serviceaccounts \"{name}\" not found in namespace {namespace}"))
            .about([about(plan), ObjectRef::new("ServiceAccount", namespace, name)])
            .remedy(format!("kubectl -n {namespace} create serviceaccount {name}")),
    ]
}

fn other_host_name(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let differs = |node: &&crate::cluster::Node| {
        let host = node.metadata.labels.get(drover_api::node::HOSTNAME);
        host.is_some_and(|host| *host != node.metadata.name)
    };
    let differing: Vec<_> = intent.nodes(cluster).into_iter().filter(differs).collect();
    if differing.is_empty() {
        return Vec::new();
    }
    let names = some_of(differing.iter().map(|node| node.metadata.name.as_str()));
    let sentence = format!("the label kubernetes.io/hostname is not the name of the node: {names}");
    vec![Finding::new(sentence).about(differing.into_iter().map(ObjectRef::of))]
}

fn beside_another(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some((plan, spec)) = sound(intent) else { return Vec::new() };
    let own: Vec<&str> = intent.nodes(cluster).iter().map(|node| node.metadata.name.as_str()).collect();
    let mut findings = Vec::new();
    for other in
        cluster.plans().filter(|other| other.meta.name != plan.meta.name || other.meta.namespace != plan.meta.namespace)
    {
        let Ok(theirs) = &other.spec else { continue };
        // Only what drains or cordons takes a node out.
        let takes_out = |spec: &PlanSpec| spec.cordon || spec.drain.is_some();
        let ordered = intent.annotation(drover_api::marks::AFTER).is_some()
            || other.meta.annotations.contains_key(drover_api::marks::AFTER)
            || spec.exclusive && theirs.exclusive;
        let is_done = other.status.conditions.iter().any(|one| one.type_ == "Complete" && one.status == "True");
        if ordered || is_done || !takes_out(spec) || !takes_out(theirs) {
            continue;
        }
        let selected = Intent::plan(other.clone()).nodes(cluster);
        let shared: Vec<&str> =
            selected.iter().map(|node| node.metadata.name.as_str()).filter(|name| own.contains(name)).collect();
        if !shared.is_empty() {
            let sentence =
                format!("Plan {}/{} is for the same nodes: {}", other.meta.namespace, other.meta.name, some_of(shared));
            findings.push(Finding::new(sentence).about([about(plan), about(other)]));
        }
    }
    findings
}
