//! An Upgrade of Harvester, on the embedded API server in virtual time: what becomes of it while operators come and go.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use drover_api::crds::{self, Controller};
use drover_clock::Clock;
use drover_core::harvester::Settings;
use drover_corral::apiserver::{ApiServer, Options};
use drover_corral::world::definitions;
use drover_operator::harvester::{HarvesterOptions, Repositories, Texts};
use drover_operator::{Operator, OperatorOptions};
use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::{Value, json};

const HARVESTER: &str = "harvester-system";
const U: &str = "hvst-upgrade-1";

/// A repository that takes requests and never answers, and how often it was asked.
#[derive(Debug, Default)]
struct Silent(AtomicUsize);

impl Repositories for Silent {
    fn fetch(&self, _: String, _: String) -> BoxFuture<'static, Result<Texts, String>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(futures::future::pending())
    }

    fn file(&self, _: String) -> BoxFuture<'static, Result<String, String>> {
        Box::pin(futures::future::pending())
    }
}

/// A cluster whose Upgrade has come to the moment at which its repository is asked for the release.
fn asking_for_the_release(server: &ApiServer) {
    let own = |api: &str, kind: &str, name: &str| json!({ "apiVersion": api, "kind": kind, "metadata": { "name": name, "namespace": HARVESTER } });
    let with = |mut object: Value, field: &str, value: Value| {
        object[field] = value;
        object
    };
    let repository = format!("upgrade-repo-{U}");
    let mut upgrade =
        with(own("harvesterhci.io/v1beta1", "Upgrade", U), "spec", json!({ "version": "v1.8.0", "logEnabled": false }));
    // Who has loaded the cluster has written these notes.
    upgrade["metadata"]["annotations"] =
        json!({ "drover.dev/progress": "{\"pausesMarked\":true}", "drover.dev/drive": "load" });
    let labels = json!({ "app": "repository" });
    let pod =
        json!({ "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "httpd", "image": "httpd" }] } });
    let serves = with(
        own("apps/v1", "Deployment", &repository),
        "spec",
        json!({ "selector": { "matchLabels": labels }, "template": pod }),
    );
    let mut objects: Vec<Value> = [HARVESTER, "fleet-local", "cattle-system"]
        .iter()
        .map(|name| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }))
        .collect();
    objects.extend(definitions::harvester());
    for controller in [Controller::Plan, Controller::Harvester] {
        objects.extend(crds::of(controller).iter().map(|definition| json!(definition)));
    }
    objects.extend([
        upgrade,
        with(
            own("harvesterhci.io/v1beta1", "VirtualMachineImage", U),
            "status",
            json!({ "conditions": [{ "type": "Imported", "status": "True" }] }),
        ),
        with(own("v1", "Service", &repository), "spec", json!({ "ports": [{ "port": 80 }] })),
        with(serves, "status", json!({ "replicas": 1, "readyReplicas": 1, "availableReplicas": 1 })),
    ]);
    server.load(&json!({ "apiVersion": "v1", "kind": "List", "items": objects })).unwrap();
}

#[tokio::test(start_paused = true)]
async fn whoever_lost_the_lease_while_a_repository_was_silent_asks_it_again_when_it_leads_again() {
    let clock = Clock::virtual_from("2026-01-01T12:00:00Z".parse().unwrap());
    let server = ApiServer::new(Options { clock, seed: 1, latency: Duration::from_millis(1), watch_window: 1000 });
    asking_for_the_release(&server);
    let silent = Arc::new(Silent::default());
    let harvester = HarvesterOptions {
        settings: Settings { image: "drover".to_owned() },
        repositories: silent.clone(),
        asks_machines: false,
    };
    let options = OperatorOptions { harvester: Some(harvester), ..OperatorOptions::new(HARVESTER, "first", clock) };
    let operator = tokio::spawn(Operator::new(server.client("first"), options).run(std::future::pending()));
    clock.sleep(Duration::from_secs(5)).await;
    assert_eq!(silent.0.load(Ordering::SeqCst), 1);

    // Another operator takes the Lease, and dies.
    let user = server.direct("second");
    let mut lease = user.get::<Lease>(Some(HARVESTER), "system-upgrade-controller").unwrap().unwrap();
    lease.spec.as_mut().unwrap().holder_identity = Some("second".to_owned());
    user.update(&lease).unwrap();
    clock.sleep(Duration::from_secs(60)).await;

    let lease = user.get::<Lease>(Some(HARVESTER), "system-upgrade-controller").unwrap().unwrap();
    assert_eq!(lease.spec.unwrap().holder_identity.as_deref(), Some("first"));
    assert!(silent.0.load(Ordering::SeqCst) > 1, "nobody asks it again");
    operator.abort();
}
