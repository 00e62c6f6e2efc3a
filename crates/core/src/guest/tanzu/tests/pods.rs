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

fn pod(scene: &mut Scene, name: &str, status: Value) {
    let owner = json!([{ "kind": "Job", "uid": scene.job()["metadata"]["uid"] }]);
    let metadata = json!({
        "name": name, "namespace": "vmware-system-tkg", "ownerReferences": owner, "creationTimestamp": format!("2026-01-01T12:00:0{}Z", &name[4..]),
    });
    scene.put(Collection::Pods, json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status }));
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
    let condition = json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available" });
    pod(&mut scene, "pod-1", json!({ "phase": "Pending", "conditions": [condition] }));

    let wait = scene.decide().waits.remove(0);
    assert_eq!((wait.reason, wait.subject.name.as_str()), (Reason::JobNotStarted, "pod-1"));
    assert!(wait.sentence.ends_with("does not start: 0/3 nodes are available"), "{}", wait.sentence);
    assert!(wait.remedy.unwrap().contains("--guest-job-node-selector"));
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
