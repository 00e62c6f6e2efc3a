//! Get and list: selectors, pages, and versions.

use serde_json::{Value, json};

use super::support::*;

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_does_not_exist_is_not_found() {
    let answer = server().read(&format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(answer.code, 404);
    let details = json!({ "name": "a", "kind": "configmaps" });
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NotFound", "code": 404,
        "message": "configmaps \"a\" not found", "details": details,
    });
    assert_eq!(answer.body, expected);
}

#[tokio::test(start_paused = true)]
async fn a_list_is_sorted_and_carries_the_version_of_the_store() {
    let server = server();
    for name in ["b", "a", "c"] {
        server.make(CONFIG_MAPS, config_map(name)).await.ok();
    }
    let last = server.make("/api/v1/namespaces/kube-system/configmaps", config_map("z")).await.version();

    let here = server.read(CONFIG_MAPS).await.ok();
    let everywhere = server.read("/api/v1/configmaps").await.ok();

    assert_eq!((here["kind"].as_str(), names(&here)), (Some("ConfigMapList"), vec!["a", "b", "c"]));
    assert_eq!(here["metadata"]["resourceVersion"], last);
    assert_eq!(names(&everywhere), ["a", "b", "c", "z"]);
    assert!(here["items"][0].get("kind").is_none(), "items of a built-in kind do not repeat what they are");
}

#[tokio::test(start_paused = true)]
async fn labels_select() {
    let server = server();
    server.make(CONFIG_MAPS, labelled("web", json!({ "app": "web", "tier": "front" }))).await.ok();
    server.make(CONFIG_MAPS, labelled("db", json!({ "app": "db" }))).await.ok();
    server.make(CONFIG_MAPS, labelled("bare", json!({}))).await.ok();

    for (selector, expected) in [
        ("app%3Dweb", vec!["web"]),
        ("app%3D%3Ddb", vec!["db"]),
        ("app%21%3Dweb", vec!["bare", "db"]),
        ("app%20in%20(web,db)", vec!["db", "web"]),
        ("app%20notin%20(web)", vec!["bare", "db"]),
        ("tier", vec!["web"]),
        ("%21app", vec!["bare"]),
        ("app,%21tier", vec!["db"]),
    ] {
        let list = server.read(&format!("{CONFIG_MAPS}?labelSelector={selector}")).await.ok();
        assert_eq!(names(&list), expected, "{selector}");
    }
    let wrong = server.read(&format!("{CONFIG_MAPS}?labelSelector=a%20b")).await;
    assert_eq!(wrong.code, 400);
}

#[tokio::test(start_paused = true)]
async fn fields_select_where_the_kind_has_them() {
    let server = server();
    for name in ["a", "b"] {
        server.make(PODS, pod(name)).await.ok();
    }
    server.direct("scheduler").bind("default", "b", "node-1").unwrap();
    server.make("/api/v1/nodes", json!({ "metadata": { "name": "up" } })).await.ok();
    let cordoned = json!({ "metadata": { "name": "cordoned" }, "spec": { "unschedulable": true } });
    server.make("/api/v1/nodes", cordoned).await.ok();
    let event = json!({ "metadata": { "name": "e" }, "involvedObject": { "kind": "Pod", "name": "a", "namespace": "default" } });
    server.make("/api/v1/namespaces/default/events", event).await.ok();
    let secret = json!({ "metadata": { "name": "s" }, "type": "example.com/token" });
    server.make("/api/v1/namespaces/default/secrets", secret).await.ok();

    for (path, expected) in [
        (format!("{PODS}?fieldSelector=metadata.name%3Da"), vec!["a"]),
        (format!("{PODS}?fieldSelector=spec.nodeName%3Dnode-1"), vec!["b"]),
        (format!("{PODS}?fieldSelector=spec.nodeName%3D"), vec!["a"]),
        (format!("{PODS}?fieldSelector=spec.nodeName%21%3Dnode-1,status.phase%3DPending"), vec!["a"]),
        ("/api/v1/pods?fieldSelector=metadata.namespace%3Dkube-system".into(), vec![]),
        ("/api/v1/nodes?fieldSelector=spec.unschedulable%3Dtrue".into(), vec!["cordoned"]),
        ("/api/v1/nodes?fieldSelector=spec.unschedulable%3Dfalse".into(), vec!["up"]),
        ("/api/v1/events?fieldSelector=involvedObject.name%3Da,involvedObject.kind%3DPod".into(), vec!["e"]),
        ("/api/v1/secrets?fieldSelector=type%3Dexample.com/token".into(), vec!["s"]),
    ] {
        assert_eq!(names(&server.read(&path).await.ok()), expected, "{path}");
    }
    let unknown = server.read(&format!("{PODS}?fieldSelector=spec.colour%3Dred")).await;
    assert_eq!((unknown.code, unknown.message()), (400, "field label not supported: spec.colour"));
}

