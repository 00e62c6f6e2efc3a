//! Rollouts of workers that get nowhere: halted, taken back, tried again.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::super::*;
use super::{NEW, Scene, noon, settled};

fn rolling() -> Scene {
    let mut scene = settled().asks_for(NEW).control_plane_is_new();
    scene.goes_on();
    scene.rolls();
    scene.goes_on();
    scene
}

fn halts(mut scene: Scene, sentence: &str) -> Scene {
    assert_eq!(scene.goes_on().last(), Some(&"halt a rollout of workers that gets nowhere"));
    assert_eq!(scene.deployment()["spec"]["paused"], true);
    scene.goes_on();
    assert_eq!(scene.phase(), "updateFailed");
    let wait = &scene.tkc["status"]["waits"][0];
    assert_eq!(wait["reason"], "WorkersFailed");
    assert!(text(&wait["sentence"]).contains(sentence), "{wait}");
    scene
}

#[test]
fn a_worker_that_never_becomes_a_node_halts_the_rollout() {
    let mut scene = rolling();
    scene.passes(14);
    assert_eq!(scene.reasons(), [Reason::MachineProvisioning]);
    assert_eq!(scene.decide().look_again, Some(noon().checked_add(SignedDuration::from_mins(15)).unwrap()));
    scene.passes(1);

    halts(scene, "Machine/default/worker-3 is not a Node yet");
}

#[test]
fn a_worker_has_its_whole_time_and_no_more_whatever_the_clock_is_set_to() {
    for minutes in [60, -60] {
        let mut scene = rolling();
        scene.passes(1);
        scene.clock_is_set_by(minutes);
        scene.goes_on();
        assert_eq!(scene.phase(), "updating");
        scene.passes(13);
        assert_eq!(scene.goes_on(), ["publish how far a cluster is"], "how much of its time has passed");
        assert_eq!(scene.goes_on(), [""; 0]);
        scene.passes(1);

        halts(scene, "Machine/default/worker-3 is not a Node yet");
    }
}

#[test]
fn the_next_operator_goes_on_from_what_was_counted_whatever_its_clock_shows() {
    for minutes in [60, -60] {
        let mut scene = rolling();
        scene.passes(5);
        scene.goes_on();
        assert_eq!(scene.tkc["status"]["waits"][0]["waitedSeconds"], 300);
        scene.passes(4);
        scene.goes_on();

        scene.another_looks(minutes);
        let again = scene.decide().look_again.unwrap();
        assert_eq!(again.duration_since(scene.steady), SignedDuration::from_mins(5), "to tell of the next step");
        scene.goes_on();
        scene.passes(9);
        assert_eq!(scene.reasons(), [Reason::MachineProvisioning]);
        scene.goes_on();
        scene.passes(1);

        halts(scene, "Machine/default/worker-3 is not a Node yet");
    }
}

#[test]
fn a_deadline_that_is_published_follows_a_clock_that_is_set_and_stays_otherwise() {
    let mut scene = rolling();
    let deadline = |scene: &Scene| text(&scene.tkc["status"]["waits"][0]["deadline"]).to_owned();
    assert_eq!(deadline(&scene), "2026-01-01T12:15:00Z");
    scene.passes(1);
    // As clocks are that are kept right.
    scene.now = scene.now.checked_add(SignedDuration::from_secs(2)).unwrap();
    assert_eq!(scene.goes_on(), [""; 0]);

    scene.clock_is_set_by(60);
    scene.goes_on();

    assert_eq!(deadline(&scene), "2026-01-01T13:15:02Z");
}

#[test]
fn a_worker_that_says_that_it_has_failed_halts_the_rollout_at_once_with_what_it_says() {
    let mut scene = rolling();
    scene.change(Collection::Machines, "worker-3", |one| {
        one["status"] = json!({ "errorReason": "CreateError", "errorMessage": "exceeded quota" });
    });

    halts(scene, "CreateError: exceeded quota");
}

