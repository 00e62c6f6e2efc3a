//! What makes system-upgrade-controller hang, and is not in the table of cases: each by its name.

use std::sync::Arc;

use drover_api::plan::Plan;
use drover_core::decision::Question;
use drover_core::plan::Answer;
use drover_corral::world::{World, WorldOptions};
use drover_operator::{Channels, Operator, OperatorOptions};
use futures::future::BoxFuture;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::support::{Cluster, NAMESPACE};

/// Channels that take a question and never say anything.
#[derive(Debug)]
struct Silence;

impl Channels for Silence {
    fn ask(&self, _: Question, _: Option<String>) -> BoxFuture<'static, Result<Answer, String>> {
        Box::pin(std::future::pending())
    }
}

/// One node, whose hostname is not its name, with an operator that asks channels in vain.
fn cluster() -> Cluster {
    let cluster = Cluster::new();
    let node = json!({ "metadata": {
        "name": "n1", "labels": { "kubernetes.io/hostname": "machine-7", "kubernetes.io/os": "linux" },
        "annotations": { "corral.drover.dev/kubelet": "simulated", "corral.drover.dev/job-duration": "5s" },
    } });
    cluster.user.create(&serde_json::from_value::<Node>(node).unwrap()).unwrap();
    let mut options = OperatorOptions::new(NAMESPACE, "operator", cluster.clock);
    options.channels = Arc::new(Silence);
    tokio::spawn(World::run(cluster.server.clone(), WorldOptions::default()));
    tokio::spawn(Operator::new(cluster.server.client("operator"), options).run(std::future::pending()));
    cluster
}

impl Cluster {
    fn make_plan(&self, name: &str, change: Value) {
        let mut plan = json!({
            "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan", "metadata": { "name": name, "namespace": NAMESPACE },
            "spec": { "concurrency": 1, "version": "v2", "nodeSelector": {}, "upgrade": { "image": "x" } },
        });
        super::table::merge(&mut plan["spec"], &change);
        self.user.create(&serde_json::from_value::<Plan>(plan).unwrap()).unwrap();
    }

    /// Status and message of a condition.
    fn condition(&self, plan: &str, kind: &str) -> (String, String) {
        let plan = self.user.get::<Plan>(Some(NAMESPACE), plan).unwrap().unwrap();
        let found = plan.status.unwrap().conditions.into_iter().find(|condition| condition.type_ == kind).unwrap();
        (found.status, found.message)
    }

    fn hash(&self, plan: &str) -> String {
        self.user.get::<Plan>(Some(NAMESPACE), plan).unwrap().unwrap().status.unwrap().latest_hash
    }

    fn make_secret(&self) {
        let secret = json!({ "metadata": { "name": "ca", "namespace": NAMESPACE }, "data": { "ca": "eA==" } });
        self.user.create(&serde_json::from_value::<Secret>(secret).unwrap()).unwrap();
    }
}

fn complete() -> (String, String) {
    ("True".to_owned(), String::new())
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_hostname_is_not_its_name_is_upgraded() {
    let cluster = cluster();
    cluster.make_plan("up", json!({}));
    cluster.pass(3).await;
    let applying = cluster.user.get::<Plan>(Some(NAMESPACE), "up").unwrap().unwrap().status.unwrap().applying;
    assert_eq!(applying, ["machine-7"]);
    cluster.pass(60).await;
    assert_eq!(cluster.condition("up", "Complete"), complete());
}

#[tokio::test(start_paused = true)]
async fn silent_channels_keep_no_other_plan_waiting_and_say_that_they_are_silent() {
    let cluster = cluster();
    for name in ["one", "two", "three"] {
        cluster.make_plan(name, json!({ "version": null, "channel": format!("https://silent.example/{name}") }));
    }
    cluster.pass(1).await;
    cluster.make_plan("up", json!({}));
    cluster.pass(60).await;
    assert_eq!(cluster.condition("up", "Complete"), complete());
    for name in ["one", "two", "three"] {
        let (status, message) = cluster.condition(name, "LatestResolved");
        assert_eq!(status, "False");
        assert!(message.contains("no answer within 20 s"), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_comes_late_goes_and_comes_again_is_noticed_and_no_job_is_named_without_a_hash() {
    let cluster = cluster();
    let missing = ("False".to_owned(), "secrets \"ca\" not found".to_owned());
    let secrets = json!([{ "name": "ca", "path": "/ca" }]);
    cluster.make_plan("up", json!({ "secrets": secrets }));
    cluster.pass(30).await;
    assert_eq!(cluster.condition("up", "Validated"), missing);
    assert_eq!((cluster.hash("up"), cluster.user.list::<Job>().unwrap().len()), (String::new(), 0));

    cluster.make_secret();
    cluster.pass(2).await;
    let hash = cluster.hash("up");
    let jobs: Vec<String> = cluster.user.list::<Job>().unwrap().iter().map(ResourceExt::name_any).collect();
    assert!(jobs.len() == 1 && jobs[0].starts_with(&format!("apply-up-on-n1-with-{}", &hash[..20])), "{jobs:?}");

    cluster.user.delete::<Secret>(Some(NAMESPACE), "ca", None).unwrap();
    cluster.pass(2).await;
    assert_eq!((cluster.condition("up", "Validated"), cluster.hash("up")), (missing, hash.clone()));
    cluster.pass(60).await;
    assert_eq!(cluster.condition("up", "Complete").0, "False");

    cluster.make_secret();
    cluster.pass(2).await;
    assert_eq!((cluster.condition("up", "Complete"), cluster.hash("up")), (complete(), hash));
    assert_eq!(cluster.user.list::<Job>().unwrap().len(), 1);
}
