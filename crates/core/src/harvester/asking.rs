//! What Rancher's planner is asked for, and how it is held and let go.

use drover_api::cluster_api::cluster::phases;
use drover_api::harvester::FLEET_NAMESPACE;
use drover_api::marks;
use drover_api::rancher::machine_plan::annotations::{POST_HOOK, PRE_HOOK};
use drover_api::rancher::provisioning_cluster::LOCAL;
use serde_json::{Value, json};

use super::decide::{Member, Turn, members};
use super::nodes::is_in_drain;
use super::progress::{Before, Step};
use super::release::is_kubelet_version;
use super::stalling;
use crate::accepted::codes;
use crate::cluster::cluster_api::Cluster;
use crate::cluster::harvester::ProvisionedCluster;
use crate::decision::{Act, Kind, Purpose, Reason, Subject};
use crate::merge::replacing;
use crate::quorum::CODE;

/// Asks the planner for the version of the release, once; true when it is asked. Which generation it is asked for is noted
/// before, so that a successor does not ask for one more.
pub(super) fn ask(turn: &mut Turn<'_>) -> bool {
    let subject = subject();
    let Some(cluster) = turn.cluster().harvester.clusters.get(FLEET_NAMESPACE, LOCAL) else {
        let sentence = format!("can't find {FLEET_NAMESPACE}/{LOCAL} cluster");
        turn.wait_with_remedy(subject, Reason::PlannerWorks, sentence, "look after Rancher, which has made it");
        return false;
    };
    let wanted = turn.next.release.as_ref().map(|release| release.kubernetes.clone()).unwrap_or_default();
    let generation = cluster.spec.rke_config.provision_generation;
    if turn.next.asked.is_none() {
        let cordoned = turn.cluster().nodes.iter().filter(|node| node.spec.unschedulable);
        turn.next.before = Some(Before {
            kubernetes: cluster.spec.kubernetes_version.clone(),
            generation,
            strategy: Some(&cluster.spec.rke_config.upgrade_strategy)
                .filter(|one| !has_hooks(one))
                .cloned()
                .unwrap_or_default(),
            cordoned: cordoned.map(|node| node.metadata.name.clone()).collect(),
        });
        stalling::its_turn(turn);
    }
    let asked = *turn.next.asked.get_or_insert(generation + 1);
    let strategy = &cluster.spec.rke_config.upgrade_strategy;
    let mut sentence = format!("the planner is asked for Kubernetes {wanted}");
    let mut asked = asked;
    if generation >= asked && cluster.spec.kubernetes_version == wanted && has_hooks(strategy) {
        if !may_ask_again(turn) {
            // It asks before it touches a node from here on.
            return let_go(turn);
        }
        asked = generation + 1;
        turn.next.asked = Some(asked);
        turn.next.asked_again = true;
        turn.next.planner_since = None;
        stalling::its_turn(turn);
        "the planner has raised the nodes without asking, and is asked once more".clone_into(&mut sentence);
    }
    let options = |key: &str| {
        let hooks = |kind: &str, own: &str| {
            let mut hooks = strategy[key][kind].as_array().cloned().unwrap_or_default();
            if !hooks.iter().any(|hook| hook["annotation"] == own) {
                hooks.push(json!({ "annotation": own }));
            }
            hooks
        };
        json!({
            "enabled": true, "force": true, "ignoreDaemonSets": true, "deleteEmptyDirData": true,
            "preDrainHooks": hooks("preDrainHooks", PRE_HOOK), "postDrainHooks": hooks("postDrainHooks", POST_HOOK),
        })
    };
    let patch = json!({
        "metadata": { "resourceVersion": cluster.metadata.resource_version.to_string() },
        "spec": { "kubernetesVersion": wanted, "rkeConfig": {
            "provisionGeneration": generation.max(asked),
            "upgradeStrategy": {
                "controlPlaneConcurrency": "1", "workerConcurrency": "1",
                "controlPlaneDrainOptions": options("controlPlaneDrainOptions"),
                "workerDrainOptions": options("workerDrainOptions"),
            },
        }},
    });
    turn.write(Purpose::AskPlanner, subject.clone(), Act::Patch(patch));
    turn.wait(subject, Reason::PlannerWorks, sentence);
    false
}

