//! Watches: where they start, what they show, and how they end.

use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{WatchEvent, WatchParams},
};
use serde_json::json;

use super::support::*;

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_version_shows_exactly_what_came_after_it() {
    let server = server();
    let version = server.make(CONFIG_MAPS, config_map("a")).await.version();
    server.make(CONFIG_MAPS, config_map("b")).await.ok();
    let mut watch = Lines::of(&server, &format!("{CONFIG_MAPS}?watch=true&resourceVersion={version}")).await;

    assert_eq!(watch.event().await, "ADDED b");
    server.merge(&format!("{CONFIG_MAPS}/a"), json!({ "data": { "key": "x" } })).await.ok();
    server.remove(&format!("{CONFIG_MAPS}/b")).await.ok();
    assert_eq!(watch.event().await, "MODIFIED a");
    let deleted = watch.next().await.unwrap();
    assert_eq!(
        (deleted["type"].as_str(), deleted["object"]["metadata"]["name"].as_str()),
        (Some("DELETED"), Some("b"))
    );
    // What is gone carries the version of its going, so that a watcher can go on from there.
    assert_eq!(deleted["object"]["metadata"]["resourceVersion"], "8");
    assert!(watch.is_silent().await);
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_nowhere_shows_everything_first() {
    let server = server();
    server.make(CONFIG_MAPS, config_map("a")).await.ok();
    server.merge(&format!("{CONFIG_MAPS}/a"), json!({ "data": { "key": "x" } })).await.ok();

    for start in ["", "&resourceVersion=0"] {
        let mut watch = Lines::of(&server, &format!("{CONFIG_MAPS}?watch=true{start}")).await;
        let first = watch.next().await.unwrap();
        assert_eq!((first["type"].as_str(), first["object"]["data"]["key"].as_str()), (Some("ADDED"), Some("x")));
        assert!(watch.is_silent().await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_one_namespace_shows_nothing_of_another() {
    let server = server();
    let mut watch = Lines::of(&server, &format!("{CONFIG_MAPS}?watch=true")).await;
    server.make("/api/v1/namespaces/kube-system/configmaps", config_map("other")).await.ok();
    assert!(watch.is_silent().await);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_stops_matching_goes_and_one_that_starts_comes() {
    let server = server();
    server.make(CONFIG_MAPS, labelled("a", json!({ "on": "yes" }))).await.ok();
    let mut watch = Lines::of(&server, &format!("{CONFIG_MAPS}?watch=true&labelSelector=on%3Dyes")).await;
    assert_eq!(watch.event().await, "ADDED a");

    let path = format!("{CONFIG_MAPS}/a");
    server.merge(&path, json!({ "metadata": { "labels": { "on": "no" } } })).await.ok();
    server.merge(&path, json!({ "data": { "unseen": "x" } })).await.ok();
    server.merge(&path, json!({ "metadata": { "labels": { "on": "yes" } } })).await.ok();
    server.merge(&path, json!({ "data": { "seen": "x" } })).await.ok();
    server.remove(&path).await.ok();

    let gone = watch.next().await.unwrap();
    assert_eq!(gone["type"], "DELETED");
    assert_eq!(gone["object"]["metadata"]["labels"]["on"], "yes", "it is shown as it was when it still matched");
    for expected in ["ADDED a", "MODIFIED a", "DELETED a"] {
        assert_eq!(watch.event().await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn pods_are_watched_by_the_node_they_are_bound_to() {
    let server = server();
    let mut watch = Lines::of(&server, "/api/v1/pods?watch=true&fieldSelector=spec.nodeName%3Dnode-1").await;
    server.make(PODS, pod("a")).await.ok();
    server.make(PODS, pod("b")).await.ok();
    server.direct("scheduler").bind("default", "b", "node-1").unwrap();
    assert_eq!(watch.event().await, "ADDED b");
    assert!(watch.is_silent().await);
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_too_long_ago_is_told_so_inside_the_stream() {
    let server = server();
    let version = server.make(CONFIG_MAPS, config_map("a")).await.version();
    server.make(CONFIG_MAPS, config_map("b")).await.ok();
    server.compact();

    let mut watch = Lines::of(&server, &format!("{CONFIG_MAPS}?watch=true&resourceVersion={version}")).await;

    let error = watch.next().await.unwrap();
    assert_eq!(error["type"], "ERROR");
    assert_eq!((error["object"]["code"].as_u64(), error["object"]["reason"].as_str()), (Some(410), Some("Expired")));
    assert_eq!(error["object"]["message"], format!("too old resource version: {version} (6)"));
    assert_eq!(watch.event().await, "end");
}

#[tokio::test(start_paused = true)]
async fn only_the_last_events_of_each_resource_are_kept() {
    let server = server();
    let version = server.make(CONFIG_MAPS, config_map("a")).await.version();
    for turn in 0..101 {
        server.merge(&format!("{CONFIG_MAPS}/a"), json!({ "data": { "key": turn.to_string() } })).await.ok();
    }
    let mut old = Lines::of(&server, &format!("{CONFIG_MAPS}?watch=true&resourceVersion={version}")).await;
    assert_eq!(old.event().await, "ERROR -");
    let pods = format!("{PODS}?watch=true&resourceVersion={version}");
    assert!(Lines::of(&server, &pods).await.is_silent().await, "another resource has its own window");
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_falls_too_far_behind_is_cut_off_and_blocks_no_one() {
    let server = server();
    let mut slow = Lines::of(&server, &format!("{CONFIG_MAPS}?watch=true")).await;
    server.make(CONFIG_MAPS, config_map("a")).await.ok();
    for turn in 0..200 {
        server.merge(&format!("{CONFIG_MAPS}/a"), json!({ "data": { "key": turn.to_string() } })).await.ok();
    }
    assert_eq!(slow.event().await, "end");
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_its_time_is_over() {
    let server = server();
    let started = tokio::time::Instant::now();
    let mut watch = Lines::of(&server, &format!("{CONFIG_MAPS}?watch=true&timeoutSeconds=290")).await;
    assert_eq!(watch.event().await, "end");
    assert_eq!(started.elapsed().as_secs(), 290);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_every_minute_to_those_who_asked() {
    let server = server();
    let started = tokio::time::Instant::now();
    let mut watch = Lines::of(&server, &format!("{CONFIG_MAPS}?watch=true&allowWatchBookmarks=true")).await;
    // A change elsewhere moves the version on without an event here.
    let version = server.make("/api/v1/nodes", json!({ "metadata": { "name": "n" } })).await.version();

    let bookmark = watch.next().await.unwrap();

    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(bookmark["object"]["kind"], "ConfigMap");
    assert_eq!(bookmark["object"]["metadata"]["resourceVersion"], version);
    assert_eq!(started.elapsed().as_secs(), 60);
    assert_eq!(watch.event().await, "BOOKMARK -");
    assert_eq!(started.elapsed().as_secs(), 120);

    let mut without = Lines::of(&server, &format!("{CONFIG_MAPS}?watch=true&timeoutSeconds=600")).await;
    assert_eq!(without.event().await, "end");
}

#[tokio::test(start_paused = true)]
async fn initial_events_end_with_a_bookmark_if_they_were_asked_for() {
    let server = server();
    server.make(CONFIG_MAPS, config_map("a")).await.ok();
    let path = format!(
        "{CONFIG_MAPS}?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    );
    let mut watch = Lines::of(&server, &path).await;
    assert_eq!(watch.event().await, "ADDED a");
    let end = watch.next().await.unwrap();
    assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
}

#[tokio::test(start_paused = true)]
async fn watches_can_be_cut_for_one_actor_or_for_all() {
    let server = server();
    let mut watch = Lines::of(&server, &format!("{CONFIG_MAPS}?watch=true")).await;
    server.cut_watches(Some("someone else"));
    assert!(watch.is_silent().await);
    server.cut_watches(Some("watcher"));
    assert_eq!(watch.event().await, "end");

    let mut watch = Lines::of(&server, &format!("{CONFIG_MAPS}?watch=true")).await;
    server.cut_watches(None);
    assert_eq!(watch.event().await, "end");
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_version_is_refused_without_harm() {
    let server = server();
    assert_eq!(server.read(&format!("{CONFIG_MAPS}?watch=true&resourceVersion=abc")).await.code, 500);
    assert_eq!(server.read(CONFIG_MAPS).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn the_client_of_kube_reads_a_watch_as_it_goes_on() {
    let server = server();
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client("operator"));
    let stream = maps.watch(&WatchParams::default().disable_bookmarks(), "0").await.unwrap();
    let writer = server.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(200)).await;
        writer.make(CONFIG_MAPS, config_map("later")).await.ok();
    });
    let event = Box::pin(stream).try_next().await.unwrap();
    assert!(matches!(event, Some(WatchEvent::Added(map)) if map.metadata.name.as_deref() == Some("later")));
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_a_timeout_ends_between_half_an_hour_and_an_hour() {
    let server = server();
    let started = tokio::time::Instant::now();
    let mut watch = Lines::of(&server, &format!("{CONFIG_MAPS}?watch=true&timeoutSeconds=0")).await;
    assert_eq!(watch.event().await, "end");
    let lasted = started.elapsed();
    assert!((Duration::from_secs(1_800)..Duration::from_secs(3_601)).contains(&lasted), "{lasted:?}");
}
