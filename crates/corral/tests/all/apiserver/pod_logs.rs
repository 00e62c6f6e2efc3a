//! What pods have printed.

use http_body_util::BodyExt;
use serde_json::json;

use super::support::*;

#[tokio::test(start_paused = true)]
async fn a_log_is_read_whole_or_from_its_end() {
    let server = server();
    server.make("/api/v1/nodes", node("node-1")).await.ok();
    server.make(PODS, pod("a")).await.ok();
    let direct = server.direct("kubelet");
    direct.bind("default", "a", "node-1").unwrap();
    direct.append_log("default", "a", "one\ntwo\n");
    direct.append_log("default", "a", "three\n");

    assert_eq!(server.read(&format!("{PODS}/a/log?container=main")).await.body, "one\ntwo\nthree\n");
    assert_eq!(server.read(&format!("{PODS}/a/log?tailLines=1")).await.body, "three\n");
    assert_eq!(server.read(&format!("{PODS}/none/log")).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_followed_log_ends_with_its_pod() {
    let server = server();
    server.make("/api/v1/nodes", node("node-1")).await.ok();
    server.make(PODS, pod("a")).await.ok();
    let direct = server.direct("kubelet");
    direct.bind("default", "a", "node-1").unwrap();
    direct.append_log("default", "a", "one\n");
    let follow = server.open(&format!("{PODS}/a/log?follow=true")).await;
    let reader = tokio::spawn(follow.into_body().collect());

    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    direct.append_log("default", "a", "two\n");
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert!(!reader.is_finished());
    server.merge(&format!("{PODS}/a/status"), json!({ "status": { "phase": "Succeeded" } })).await.ok();

    assert_eq!(reader.await.unwrap().unwrap().to_bytes(), "one\ntwo\n");
}

#[tokio::test(start_paused = true)]
async fn a_log_goes_with_its_pod() {
    let server = server();
    server.make("/api/v1/nodes", node("node-1")).await.ok();
    let direct = server.direct("kubelet");
    for _ in 0..2 {
        server.make(PODS, pod("a")).await.ok();
        direct.bind("default", "a", "node-1").unwrap();
        assert_eq!(server.read(&format!("{PODS}/a/log")).await.body, "");
        direct.append_log("default", "a", "old\n");
        server.remove(&format!("{PODS}/a?gracePeriodSeconds=0")).await.ok();
    }
}
