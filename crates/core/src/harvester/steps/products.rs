//! KubeVirt and Longhorn: the chart of Harvester brings their operators, and is ready before these have raised what runs VMs and
//! keeps volumes.

use std::collections::BTreeSet;

use drover_api::harvester::upgrade::annotations::WORKLOAD_UPDATE_METHODS;
use drover_api::harvester::{FLEET_NAMESPACE, NAMESPACE};
use drover_api::kubevirt::kube_virt::{DEPLOYED, HANDLER, NAME as KUBEVIRT};
use drover_api::longhorn::instance_manager::RUNNING;
use drover_api::longhorn::setting::names::INSTANCE_MANAGER_IMAGE;
use drover_api::longhorn::{MANAGER, NAMESPACE as STORAGE};
use drover_api::rancher::managed_chart::names::HARVESTER;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::super::workloads;
use super::manifests::Standing;
use super::rollouts::{self, Rollout};
use super::{Next, Scene};
use crate::decision::{Act, Kind, Reason, Subject, Wait};

/// A node where no instance manager starts is told of, and keeps nobody for longer: whether volumes are sound without it is looked at
/// before any node is emptied.
const FOR_INSTANCE_MANAGERS: SignedDuration = SignedDuration::from_mins(5);

/// KubeVirt leaves VMs on the version that they run on: with a new one it would move them all about while the services are raised, and again
/// when their nodes are emptied. The chart is held meanwhile, and says so when it is raised. What it said before is noted first.
pub(super) fn hold_kubevirt(scene: &Scene<'_>) -> Option<Next> {
    let chart = scene.cluster.harvester.charts.get(FLEET_NAMESPACE, HARVESTER)?;
    let now = chart.spec.values.pointer(workloads::METHODS).unwrap_or(&Value::Null);
    if now == &json!([]) {
        return None;
    }
    let (before, upgrade) = (now.to_string(), &scene.upgrade.metadata);
    if upgrade.annotations.get(WORKLOAD_UPDATE_METHODS) != Some(&before) {
        let version = upgrade.resource_version.to_string();
        let note =
            json!({ "metadata": { "resourceVersion": version, "annotations": { WORKLOAD_UPDATE_METHODS: before } } });
        return Some(scene.write(Subject::new(Kind::Upgrade, NAMESPACE, &scene.order.upgrade), Act::Patch(note)));
    }
    let version = chart.metadata.resource_version.to_string();
    let patch = json!({
        "metadata": { "resourceVersion": version }, "spec": { "values": workloads::moving_by(&json!([])) },
    });
    Some(scene.write(Subject::new(Kind::ManagedChart, FLEET_NAMESPACE, HARVESTER), Act::Patch(patch)))
}

/// KubeVirt is of the version that the release names, and has all of its parts.
pub(super) fn kubevirt(scene: &Scene<'_>) -> Option<Next> {
    let status = &scene.cluster.kubevirt.installations.get(NAMESPACE, KUBEVIRT)?.status;
    let (wanted, runs, phase) = (&scene.release.kubevirt, &status.observed_version, &status.phase);
    let is_new = wanted.is_empty() || wanted == runs;
    if is_new && phase == DEPLOYED {
        return None;
    }
    let at = if wanted.is_empty() { String::new() } else { format!(" at {wanted}") };
    let phase = if phase.is_empty() { "not begun" } else { phase };
    let runs = if is_new || runs.is_empty() { String::new() } else { format!(", and runs {runs}") };
    let said = format!("KubeVirt {NAMESPACE}/{KUBEVIRT} is not deployed{at}: it is {phase}{runs}");
    let wait = match kept_kubevirt(scene) {
        Some((why, remedy)) => wait(scene, format!("{said}; {why}"), remedy),
        None => wait(scene, said, format!("kubectl -n {NAMESPACE} logs deployment/virt-operator")),
    };
    Some(Next::Wait { writes: Vec::new(), waits: vec![wait] })
}

/// KubeVirt itself waits for its pods on all nodes, and raises nothing else before: nobody can go on without it there.
fn kept_kubevirt(scene: &Scene<'_>) -> Option<(String, String)> {
    let handlers = scene.cluster.daemon_sets.get(NAMESPACE, HANDLER)?;
    let (Rollout::Done { without: nodes } | Rollout::OnItsWay { beside: nodes }) =
        rollouts::of(scene.cluster, handlers);
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let why = format!("it waits for its pods on {} (no part of the upgrade)", nodes.join(", "));
    let remedy = format!("bring that back, or remove it: kubectl delete node {}", nodes.join(" "));
    (!nodes.is_empty()).then_some((why, remedy))
}

/// Longhorn's managers are new on every node that takes part, and so is what runs engines and replicas there. What is older beside that goes
/// with the volumes that use it, and is not waited for.
pub(super) fn longhorn(scene: &Scene<'_>) -> Standing {
    let managers = scene.cluster.daemon_sets.get(STORAGE, MANAGER);
    let mut without = match managers.map(|managers| rollouts::of(scene.cluster, managers)) {
        Some(Rollout::OnItsWay { beside }) => {
            let remedy = format!("kubectl -n {STORAGE} rollout status daemonset {MANAGER}");
            let sentence = format!("DaemonSet {STORAGE}/{MANAGER} is not rolled out");
            let (sentence, remedy) = rollouts::told(sentence, remedy, &beside);
            let wait = wait(scene, sentence, remedy);
            return Standing::Unfinished(Next::Wait { writes: Vec::new(), waits: vec![wait] });
        }
        Some(Rollout::Done { without }) => without,
        None => BTreeSet::new(),
    };
    let others = rollouts::nodes_without_part(scene.cluster);
    let (beside, nodes): (Vec<&str>, Vec<&str>) =
        without_instance_manager(scene).into_iter().partition(|node| others.contains(node));
    if nodes.is_empty() {
        without.extend(beside.into_iter().map(str::to_owned));
        return Standing::Without(without);
    }
    let sentence = format!("Longhorn has no instance manager of its new image that runs on {}", nodes.join(", "));
    let remedy = format!("kubectl -n {STORAGE} get instancemanagers.longhorn.io,pods -o wide");
    Standing::Limited(wait(scene, sentence, remedy), FOR_INSTANCE_MANAGERS)
}

/// Nodes of Longhorn on which none runs of the image that Longhorn starts now.
fn without_instance_manager<'a>(scene: &Scene<'a>) -> Vec<&'a str> {
    let longhorn = &scene.cluster.longhorn;
    let image = longhorn.settings.get(STORAGE, INSTANCE_MANAGER_IMAGE).map(|setting| setting.value.as_str());
    let Some(image) = image.filter(|image| !image.is_empty()) else { return Vec::new() };
    let runs_on = |node: &str| {
        let mut all = longhorn.instance_managers.iter();
        all.any(|one| one.spec.node_id == node && one.spec.image == image && one.status.current_state == RUNNING)
    };
    let nodes = longhorn.nodes.iter().map(|node| node.metadata.name.as_str());
    nodes.filter(|node| !runs_on(node)).collect()
}

fn wait(scene: &Scene<'_>, sentence: String, remedy: String) -> Wait {
    let subject = Subject::new(Kind::Upgrade, NAMESPACE, &scene.order.upgrade);
    Wait::new(subject, Reason::ServiceNotReady, sentence, scene.now).with_remedy(remedy)
}