#[test]
fn a_worker_that_does_not_go_halts_the_rollout() {
    let mut scene = rolling();
    scene.change(Collection::Machines, "worker-1", |one| {
        one["metadata"]["deletionTimestamp"] = json!(noon().to_string())
    });
    scene.change(Collection::Machines, "worker-3", |one| one["status"] = json!({ "nodeRef": { "name": "worker-3" } }));
    scene.change(Collection::Sets, "new", |set| set["status"]["availableReplicas"] = json!(1));
    // By a clock that is ahead it went long ago: that counts for nothing.
    scene.passes(60);
    scene.goes_on();
    assert_eq!(scene.reasons(), [Reason::MachineDeleting]);
    scene.passes(15);

    halts(scene, "worker-1 is on its way out");
}

#[test]
fn a_node_that_is_not_ready_for_long_halts_the_rollout_and_one_that_falters_does_not() {
    let mut scene = rolling();
    scene.change(Collection::Machines, "worker-3", |one| one["status"] = json!({ "nodeRef": { "name": "worker-3" } }));
    scene.passes(30);
    scene.goes_on();
    assert_eq!(scene.reasons(), [Reason::NodeNotReady]);
    scene.passes(15);

    halts(scene, "Nodes of MachineSet/default/new are not ready");
}

#[test]
fn machines_that_are_not_even_made_halt_the_rollout() {
    let mut scene = settled().asks_for(NEW).control_plane_is_new();
    scene.goes_on();
    scene.change(Collection::Deployments, "workers", |one| one["status"]["updatedReplicas"] = json!(0));
    scene.goes_on();
    scene.passes(15);

    halts(scene, "its MachineSet is not made");
}

#[test]
fn halted_workers_go_back_to_their_last_good_templates_where_that_is_asked_for_and_stay_there() {
    let mut scene = rolling();
    scene.passes(15);
    let mut scene = halts(scene, "worker-3");
    scene.tkc["metadata"]["annotations"] = json!({ "drover.dev/on-failure": "return" });

    assert!(scene.goes_on().contains(&"take workers back to their last good templates"));
    let spec = &scene.deployment()["spec"];
    assert_eq!((&spec["paused"], &spec["template"]["spec"]["version"]), (&Value::Null, &json!("1.15.5+vmware.1")));
    scene.goes_on();
    assert_eq!(scene.phase(), "updateFailed");
    assert_eq!(scene.goes_on(), [""; 0], "what has failed is not rolled out again by itself");

    scene.change(Collection::Deployments, "workers", |one| {
        one["metadata"]["annotations"].as_object_mut().unwrap().remove("drover.dev/failed");
    });
    assert!(scene.goes_on().contains(&"point workers at other templates"));
}

#[test]
fn halted_workers_are_not_pointed_at_templates_that_somebody_has_deleted() {
    for (collection, name, kind) in [
        (Collection::MachineTemplates, "machines-1", "WCPMachineTemplate"),
        (Collection::ConfigTemplates, "joins-1", "KubeadmConfigTemplate"),
    ] {
        let mut scene = rolling();
        scene.passes(15);
        let mut scene = halts(scene, "worker-3");
        let kept = scene.own.get(collection, name).unwrap().clone();
        scene.own.forget(collection, name);
        scene.tkc["metadata"]["annotations"] = json!({ "drover.dev/on-failure": "return" });

        assert!(!scene.goes_on().contains(&"take workers back to their last good templates"));

        assert_eq!(scene.deployment()["spec"]["paused"], true, "it stays where it was halted");
        assert_eq!(scene.phase(), "updateFailed");
        let wait = scene.decide().waits.remove(0);
        assert_eq!(wait.reason, Reason::WorkersFailed);
        let remedy = wait.remedy.unwrap();
        assert!(remedy.contains(&format!("bring {kind} {name} back first")), "{remedy}");
        scene.put(collection, kept);
        assert!(scene.goes_on().contains(&"take workers back to their last good templates"));
    }
}

