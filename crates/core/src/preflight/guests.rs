//! Guest clusters: what an update of a TanzuKubernetesCluster needs, and whether it is there.

use std::collections::BTreeSet;

use drover_api::cluster_api::machine::annotations::UPGRADE_ID;
use drover_api::cluster_api::{labels, secrets};
use drover_api::marks::{HELD, JOB_FAILED, PAUSED};
use drover_api::tanzu::tanzu_kubernetes_cluster::{addon_states, node_states, phases};
use drover_api::tanzu::tanzu_kubernetes_release::{conditions, labels as release_labels};
use drover_api::tanzu::{NAMESPACE, tanzu_kubernetes_cluster::jobs};
use drover_api::vm_operator::virtual_machine_image::annotations::DISTRIBUTION;

use super::certificates::{AN_AUTHORITY_ENDS, of_guest};
use super::versions::Release;
use super::{Asked, Check, Finding, Intent, Scope, Severity};
use crate::cluster::tanzu::{GuestCluster, MachineImage, Pool, Release as Distribution};
use crate::cluster::{Amount, Cluster, ObjectRef, cluster_api, condition};
use crate::guest::begins_with;
use crate::guest::tanzu::{Parts, Reason};
use crate::plan::version::is_lower;

pub const CHECKS: &[Check] = &[
    Check {
        code: "DRV-TKC-001",
        severity: Severity::Blocks,
        scope: Scope::Guests,
        title: "The distribution is not there, or cannot be used",
        consequence: "the update never begins, and the cluster stays at its version.",
        remedy: "choose one of: kubectl get virtualmachineimages",
        reads: &["TanzuKubernetesRelease", "VirtualMachineImage.vmoperator.vmware.com"],
        look: distribution,
    },
    Check {
        code: "DRV-TKC-002",
        severity: Severity::Blocks,
        scope: Scope::Guests,
        title: "The image of the distribution's nodes is missing or tells no versions",
        consequence: "no machine can be made from it: the first new control plane machine never comes.",
        remedy: "synchronise the content library: kubectl get virtualmachineimages",
        reads: &["TanzuKubernetesRelease", "VirtualMachineImage.vmoperator.vmware.com"],
        look: image,
    },
    Check {
        code: "DRV-TKC-003",
        severity: Severity::Blocks,
        scope: Scope::Guests,
        title: "A class of machines or of storage is missing",
        consequence: "new machines are not made, and the update stops with the old ones.",
        remedy: "choose a class that is there: kubectl get virtualmachineclasses,storageclasses",
        reads: &["VirtualMachineClass", "StorageClass"],
        look: classes,
    },
    Check {
        code: "DRV-TKC-004",
        severity: Severity::Blocks,
        scope: Scope::Guests,
        title: "The cluster cannot go from its version to that",
        consequence: "versions may not fall, and minors not be skipped: the update is refused, or kubeadm fails.",
        remedy: "update minor by minor",
        reads: &["TanzuKubernetesCluster"],
        look: path_of_versions,
    },
    Check {
        code: "DRV-TKC-005",
        severity: Severity::Blocks,
        scope: Scope::Guests,
        title: "A Secret of the guest cluster is missing",
        consequence: "new control plane machines cannot join without the authorities; a new authority would cut off all old ones.",
        remedy: "restore it from a backup, or from the bootstrap data of a control plane machine",
        reads: &["Secret"],
        look: secrets_missing,
    },
    Check {
        code: "DRV-TKC-006",
        severity: Severity::Blocks,
        scope: Scope::Guests,
        title: "The control plane has an even number of machines",
        consequence: "etcd needs an odd number of members to bear the loss of one.",
        remedy: "set spec.topology.controlPlane.count to 1, 3 or 5",
        reads: &["TanzuKubernetesCluster"],
        look: even,
    },
    Check {
        code: "DRV-TKC-007",
        severity: Severity::Blocks,
        scope: Scope::Guests,
        title: "An earlier update has failed or is under way",
        consequence: "no further update begins before that one is out of the way.",
        remedy: "read the log of its pods, and delete the Job once the cause is gone",
        reads: &["Job", "TanzuKubernetesCluster"],
        look: earlier_update,
    },
    Check {
        code: "DRV-TKC-008",
        severity: Severity::Blocks,
        scope: Scope::Guests,
        title: "An add-on of the guest cluster is not applied",
        consequence: "the control plane is not updated before all add-ons are.",
        remedy: "look at status.addons of the cluster",
        reads: &["TanzuKubernetesCluster"],
        look: addons,
    },
    Check {
        code: "DRV-TKC-009",
        severity: Severity::Blocks,
        scope: Scope::Guests,
        title: "There is no quota for one machine more",
        consequence: "an update makes a new machine before it deletes an old one: without room it never gets that far.",
        remedy: "raise the quota of the namespace for the time of the update",
        reads: &["ResourceQuota", "VirtualMachineClass"],
        look: surge,
    },
    Check {
        code: "DRV-TKC-010",
        severity: Severity::Risks,
        scope: Scope::Guests,
        title: "Machines carry the mark of another update",
        consequence: "the update takes them for done and ends without having changed them.",
        remedy: "remove the annotation from the Machines",
        reads: &["Machine"],
        look: foreign_mark,
    },
    Check {
        code: "DRV-TKC-011",
        severity: Severity::Blocks,
        scope: Scope::Guests,
        title: "A Machine of the guest cluster is not running",
        consequence: "a machine that is stuck keeps its place in etcd and in the quota, and the update waits for it.",
        remedy: "find out what holds it: kubectl describe machine",
        reads: &["Machine"],
        look: machines,
    },
    Check {
        code: "DRV-TKC-012",
        severity: Severity::Blocks,
        scope: Scope::Guests,
        title: "The cluster or its workers are paused",
        consequence: "neither the control plane nor workers are begun before the pause ends.",
        remedy: "end the pause",
        reads: &["TanzuKubernetesCluster", "MachineDeployment"],
        look: paused,
    },
    Check {
        code: "DRV-TKC-013",
        severity: Severity::Blocks,
        scope: Scope::Guests,
        title: "The API of the guest cluster does not answer",
        consequence: "add-ons cannot be applied, and the control plane is not updated before they are.",
        remedy: "look at the machines of the control plane, at its load balancer, and at the kubeconfig in the Secret that is named",
        reads: &["TanzuKubernetesCluster"],
        look: silent,
    },
    Check {
        code: "DRV-TKC-014",
        scope: Scope::Guests,
        reads: &["TanzuKubernetesCluster", "Secret", "SecretContents"],
        look: authorities,
        ..AN_AUTHORITY_ENDS
    },
];

