//! What Upgrades of Harvester and TanzuKubernetesClusters say when a run has ended: that it is true, and that none waits in silence.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{has_condition, is_finished, is_ready};
use crate::known::Known;

const STATE: &str = "harvesterhci.io/upgradeState";
const CLEANUP: &str = "harvesterhci.io/upgradeCleanup";
const MANAGED: &str = "harvesterhci.io/managed";
const PAUSE: &str = "harvesterhci.io/node-upgrade-pause";
const PENDING: &str = "harvesterhci.io/pendingOSImage";
const ETCD: &str = "node-role.kubernetes.io/etcd";

/// What is wrong with what they say, in sentences.
pub fn untrue(known: &Known) -> Vec<String> {
    let upgrades = known.named("Upgrade").flat_map(|(_, name, upgrade)| untrue_upgrade(known, name, upgrade));
    let clusters = known.named("TanzuKubernetesCluster");
    upgrades.chain(clusters.flat_map(|(namespace, name, tkc)| untrue_cluster(known, namespace, name, tkc))).collect()
}

fn untrue_upgrade(known: &Known, name: &str, upgrade: &Value) -> Vec<String> {
    // Whoever drives it says what is so.
    if is_driven_by_harvester(known, upgrade) {
        return Vec::new();
    }
    let Some(progressing) = condition(upgrade, "Progressing") else {
        return vec![format!("the Upgrade {name} does not say how it gets on")];
    };
    let labels = &upgrade["metadata"]["labels"];
    let is_over = matches!(text(&labels[STATE]), "Succeeded" | "Failed") && labels[CLEANUP] == "Succeeded";
    let reason = text(&progressing["reason"]);
    let false_end = match (is_over, text(&progressing["status"])) {
        (true, "True") => Some("it has ended and is cleaned up"),
        (false, "False") => Some("it has not ended, or is not cleaned up"),
        _ => None,
    };
    let why = false_end.or_else(|| untrue_reason(known, upgrade, reason));
    why.map(|why| format!("the Upgrade {name} says {reason}, but {why}")).into_iter().collect()
}

/// Why the reason of an Upgrade's wait is not true; none if it is.
fn untrue_reason(known: &Known, upgrade: &Value, reason: &str) -> Option<&'static str> {
    let unless = |is_so: bool, why: &'static str| (!is_so).then_some(why);
    match reason {
        "Ended" => None,
        "QuorumAtRisk" => {
            let members: Vec<&Value> = known.all("Node").filter(|node| has_label(node, ETCD)).collect();
            let well = members.iter().filter(|node| is_ready(node) && has_condition(node, "EtcdIsVoter")).count();
            unless(well < members.len() || members.len() == 2, "every member of etcd is well")
        }
        "VolumeUnhealthy" => {
            let mut volumes = known.all("Volume");
            unless(volumes.any(|volume| volume["status"]["robustness"] != "healthy"), "every volume is healthy")
        }
        "NodePaused" => {
            let mut nodes = known.all("Node");
            let is_marked = |node: &Value| node["metadata"]["annotations"][PAUSE].is_string();
            unless(nodes.any(is_marked), "no node is marked to pause")
        }
        "NodeUnmanaged" => {
            let has_machine = |name: &str| {
                let mut machines = known.all("Machine");
                machines.any(|machine| machine["status"]["nodeRef"]["name"] == name)
            };
            let is_outside = |(_, name, node): (&str, &str, &Value)| !has_label(node, MANAGED) || !has_machine(name);
            unless(known.named("Node").any(is_outside), "every Node is managed and has a Machine")
        }
        "NodeUncounted" => unless(known.all("Node").any(|node| !has_label(node, MANAGED)), "every Node is managed"),
        "NodeRebooting" => {
            let is_awaited = |node: &Value| {
                let pending = node["metadata"]["annotations"][PENDING].as_str();
                pending.is_some_and(|pending| node["status"]["nodeInfo"]["osImage"] != pending)
            };
            unless(known.all("Node").any(is_awaited), "no node has a system that it has not booted")
        }
        "KubeletOutdated" => {
            let versions: BTreeSet<&str> =
                known.all("Node").map(|node| text(&node["status"]["nodeInfo"]["kubeletVersion"])).collect();
            unless(versions.len() > 1, "all kubelets run the same version")
        }
        "PlannerStalls" => {
            let asks = |secret: &Value| secret["metadata"]["annotations"]["rke.cattle.io/pre-drain"].is_string();
            let mut nodes = upgrade["status"]["nodeStatuses"].as_object().into_iter().flat_map(|all| all.values());
            let is_left = nodes.any(|node| !["Succeeded", "Skipped"].contains(&text(&node["state"])));
            unless(is_left || known.all("Secret").any(asks), "nothing is left for the planner to do")
        }
        "JobFailed" => {
            let has_failed = |job: &Value| has_condition(job, "Failed");
            let is_failed = upgrade["metadata"]["labels"][STATE] == "Failed";
            unless(is_failed || known.all("Job").any(has_failed), "nothing has failed")
        }
        "AnotherUpgradeFirst" => {
            let uid = &upgrade["metadata"]["uid"];
            let is_under_way =
                |other: &Value| other["metadata"]["uid"] != *uid && other["metadata"]["labels"][CLEANUP] != "Succeeded";
            unless(known.all("Upgrade").any(is_under_way), "no other Upgrade is under way")
        }
        "ImageNotReady" => {
            let mut images = known.all("VirtualMachineImage");
            unless(!images.any(|image| has_condition(image, "Imported")), "its image is imported")
        }
        _ => Some("nobody knows how to tell whether that is true"),
    }
}

