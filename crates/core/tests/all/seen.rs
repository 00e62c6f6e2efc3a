//! What is kept of objects, and what is said of them before an upgrade, where no captured cluster shows the difference.

use drover_core::cluster::{Cluster, Taint};
use drover_core::preflight::{Intent, Severity, examine};
use serde_json::{Value, json};

fn cluster(objects: &[Value]) -> Cluster {
    let mut cluster = Cluster::new("2026-01-01T12:00:00Z".parse().unwrap());
    objects.iter().for_each(|object| cluster.take(object.to_string().as_bytes()));
    cluster
}

#[test]
fn only_the_taint_that_kubernetes_gives_a_cordoned_node_is_that_of_its_cordon() {
    assert!(Taint::of_cordon().is_of_cordon());
    assert!(!Taint { effect: "NoExecute".into(), ..Taint::of_cordon() }.is_of_cordon());
    assert!(!Taint { key: "dedicated".into(), ..Taint::of_cordon() }.is_of_cordon());
}

#[test]
fn an_object_that_could_not_be_read_and_is_gone_is_unseen_no_longer_and_others_stay_so() {
    let unread = |namespace: &str, name: &str| json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": namespace }, "spec": { "containers": 3 } });
    let mut cluster = cluster(&[unread("shop", "a"), unread("shop", "b"), unread("bank", "a")]);
    cluster.forget("Pod", "shop", "a");
    let left: Vec<String> = cluster.unseen.iter().filter_map(|one| Some(one.object.as_ref()?.to_string())).collect();
    assert_eq!(left, ["Pod/shop/b", "Pod/bank/a"]);
}

#[test]
fn machines_belong_to_the_deployment_that_their_label_names_or_whose_set_made_them() {
    let of = |kind: &str, name: &str, more: Value| {
        let mut object = json!({ "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": kind,
            "metadata": { "name": name, "namespace": "guests", "uid": name } });
        object["metadata"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        object
    };
    let owner = |kind: &str, name: &str| json!({ "ownerReferences": [{ "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": kind, "name": name, "uid": name, "controller": true }] });
    let label = |name: &str| json!({ "labels": { "cluster.x-k8s.io/deployment-name": name } });
    let cluster = cluster(&[
        of("MachineDeployment", "md", json!({})),
        of("MachineDeployment", "other", json!({})),
        of("MachineSet", "md-1", owner("MachineDeployment", "md")),
        of("MachineSet", "other-1", owner("MachineDeployment", "other")),
        of("Machine", "by-label", label("md")),
        of("Machine", "by-set", owner("MachineSet", "md-1")),
        of("Machine", "of-other", label("other")),
        of("Machine", "of-other-set", owner("MachineSet", "other-1")),
        of("Machine", "alone", json!({})),
    ]);
    let deployment = cluster.cluster_api.deployments.get("guests", "md").unwrap();
    let mut names: Vec<&str> =
        cluster.cluster_api.workers_of(deployment).map(|machine| machine.metadata.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["by-label", "by-set"]);
}

#[test]
fn pods_that_have_ended_or_are_ending_are_not_said_not_to_run() {
    let pod = |name: &str, phase: &str| {
        json!({ "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "namespace": "shop", "creationTimestamp": "2026-01-01T08:00:00Z" },
            "spec": { "nodeName": "n1", "containers": [{ "name": "main" }] },
            "status": { "phase": phase, "containerStatuses": [{ "name": "main", "state": { "waiting": { "reason": "CrashLoopBackOff" } } }] } })
    };
    let mut ending = pod("ending", "Pending");
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:30Z");
    let report = examine(&cluster(&[pod("crashes", "Running"), pod("done", "Succeeded"), ending]), &Intent::anything());
    let told = report.findings.iter().find(|finding| finding.sentence.contains("not running")).unwrap();
    assert!(told.sentence.starts_with("1 pod not running: shop/crashes (CrashLoopBackOff)"), "{}", told.sentence);
    let all = [Severity::Blocks, Severity::Risks, Severity::Informs];
    for severity in all {
        let expected = report.findings.iter().filter(|one| one.severity == severity && !one.accepted).count();
        assert_eq!(report.count(severity), expected);
    }
    assert_eq!(all.map(|severity| report.count(severity)).iter().sum::<usize>(), report.findings.len());
}

#[test]
fn of_long_annotations_of_others_only_the_beginning_is_kept_and_copies_are_not() {
    let long = "x".repeat(257);
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n1", "annotations": {
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "example.com/long": long, "example.com/short": "x".repeat(256), "drover.dev/long": long, "a.cattle.io/long": long,
    } } });
    let cluster = cluster(&[node]);
    let kept = &cluster.nodes.named("n1").unwrap().metadata.annotations;
    let lengths: Vec<(&str, usize)> = kept.iter().map(|(key, value)| (key.as_str(), value.len())).collect();
    assert_eq!(
        lengths,
        [("a.cattle.io/long", 257), ("drover.dev/long", 257), ("example.com/long", 32), ("example.com/short", 256)]
    );
}