/// What keeps an update that is asked for from beginning, or from getting far: each with what helps in general, and whether it is for
/// want of room. What cannot be seen is left out.
pub(crate) fn hindrances(cluster: &Cluster, guest: &GuestCluster) -> Vec<(Finding, &'static str, bool)> {
    const ROOM: &str = "DRV-TKC-009";
    // What the cluster itself asks for comes before what is not there for it.
    const ASKED: [&str; 6] = ["DRV-TKC-004", "DRV-TKC-006", "DRV-TKC-001", "DRV-TKC-002", "DRV-TKC-003", ROOM];
    let intent = Intent::guest(guest.clone());
    let is_seen = |check: &&Check| check.reads.iter().all(|kind| cluster.blind_to(kind).is_none());
    let found = |check: &Check| {
        let (remedy, of_room) = (check.remedy, check.code == ROOM);
        (check.look)(cluster, &intent).into_iter().map(move |finding| (finding, remedy, of_room))
    };
    let asked = ASKED.iter().filter_map(|code| CHECKS.iter().find(|check| check.code == *code));
    asked.filter(is_seen).flat_map(found).collect()
}

fn guest(intent: &Intent) -> Option<&GuestCluster> {
    match &intent.asked {
        Asked::Guest(guest) => Some(guest),
        _ => None,
    }
}