/// Harvester's own controller is at work, or another one was asked to go on.
fn is_driven_by_harvester(known: &Known, upgrade: &Value) -> bool {
    let at_work = |deployment: &Value| deployment["spec"]["replicas"].as_i64() != Some(0);
    let is_there = known.get("Deployment", "harvester-system", "harvester").is_some_and(at_work);
    let told = text(&upgrade["metadata"]["annotations"]["drover.dev/drive"]);
    is_there && !told.split(',').any(|word| ["true", "harvester"].contains(&word.trim()))
}

fn untrue_cluster(known: &Known, namespace: &str, name: &str, tkc: &Value) -> Vec<String> {
    let waits: Vec<&Value> = tkc["status"]["waits"].as_array().into_iter().flatten().collect();
    let phase = text(&tkc["status"]["phase"]);
    let mut untrue = Vec::new();
    if phase != "running" && waits.is_empty() {
        untrue.push(format!("the cluster {namespace}/{name} is {phase} and does not say what it waits for"));
    }
    for wait in waits {
        let reason = text(&wait["reason"]);
        if let Some(why) = untrue_wait(known, tkc, reason) {
            untrue.push(format!("the cluster {namespace}/{name} says {reason}, but {why}"));
        }
    }
    untrue
}

/// Why what a guest cluster waits for is not true; none if it is.
fn untrue_wait(known: &Known, tkc: &Value, reason: &str) -> Option<&'static str> {
    let (namespace, name) = (text(&tkc["metadata"]["namespace"]), text(&tkc["metadata"]["name"]));
    let unless = |is_so: bool, why: &'static str| (!is_so).then_some(why);
    let of_cluster = |kind: &str| {
        let objects = known.named(kind).filter(|(own, _, _)| *own == namespace);
        let objects = objects.map(|(_, _, object)| object);
        let objects = objects.filter(|object| object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] == name);
        objects.collect::<Vec<&Value>>()
    };
    match reason {
        "WorkersFailed" => {
            let halted = |set: &&Value| set["metadata"]["annotations"]["drover.dev/failed"].is_string();
            unless(of_cluster("MachineDeployment").iter().any(halted), "no workers are marked as failed")
        }
        "CreationFailed" | "ControlPlaneFirst" => {
            let is_missing = |machine: &&Value| machine["status"]["nodeRef"].is_null();
            unless(of_cluster("Machine").iter().any(is_missing), "every machine is a Node")
        }
        "AddonsNotApplied" => {
            let is_done = |addon: &Value| matches!(text(&addon["status"]), "applied" | "unmanaged");
            let mut addons = tkc["status"]["addons"].as_object().into_iter().flatten();
            unless(addons.any(|(_, addon)| !is_done(addon)), "every add-on is applied")
        }
        "CannotChange" => {
            let defaults = known.get("ConfigMap", "vmware-system-tkg", "drover-guest-defaults");
            unless(defaults.is_some() || tkc["spec"]["settings"].is_object(), "nobody asks for anything unusual")
        }
        "ControlPlaneUpdateFailed" => {
            unless(known.all("Job").any(|job| is_finished(job) && has_condition(job, "Failed")), "no Job has failed")
        }
        _ => Some("nobody knows how to tell whether that is true"),
    }
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

