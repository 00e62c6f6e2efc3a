//! APIs that the new version no longer serves, and those that do not answer now.

use super::{Check, Finding, Intent, Scope, Severity, some_of};
use crate::cluster::admission::{ApiService, Definition};
use crate::cluster::{Cluster, ObjectRef, OldVersion, condition};

pub const CHECKS: &[Check] = &[
    Check {
        code: "DRV-API-001",
        severity: Severity::Blocks,
        scope: Scope::Nodes,
        title: "Somebody asks for an API that the new version does not have",
        consequence: "those clients fail as soon as the API server is upgraded.",
        remedy: "find the client by the audit log or its user agent, and update it; accept the check if it may fail",
        reads: &["DeprecatedRequest", "Node"],
        look: requested,
    },
    Check {
        code: "DRV-API-002",
        severity: Severity::Risks,
        scope: Scope::Nodes,
        title: "An object is written through an API that the new version does not have",
        consequence: "the manifest or chart that it comes from is refused the next time it is applied.",
        remedy: "change apiVersion in the manifest, and apply it again",
        reads: &["Node", "PodDisruptionBudget"],
        look: written,
    },
    Check {
        code: "DRV-API-003",
        severity: Severity::Risks,
        scope: Scope::Everything,
        title: "An aggregated API does not answer",
        consequence: "namespaces are not deleted, garbage is not collected, and clients that ask for all APIs are slow or fail.",
        remedy: "bring its Service back, or delete the APIService if its product is gone",
        reads: &["APIService"],
        look: unavailable,
    },
    Check {
        code: "DRV-API-004",
        severity: Severity::Risks,
        scope: Scope::Everything,
        title: "A definition remembers a version that it no longer has",
        consequence: "the definition cannot be updated: a chart of the upgrade that brings a new one fails.",
        remedy: "write the objects anew in a served version, and take the old one out of status.storedVersions",
        reads: &["CustomResourceDefinition"],
        look: stored,
    },
];

fn requested(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some(target) = intent.kubernetes(cluster) else { return Vec::new() };
    let mut findings = Vec::new();
    for request in cluster.looks.deprecated_requests.iter() {
        let removed = request.removed_release.split_once('.').and_then(|(_, minor)| minor.parse::<u64>().ok());
        if removed.is_some_and(|minor| minor <= target.minor) {
            let group = if request.group.is_empty() { "" } else { &format!("{}/", request.group) };
            let sentence = format!(
                "{}.{group}{} has been asked for, and Kubernetes {} no longer has it",
                request.resource, request.version, request.removed_release
            );
            let remedy = format!(
                "kubectl get --raw /metrics | grep apiserver_requested_deprecated_apis | grep '\"{}\"'",
                request.resource
            );
            findings.push(Finding::new(sentence).remedy(remedy));
        }
    }
    findings
}

fn written(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some(target) = intent.kubernetes(cluster) else { return Vec::new() };
    let finding = |old: &OldVersion| {
        let OldVersion { object, api } = old;
        (api.removed_in <= target.minor).then(|| {
            let sentence = format!(
                "{} is written through {}, which Kubernetes 1.{} no longer has",
                object.in_words(),
                api.api_version,
                api.removed_in
            );
            let remedy = match api.instead {
                "" => "nothing takes its place: remove it from the manifest".to_owned(),
                instead => format!("change apiVersion to {instead} in the manifest, and apply it again"),
            };
            Finding::new(sentence).about([object.clone()]).remedy(remedy)
        })
    };
    cluster.old_versions.iter().filter_map(finding).collect()
}

fn unavailable(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let finding = |service: &ApiService| {
        let available = condition(&service.status.conditions, "Available").filter(|available| !available.is_true())?;
        let name = &service.metadata.name;
        Some(
            Finding::new(format!("APIService {name} is not available: {}", available.message))
                .on(service)
                .remedy(format!("kubectl describe apiservice {name}")),
        )
    };
    cluster.admission.api_services.iter().filter_map(finding).collect()
}

fn stored(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let finding = |definition: &Definition| {
        let has = |version: &str| definition.spec.versions.iter().any(|known| known.name == version);
        let lost: Vec<&str> =
            definition.status.stored_versions.iter().map(String::as_str).filter(|version| !has(version)).collect();
        (!lost.is_empty()).then(|| {
            let name = &definition.metadata.name;
            Finding::new(format!("{name} has objects stored as {}, which it no longer has", some_of(lost)))
                .about([ObjectRef::of(definition)])
        })
    };
    cluster.admission.definitions.iter().filter_map(finding).collect()
}
