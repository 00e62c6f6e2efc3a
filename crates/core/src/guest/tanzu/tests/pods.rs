//! What the pods of a Job tell of it.

use serde_json::{Value, json};

use super::super::*;
use super::{NEW, Scene, settled};

/// A Job is at work.
fn updating() -> Scene {
    let mut scene = settled().asks_for(NEW);
    scene.goes_on();
    scene.goes_on();
    scene
}

pub fn pod(scene: &mut Scene, name: &str, status: Value) {
    let owner = json!([{ "kind": "Job", "uid": scene.job()["metadata"]["uid"] }]);
    let metadata = json!({
        "name": name, "namespace": "vmware-system-tkg", "ownerReferences": owner, "creationTimestamp": format!("2026-01-01T12:00:0{}Z", &name[4..]),
    });
    scene.put(Collection::Pods, json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status }));
}

/// The status of a pod that no node takes.
pub fn unscheduled() -> Value {
    let condition = json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available" });
    json!({ "phase": "Pending", "conditions": [condition] })
}

fn ended(end: Value) -> Value {
    json!({ "phase": "Failed", "containerStatuses": [{ "name": "upgrade", "state": { "terminated": end } }] })
}

#[test]
fn the_last_words_of_a_failed_jobs_last_pod_are_said_of_the_cluster() {
    let mut scene = updating();
    pod(&mut scene, "pod-1", ended(json!({ "reason": "Error", "message": "something else" })));
    pod(
        &mut scene,
        "pod-2",
        ended(json!({ "reason": "Error", "message": "Machine/default/cp-1 has failed:\n no quota" })),
    );
    scene.job_ends("Failed");

    let wait = scene.decide().waits.remove(0);

    assert_eq!(wait.reason, Reason::ControlPlaneUpdateFailed);
    assert!(wait.sentence.ends_with("has failed: Machine/default/cp-1 has failed: no quota"), "{}", wait.sentence);
    scene.goes_on();
    let conditions = scene.tkc["status"]["conditions"].as_array().unwrap().clone();
    let ready = conditions.iter().find(|one| one["type"] == "ControlPlaneReady").unwrap();
    assert!(text(&ready["message"]).contains("no quota"));
}

#[test]
fn who_leaves_no_words_is_told_of_by_the_kubelet_or_by_what_was_noted_on_a_machine() {
    let mut scene = updating();
    pod(&mut scene, "pod-1", ended(json!({ "reason": "OOMKilled" })));
    scene.job_ends("Failed");
    assert!(scene.decide().waits[0].sentence.ends_with("Pod/vmware-system-tkg/pod-1 was ended: OOMKilled"));

    let mut scene = updating();
    scene.change(Collection::Machines, "cp-1", |one| {
        one["metadata"]["annotations"]["drover.dev/failed"] = json!("it does not run yet");
    });
    pod(&mut scene, "pod-1", ended(json!({ "reason": "Error" })));
    scene.job_ends("Failed");
    assert!(scene.decide().waits[0].sentence.ends_with("Machine/default/cp-1: it does not run yet"));
}

#[test]
fn a_pod_that_does_not_start_is_named_and_halts_the_cluster_after_a_while_until_it_does() {
    let mut scene = updating();
    pod(&mut scene, "pod-1", unscheduled());

    let wait = scene.decide().waits.remove(0);
    assert_eq!((wait.reason, wait.subject.name.as_str()), (Reason::JobNotStarted, "pod-1"));
    assert!(wait.sentence.ends_with("does not start: 0/3 nodes are available"), "{}", wait.sentence);
    assert!(wait.remedy.unwrap().contains("--guest-job-node-selector"));
    let waiting =
        json!({ "waiting": { "reason": "ImagePullBackOff", "message": "Back-off pulling image \"drover\"" } });
    let unpulled = json!({ "phase": "Pending", "containerStatuses": [{ "name": "upgrade", "state": waiting }] });
    pod(&mut scene, "pod-1", unpulled);
    assert!(scene.decide().waits.remove(0).remedy.unwrap().contains("--job-image"));
    pod(&mut scene, "pod-1", unscheduled());
    scene.goes_on();
    assert_eq!(scene.phase(), "updating");

    scene.passes(16);
    assert_eq!(scene.reasons()[0], Reason::ControlPlaneUpdateFailed);
    scene.goes_on();
    assert_eq!(scene.phase(), "updateFailed");
    assert_eq!(scene.reasons()[0], Reason::ControlPlaneUpdateFailed, "it stays so");

    pod(&mut scene, "pod-1", json!({ "phase": "Running" }));
    assert_eq!(scene.reasons()[0], Reason::ControlPlaneUpdating);
    scene.goes_on();
    assert_eq!(scene.phase(), "updating");
}

#[test]
fn a_job_without_a_pod_is_named_after_a_while_and_halts_the_cluster_when_none_comes() {
    let mut scene = updating();
    assert_eq!(scene.reasons()[0], Reason::ControlPlaneUpdating, "a pod comes a moment later");
    scene.goes_on();
    scene.passes(2);

    let wait = scene.decide().waits.remove(0);
    assert_eq!((wait.reason, wait.subject.kind.as_str()), (Reason::JobNotStarted, "Job"));
    assert!(wait.sentence.ends_with("has no pod: nobody is at work on the control plane"), "{}", wait.sentence);
    assert!(wait.remedy.unwrap().contains("kubectl describe -n vmware-system-tkg job update-"));
    scene.goes_on();
    assert_eq!(scene.phase(), "updating");
    assert_eq!(scene.reasons()[0], Reason::JobNotStarted, "it is said until a pod comes");

    scene.passes(16);
    scene.goes_on();
    assert_eq!(scene.phase(), "updateFailed");

    pod(&mut scene, "pod-1", json!({ "phase": "Running" }));
    assert_eq!(scene.reasons()[0], Reason::ControlPlaneUpdating);
    scene.goes_on();
    assert_eq!(scene.phase(), "updating");
}

