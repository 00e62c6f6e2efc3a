//! Watching without driving, on the embedded API server: what is told over HTTP, and what is asked for.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use drover_api::plan::Plan;
use drover_clock::Clock;
use drover_corral::apiserver::{ApiServer, Direct, Options};
use drover_operator::{WatchOptions, Watcher, survey};
use http::{Method, Request, StatusCode};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Every request that was made.
type Requests = Arc<Mutex<Vec<(Method, String)>>>;

/// A cluster that somebody watches.
struct Watched {
    server: ApiServer,
    user: Direct,
    address: SocketAddr,
    requests: Requests,
}

impl Watched {
    async fn begin(refuses: impl Fn(&str) -> Option<StatusCode> + Send + Sync + 'static) -> Self {
        let clock = Clock::real();
        let server = ApiServer::new(Options { clock, seed: 1, latency: Duration::ZERO, watch_window: 1000 });
        let user = server.direct("user");
        let namespace = json!({ "metadata": { "name": "system-upgrade" } });
        user.create(&serde_json::from_value::<Namespace>(namespace).unwrap()).unwrap();
        for definition in drover_api::crds::of(drover_api::crds::Controller::Plan) {
            user.create(&definition).unwrap();
        }
        let requests: Requests = Arc::default();
        let noted = requests.clone();
        let client = crate::support::refusing::client(server.service("reader"), move |request: &Request<Body>| {
            noted.lock().unwrap().push((request.method().clone(), request.uri().to_string()));
            refuses(request.uri().path())
        });
        let options = WatchOptions { listen: "127.0.0.1:0".parse().unwrap(), clock };
        let watcher = Watcher::bind(options).await.unwrap();
        let address = watcher.address();
        tokio::spawn(watcher.run(client, std::future::pending()));
        Watched { server, user, address, requests }
    }

    fn make_node(&self, name: &str, ready: &str) {
        let node = json!({
            "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
            "status": { "conditions": [{ "type": "Ready", "status": ready, "reason": "Kubelet", "message": "no network",
                                         "lastTransitionTime": "2026-01-01T00:00:00Z" }] },
        });
        let node: Node = serde_json::from_value(node).unwrap();
        let made = self.user.create(&node).unwrap();
        self.user.update_status(&Node { metadata: made.metadata, ..node }).unwrap();
    }

    fn make_plan(&self) {
        let plan = json!({
            "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan", "metadata": { "name": "up", "namespace": "system-upgrade" },
            "spec": { "concurrency": 1, "version": "v2", "nodeSelector": {}, "upgrade": { "image": "x" } },
        });
        self.user.create(&serde_json::from_value::<Plan>(plan).unwrap()).unwrap();
    }

    async fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: drover\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// Asks until it is so.
    async fn until(&self, path: &str, is_so: impl Fn(&str) -> bool) -> String {
        for _ in 0..200 {
            let (code, body) = self.get(path).await;
            if code == 200 && is_so(&body) {
                return body;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{path} still says {:?}", self.get(path).await);
    }

    /// Lists and single objects; watches stay open.
    fn reads(&self) -> usize {
        self.requests.lock().unwrap().iter().filter(|(_, uri)| !uri.contains("watch=true")).count()
    }
}

#[tokio::test]
async fn what_happens_is_told_over_http_and_nothing_is_written_or_asked_for_twice() {
    let watched = Watched::begin(|_| None).await;
    watched.until("/healthz", |body| body == "ok\n").await;
    watched.make_node("n1", "True");
    watched.make_node("n2", "False");
    watched.make_plan();

    let waits = watched.until("/waits", |body| body.contains("no network") && body.contains("Plan")).await;
    let waits: Vec<Value> = serde_json::from_str(&waits).unwrap();
    assert_eq!(waits[0]["object"]["kind"], "Plan");
    assert!(waits.iter().any(|one| one["object"]["name"] == "n2"), "{waits:?}");
    let status: Value = serde_json::from_str(&watched.get("/status").await.1).unwrap();
    assert_eq!((&status["nodes"]["all"], &status["nodes"]["ready"]), (&json!(2), &json!(1)));
    assert_eq!(status["drains"][0]["node"], "n2");
    let metrics = watched.get("/metrics").await.1;
    assert!(metrics.contains("drover_nodes{state=\"ready\"} 1\n"), "{metrics}");
    assert_eq!(watched.get("/elsewhere").await.0, 404);

    let reads = watched.reads();
    watched.user.delete::<Node>(None, "n2", None).unwrap();
    watched.user.delete::<Plan>(Some("system-upgrade"), "up", None).unwrap();
    watched.until("/waits", |body| body == "[]").await;
    watched.until("/status", |body| body.contains("\"all\":1")).await;
    assert_eq!(watched.reads(), reads, "watches tell it all");
    let requests = watched.requests.lock().unwrap();
    assert!(requests.iter().all(|(method, _)| *method == Method::GET), "{requests:?}");
}

#[tokio::test]
async fn a_right_that_is_missing_costs_only_what_needs_it() {
    let watched =
        Watched::begin(|path| (path.ends_with("/pods") || path.ends_with("/secrets")).then_some(StatusCode::FORBIDDEN))
            .await;
    watched.make_node("n1", "False");
    watched.make_plan();

    watched.until("/waits", |body| body.contains("no network")).await;
    let status = watched.until("/status", |body| body.contains("Pod: no permission")).await;
    let status: Value = serde_json::from_str(&status).unwrap();
    let unseen: Vec<&str> = status["unseen"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(unseen.contains(&"Secret: no permission to list them"), "{unseen:?}");
    assert!(watched.get("/metrics").await.1.contains("drover_unseen "));
}

#[tokio::test]
async fn what_went_while_no_watch_was_open_is_not_left_over() {
    let watched = Watched::begin(|_| None).await;
    watched.make_node("n1", "False");
    watched.until("/waits", |body| body.contains("Node n1")).await;

    watched.server.cut_watches(None);
    watched.user.delete::<Node>(None, "n1", None).unwrap();
    watched.make_node("n2", "False");
    watched.server.compact();

    watched.until("/waits", |body| body.contains("Node n2") && !body.contains("n1")).await;
    let again = |(_, uri): &&(Method, String)| uri.starts_with("/api/v1/nodes?limit");
    assert!(watched.requests.lock().unwrap().iter().filter(again).count() > 1, "it was listed again");
}

#[tokio::test]
async fn an_operator_that_has_ceased_to_lead_is_named() {
    let watched = Watched::begin(|_| None).await;
    watched.make_node("n1", "True");
    watched.make_plan();
    let lease = json!({
        "metadata": { "name": "system-upgrade-controller", "namespace": "system-upgrade" },
        "spec": { "holderIdentity": "operator-1", "renewTime": "2026-01-01T00:00:00.000000Z" },
    });
    watched.user.create(&serde_json::from_value::<Lease>(lease).unwrap()).unwrap();

    watched.until("/waits", |body| body.contains("nobody leads") && body.contains("operator-1")).await;
    let seen = survey::live(watched.server.client("reader"), &Clock::real()).await;
    assert!(seen.leases.get("system-upgrade", "system-upgrade-controller").is_some(), "a single look sees it, too");
}
