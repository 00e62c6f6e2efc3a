//! Bugs in the upgrade of a Harvester cluster: in what the operator writes and sees, and in the steps that its Jobs run.

use drover_corral::apiserver::ApiServer;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::answers::set;
use super::{Sabotage, Verdict, pretend_written};
use crate::gate::Asked;

const JOB_TYPE: &str = "harvesterhci.io/upgradeJobType";
const NODE: &str = "harvesterhci.io/node";
const STATE: &str = "harvesterhci.io/upgradeState";
const CLEANUP: &str = "harvesterhci.io/upgradeCleanup";
const PROGRESS: &str = "drover.dev/progress";
const PAUSE_MAP: &str = "harvesterhci.io/node-upgrade-pause-map";
const PENDING: &str = "harvesterhci.io/pendingOSImage";
const DRAIN_TAINT: &str = "kubevirt.io/drain";

pub(super) fn rewrite(sabotage: Sabotage, purpose: &str, asked: &mut Asked, server: &ApiServer) -> Verdict {
    match (sabotage, purpose) {
        (Sabotage::HookAnsweredEarly, "CreateJob") if asked.body["metadata"]["labels"][JOB_TYPE] == "pre-drain" => {
            answer_planner(&asked.body["metadata"]["labels"][NODE], server);
            Verdict::Pass
        }
        (Sabotage::ImagesAssumed, "NoteProgress") => {
            let noted = asked.body["metadata"]["annotations"][PROGRESS].as_str();
            let progress = noted.and_then(|text| serde_json::from_str::<Value>(text).ok());
            let Some(mut progress) = progress else { return Verdict::Pass };
            progress["prepared"] = json!(true);
            asked.body["metadata"]["annotations"][PROGRESS] = json!(progress.to_string());
            Verdict::Changed
        }
        (Sabotage::SuccessToldEarly, "NoteProgress") => say(asked, STATE, "UpgradingNodes"),
        (Sabotage::CleanUpToldEarly, "NoteProgress") => say(asked, CLEANUP, "Pending"),
        (Sabotage::HooksLeft, "CleanUp") if asked.plural == "clusters" => pretend_written(asked, server),
        (Sabotage::DrainTaintLeft, _) if asked.plural == "nodes" => match asked.body["spec"]["taints"].as_array() {
            Some(taints) if taints.iter().all(|taint| taint["key"] != DRAIN_TAINT) => pretend_written(asked, server),
            _ => Verdict::Pass,
        },
        (Sabotage::VmLeftOff, _) if asked.subresource == "start" => Verdict::Pretend(json!({})),
        _ => Verdict::Pass,
    }
}

/// One label says `Succeeded` instead of this.
fn say(asked: &mut Asked, label: &str, instead_of: &str) -> Verdict {
    let said = asked.body.pointer_mut("/metadata/labels").and_then(|labels| labels.get_mut(label));
    match said.filter(|said| *said == instead_of) {
        Some(said) => {
            *said = json!("Succeeded");
            Verdict::Changed
        }
        None => Verdict::Pass,
    }
}

/// Copies what the planner asks for a node.
fn answer_planner(node: &Value, server: &ApiServer) {
    let direct = server.direct("operator-1");
    for mut secret in direct.list::<Secret>().unwrap_or_default() {
        let is_its = secret.labels().get("rke.cattle.io/node-name").is_some_and(|name| *node == name.as_str());
        let asked = secret.annotations().get("rke.cattle.io/pre-drain").cloned();
        if let Some(asked) = asked.filter(|_| is_its) {
            secret.annotations_mut().insert("harvesterhci.io/pre-hook".to_owned(), asked);
            // A conflict is as good: then somebody else has changed it.
            let _ = direct.update(&secret);
        }
    }
}

/// The kind of objects that are shown otherwise.
pub(super) fn plural(sabotage: Sabotage) -> Option<&'static str> {
    Some(match sabotage {
        Sabotage::VotersAssumed | Sabotage::RebootAssumed => "nodes",
        Sabotage::PauseOverlooked | Sabotage::DriverOverlooked => "upgrades",
        Sabotage::IncumbentOverlooked => "deployments",
        Sabotage::ReplicasAssumed => "engines",
        Sabotage::VmTakenForStuck => "virtualmachineinstances",
        _ => return None,
    })
}

/// Changes an object as it is shown.
pub(super) fn show(sabotage: Sabotage, object: &mut Value) {
    match sabotage {
        Sabotage::VotersAssumed => {
            set(object, "EtcdIsVoter", "True");
            set(object, "Ready", "True");
        }
        // Its mark was there.
        Sabotage::PauseOverlooked if object["metadata"]["annotations"][PROGRESS].to_string().contains("marked") => {
            let map = object["metadata"]["annotations"][PAUSE_MAP].as_str().unwrap_or("{}");
            object["metadata"]["annotations"][PAUSE_MAP] = json!(map.replace("\"pause\"", "\"unpause\""));
        }
        Sabotage::DriverOverlooked => {
            if let Some(managed) = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut) {
                managed.retain(|entry| entry["manager"] == "drover");
            }
        }
        Sabotage::IncumbentOverlooked if object["metadata"]["name"] == "harvester" => {
            object["spec"]["replicas"] = json!(0);
        }
        Sabotage::RebootAssumed => {
            let pending = object["metadata"]["annotations"][PENDING].as_str().map(str::to_owned);
            if let Some(pending) = pending {
                object["status"]["nodeInfo"]["osImage"] = json!(pending);
                set(object, "Ready", "True");
            }
        }
        Sabotage::ReplicasAssumed => {
            for mode in object["status"]["replicaModeMap"].as_object_mut().into_iter().flat_map(|map| map.values_mut())
            {
                *mode = json!("RW");
            }
        }
        Sabotage::VmTakenForStuck => set(object, "LiveMigratable", "False"),
        _ => {}
    }
}
