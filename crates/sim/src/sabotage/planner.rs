//! Bugs in what an operator writes where it plans the machines of a cluster itself.

use drover_api::rancher::rke_control_plane::RKEControlPlane;
use drover_corral::apiserver::ApiServer;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::requests::{CLAIM, CLAIMS, change_claims, set_epoch_back, without_guard};
use super::{Sabotage, Verdict, pretend_written};
use crate::gate::Asked;

const ETCD: &str = "node-role.kubernetes.io/etcd";
const ASKED: &str = "rke.cattle.io/drain-options";
const DRAINED: &str = "rke.cattle.io/drain-done";
/// Who makes the mistakes that are no single request.
const CULPRIT: &str = "operator-1";

pub(super) fn rewrite(sabotage: Sabotage, purpose: &str, asked: &mut Asked, server: &ApiServer) -> Verdict {
    match (sabotage, purpose) {
        (Sabotage::PlannerTakesUnguarded, "PlannerTakeNode") => without_guard(asked),
        (Sabotage::PlannerKeepsEpoch, "PlannerRaiseEpoch") => change_claims(asked, set_epoch_back),
        (Sabotage::PlannerClaimsNotWritten, "PlannerClaimNodes") => pretend_written(asked, server),
        (Sabotage::PlannerClaimEndedEarly, "PlannerDeliverPlan") => {
            end_claims(server);
            Verdict::Pass
        }
        (Sabotage::PlannerClaimsTwoServers, "PlannerClaimNodes") => {
            let servers = names(server, |node| node.labels().contains_key(ETCD));
            change_claims(asked, |claims| also_claim(claims, &servers))
        }
        (Sabotage::PlannerBeginsWithWorkers, "PlannerClaimNodes") => {
            let workers = names(server, |node| !node.labels().contains_key(ETCD));
            change_claims(asked, |claims| {
                claims["nodes"] = json!({});
                also_claim(claims, &workers);
            })
        }
        (Sabotage::PlannerAssumesDrain, "PlannerAskForDrain") => {
            let token = asked.body["metadata"]["annotations"][ASKED].clone();
            asked.body["metadata"]["annotations"][DRAINED] = token;
            Verdict::Changed
        }
        (Sabotage::PlannerGivesBackEarly, "PlannerPublishStatus") => {
            give_back(server);
            Verdict::Pass
        }
        _ => Verdict::Pass,
    }
}

fn names(server: &ApiServer, which: impl Fn(&Node) -> bool) -> Vec<String> {
    let nodes = server.direct(CULPRIT).list::<Node>().unwrap_or_default();
    nodes.iter().filter(|node| which(node)).map(Node::name_any).collect()
}

/// The first one that is not claimed yet.
fn also_claim(claims: &mut Value, names: &[String]) {
    let begun = json!({ "id": "another", "owner": "", "since": "2026-01-01T12:00:00Z" });
    if let Some(name) = names.iter().find(|name| claims["nodes"].get(name.as_str()).is_none()) {
        claims["nodes"][name] = begun;
    }
}

/// The claims go from the control plane while their nodes are out.
fn end_claims(server: &ApiServer) {
    let direct = server.direct(CULPRIT);
    for mut plane in direct.list::<RKEControlPlane>().unwrap_or_default() {
        let text = plane.annotations().get(CLAIMS).cloned().unwrap_or_default();
        let mut claims: Value = serde_json::from_str(&text).unwrap_or_default();
        claims["nodes"] = json!({});
        plane.annotations_mut().insert(CLAIMS.to_owned(), claims.to_string());
        // A conflict is as good: then there is nothing to end.
        let _ = direct.update(&plane);
    }
}

/// All nodes that are out take pods again.
fn give_back(server: &ApiServer) {
    let direct = server.direct(CULPRIT);
    let nodes = direct.list::<Node>().unwrap_or_default();
    for mut node in nodes.into_iter().filter(|node| node.labels().contains_key(CLAIM)) {
        node.labels_mut().remove(CLAIM);
        node.annotations_mut().remove(CLAIM);
        node.spec.get_or_insert_default().unschedulable = None;
        // A conflict is as good: then somebody else has changed it.
        let _ = direct.update(&node);
    }
}
