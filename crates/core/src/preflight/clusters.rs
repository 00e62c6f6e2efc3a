//! Clusters of Cluster API: is the control plane well, and is there what new machines are made from?

use drover_api::cluster_api::PAUSED;
use jiff::SignedDuration;

use super::certificates::{AN_AUTHORITY_ENDS, of_guest};
use super::guests::{missing_secrets, not_running};
use super::versions::Release;
use super::{Asked, Check, Finding, Intent, Scope, Severity, path};
use crate::cluster::cluster_api::{Cluster as Cluster_, MachineDeployment, Reference, is_paused};
use crate::cluster::{Cluster, ObjectRef, Projection};
use crate::guest::may_lag;
use crate::why;

pub const CHECKS: &[Check] = &[
    Check {
        code: "DRV-CAPI-001",
        severity: Severity::Blocks,
        scope: Scope::ClusterApi,
        title: "The cluster or a part of it is paused",
        consequence: "Cluster API does nothing for what is paused: the upgrade never begins, or stops half-way.",
        remedy: "un-pause it",
        reads: &["Cluster", "KubeadmControlPlane", "MachineDeployment"],
        look: paused,
    },
    Check {
        code: "DRV-CAPI-002",
        severity: Severity::Blocks,
        scope: Scope::ClusterApi,
        title: "The control plane is not well",
        consequence: "Cluster API replaces no machine of a control plane whose etcd or components are not healthy.",
        remedy: "look at the conditions of the control plane",
        reads: &["KubeadmControlPlane"],
        look: unwell,
    },
    Check {
        code: "DRV-CAPI-003",
        severity: Severity::Blocks,
        scope: Scope::ClusterApi,
        title: "A template of machines is missing",
        consequence: "no new machine can be made: the upgrade stops at the first.",
        remedy: "create the template, or name one that is there",
        reads: &["KubeadmControlPlane", "MachineDeployment", "MachineTemplate"],
        look: template_missing,
    },
    Check {
        code: "DRV-CAPI-004",
        severity: Severity::Blocks,
        scope: Scope::ClusterApi,
        title: "Control plane and workers are too far apart",
        consequence: "a worker may be up to three minor versions older than the control plane (two before Kubernetes 1.28) and never newer; the control plane rises one minor at a time.",
        remedy: "upgrade step by step, the control plane first",
        reads: &["Cluster", "KubeadmControlPlane", "MachineDeployment"],
        look: skew,
    },
    Check {
        code: "DRV-CAPI-005",
        severity: Severity::Risks,
        scope: Scope::ClusterApi,
        title: "A rollout is under way",
        consequence: "another change on top of it makes machines that are replaced at once.",
        remedy: "wait until it is done",
        reads: &["MachineDeployment", "KubeadmControlPlane"],
        look: rolling,
    },
    Check {
        code: "DRV-CAPI-006",
        severity: Severity::Blocks,
        scope: Scope::ClusterApi,
        title: "A Machine of the cluster is not running",
        consequence: "Cluster API waits for it before it goes on with the next.",
        remedy: "find out what holds it: kubectl describe machine",
        reads: &["Machine"],
        look: machines,
    },
    Check {
        code: "DRV-CAPI-007",
        severity: Severity::Blocks,
        scope: Scope::ClusterApi,
        title: "A Secret of the cluster is missing",
        consequence: "new machines cannot join without the authorities, and Cluster API makes no new ones.",
        remedy: "restore it from a backup",
        reads: &["Secret", "KubeadmControlPlane"],
        look: secrets,
    },
    Check {
        code: "DRV-CAPI-008",
        severity: Severity::Risks,
        scope: Scope::ClusterApi,
        title: "The certificates of a control plane machine end within a month",
        consequence: "an upgrade that takes longer than planned meets their end.",
        remedy: "let the control plane be rolled out before (certificatesExpiryDays in spec.rollout.before of the KubeadmControlPlane, in v1beta1 in spec.rolloutBefore)",
        reads: &["Machine"],
        look: certificates,
    },
    Check {
        code: "DRV-CAPI-009",
        scope: Scope::ClusterApi,
        reads: &["KubeadmControlPlane", "Secret", "SecretContents"],
        look: authorities,
        ..AN_AUTHORITY_ENDS
    },
];

fn asked(intent: &Intent) -> Option<&Cluster_> {
    match &intent.asked {
        Asked::Cluster(cluster) => Some(cluster),
        _ => None,
    }
}

fn deployments<'a>(cluster: &'a Cluster, own: &'a Cluster_) -> impl Iterator<Item = &'a MachineDeployment> {
    cluster.cluster_api.deployments_of(&own.metadata.namespace, &own.metadata.name)
}

fn paused(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some(own) = asked(intent) else { return Vec::new() };
    let plane = cluster.cluster_api.control_plane_of(own).filter(|plane| is_paused(&plane.metadata));
    let whole = own.is_paused().then(|| pause(own, "cluster", "cluster"));
    let plane = plane.map(|plane| pause(plane, "control plane", "kubeadmcontrolplane"));
    let workers = deployments(cluster, own).filter(|deployment| deployment.is_paused());
    let workers = workers.map(|deployment| pause(deployment, "machine deployment", "machinedeployment"));
    whole.into_iter().chain(plane).chain(workers).collect()
}

fn pause<T: Projection>(object: &T, what: &str, kind: &str) -> Finding {
    let how = if is_paused(object.metadata()) { format!(" ({PAUSED})") } else { String::new() };
    let remedy = why::paused(object, kind).remedy.unwrap_or_default();
    Finding::new(format!("{what} {} is paused{how}", path(object))).on(object).remedy(remedy)
}

