//! Deletion: at once, after a while, or when finalizers allow.

use serde_json::json;

use super::support::*;

#[tokio::test(start_paused = true)]
async fn what_nothing_keeps_is_gone_at_once() {
    let server = server();
    let uid = server.make(CONFIG_MAPS, config_map("a")).await.ok()["metadata"]["uid"].clone();
    let path = format!("{CONFIG_MAPS}/a");

    let deleted = server.remove(&path).await.ok();

    let details = json!({ "name": "a", "kind": "configmaps", "uid": uid });
    assert_eq!((&deleted["status"], &deleted["details"]), (&json!("Success"), &details));
    assert_eq!(server.read(&path).await.code, 404);
    assert_eq!(server.remove(&path).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn preconditions_protect_a_successor_and_a_newer_version() {
    let server = server();
    let made = server.make(CONFIG_MAPS, config_map("a")).await.ok();
    let path = format!("{CONFIG_MAPS}/a");

    let other = server.remove_with(&path, json!({ "preconditions": { "uid": "x" } })).await;
    let older = server.remove_with(&path, json!({ "preconditions": { "resourceVersion": "1" } })).await;
    let same = server.remove_with(&path, json!({ "preconditions": { "uid": made["metadata"]["uid"] } })).await;

    assert_eq!((other.code, older.code, same.code), (409, 409, 200));
    assert!(other.message().contains("the UID in the precondition (x) does not match the UID in record"));
    assert!(older.message().contains("the ResourceVersion in the precondition (1) does not match"));
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_keeps_an_object_until_it_is_removed() {
    let server = server();
    let mut object = config_map("a");
    object["metadata"]["finalizers"] = json!(["example.com/keep"]);
    server.make(CONFIG_MAPS, object).await.ok();
    let path = format!("{CONFIG_MAPS}/a");

    let going = server.remove(&path).await.ok();
    let version = server.remove(&path).await.version();
    let again = server.make(CONFIG_MAPS, config_map("a")).await;
    let added =
        server.merge(&path, json!({ "metadata": { "finalizers": ["example.com/keep", "example.com/more"] } })).await;
    let mut watch = Lines::of(&server, &format!("{CONFIG_MAPS}?watch=true&resourceVersion={version}")).await;
    let last = server.merge(&path, json!({ "metadata": { "finalizers": null } })).await;

    assert_eq!(going["metadata"]["deletionTimestamp"], "2026-01-01T12:00:00Z");
    assert_eq!(going["metadata"]["resourceVersion"], version, "a second delete changes nothing");
    assert_eq!(again.message(), "object is being deleted: configmaps \"a\" already exists");
    assert_eq!(added.code, 422);
    assert!(added.message().contains("no new finalizers can be added if the object is being deleted"));
    assert_eq!(last.code, 200);
    assert_eq!(server.read(&path).await.code, 404);
    let gone = watch.next().await.unwrap();
    assert_eq!(gone["type"], "DELETED");
    assert_eq!(gone["object"]["metadata"]["finalizers"], json!(["example.com/keep"]), "as it last was");
}

#[tokio::test(start_paused = true)]
async fn deletion_in_the_foreground_and_orphaning_wait_for_the_garbage_collector() {
    let server = server();
    for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
        server.make(CONFIG_MAPS, config_map("a")).await.ok();
        let path = format!("{CONFIG_MAPS}/a");
        let going = server.remove(&format!("{path}?propagationPolicy={policy}")).await.ok();
        assert_eq!(going["metadata"]["finalizers"], json!([finalizer]));
        server.merge(&path, json!({ "metadata": { "finalizers": [] } })).await.ok();
        assert_eq!(server.read(&path).await.code, 404);
    }
    let unknown = server.remove(&format!("{CONFIG_MAPS}/a?propagationPolicy=Sideways")).await;
    assert_eq!(unknown.code, 422);
}

#[tokio::test(start_paused = true)]
async fn a_job_deleted_without_further_words_orphans_its_pods() {
    let server = server();
    server.make(JOBS, job("a")).await.ok();
    server.make(JOBS, job("b")).await.ok();

    let orphaning = server.remove(&format!("{JOBS}/a")).await.ok();
    let background = server.remove_with(&format!("{JOBS}/b"), json!({ "propagationPolicy": "Background" })).await.ok();

    assert_eq!(orphaning["metadata"]["finalizers"], json!(["orphan"]));
    assert_eq!(orphaning["metadata"]["generation"], 2);
    assert_eq!(background["status"], "Success");
}

#[tokio::test(start_paused = true)]
async fn a_pod_on_a_node_stays_until_its_kubelet_lets_it_go() {
    let server = server();
    server.make(PODS, pod("a")).await.ok();
    server.direct("scheduler").bind("default", "a", "node-1").unwrap();
    let path = format!("{PODS}/a");
    let version = server.read(&path).await.version();
    let mut watch = Lines::of(&server, &format!("{PODS}?watch=true&resourceVersion={version}")).await;

    let going = server.remove(&path).await.ok();
    let longer = server.remove(&format!("{path}?gracePeriodSeconds=60")).await.ok();
    let shorter = server.remove(&format!("{path}?gracePeriodSeconds=5")).await.ok();
    let gone = server.remove(&format!("{path}?gracePeriodSeconds=0")).await;

    assert_eq!(going["metadata"]["deletionTimestamp"], "2026-01-01T12:00:30Z");
    assert_eq!(going["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(longer["metadata"]["deletionGracePeriodSeconds"], 30, "the time can only be shortened");
    assert_eq!(shorter["metadata"]["deletionTimestamp"], "2026-01-01T12:00:05Z");
    assert_eq!(gone.code, 200);
    assert_eq!(server.read(&path).await.code, 404);
    for expected in ["MODIFIED a", "MODIFIED a", "MODIFIED a", "DELETED a"] {
        assert_eq!(watch.event().await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_never_scheduled_or_has_ended_goes_at_once() {
    let server = server();
    server.make(PODS, pod("waiting")).await.ok();
    server.make(PODS, pod("ended")).await.ok();
    server.direct("scheduler").bind("default", "ended", "node-1").unwrap();
    server.merge(&format!("{PODS}/ended/status"), json!({ "status": { "phase": "Succeeded" } })).await.ok();

    for name in ["waiting", "ended"] {
        server.remove(&format!("{PODS}/{name}")).await.ok();
        assert_eq!(server.read(&format!("{PODS}/{name}")).await.code, 404, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_collection_is_deleted_as_far_as_it_is_selected() {
    let server = server();
    server.make(CONFIG_MAPS, labelled("a", json!({ "x": "1" }))).await.ok();
    server.make(CONFIG_MAPS, labelled("b", json!({ "x": "1" }))).await.ok();
    server.make(CONFIG_MAPS, labelled("c", json!({ "x": "2" }))).await.ok();

    let deleted = server.remove(&format!("{CONFIG_MAPS}?labelSelector=x%3D1")).await.ok();

    assert_eq!(deleted["items"].as_array().unwrap().len(), 2);
    assert_eq!(server.read(CONFIG_MAPS).await.ok()["items"].as_array().unwrap().len(), 1);
    assert_eq!(server.remove("/api/v1/configmaps").await.code, 405);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_namespace_takes_nothing_in_and_goes_when_it_is_finalized() {
    let server = server();
    server.make("/api/v1/namespaces", json!({ "metadata": { "name": "shop" } })).await.ok();
    let path = "/api/v1/namespaces/shop";

    let going = server.remove(path).await.ok();
    let late = server.make("/api/v1/namespaces/shop/configmaps", config_map("late")).await;
    let mut finalized = server.read(path).await.ok();
    finalized["spec"]["finalizers"] = json!([]);
    server.put(&format!("{path}/finalize"), finalized).await.ok();

    assert_eq!(going["status"]["phase"], "Terminating");
    assert_eq!((late.code, late.body["reason"].as_str()), (403, Some("Forbidden")));
    assert_eq!(late.body["details"]["causes"][0]["reason"], "NamespaceTerminating");
    assert_eq!(server.read(path).await.code, 404);
}
