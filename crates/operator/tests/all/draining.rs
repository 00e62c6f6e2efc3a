//! Drains on the embedded cluster, in virtual time: kubelets end pods, budgets count them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use drover_core::decision::{Kind, Reason, Subject};
use drover_core::drain::{OnTimeout, Options};
use drover_corral::world::{World, WorldOptions};
use drover_operator::drain::{DrainError, DrainOrder, Saying, drain};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use crate::support::Cluster;

const NODE: &str = "node-1";

/// A node with three running pods, under a budget that needs `needed` of them.
async fn three_pods(needed: i32) -> Cluster {
    let cluster = Cluster::new();
    tokio::spawn(World::run(cluster.server.clone(), WorldOptions::default()));
    let node = json!({ "metadata": {
        "name": NODE, "annotations": { "corral.drover.dev/kubelet": "simulated" },
        "labels": { "kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux" },
    } });
    cluster.user.create(&serde_json::from_value::<Node>(node).unwrap()).unwrap();
    let budget = json!({
        "metadata": { "name": "web", "namespace": "default" },
        "spec": { "minAvailable": needed, "selector": { "matchLabels": { "app": "web" } } },
    });
    cluster.user.create(&serde_json::from_value::<PodDisruptionBudget>(budget).unwrap()).unwrap();
    for number in 1..=3 {
        create_pod(&cluster, &format!("web-{number}"), json!({ "labels": { "app": "web" } }));
    }
    cluster.pass(20).await;
    cluster
}

fn create_pod(cluster: &Cluster, name: &str, metadata: Value) {
    let mut pod = json!({
        "metadata": metadata,
        "spec": { "nodeName": NODE, "containers": [{ "name": "c", "image": "web" }], "terminationGracePeriodSeconds": 2 },
    });
    pod["metadata"]["name"] = json!(name);
    pod["metadata"]["namespace"] = json!("default");
    cluster.user.create(&serde_json::from_value::<Pod>(pod).unwrap()).unwrap();
}

fn order(options: Options) -> DrainOrder {
    DrainOrder {
        node: NODE.to_owned(),
        // The pods of these tests have no controller, so that none takes their place.
        options: Options { force: true, ..options },
        pod_selector: String::new(),
        chunk_size: 2,
        wait_for_volumes: false,
        dry_run: false,
        own_pod: None,
    }
}

/// Drains to the end, and tells what was said on the way.
async fn drained(cluster: &Cluster, order: &DrainOrder) -> (Result<(), DrainError>, Vec<Saying>) {
    drained_by(cluster.server.client("drain"), cluster, order).await
}

async fn drained_by(
    client: kube::Client,
    cluster: &Cluster,
    order: &DrainOrder,
) -> (Result<(), DrainError>, Vec<Saying>) {
    let mut said = Vec::new();
    let mut note = |saying| said.push(saying);
    let work = drain(client, cluster.clock, order, &mut note);
    match tokio::time::timeout(Duration::from_secs(600), work).await {
        Ok(result) => (result, said),
        Err(_) => panic!("it did not end; it said {said:#?}, and the pods are {:#?}", cluster.user.list::<Pod>()),
    }
}

fn pods(cluster: &Cluster) -> Vec<String> {
    cluster.user.list::<Pod>().unwrap().into_iter().filter_map(|pod| pod.metadata.name).collect()
}

fn is_cordoned(cluster: &Cluster) -> bool {
    let node = cluster.user.get::<Node>(None, NODE).unwrap().unwrap();
    node.spec.is_some_and(|spec| spec.unschedulable == Some(true))
}

fn removed(said: &[Saying]) -> Vec<&str> {
    said.iter()
        .filter_map(|saying| if let Saying::Removed(pod) = saying { Some(pod.name.as_str()) } else { None })
        .collect()
}

/// Changes the budget after `seconds`, as a person would who was asked to.
fn drop_budget_after(cluster: &Cluster, seconds: u64) {
    let (user, clock) = (cluster.server.direct("user"), cluster.clock);
    tokio::spawn(async move {
        clock.sleep(Duration::from_secs(seconds)).await;
        let mut budget = user.get::<PodDisruptionBudget>(Some("default"), "web").unwrap().unwrap();
        budget.spec.as_mut().unwrap().min_available = Some(IntOrString::Int(0));
        user.update(&budget).unwrap();
    });
}