/// The version that is asked for: in full, or the newest that begins as the hint does. Before releases were objects of their own, the images alone
/// stood for distributions.
pub(crate) fn wanted<'a>(cluster: &'a Cluster, guest: &'a GuestCluster) -> Option<&'a str> {
    let asked = &guest.spec.distribution;
    if !asked.full_version.is_empty() {
        return Some(&asked.full_version);
    }
    let begins = |version: &&str| !asked.version.is_empty() && begins_with(version, &asked.version);
    let of_releases = cluster.tanzu.releases.iter().map(|release| release.spec.version.as_str());
    let of_images = cluster.tanzu.images.iter().map(|image| image.spec.product_info.full_version.as_str());
    let mut fitting: Vec<&str> = of_releases.chain(of_images).filter(begins).collect();
    fitting.sort_by(
        |one, other| if is_lower(one, other) { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater },
    );
    fitting.pop()
}

fn release_of<'a>(cluster: &'a Cluster, version: &str) -> Option<&'a Distribution> {
    let plain = version.trim_start_matches('v');
    cluster.tanzu.releases.iter().find(|release| release.spec.version.trim_start_matches('v') == plain)
}

/// Images name their version; in names `+` is written as `---`.
fn image_of<'a>(cluster: &'a Cluster, version: &str, release: Option<&Distribution>) -> Option<&'a MachineImage> {
    let named = release.map(|release| release.spec.node_image_ref.name.as_str()).filter(|name| !name.is_empty());
    let munged = version.replace('+', "---");
    cluster.tanzu.images.iter().find(|image| match named {
        Some(name) => image.metadata.name == name,
        None => image.spec.product_info.full_version == version || image.metadata.name.contains(&munged),
    })
}

fn distribution(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some(guest) = guest(intent) else { return Vec::new() };
    let Some(version) = wanted(cluster, guest) else {
        let sentence = match guest.spec.distribution.version.as_str() {
            "" => "neither spec.distribution.fullVersion nor version is given".to_owned(),
            hint => format!("no distribution begins with {hint}"),
        };
        return vec![Finding::new(sentence).on(guest)];
    };
    // Before releases were objects of their own, the image alone stood for a distribution.
    let Some(release) = release_of(cluster, version) else {
        let known = image_of(cluster, version, None).is_some();
        let sentence = format!("there is no distribution {version}");
        return if known { Vec::new() } else { vec![Finding::new(sentence).on(guest)] };
    };
    let incompatible =
        condition(&release.status.conditions, conditions::COMPATIBLE).filter(|one| one.status == "False");
    let retired = [release_labels::INCOMPATIBLE, release_labels::DEACTIVATED, release_labels::DELETED];
    let retired = retired.into_iter().find(|label| release.metadata.labels.contains_key(*label));
    let why = incompatible.map(|one| one.message.clone()).or_else(|| retired.map(|label| format!("it is {label}")));
    let finding = |why: String| Finding::new(format!("distribution {version} cannot be used: {why}")).on(release);
    why.map(finding).into_iter().collect()
}

fn image(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some(guest) = guest(intent) else { return Vec::new() };
    let Some(version) = wanted(cluster, guest) else { return Vec::new() };
    let release = release_of(cluster, version);
    match image_of(cluster, version, release) {
        None => vec![Finding::new(format!("there is no VirtualMachineImage for {version}")).on(guest)],
        Some(image) if !image.metadata.annotations.contains_key(DISTRIBUTION) => {
            vec![Finding::new(format!("image {} has no annotation {DISTRIBUTION}", image.metadata.name)).on(image)]
        }
        Some(image) => {
            let said = image.metadata.annotations.get(DISTRIBUTION).map(String::as_str).unwrap_or_default();
            let broken = |why: String| {
                let name = &image.metadata.name;
                Finding::new(format!("image {name}, annotation {DISTRIBUTION}: {why}")).on(image)
            };
            Parts::read(said, &of(image, version)).err().map(broken).into_iter().collect()
        }
    }
}

