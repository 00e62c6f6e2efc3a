use serde_json::{Value, json};

use super::*;

fn cluster(objects: &[Value]) -> Cluster {
    let mut cluster = Cluster::new("2026-01-01T12:00:00Z".parse().unwrap());
    objects.iter().for_each(|object| cluster.take(object.to_string().as_bytes()));
    cluster
}

#[test]
fn objects_go_to_the_shelf_of_their_kind() {
    let cluster = cluster(&[
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
            "status": {"allocatable": {"cpu": "2", "memory": "4Gi"}, "conditions": [{"type": "Ready", "status": "True"}]}}),
        json!({"apiVersion": "upgrade.cattle.io/v1", "kind": "Plan", "metadata": {"name": "up", "namespace": "ns"}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "shop"}, "spec": {"nodeName": "n1"}}),
        json!({"apiVersion": "example.com/v1", "kind": "Node", "metadata": {"name": "other"}}),
    ]);

    assert!(cluster.nodes.named("n1").unwrap().is_ready());
    assert_eq!(cluster.nodes.len(), 1);
    assert_eq!(cluster.pods_on("n1").count(), 1);
    assert!(cluster.plan("ns", "up").unwrap().spec.is_err());
    assert_eq!(cluster.unseen, []);
}

#[test]
fn what_was_worked_out_is_worked_out_anew_when_an_object_comes_or_goes() {
    let pod = |name: &str| {
        let container = json!({"name": "main", "resources": {"requests": {"cpu": "1"}}});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop"},
            "spec": {"nodeName": "n1", "containers": [container]}})
    };
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}}});
    let mut cluster = cluster(&[node, pod("a")]);
    let free = |cluster: &Cluster| cluster.free()["n1"]["cpu"].scaled(1);
    assert_eq!(free(&cluster), 3);

    cluster.take(pod("b").to_string().as_bytes());
    assert_eq!(free(&cluster), 2);
    cluster.forget("Pod", "shop", "a");
    assert_eq!(free(&cluster), 3);
}

#[test]
fn an_item_is_what_its_list_is_of_unless_it_says_so_itself() {
    let mut cluster = cluster(&[]);
    cluster.take_item("v1", "Node", br#"{"metadata":{"name":"n1"}}"#);
    let plan = br#"{"apiVersion":"upgrade.cattle.io/v1","kind":"Plan","metadata":{"name":"up","namespace":"ns"}}"#;
    cluster.take_item("upgrade.cattle.io/v1", "Plan", plan);

    assert!(cluster.nodes.named("n1").is_some());
    assert!(cluster.plan("ns", "up").is_some());
    assert_eq!(cluster.unseen, []);
}

#[test]
fn a_budget_without_requirements_covers_all_pods_or_none_by_its_version() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "shop"}});
    let budget = json!({"metadata": {"name": "all", "namespace": "shop"}, "spec": {"selector": {}}}).to_string();
    for (version, covers) in [("policy/v1", 1), ("policy/v1beta1", 0)] {
        let mut cluster = cluster(std::slice::from_ref(&pod));
        cluster.take_item(version, "PodDisruptionBudget", budget.as_bytes());
        let pod = cluster.pods.get("shop", "a").unwrap();
        assert_eq!(cluster.budgets_of(pod).count(), covers, "{version}");
    }
}

#[test]
fn an_object_that_cannot_be_read_counts_as_unseen() {
    let cluster = cluster(&[
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "shop"}, "spec": {"containers": 3}}),
        json!([1, 2]),
    ]);

    assert_eq!(cluster.pods.len(), 0);
    assert_eq!(cluster.unseen.len(), 2);
    assert_eq!(cluster.unseen[0].object, Some(ObjectRef::new("Pod", "shop", "a")));
}

#[test]
fn a_pod_is_traced_to_whoever_made_its_maker() {
    let owner = |kind: &str, name: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "1", "controller": true}]);
    let cluster = cluster(&[
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": "web-1", "namespace": "shop", "ownerReferences": owner("Deployment", "web")}}),
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web-1-a", "namespace": "shop", "ownerReferences": owner("ReplicaSet", "web-1")}}),
    ]);

    let pod = cluster.pods.get("shop", "web-1-a").unwrap();
    assert_eq!(cluster.root_owner(&pod.metadata), Some(ObjectRef::new("Deployment", "shop", "web")));
}

#[test]
fn a_pod_needs_its_containers_together_or_its_largest_init_container() {
    let container = |name: &str, cpu: &str| json!({"name": name, "resources": {"requests": {"cpu": cpu}}});
    let mut sidecar = container("proxy", "50m");
    sidecar["restartPolicy"] = json!("Always");
    let cluster =
        cluster(&[json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "x"}, "spec": {
            "containers": [container("a", "100m")], "initContainers": [sidecar, container("prepare", "120m")],
            "overhead": {"cpu": "10m"},
        }})]);

    assert_eq!(cluster.pods.get("x", "a").unwrap().requests()["cpu"].shown("cpu"), "180m");
}
