//! Volumes on a cluster, in virtual time.

use drover_api::longhorn::NAMESPACE;
use drover_api::longhorn::engine::Engine;
use drover_api::longhorn::node::Node as LonghornNode;
use drover_api::longhorn::replica::Replica;
use drover_api::longhorn::setting::Setting;
use drover_api::longhorn::volume::Volume;
use drover_api::longhorn::volume_attachment::VolumeAttachment;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

use crate::world::tests::{Cluster, node};
use crate::world::{Part, WorldOptions, pods};

async fn with_nodes(names: &[&str]) -> Cluster {
    let cluster = Cluster::new(WorldOptions::default().with([Part::Longhorn]));
    cluster.define_harvester();
    cluster.ensure_namespace(NAMESPACE);
    for name in names {
        cluster.create::<Node>(node(name));
        cluster.create::<LonghornNode>(of_longhorn("Node", name, json!({"spec": {"allowScheduling": true}})));
    }
    cluster.until("the managers are protected", |cluster| budgets(cluster).len() == names.len()).await;
    cluster
}

fn of_longhorn(kind: &str, name: &str, more: Value) -> Value {
    let mut object = json!({
        "apiVersion": "longhorn.io/v1beta2", "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE},
    });
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object
}

/// A volume, and a pod on a node that uses it.
fn add_volume(cluster: &Cluster, name: &str, replicas: i32, user: Option<&str>) {
    let mut volume: Volume =
        serde_json::from_value(of_longhorn("Volume", name, json!({"spec": {"numberOfReplicas": replicas}}))).unwrap();
    volume = cluster.direct.create(&volume).unwrap();
    let bound = json!({"kubernetesStatus": {"namespace": "default", "pvcName": name}});
    volume.status = Some(serde_json::from_value(bound).unwrap());
    cluster.direct.update_status(&volume).unwrap();
    if let Some(node) = user {
        add_user(cluster, name, &format!("uses-{name}"), node);
    }
}

