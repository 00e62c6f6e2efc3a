//! What a person does to an Upgrade of Harvester, on the embedded API server: what is written, in which order, and what is refused before that.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use drover_clock::Clock;
use drover_corral::apiserver::{ApiServer, Options};
use drover_operator::harvester::verbs::Verbs;
use http::{Method, Request};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::client::Body;
use serde_json::{Value, json};

const UPGRADE: &str = "/apis/harvesterhci.io/v1beta1/namespaces/harvester-system/upgrades/up";
const PAUSE_MAP: &str = "harvesterhci.io/node-upgrade-pause-map";
const MARK: &str = "harvesterhci.io/node-upgrade-pause";

/// A server with three nodes and an Upgrade `up`.
struct Ground {
    client: kube::Client,
    /// What was written, in order: the last part of the path.
    writes: Arc<Mutex<Vec<String>>>,
}

impl Ground {
    /// With what is noted on the Upgrade, and which nodes pause.
    async fn new(progress: Value, map: &str) -> Self {
        let clock = Clock::real();
        let server = ApiServer::new(Options { clock, seed: 1, latency: Duration::ZERO, watch_window: 1000 });
        let user = server.direct("user");
        let namespace = json!({ "metadata": { "name": "harvester-system" } });
        user.create(&serde_json::from_value::<Namespace>(namespace).unwrap()).unwrap();
        drover_api::crds::as_harvester_installs().iter().for_each(|definition| drop(user.create(definition).unwrap()));
        for name in ["node-1", "node-2", "node-3"] {
            let node = json!({ "metadata": { "name": name } });
            user.create(&serde_json::from_value::<Node>(node).unwrap()).unwrap();
        }
        let writes: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = writes.clone();
        let client = crate::support::refusing::client(server.service("person"), move |request: &Request<Body>| {
            if request.method() == Method::PATCH {
                noted.lock().unwrap().push(request.uri().path().rsplit('/').next().unwrap_or_default().to_owned());
            }
            None
        });
        let ground = Ground { client, writes };
        let state = json!({ "state": "Images preloaded" });
        let upgrade = json!({
            "apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade",
            "metadata": {
                "name": "up", "namespace": "harvester-system",
                "annotations": { "drover.dev/progress": progress.to_string(), PAUSE_MAP: map },
            },
            "spec": { "version": "v1.8.0" },
            "status": { "nodeStatuses": { "node-1": state, "node-2": state, "node-3": state } },
        });
        let collection = UPGRADE.trim_end_matches("/up");
        let request = Request::post(collection).header("Content-Type", "application/json");
        ground.client.request::<Value>(request.body(upgrade.to_string().into_bytes()).unwrap()).await.unwrap();
        ground
    }

    fn verbs(&self) -> Verbs {
        Verbs::on(self.client.clone(), Clock::real(), "up")
    }

    async fn read(&self, path: &str) -> Value {
        self.client.request::<Value>(Request::get(path).body(Vec::new()).unwrap()).await.unwrap()
    }

    /// An annotation of the Upgrade.
    async fn note(&self, key: &str) -> Value {
        self.read(UPGRADE).await["metadata"]["annotations"][key].clone()
    }

    async fn is_marked(&self, node: &str) -> bool {
        self.read(&format!("/api/v1/nodes/{node}")).await["metadata"]["annotations"][MARK].is_string()
    }

    fn written(&self) -> Vec<String> {
        std::mem::take(&mut *self.writes.lock().unwrap())
    }
}

/// The first node is at work.
fn under_way() -> Value {
    json!({ "marked": {}, "asked": 2, "nodes": { "node-1": { "step": "PreDraining" } } })
}

/// The first node has failed, and the Upgrade with it.
fn failed() -> Value {
    json!({ "asked": 2, "ended": { "as": "failed", "reason": "BackoffLimitExceeded", "message": "" }, "nodes": { "node-1": { "step": "Failed" } } })
}

