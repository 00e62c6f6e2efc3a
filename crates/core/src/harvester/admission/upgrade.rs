//! Upgrades: created, changed, deleted.

use std::collections::{BTreeMap, BTreeSet};

use drover_api::cluster_api::cluster::phases;
use drover_api::harvester::FLEET_NAMESPACE;
use drover_api::harvester::upgrade::{annotations, cleanup, conditions, labels, states};
use drover_api::marks::HELD;
use drover_api::rancher::provisioning_cluster::LOCAL;

use super::Verdict;
use super::codes::{BAD_REQUEST, CONFLICT, INTERNAL, INVALID};
use crate::cluster::harvester::Upgrade;
use crate::cluster::{Cluster, LOOKS, Unseen, condition};
use crate::harvester::progress::Progress;
use crate::preflight::{self, Check, Finding, Intent, catalogue};

/// A check of the catalogue, and the code of its refusals.
struct Gate {
    check: &'static str,
    code: u16,
    /// Only findings about objects of this kind count: others are no reason to refuse.
    only: Option<&'static str>,
}

const fn gate(check: &'static str, code: u16) -> Gate {
    Gate { check, code, only: None }
}

/// Whether the cluster `fleet-local/local` is provisioned.
const PROVISIONED: &str = "DRV-UPG-006";

/// What no annotation lifts.
const ALWAYS: [Gate; 3] =
    [gate("DRV-UPG-001", BAD_REQUEST), gate("DRV-UPG-002", CONFLICT), gate("DRV-UPG-003", CONFLICT)];

/// In the order in which Harvester looks.
const UNLESS_SKIPPED: [Gate; 20] = [
    gate("DRV-UPG-004", BAD_REQUEST),
    gate("DRV-UPG-005", BAD_REQUEST),
    gate("DRV-VOL-001", BAD_REQUEST),
    gate(PROVISIONED, BAD_REQUEST),
    Gate { only: Some("VirtualMachineBackup"), ..gate("DRV-VOL-007", BAD_REQUEST) },
    gate("DRV-VOL-008", BAD_REQUEST),
    gate("DRV-CHART-001", BAD_REQUEST),
    gate("DRV-CHART-004", BAD_REQUEST),
    gate("DRV-NODE-001", BAD_REQUEST),
    gate("DRV-NODE-002", BAD_REQUEST),
    gate("DRV-NODE-013", INTERNAL),
    gate("DRV-NODE-010", BAD_REQUEST),
    gate("DRV-NODE-007", INTERNAL),
    gate("DRV-NODE-006", INTERNAL),
    gate("DRV-NODE-005", INTERNAL),
    gate("DRV-NODE-003", INTERNAL),
    gate("DRV-NODE-004", INTERNAL),
    gate("DRV-VOL-003", INVALID),
    // VMs that are tied to their node come here; see [`tied_vms`].
    gate("DRV-VM-002", INVALID),
    gate("DRV-VM-003", INVALID),
];
const TIED_VMS: Gate = gate("DRV-VM-001", INVALID);
const CERTIFICATES: Gate = gate("DRV-CERT-001", BAD_REQUEST);

impl Gate {
    fn check(&self) -> Option<&'static Check> {
        catalogue().find(|check| check.code == self.check)
    }
}

/// The kinds that [`create`] looks at.
pub fn reads_of_create() -> BTreeSet<&'static str> {
    let gates = ALWAYS.iter().chain(&UNLESS_SKIPPED).chain([&TIED_VMS, &CERTIFICATES]);
    gates.filter_map(Gate::check).flat_map(|check| check.reads.iter().copied()).collect()
}

/// May this Upgrade begin on the cluster as it is?
pub fn create(upgrade: &Upgrade, cluster: &Cluster) -> Verdict {
    let intent = Intent::upgrade(upgrade.clone());
    let mut verdict = Verdict::default();
    ALWAYS.iter().for_each(|gate| pass(gate, cluster, &intent, &mut verdict));
    if !skips_checks(upgrade) {
        pass_the_rest(cluster, &intent, &mut verdict);
    }
    verdict
}

