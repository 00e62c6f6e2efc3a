//! A person's word: start, pause, resume, retry.

use serde_json::json;

use super::super::verbs::{self, Refusal};
use super::super::*;
use super::{NEW, OLD, Scene, pods, settled};

impl Scene {
    fn said(&mut self, word: impl FnOnce(&View<'_>) -> Result<Write, Refusal>) -> Result<(), String> {
        let write = word(&self.view(None)).map_err(|refusal| refusal.to_string())?;
        self.perform(&write);
        Ok(())
    }
}

#[test]
fn a_start_asks_for_the_newest_version_that_begins_so_or_for_one_in_full() {
    for (to, hint) in
        [("v1.16", json!("v1.16")), ("1.16.7", json!("v1.16.7")), (NEW, Value::Null), (&NEW[1..], Value::Null)]
    {
        let mut scene = settled();
        scene.said(|view| verbs::start(view, to)).unwrap();
        let asked = &scene.tkc["spec"]["distribution"];
        assert_eq!((&asked["fullVersion"], &asked["version"]), (&json!(NEW), &hint), "{to}");
        assert!(scene.goes_on().contains(&"begin the update of a control plane"));
    }
}

#[test]
fn a_start_is_refused_before_anything_is_written_by_the_rules_of_the_controller() {
    let mut scene = settled();
    let said = |scene: &mut Scene, to: &str| scene.said(|view| verbs::start(view, to)).unwrap_err();
    assert_eq!(
        said(&mut scene, "v1.17"),
        "spec.distribution.version is v1.17, and no image is of a version like it; choose one of: kubectl get virtualmachineimages"
    );
    assert_eq!(
        said(&mut scene, OLD),
        format!("TanzuKubernetesCluster/default/my-tkc asks for {OLD} already: there is nothing to start")
    );
    let mut newer = settled().asks_for(NEW).control_plane_is_new();
    newer.tkc["status"]["version"] = json!(NEW);
    assert!(said(&mut newer, OLD).contains("which is lower than"), "{}", said(&mut newer, OLD));
    scene.tkc["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:00Z");
    assert_eq!(said(&mut scene, NEW), "TanzuKubernetesCluster/default/my-tkc is being deleted");
}

#[test]
fn a_paused_cluster_begins_nothing_until_it_is_resumed() {
    let mut scene = settled().asks_for(NEW);
    scene.said(verbs::pause).unwrap();

    assert_eq!(scene.goes_on(), ["publish how far a cluster is"]);
    assert!(scene.reasons().contains(&Reason::ClusterPaused));
    assert_eq!(scene.said(verbs::pause).unwrap_err(), "TanzuKubernetesCluster/default/my-tkc is paused already");

    scene.said(verbs::resume).unwrap();
    assert_eq!(scene.said(verbs::resume).unwrap_err(), "TanzuKubernetesCluster/default/my-tkc is not paused");
    assert!(scene.goes_on().contains(&"begin the update of a control plane"));
}

#[test]
fn workers_of_a_paused_cluster_stay_where_they_are_and_go_on_when_it_is_resumed() {
    let mut scene = settled().asks_for(NEW).control_plane_is_new();
    scene.goes_on();
    scene.rolls();
    scene.said(verbs::pause).unwrap();

    assert!(scene.goes_on().contains(&"hold the workers of a paused cluster"));
    assert_eq!(scene.deployment()["spec"]["paused"], true);
    scene.passes(60);
    scene.goes_on();
    assert_eq!(scene.reasons(), [Reason::ClusterPaused], "no time runs against them");

    scene.said(verbs::resume).unwrap();
    assert!(scene.goes_on().contains(&"let workers go on"));
    assert_eq!(scene.deployment()["spec"]["paused"], Value::Null);
    assert_eq!(scene.deployment()["metadata"]["annotations"]["drover.dev/held"], Value::Null);
}

#[test]
fn a_retry_takes_away_the_job_that_has_failed() {
    let mut scene = settled().asks_for(NEW);
    scene.goes_on();
    scene.goes_on();
    let none = verbs::retry(&scene.view(None)).unwrap_err();
    assert_eq!(none.to_string(), "nothing of TanzuKubernetesCluster/default/my-tkc has failed");
    scene.job_ends("Failed");
    scene.goes_on();
    assert_eq!(scene.phase(), "updateFailed");

    let writes = verbs::retry(&scene.view(None)).unwrap();
    writes.iter().for_each(|write| scene.perform(write));

    assert!(scene.goes_on().contains(&"begin the update of a control plane"));
}

#[test]
fn a_retry_takes_away_the_mark_of_workers_that_got_nowhere() {
    let mut scene = settled().asks_for(NEW).control_plane_is_new();
    scene.goes_on();
    scene.rolls();
    scene.goes_on();
    scene.passes(15);
    assert!(scene.goes_on().contains(&"halt a rollout of workers that gets nowhere"));

    let writes = verbs::retry(&scene.view(None)).unwrap();
    writes.iter().for_each(|write| scene.perform(write));

    assert!(scene.goes_on().contains(&"let workers go on"));
}

#[test]
fn a_retry_takes_away_a_job_that_has_failed_before_that_is_told_and_one_that_is_told_to_have() {
    let begun = || {
        let mut scene = settled().asks_for(NEW);
        scene.goes_on();
        scene.goes_on();
        scene
    };
    let retried = |scene: &Scene| {
        let writes = verbs::retry(&scene.view(None)).map_err(|refusal| refusal.to_string())?;
        Ok::<_, String>(writes.iter().map(|write| (write.purpose, write.object.kind.clone())).collect::<Vec<_>>())
    };
    let job = Ok(vec![("let the control plane be tried again", "Job".to_owned())]);
    let mut failed = begun();
    failed.job_ends("Failed");
    assert_eq!(retried(&failed), job);

    let mut idle = begun();
    idle.job_ends("Complete");
    assert!(retried(&idle).is_err());
    idle.goes_on();
    idle.passes(2);
    idle.goes_on();
    assert_eq!(idle.reasons()[0], Reason::ControlPlaneUpdateFailed);
    assert_eq!(retried(&idle), job);
}

#[test]
fn a_retry_takes_away_a_job_whose_pod_never_started() {
    let mut scene = settled().asks_for(NEW);
    scene.goes_on();
    scene.goes_on();
    pods::pod(&mut scene, "pod-1", pods::unscheduled());
    scene.goes_on();
    scene.passes(16);
    scene.goes_on();
    assert_eq!(scene.phase(), "updateFailed");
    let wait = scene.decide().waits.remove(0);
    assert!(wait.sentence.contains("Pod/vmware-system-tkg/pod-1"), "{}", wait.sentence);
    assert!(wait.remedy.unwrap().ends_with("drover upgrade retry tkc/default/my-tkc"));

    let writes = verbs::retry(&scene.view(None)).unwrap();

    assert_eq!((writes.len(), writes[0].object.kind.as_str()), (1, "Job"));
    writes.iter().for_each(|write| scene.perform(write));
    assert!(scene.goes_on().contains(&"begin the update of a control plane"));
}
