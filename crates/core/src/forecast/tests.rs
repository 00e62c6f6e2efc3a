use serde_json::{Value, json};

use super::*;

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": "2", "pods": "10"}, "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn pod(name: &str, node: &str, cpu: &str) -> Value {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r", "controller": true}]);
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {"app": "web"}, "ownerReferences": owner},
        "spec": {"nodeName": node, "containers": [{"name": "web", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn budget(min: i64, expected: i64, healthy: i64) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"minAvailable": min, "selector": {"matchLabels": {"app": "web"}}},
        "status": {"expectedPods": expected, "desiredHealthy": min, "currentHealthy": healthy,
            "disruptionsAllowed": (healthy - min).max(0)}})
}

fn drains(objects: &[Value]) -> Forecast {
    let mut cluster = Cluster::new("2026-01-01T12:00:00Z".parse().unwrap());
    objects.iter().for_each(|object| cluster.take(object.to_string().as_bytes()));
    assert_eq!(cluster.unseen, []);
    forecast(&cluster, cluster.nodes.named("n1").unwrap(), Rules::default())
}

#[test]
fn pods_that_can_be_spared_let_a_node_be_drained_now() {
    let forecast = drains(&[node("n1"), node("n2"), pod("a", "n1", "1"), pod("b", "n2", "1"), budget(1, 2, 2)]);
    assert_eq!((forecast.drains, forecast.blockers), (Verdict::Now, vec![]));
}

#[test]
fn a_budget_that_wants_all_pods_never_lets_a_node_go() {
    let forecast = drains(&[node("n1"), node("n2"), pod("a", "n1", "1"), pod("b", "n2", "1"), budget(2, 2, 2)]);
    assert_eq!(forecast.drains, Verdict::Never);
    assert_eq!(forecast.blockers[0].object.to_string(), "PodDisruptionBudget/shop/web");
}

#[test]
fn a_budget_with_an_unhealthy_pod_lets_the_node_go_later() {
    let mut sick = pod("b", "n2", "1");
    sick["status"]["conditions"][0]["status"] = json!("False");
    let forecast = drains(&[node("n1"), node("n2"), pod("a", "n1", "1"), sick, budget(1, 2, 1)]);
    assert_eq!(forecast.drains, Verdict::Later);
}

#[test]
fn pods_that_fit_nowhere_else_use_up_their_budget() {
    let full = [node("n1"), node("n2"), pod("a", "n1", "1"), pod("b", "n1", "1"), pod("c", "n2", "2"), budget(2, 3, 3)];
    let forecast = drains(&full);
    assert_eq!(forecast.drains, Verdict::Never);
    assert_eq!(forecast.stranded.len(), 2);
}

#[test]
fn a_pod_that_fits_nowhere_else_and_that_nobody_protects_waits_for_its_node() {
    let forecast = drains(&[node("n1"), node("n2"), pod("a", "n1", "2"), pod("c", "n2", "1")]);
    assert_eq!(forecast.drains, Verdict::Now);
    assert_eq!(forecast.stranded.iter().map(ToString::to_string).collect::<Vec<_>>(), ["Pod/shop/a"]);
}

#[test]
fn a_pod_without_a_controller_goes_only_by_force() {
    let mut alone = pod("a", "n1", "1");
    alone["metadata"]["ownerReferences"] = json!([]);
    assert_eq!(drains(&[node("n1"), alone]).drains, Verdict::Never);
}
