//! Bugs in what an operator writes.

use drover_api::plan::Plan;
use drover_corral::apiserver::ApiServer;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{Sabotage, Verdict};
use crate::gate::Asked;

pub(super) const CLAIMS: &str = "drover.dev/claims";
pub(super) const CLAIM: &str = "drover.dev/claim";
const PLACES: &str = "drover-guest-places";

pub(super) fn rewrite(sabotage: Sabotage, purpose: &str, asked: &mut Asked, server: &ApiServer) -> Verdict {
    match (sabotage, purpose) {
        (Sabotage::TakeUnguarded, "TakeNode")
        | (Sabotage::ClaimUnguarded, "ClaimNodes")
        | (Sabotage::ReleaseUnguarded, "ReleaseNode")
        | (Sabotage::StatusUnguarded, "PublishStatus") => without_guard(asked),
        (Sabotage::PlacesUnguarded, "PATCH configmaps") if asked.name == PLACES => without_guard(asked),
        (Sabotage::PlaceGivenBackEarly, "PATCH jobs") => {
            give_places_back(server);
            Verdict::Pass
        }
        (Sabotage::DeleteByName, "DeleteJob") => {
            asked.body["preconditions"] = Value::Null;
            Verdict::Changed
        }
        (Sabotage::CordonForgotten, "TakeNode") => {
            asked.body["spec"] = json!({});
            Verdict::Changed
        }
        (Sabotage::CordonLeft, "ReleaseNode") => {
            asked.body["spec"] = json!({});
            Verdict::Changed
        }
        (Sabotage::UncordonedEarly, "CreateJob") => {
            uncordon_claimed(server);
            Verdict::Pass
        }
        (Sabotage::ClaimsAtStaleEpoch, "ClaimNodes") => change_claims(asked, set_epoch_back),
        (Sabotage::ForeignCordonLifted, "ReleaseNode") => {
            asked.body["spec"] = json!({ "unschedulable": null });
            Verdict::Changed
        }
        (Sabotage::MarkLeft, "ReleaseNode") => {
            for marks in ["labels", "annotations"] {
                if let Some(marks) = asked.body["metadata"][marks].as_object_mut() {
                    marks.remove(CLAIM);
                }
            }
            Verdict::Changed
        }
        (Sabotage::ResultWithTake, "TakeNode") => with_result(asked, server),
        (Sabotage::ResultOfAnotherHash, "ReleaseNode") => {
            for (key, value) in asked.body["metadata"]["labels"].as_object_mut().into_iter().flatten() {
                if key.starts_with("plan.upgrade.cattle.io/") {
                    *value = json!("0000000000000000000000000000000000000000000000000000000000000000");
                }
            }
            Verdict::Changed
        }
        (Sabotage::EpochNotRaised, "RaiseEpoch") => change_claims(asked, set_epoch_back),
        (Sabotage::HolderNotNoted, "RaiseEpoch") => change_claims(asked, |claims| claims["holder"] = json!("nobody")),
        (Sabotage::ClaimsNotWritten, "ClaimNodes") => pretend_patched::<Plan>(asked, server),
        (Sabotage::ClaimEndedEarly, "PublishStatus") => {
            end_claims(asked, server);
            Verdict::Pass
        }
        (Sabotage::OrphansLeft, "UndoMarks") | (Sabotage::FenceForgotten, "FenceNode") => {
            pretend_unchanged::<Node>(asked, server)
        }
        (Sabotage::JobEndNotNoted, "NoteJobEnd") => pretend_unchanged::<Node>(asked, server),
        (Sabotage::AffinityWithoutClaim, "CreateJob") => {
            let terms = affinity(&mut asked.body);
            if let Some(terms) = terms["nodeSelectorTerms"][0]["matchExpressions"].as_array_mut() {
                terms.retain(|term| term["key"] != CLAIM);
            }
            Verdict::Changed
        }
        (Sabotage::AffinityForgotten, "CreateJob") => {
            asked.body["spec"]["template"]["spec"]["affinity"] = Value::Null;
            Verdict::Changed
        }
        (Sabotage::DrainForgotten, "CreateJob") => {
            if let Some(containers) = init_containers(&mut asked.body) {
                containers.retain(|container| container["name"] != "drain");
            }
            Verdict::Changed
        }
        (Sabotage::DrainPastBudgets, "CreateJob") => {
            let containers = init_containers(&mut asked.body).into_iter().flatten();
            for drain in containers.filter(|container| container["name"] == "drain") {
                drain["args"].as_array_mut().into_iter().for_each(|args| args.push(json!("--disable-eviction=true")));
            }
            Verdict::Changed
        }
        (Sabotage::JobMadeTwice, "CreateJob") => {
            let mut copy = asked.body.clone();
            let name = copy["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            copy["metadata"]["name"] = json!(format!("{name:.55}-again"));
            copy["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"] = Value::Null;
            Verdict::Also(copy)
        }
        (Sabotage::OthersJobsDeleted, "PublishStatus") => {
            let direct = server.direct("operator-1");
            for job in direct.list::<Job>().unwrap_or_default() {
                if !job.labels().contains_key(CLAIM) {
                    // Gone meanwhile is as good.
                    let _ = direct.delete::<Job>(job.namespace().as_deref(), &job.name_any(), None);
                }
            }
            Verdict::Pass
        }
        (Sabotage::CompleteTooEarly, "PublishStatus") => {
            let conditions = asked.body["status"]["conditions"].as_array_mut();
            for condition in conditions.into_iter().flatten().filter(|condition| condition["type"] == "Complete") {
                condition["status"] = json!("True");
            }
            Verdict::Changed
        }
        (Sabotage::WaitsSwallowed, "PublishStatus") => {
            asked.body["status"]["waits"] = Value::Null;
            Verdict::Changed
        }
        (Sabotage::SinceForgotten, "PublishStatus") => {
            let now = server.clock().now().to_string();
            for wait in asked.body["status"]["waits"].as_array_mut().into_iter().flatten() {
                wait["since"] = json!(now);
            }
            Verdict::Changed
        }
        (Sabotage::MiscountedByOne, "PublishStatus") => {
            let updated = &mut asked.body["status"]["counts"]["updated"];
            *updated = json!(updated.as_u64().unwrap_or(0) + 1);
            Verdict::Changed
        }
        (Sabotage::EventsSwallowed, "Announce") => Verdict::Pretend(asked.body.clone()),
        // Claims are written by patches of the Plan; a refusal of one would be answered 409.
        (Sabotage::RefusalIgnored, "TakeNode" | "ClaimNodes") => pretend_if_refused(asked, server),
        _ => Verdict::Pass,
    }
}

pub(super) fn without_guard(asked: &mut Asked) -> Verdict {
    if let Some(metadata) = asked.body["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    Verdict::Changed
}

fn affinity(job: &mut Value) -> &mut Value {
    &mut job["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
}

fn init_containers(job: &mut Value) -> Option<&mut Vec<Value>> {
    job["spec"]["template"]["spec"]["initContainers"].as_array_mut()
}

pub(super) fn change_claims(asked: &mut Asked, change: impl Fn(&mut Value)) -> Verdict {
    let text = asked.body["metadata"]["annotations"][CLAIMS].as_str().unwrap_or_default();
    let mut claims: Value = serde_json::from_str(text).unwrap_or_default();
    change(&mut claims);
    asked.body["metadata"]["annotations"][CLAIMS] = json!(claims.to_string());
    Verdict::Changed
}

pub(super) fn set_epoch_back(claims: &mut Value) {
    claims["epoch"] = json!(claims["epoch"].as_u64().unwrap_or(1).saturating_sub(1));
}

fn with_result(asked: &mut Asked, server: &ApiServer) -> Verdict {
    for plan in server.direct("user").list::<Plan>().unwrap_or_default() {
        let hash = plan.status.as_ref().map(|status| status.latest_hash.clone()).unwrap_or_default();
        asked.body["metadata"]["labels"][format!("plan.upgrade.cattle.io/{}", plan.name_any())] = json!(hash);
    }
    Verdict::Changed
}

fn uncordon_claimed(server: &ApiServer) {
    let direct = server.direct("operator-1");
    let claimed =
        direct.list::<Node>().unwrap_or_default().into_iter().filter(|node| node.labels().contains_key(CLAIM));
    for mut node in claimed {
        node.spec.get_or_insert_default().unschedulable = None;
        // A conflict is as good: then somebody else has changed it.
        let _ = direct.update(&node);
    }
}

/// The claims go from the Plan while their nodes are out.
fn end_claims(asked: &mut Asked, server: &ApiServer) {
    let direct = server.direct("operator-1");
    let Ok(Some(mut plan)) = direct.get::<Plan>(Some(&asked.namespace), &asked.name) else { return };
    let Some(text) = plan.annotations().get(CLAIMS).cloned() else { return };
    let mut claims: Value = serde_json::from_str(&text).unwrap_or_default();
    claims["nodes"] = json!({});
    plan.annotations_mut().insert(CLAIMS.to_owned(), claims.to_string());
    // A conflict is as good: then there is nothing to end.
    let _ = direct.update(&plan);
}

/// Nobody is at work any more, as far as is written down.
fn give_places_back(server: &ApiServer) {
    let direct = server.direct("operator-1");
    let Ok(Some(mut map)) = direct.get::<ConfigMap>(Some("vmware-system-tkg"), PLACES) else { return };
    map.annotations_mut().insert(CLAIMS.to_owned(), json!({ "clusters": {} }).to_string());
    // A conflict is as good: then there is nothing to end.
    let _ = direct.update(&map);
}

/// Answers with the object as it is, as if the write had been done.
fn pretend_unchanged<K: drover_corral::apiserver::Kind>(asked: &Asked, server: &ApiServer) -> Verdict {
    current::<K>(asked, server).map_or(Verdict::Pass, Verdict::Pretend)
}

/// Answers with the object as it would be.
fn pretend_patched<K: drover_corral::apiserver::Kind>(asked: &Asked, server: &ApiServer) -> Verdict {
    let Some(mut object) = current::<K>(asked, server) else { return Verdict::Pass };
    crate::scenario::merge(
        &mut object,
        &json!({ "metadata": { "annotations": asked.body["metadata"]["annotations"] } }),
    );
    Verdict::Pretend(object)
}

/// A write whose guard does not hold is answered as if it had been done.
fn pretend_if_refused(asked: &Asked, server: &ApiServer) -> Verdict {
    let object = match asked.kind() {
        "Plan" => current::<Plan>(asked, server),
        _ => current::<Node>(asked, server),
    };
    let guard = &asked.body["metadata"]["resourceVersion"];
    match object.filter(|object| object["metadata"]["resourceVersion"] != *guard) {
        Some(mut object) => {
            crate::scenario::merge(&mut object, &asked.body);
            Verdict::Pretend(object)
        }
        None => Verdict::Pass,
    }
}

fn current<K: drover_corral::apiserver::Kind>(asked: &Asked, server: &ApiServer) -> Option<Value> {
    let namespace = Some(asked.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    server.direct("user").get::<K>(namespace, &asked.name).ok().flatten().map(|object| json!(object))
}
