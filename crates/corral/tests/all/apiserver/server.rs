//! The server as a whole: latency, tasks, observers, changes, direct access.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use drover_corral::apiserver::Verb;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Pod},
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::support::*;

#[tokio::test(start_paused = true)]
async fn every_request_costs_its_latency_on_the_clock() {
    let server = server();
    let started = tokio::time::Instant::now();
    for _ in 0..5 {
        server.read(CONFIG_MAPS).await.ok();
    }
    assert_eq!(started.elapsed(), Duration::from_millis(5));
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_gives_up_does_not_undo_its_write() {
    let server = server();
    let client = server.client("impatient");
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let map = serde_json::from_value(config_map("a")).unwrap();

    let gave_up = tokio::time::timeout(Duration::from_micros(10), maps.create(&PostParams::default(), &map)).await;
    tokio::time::sleep(Duration::from_millis(5)).await;

    assert!(gave_up.is_err());
    assert_eq!(server.read(&format!("{CONFIG_MAPS}/a")).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn observers_see_every_commit_in_order_with_what_was_before_and_after() {
    let server = server();
    let seen = Arc::new(Mutex::new(vec![]));
    let notes = seen.clone();
    server.observe(Box::new(move |commit| {
        let note = (
            commit.actor.to_string(),
            commit.verb,
            commit.subresource.to_string(),
            format!("{}/{}", commit.resource.qualified(), commit.name),
            (commit.before.is_some(), commit.after.is_some()),
            commit.resource_version,
        );
        notes.lock().unwrap().push(note);
    }));
    let direct = server.direct("world");

    direct.create::<Job>(&serde_json::from_value(job("a")).unwrap()).unwrap();
    server.merge(&format!("{JOBS}/a/status"), json!({ "status": { "active": 1 } })).await.ok();
    direct.delete::<Job>(Some("default"), "a", None).unwrap();

    let seen = seen.lock().unwrap();
    let name = || "jobs.batch/a".to_string();
    let expected = [
        ("world".to_string(), Verb::Create, String::new(), name(), (false, true), 5),
        ("test".into(), Verb::Patch, "status".into(), name(), (true, true), 6),
        ("world".into(), Verb::Delete, String::new(), name(), (true, false), 7),
    ];
    assert_eq!(*seen, expected);
}

#[tokio::test(start_paused = true)]
async fn changes_are_told_to_controllers_in_the_process() {
    let server = server();
    let mut changes = server.changes();
    server.make(PODS, pod("a")).await.ok();
    let change = changes.recv().await.unwrap();
    assert_eq!((change.resource.plural.as_str(), &*change.namespace, &*change.name), ("pods", "default", "a"));
    assert!(changes.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn direct_access_follows_the_same_rules() {
    let server = server();
    let direct = server.direct("world");
    let made: Pod = direct.create(&serde_json::from_value(pod("a")).unwrap()).unwrap();
    assert_eq!(made.status.as_ref().unwrap().phase.as_deref(), Some("Pending"));

    let mut running = made.clone();
    running.status.as_mut().unwrap().phase = Some("Running".into());
    let running = direct.update_status(&running).unwrap();
    let stale = direct.update(&made).unwrap_err();
    let absent = direct.get::<Pod>(Some("default"), "none").unwrap();
    let wrong_uid = direct.delete::<Pod>(Some("default"), "a", Some("x")).unwrap_err();

    assert_eq!(running.status.unwrap().phase.as_deref(), Some("Running"));
    assert!(stale.is_conflict() && wrong_uid.is_conflict());
    assert!(absent.is_none());
    assert_eq!(direct.list::<Pod>().unwrap().len(), 1);
    direct.bind("default", "a", "node-1").unwrap();
    direct.delete::<Pod>(Some("default"), "a", None).unwrap();
    assert_eq!(direct.list::<Pod>().unwrap().len(), 1, "a scheduled pod is given time");
    direct.delete_now::<Pod>(Some("default"), "a", None).unwrap();
    assert_eq!(direct.list::<Pod>().unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_client_of_kube_does_what_it_says() {
    let server = server();
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client("operator"));
    let map: ConfigMap = serde_json::from_value(config_map("a")).unwrap();

    maps.create(&PostParams::default(), &map).await.unwrap();
    let patch = json!({ "data": { "key": "patched" } });
    let patched = maps.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    let replaced = maps.replace("a", &PostParams::default(), &patched).await.unwrap();
    let again = maps.create(&PostParams::default(), &map).await.unwrap_err();
    maps.delete("a", &DeleteParams::default()).await.unwrap();

    assert_eq!(patched.data.as_ref().unwrap()["key"], "patched");
    assert_eq!(replaced, patched);
    assert!(matches!(again, kube::Error::Api(status) if status.is_already_exists()));
    assert!(maps.get_opt("a").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_body_beyond_the_limit_is_refused() {
    let huge = config_map("a").to_string().replace("value", &"x".repeat(4 * 1024 * 1024));
    let answer = server().ask("POST", CONFIG_MAPS, JSON, huge).await;
    assert_eq!((answer.code, answer.body["reason"].as_str()), (413, Some("RequestEntityTooLarge")));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_done_to_a_resource_is_not_allowed() {
    let server = server();
    for (method, path) in
        [("PUT", CONFIG_MAPS), ("PATCH", CONFIG_MAPS), ("POST", "/api/v1/configmaps"), ("DELETE", "/api/v1/configmaps")]
    {
        let answer = server.ask(method, path, JSON, config_map("a").to_string()).await;
        assert_eq!((answer.code, answer.body["reason"].as_str()), (405, Some("MethodNotAllowed")), "{method} {path}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_and_the_same_requests_give_the_same_store() {
    let run = async || {
        let server = server();
        server.make(JOBS, job("a")).await.ok();
        tokio::time::sleep(Duration::from_secs(90)).await;
        server.make(PODS, pod("a")).await.ok();
        server.remove(&format!("{JOBS}/a")).await.ok();
        server.digest()
    };
    assert_eq!(run().await, run().await);
}
