//! Deployments, StatefulSets, DaemonSets and budgets together with machines that run their pods, in virtual time.

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

use super::tests::{Cluster, node};
use super::{WorldOptions, pods};

fn template(app: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

fn deployment(name: &str, replicas: i32) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name, "web:1")},
    })
}

fn available(cluster: &Cluster, name: &str) -> Option<i32> {
    cluster.get::<Deployment>("default", name)?.status?.available_replicas
}

fn images(cluster: &Cluster) -> Vec<String> {
    let mut images: Vec<String> = cluster
        .pods()
        .iter()
        .filter(|pod| !pods::is_leaving(pod))
        .map(|pod| pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap())
        .collect();
    images.sort();
    images
}

#[tokio::test(start_paused = true)]
async fn a_deployment_gets_its_pods_rolls_to_the_next_image_and_goes_with_all_of_them() {
    let cluster = Cluster::with_nodes(&["n1", "n2"]).await;
    cluster.create::<Deployment>(deployment("web", 3));
    cluster.until("three pods are available", |cluster| available(cluster, "web") == Some(3)).await;

    let mut next = cluster.get::<Deployment>("default", "web").unwrap();
    next.metadata.resource_version = None;
    next.spec.as_mut().unwrap().template = serde_json::from_value(template("web", "web:2")).unwrap();
    cluster.direct.update(&next).unwrap();
    cluster
        .until("the rollout is complete", |cluster| {
            let status = cluster.get::<Deployment>("default", "web").and_then(|found| found.status).unwrap_or_default();
            images(cluster) == ["web:2", "web:2", "web:2"]
                && status.updated_replicas == Some(3)
                && status.available_replicas == Some(3)
        })
        .await;
    let sets: Vec<ReplicaSet> = cluster.direct.list().unwrap();
    assert_eq!(sets.len(), 2, "the old one is kept for a way back");

    cluster.direct.delete::<Deployment>(Some("default"), "web", None).unwrap();
    cluster.until("nothing of it is left", |cluster| cluster.pods().is_empty()).await;
    assert_eq!(cluster.direct.list::<ReplicaSet>().unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_waits_for_room_says_why_and_gets_it_when_another_leaves() {
    let cluster = Cluster::with_nodes(&["n1"]).await;
    let large = |name: &str| {
        json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": [
            {"name": "c", "image": "c", "resources": {"requests": {"cpu": "6"}}},
        ]}})
    };
    cluster.create::<Pod>(large("first"));
    cluster.passes(5).await;
    cluster.create::<Pod>(large("second"));
    cluster.passes(5).await;

    let waiting = cluster.get::<Pod>("default", "second").unwrap();
    let why = pods::condition(&waiting, pods::POD_SCHEDULED).unwrap().message.clone().unwrap();
    assert!(why.starts_with("0/1 nodes are available: 1 Insufficient cpu."), "{why}");
    let events: Vec<Event> = cluster.direct.list().unwrap();
    assert!(
        events
            .iter()
            .any(|event| event.reason.as_deref() == Some("FailedScheduling") && event.message.as_ref() == Some(&why))
    );

    cluster.direct.delete::<Pod>(Some("default"), "first", None).unwrap();
    cluster
        .until("the second one runs", |cluster| {
            cluster.get::<Pod>("default", "second").is_some_and(|pod| pods::is_ready(&pod))
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_machine_that_falls_silent_go_elsewhere_and_hang_until_it_is_back() {
    let cluster = Cluster::with_nodes(&["n1"]).await;
    cluster.create::<Deployment>(deployment("web", 1));
    cluster.until("the pod runs", |cluster| available(cluster, "web") == Some(1)).await;
    cluster.create::<Node>(node("n2"));
    cluster.passes(15).await;
    let mut dead = cluster.node("n1");
    let annotations = dead.metadata.annotations.as_mut().unwrap();
    annotations.insert("corral.drover.dev/shutdown".into(), "silent".into());
    annotations.insert("corral.drover.dev/down-until".into(), "never".into());
    cluster.direct.update(&dead).unwrap();

    cluster.passes(35).await;
    assert!(super::lifecycle::is_ready(&cluster.node("n1")), "nobody knows yet");
    cluster.passes(30).await;
    assert!(!super::lifecycle::is_ready(&cluster.node("n1")));
    assert_eq!(available(&cluster, "web"), None, "a pod on a lost node is not ready");

    cluster.passes(310).await;
    let (leaving, running): (Vec<Pod>, Vec<Pod>) = cluster.pods().into_iter().partition(pods::is_leaving);
    assert_eq!(
        (leaving.len(), running.len()),
        (1, 1),
        "driven out after five minutes, and not gone, for nobody ends it"
    );
    assert_eq!(pods::node(&running[0]), Some("n2"));

    let mut back = cluster.node("n1");
    back.metadata
        .annotations
        .as_mut()
        .unwrap()
        .insert("corral.drover.dev/down-until".into(), "2026-01-01T12:00:01Z".into());
    cluster.direct.update(&back).unwrap();
    cluster.until("the old pod is gone", |cluster| cluster.pods().len() == 1).await;
    assert!(super::lifecycle::is_ready(&cluster.node("n1")));
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_is_updated_from_the_highest_down_and_keeps_its_names() {
    let cluster = Cluster::with_nodes(&["n1"]).await;
    cluster.create::<StatefulSet>(json!({
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {"replicas": 3, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": template("db", "db:1")},
    }));
    let ready =
        |cluster: &Cluster| cluster.get::<StatefulSet>("default", "db").and_then(|set| set.status).unwrap_or_default();
    cluster.until("three pods are ready", |cluster| ready(cluster).ready_replicas == Some(3)).await;
    let names: Vec<String> = cluster.pods().iter().map(|pod| pods::name(&pod.metadata).to_string()).collect();
    assert_eq!(names, ["db-0", "db-1", "db-2"]);

    let mut next = cluster.get::<StatefulSet>("default", "db").unwrap();
    next.metadata.resource_version = None;
    next.spec.as_mut().unwrap().template = serde_json::from_value(template("db", "db:2")).unwrap();
    cluster.direct.update(&next).unwrap();
    cluster
        .until("all are of the new revision", |cluster| {
            let status = ready(cluster);
            images(cluster) == ["db:2", "db:2", "db:2"]
                && status.ready_replicas == Some(3)
                && status.current_revision == status.update_revision
        })
        .await;
    assert_eq!(cluster.direct.list::<ControllerRevision>().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_runs_on_every_node_even_if_it_is_cordoned() {
    let cluster = Cluster::with_nodes(&["n1", "n2"]).await;
    cluster.create::<DaemonSet>(json!({
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template("agent", "agent:1")},
    }));
    let ready = |cluster: &Cluster| {
        let status = cluster.get::<DaemonSet>("default", "agent").and_then(|set| set.status).unwrap_or_default();
        (status.desired_number_scheduled, status.number_ready)
    };
    cluster.until("two daemons are ready", |cluster| ready(cluster) == (2, 2)).await;

    let mut cordoned = node("n3");
    cordoned["spec"] = json!({"unschedulable": true});
    cluster.create::<Node>(cordoned);
    cluster.until("the new node has one, too", |cluster| ready(cluster) == (3, 3)).await;
    cluster.direct.delete::<Node>(None, "n2", None).unwrap();
    cluster.until("the lost node's goes", |cluster| ready(cluster) == (2, 2)).await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_counts_what_its_deployment_wants() {
    let cluster = Cluster::with_nodes(&["n1"]).await;
    cluster.create::<PodDisruptionBudget>(json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }));
    cluster.create::<Deployment>(deployment("web", 3));
    let numbers = |cluster: &Cluster| {
        let status =
            cluster.get::<PodDisruptionBudget>("default", "web").and_then(|found| found.status).unwrap_or_default();
        (status.expected_pods, status.desired_healthy, status.current_healthy, status.disruptions_allowed)
    };
    cluster.until("one may go", |cluster| numbers(cluster) == (3, 2, 3, 1)).await;

    let mut more = cluster.get::<Deployment>("default", "web").unwrap();
    more.metadata.resource_version = None;
    more.spec.as_mut().unwrap().replicas = Some(5);
    cluster.direct.update(&more).unwrap();
    cluster.until("five are wanted", |cluster| numbers(cluster) == (5, 4, 5, 1)).await;
}

#[tokio::test(start_paused = true)]
async fn without_a_part_its_work_is_left_to_others() {
    let cluster = Cluster::new(WorldOptions::default().without(super::Part::ReplicaSets));
    cluster.create::<Node>(node("n1"));
    cluster.create::<Deployment>(deployment("web", 1));
    cluster.passes(30).await;

    assert_eq!(cluster.direct.list::<ReplicaSet>().unwrap().len(), 1);
    assert_eq!(cluster.pods(), []);
}
