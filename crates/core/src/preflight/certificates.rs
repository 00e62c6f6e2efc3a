//! Certificates that would end during the upgrade, or soon after.

use drover_api::cluster_api::secrets;
use drover_api::harvester::CATTLE_NAMESPACE;
use drover_api::harvester::upgrade::annotations;
use jiff::{SignedDuration, Timestamp};

use super::{Check, Finding, Intent, Scope, Severity};
use crate::cluster::{Cluster, ObjectRef, Projection};

/// As Harvester wants it, unless an annotation says otherwise.
const DAYS: i64 = 7;
const MONTH: i64 = 30;
/// An authority takes longer to replace: everybody has to learn of the new one first.
const QUARTER: i64 = 90;

/// What is said of the authorities of guest clusters, whoever keeps these: each of the two kinds looks for itself.
pub(super) const AN_AUTHORITY_ENDS: Check = Check {
    code: "",
    severity: Severity::Blocks,
    scope: Scope::Guests,
    title: "An authority of the guest cluster ends soon",
    consequence: "when it has ended, no machine trusts another any more, new ones too: an update makes none anew. Within three months \
                  it is a risk, within a week it blocks.",
    remedy: "replace the authorities by hand, as Kubernetes describes it (manual rotation of CA certificates), before the update",
    reads: &[],
    look: |_, _| Vec::new(),
};

pub const CHECKS: &[Check] = &[
    Check {
        code: "DRV-CERT-001",
        severity: Severity::Blocks,
        scope: Scope::Nodes,
        title: "The certificate of an API server ends within days",
        consequence: "once it has ended nothing can talk to the cluster, and agents do not apply what Rancher plans.",
        remedy: "rotate the certificates: rke2 certificate rotate, k3s certificate rotate, or kubeadm certs renew all",
        reads: &["ServerCertificate"],
        look: servers,
    },
    Check {
        code: "DRV-CERT-002",
        severity: Severity::Risks,
        scope: Scope::Nodes,
        title: "The certificate of an API server ends within a month",
        consequence: "an upgrade that takes longer than planned meets its end.",
        remedy: "rotate the certificates before: rke2 certificate rotate, k3s certificate rotate, or kubeadm certs renew all",
        reads: &["ServerCertificate"],
        look: servers_soon,
    },
    Check {
        code: "DRV-CERT-003",
        severity: Severity::Risks,
        scope: Scope::Nodes,
        title: "The certificate of a kubelet ends within days",
        consequence: "logs, exec and metrics of the node fail, and what the upgrade asks of the kubelet.",
        remedy: "restart the kubelet, or approve its request for a certificate: kubectl get csr",
        reads: &["KubeletCertificate"],
        look: kubelets,
    },
    Check {
        code: "DRV-CERT-004",
        severity: Severity::Blocks,
        scope: Scope::Harvester,
        title: "A certificate of Rancher ends within days",
        consequence: "the agents on the nodes no longer trust Rancher: plans are not applied and nodes stay at \"Pre-drained\".",
        remedy: "delete the Secret and restart Rancher, which makes it anew",
        reads: &["Secret", "SecretContents"],
        look: rancher,
    },
    Check {
        code: "DRV-CERT-005",
        severity: Severity::Risks,
        scope: Scope::Nodes,
        title: "A node warns that its certificates end",
        consequence: "its services stop to talk to each other when they do: probes never get healthy, and the upgrade waits for them.",
        remedy: "restart RKE2 or k3s on the node within 90 days of their end, which renews them",
        reads: &["Event"],
        look: warned,
    },
];

fn servers(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let asked = intent.annotation(annotations::MIN_CERTIFICATE_DAYS).and_then(|days| days.parse().ok());
    let days = asked.filter(|days| *days > 0).unwrap_or(DAYS);
    let all = cluster.looks.certificates.iter().filter_map(|one| Some((one.not_after?, one)));
    let Some((end, first)) = all.min_by_key(|(end, _)| *end) else { return Vec::new() };
    if !ends_within(cluster, end, days) {
        return Vec::new();
    }
    let left = days_left(cluster, end);
    let sentence = format!(
        "earliest expiring cert for default/kubernetes ClusterIP is {end}, it will expire in {left} days. Please rotate RKE2 certificates."
    );
    vec![Finding::new(sentence).on(first)]
}

