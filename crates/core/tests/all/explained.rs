//! What is said of single objects, where no captured cluster shows the difference: what has just begun is no alarm, what has ended
//! explains nothing, and nothing is told twice.

use std::path::Path;

use drover_core::cluster::{Cluster, Collection, ObjectRef};
use drover_core::why::{Explanation, Unexplained, explain, explain_all};
use serde_json::{Value, json};

use super::captured::{cluster_of, documents};

const NOON: &str = "2026-01-01T12:00:00Z";

fn cluster(objects: &[Value]) -> Cluster {
    let mut cluster = Cluster::new(NOON.parse().unwrap());
    objects.iter().for_each(|object| cluster.take(object.to_string().as_bytes()));
    cluster
}

fn why(objects: &[Value], object: &str) -> Explanation {
    explain(&cluster(objects), &ObjectRef::named(object).unwrap()).unwrap()
}

fn ready(status: &str) -> Value {
    json!([{ "type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T06:00:00Z" }])
}

fn node(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
        "status": { "conditions": ready("True"), "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "10" } } })
}

/// A pod with one container in this state, which has been there since `began`.
fn pod(name: &str, began: &str, state: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "shop", "uid": name, "creationTimestamp": began },
        "spec": { "nodeName": "n1", "containers": [{ "name": "main", "image": "shop:1" }] },
        "status": { "phase": "Running", "startTime": began, "conditions": ready("False"),
            "containerStatuses": [{ "name": "main", "ready": false, "state": state }] } })
}

fn crashes(name: &str) -> Value {
    let mut pod = pod(name, "2026-01-01T08:00:00Z", json!({ "waiting": { "reason": "CrashLoopBackOff" } }));
    pod["status"]["containerStatuses"][0]["lastState"] = json!({ "terminated": { "exitCode": 3, "reason": "Error" } });
    pod
}

fn told(all: &[Explanation]) -> Vec<String> {
    all.iter().map(|one| one.object.to_string()).collect()
}

#[test]
fn every_pod_that_does_not_run_is_told_and_none_that_runs() {
    let mut sound = pod("sound", "2026-01-01T08:00:00Z", json!({ "running": {} }));
    sound["status"]["conditions"] = ready("True");
    let all = explain_all(&cluster(&[node("n1"), crashes("a"), crashes("b"), sound]));
    assert_eq!(told(&all), ["Pod/shop/a", "Pod/shop/b"]);
}

#[test]
fn what_is_wrong_with_something_larger_is_not_told_again_of_its_parts() {
    // A cordoned node that waits for a pod names it; the pod is not named again.
    let budget = json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "a", "namespace": "shop" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "a" } } },
        "status": { "expectedPods": 1, "desiredHealthy": 1, "currentHealthy": 0, "disruptionsAllowed": 0 } });
    let mut held = crashes("a");
    held["metadata"]["labels"] = json!({ "app": "a" });
    held["metadata"]["ownerReferences"] =
        json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a", "uid": "r", "controller": true }]);
    let mut cordoned = node("n1");
    cordoned["spec"] = json!({ "unschedulable": true });
    let all = explain_all(&cluster(&[cordoned, held, budget, crashes("z")]));
    assert_eq!(told(&all).first().map(String::as_str), Some("Node/n1"), "{all:?}");
    assert!(!told(&all).contains(&"Pod/shop/a".to_owned()), "{:?}", told(&all));
}

#[test]
fn every_kind_that_can_be_asked_for_is_explained_or_said_not_to_be_there() {
    for (asked, missing) in [
        ("plan/ns/a", "there is no Plan ns/a"),
        ("node/a", "there is no Node a"),
        ("pod/ns/a", "there is no Pod ns/a"),
        ("machine/ns/a", "there is no Machine ns/a"),
        ("cluster/ns/a", "there is no Cluster ns/a"),
        ("tkc/ns/a", "there is no TanzuKubernetesCluster ns/a"),
        ("upgrade/a", "there is no Upgrade harvester-system/a"),
        ("vm/ns/a", "there is no VirtualMachine ns/a"),
    ] {
        let said = explain(&cluster(&[]), &ObjectRef::named(asked).unwrap()).unwrap_err();
        assert_eq!(said.to_string(), missing);
    }
    let other = explain(&cluster(&[]), &ObjectRef::new("Service", "ns", "a"));
    assert!(matches!(other, Err(Unexplained::Kind(_))), "{other:?}");
}

