//! What an update of a control plane does where the management cluster does not tell all: on the embedded API server, in virtual time.

use std::time::Duration;

use drover_clock::Clock;
use drover_core::guest::{Order, Patches, Version};
use drover_corral::apiserver::{ApiServer, Direct, Options};
use drover_operator::guest::{Guest, Guests, Keys, Saying, UpdateError, update};
use futures::future::BoxFuture;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};

const VERSION: &str = "v1beta2";

/// No guest is reached.
#[derive(Debug)]
struct Nowhere;

impl Guests for Nowhere {
    fn reach(&self, _: Keys) -> BoxFuture<'static, Result<Guest, String>> {
        Box::pin(async { Err("no such host".to_owned()) })
    }
}

fn define(user: &Direct, group: &str, kind: &str) {
    let plural = format!("{}s", kind.to_lowercase());
    let schema = json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase() },
            "versions": [{ "name": VERSION, "served": true, "storage": true, "schema": schema }],
        },
    });
    user.create(&serde_json::from_value::<CustomResourceDefinition>(definition).unwrap()).unwrap();
}

struct Ground {
    server: ApiServer,
    clock: Clock,
}

impl Ground {
    /// A server that knows Cluster API and the infrastructure `GoodMachine`, and the cluster `team/web` without a machine.
    async fn new() -> Self {
        let clock = Clock::virtual_from("2026-01-01T12:00:00Z".parse().unwrap());
        let server = ApiServer::new(Options { clock, seed: 1, latency: Duration::from_millis(1), watch_window: 1000 });
        let user = server.direct("user");
        let namespace = json!({ "metadata": { "name": "team" } });
        user.create(&serde_json::from_value::<Namespace>(namespace).unwrap()).unwrap();
        define(&user, "cluster.x-k8s.io", "Cluster");
        define(&user, "cluster.x-k8s.io", "Machine");
        define(&user, "bootstrap.cluster.x-k8s.io", "KubeadmConfig");
        define(&user, "infrastructure.example.com", "GoodMachine");
        let ground = Ground { server, clock };
        ground.make("Cluster", "web", json!({})).await;
        ground
    }

    fn client(&self) -> kube::Client {
        kube::Client::new(self.server.service("person"), "team")
    }

    async fn make(&self, kind: &str, name: &str, mut object: Value) {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", VERSION, kind));
        let api: Api<DynamicObject> = Api::namespaced_with(self.client(), "team", &kind);
        (object["apiVersion"], object["kind"]) = (json!(kind.api_version), json!(kind.kind));
        object["metadata"]["name"] = json!(name);
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }

    async fn machine(&self, cluster: &str, group: &str, kind: &str) {
        let labels = json!({ "cluster.x-k8s.io/cluster-name": cluster, "cluster.x-k8s.io/control-plane": "" });
        let reference = json!({ "apiGroup": group, "kind": kind, "name": "one" });
        let spec = json!({ "version": "v1.33.4", "infrastructureRef": reference });
        self.make("Machine", &format!("{cluster}-1"), json!({ "metadata": { "labels": labels }, "spec": spec })).await;
    }

    /// How an update ends, what it says meanwhile, and how many minutes it takes.
    async fn update(&self) -> (UpdateError, Vec<Saying>, i64) {
        let order = Order {
            namespace: "team".into(),
            cluster: "web".into(),
            version: Version::parse("v1.34.1").unwrap(),
            id: "7".into(),
            patches: Patches::default(),
            replicas: None,
            machine_timeout: SignedDuration::from_mins(15),
        };
        let (began, mut said) = (self.clock.now(), Vec::new());
        let ended = update(self.client(), &Nowhere, self.clock, &order, &mut |one| said.push(one)).await;
        (ended.unwrap_err(), said, self.clock.now().duration_since(began).as_mins())
    }
}

#[tokio::test(start_paused = true)]
async fn infrastructure_that_cannot_be_read_is_named_while_it_is_waited_for_and_ends_the_try() {
    for (group, kind, path) in [
        (
            "infrastructure.example.com",
            "LostMachine",
            "infrastructure.example.com/v1beta2/namespaces/team/lostmachines",
        ),
        ("nowhere.example.com", "LostMachine", "nowhere.example.com"),
    ] {
        let ground = Ground::new().await;
        ground.machine("web", group, kind).await;

        let (error, said, minutes) = ground.update().await;

        let beginning = format!("time is up: cannot read /apis/{path}: ");
        assert!(error.to_string().starts_with(&beginning), "{error}");
        assert_eq!(minutes, 15, "{error}");
        let told = |one: &Saying| matches!(one, Saying::Refused(said) if said.contains(path));
        assert!(said.iter().any(told), "{said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_machines_of_another_cluster_are_made_of_is_nothing_to_it() {
    let ground = Ground::new().await;
    ground.machine("web", "infrastructure.example.com", "GoodMachine").await;
    ground.machine("another", "nowhere.example.com", "LostMachine").await;

    let (error, said, minutes) = ground.update().await;

    assert!(matches!(error, UpdateError::NoKubeconfig(_)), "{error}");
    assert_eq!((said, minutes), (vec![], 0));
}