#[tokio::test(start_paused = true)]
async fn pages_show_the_store_as_it_was_at_the_first_one() {
    let server = server();
    for name in ["a", "c", "e", "g"] {
        server.make(CONFIG_MAPS, config_map(name)).await.ok();
    }
    let first = server.read(&format!("{CONFIG_MAPS}?limit=2")).await.ok();
    let token = first["metadata"]["continue"].as_str().unwrap();
    // After the first page one object comes, one goes, one changes.
    server.make(CONFIG_MAPS, config_map("d")).await.ok();
    server.remove(&format!("{CONFIG_MAPS}/e")).await.ok();
    server.merge(&format!("{CONFIG_MAPS}/g"), json!({ "data": { "key": "changed" } })).await.ok();

    let second = server.read(&format!("{CONFIG_MAPS}?limit=2&continue={token}")).await.ok();

    assert_eq!((names(&first), names(&second)), (vec!["a", "c"], vec!["e", "g"]));
    assert_eq!(first["metadata"]["remainingItemCount"], 2);
    assert_eq!(second["items"][1]["data"]["key"], "value");
    assert_eq!(first["metadata"]["resourceVersion"], second["metadata"]["resourceVersion"]);
    assert!(second["metadata"].get("continue").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_too_old_expires_and_offers_to_go_on_from_now() {
    let server = server();
    for name in ["a", "b", "c"] {
        server.make(CONFIG_MAPS, config_map(name)).await.ok();
    }
    let first = server.read(&format!("{CONFIG_MAPS}?limit=1")).await.ok();
    let token = first["metadata"]["continue"].as_str().unwrap();
    server.make(CONFIG_MAPS, config_map("d")).await.ok();
    server.compact();

    let expired = server.read(&format!("{CONFIG_MAPS}?limit=1&continue={token}")).await;
    let fresh = expired.body["metadata"]["continue"].as_str().unwrap();
    let rest = server.read(&format!("{CONFIG_MAPS}?continue={fresh}")).await.ok();

    assert_eq!((expired.code, expired.body["reason"].as_str()), (410, Some("Expired")));
    assert_eq!(names(&rest), ["b", "c", "d"]);
}

#[tokio::test(start_paused = true)]
async fn a_version_from_the_future_times_out() {
    let answer = server().read(&format!("{CONFIG_MAPS}?resourceVersion=1000")).await;
    assert_eq!((answer.code, answer.body["reason"].as_str()), (504, Some("Timeout")));
    assert_eq!(answer.message(), "Timeout: Too large resource version: 1000, current: 4");
    assert_eq!(answer.body["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
}

#[tokio::test(start_paused = true)]
async fn a_list_can_be_read_as_it_was() {
    let server = server();
    let then = server.make(CONFIG_MAPS, config_map("a")).await.version();
    server.make(CONFIG_MAPS, config_map("b")).await.ok();

    let list = server.read(&format!("{CONFIG_MAPS}?resourceVersion={then}&resourceVersionMatch=Exact")).await.ok();

    assert_eq!(names(&list), ["a"]);
    assert_eq!(list["metadata"]["resourceVersion"], then);
}