#[test]
fn a_machine_is_explained_by_itself() {
    let machine = json!({ "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
        "metadata": { "name": "m", "namespace": "guests", "creationTimestamp": "2026-01-01T08:00:00Z" },
        "spec": { "clusterName": "g" }, "status": { "phase": "Provisioning" } });
    let said = why(&[machine], "machine/guests/m");
    assert_eq!(said.object.to_string(), "Machine/guests/m");
    assert!(!said.complete && !said.causes.is_empty(), "{said:?}");
}

#[test]
fn a_container_that_runs_may_take_five_minutes_to_be_ready() {
    let running = |began: &str| {
        let said = why(&[node("n1"), pod("a", began, json!({ "running": { "startedAt": began } }))], "pod/shop/a");
        (said.causes[0].statement.clone(), said.is_alarming())
    };
    let runs = "container main of Pod shop/a runs and is not ready".to_owned();
    assert_eq!(running("2026-01-01T11:58:00Z"), (runs.clone(), false));
    assert_eq!(running("2026-01-01T11:00:00Z"), (runs, true));
}

#[test]
fn an_init_container_that_is_at_work_is_no_alarm_however_long_it_takes() {
    let mut pod = pod("a", "2026-01-01T08:00:00Z", json!({ "waiting": { "reason": "PodInitializing" } }));
    pod["spec"]["initContainers"] = json!([{ "name": "prepare", "image": "shop:1" }]);
    pod["status"]["initContainerStatuses"] = json!([{ "name": "prepare", "ready": false, "state": { "running": {} } }]);
    let said = why(&[node("n1"), pod], "pod/shop/a");
    assert_eq!(said.causes[0].statement, "init container prepare of Pod shop/a is at work");
    assert!(!said.is_alarming());
}

