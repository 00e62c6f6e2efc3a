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

fn vm(name: &str, node: &str, migratable: &str) -> Value {
    json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"nodeSelector": {}}, "status": {"phase": "Running", "nodeName": node, "conditions": [
            {"type": "LiveMigratable", "status": migratable, "reason": "DisksNotLiveMigratable",
             "message": "cannot migrate VMI with non-shared PVCs"}]}})
}

/// The pod of a VM, with the budget that KubeVirt keeps for it.
fn vm_pod(name: &str, node: &str) -> [Value; 2] {
    let mut launcher = pod(&format!("virt-launcher-{name}"), node, "1");
    launcher["metadata"]["ownerReferences"] = json!([{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "name": name, "uid": "v", "controller": true}]);
    [launcher, budget(1, 1, 1)]
}

#[test]
fn a_vm_that_can_be_migrated_is_in_nobodys_way() {
    let [launcher, kept] = vm_pod("db", "n1");
    let forecast = drains(&[node("n1"), node("n2"), vm("db", "n1", "True"), launcher, kept]);
    assert_eq!((forecast.drains, forecast.blockers), (Verdict::Now, vec![]));
}

#[test]
fn a_vm_that_cannot_be_migrated_never_lets_its_node_go() {
    let [launcher, kept] = vm_pod("db", "n1");
    let forecast = drains(&[node("n1"), node("n2"), vm("db", "n1", "False"), launcher, kept]);
    assert_eq!(forecast.drains, Verdict::Never);
    assert_eq!(forecast.blockers.len(), 1);
    assert_eq!(forecast.blockers[0].object.to_string(), "VirtualMachineInstance/shop/db");
    assert!(forecast.blockers[0].remedy.as_ref().unwrap().contains("virtctl -n shop stop db"));
}

#[test]
fn a_vm_that_its_user_lets_be_stopped_is_in_nobodys_way() {
    for strategy in ["None", "LiveMigrateIfPossible"] {
        let mut stopped = vm("db", "n1", "False");
        stopped["spec"]["evictionStrategy"] = json!(strategy);
        assert_eq!(drains(&[node("n1"), node("n2"), stopped]).drains, Verdict::Now, "{strategy}");
    }
}

#[test]
fn a_vm_without_another_node_that_suits_it_stays_until_one_does() {
    let mut picky = vm("db", "n1", "True");
    picky["spec"]["nodeSelector"] = json!({"disk": "fast"});
    let forecast = drains(&[node("n1"), node("n2"), picky.clone()]);
    assert_eq!(forecast.drains, Verdict::Never);

    let mut away = node("n2");
    away["metadata"]["labels"]["disk"] = json!("fast");
    away["spec"] = json!({"unschedulable": true});
    let forecast = drains(&[node("n1"), away, picky]);
    assert_eq!(forecast.drains, Verdict::Later);
    assert_eq!(forecast.blockers[0].remedy.as_deref(), Some("bring Node n2 back"));
}

#[test]
fn a_vm_that_is_being_migrated_lets_its_node_go_later() {
    let migration = json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceMigration",
        "metadata": {"name": "m", "namespace": "shop"}, "spec": {"vmiName": "db"}, "status": {"phase": "Running"}});
    let forecast = drains(&[node("n1"), node("n2"), vm("db", "n1", "True"), migration]);
    assert_eq!(forecast.drains, Verdict::Later);
}

/// A volume with sound replicas on these nodes.
fn volume(wanted: i64, nodes: &[&str]) -> Vec<Value> {
    let mut objects = vec![json!({"apiVersion": "longhorn.io/v1beta2", "kind": "Volume",
        "metadata": {"name": "pvc-1", "namespace": "longhorn-system"}, "spec": {"numberOfReplicas": wanted},
        "status": {"state": "attached", "robustness": "degraded",
            "kubernetesStatus": {"namespace": "shop", "pvcName": "data"}}})];
    objects.extend(nodes.iter().map(|node| {
        json!({"apiVersion": "longhorn.io/v1beta2", "kind": "Replica",
            "metadata": {"name": format!("pvc-1-{node}"), "namespace": "longhorn-system"},
            "spec": {"volumeName": "pvc-1", "nodeID": node, "healthyAt": "2026-01-01T00:00:00Z"},
            "status": {"currentState": "running"}})
    }));
    objects
}

fn drains_with(volume: Vec<Value>) -> Forecast {
    drains(&[vec![node("n1"), node("n2")], volume].concat())
}

#[test]
fn the_last_sound_replica_of_a_volume_keeps_its_node_until_another_is_rebuilt() {
    let forecast = drains_with(volume(2, &["n1"]));
    assert_eq!(forecast.drains, Verdict::Later);
    assert_eq!(forecast.blockers[0].statement, "Node n1 holds the last sound replica of volume shop/data");
    assert_eq!(drains_with(volume(2, &["n1", "n2"])).drains, Verdict::Now);
    assert_eq!(drains_with(volume(2, &["n2"])).drains, Verdict::Now, "it is on another node");
}

#[test]
fn the_only_replica_of_a_volume_keeps_its_node_unless_longhorn_is_told_to_let_it_go() {
    let mut volume = volume(1, &["n1"]);
    assert_eq!(drains_with(volume.clone()).drains, Verdict::Never);
    volume.push(json!({"apiVersion": "longhorn.io/v1beta2", "kind": "Setting",
        "metadata": {"name": "node-drain-policy", "namespace": "longhorn-system"}, "value": "always-allow"}));
    assert_eq!(drains_with(volume).drains, Verdict::Now);
}

#[test]
fn what_has_a_single_pod_is_down_while_that_moves() {
    let deployment = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 1}});
    let forecast = drains(&[node("n1"), node("n2"), pod("a", "n1", "1"), deployment]);
    assert_eq!(forecast.drains, Verdict::Now);
    assert_eq!(forecast.interrupted.iter().map(ToString::to_string).collect::<Vec<_>>(), ["ReplicaSet/shop/web"]);
}

/// A pod that has to be spread over nodes, one more than elsewhere at most.
fn spread(name: &str, node: &str, taints: &str) -> Value {
    let mut pod = pod(name, node, "100m");
    pod["spec"]["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": taints, "labelSelector": {"matchLabels": {"app": "web"}}}]);
    pod
}

#[test]
fn a_spread_over_nodes_counts_the_one_that_is_drained_unless_it_minds_taints() {
    let of = |taints: &str| {
        let pods = [spread("a", "n1", taints), spread("b", "n2", taints), spread("c", "n3", taints)];
        drains(&[vec![node("n1"), node("n2"), node("n3"), budget(2, 3, 3)], pods.to_vec()].concat())
    };
    assert_eq!(of("Ignore").stranded.iter().map(ToString::to_string).collect::<Vec<_>>(), ["Pod/shop/a"]);
    assert_eq!(of("Honor").stranded, []);
}

#[test]
fn pods_that_their_spread_keeps_from_all_other_nodes_use_up_their_budget() {
    let pods = ["a", "d"].map(|name| spread(name, "n1", "Ignore"));
    let others = [spread("b", "n2", "Ignore"), spread("c", "n3", "Ignore")];
    let forecast =
        drains(&[vec![node("n1"), node("n2"), node("n3"), budget(3, 4, 4)], pods.to_vec(), others.to_vec()].concat());
    assert_eq!(forecast.drains, Verdict::Never);
    assert_eq!(forecast.blockers[0].object.to_string(), "PodDisruptionBudget/shop/web");
}