#[test]
fn halted_workers_go_on_when_the_mark_of_their_failure_is_taken_away() {
    let mut scene = rolling();
    scene.passes(15);
    let mut scene = halts(scene, "worker-3");
    scene.change(Collection::Deployments, "workers", |one| {
        one["metadata"]["annotations"].as_object_mut().unwrap().remove("drover.dev/failed");
    });

    assert!(scene.goes_on().contains(&"let workers go on"));
    assert_eq!(scene.deployment()["spec"]["paused"], Value::Null);
}

#[test]
fn halted_workers_go_on_with_something_else_that_is_asked_for() {
    let mut scene = rolling();
    scene.passes(15);
    let mut scene = halts(scene, "worker-3");
    scene.tkc["spec"]["topology"]["workers"]["class"] = json!("large");

    assert!(scene.goes_on().contains(&"point workers at other templates"));
    let marks = &scene.deployment()["metadata"]["annotations"];
    assert_eq!((&marks["drover.dev/failed"], &marks["drover.dev/held"]), (&Value::Null, &Value::Null));
    assert_eq!(
        marks["drover.dev/last-good"], "1.15.5+vmware.1 machines-1 joins-1",
        "what failed is no place to go back to"
    );
}

#[test]
fn a_pause_of_somebody_else_is_left_alone() {
    let mut scene = settled().asks_for(NEW).control_plane_is_new();
    scene.change(Collection::Deployments, "workers", |one| one["spec"]["paused"] = json!(true));

    assert_eq!(scene.reasons(), [Reason::WorkersPaused]);
    assert_eq!(scene.goes_on(), ["publish how far a cluster is"]);
}

#[test]
fn another_number_of_control_plane_machines_is_left_to_the_job_and_said_before() {
    let mut scene = settled();
    scene.tkc["spec"]["topology"]["controlPlane"]["count"] = json!(3);

    assert_eq!(scene.goes_on(), ["publish how far a cluster is", "begin the update of a control plane"]);
    assert_eq!(scene.tkc["status"]["differences"], json!(["control plane: 1 machines → 3"]));
    let arguments = scene.job()["spec"]["template"]["spec"]["containers"][0]["args"].clone();
    assert!(arguments.as_array().unwrap().contains(&json!("--replicas=3")), "{arguments}");

    scene.control_plane_machine("cp-2", super::OLD);
    scene.control_plane_machine("cp-3", super::OLD);
    scene.job_ends("Complete");
    while !scene.goes_on().is_empty() {}
    assert_eq!((scene.phase(), scene.reasons()), ("running", vec![]));
}

#[test]
fn another_number_that_is_asked_for_while_a_job_is_at_work_waits_for_its_end_and_says_so() {
    let mut scene = settled().asks_for(NEW);
    scene.goes_on();
    scene.goes_on();
    let name = text(&scene.job()["metadata"]["name"]).to_owned();
    scene.tkc["spec"]["topology"]["controlPlane"]["count"] = json!(3);

    assert_eq!(scene.reasons(), [Reason::ControlPlaneUpdating, Reason::CountDiffers, Reason::ControlPlaneFirst]);
    assert_eq!(
        scene.decide().waits[1].sentence,
        format!(
            "spec.topology.controlPlane.count is 3, and there are 1 machines: that follows once Job/vmware-system-tkg/{name} has ended"
        )
    );
    scene.job_ends("Complete");
    let mut scene = scene.control_plane_is_new();
    assert_eq!(
        scene.goes_on(),
        [
            "publish how far a cluster is",
            "clear away the Job of an earlier update",
            "begin the update of a control plane",
            "make a template of workers",
            "make a template of workers",
            "point workers at other templates"
        ]
    );
}