fn vm(phase: &str) -> Vec<Value> {
    let labels = json!({ "kubevirt.io/created-by": "u" });
    let owner = json!([{ "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "db", "uid": "u", "controller": true }]);
    // The pod of an earlier start comes first by its name; it has ended, and says nothing of the VM.
    let mut old = pod("virt-launcher-db-0", "2026-01-01T02:00:00Z", json!({ "terminated": { "exitCode": 0 } }));
    old["status"]["phase"] = json!("Succeeded");
    let mut own = crashes("virt-launcher-db-1");
    if phase == "Running" {
        own["status"]["conditions"] = ready("True");
    }
    for pod in [&mut old, &mut own] {
        pod["metadata"]["labels"] = labels.clone();
        pod["metadata"]["ownerReferences"] = owner.clone();
    }
    let instance = json!({ "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": { "name": "db", "namespace": "shop", "uid": "u" }, "status": { "phase": phase, "nodeName": "n1" } });
    let machine = json!({ "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
        "metadata": { "name": "db", "namespace": "shop" }, "status": { "printableStatus": phase } });
    vec![node("n1"), old, own, instance, machine]
}

#[test]
fn a_vm_is_held_up_by_the_pod_that_it_has_now() {
    let said = why(&vm("Scheduled"), "vm/shop/db");
    assert_eq!(said.causes[0].object.to_string(), "Pod/shop/virt-launcher-db-1");
}

#[test]
fn a_migration_is_explained_while_it_goes_on_and_when_it_has_failed_but_not_when_it_is_done() {
    let explained = |phase: &str| {
        let migration = json!({ "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceMigration",
            "metadata": { "name": "move", "namespace": "shop", "creationTimestamp": "2026-01-01T11:59:00Z" },
            "spec": { "vmiName": "db" }, "status": { "phase": phase } });
        let object = ObjectRef::new("VirtualMachineInstanceMigration", "shop", "move");
        let objects = [vm("Running"), vec![migration]].concat();
        let said = explain(&cluster(&objects), &object).unwrap();
        said.causes.first().map(|cause| cause.statement.clone()).unwrap_or_default()
    };
    assert_eq!(explained("Running"), "VM shop/db is being migrated");
    assert_eq!(explained("Failed"), "VM shop/db is not away yet: its last migration failed");
    assert_eq!(explained("Succeeded"), "");
}

fn volume(failed_at: &str) -> Vec<Value> {
    let mut host = node("n1");
    host["status"]["conditions"][0]["lastTransitionTime"] = json!("2025-12-01T00:00:00Z");
    let volume = json!({ "apiVersion": "longhorn.io/v1beta2", "kind": "Volume",
        "metadata": { "name": "pvc-1", "namespace": "longhorn-system" }, "spec": { "numberOfReplicas": 1 },
        "status": { "robustness": "degraded", "state": "attached" } });
    let replica = json!({ "apiVersion": "longhorn.io/v1beta2", "kind": "Replica",
        "metadata": { "name": "pvc-1-r", "namespace": "longhorn-system" },
        "spec": { "volumeName": "pvc-1", "nodeID": "n1", "failedAt": failed_at } });
    vec![host, volume, replica]
}

#[test]
fn a_replica_that_was_lost_just_now_is_left_to_longhorn_and_one_that_is_long_gone_is_not() {
    let said = |failed_at: &str| {
        let object = ObjectRef::new("Volume.longhorn.io", "longhorn-system", "pvc-1");
        let said = explain(&cluster(&volume(failed_at)), &object).unwrap();
        (said.causes[0].statement.contains("has yet to rebuild"), said.is_alarming())
    };
    assert_eq!(said("2026-01-01T11:58:00Z"), (true, false));
    assert_eq!(said("2026-01-01T10:00:00Z"), (false, true));
}

fn plan(selector: Value) -> Value {
    json!({ "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan", "metadata": { "name": "up", "namespace": "ns" },
        "spec": { "version": "v2", "concurrency": 1, "nodeSelector": selector, "upgrade": { "image": "up" } } })
}

#[test]
fn a_plan_that_selects_none_of_the_nodes_says_so_unless_the_nodes_were_not_seen() {
    let none = plan(json!({ "matchLabels": { "disk": "ssd" } }));
    let statement = |objects: &[Value]| {
        let said = why(objects, "plan/ns/up");
        said.causes.iter().any(|cause| cause.statement.contains("matches none of"))
    };
    assert!(statement(&[none.clone(), node("n1")]));
    assert!(!statement(&[plan(json!({})), node("n1")]));
    assert!(!statement(std::slice::from_ref(&none)));
    let unread = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n2" }, "spec": 3 });
    let half = cluster(&[none, node("n1"), unread]);
    let said = explain(&half, &ObjectRef::named("plan/ns/up").unwrap()).unwrap();
    assert!(said.unseen.iter().any(|what| what.contains("n2")), "{:?}", said.unseen);
}

#[test]
fn a_node_of_which_an_upgrade_tells_all_is_not_told_again() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clusters/upgrade-node-does-not-return");
    let cluster = cluster_of(documents(&folder));
    let down = cluster.nodes.iter().filter(|node| !node.is_ready()).count();
    assert!(down > 0);
    let kinds: Vec<String> = explain_all(&cluster).into_iter().map(|one| one.object.kind).collect();
    assert!(kinds.contains(&"Upgrade".to_owned()) && !kinds.contains(&"Node".to_owned()), "{kinds:?}");
}

#[test]
fn a_guest_cluster_names_what_could_not_be_looked_at_of_its_own_kinds_alone() {
    let mut collection = Collection::new(NOON.parse().unwrap());
    let guest = json!({ "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "metadata": { "name": "web", "namespace": "team" } });
    collection.take(&guest.to_string());
    let said = explain(&collection.finish(), &ObjectRef::named("cluster/team/web").unwrap()).unwrap();
    assert!(said.unseen.contains(&"Machine: not collected".to_owned()), "{:?}", said.unseen);
    assert!(said.unseen.contains(&"MachineDeployment: not collected".to_owned()), "{:?}", said.unseen);
    assert!(!said.unseen.iter().any(|one| one.starts_with("Pod:") || one.starts_with("Node:")), "{:?}", said.unseen);
}