/// Drover's planner looks at the Cluster alone: what is accepted on the Upgrade stands there as long as that asks. Rancher's does not care.
pub(super) fn pass_on_acceptance(turn: &mut Turn<'_>) {
    let Some(cluster) = turn.cluster().harvester.clusters.get(FLEET_NAMESPACE, LOCAL) else { return };
    let wanted = codes(&turn.view.upgrade.metadata.annotations).contains(CODE).then_some(CODE);
    if cluster.metadata.annotations.get(marks::ACCEPTED).map(String::as_str) == wanted {
        return;
    }
    let version = cluster.metadata.resource_version.to_string();
    let patch = json!({ "metadata": { "resourceVersion": version, "annotations": { marks::ACCEPTED: wanted } } });
    turn.write(Purpose::AskPlanner, subject(), Act::Patch(patch));
}

/// Whether the planner has raised all nodes without asking, which it does where the plans that they had say nothing of drains, as those of
/// Rancher before 2.12 do (harvester/harvester#7514). The plans that they have by now do: it asks if it is asked once more. Where a node is
/// done already, that one would be drained for nothing, so this is left to its user.
fn may_ask_again(turn: &Turn<'_>) -> bool {
    let (nodes, _) = members(turn.cluster());
    let none_has_begun = nodes.iter().all(|member| turn.next.step(member.name()) == Step::Waits);
    !turn.next.asked_again
        && !nodes.is_empty()
        && none_has_begun
        && nodes.iter().all(|member| was_raised_unasked(turn, member))
}

/// Whether a node whose turn has not come has the Kubernetes of the release: the planner is done with it, and has not asked.
pub(super) fn was_raised_unasked(turn: &Turn<'_>, member: &Member<'_>) -> bool {
    let wanted = turn.next.release.as_ref().map(|release| release.kubernetes.as_str()).unwrap_or_default();
    let is_raised = turn.next.before.as_ref().is_some_and(|before| before.kubernetes != wanted);
    let is_idle = capi(turn).is_some_and(|capi| capi.status.phase == phases::PROVISIONED && !capi.spec.paused);
    is_raised
        && is_idle
        && is_kubelet_version(&member.node.status.node_info.kubelet_version, wanted)
        && !member.plan_secret(turn.cluster()).is_some_and(is_in_drain)
}

/// How somebody lets the planner begin anew.
pub(super) fn remedy_of_silence(turn: &Turn<'_>) -> String {
    let cluster = turn.cluster().harvester.clusters.get(FLEET_NAMESPACE, LOCAL);
    let generation = cluster.map(|cluster| cluster.spec.rke_config.provision_generation).unwrap_or_default() + 1;
    let patch = json!({ "spec": { "rkeConfig": { "provisionGeneration": generation } } });
    format!(
        "ask it once more, which drains every node: \
         kubectl -n {FLEET_NAMESPACE} patch clusters.provisioning.cattle.io {LOCAL} --type merge -p '{patch}'"
    )
}

fn has_hooks(strategy: &Value) -> bool {
    ["controlPlaneDrainOptions", "workerDrainOptions"].iter().all(|key| {
        let has = |kind: &str, own: &str| {
            let hooks = strategy[*key][kind].as_array();
            hooks.is_some_and(|hooks| hooks.iter().any(|hook| hook["annotation"] == own))
        };
        has("preDrainHooks", PRE_HOOK) && has("postDrainHooks", POST_HOOK)
    })
}

/// The planner goes its own way again; true once it does. After a failure it does not: the node that has failed is still in its hands,
/// and without its hooks it would raise the others unasked.
pub(super) fn release(turn: &mut Turn<'_>) -> bool {
    let Some(cluster) = turn.cluster().harvester.clusters.get(FLEET_NAMESPACE, LOCAL) else { return true };
    let is_stuck = turn.next.is_stuck() && turn.view.upgrade.metadata.deletion_timestamp.is_none();
    let accepts = cluster.metadata.annotations.contains_key(marks::ACCEPTED);
    let is_as_before = !accepts && !has_hooks(&cluster.spec.rke_config.upgrade_strategy);
    if turn.next.asked.is_none() || is_stuck || is_as_before {
        return true;
    }
    let (version, strategy) = (cluster.metadata.resource_version.to_string(), earlier_strategy(turn, cluster));
    let mut patch =
        json!({ "metadata": { "resourceVersion": version }, "spec": { "rkeConfig": { "upgradeStrategy": strategy } } });
    if accepts {
        patch["metadata"]["annotations"] = json!({ marks::ACCEPTED: null });
    }
    turn.write(Purpose::CleanUp, subject(), Act::Patch(patch));
    false
}

/// What makes the strategy what its user had set, if anything.
fn earlier_strategy(turn: &Turn<'_>, cluster: &ProvisionedCluster) -> Value {
    let before = turn.next.before.as_ref().map_or(&Value::Null, |before| &before.strategy);
    replacing(&cluster.spec.rke_config.upgrade_strategy, before)
}