#[test]
fn one_machine_more_for_a_while_is_no_other_number() {
    let mut scene = settled().asks_for(NEW);
    scene.goes_on();
    scene.goes_on();
    scene.control_plane_machine("cp-2", NEW);

    assert_eq!(scene.reasons(), [Reason::ControlPlaneUpdating, Reason::ControlPlaneFirst]);
    scene.goes_on();
    let differences = scene.tkc["status"]["differences"].to_string();
    assert!(!differences.contains("control plane:"), "{differences}");
}

#[test]
fn the_number_of_workers_follows_what_is_asked_for() {
    let mut scene = settled();
    scene.tkc["spec"]["topology"]["workers"]["count"] = json!(4);

    assert!(scene.goes_on().contains(&"change the number of workers"));
    assert_eq!(scene.deployment()["spec"]["replicas"], 4);
}

#[test]
fn the_number_of_workers_does_not_wait_for_the_control_plane_that_their_version_waits_for() {
    let asks_for_more = |scene: &mut Scene, count: i64| {
        scene.tkc["spec"]["topology"]["workers"]["count"] = json!(count);
        let said = format!("MachineDeployment workers: {} machines → {count}", count - 1);
        let done = scene.goes_on();
        assert!(done.contains(&"change the number of workers"), "{done:?}");
        let differences = scene.tkc["status"]["differences"].to_string();
        assert!(differences.contains(&said), "{differences}");
        assert_eq!(scene.deployment()["spec"]["replicas"], count);
        assert!(scene.reasons().contains(&Reason::ControlPlaneFirst));
    };
    let mut scene = settled().asks_for(NEW);
    scene.goes_on();
    scene.goes_on();
    asks_for_more(&mut scene, 3);

    scene.job_ends("Failed");
    asks_for_more(&mut scene, 4);

    // What somebody has paused stays as it is.
    scene.change(Collection::Deployments, "workers", |one| one["spec"]["paused"] = json!(true));
    scene.tkc["spec"]["topology"]["workers"]["count"] = json!(5);
    scene.goes_on();
    assert_eq!(scene.deployment()["spec"]["replicas"], 4);
    let differences = scene.tkc["status"]["differences"].to_string();
    assert!(differences.contains("MachineDeployment workers: 4 machines → 5"), "{differences}");
}

#[test]
fn workers_roll_while_none_of_the_new_ones_is_made_or_old_ones_are_wanted_or_there() {
    let rolls = |spec: i64, there: i64| {
        let mut scene = settled();
        scene.change(Collection::Deployments, "workers", |one| {
            one["spec"]["template"]["spec"]["version"] = json!("1.16.7+vmware.1");
        });
        let template = scene.deployment()["spec"]["template"]["spec"].clone();
        scene.set("new", &template, 2);
        scene.change(Collection::Sets, "old", |set| {
            (set["spec"]["replicas"], set["status"]["replicas"]) = (json!(spec), json!(there));
        });
        rollout::rolls(&scene.view(None), scene.deployment())
    };
    assert_eq!([rolls(0, 0), rolls(1, 0), rolls(0, 1), rolls(1, 1)], [false, true, true, true]);
    let scene = settled();
    assert!(!rollout::rolls(&scene.view(None), scene.deployment()));
    let mut unmade = settled();
    unmade.own.forget(Collection::Sets, "old");
    assert!(rollout::rolls(&unmade.view(None), unmade.deployment()));
}

