//! A small model of system-upgrade-controller 0.16: what it does to Plans, Jobs and Nodes where another controller can
//! see it. For each Plan that is not complete it makes a Job on the next node, notes it as applying, and when the Job
//! is done labels and uncordons the node. It knows nothing of claims.

use std::time::Duration;

use drover_api::plan::Plan;
use drover_corral::apiserver::ApiServer;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use serde_json::json;

use crate::invariants::selector;

/// How long it acts at most.
pub const AT_WORK: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_secs(1);
const ACTOR: &str = "original";

/// Upgrades one node for each Plan, and ends.
pub async fn act(server: ApiServer) {
    let direct = server.direct(ACTOR);
    let mut made: Vec<(String, String, String)> = Vec::new();
    for plan in direct.list::<Plan>().unwrap_or_default() {
        let hash = plan.status.as_ref().map(|status| status.latest_hash.clone()).unwrap_or_default();
        let label = format!("plan.upgrade.cattle.io/{}", plan.name_any());
        let nodes = direct.list::<Node>().unwrap_or_default();
        let pending = nodes.iter().find(|node| {
            let done = node.labels().get(&label);
            done.is_none_or(|done| *done != hash && done != "disabled")
                && selector::selects(&json!(plan)["spec"]["nodeSelector"], &json!(node))
        });
        let (Some(node), false) = (pending, hash.is_empty()) else { continue };
        let job = job(&plan, node, &label, &hash);
        if direct.create::<Job>(&job).is_ok() {
            let mut applying = plan.clone();
            applying.status.get_or_insert_default().applying =
                vec![node.labels().get("kubernetes.io/hostname").cloned().unwrap_or_default()];
            // It wrote with a version that may be old by now, and then waits for the next event.
            let _ = direct.update_status(&applying);
            made.push((job.name_any(), node.name_any(), hash));
        }
    }
    let clock = server.clock();
    let ends = drover_clock::later(clock.now(), AT_WORK);
    while !made.is_empty() && clock.now() < ends {
        clock.sleep(LOOK).await;
        made.retain(|(job, node, hash)| !finish(&server, job, node, hash));
    }
    for (job, ..) in made {
        // Whoever stops the controller clears away what it left.
        let _ = direct.delete::<Job>(Some(crate::scenario::NAMESPACE), &job, None);
    }
}

/// True if the Job has ended and its node is given back.
fn finish(server: &ApiServer, job: &str, node: &str, hash: &str) -> bool {
    let direct = server.direct(ACTOR);
    let Ok(Some(job)) = direct.get::<Job>(Some(crate::scenario::NAMESPACE), job) else { return true };
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ended =
        conditions.into_iter().find(|condition| condition.status == "True" && condition.type_ != "SuccessCriteriaMet");
    let Some(ended) = ended.filter(|condition| matches!(condition.type_.as_str(), "Complete" | "Failed")) else {
        return false;
    };
    if ended.type_ == "Complete"
        && let Ok(Some(mut node)) = direct.get::<Node>(None, node)
    {
        let plan = job.labels().get("upgrade.cattle.io/plan").cloned().unwrap_or_default();
        node.labels_mut().insert(format!("plan.upgrade.cattle.io/{plan}"), hash.to_owned());
        // Only where its Job has cordoned: a Plan that cordons.
        node.spec.get_or_insert_default().unschedulable = None;
        let _ = direct.update(&node);
    }
    true
}

fn job(plan: &Plan, node: &Node, label: &str, hash: &str) -> Job {
    let hostname = node.labels().get("kubernetes.io/hostname").cloned().unwrap_or_default();
    let labels = json!({
        "upgrade.cattle.io/controller": "system-upgrade-controller",
        "upgrade.cattle.io/plan": plan.name_any(),
        "upgrade.cattle.io/node": node.name_any(),
        "upgrade.cattle.io/version": plan.status.as_ref().map(|status| status.latest_version.as_str()),
        label: hash,
    });
    let job = json!({
        "metadata": {
            "name": format!("apply-{}-on-{}-by-the-original", plan.name_any(), node.name_any()),
            "namespace": plan.namespace(),
            "labels": labels,
            "ownerReferences": [{
                "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan", "name": plan.name_any(),
                "uid": plan.uid().unwrap_or_default(), "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "backoffLimit": 2,
            "ttlSecondsAfterFinished": 900,
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "restartPolicy": "Never",
                    "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{ "matchExpressions": [
                            { "key": "kubernetes.io/hostname", "operator": "In", "values": [hostname] },
                        ]}],
                    }}},
                    "tolerations": [{ "key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule" }],
                    "containers": [{ "name": "upgrade", "image": "rancher/k3s-upgrade" }],
                },
            },
        },
    });
    serde_json::from_value(job).unwrap_or_default()
}