/// May an Upgrade that is there begin? The controller itself knows which of several comes first.
pub fn begin(upgrade: &Upgrade, cluster: &Cluster) -> Verdict {
    let mut verdict = Verdict::default();
    if !skips_checks(upgrade) {
        pass_the_rest(cluster, &Intent::upgrade(upgrade.clone()), &mut verdict);
    }
    verdict
}

fn pass_the_rest(cluster: &Cluster, intent: &Intent, verdict: &mut Verdict) {
    for gate in &UNLESS_SKIPPED {
        if gate.check == "DRV-VM-002" {
            tied_vms(cluster, intent, verdict);
        }
        pass(gate, cluster, intent, verdict);
    }
    pass(&CERTIFICATES, cluster, intent, verdict);
}

fn skips_checks(upgrade: &Upgrade) -> bool {
    upgrade.metadata.annotations.get(annotations::SKIP_WEBHOOK).is_some_and(|skip| skip.eq_ignore_ascii_case("true"))
}

fn pass(gate: &Gate, cluster: &Cluster, intent: &Intent, verdict: &mut Verdict) {
    let Some(check) = gate.check() else { return };
    // A cluster that an aborted Upgrade has paused goes on with the next one.
    if gate.check == PROVISIONED && is_held(cluster) {
        return;
    }
    let may_be_accepted = ALWAYS.iter().all(|always| always.check != gate.check);
    let accepted = may_be_accepted && intent.accepted.contains(gate.check);
    if !is_in_sight(check, cluster, accepted, verdict) {
        return;
    }
    let counts =
        |finding: &Finding| gate.only.is_none_or(|kind| finding.objects.iter().all(|object| object.kind == kind));
    for finding in (check.look)(cluster, intent).into_iter().filter(counts) {
        match accepted {
            true => verdict.notes.push(format!("{} is accepted: {}", gate.check, finding.sentence)),
            false => verdict.refuse(code_of(gate, &finding), finding.sentence),
        }
    }
}

fn is_held(cluster: &Cluster) -> bool {
    let local = cluster.cluster_api.clusters.get(FLEET_NAMESPACE, LOCAL);
    local.is_some_and(|local| local.metadata.annotations.contains_key(HELD))
}

/// A cluster that is not there at all is another kind of trouble than one that is not ready.
fn code_of(gate: &Gate, finding: &Finding) -> u16 {
    let is_missing = gate.check == PROVISIONED && finding.sentence.starts_with("can't find");
    if is_missing { INTERNAL } else { gate.code }
}

/// Can the check be made? Objects that nobody may look at are no reason to take them for fine. Kubelets and certificates are
/// asked over the network: what does not answer is told, and no reason to refuse.
fn is_in_sight(check: &Check, cluster: &Cluster, accepted: bool, verdict: &mut Verdict) -> bool {
    let hidden = |unseen: &&Unseen| check.reads.contains(&unseen.kind.as_str()) && unseen.may_hide_something();
    let mut in_sight = true;
    for unseen in cluster.unseen.iter().filter(hidden) {
        let sentence = format!("{} cannot be checked: {unseen}", check.code);
        let is_a_look = LOOKS.contains(&unseen.kind.as_str());
        if is_a_look || accepted {
            verdict.notes.push(sentence);
        } else {
            verdict.refuse(INTERNAL, sentence);
        }
        in_sight &= unseen.object.is_some();
    }
    in_sight
}

/// VMs that would have to be shut off. On a node that pauses before it is drained there is still time for that: it is told.
fn tied_vms(cluster: &Cluster, intent: &Intent, verdict: &mut Verdict) {
    let accepted = intent.accepted.contains(TIED_VMS.check);
    if !TIED_VMS.check().is_some_and(|check| is_in_sight(check, cluster, accepted, verdict)) {
        return;
    }
    let pausing = preflight::pausing(cluster, intent);
    let (mut now, mut later) = (Vec::new(), Vec::new());
    for vm in preflight::tied_down(cluster, intent) {
        let name = format!("{}/{}", vm.metadata.namespace, vm.metadata.name);
        match pausing.contains(&vm.status.node_name) || accepted {
            true => later.push(format!("{name} (on {})", vm.status.node_name)),
            false => now.push(name),
        }
    }
    if !now.is_empty() {
        let words = "There are non-live migratable VMs that need to be shut off before initiating the upgrade";
        verdict.refuse(TIED_VMS.code, format!("{words}: {}", now.join(", ")));
    }
    if !later.is_empty() {
        let words = "There are non-live migratable VMs that need to be shut off before their node is resumed";
        verdict.notes.push(format!("{words}: {}", later.join(", ")));
    }
}

