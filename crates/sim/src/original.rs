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
    let mut made: Vec<Made> = Vec::new();
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
            let namespace = plan.namespace().unwrap_or_default();
            let cordons = plan.spec.cordon || plan.spec.drain.is_some();
            made.push(Made { namespace, job: job.name_any(), node: node.name_any(), hash, cordons });
        }
    }
    let clock = server.clock();
    let ends = drover_clock::later(clock.now(), AT_WORK);
    while !made.is_empty() && clock.now() < ends {
        clock.sleep(LOOK).await;
        made.retain(|one| !finish(&server, one));
    }
    for Made { namespace, job, .. } in made {
        // Whoever stops the controller clears away what it left.
        let _ = direct.delete::<Job>(Some(&namespace), &job, None);
    }
}

/// A Job that it has made, where its Plan is.
struct Made {
    namespace: String,
    job: String,
    node: String,
    /// What the node is labelled with when the Job is done.
    hash: String,
    /// It uncordons then.
    cordons: bool,
}

/// True if the Job has ended and its node is given back.
fn finish(server: &ApiServer, made: &Made) -> bool {
    let direct = server.direct(ACTOR);
    let Ok(Some(job)) = direct.get::<Job>(Some(&made.namespace), &made.job) else { return true };
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ended =
        conditions.into_iter().find(|condition| condition.status == "True" && condition.type_ != "SuccessCriteriaMet");
    let Some(ended) = ended.filter(|condition| matches!(condition.type_.as_str(), "Complete" | "Failed")) else {
        return false;
    };
    if ended.type_ == "Complete"
        && let Ok(Some(mut node)) = direct.get::<Node>(None, &made.node)
    {
        let plan = job.labels().get("upgrade.cattle.io/plan").cloned().unwrap_or_default();
        node.labels_mut().insert(format!("plan.upgrade.cattle.io/{plan}"), made.hash.clone());
        if made.cordons {
            node.spec.get_or_insert_default().unschedulable = None;
        }
        let _ = direct.update(&node);
    }
    true
}

fn job(plan: &Plan, node: &Node, label: &str, hash: &str) -> Job {
    let hostname = node.labels().get("kubernetes.io/hostname").cloned().unwrap_or_default();
    let mut labels = json!({
        "upgrade.cattle.io/controller": "system-upgrade-controller",
        "upgrade.cattle.io/plan": plan.name_any(),
        "upgrade.cattle.io/node": node.name_any(),
        "upgrade.cattle.io/version": plan.status.as_ref().map(|status| status.latest_version.as_str()),
        label: hash,
    });
    for (key, value) in plan.labels().iter().filter(|(key, _)| !key.contains("cattle.io/")) {
        labels[key] = json!(value);
    }
    let upgrade = &plan.spec.upgrade;
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
                    "containers": [{
                        "name": "upgrade", "image": upgrade.image, "command": upgrade.command, "args": upgrade.args,
                    }],
                },
            },
        },
    });
    serde_json::from_value(job).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use drover_clock::Clock;
    use drover_corral::apiserver::Options;
    use drover_corral::world::World;
    use jiff::Timestamp;

    use super::*;
    use crate::scenario::Scenario;

    /// Plans of a Harvester cluster are where Rancher has its own.
    #[tokio::test(start_paused = true)]
    async fn a_node_gets_its_result_in_whatever_namespace_the_plan_is() {
        let namespace = "cattle-system";
        let mut plan = Scenario::default().plan();
        plan["metadata"]["namespace"] = json!(namespace);
        plan["status"] = json!({ "latestVersion": "v1.34.0", "latestHash": "abc" });
        let home = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        let scenario = Scenario { nodes: 1, manifests: vec![home, plan], ..Scenario::default() };
        let clock = Clock::virtual_from(Timestamp::UNIX_EPOCH);
        let server =
            ApiServer::without_own_managers(Options { clock, seed: 1, latency: LOOK / 1000, watch_window: 1000 });
        scenario.set_up_cluster(&server).unwrap();
        tokio::spawn(World::run(server.clone(), scenario.world()));

        act(server.clone()).await;

        let node = server.direct("test").get::<Node>(None, "node-1").unwrap().unwrap();
        assert_eq!(node.labels().get("plan.upgrade.cattle.io/upgrade").map(String::as_str), Some("abc"));
        let took = clock.now().as_second();
        assert!((4..20).contains(&took), "it ends with its Job: {took} s");
    }
}
