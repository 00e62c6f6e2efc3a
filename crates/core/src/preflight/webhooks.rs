//! Webhooks that refuse whatever they cannot be asked about.

use std::collections::BTreeSet;

use super::{Check, Finding, Intent, Scope, Severity};
use crate::cluster::admission::{Endpoint, SERVICE_NAME, ServiceName, Webhook};
use crate::cluster::{Cluster, ObjectRef};

pub const CHECKS: &[Check] = &[
    Check {
        code: "DRV-HOOK-001",
        severity: Severity::Blocks,
        scope: Scope::Everything,
        title: "A webhook that must answer has no server",
        consequence: "the API server refuses every request that the webhook is for: pods are not made anew, objects of the upgrade are rejected.",
        remedy: "bring its pods back, or delete the configuration if its product is gone",
        reads: &["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "EndpointSlice"],
        look: without_server,
    },
    Check {
        code: "DRV-HOOK-002",
        severity: Severity::Risks,
        scope: Scope::Drains,
        title: "A webhook that must answer for pods runs on a single node",
        consequence: "while that node is drained no pod can be made, not even the webhook's own.",
        remedy: "give its Deployment a second replica on another node",
        reads: &["Node", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "EndpointSlice"],
        look: on_one_node,
    },
    Check {
        code: "DRV-HOOK-003",
        severity: Severity::Blocks,
        scope: Scope::Everything,
        title: "The conversion webhook of a kind has no server",
        consequence: "objects of the kind can be neither read nor written, so that controllers of the upgrade stand still.",
        remedy: "bring the pods of its Service back",
        reads: &["CustomResourceDefinition", "EndpointSlice"],
        look: no_conversion,
    },
];

/// Every webhook, with the configuration that it belongs to.
fn webhooks(cluster: &Cluster) -> impl Iterator<Item = (ObjectRef, &Webhook)> {
    let validating = cluster.admission.validating.iter();
    let validating = validating.flat_map(|one| one.webhooks.iter().map(move |hook| (ObjectRef::of(one), hook)));
    let mutating = cluster.admission.mutating.iter();
    let mutating = mutating.flat_map(|one| one.webhooks.iter().map(move |hook| (ObjectRef::of(one), hook)));
    validating.chain(mutating)
}

/// The endpoints of a Service that answer.
fn ready<'a>(cluster: &'a Cluster, service: &'a ServiceName) -> impl Iterator<Item = &'a Endpoint> {
    let slices = cluster.admission.endpoint_slices.in_namespace(&service.namespace);
    let own = slices.filter(|slice| slice.metadata.labels.get(SERVICE_NAME) == Some(&service.name));
    own.flat_map(|slice| &slice.endpoints).filter(|endpoint| endpoint.is_ready())
}

fn without_server(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let strict = webhooks(cluster).filter(|(_, hook)| hook.is_strict());
    let finding = |(configuration, hook): (ObjectRef, &Webhook)| {
        let service = hook.client_config.service.as_ref()?;
        ready(cluster, service).next().is_none().then(|| {
            let ServiceName { namespace, name } = service;
            let sentence = format!(
                "webhook {} (failurePolicy Fail) is to be asked at service {namespace}/{name}, which has no ready endpoint",
                hook.name
            );
            Finding::new(sentence)
                .about([configuration, ObjectRef::new("Service", namespace, name)])
                .remedy(format!("kubectl -n {namespace} describe service {name}"))
        })
    };
    strict.filter_map(finding).collect()
}

fn on_one_node(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let drained = super::workloads::drained(cluster, intent);
    // On a single node there is no other place.
    if cluster.nodes.len() < 2 {
        return Vec::new();
    }
    let for_pods = |hook: &Webhook| {
        let mut resources = hook.rules.iter().flat_map(|rule| &rule.resources);
        resources.any(|resource| matches!(resource.as_str(), "*" | "*/*" | "pods" | "pods/eviction"))
    };
    let strict = webhooks(cluster).filter(|(_, hook)| hook.is_strict() && for_pods(hook));
    let finding = |(configuration, hook): (ObjectRef, &Webhook)| {
        let service = hook.client_config.service.as_ref()?;
        let nodes: BTreeSet<&str> = ready(cluster, service).map(|endpoint| endpoint.node_name.as_str()).collect();
        let node = nodes.first().filter(|node| nodes.len() == 1 && drained.contains(**node))?;
        let sentence = format!("webhook {} (failurePolicy Fail) is answered from node {node} alone", hook.name);
        Some(Finding::new(sentence).about([configuration, ObjectRef::new("Node", "", node)]))
    };
    strict.filter_map(finding).collect()
}

fn no_conversion(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let finding = |definition: &crate::cluster::admission::Definition| {
        let service = definition.spec.conversion.webhook.as_ref()?.client_config.service.as_ref()?;
        ready(cluster, service).next().is_none().then(|| {
            let ServiceName { namespace, name } = service;
            let kind = &definition.metadata.name;
            Finding::new(format!("{kind} is converted by service {namespace}/{name}, which has no ready endpoint"))
                .on(definition)
                .about([ObjectRef::new("Service", namespace, name)])
                .remedy(format!("kubectl -n {namespace} describe service {name}"))
        })
    };
    cluster.admission.definitions.iter().filter_map(finding).collect()
}