#[test]
fn workers_follow_a_control_plane_that_is_newer_than_they_will_be_and_no_older_one() {
    let said = |version: &str| {
        let mut scene = settled().asks_for(NEW).control_plane_is_new();
        scene.change(Collection::Machines, "cp-1", |one| one["spec"]["version"] = json!(version));
        let view = scene.view(None);
        let Ok(distribution::Asked::Found(distribution)) = distribution::asked(&view) else { panic!() };
        let asked = wanted::Wanted::of_workers(&view, &distribution, &defaults::read(&view).ok().unwrap());
        let workers = workers::compare(&view, &distribution, &asked).ok().flatten().unwrap();
        let course = rollout::course(&view, &workers, &rollout::ControlPlane::default());
        course.waits.first().map(|wait| wait.sentence.clone())
    };
    assert_eq!(said("1.17.0+vmware.1"), None);
    assert_eq!(said("1.16.7+vmware.1"), None);
    let older = "workers follow once Machine/default/cp-1, of 1.15.5+vmware.1, is replaced";
    assert_eq!(said("1.15.5+vmware.1").as_deref(), Some(older));
}

#[test]
fn workers_that_are_replaced_no_further_halt_the_rollout() {
    let mut scene = rolling();
    scene.worker("worker-3", "new", true);
    scene.change(Collection::Sets, "new", |set| set["status"]["availableReplicas"] = json!(1));
    scene.goes_on();
    assert_eq!(scene.reasons(), [Reason::WorkersRolling]);
    scene.passes(14);
    scene.goes_on();
    assert_eq!(scene.phase(), "updating");
    scene.passes(1);

    halts(scene, "MachineDeployment/default/workers replaces its Machines: 1 of 2 are new");
}

#[test]
fn a_node_that_is_not_ready_is_named_where_the_guest_tells_which() {
    let mut scene = rolling();
    scene.worker("worker-3", "new", true);
    assert_eq!(scene.decide().waits[0].sentence, "Nodes of MachineSet/default/new are not ready");

    let node = scene.own.get(Collection::Machines, "worker-3").unwrap()["status"]["nodeRef"]["name"].clone();
    scene.nodes = Some([(text(&node).to_owned(), false)].into());
    let wait = scene.decide().waits.remove(0);
    assert_eq!(wait.reason, Reason::NodeNotReady);
    assert_eq!(wait.sentence, format!("Node {} of MachineSet/default/new is not ready", text(&node)));
}

#[test]
fn each_node_has_its_own_time_to_get_ready_also_while_the_guest_does_not_answer() {
    let mut scene = rolling();
    scene.worker("worker-3", "new", true);
    scene.change(Collection::Sets, "new", |set| set["status"]["availableReplicas"] = json!(0));
    let node = text(&scene.own.get(Collection::Machines, "worker-3").unwrap()["status"]["nodeRef"]["name"]).to_owned();
    // As long as others join one after the other, there is always one that is not ready.
    for other in ["node-a", "node-b", "node-c"] {
        scene.change(Collection::Machines, "worker-3", |one| one["status"]["nodeRef"]["name"] = json!(other));
        scene.nodes = Some([(other.to_owned(), false)].into());
        scene.goes_on();
        scene.passes(10);
        scene.goes_on();
        assert_eq!(scene.phase(), "updating");
    }
    scene.change(Collection::Machines, "worker-3", |one| one["status"]["nodeRef"]["name"] = json!(node));
    scene.nodes = Some([(node.clone(), false)].into());
    scene.goes_on();
    scene.passes(10);
    scene.nodes = None;
    scene.goes_on();
    scene.passes(5);

    halts(scene, &format!("Node {node} of MachineSet/default/new is not ready"));
}

#[test]
fn the_number_of_workers_of_a_paused_cluster_stays() {
    let mut scene = settled();
    scene.goes_on();
    scene.tkc["spec"]["topology"]["workers"]["count"] = json!(5);
    scene.tkc["metadata"]["annotations"]["drover.dev/paused"] = json!("true");
    scene.goes_on();
    assert_eq!((scene.reasons(), &scene.deployment()["spec"]["replicas"]), (vec![Reason::ClusterPaused], &json!(2)));

    scene.tkc["metadata"]["annotations"]["drover.dev/paused"] = json!("false");
    assert!(scene.goes_on().contains(&"change the number of workers"));
}