#[tokio::test(start_paused = true)]
async fn a_node_is_cordoned_and_emptied_and_it_is_told_in_order() {
    let cluster = three_pods(0).await;
    let (result, said) = drained(&cluster, &order(Options::default())).await;
    result.unwrap();
    assert_eq!(pods(&cluster), Vec::<String>::new());
    assert!(is_cordoned(&cluster));
    assert_eq!(said[0], Saying::Cordoned);
    assert!(matches!(&said[1], Saying::Warning(text) if text.starts_with("deleting Pods that declare no controller")));
    assert_eq!(removed(&said), ["web-1", "web-2", "web-3"]);
}

/// As Kubernetes 1.21 and before: `policy/v1` has no Eviction there.
#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_know_todays_evictions_is_asked_as_it_understands_and_budgets_hold_there_too() {
    let cluster = three_pods(1).await;
    cluster.server.grow_as_old_as(|_| Some(21));
    let evictions = Arc::new(AtomicUsize::new(0));
    let asked = evictions.clone();
    cluster.server.hear_requests(Box::new(move |_, head| {
        asked.fetch_add(usize::from(head.uri.path().ends_with("/eviction")), Ordering::Relaxed);
    }));
    drop_budget_after(&cluster, 60);

    let (result, said) = drained(&cluster, &order(Options { at_once: Some(1), ..Options::default() })).await;

    result.unwrap();
    assert_eq!(pods(&cluster), Vec::<String>::new());
    let waits = said.iter().filter_map(|saying| if let Saying::Waits(waits) = saying { Some(waits) } else { None });
    let reasons: Vec<Reason> = waits.flatten().map(|wait| wait.reason).collect();
    assert!(reasons.contains(&Reason::BudgetForbids), "{reasons:?}");
    let refused = said.iter().filter(|saying| matches!(saying, Saying::Refused { .. })).count();
    // What it does not understand is asked of it once.
    assert_eq!(evictions.load(Ordering::Relaxed), 1 + 3 + refused);
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_forbids_is_named_and_the_drain_goes_on_when_it_is_changed() {
    let cluster = three_pods(3).await;
    drop_budget_after(&cluster, 60);
    let before = cluster.clock.now();
    let (result, said) = drained(&cluster, &order(Options::default())).await;
    result.unwrap();
    assert!(cluster.clock.now().duration_since(before) >= SignedDuration::from_secs(60));
    let waits =
        said.iter().find_map(|saying| if let Saying::Waits(waits) = saying { Some(waits) } else { None }).unwrap();
    assert_eq!(waits.len(), 3);
    assert_eq!(waits[0].reason, Reason::BudgetForbids);
    assert_eq!(
        waits[0].sentence,
        "PodDisruptionBudget default/web forbids to evict Pod default/web-1 from Node node-1"
    );
    assert_eq!(pods(&cluster), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_refused_eviction_is_tried_every_five_seconds_and_not_more_often() {
    let cluster = three_pods(3).await;
    let limited = Options { timeout: Some(SignedDuration::from_secs(31)), ..Options::default() };
    let (_, said) = drained(&cluster, &order(limited)).await;
    let tries = said.iter().filter(|saying| matches!(saying, Saying::Removing(pod) if pod.name == "web-1")).count();
    assert!((6..=7).contains(&tries), "{tries} tries in 31 s");
}

#[tokio::test(start_paused = true)]
async fn when_time_is_up_it_fails_by_name_and_every_pod_is_still_there() {
    let cluster = three_pods(3).await;
    let limited = Options { timeout: Some(SignedDuration::from_secs(30)), ..Options::default() };
    let (result, _) = drained(&cluster, &order(limited)).await;
    assert_eq!(result.unwrap_err().to_string(), "time is up; still there: default/web-1, default/web-2, default/web-3");
    assert_eq!(pods(&cluster).len(), 3);
    assert!(is_cordoned(&cluster));
}

#[tokio::test(start_paused = true)]
async fn a_node_is_given_back_on_timeout_only_if_this_drain_has_cordoned_it() {
    let cluster = three_pods(3).await;
    let limited =
        Options { timeout: Some(SignedDuration::from_secs(10)), on_timeout: OnTimeout::Uncordon, ..Options::default() };
    let (result, said) = drained(&cluster, &order(limited.clone())).await;
    assert!(matches!(result, Err(DrainError::TimedOut(_))));
    assert!(!is_cordoned(&cluster) && said.contains(&Saying::Uncordoned));

    let mut node = cluster.user.get::<Node>(None, NODE).unwrap().unwrap();
    node.spec.get_or_insert_default().unschedulable = Some(true);
    cluster.user.update(&node).unwrap();
    let (_, said) = drained(&cluster, &order(limited)).await;
    assert!(is_cordoned(&cluster));
    assert_eq!(said[0], Saying::AlreadyCordoned);
}

#[tokio::test(start_paused = true)]
async fn when_time_is_up_the_rest_is_deleted_past_its_budget_if_asked() {
    let cluster = three_pods(3).await;
    let limited =
        Options { timeout: Some(SignedDuration::from_secs(10)), on_timeout: OnTimeout::Delete, ..Options::default() };
    let (result, _) = drained(&cluster, &order(limited)).await;
    result.unwrap();
    assert_eq!(pods(&cluster), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_may_not_go_keeps_all_of_them() {
    let cluster = three_pods(0).await;
    let (result, said) =
        drained(&cluster, &DrainOrder { options: Options::default(), ..order(Options::default()) }).await;
    let sentence = "cannot delete Pods that declare no controller (use --force to override): default/web-1, default/web-2, default/web-3";
    assert_eq!(result.unwrap_err().to_string(), sentence);
    assert_eq!(removed(&said), Vec::<&str>::new());
    assert_eq!(pods(&cluster).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn only_pods_that_the_selector_matches_go() {
    let cluster = three_pods(0).await;
    create_pod(&cluster, "stays", json!({ "labels": { "upgrade.cattle.io/controller": "x" } }));
    cluster.pass(10).await;
    let selective = DrainOrder { pod_selector: "!upgrade.cattle.io/controller".into(), ..order(Options::default()) };
    drained(&cluster, &selective).await.0.unwrap();
    assert_eq!(pods(&cluster), ["stays"]);
}

#[tokio::test(start_paused = true)]
async fn what_holds_it_up_stands_on_its_own_pod_for_as_long_as_it_does() {
    let cluster = three_pods(3).await;
    create_pod(&cluster, "drainer", json!({ "labels": { "own": "yes" } }));
    let own_pod = Subject { kind: Kind::Pod, namespace: "default".into(), name: "drainer".into() };
    let order = DrainOrder { pod_selector: "!own".into(), own_pod: Some(own_pod), ..order(Options::default()) };
    let annotation = || {
        let pod = cluster.user.get::<Pod>(Some("default"), "drainer").unwrap().unwrap();
        pod.metadata.annotations.unwrap_or_default().get("drover.dev/waits").cloned()
    };
    let watcher = async {
        cluster.pass(30).await;
        let waits: Value = serde_json::from_str(&annotation().unwrap()).unwrap();
        drop_budget_after(&cluster, 1);
        waits
    };
    let ((result, _), waits) = tokio::join!(drained(&cluster, &order), watcher);
    result.unwrap();
    assert_eq!(waits[0]["reason"], "BudgetForbids");
    assert_eq!(waits[0]["subject"], json!({ "kind": "Pod", "namespace": "default", "name": "web-1" }));
    assert_eq!(annotation(), None);
}

/// With the rights that system-upgrade-controller gives to its Jobs.
#[tokio::test(start_paused = true)]
async fn a_drain_that_may_not_patch_its_pod_tells_on_its_node_for_as_long_as_that_is_claimed() {
    for claimed in [true, false] {
        let cluster = three_pods(3).await;
        if claimed {
            let mut node = cluster.user.get::<Node>(None, NODE).unwrap().unwrap();
            node.metadata.labels.as_mut().unwrap().insert("drover.dev/claim".into(), "c1".into());
            cluster.user.update(&node).unwrap();
        }
        let own_pod = Subject { kind: Kind::Pod, namespace: "default".into(), name: "drainer".into() };
        create_pod(&cluster, "drainer", json!({ "labels": { "own": "yes" } }));
        let order = DrainOrder { pod_selector: "!own".into(), own_pod: Some(own_pod), ..order(Options::default()) };
        let client = crate::support::refusing::client(cluster.server.service("drain"), |request| {
            let refuses = request.method() == "PATCH" && request.uri().path().contains("/pods/");
            refuses.then_some(http::StatusCode::FORBIDDEN)
        });
        let told = || {
            let node = cluster.user.get::<Node>(None, NODE).unwrap().unwrap();
            node.metadata.annotations.unwrap_or_default().get("drover.dev/waits").cloned()
        };
        let watcher = async {
            cluster.pass(30).await;
            let told = told();
            drop_budget_after(&cluster, 1);
            told
        };
        let ((result, _), while_held_up) = tokio::join!(drained_by(client, &cluster, &order), watcher);
        result.unwrap();
        assert_eq!(while_held_up.is_some_and(|waits| waits.contains("BudgetForbids")), claimed);
        assert_eq!(told(), None);
    }
}
