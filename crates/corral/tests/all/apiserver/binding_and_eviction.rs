//! Pods are bound to a node once, and leave it only as far as their budget allows.

use drover_corral::apiserver::ApiServer;
use serde_json::{Value, json};

use super::support::*;

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

/// A pod that runs and is ready, or not.
async fn running(server: &ApiServer, name: &str, ready: bool) {
    server.make(PODS, pod(name)).await.ok();
    server.direct("scheduler").bind("default", name, "node-1").unwrap();
    let ready = if ready { "True" } else { "False" };
    let status = json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": ready }] });
    server.merge(&format!("{PODS}/{name}/status"), json!({ "status": status })).await.ok();
}

async fn budget(server: &ApiServer, name: &str, status: Value) {
    let spec = json!({ "minAvailable": 1, "selector": { "matchLabels": { "app": "web" } } });
    server.make(BUDGETS, json!({ "metadata": { "name": name }, "spec": spec })).await.ok();
    server.merge(&format!("{BUDGETS}/{name}/status"), json!({ "status": status })).await.ok();
}

async fn evict(server: &ApiServer, name: &str) -> Answer {
    let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name } });
    server.make(&format!("{PODS}/{name}/eviction"), eviction).await
}

fn allowing(disruptions: i64) -> Value {
    json!({ "observedGeneration": 1, "disruptionsAllowed": disruptions, "currentHealthy": 1 + disruptions,
            "desiredHealthy": 1, "expectedPods": 2 })
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_is_used_up_refuses_and_says_why() {
    let server = server();
    running(&server, "a", true).await;
    budget(&server, "web", allowing(0)).await;

    let refused = evict(&server, "a").await;

    assert_eq!((refused.code, refused.body["reason"].as_str()), (429, Some("TooManyRequests")));
    assert_eq!(refused.message(), "Cannot evict pod as it would violate the pod's disruption budget.");
    let message = "The disruption budget web needs 1 healthy pods and has 1 currently";
    assert_eq!(refused.body["details"]["causes"], json!([{ "reason": "DisruptionBudget", "message": message }]));
    assert!(server.read(&format!("{PODS}/a")).await.ok()["metadata"].get("deletionTimestamp").is_none());
}

#[tokio::test(start_paused = true)]
async fn an_eviction_takes_one_disruption_from_the_budget() {
    let server = server();
    running(&server, "a", true).await;
    running(&server, "b", true).await;
    budget(&server, "web", allowing(1)).await;

    let evicted = evict(&server, "a").await;
    let next = evict(&server, "b").await;

    assert_eq!((evicted.code, evicted.body["status"].as_str()), (201, Some("Success")));
    let going = server.read(&format!("{PODS}/a")).await.ok();
    assert_eq!(going["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(going["status"]["conditions"][1]["reason"], "EvictionByEvictionAPI");
    let status = server.read(&format!("{BUDGETS}/web")).await.ok()["status"].clone();
    assert_eq!(status["disruptionsAllowed"], 0);
    assert_eq!(status["disruptedPods"], json!({ "a": "2026-01-01T12:00:00Z" }));
    assert_eq!(status["conditions"][0]["reason"], "InsufficientPods");
    assert_eq!(next.code, 429);
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_was_not_looked_at_yet_refuses_for_now() {
    let server = server();
    running(&server, "a", true).await;
    budget(&server, "web", json!({ "disruptionsAllowed": 5 })).await;

    let refused = evict(&server, "a").await;

    assert_eq!((refused.code, refused.body["details"]["retryAfterSeconds"].as_u64()), (429, Some(10)));
    let message = "The disruption budget web is still being processed by the server.";
    assert_eq!(refused.body["details"]["causes"][0]["message"], message);
}

#[tokio::test(start_paused = true)]
async fn two_budgets_for_one_pod_are_an_error() {
    let server = server();
    running(&server, "a", true).await;
    budget(&server, "one", allowing(1)).await;
    budget(&server, "two", allowing(1)).await;

    let answer = evict(&server, "a").await;

    assert_eq!(answer.code, 500);
    let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    assert_eq!(answer.message(), why);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_no_loss_is_evicted_whatever_its_budget() {
    let server = server();
    budget(&server, "web", allowing(0)).await;
    server.make(PODS, pod("pending")).await.ok();
    running(&server, "unready", false).await;

    assert_eq!(evict(&server, "pending").await.code, 201);
    assert_eq!(evict(&server, "unready").await.code, 201, "the budget is met without it");
    assert_eq!(evict(&server, "absent").await.code, 404);
    assert_eq!(server.read(&format!("{BUDGETS}/web")).await.ok()["status"]["disruptionsAllowed"], 0);
}

#[tokio::test(start_paused = true)]
async fn an_unready_pod_is_kept_while_the_budget_is_not_met() {
    let server = server();
    running(&server, "a", false).await;
    let unmet = json!({ "observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 1 });
    budget(&server, "web", unmet).await;

    assert_eq!(evict(&server, "a").await.code, 429);
    server
        .merge(&format!("{BUDGETS}/web"), json!({ "spec": { "unhealthyPodEvictionPolicy": "AlwaysAllow" } }))
        .await
        .ok();
    assert_eq!(evict(&server, "a").await.code, 201);
}

#[tokio::test(start_paused = true)]
async fn an_eviction_of_another_pod_costs_the_budget_a_disruption_as_in_the_original() {
    let server = server();
    running(&server, "a", true).await;
    budget(&server, "web", allowing(1)).await;
    let eviction = json!({ "metadata": { "name": "a" }, "deleteOptions": { "preconditions": { "uid": "another" } } });

    let answer = server.make(&format!("{PODS}/a/eviction"), eviction).await;

    assert_eq!(answer.code, 409);
    assert_eq!(server.read(&format!("{BUDGETS}/web")).await.ok()["status"]["disruptionsAllowed"], 0);
    assert!(server.read(&format!("{PODS}/a")).await.ok()["metadata"]["deletionTimestamp"].is_null());
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_once() {
    let server = server();
    server.make(PODS, pod("a")).await.ok();
    let binding = json!({ "metadata": { "name": "a" }, "target": { "kind": "Node", "name": "node-1" } });

    let bound = server.make(&format!("{PODS}/a/binding"), binding.clone()).await;
    let again = server.make(&format!("{PODS}/a/binding"), binding).await;

    assert_eq!(bound.code, 201);
    let pod = server.read(&format!("{PODS}/a")).await.ok();
    assert_eq!(pod["spec"]["nodeName"], "node-1");
    assert_eq!(pod["status"]["conditions"][0]["type"], "PodScheduled");
    assert_eq!(again.code, 409);
    assert!(again.message().ends_with("pod a is already assigned to node \"node-1\""));
}