fn add_user(cluster: &Cluster, claim: &str, pod: &str, node: &str) {
    cluster.create::<Pod>(json!({
        "metadata": {"name": pod, "namespace": "default"},
        "spec": {
            "nodeName": node, "containers": [{"name": "main", "image": "shop:1"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
        },
    }));
}

fn budgets(cluster: &Cluster) -> Vec<PodDisruptionBudget> {
    cluster.direct.list().unwrap()
}

/// State, robustness and node of a volume.
fn volume(cluster: &Cluster, name: &str) -> (String, String, String) {
    let status = cluster.get::<Volume>(NAMESPACE, name).unwrap().status.unwrap();
    (
        status.state.unwrap_or_default(),
        status.robustness.unwrap_or_default(),
        status.current_node_id.unwrap_or_default(),
    )
}

fn robustness(cluster: &Cluster, name: &str) -> String {
    volume(cluster, name).1
}

fn modes(cluster: &Cluster, name: &str) -> Vec<String> {
    let engine: Engine = cluster.get(NAMESPACE, &format!("{name}-e-0")).unwrap();
    engine.status.unwrap().replica_mode_map.unwrap_or_default().into_values().collect()
}

fn cordon(cluster: &Cluster, name: &str, cordoned: bool) {
    let mut node = cluster.node(name);
    node.spec.get_or_insert_default().unschedulable = Some(cordoned).filter(|cordoned| *cordoned);
    cluster.direct.update(&node).unwrap();
}

/// The manager's pod on a node.
fn manager(cluster: &Cluster, node: &str) -> Option<Pod> {
    let all = cluster.pods().into_iter();
    all.filter(|pod| pods::namespace(&pod.metadata) == NAMESPACE).find(|pod| pods::node(pod) == Some(node))
}

fn evict(cluster: &Cluster, node: &str) -> Result<(), u16> {
    let pod = manager(cluster, node).unwrap();
    cluster.direct.evict(NAMESPACE, pods::name(&pod.metadata), None).map_err(|status| status.code)
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_found_no_place_gets_one_on_a_node_that_comes_later() {
    let cluster = with_nodes(&["a", "b"]).await;
    add_volume(&cluster, "data", 3, Some("a"));
    cluster.until("two replicas run", |cluster| robustness(cluster, "data") == "degraded").await;
    assert_eq!(modes(&cluster, "data"), ["RW", "RW"]);
    cluster.create::<Node>(node("c"));
    cluster.create::<LonghornNode>(of_longhorn("Node", "c", json!({"spec": {"allowScheduling": true}})));
    cluster.until("it is healthy", |cluster| robustness(cluster, "data") == "healthy").await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_attached_where_its_user_is_and_follows_it() {
    let cluster = with_nodes(&["n1", "n2", "n3"]).await;
    add_volume(&cluster, "data", 3, Some("n1"));
    cluster.until("it is healthy", |cluster| robustness(cluster, "data") == "healthy").await;
    assert_eq!(volume(&cluster, "data"), ("attached".into(), "healthy".into(), "n1".into()));
    assert_eq!(modes(&cluster, "data"), ["RW", "RW", "RW"]);

    // While both are there, it stays with the first.
    add_user(&cluster, "data", "next", "n2");
    cluster.passes(10).await;
    assert_eq!(volume(&cluster, "data").2, "n1");
    cluster.direct.delete::<Pod>(Some("default"), "uses-data", None).unwrap();
    cluster.until("it has followed", |cluster| volume(cluster, "data").2 == "n2").await;
    cluster.direct.delete::<Pod>(Some("default"), "next", None).unwrap();
    cluster.until("it is detached", |cluster| volume(cluster, "data").0 == "detached").await;
    assert_eq!(robustness(&cluster, "data"), "unknown");
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_is_lost_with_its_node_is_rebuilt_when_that_is_back() {
    let cluster = with_nodes(&["n1", "n2", "n3"]).await;
    add_volume(&cluster, "data", 3, Some("n1"));
    cluster.until("it is healthy", |cluster| robustness(cluster, "data") == "healthy").await;

    cluster.annotate("n3", "corral.drover.dev/down-until", "2026-01-01T12:05:00Z");
    cluster.until("it is degraded", |cluster| robustness(cluster, "data") == "degraded").await;
    assert_eq!(modes(&cluster, "data"), ["RW", "RW"]);
    cluster.until("it is rebuilt", |cluster| modes(cluster, "data").contains(&"WO".to_string())).await;
    assert_eq!(robustness(&cluster, "data"), "degraded");
    cluster.passes(10).await;
    assert_eq!(robustness(&cluster, "data"), "degraded");
    cluster.until("it is healthy again", |cluster| robustness(cluster, "data") == "healthy").await;
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_stays_away_is_replaced_on_another_node_after_the_interval() {
    let cluster = with_nodes(&["n1", "n2", "n3", "n4"]).await;
    cluster.create::<Setting>(of_longhorn("Setting", "replica-replenishment-wait-interval", json!({"value": "120"})));
    add_volume(&cluster, "data", 3, Some("n1"));
    cluster.until("it is healthy", |cluster| robustness(cluster, "data") == "healthy").await;
    let places = |cluster: &Cluster| -> Vec<String> {
        let all = cluster.direct.list::<Replica>().unwrap();
        let mut places: Vec<String> = all.into_iter().filter_map(|replica| replica.spec?.node_id).collect();
        places.sort_unstable();
        places
    };
    let lost = places(&cluster).into_iter().find(|node| node != "n1").unwrap();
    cluster.annotate(&lost, "corral.drover.dev/down-until", "never");
    cluster.until("it is degraded", |cluster| robustness(cluster, "data") == "degraded").await;
    cluster.passes(110).await;
    assert!(places(&cluster).contains(&lost) && places(&cluster).len() == 3);
    cluster.until("it is healthy on others", |cluster| robustness(cluster, "data") == "healthy").await;
    cluster.passes(5).await;
    assert!(!places(&cluster).contains(&lost) && places(&cluster).len() == 3);
}

#[tokio::test(start_paused = true)]
async fn a_volume_can_be_told_never_to_heal() {
    let cluster = with_nodes(&["n1", "n2", "n3"]).await;
    add_volume(&cluster, "data", 3, Some("n1"));
    cluster.until("it is healthy", |cluster| robustness(cluster, "data") == "healthy").await;
    let mut data: Volume = cluster.get(NAMESPACE, "data").unwrap();
    data.metadata
        .annotations
        .get_or_insert_default()
        .insert("corral.drover.dev/rebuild-duration".into(), "never".into());
    cluster.direct.update(&data).unwrap();

    cluster.annotate("n3", "corral.drover.dev/down-until", "2026-01-01T12:05:00Z");
    cluster.passes(1800).await;
    assert_eq!(robustness(&cluster, "data"), "degraded");
    assert!(modes(&cluster, "data").contains(&"WO".to_string()));
}

#[tokio::test(start_paused = true)]
async fn a_manager_leaves_a_cordoned_node_when_nothing_there_is_needed_any_more() {
    let cluster = with_nodes(&["n1", "n2", "n3"]).await;
    add_volume(&cluster, "data", 3, Some("n1"));
    cluster.until("it is healthy", |cluster| robustness(cluster, "data") == "healthy").await;
    cordon(&cluster, "n1", true);
    cluster.passes(60).await;
    // The engine of an attached volume is there.
    assert_eq!(evict(&cluster, "n1"), Err(429));

    cluster.direct.delete::<Pod>(Some("default"), "uses-data", None).unwrap();
    add_user(&cluster, "data", "next", "n2");
    cluster.until("the budget is gone", |cluster| budgets(cluster).len() == 2).await;
    assert_eq!(evict(&cluster, "n1"), Ok(()));
    cluster.until("it is degraded", |cluster| robustness(cluster, "data") == "degraded").await;
    cluster.passes(60).await;
    assert!(manager(&cluster, "n1").is_none());

    cordon(&cluster, "n1", false);
    cluster
        .until("all is as before", |cluster| robustness(cluster, "data") == "healthy" && budgets(cluster).len() == 3)
        .await;
}

#[tokio::test(start_paused = true)]
async fn the_last_healthy_replica_holds_its_manager_unless_the_policy_says_otherwise() {
    let cluster = with_nodes(&["n1", "n2"]).await;
    add_volume(&cluster, "single", 1, Some("n1"));
    cluster.until("it is healthy", |cluster| robustness(cluster, "single") == "healthy").await;
    let keeper = cluster.direct.list::<Replica>().unwrap().remove(0).spec.unwrap().node_id.unwrap();
    cluster.direct.delete::<Pod>(Some("default"), "uses-single", None).unwrap();
    cluster.until("it is detached", |cluster| volume(cluster, "single").0 == "detached").await;
    cordon(&cluster, &keeper, true);
    cluster.passes(60).await;
    assert_eq!(evict(&cluster, &keeper), Err(429));

    cluster.create::<Setting>(of_longhorn(
        "Setting",
        "node-drain-policy",
        json!({"value": "allow-if-replica-is-stopped"}),
    ));
    cluster.until("the budget is gone", |cluster| budgets(cluster).len() == 1).await;
    assert_eq!(evict(&cluster, &keeper), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_no_volume_accounts_for_holds_its_manager() {
    let cluster = with_nodes(&["n1", "n2", "n3"]).await;
    add_volume(&cluster, "data", 3, Some("n2"));
    let orphan = of_longhorn("Engine", "data-e-1", json!({"spec": {"volumeName": "data", "nodeID": "n1"}}));
    let mut orphan: Engine = cluster.create(orphan);
    orphan.status.get_or_insert_default().current_state = Some("running".into());
    cluster.direct.update_status(&orphan).unwrap();
    cluster.until("it is healthy", |cluster| robustness(cluster, "data") == "healthy").await;

    cordon(&cluster, "n1", true);
    cluster.passes(600).await;
    assert_eq!(evict(&cluster, "n1"), Err(429));
    cluster.direct.delete::<Engine>(Some(NAMESPACE), "data-e-1", None).unwrap();
    cluster.until("the budget is gone", |cluster| budgets(cluster).len() == 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_was_attached_by_hand_stays_until_its_node_is_cordoned_if_that_is_set() {
    let cluster = with_nodes(&["n1", "n2"]).await;
    add_volume(&cluster, "spare", 2, None);
    cluster.passes(5).await;
    let mut tickets: VolumeAttachment = cluster.get(NAMESPACE, "spare").unwrap();
    tickets.spec.as_mut().unwrap().attachment_tickets =
        Some(serde_json::from_value(json!({"ui": {"id": "ui", "type": "longhorn-api", "nodeID": "n1"}})).unwrap());
    cluster.direct.update(&tickets).unwrap();
    cluster.until("it is attached", |cluster| volume(cluster, "spare").0 == "attached").await;
    cordon(&cluster, "n1", true);
    cluster.passes(60).await;
    assert_eq!(volume(&cluster, "spare").0, "attached");

    let name = "detach-manually-attached-volumes-when-cordoned";
    cluster.create::<Setting>(of_longhorn("Setting", name, json!({"value": "true"})));
    cluster.until("it is detached", |cluster| volume(cluster, "spare").0 == "detached").await;
}