#[tokio::test]
async fn nodes_that_have_not_begun_are_paused_by_mark_and_map_and_resumed() {
    let ground = Ground::new(under_way(), "{}").await;

    assert_eq!(ground.verbs().pause(None).await.unwrap(), ["node-2", "node-3"]);
    assert_eq!(ground.written(), ["node-2", "node-3", "up"], "a mark that is missing would count as taken off");
    assert_eq!(ground.note(PAUSE_MAP).await, r#"{"node-2":"pause","node-3":"pause"}"#);
    assert!(ground.is_marked("node-2").await && !ground.is_marked("node-1").await);

    assert_eq!(ground.verbs().resume(Some("node-2")).await.unwrap(), ["node-2"]);
    assert_eq!(ground.written(), ["up", "node-2"]);
    assert!(!ground.is_marked("node-2").await && ground.is_marked("node-3").await);
    assert_eq!(ground.verbs().resume(None).await.unwrap(), ["node-3"]);
    assert_eq!(ground.note(PAUSE_MAP).await, r#"{"node-2":"unpause","node-3":"unpause"}"#);
}

#[tokio::test]
async fn a_node_that_was_resumed_is_paused_again_without_its_mark_being_taken_for_an_old_one() {
    let ground = Ground::new(under_way(), r#"{"node-2":"unpause","node-3":"pause"}"#).await;

    assert_eq!(ground.verbs().pause(Some("node-2")).await.unwrap(), ["node-2"]);

    assert_eq!(ground.written(), ["up", "node-2", "up"], "what the map says goes first");
    assert_eq!(ground.note(PAUSE_MAP).await, r#"{"node-2":"pause","node-3":"pause"}"#);
    assert!(ground.is_marked("node-2").await);
}

#[tokio::test]
async fn an_upgrade_that_has_failed_is_paused_by_its_map_alone_and_leaves_no_mark() {
    let ground = Ground::new(failed(), "{}").await;
    assert_eq!(ground.verbs().pause(None).await.unwrap(), ["node-2", "node-3"]);
    assert_eq!(ground.written(), ["up"]);
}

#[tokio::test]
async fn who_was_paused_when_an_upgrade_failed_can_be_resumed_before_it_is_taken_up() {
    let mut failed = failed();
    failed["paused"] = json!(["node-2", "node-3"]);
    let ground = Ground::new(failed, "{}").await;
    assert_eq!(ground.verbs().resume(Some("node-2")).await.unwrap(), ["node-2"]);
    assert_eq!(ground.note(PAUSE_MAP).await, r#"{"node-2":"unpause","node-3":"pause"}"#);
}

#[tokio::test]
async fn what_has_failed_is_tried_again_or_gone_on_without() {
    let ground = Ground::new(failed(), "{}").await;
    ground.verbs().retry(None).await.unwrap();
    assert_eq!(ground.note("drover.dev/retry").await, "");
    ground.verbs().retry(Some("node-1")).await.unwrap();
    assert_eq!(ground.note("drover.dev/retry").await, "node-1");
    ground.verbs().skip("node-1").await.unwrap();
    assert_eq!(ground.note("drover.dev/skip").await, "node-1");
}

#[tokio::test]
async fn a_node_that_does_not_boot_its_new_system_is_gone_on_without() {
    let ground = Ground::new(json!({ "asked": 2, "nodes": { "node-1": { "step": "WaitingReboot" } } }), "{}").await;
    ground.verbs().skip("node-1").await.unwrap();
    assert_eq!(ground.note("drover.dev/skip").await, "node-1");
}

/// Nobody asks the planner for the only node.
fn failed_alone() -> Value {
    json!({ "singleNode": "node-1", "ended": failed()["ended"], "nodes": failed()["nodes"] })
}

#[tokio::test]
async fn an_upgrade_is_called_off_while_it_runs_and_after_it_has_failed_among_its_nodes() {
    for progress in [under_way(), failed(), failed_alone()] {
        let ground = Ground::new(progress, "{}").await;
        ground.verbs().abort().await.unwrap();
        assert_eq!(ground.note("drover.dev/abort").await, "");
    }
}

#[tokio::test]
async fn what_cannot_be_is_refused_before_anything_is_written() {
    let done = json!({ "ended": { "as": "succeeded" } });
    let runs = Ground::new(under_way(), "{}").await;
    let has_failed = Ground::new(failed(), "{}").await;
    let is_done = Ground::new(done, "{}").await;
    let garbled = Ground::new(under_way(), "node-2").await;
    let unread = Ground::new(json!({ "asked": "two" }), "{}").await;
    let alone = Ground::new(failed_alone(), "{}").await;

    let text = |error: drover_operator::harvester::verbs::VerbError| error.to_string();
    for (said, expected) in [
        (
            runs.verbs().pause(Some("node-1")).await.map_err(text).unwrap_err(),
            "node node-1 has begun its upgrade (Pre-draining)",
        ),
        (runs.verbs().pause(Some("node-9")).await.map_err(text).unwrap_err(), "node node-9 is not part of the upgrade"),
        (
            runs.verbs().resume(Some("node-9")).await.map_err(text).unwrap_err(),
            "node node-9 is not part of the upgrade",
        ),
        (runs.verbs().retry(None).await.map_err(text).unwrap_err(), "Upgrade up has not failed"),
        (runs.verbs().skip("node-1").await.map_err(text).unwrap_err(), "node node-1 has not failed (Pre-draining)"),
        (has_failed.verbs().retry(Some("node-2")).await.map_err(text).unwrap_err(), "node node-2 has not failed"),
        (has_failed.verbs().skip("node-9").await.map_err(text).unwrap_err(), "node node-9 is not part of the upgrade"),
        (is_done.verbs().pause(None).await.map_err(text).unwrap_err(), "Upgrade up has succeeded"),
        (is_done.verbs().abort().await.map_err(text).unwrap_err(), "Upgrade up has ended"),
        (alone.verbs().skip("node-1").await.map_err(text).unwrap_err(), "drover upgrade abort upgrade/up"),
        (
            garbled.verbs().pause(None).await.map_err(text).unwrap_err(),
            "node-upgrade-pause-map of Upgrade up cannot be read",
        ),
        (unread.verbs().abort().await.map_err(text).unwrap_err(), "drover.dev/progress of Upgrade up cannot be read"),
    ] {
        assert!(said.contains(expected), "{said}");
    }
    for ground in [runs, has_failed, is_done, garbled, unread, alone] {
        assert_eq!(ground.written(), Vec::<String>::new());
    }
}