fn has_label(node: &Value, label: &str) -> bool {
    node["metadata"]["labels"][label] == "true"
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    /// An Upgrade that says this, beside these nodes.
    fn upgrade(status: &str, reason: &str, labels: Value, nodes: Value) -> Vec<String> {
        let mut known = Known::default();
        let progressing = json!({ "type": "Progressing", "status": status, "reason": reason });
        let upgrade =
            json!({ "metadata": { "uid": "1", "labels": labels }, "status": { "conditions": [progressing] } });
        known.put(("harvesterhci.io", "Upgrade"), "harvester-system", "up", Some(Arc::new(upgrade)));
        for (name, node) in nodes.as_object().unwrap() {
            known.put(("", "Node"), "", name, Some(Arc::new(node.clone())));
        }
        untrue(&known)
    }

    #[test]
    fn what_an_upgrade_says_in_the_end_has_to_be_true() {
        let under_way = json!({ STATE: "UpgradingNodes" });
        let over = json!({ STATE: "Succeeded", CLEANUP: "Succeeded" });
        let paused = json!({ "node-1": { "metadata": { "annotations": { PAUSE: "pause" } } } });
        let none = json!({ "node-1": {} });
        assert_eq!(upgrade("True", "NodePaused", under_way.clone(), paused.clone()), Vec::<String>::new());
        assert_eq!(
            upgrade("True", "NodePaused", under_way.clone(), none.clone()),
            ["the Upgrade up says NodePaused, but no node is marked to pause"]
        );
        assert_eq!(upgrade("False", "Ended", over.clone(), none.clone()), Vec::<String>::new());
        assert_eq!(
            upgrade("True", "NodePaused", over, paused),
            ["the Upgrade up says NodePaused, but it has ended and is cleaned up"]
        );
        assert_eq!(
            upgrade("True", "Working", under_way, none),
            ["the Upgrade up says Working, but nobody knows how to tell whether that is true"]
        );
    }

    #[test]
    fn a_guest_cluster_that_is_not_done_says_what_it_waits_for() {
        let says = |phase: &str, waits: Value| {
            let mut known = Known::default();
            let tkc = json!({
                "metadata": { "namespace": "team", "name": "web" }, "status": { "phase": phase, "waits": waits },
            });
            known.put(("run.tanzu.vmware.com", "TanzuKubernetesCluster"), "team", "web", Some(Arc::new(tkc)));
            untrue(&known)
        };
        assert_eq!(says("running", json!([])), Vec::<String>::new());
        assert_eq!(
            says("updating", json!([])),
            ["the cluster team/web is updating and does not say what it waits for"]
        );
        assert_eq!(
            says("updateFailed", json!([{ "reason": "WorkersFailed" }])),
            ["the cluster team/web says WorkersFailed, but no workers are marked as failed"]
        );
    }
}