/// The distribution that an image says it is of; where it does not say so, the one that it was found for.
fn of(image: &MachineImage, version: &str) -> String {
    let own = image.spec.product_info.full_version.as_str();
    if own.is_empty() { version.to_owned() } else { own.to_owned() }
}

fn paused(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some(guest) = guest(intent) else { return Vec::new() };
    let (namespace, name) = (&guest.metadata.namespace, &guest.metadata.name);
    let mut findings = Vec::new();
    if guest.metadata.annotations.get(PAUSED).is_some_and(|value| value != "false") {
        let finding = Finding::new(format!("the cluster carries {PAUSED}")).on(guest);
        findings.push(finding.remedy(format!("drover upgrade resume tkc/{namespace}/{name}")));
    }
    let of_it = cluster.cluster_api.deployments_of(namespace, name);
    // A pause of Drover's own goes when it is let go on.
    for one in of_it.filter(|one| one.spec.paused && !one.metadata.annotations.contains_key(HELD)) {
        let finding = Finding::new(format!("spec.paused of MachineDeployment {} is true", one.metadata.name)).on(one);
        findings.push(finding.remedy("set it to false, if nobody needs it"));
    }
    findings
}

/// Nodes are told of when the guest has answered.
fn silent(_: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some(guest) = guest(intent) else { return Vec::new() };
    let nodes = &guest.status.node_status;
    let known = || nodes.values().filter(|state| *state != node_states::PENDING);
    if known().count() == 0 || known().any(|state| state != node_states::UNKNOWN) {
        return Vec::new();
    }
    let (namespace, name) = (&guest.metadata.namespace, &guest.metadata.name);
    let secret = ObjectRef::new("Secret", namespace, &format!("{name}{}", secrets::KUBECONFIG));
    let sentence =
        "of no Node in status.nodeStatus is it known how it is: the API of the guest cluster does not answer";
    vec![Finding::new(sentence).on(guest).about([secret])]
}

