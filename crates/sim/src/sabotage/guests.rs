//! Bugs in the update of a guest cluster: of its control plane, which an operator or a Job brings about, of add-ons and of workers.

use drover_api::cluster_api::machine::v1alpha2::Machine;
use drover_api::cluster_api::machine_deployment::v1alpha2::MachineDeployment;
use drover_core::guest::Member;
use drover_corral::apiserver::ApiServer;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{Sabotage, Verdict, pretend_written};
use crate::gate::Asked;

const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
const LEAVES: &str = "drover.dev/leaves";
/// Who makes the mistakes that are no single request.
const CULPRIT: &str = "operator-1";

pub(super) fn rewrite(
    sabotage: Sabotage,
    purpose: &str,
    asked: &mut Asked,
    server: &ApiServer,
    management: &ApiServer,
) -> Verdict {
    match (sabotage, purpose) {
        (Sabotage::OldMachineGoesFirst, "POST machines") => {
            let first = masters(management).into_iter().next();
            delete_machine(management, first);
            Verdict::Pass
        }
        (Sabotage::TwoMachinesCome, "POST machines") => {
            let mut copy = asked.body.clone();
            let name = copy["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            copy["metadata"]["name"] = json!(format!("{name}-again"));
            Verdict::Also(copy)
        }
        (Sabotage::MemberLeftBehind, "PUT configmaps") if asked.name == "etcd" => {
            leave_member(asked, server, management)
        }
        (Sabotage::MachineEmptiedPastBudgets, "POST pods") if asked.subresource == "eviction" => {
            // Gone meanwhile is as good.
            let _ = server.direct(CULPRIT).delete::<Pod>(Some(&asked.namespace), &asked.name, None);
            Verdict::Pretend(json!({ "kind": "Status", "apiVersion": "v1", "status": "Success" }))
        }
        (Sabotage::CordonUnexplained, _) if asked.body["metadata"]["annotations"][LEAVES].is_string() => {
            asked.body["metadata"]["annotations"] = json!({});
            Verdict::Changed
        }
        (Sabotage::KubeadmVersionLeft, "PATCH configmaps ClusterConfiguration") => pretend_written(asked, server),
        (Sabotage::WorkersBegunEarly, "POST jobs") => {
            let version = &asked.body["spec"]["template"]["metadata"]["annotations"]["upgrade-version"];
            raise_workers(version, management);
            Verdict::Pass
        }
        (Sabotage::AddonReplacesPods, _) if asked.body["spec"]["updateStrategy"]["type"] == "OnDelete" => {
            asked.body["spec"]["updateStrategy"] = json!({ "type": "RollingUpdate" });
            Verdict::Changed
        }
        (Sabotage::FailedUpdateTriedAgain, _) if asked.body["status"]["phase"] == "updateFailed" => {
            let direct = management.direct(CULPRIT);
            for job in direct.list::<Job>().unwrap_or_default() {
                let conditions = job.status.as_ref().and_then(|status| status.conditions.as_ref());
                if conditions.into_iter().flatten().any(|one| one.type_ == "Failed" && one.status == "True") {
                    // Gone meanwhile is as good.
                    let _ = direct.delete::<Job>(job.namespace().as_deref(), &job.name_any(), None);
                }
            }
            Verdict::Pass
        }
        _ => Verdict::Pass,
    }
}

/// The machines of control planes, the first ones first.
fn masters(management: &ApiServer) -> Vec<Machine> {
    let mut all = management.direct("user").list::<Machine>().unwrap_or_default();
    all.retain(|machine| machine.labels().contains_key(CONTROL_PLANE) && machine.metadata.deletion_timestamp.is_none());
    all
}

fn delete_machine(management: &ApiServer, machine: Option<Machine>) {
    let Some(machine) = machine else { return };
    let direct = management.direct(CULPRIT);
    // Gone meanwhile is as good.
    let _ = direct.delete::<Machine>(machine.namespace().as_deref(), &machine.name_any(), None);
}

/// A member that is to be removed stays, and its machine goes; one without a machine is removed.
fn leave_member(asked: &Asked, server: &ApiServer, management: &ApiServer) -> Verdict {
    let map = server.direct("user").get::<ConfigMap>(Some(&asked.namespace), &asked.name).ok().flatten();
    let before = map.and_then(|map| map.data?.remove("members")).unwrap_or_default();
    let names = |text: &str| -> Vec<String> {
        let members: Value = serde_json::from_str(text).unwrap_or_default();
        let members = members.as_array().into_iter().flatten();
        members.map(|member| member["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let after = names(asked.body["data"]["members"].as_str().unwrap_or_default());
    let Some(removed) = names(&before).into_iter().find(|name| !after.contains(name)) else { return Verdict::Pass };
    match masters(management).into_iter().find(|machine| machine.name_any() == removed) {
        Some(machine) => {
            delete_machine(management, Some(machine));
            Verdict::Pretend(asked.body.clone())
        }
        None => Verdict::Pass,
    }
}

/// MachineDeployments ask for a version while the control plane is of another.
fn raise_workers(version: &Value, management: &ApiServer) {
    let direct = management.direct(CULPRIT);
    for mut deployment in direct.list::<MachineDeployment>().unwrap_or_default() {
        let template = deployment.spec.as_mut().and_then(|spec| spec.template.as_mut());
        if let Some(spec) = template.and_then(|template| template.spec.as_mut()) {
            spec.version = version.as_str().map(str::to_owned);
        }
        // A conflict is as good: then somebody else has changed it.
        let _ = direct.update(&deployment);
    }
}

/// The kind of objects that are shown otherwise.
pub(super) fn plural(sabotage: Sabotage) -> Option<&'static str> {
    Some(match sabotage {
        Sabotage::MachineNotEmptied => "pods",
        _ => return None,
    })
}

/// Changes an object as it is shown; false if it is not shown at all.
pub(super) fn show(sabotage: Sabotage, object: &mut Value) -> bool {
    match sabotage {
        // The parts of the control plane are looked at all the same.
        Sabotage::MachineNotEmptied => {
            let mut owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            !owners.any(|owner| owner["kind"] == "ReplicaSet")
        }
        _ => true,
    }
}

pub(super) fn show_members(sabotage: Sabotage, members: &mut [Member]) {
    if sabotage == Sabotage::LeaderOverlooked {
        members.iter_mut().for_each(|member| member.leader = false);
    }
}