#[test]
fn a_job_that_counts_a_pod_is_believed_and_one_that_is_suspended_is_called_so() {
    let mut scene = updating();
    let mut job = scene.job().clone();
    job["status"]["active"] = json!(1);
    scene.put(Collection::Jobs, job.clone());
    scene.goes_on();
    scene.passes(2);
    assert_eq!(scene.reasons()[0], Reason::ControlPlaneUpdating, "pods may be for others to read");

    job["status"]["active"] = json!(0);
    job["spec"]["suspend"] = json!(true);
    scene.put(Collection::Jobs, job);
    scene.goes_on();
    scene.passes(2);
    assert!(scene.decide().waits[0].sentence.contains(" is suspended: "));
}

#[test]
fn an_image_that_cannot_be_had_is_named_and_a_container_that_is_about_to_start_is_not() {
    let waiting = |reason: &str| json!({ "phase": "Pending", "containerStatuses": [{ "name": "upgrade", "state": { "waiting": { "reason": reason, "message": "drover:1" } } }] });
    let mut scene = updating();
    pod(&mut scene, "pod-1", waiting("ContainerCreating"));
    assert_eq!(scene.reasons()[0], Reason::ControlPlaneUpdating);
    pod(&mut scene, "pod-1", waiting("ImagePullBackOff"));
    assert!(scene.decide().waits[0].sentence.ends_with("does not start: ImagePullBackOff: drover:1"));
}

#[test]
fn where_jobs_run_is_the_installations_choice() {
    let mut scene = settled().asks_for(NEW);
    scene.settings.node_selector = Some([("pool".to_owned(), "tools".to_owned())].into());
    scene.goes_on();
    scene.goes_on();

    let pod = &scene.job()["spec"]["template"]["spec"];
    assert_eq!((&pod["nodeSelector"], &pod["affinity"]), (&json!({ "pool": "tools" }), &Value::Null));
}

#[test]
fn where_nodes_carry_the_label_of_the_original_its_jobs_select_by_it_as_they_did() {
    let mut scene = settled().asks_for(NEW);
    let labels = json!({ "node-role.kubernetes.io/master": "" });
    scene.put(Collection::Nodes, json!({ "metadata": { "name": "supervisor-1", "labels": labels } }));
    scene.goes_on();
    scene.goes_on();

    let pod = &scene.job()["spec"]["template"]["spec"];
    assert_eq!((&pod["nodeSelector"], &pod["affinity"]), (&labels, &Value::Null));
}

#[test]
fn another_job_waits_until_the_pod_of_one_that_somebody_deleted_has_ended() {
    let mut scene = updating();
    let job = text(&scene.job()["metadata"]["name"]).to_owned();
    let mut at_work = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "update-1", "namespace": "vmware-system-tkg", "ownerReferences": [{ "kind": "Job", "uid": "gone" }],
            "labels": { "cluster.x-k8s.io/cluster-name": "my-tkc" },
        },
        "spec": { "containers": [{ "name": "upgrade", "args": ["--cluster-namespace=default"] }] },
        "status": { "phase": "Running" },
    });
    scene.put(Collection::Pods, at_work.clone());
    scene.system.forget(Collection::Jobs, &job);

    assert!(!scene.goes_on().contains(&"begin the update of a control plane"));
    let wait = scene.decide().waits.remove(0);
    assert_eq!(wait.reason, Reason::ControlPlaneUpdating);
    assert_eq!(wait.sentence, "Pod/vmware-system-tkg/update-1, whose Job is gone, has not ended yet");

    let mut elsewhere = at_work.clone();
    elsewhere["metadata"]["name"] = json!("update-2");
    elsewhere["spec"]["containers"][0]["args"] = json!(["--cluster-namespace=another"]);
    scene.put(Collection::Pods, elsewhere);
    at_work["status"]["phase"] = json!("Failed");
    scene.put(Collection::Pods, at_work);
    assert!(scene.goes_on().contains(&"begin the update of a control plane"));
}

#[test]
fn the_pod_of_a_job_that_is_gone_halts_the_cluster_if_it_does_not_end_until_it_is_gone() {
    let mut scene = updating();
    let job = text(&scene.job()["metadata"]["name"]).to_owned();
    let mut left = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "update-1", "namespace": "vmware-system-tkg", "ownerReferences": [{ "kind": "Job", "uid": "gone" }],
            "labels": { "cluster.x-k8s.io/cluster-name": "my-tkc" },
        },
        "spec": { "containers": [{ "name": "upgrade", "args": ["--cluster-namespace=default"] }] },
        "status": { "phase": "Running" },
    });
    scene.put(Collection::Pods, left.clone());
    scene.system.forget(Collection::Jobs, &job);
    scene.goes_on();
    scene.passes(60);
    assert_eq!(scene.reasons()[0], Reason::ControlPlaneUpdating, "one that works on may take its time");

    left["metadata"]["deletionTimestamp"] = json!(scene.now.to_string());
    scene.put(Collection::Pods, left);
    scene.goes_on();
    assert!(scene.decide().waits[0].deadline.is_some());
    scene.passes(15);
    scene.goes_on();
    assert_eq!(scene.phase(), "updateFailed");
    assert!(scene.decide().waits[0].remedy.as_ref().unwrap().contains("--force"));

    scene.system.forget(Collection::Pods, "update-1");
    assert!(scene.goes_on().contains(&"begin the update of a control plane"));
}
