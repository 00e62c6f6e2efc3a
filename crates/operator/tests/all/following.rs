//! What is followed by watches, and watches that end badly, on the embedded API server in virtual time.

mod survey;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use drover_api::plan::Plan;
use drover_operator::{Operator, OperatorOptions};
use http::StatusCode;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::support::{Cluster, NAMESPACE};

fn plan(annotations: Value) -> Plan {
    let plan = json!({
        "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan",
        "metadata": { "name": "up", "namespace": NAMESPACE, "annotations": annotations },
        "spec": { "concurrency": 1, "version": "v2", "nodeSelector": {}, "upgrade": { "image": "x" } },
    });
    serde_json::from_value(plan).unwrap()
}

/// A Plan that is made after the watches were refused is noticed.
async fn is_noticed_after(code: StatusCode) -> bool {
    let cluster = Cluster::new();
    let left = Arc::new(AtomicUsize::new(12));
    let counted = left.clone();
    let client = crate::support::refusing::client(cluster.server.service("operator"), move |request| {
        let take_one = |left: usize| left.checked_sub(1);
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let refuses = is_watch && counted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take_one).is_ok();
        refuses.then_some(code)
    });
    let operator = Operator::new(client, OperatorOptions::new(NAMESPACE, "operator", cluster.clock));
    let running = tokio::spawn(operator.run(std::future::pending()));
    cluster.pass(60).await;
    assert_eq!(left.load(Ordering::SeqCst), 0);

    cluster.user.create(&plan(json!({}))).unwrap();
    cluster.pass(5).await;
    running.abort();
    cluster.user.get::<Plan>(Some(NAMESPACE), "up").unwrap().unwrap().status.is_some()
}

#[tokio::test(start_paused = true)]
async fn a_410_as_the_answer_to_a_watch_starts_over_with_a_list() {
    assert!(is_noticed_after(StatusCode::GONE).await);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_for_a_while_is_opened_again() {
    assert!(is_noticed_after(StatusCode::INTERNAL_SERVER_ERROR).await);
}

/// An operator with one Ready node, and a Plan whose gate is over a ConfigMap that is not there.
struct Gated {
    cluster: Cluster,
    /// The ConfigMap may not be read.
    forbidden: Arc<AtomicBool>,
}

impl Gated {
    fn new() -> Self {
        let cluster = Cluster::new();
        let node = json!({
            "metadata": { "name": "n1", "labels": { "kubernetes.io/hostname": "n1" } },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        let node: Node = serde_json::from_value(node).unwrap();
        let made = cluster.user.create(&node).unwrap();
        cluster.user.update_status(&Node { metadata: made.metadata, ..node }).unwrap();
        let forbidden = Arc::new(AtomicBool::new(false));
        let asked = forbidden.clone();
        let client = crate::support::refusing::client(cluster.server.service("operator"), move |request| {
            let refuses = asked.load(Ordering::SeqCst) && request.uri().path().contains("configmaps");
            refuses.then_some(StatusCode::FORBIDDEN)
        });
        let operator = Operator::new(client, OperatorOptions::new(NAMESPACE, "operator", cluster.clock));
        tokio::spawn(operator.run(std::future::pending()));
        let gate = "configmaps.v1/default/freeze: object.data.over == 'yes'";
        cluster.user.create(&plan(json!({ "drover.dev/gate": gate }))).unwrap();
        Gated { cluster, forbidden }
    }

    fn say(&self, over: &str) {
        let map = json!({ "metadata": { "name": "freeze", "namespace": "default" }, "data": { "over": over } });
        let mut map: ConfigMap = serde_json::from_value(map).unwrap();
        match self.cluster.user.get::<ConfigMap>(Some("default"), "freeze").unwrap() {
            Some(known) => {
                map.metadata = known.metadata;
                self.cluster.user.update(&map).unwrap();
            }
            None => drop(self.cluster.user.create(&map).unwrap()),
        }
    }

    /// What the Plan says that it waits for, a few seconds later, and how many Jobs there are.
    async fn soon(&self) -> (Vec<String>, usize) {
        self.cluster.pass(5).await;
        let plan = self.cluster.user.get::<Plan>(Some(NAMESPACE), "up").unwrap().unwrap();
        let waits = plan.status.unwrap().waits.into_iter().map(|wait| wait.reason).collect();
        (waits, self.cluster.user.list::<Job>().unwrap().len())
    }
}

fn waits_for(reason: &str) -> (Vec<String>, usize) {
    (vec![reason.to_owned()], 0)
}

#[tokio::test(start_paused = true)]
async fn the_object_of_a_gate_is_followed_from_before_it_is_there_until_it_lets_a_node_start() {
    let gated = Gated::new();
    assert_eq!(gated.soon().await, waits_for("GateFails"));
    gated.say("no");
    assert_eq!(gated.soon().await, waits_for("GateClosed"));
    gated.cluster.user.delete::<ConfigMap>(Some("default"), "freeze", None).unwrap();
    assert_eq!(gated.soon().await, waits_for("GateFails"));
    gated.say("yes");
    assert_eq!(gated.soon().await.1, 1);
}

#[tokio::test(start_paused = true)]
async fn a_gate_opens_also_after_its_watch_was_cut_and_its_place_forgotten() {
    let gated = Gated::new();
    gated.say("no");
    assert_eq!(gated.soon().await, waits_for("GateClosed"));
    gated.cluster.server.compact();
    gated.cluster.server.cut_watches(None);
    gated.say("yes");
    assert_eq!(gated.soon().await.1, 1);
}

#[tokio::test(start_paused = true)]
async fn a_gate_whose_object_may_not_be_read_says_so_until_the_right_is_granted() {
    let gated = Gated::new();
    gated.forbidden.store(true, Ordering::SeqCst);
    gated.say("yes");
    gated.cluster.server.cut_watches(None);
    gated.cluster.pass(60).await;
    assert_eq!(gated.soon().await, waits_for("GateFails"));
    gated.forbidden.store(false, Ordering::SeqCst);
    gated.cluster.pass(60).await;
    assert_eq!(gated.soon().await.1, 1);
}

#[tokio::test(start_paused = true)]
async fn nobody_follows_the_object_of_a_gate_that_is_gone() {
    let gated = Gated::new();
    gated.say("no");
    assert_eq!(gated.soon().await, waits_for("GateClosed"));
    let mut plan = gated.cluster.user.get::<Plan>(Some(NAMESPACE), "up").unwrap().unwrap();
    plan.annotations_mut().remove("drover.dev/gate");
    gated.cluster.user.update(&plan).unwrap();
    assert_eq!(gated.soon().await.1, 1);
}