fn servers_soon(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    if !servers(cluster, intent).is_empty() {
        return Vec::new();
    }
    let ends = cluster.looks.certificates.iter().filter_map(|one| Some((one, one.not_after?)));
    ending(cluster, ends, MONTH, "the API server at")
}

fn kubelets(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let ends = cluster.looks.kubelet_certificates.iter().filter_map(|one| Some((one, one.not_after?)));
    ending(cluster, ends, DAYS, "the kubelet of node")
}

fn ending<'a, T: Projection + 'a>(
    cluster: &Cluster,
    ends: impl Iterator<Item = (&'a T, Timestamp)>,
    days: i64,
    whose: &str,
) -> Vec<Finding> {
    let ending = ends.filter(|(_, end)| ends_within(cluster, *end, days));
    let finding = |(one, end): (&T, Timestamp)| {
        let name = &one.metadata().name;
        let sentence = format!("the certificate of {whose} {name} ends on {end}, in {} days", days_left(cluster, end));
        Finding::new(sentence).on(one)
    };
    ending.map(finding).collect()
}

fn rancher(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let mut findings = Vec::new();
    for ((namespace, name), contents) in &cluster.contents {
        if namespace != CATTLE_NAMESPACE {
            continue;
        }
        if let Some(Ok(end)) = &contents.certificate
            && ends_within(cluster, *end, DAYS)
        {
            let remedy = format!(
                "kubectl -n {namespace} delete secret {name} && kubectl -n {namespace} rollout restart deployment rancher"
            );
            findings.push(in_secret(cluster, namespace, name, *end).remedy(remedy));
        }
    }
    findings
}

fn in_secret(cluster: &Cluster, namespace: &str, name: &str, end: Timestamp) -> Finding {
    let left = days_left(cluster, end);
    let sentence = format!("the certificate in secret {namespace}/{name} ends on {end}, in {left} days");
    Finding::new(sentence).about([ObjectRef::new("Secret", namespace, name)])
}

/// The authorities of a guest cluster that end soon, or cannot be read. There is time to replace one while the others still trust it.
pub fn of_guest(cluster: &Cluster, namespace: &str, name: &str) -> Vec<Finding> {
    let authorities = [secrets::CA, secrets::ETCD, secrets::PROXY].map(|end| format!("{name}{end}"));
    let look =
        |secret: String| match cluster.contents.get(&(namespace.to_owned(), secret.clone()))?.certificate.as_ref()? {
            Ok(end) if ends_within(cluster, *end, DAYS) => Some(in_secret(cluster, namespace, &secret, *end)),
            Ok(end) if ends_within(cluster, *end, QUARTER) => {
                Some(Finding { milder: Some(Severity::Risks), ..in_secret(cluster, namespace, &secret, *end) })
            }
            Ok(_) => None,
            Err(why) => {
                let sentence = format!("the certificate in secret {namespace}/{secret} cannot be read: {why}");
                Some(Finding::new(sentence).about([ObjectRef::new("Secret", namespace, &secret)]))
            }
        };
    authorities.into_iter().filter_map(look).collect()
}

fn warned(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let warnings = cluster.events.iter().filter(|event| event.reason == "CertificateExpirationWarning");
    let finding = |event: &crate::cluster::Event| {
        let node = &event.involved_object.name;
        Finding::new(format!("node {node}: {}", event.message)).about([ObjectRef::new("Node", "", node)])
    };
    warnings.map(finding).collect()
}

fn ends_within(cluster: &Cluster, end: Timestamp, days: i64) -> bool {
    end.duration_since(cluster.looked_at) < SignedDuration::from_hours(24 * days)
}

/// Whole days; below nothing for what has ended.
fn days_left(cluster: &Cluster, end: Timestamp) -> i64 {
    end.duration_since(cluster.looked_at).as_hours().div_euclid(24)
}
