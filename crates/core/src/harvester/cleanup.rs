//! What an Upgrade has made goes, and what it has set otherwise is put back.

use drover_api::harvester::jobs::UPGRADE;
use drover_api::harvester::node::{DRAIN_TAINT, PENDING_OS_IMAGE};
use drover_api::harvester::upgrade::conditions;
use drover_api::harvester::{FLEET_NAMESPACE, NAMESPACE};
use drover_api::helm::helm_chart;
use drover_api::rancher::embedded::NAME as RANCHER;
use drover_api::rancher::managed_chart::names as charts;
use serde_json::{Value, json};

use super::decide::Turn;
use super::progress::Step;
use super::steps::rancher;
use super::{around, asking, jobs, names, pausing, preload, storage, workloads};
use crate::cluster::harvester::HelmChart;
use crate::cluster::{Meta, Node, Taint, condition};
use crate::decision::{Act, Kind, Purpose, Reason, Subject};

/// The charts that the system services are held still with while they are raised.
pub(super) const HELD_CHARTS: [&str; 4] =
    [charts::HARVESTER, charts::HARVESTER_CRD, charts::MONITORING_CRD, charts::LOGGING_CRD];

pub(super) fn everything(turn: &mut Turn<'_>) {
    if turn.next.cleaned {
        return;
    }
    let parts: [fn(&mut Turn<'_>) -> bool; 8] = [
        provided,
        asking::release,
        storage::release,
        workloads::release_descheduler,
        workloads::release_kubevirt,
        release_charts,
        hand_back_rancher,
        unmark_nodes,
    ];
    // Each part is tried, however far the others are.
    let done = parts.iter().filter(|part| part(turn)).count();
    if done == parts.len() {
        turn.next.cleaned = true;
    } else {
        turn.wait(turn.subject(), Reason::CleaningUp, "what was made for the upgrade is being cleared away");
    }
}

/// What the steps on nodes need goes after the last of them.
fn provided(turn: &mut Turn<'_>) -> bool {
    if !around::afterwards(turn) {
        return false;
    }
    let gone = [repository(turn), image(turn), preload::undo(turn)];
    gone.iter().all(|gone| *gone)
}

fn delete(turn: &mut Turn<'_>, kind: Kind, metadata: Option<&Meta>) -> bool {
    let Some(metadata) = metadata else { return true };
    if metadata.deletion_timestamp.is_none() {
        let subject = Subject::new(kind, &metadata.namespace, &metadata.name);
        turn.write(Purpose::CleanUp, subject, Act::Delete { uid: metadata.uid.clone() });
    }
    false
}

fn repository(turn: &mut Turn<'_>) -> bool {
    let name = names::repository(turn.name());
    let cluster = turn.cluster();
    let deployment = cluster.deployments.get(NAMESPACE, &name).map(|one| &one.metadata);
    let service = cluster.harvester.services.get(NAMESPACE, &name).map(|one| &one.metadata);
    let machine = cluster.kubevirt.machines.get(NAMESPACE, &name).map(|one| &one.metadata);
    let gone = [
        if has_told_its_end(turn) { delete(turn, Kind::Deployment, deployment) } else { deployment.is_none() },
        delete(turn, Kind::VirtualMachine, machine),
        delete(turn, Kind::Service, service),
    ];
    gone.iter().all(|gone| *gone)
}

/// The Upgrade says, where everybody reads it, that it has ended. Harvester's webhook, which stays at work when its controller is switched
/// off, lets nobody but Harvester take the repository away before.
fn has_told_its_end(turn: &Turn<'_>) -> bool {
    let said = condition(&turn.view.upgrade.status.conditions, conditions::COMPLETED);
    said.is_some_and(|said| said.status != "Unknown")
}

/// One that the user has brought stays.
fn image(turn: &mut Turn<'_>) -> bool {
    if !turn.view.upgrade.spec.image.is_empty() {
        return true;
    }
    let image = turn.cluster().harvester.images.get(NAMESPACE, turn.name()).map(|image| &image.metadata);
    delete(turn, Kind::VirtualMachineImage, image)
}

/// The charts go on by themselves again. Steps that are at work would hold them once more: they end first.
fn release_charts(turn: &mut Turn<'_>) -> bool {
    if !turn.next.prepared {
        return true;
    }
    if !jobs::services_stopped(turn) {
        return false;
    }
    let cluster = turn.cluster();
    let held = HELD_CHARTS.iter().filter_map(|name| cluster.harvester.charts.get(FLEET_NAMESPACE, name));
    let held: Vec<_> = held.filter(|chart| chart.spec.paused).collect();
    for chart in &held {
        let version = chart.metadata.resource_version.to_string();
        let patch = json!({ "metadata": { "resourceVersion": version }, "spec": { "paused": false } });
        let subject = Subject::new(Kind::ManagedChart, FLEET_NAMESPACE, &chart.metadata.name);
        turn.write(Purpose::CleanUp, subject, Act::Patch(patch));
    }
    held.is_empty()
}

/// One that was called off leaves Rancher to its user, as far as it has come: what Helm has begun is not interrupted.
fn hand_back_rancher(turn: &mut Turn<'_>) -> bool {
    let charts = turn.cluster().harvester.helm_charts.in_namespace(helm_chart::NAMESPACE);
    let own = |chart: &&HelmChart| chart.metadata.labels.get(UPGRADE).is_some_and(|name| name == turn.name());
    let Some(chart) = charts.filter(own).find(|chart| chart.metadata.name == RANCHER) else { return true };
    if let Some(act) = rancher::hand_back(chart) {
        turn.write(Purpose::CleanUp, rancher::subject(), act);
    }
    false
}

/// No mark of ours stays on a node.
fn unmark_nodes(turn: &mut Turn<'_>) -> bool {
    let mut clean = pausing::undo(turn);
    let cluster = turn.cluster();
    for node in cluster.nodes.iter() {
        let name = &node.metadata.name;
        let begun = turn.next.step(name) != Step::Waits || turn.next.withdrawn.contains(name);
        let pending = node.metadata.annotations.contains_key(PENDING_OS_IMAGE);
        let tainted = begun && node.spec.taints.iter().any(|taint| taint.key == DRAIN_TAINT);
        if pending || tainted {
            clean = false;
            let patch = unmarked(node, pending, tainted);
            turn.write(Purpose::UndoMarks, Subject::node(name), Act::Patch(patch));
        }
    }
    clean
}

fn unmarked(node: &Node, pending: bool, tainted: bool) -> Value {
    let mut patch = json!({ "metadata": { "resourceVersion": node.metadata.resource_version.to_string() } });
    if pending {
        patch["metadata"]["annotations"] = json!({ PENDING_OS_IMAGE: null });
    }
    if tainted {
        patch["spec"] = json!({ "taints": taints_without_drain(node) });
    }
    patch
}

/// The taints of a node but the one that sends VMs away.
pub(super) fn taints_without_drain(node: &Node) -> Vec<&Taint> {
    node.spec.taints.iter().filter(|taint| taint.key != DRAIN_TAINT).collect()
}
