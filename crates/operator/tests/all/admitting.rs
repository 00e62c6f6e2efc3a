//! Webhooks for Upgrades, on the embedded API server: it calls them over TLS, as the real one does.

use std::time::Duration;

use drover_api::crds::{self, Controller};
use drover_clock::Clock;
use drover_corral::apiserver::{ApiServer, Options};
use drover_corral::world::definitions;
use drover_operator::{Place, WebhookOptions, Webhooks, survey};
use http::Request;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tower::Service as _;

const REGISTRATIONS: &str = "/apis/admissionregistration.k8s.io/v1";
const UPGRADES: &str = "/apis/harvesterhci.io/v1beta1/namespaces/harvester-system/upgrades";
const SECRET: &str = "/api/v1/namespaces/harvester-system/secrets/drover-webhook-tls";

/// An answer of the API server: its code, its warnings, its body.
struct Answer {
    code: u16,
    warnings: Vec<String>,
    body: Value,
}

impl Answer {
    fn text(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

struct Cluster {
    server: ApiServer,
}

impl Cluster {
    /// A Harvester cluster that is as it should be; webhooks are called over sockets, so that its time is real.
    fn new() -> Self {
        let options = Options { clock: Clock::real(), seed: 1, latency: Duration::ZERO, watch_window: 1000 };
        let cluster = Cluster { server: ApiServer::new(options) };
        for namespace in ["harvester-system", "fleet-local", "longhorn-system", "shop", "cattle-system"] {
            cluster.make(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } }));
        }
        definitions::harvester().into_iter().for_each(|definition| cluster.make(definition));
        crds::of(Controller::Harvester).iter().for_each(|definition| cluster.make(json!(definition)));
        let healthy = include_str!("../../../../tests/clusters/harvester-healthy/objects/objects.yaml");
        let objects: Vec<Value> = serde_saphyr::from_multiple(healthy).unwrap();
        let left_out =
            ["Survey", "Kubelet", "ServerCertificate", "KubeletCertificate", "Upgrade", "Lease", "ETCDSnapshotFile"];
        for object in objects.into_iter().filter(|object| !left_out.contains(&object["kind"].as_str().unwrap())) {
            cluster.make(object);
        }
        cluster
    }

    fn make(&self, object: Value) {
        self.server.load(&json!({ "apiVersion": "v1", "kind": "List", "items": [object] })).unwrap();
    }

    async fn ask(&self, method: &str, path: &str, body: Value) -> Answer {
        let content = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder().method(method).uri(path).header("content-type", content);
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string().into_bytes()) };
        let response = self.server.service("somebody").call(request.body(body).unwrap()).await.unwrap();
        let code = response.status().as_u16();
        let warnings = response.headers().get_all("warning").iter();
        let warnings = warnings.map(|warning| warning.to_str().unwrap().to_owned()).collect();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        Answer { code, warnings, body: serde_json::from_slice(&bytes).unwrap_or_default() }
    }

    async fn read(&self, path: &str) -> Option<Value> {
        let answer = self.ask("GET", path, Value::Null).await;
        (answer.code == 200).then_some(answer.body)
    }

    fn registration(question: &str) -> String {
        format!("{REGISTRATIONS}/{question}webhookconfigurations/drover-harvester")
    }

    /// Starts webhooks, and waits until they are registered.
    async fn webhooks(&self) -> JoinHandle<()> {
        let running = self.start().await;
        self.until_registered().await;
        running
    }

    async fn start(&self) -> JoinHandle<()> {
        let options = WebhookOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            place: Place::Url(String::new()),
            namespace: "harvester-system".to_owned(),
            clock: Clock::real(),
        };
        let webhooks = Webhooks::bind(options).await.unwrap();
        let place = Place::Url(format!("https://localhost:{}", webhooks.address().port()));
        tokio::spawn(webhooks.at(place).run(self.server.client("drover"), std::future::pending()))
    }

    async fn until_registered(&self) {
        for _ in 0..500 {
            let mut all = true;
            for question in ["validating", "mutating"] {
                all &= self.read(&Self::registration(question)).await.is_some();
            }
            if all {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the webhooks are not registered");
    }

    /// Waits until what stands at a path is as it should be.
    async fn until(&self, path: &str, holds: impl Fn(Option<&Value>) -> bool) {
        for _ in 0..500 {
            if holds(self.read(path).await.as_ref()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{path} stays {:?}", self.read(path).await);
    }
}

fn upgrade(name: &str, annotations: Value) -> Value {
    json!({
        "apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade",
        "metadata": { "name": name, "namespace": "harvester-system", "annotations": annotations },
        "spec": { "version": "v1.4.3" },
    })
}

#[tokio::test]
async fn an_upgrade_is_taken_on_a_cluster_that_is_well_and_a_second_one_is_not() {
    let cluster = Cluster::new();
    let _webhooks = cluster.webhooks().await;

    let taken = cluster.ask("POST", UPGRADES, upgrade("first", json!({}))).await;
    assert_eq!(taken.code, 201, "{}", taken.body);
    // No API server can be dialled here: that is told, and no reason to refuse.
    assert!(
        taken.warnings.iter().any(|warning| warning.contains("DRV-CERT-001 cannot be checked")),
        "{:?}",
        taken.warnings
    );

    let refused = cluster.ask("POST", UPGRADES, upgrade("second", json!({}))).await;
    assert_eq!(refused.code, 409);
    let text = "admission webhook \"upgrades.harvester.drover.dev\" denied the request: cannot proceed until previous upgrade \"first\" completes";
    assert_eq!(refused.text(), text);
}

#[tokio::test]
async fn all_that_speaks_against_an_upgrade_is_told_at_once_and_can_be_skipped() {
    let cluster = Cluster::new();
    let _webhooks = cluster.webhooks().await;
    cluster.ask("PATCH", "/api/v1/nodes/harv-2", json!({ "spec": { "unschedulable": true } })).await;
    let local = "/apis/cluster.x-k8s.io/v1beta1/namespaces/fleet-local/clusters/local/status";
    cluster.ask("PATCH", local, json!({ "status": { "phase": "Provisioning" } })).await;
    cluster.make(json!({
        "apiVersion": "longhorn.io/v1beta2", "kind": "Volume", "metadata": { "name": "pvc-9", "namespace": "longhorn-system" },
        "spec": { "numberOfReplicas": 1 }, "status": { "kubernetesStatus": { "namespace": "shop", "pvcName": "db" } },
    }));

    let refused = cluster.ask("POST", UPGRADES, upgrade("up", json!({}))).await;

    assert_eq!(refused.code, 400, "{}", refused.body);
    for text in [
        "(1) cluster fleet-local/local status is Provisioning, please wait for it to be provisioned",
        "(2) node harv-2 is unschedulable, please wait for it to be schedulable",
        "(3) Following PVCs with single-replica volume, even the volume is detached, upgrade may have potential data integrity concerns: shop/db",
    ] {
        assert!(refused.text().contains(text), "{}", refused.text());
    }
    assert_eq!(cluster.read(&format!("{UPGRADES}/up")).await, None);
    let skipping = upgrade("up", json!({ "harvesterhci.io/skipWebhook": "true" }));
    assert_eq!(cluster.ask("POST", UPGRADES, skipping).await.code, 201);
}

#[tokio::test]
async fn nodes_that_pause_by_the_setting_are_written_on_the_upgrade() {
    let cluster = Cluster::new();
    let _webhooks = cluster.webhooks().await;
    let setting = "/apis/harvesterhci.io/v1beta1/settings/upgrade-config";
    let pausing = r#"{"nodeUpgradeOption":{"strategy":{"mode":"manual","pauseNodes":["harv-1","harv-3"]}}}"#;
    assert_eq!(cluster.ask("PATCH", setting, json!({ "value": pausing })).await.code, 200);
    let refused = cluster.ask("PATCH", setting, json!({ "value": "{}" })).await;
    assert_eq!(
        (refused.code, refused.text().ends_with("denied the request: invalid image preload strategy type: ")),
        (422, true)
    );

    let taken = cluster.ask("POST", UPGRADES, upgrade("up", json!({}))).await;

    let map = &taken.body["metadata"]["annotations"]["harvesterhci.io/node-upgrade-pause-map"];
    assert_eq!(map, r#"{"harv-1":"pause","harv-3":"pause"}"#);
    let path = format!("{UPGRADES}/up");
    let change =
        |map: &str| json!({ "metadata": { "annotations": { "harvesterhci.io/node-upgrade-pause-map": map } } });
    let refused = cluster.ask("PATCH", &path, change(r#"{"harv-1":"restart"}"#)).await;
    assert_eq!(refused.code, 400);
    assert!(
        refused.text().contains("desired action for node harv-1 must be either \"pause\" or \"unpause\""),
        "{}",
        refused.text()
    );
    assert_eq!(cluster.ask("PATCH", &path, change(r#"{"harv-1":"unpause","harv-3":"pause"}"#)).await.code, 200);
}

#[tokio::test]
async fn an_upgrade_is_not_deleted_while_nodes_are_at_work_unless_somebody_insists() {
    let cluster = Cluster::new();
    let _webhooks = cluster.webhooks().await;
    let path = format!("{UPGRADES}/up");
    cluster.ask("POST", UPGRADES, upgrade("up", json!({}))).await;
    let status = json!({ "status": { "conditions": [{ "type": "NodesUpgraded", "status": "Unknown" }] } });
    cluster.ask("PATCH", &path, status.clone()).await;
    cluster.ask("PATCH", &format!("{path}/status"), status).await;

    let refused = cluster.ask("DELETE", &path, Value::Null).await;
    assert_eq!(refused.code, 400, "{}", refused.body);
    assert!(
        refused.text().contains("node upgrade is in progressing, please wait for it to be provisioned"),
        "{}",
        refused.text()
    );
    assert!(refused.text().contains("drover upgrade pause upgrade/up"), "{}", refused.text());

    cluster
        .ask("PATCH", &path, json!({ "metadata": { "annotations": { "harvesterhci.io/skipWebhook": "true" } } }))
        .await;
    assert_eq!(cluster.ask("DELETE", &path, Value::Null).await.code, 200);
}

#[tokio::test]
async fn no_node_joins_and_none_is_promoted_while_an_upgrade_is_under_way() {
    let cluster = Cluster::new();
    let _webhooks = cluster.webhooks().await;
    let node = |name: &str| json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } });
    assert_eq!(cluster.ask("POST", "/api/v1/nodes", node("early")).await.code, 201);
    cluster.ask("DELETE", "/api/v1/nodes/early", Value::Null).await;
    let mut under_way = upgrade("up", json!({}));
    under_way["metadata"]["labels"] = json!({ "harvesterhci.io/latestUpgrade": "true" });
    under_way["status"] = json!({ "conditions": [{ "type": "Completed", "status": "Unknown" }] });
    cluster.make(under_way);

    let refused = cluster.ask("POST", "/api/v1/nodes", node("late")).await;
    assert_eq!(refused.code, 409, "{}", refused.body);
    assert!(refused.text().contains("cannot add node \"late\" to the cluster"), "{}", refused.text());
    let mark = |value: &str| json!({ "metadata": { "annotations": { "harvesterhci.io/promote-status": value } } });
    let refused = cluster.ask("PATCH", "/api/v1/nodes/harv-3", mark("running")).await;
    assert_eq!(refused.code, 409, "{}", refused.body);
    assert_eq!(cluster.ask("PATCH", "/api/v1/nodes/harv-3", mark("complete")).await.code, 200);
}

#[tokio::test]
async fn what_others_do_to_the_registration_is_undone() {
    let cluster = Cluster::new();
    let _webhooks = cluster.webhooks().await;
    let validating = Cluster::registration("validating");
    let bundle =
        |object: Option<&Value>| object.map(|object| object["webhooks"][0]["clientConfig"]["caBundle"].clone());
    let before = cluster.read(&validating).await;

    let mut spoilt = before.clone().unwrap();
    spoilt["webhooks"][0]["clientConfig"]["caBundle"] = json!("bm9uc2Vuc2U=");
    assert_eq!(cluster.ask("PUT", &validating, spoilt).await.code, 200);
    cluster.until(&validating, |now| bundle(now) == bundle(before.as_ref())).await;

    cluster.ask("DELETE", &validating, Value::Null).await;
    cluster.until(&validating, |now| bundle(now) == bundle(before.as_ref())).await;

    // A certificate that is lost is made anew, and the API server is told whom to trust.
    cluster.ask("DELETE", SECRET, Value::Null).await;
    cluster.until(&validating, |now| now.is_some() && bundle(now) != bundle(before.as_ref())).await;
    cluster.until(SECRET, |now| now.is_some()).await;
    assert_eq!(cluster.ask("POST", UPGRADES, upgrade("up", json!({}))).await.code, 201);
}

#[tokio::test]
async fn two_processes_share_one_certificate() {
    let cluster = Cluster::new();
    let _first = cluster.webhooks().await;
    let secret = cluster.read(SECRET).await.unwrap();

    let _second = cluster.webhooks().await;
    tokio::time::sleep(Duration::from_millis(300)).await;

    assert_eq!(cluster.read(SECRET).await.unwrap()["data"], secret["data"]);
}

#[tokio::test]
async fn nothing_is_registered_where_harvesters_own_controllers_are_at_work() {
    let cluster = Cluster::new();
    let _webhooks = cluster.webhooks().await;
    let template = json!({ "metadata": { "labels": { "app": "harvester" } }, "spec": { "containers": [{ "name": "harvester", "image": "h" }] } });
    let harvester = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "harvester", "namespace": "harvester-system" },
        "spec": { "replicas": 3, "selector": { "matchLabels": { "app": "harvester" } }, "template": template },
    });
    let deployments = "/apis/apps/v1/namespaces/harvester-system/deployments";
    assert_eq!(cluster.ask("POST", deployments, harvester).await.code, 201);
    for question in ["validating", "mutating"] {
        cluster.until(&Cluster::registration(question), |now| now.is_none()).await;
    }
    cluster.ask("DELETE", "/apis/apps/v1/namespaces/harvester-system/deployments/harvester", Value::Null).await;
    cluster.until_registered().await;
}

#[tokio::test]
async fn a_look_at_some_kinds_asks_for_no_others() {
    let cluster = Cluster::new();
    let kinds = ["Node", "Setting"].into_iter().collect();
    let seen = survey::of_kinds(cluster.server.client("reader"), &Clock::real(), &kinds, Duration::from_secs(1)).await;
    assert_eq!((seen.nodes.len(), seen.harvester.settings.len(), seen.harvester.versions.len()), (3, 2, 0));
    assert_eq!(seen.unseen, []);
}