/// Asks the planner for what it was asked before; true once that is what it is asked.
pub(super) fn take_back(turn: &mut Turn<'_>) -> bool {
    let Some(cluster) = turn.cluster().harvester.clusters.get(FLEET_NAMESPACE, LOCAL) else { return true };
    let Some(before) = turn.next.before.clone() else { return false };
    if is_taken_back(turn) {
        return true;
    }
    let patch = json!({
        "metadata": { "resourceVersion": cluster.metadata.resource_version.to_string() },
        "spec": { "kubernetesVersion": before.kubernetes, "rkeConfig": {
            "provisionGeneration": before.generation, "upgradeStrategy": earlier_strategy(turn, cluster),
        }},
    });
    turn.write(Purpose::AskPlanner, subject(), Act::Patch(patch));
    false
}

pub(super) fn is_taken_back(turn: &Turn<'_>) -> bool {
    let cluster = turn.cluster().harvester.clusters.get(FLEET_NAMESPACE, LOCAL);
    cluster.zip(turn.next.before.as_ref()).is_some_and(|(cluster, before)| {
        let spec = &cluster.spec;
        spec.kubernetes_version == before.kubernetes
            && spec.rke_config.provision_generation == before.generation
            && !has_hooks(&spec.rke_config.upgrade_strategy)
    })
}

/// What the planner works on.
pub(super) fn subject() -> Subject {
    Subject::new(Kind::Cluster, FLEET_NAMESPACE, LOCAL)
}

fn capi<'a>(turn: &Turn<'a>) -> Option<&'a Cluster> {
    turn.cluster().cluster_api.clusters.get(FLEET_NAMESPACE, LOCAL)
}

/// Pauses the planner: whatever it is asked for, it begins with no further node. True once it is paused.
pub(super) fn hold(turn: &mut Turn<'_>) -> bool {
    let Some(capi) = capi(turn).filter(|capi| !capi.spec.paused) else { return true };
    let patch = json!({
        "metadata": {
            "resourceVersion": capi.metadata.resource_version.to_string(), "annotations": { marks::HELD: turn.name() },
        },
        "spec": { "paused": true },
    });
    turn.write(Purpose::Hold, Subject::new(Kind::CapiCluster, FLEET_NAMESPACE, LOCAL), Act::Patch(patch));
    false
}

/// Somebody, or an Upgrade that was called off, has paused the planner.
pub(super) fn is_paused(turn: &Turn<'_>) -> bool {
    capi(turn).is_some_and(|capi| capi.spec.paused)
}

pub(super) fn is_held(turn: &Turn<'_>) -> bool {
    capi(turn).is_none_or(|capi| capi.spec.paused)
}

/// How somebody lets the planner go on.
pub(crate) fn remedy_of_pause() -> String {
    format!(
        "kubectl -n {FLEET_NAMESPACE} patch clusters.cluster.x-k8s.io {LOCAL} --type merge -p '{{\"spec\":{{\"paused\":false}}}}'"
    )
}

/// Ends a pause that an Upgrade has made; true once there is none. One that somebody else has made is theirs.
pub(super) fn let_go(turn: &mut Turn<'_>) -> bool {
    let Some(capi) = capi(turn) else { return true };
    let is_ours = capi.metadata.annotations.contains_key(marks::HELD);
    let subject = Subject::new(Kind::CapiCluster, FLEET_NAMESPACE, LOCAL);
    if capi.spec.paused && !is_ours {
        let sentence = format!("Cluster {FLEET_NAMESPACE}/{LOCAL} is paused: the planner does nothing for it");
        turn.wait_with_remedy(subject, Reason::PlannerWorks, sentence, remedy_of_pause());
        return true;
    }
    if !is_ours {
        return true;
    }
    let patch = json!({
        "metadata": {
            "resourceVersion": capi.metadata.resource_version.to_string(), "annotations": { marks::HELD: null },
        },
        "spec": { "paused": false },
    });
    turn.write(Purpose::AskPlanner, subject.clone(), Act::Patch(patch));
    turn.wait(subject, Reason::PlannerWorks, "the planner goes on where an aborted Upgrade has paused it");
    false
}

/// Nothing is left for the planner to do, or it is not up to it: somebody has paused it.
pub(super) fn is_settled(turn: &Turn<'_>) -> bool {
    capi(turn).is_none_or(|capi| capi.status.phase == phases::PROVISIONED || capi.spec.paused)
}