fn unwell(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    const HEALTH: [&str; 7] = [
        "Available",
        "EtcdClusterHealthy",
        "EtcdClusterHealthyCondition",
        "ControlPlaneComponentsHealthy",
        "CertificatesAvailable",
        "MachinesReady",
        "Remediating",
    ];
    let Some(own) = asked(intent) else { return Vec::new() };
    let Some(plane) = cluster.cluster_api.control_plane_of(own) else { return Vec::new() };
    let mut findings = Vec::new();
    for kind in HEALTH {
        // One of them is bad when it is true.
        let bad = if kind == "Remediating" { "True" } else { "False" };
        if let Some(condition) = plane.condition(kind).filter(|condition| condition.status == bad) {
            let sentence = format!("control plane {}: {kind} is {bad}: {}", path(plane), condition.said());
            findings.push(Finding::new(sentence).on(plane).remedy(format!(
                "kubectl -n {} describe kubeadmcontrolplane {}",
                plane.metadata.namespace, plane.metadata.name
            )));
        }
    }
    findings
}

fn template_missing(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some(own) = asked(intent) else { return Vec::new() };
    let namespace = &own.metadata.namespace;
    let mut findings = Vec::new();
    let mut look = |reference: &Reference, who: String| {
        // Where machines are described in full, there is no template to miss.
        if reference.name.is_empty() || !reference.kind.ends_with("Template") {
            return;
        }
        let object = ObjectRef::new(&reference.kind, namespace, &reference.name);
        let is_unseen = cluster.unseen.iter().any(|unseen| unseen.object.as_ref() == Some(&object));
        if !is_unseen && !cluster.templates.contains(&object) {
            let sentence = format!("{who} names {}, which does not exist", object.in_words());
            findings.push(Finding::new(sentence).about([object]));
        }
    };
    if let Some(plane) = cluster.cluster_api.control_plane_of(own) {
        look(plane.spec.machine_template.infrastructure(), format!("control plane {}", path(plane)));
    }
    for deployment in deployments(cluster, own) {
        let spec = &deployment.spec.template.spec;
        look(&spec.infrastructure_ref, format!("machine deployment {}", path(deployment)));
        look(&spec.bootstrap.config_ref, format!("machine deployment {}", path(deployment)));
    }
    findings
}

fn skew(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some(own) = asked(intent) else { return Vec::new() };
    let Some(plane) = cluster.cluster_api.control_plane_of(own) else { return Vec::new() };
    let wanted = own.spec.topology.as_ref().map_or(plane.spec.version.as_str(), |topology| topology.version.as_str());
    let (Some(target), current) = (Release::parse(wanted), Release::parse(&plane.status.version)) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    if let Some(current) = current {
        let problem = match target.minor {
            _ if target < current => Some("a control plane cannot go back"),
            minor if minor > current.minor + 1 => Some("minors may not be skipped"),
            _ => None,
        };
        findings.extend(problem.map(|problem| {
            Finding::new(format!("control plane {} from {current} to {target}: {problem}", path(plane))).on(plane)
        }));
    }
    for deployment in deployments(cluster, own) {
        let Some(version) = Release::parse(&deployment.spec.template.spec.version) else { continue };
        let may_lag = may_lag(target.minor);
        let problem = match version.minor {
            minor if minor > target.minor => "newer than the control plane would be".to_owned(),
            minor if minor + may_lag < target.minor => format!("more than {may_lag} minor versions behind"),
            _ => continue,
        };
        let sentence = format!("machine deployment {} is {version}, {problem} ({target})", path(deployment));
        findings.push(Finding::new(sentence).on(deployment));
    }
    findings
}

fn rolling(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some(own) = asked(intent) else { return Vec::new() };
    let finding = |deployment: &MachineDeployment| {
        let status = &deployment.status;
        let (wanted, updated) = (deployment.wanted(), deployment.updated());
        let done = updated >= wanted && status.available_replicas >= wanted && status.replicas == wanted;
        (!done).then(|| {
            let sentence = format!(
                "machine deployment {} is being rolled out: {} of {wanted} machines are up to date, {} available",
                path(deployment),
                updated,
                status.available_replicas
            );
            Finding::new(sentence).on(deployment)
        })
    };
    deployments(cluster, own).filter_map(finding).collect()
}

fn machines(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some(own) = asked(intent) else { return Vec::new() };
    not_running(cluster, &own.metadata.namespace, &own.metadata.name)
}

fn secrets(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some(own) = asked(intent) else { return Vec::new() };
    // Other providers of control planes keep their authorities elsewhere.
    match cluster.cluster_api.control_plane_of(own) {
        Some(_) => missing_secrets(cluster, &own.metadata.namespace, &own.metadata.name),
        None => Vec::new(),
    }
}

fn authorities(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    asked(intent).map_or_else(Vec::new, |own| of_guest(cluster, &own.metadata.namespace, &own.metadata.name))
}

fn certificates(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    const SOON: SignedDuration = SignedDuration::from_hours(30 * 24);
    let Some(own) = asked(intent) else { return Vec::new() };
    let all = cluster.cluster_api.machines_of(&own.metadata.namespace, &own.metadata.name);
    let ending = all.filter_map(|machine| Some((machine, machine.status.certificates_expiry_date?)));
    let ending = ending.filter(|(_, end)| end.duration_since(cluster.looked_at) < SOON);
    let finding = |(machine, end): (&crate::cluster::cluster_api::Machine, jiff::Timestamp)| {
        Finding::new(format!("the certificates of machine {} end on {end}", path(machine))).on(machine)
    };
    ending.map(finding).collect()
}