fn wanted(cluster: &Cluster) -> BTreeMap<String, String> {
    preflight::config(cluster).pauses(cluster.nodes.iter().map(|node| node.metadata.name.as_str()))
}

/// The nodes that pause by the setting, for an Upgrade that does not say itself which do.
pub fn pause_map(upgrade: &Upgrade, cluster: &Cluster) -> Option<BTreeMap<String, String>> {
    let says_itself = upgrade.metadata.annotations.contains_key(annotations::PAUSE_MAP);
    Some(wanted(cluster)).filter(|map| !says_itself && !map.is_empty())
}

/// May an Upgrade be changed so? Only which nodes pause is looked at, and only where that has changed: a node that has left
/// since then must not hold up what controllers write.
pub fn update(before: &Upgrade, after: &Upgrade, cluster: &Cluster) -> Verdict {
    let map = |upgrade: &Upgrade| upgrade.metadata.annotations.get(annotations::PAUSE_MAP).cloned();
    let mut verdict = Verdict::default();
    if after.metadata.deletion_timestamp.is_some() || map(before) == map(after) {
        return verdict;
    }
    let known = map(before).and_then(|text| serde_json::from_str::<BTreeMap<String, String>>(&text).ok());
    let known: BTreeSet<String> = known.unwrap_or_default().into_keys().collect();
    let Some(text) = map(after) else { return verdict };
    for problem in
        preflight::pause_map_problems(&text, |node| known.contains(node) || cluster.nodes.named(node).is_some())
    {
        verdict.refuse(BAD_REQUEST, problem);
    }
    verdict
}

/// It has begun, and it has not ended with all of it cleared away. One that has failed among its nodes waits for its user.
fn is_under_way(upgrade: &Upgrade) -> bool {
    let label = |key: &str| upgrade.metadata.labels.get(key).map(String::as_str);
    let has_nodes = condition(&upgrade.status.conditions, conditions::NODES_UPGRADED).is_some();
    let is_over = matches!(label(labels::STATE), Some(states::SUCCEEDED | states::FAILED))
        && label(labels::CLEANUP) == Some(cleanup::SUCCEEDED)
        && !Progress::of(upgrade).is_some_and(|progress| progress.is_stuck());
    (label(labels::STATE).is_some() || has_nodes) && !is_over
}

/// May an Upgrade be deleted? While nodes are at work it cannot be called off like that.
pub fn delete(upgrade: &Upgrade, cluster: &Cluster) -> Verdict {
    let mut verdict = Verdict::default();
    // What the planner does with the cluster, it does for another.
    if skips_checks(upgrade) || !is_under_way(upgrade) {
        return verdict;
    }
    let name = &upgrade.metadata.name;
    let way_out = format!(
        "To end it here, run: drover upgrade abort upgrade/{name}; to hold back the nodes that have not begun: drover upgrade pause \
         upgrade/{name}; to try again what has failed: drover upgrade retry upgrade/{name}"
    );
    let local = cluster.cluster_api.clusters.get(FLEET_NAMESPACE, LOCAL);
    // Nothing is done to a cluster that an aborted Upgrade has paused.
    if local.is_some_and(|local| local.status.phase == phases::PROVISIONING) && !is_held(cluster) {
        verdict.refuse(
            BAD_REQUEST,
            format!(
                "cluster fleet-local/local status is provisioning, please wait for it to be provisioned. {way_out}"
            ),
        );
    }
    let nodes = condition(&upgrade.status.conditions, conditions::NODES_UPGRADED);
    if nodes.is_some_and(|nodes| nodes.status == "Unknown") {
        verdict.refuse(
            BAD_REQUEST,
            format!("node upgrade is in progressing, please wait for it to be provisioned. {way_out}"),
        );
    }
    verdict
}
