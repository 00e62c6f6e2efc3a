//! A store that was saved goes on elsewhere as if nothing had happened.

use drover_corral::apiserver::ApiServer;
use serde_json::json;

use super::support::*;

async fn lived_in() -> ApiServer {
    let server = server();
    server.make(DEFINITIONS, plan_definition()).await.ok();
    server.make(PLANS, plan("a")).await.ok();
    server.merge(&format!("{PLANS}/a/status"), json!({ "status": { "applied": 3 } })).await.ok();
    server.make(JOBS, job("a")).await.ok();
    server.make(PODS, pod("a")).await.ok();
    server.direct("kubelet").bind("default", "a", "node-1").unwrap();
    server.make("/api/v1/nodes", node("node-1")).await.ok();
    server.direct("kubelet").append_log("default", "a", "hello\n");
    server.remove(&format!("{JOBS}/a")).await.ok();
    server
}

#[tokio::test(start_paused = true)]
async fn everything_survives_identities_versions_and_logs_included() {
    let original = lived_in().await;
    let saved = original.save();
    let copy = server();

    copy.load(&saved).unwrap();

    assert_eq!(copy.save(), saved);
    assert_eq!(copy.digest(), original.digest());
    assert_eq!(copy.read(&format!("{PODS}/a/log")).await.body, "hello\n");
    assert_eq!(copy.read(&format!("{PLANS}/a")).await.body, original.read(&format!("{PLANS}/a")).await.body);
}

#[tokio::test(start_paused = true)]
async fn a_copy_gives_the_next_object_the_same_identity_as_the_original() {
    let original = lived_in().await;
    let copy = server();
    copy.load(&original.save()).unwrap();

    let generated = json!({ "metadata": { "generateName": "next-" } });
    let there = original.make(CONFIG_MAPS, generated.clone()).await.ok();
    let here = copy.make(CONFIG_MAPS, generated).await.ok();

    assert_eq!(there, here);
    assert_eq!(original.digest(), copy.digest());
}

#[tokio::test(start_paused = true)]
async fn the_digest_tells_stores_apart() {
    let (one, other) = (server(), server());
    assert_eq!(one.digest(), other.digest());
    other.make(CONFIG_MAPS, config_map("a")).await.ok();
    assert_ne!(one.digest(), other.digest());
}

#[tokio::test(start_paused = true)]
async fn objects_written_by_hand_become_real_ones_in_any_order() {
    let server = server();
    let mut in_shop = plan("a");
    in_shop["metadata"]["namespace"] = json!("shop");
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" },
                       "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });

    server.load(&json!({ "kind": "List", "items": [in_shop, node, plan_definition()] })).unwrap();

    let plan = server.read("/apis/example.com/v1/namespaces/shop/plans/a").await.ok();
    assert_eq!(plan["spec"]["concurrency"], 1);
    assert!(plan["metadata"]["uid"].is_string());
    assert_eq!(server.read("/api/v1/namespaces/shop").await.ok()["status"]["phase"], "Active");
    assert_eq!(server.read("/api/v1/nodes/n").await.ok()["status"]["conditions"][0]["type"], "Ready");
}

#[tokio::test(start_paused = true)]
async fn an_object_of_an_unknown_kind_is_named() {
    let ghost = json!({ "apiVersion": "ghosts.io/v1", "kind": "Ghost", "metadata": { "name": "boo" } });
    let refused = server().load(&json!({ "items": [ghost] })).unwrap_err();
    assert_eq!(refused.message, "ghosts.io/v1 Ghost \"boo\" is of a kind that is not served");
}