fn pools(guest: &GuestCluster) -> [(&'static str, &Pool); 2] {
    [("controlPlane", &guest.spec.topology.control_plane), ("workers", &guest.spec.topology.workers)]
}

fn classes(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some(guest) = guest(intent) else { return Vec::new() };
    let mut missing = BTreeSet::new();
    for (_, pool) in pools(guest).into_iter().filter(|(_, pool)| pool.count > 0) {
        if cluster.tanzu.classes.named(&pool.class).is_none() {
            missing.insert(("VirtualMachineClass", pool.class.as_str()));
        }
        if cluster.storage_classes.named(&pool.storage_class).is_none() {
            missing.insert(("StorageClass", pool.storage_class.as_str()));
        }
    }
    // Those of the guest lead to those of the same name here.
    let storage = &guest.spec.settings.storage;
    let named = storage.classes.iter().chain([&storage.default_class]).filter(|name| !name.is_empty());
    missing.extend(
        named.filter(|name| cluster.storage_classes.named(name).is_none()).map(|name| ("StorageClass", name.as_str())),
    );
    let finding = |(kind, name): (&str, &str)| {
        Finding::new(format!("there is no {kind} \"{name}\"")).on(guest).about([ObjectRef::new(kind, "", name)])
    };
    missing.into_iter().map(finding).collect()
}

fn path_of_versions(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some(guest) = guest(intent) else { return Vec::new() };
    let (Some(to), from) = (wanted(cluster, guest), &guest.status.version) else { return Vec::new() };
    let (Some(target), Some(current)) = (Release::parse(to), Release::parse(from)) else { return Vec::new() };
    let problem = match (target.major == current.major, target.minor) {
        _ if is_lower(to, from) => "a version may not fall",
        (false, _) => "the major version is fixed",
        (true, minor) if minor > current.minor + 1 => "minors may not be skipped",
        _ => return Vec::new(),
    };
    vec![Finding::new(format!("from {from} to {to}: {problem}")).on(guest)]
}

fn secrets_missing(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some(guest) = guest(intent) else { return Vec::new() };
    // Before a cluster has come up it has none.
    if guest.status.version.is_empty() {
        return Vec::new();
    }
    missing_secrets(cluster, &guest.metadata.namespace, &guest.metadata.name)
}

/// The authorities of a cluster, and the way to it.
pub fn missing_secrets(cluster: &Cluster, namespace: &str, name: &str) -> Vec<Finding> {
    let ends = [secrets::CA, secrets::ETCD, secrets::PROXY, secrets::SERVICE_ACCOUNT, secrets::KUBECONFIG];
    let names = ends.into_iter().map(|end| format!("{name}{end}"));
    let missing = names.filter(|secret| cluster.secrets.get(namespace, secret).is_none());
    let finding = |secret: String| {
        Finding::new(format!("secrets \"{secret}\" not found in namespace {namespace}"))
            .about([ObjectRef::new("Secret", namespace, &secret)])
    };
    missing.map(finding).collect()
}

fn authorities(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    guest(intent).map_or_else(Vec::new, |guest| of_guest(cluster, &guest.metadata.namespace, &guest.metadata.name))
}

fn even(_: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some(guest) = guest(intent) else { return Vec::new() };
    let count = guest.spec.topology.control_plane.count;
    if count % 2 == 1 {
        return Vec::new();
    }
    vec![Finding::new(format!("spec.topology.controlPlane.count is {count}, which is not odd")).on(guest)]
}

fn earlier_update(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some(guest) = guest(intent) else { return Vec::new() };
    let of_guest = |job: &&crate::cluster::Job| {
        job.metadata.name.starts_with(jobs::NAME_PREFIX)
            && job.metadata.labels.get(labels::CLUSTER_NAME) == Some(&guest.metadata.name)
    };
    let unfinished = cluster.jobs.in_namespace(NAMESPACE).filter(of_guest).filter(|job| !job.is_complete());
    let mut findings: Vec<Finding> = unfinished
        .map(|job| {
            let name = &job.metadata.name;
            let has_failed = job.failure().is_some() || job.metadata.annotations.contains_key(JOB_FAILED);
            let state = if has_failed { "has failed" } else { "is under way" };
            Finding::new(format!("Job {NAMESPACE}/{name} {state}")).on(job).remedy(format!(
                "kubectl -n {NAMESPACE} logs -l job-name={name}; then, if it has failed: kubectl -n {NAMESPACE} delete job {name}"
            ))
        })
        .collect();
    let phase = guest.status.phase.as_str();
    // Something else that is asked for is how a refusal is mended.
    let refused = guest.status.waits.iter().filter(|wait| REFUSALS.iter().any(|one| wait.reason == one.to_string()));
    let is_refused = phase != phases::DELETING && refused.count() == guest.status.waits.len().max(1);
    if findings.is_empty() && !is_refused && [phases::FAILED, phases::UPDATE_FAILED, phases::DELETING].contains(&phase)
    {
        findings.push(Finding::new(format!("the cluster is in phase {phase}")).on(guest));
    }
    findings
}

/// Why what is asked for is not done, where that alone is to be changed.
const REFUSALS: [Reason; 5] =
    [Reason::VersionUnknown, Reason::VersionRefused, Reason::ImageInvalid, Reason::ClassMissing, Reason::CountRefused];

fn addons(_: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some(guest) = guest(intent) else { return Vec::new() };
    let waiting = guest
        .status
        .addons
        .iter()
        .filter(|(_, addon)| ![addon_states::APPLIED, addon_states::UNMANAGED].contains(&addon.status.as_str()));
    let finding = |(kind, addon): (&String, &crate::cluster::tanzu::AddonStatus)| {
        let name = if addon.name.is_empty() { kind } else { &addon.name };
        let said = match addon.last_error_message.as_str() {
            "" => String::new(),
            said => format!(": {said}"),
        };
        let state = if addon.status.is_empty() { "unknown" } else { &addon.status };
        Finding::new(format!("add-on {name} is {state}{said}")).on(guest)
    };
    waiting.map(finding).collect()
}

fn surge(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some(guest) = guest(intent) else { return Vec::new() };
    let mut largest = [Amount::ZERO; 2];
    for (_, pool) in pools(guest).into_iter().filter(|(_, pool)| pool.count > 0) {
        let Some(class) = cluster.tanzu.classes.named(&pool.class) else { continue };
        let memory = Amount::parse(&class.spec.hardware.memory).unwrap_or(Amount::ZERO);
        largest = [largest[0].max(Amount::of(class.spec.hardware.cpus)), largest[1].max(memory)];
    }
    let mut findings = Vec::new();
    for quota in cluster.admission.quotas.in_namespace(&guest.metadata.namespace) {
        for (resource, needed) in ["cpu", "memory"].into_iter().zip(largest) {
            for key in [resource.to_owned(), format!("requests.{resource}"), format!("limits.{resource}")] {
                let Some(hard) = quota.status.hard.get(&key).copied() else { continue };
                let used = quota.status.used.get(&key).copied().unwrap_or(Amount::ZERO);
                let left = hard.minus(used);
                if needed > left {
                    let sentence = format!(
                        "quota {}/{} has {} of {key} left, and one machine more needs {}",
                        quota.metadata.namespace,
                        quota.metadata.name,
                        left.shown(resource),
                        needed.shown(resource)
                    );
                    findings.push(Finding::new(sentence).on(quota));
                }
            }
        }
    }
    findings
}

fn foreign_mark(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some(guest) = guest(intent) else { return Vec::new() };
    let all = cluster.cluster_api.machines_of(&guest.metadata.namespace, &guest.metadata.name);
    let marked: Vec<_> = all.filter(|machine| machine.metadata.annotations.contains_key(UPGRADE_ID)).collect();
    let target = wanted(cluster, guest).and_then(Release::parse);
    // Machines that have the version already may well carry the mark of how they got it.
    let outdated =
        marked.into_iter().filter(|machine| target.is_some() && Release::parse(&machine.spec.version) != target);
    let finding = |machine: &cluster_api::Machine| {
        let name = &machine.metadata.name;
        Finding::new(format!("machine {name} carries {UPGRADE_ID} of another update"))
            .on(machine)
            .remedy(format!("kubectl -n {} annotate machine {name} {UPGRADE_ID}-", machine.metadata.namespace))
    };
    outdated.map(finding).collect()
}

fn machines(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let Some(guest) = guest(intent) else { return Vec::new() };
    not_running(cluster, &guest.metadata.namespace, &guest.metadata.name)
}

/// The Machines of a cluster that do not run.
pub fn not_running(cluster: &Cluster, namespace: &str, name: &str) -> Vec<Finding> {
    let idle = cluster
        .cluster_api
        .machines_of(namespace, name)
        .filter(|machine| !machine.status.phase.eq_ignore_ascii_case("running"));
    let finding = |machine: &cluster_api::Machine| {
        let status = &machine.status;
        let said = [&status.failure_message, &status.error_message].into_iter().find(|said| !said.is_empty());
        let why = said.map(|said| format!(": {said}")).unwrap_or_default();
        let phase = if status.phase.is_empty() { "unknown" } else { &status.phase };
        Finding::new(format!("machine {namespace}/{} is not running, but {phase}{why}", machine.metadata.name))
            .on(machine)
            .remedy(format!("kubectl -n {namespace} describe machine {}", machine.metadata.name))
    };
    idle.map(finding).collect()
}
