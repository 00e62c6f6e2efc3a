//! The way of an Upgrade, phase by phase.

use super::*;
use crate::decision::Purpose;

#[test]
fn an_upgrade_goes_from_its_image_to_its_end() {
    let mut ground = Ground::of(3);
    ground.settle();
    assert_eq!((ground.label("latestUpgrade"), ground.label("upgradeState")), ("true", "LoggingInfraPrepared"));
    assert_eq!(ground.condition("Completed").0, "Unknown");
    assert_eq!(
        ground.condition("LogReady"),
        ("False".into(), "Disabled".into(), "Upgrade observability is administratively disabled".into())
    );
    let image = ground.get("VirtualMachineImage", "harvester-system", U);
    assert_eq!(image["spec"]["displayName"], format!("{U}-v1.8.0"));
    assert_eq!(ground.upgrade()["status"]["imageID"], format!("harvester-system/{U}"));

    ground.import();
    ground.settle();
    assert_eq!((ground.label("upgradeState"), ground.condition("ImageReady").0.as_str()), ("PreparingRepo", "True"));
    ground.serve();
    ground.settle();
    assert_eq!((ground.label("upgradeState"), ground.condition("RepoReady").0.as_str()), ("PreparingNodes", "True"));
    assert!(ground.upgrade()["status"]["repoInfo"].as_str().unwrap().contains("kubernetes: \"v1.34.1+rke2r1\""));
    assert_eq!(ground.get("Plan", "cattle-system", &format!("{U}-prepare"))["spec"]["concurrency"], 1);
    assert_eq!(ground.node_state("node-2"), "Pending");

    ground.preload();
    ground.settle();
    assert_eq!(
        (ground.label("upgradeState"), ground.node_state("node-2")),
        ("UpgradingSystemServices", "Images preloaded")
    );
    ground.finish("apply-manifests");
    ground.settle();
    assert_eq!(ground.label("upgradeState"), "UpgradingNodes");
    let cluster = ground.get("Cluster", "fleet-local", "local");
    assert_eq!(cluster["spec"]["rkeConfig"]["provisionGeneration"], 5);
    assert_eq!(cluster["spec"]["kubernetesVersion"], "v1.34.1+rke2r1");

    for number in 1..=3 {
        ground.bring_over(number);
        assert_eq!(ground.node_state(&format!("node-{number}")), "Succeeded");
        assert_eq!(
            (ground.answer(number, "pre-hook"), ground.answer(number, "post-hook")),
            (&json!(TOKEN), &json!(TOKEN))
        );
        ground.gives_back(number);
    }
    ground.settle();
    assert_eq!((ground.label("upgradeState"), ground.label("upgradeCleanup")), ("Succeeded", "Succeeded"));
    assert_eq!(ground.condition("Completed"), ("True".into(), String::new(), String::new()));
    let left: Vec<&Key> = ground
        .objects
        .keys()
        .filter(|key| ["Deployment", "Service", "VirtualMachineImage", "Plan"].contains(&key.0.as_str()))
        .collect();
    assert_eq!(left, Vec::<&Key>::new());
    assert_eq!(ground.get("Cluster", "fleet-local", "local")["spec"]["rkeConfig"], json!({ "provisionGeneration": 5 }));
}

#[test]
fn a_status_that_was_wiped_is_written_again_and_nothing_else_happens() {
    let mut ground = Ground::of(3).until_nodes();
    ground.bring_over(1);
    let before = ground.upgrade()["status"].clone();
    ground.change("Upgrade", "harvester-system", U, &json!({ "status": null }));

    let decision = ground.decide();

    let purposes: Vec<String> = decision.writes().map(|write| format!("{:?}", write.purpose)).collect();
    assert_eq!(purposes, ["PublishStatus"]);
    ground.settle();
    assert_eq!(ground.upgrade()["status"]["nodeStatuses"], before["nodeStatuses"]);
}

#[test]
fn a_lost_answer_is_given_again() {
    let mut ground = Ground::of(3).until_nodes();
    ground.asks(1, "pre-drain");
    ground.settle();
    ground.finish("pre-drain-node-1");
    ground.settle();
    let secret = "custom-1-machine-plan";
    let lost = json!({ "metadata": { "annotations": { "harvesterhci.io/pre-hook": null } } });
    ground.change("Secret", "fleet-local", secret, &lost);

    ground.settle();

    assert_eq!(ground.answer(1, "pre-hook"), &json!(TOKEN));
}

#[test]
fn a_planner_that_asks_with_another_token_is_answered_with_that() {
    let mut ground = Ground::of(3).until_nodes();
    ground.asks(1, "pre-drain");
    ground.settle();
    ground.finish("pre-drain-node-1");
    ground.settle();
    let other = json!({ "metadata": { "annotations": { "rke.cattle.io/pre-drain": "{}" } } });
    ground.change("Secret", "fleet-local", "custom-1-machine-plan", &other);

    ground.settle();

    assert_eq!(ground.answer(1, "pre-hook"), &json!("{}"));
}

#[test]
fn a_second_node_waits_while_the_first_is_out_whatever_the_planner_asks() {
    let mut ground = Ground::of(3).until_nodes();
    ground.asks(1, "pre-drain");
    ground.asks(2, "pre-drain");

    ground.settle();

    assert!(ground.has_job("pre-drain-node-1") && !ground.has_job("pre-drain-node-2"));
    assert!(ground.reasons().contains(&Reason::AnotherNodeIsOut));
}

#[test]
fn a_voter_is_not_drained_while_another_is_lost() {
    let mut ground = Ground::of(3).until_nodes();
    let lost = json!({ "status": { "conditions": [
        { "type": "Ready", "status": "True" }, { "type": "EtcdIsVoter", "status": "False", "reason": "NotAMember" },
    ] } });
    ground.change("Node", "", "node-3", &lost);
    ground.asks(1, "pre-drain");
    ground.settle();
    assert!(!ground.has_job("pre-drain-node-1"));
    assert!(ground.reasons().contains(&Reason::QuorumAtRisk));

    let accepts = json!({ "metadata": { "annotations": { "drover.dev/accept": "DRV-ETCD-001" } } });
    ground.change("Upgrade", "harvester-system", U, &accepts);
    ground.settle();
    assert!(!ground.has_job("pre-drain-node-1"), "what is accepted is that one of two goes");

    let back = json!({ "status": { "conditions": [
        { "type": "Ready", "status": "True" }, { "type": "EtcdIsVoter", "status": "True", "reason": "MemberNotLearner" },
    ] } });
    ground.change("Node", "", "node-3", &back);
    ground.settle();
    assert!(ground.has_job("pre-drain-node-1"));
}

#[test]
fn a_job_that_somebody_deletes_is_made_again() {
    let mut ground = Ground::of(3).until_nodes();
    ground.asks(1, "pre-drain");
    ground.settle();
    ground.objects.remove(&("Job".to_owned(), "harvester-system".to_owned(), format!("{U}-pre-drain-node-1")));

    ground.settle();

    assert!(ground.has_job("pre-drain-node-1"));
}

#[test]
fn a_job_that_fails_fails_the_upgrade_and_says_why() {
    let mut ground = Ground::of(3).until_nodes();
    ground.asks(1, "pre-drain");
    ground.settle();
    let failed = json!({ "status": { "conditions": [
        { "type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit" },
    ] } });
    ground.change("Job", "harvester-system", &format!("{U}-pre-drain-node-1"), &failed);

    ground.settle();

    assert_eq!((ground.label("upgradeState"), ground.node_state("node-1")), ("Failed", "Failed"));
    assert_eq!(ground.condition("NodesUpgraded").1, "BackoffLimitExceeded");
    assert_eq!(ground.condition("Completed").0, "False");
    assert_eq!(ground.label("upgradeCleanup"), "Succeeded");
}

#[test]
fn a_node_without_a_machine_is_named_and_not_waited_for() {
    let mut ground = Ground::of(3);
    let mut stray = node("stray");
    stray["metadata"]["labels"] = json!({});
    ground.put(stray);
    let told =
        "Node stray has no Machine in fleet-local (provision it again, or remove it: the upgrade goes on without it)";
    ground.settle();
    let (_, reason, message) = ground.condition("Progressing");
    assert!(reason == "ImageNotReady" && message.ends_with(told), "from the beginning on: {reason}: {message}");
    let mut ground = ground.until_services();
    let (_, reason, message) = ground.condition("Progressing");
    assert!(reason == "JobRunning" && message.ends_with(told), "while services are raised, too: {reason}: {message}");
    ground.finish("apply-manifests");
    ground.settle();
    let (_, reason, message) = ground.condition("Progressing");
    assert_eq!(reason, "PlannerWorks", "it holds nothing up");
    assert!(message.ends_with(told), "{message}");
    assert!(ground.upgrade()["status"]["nodeStatuses"].get("stray").is_none());
    for number in 1..=3 {
        ground.bring_over(number);
        ground.gives_back(number);
    }
    ground.settle();
    assert_eq!(ground.label("upgradeState"), "Succeeded");
    let said = "not upgraded, since Harvester does not manage them: stray";
    let upgraded = ("True".to_owned(), "NodeUnmanaged".to_owned(), said.to_owned());
    assert_eq!(ground.condition("NodesUpgraded"), upgraded);
    assert_eq!(ground.condition("Progressing").1, "Ended");
    // What becomes of it later is no matter of this Upgrade.
    ground.objects.remove(&("Node".to_owned(), String::new(), "stray".to_owned()));
    ground.settle();
    assert_eq!(ground.condition("NodesUpgraded"), upgraded);
}

#[test]
fn an_upgrade_that_is_deleted_takes_all_its_marks_along() {
    let config = json!({ "nodeUpgradeOption": { "mode": "manual" } });
    let mut ground = Ground::configured(3, config);
    ground.settle();
    ground.import();
    ground.settle();
    ground.serve();
    ground.settle();
    ground.change("Upgrade", "harvester-system", U, &json!({ "metadata": { "deletionTimestamp": NOON } }));

    for _ in 0..5 {
        let writes: Vec<Write> = ground.decide().writes().cloned().collect();
        writes.iter().for_each(|write| ground.carry_out(write));
    }

    assert_eq!(ground.upgrade()["metadata"]["finalizers"], json!([]));
    for number in 1..=3 {
        let node = ground.get("Node", "", &format!("node-{number}"));
        assert!(node["metadata"]["annotations"]["harvesterhci.io/node-upgrade-pause"].is_null());
    }
    assert!(ground.get("Plan", "cattle-system", &format!("{U}-prepare")).is_null());
}

#[test]
fn the_release_is_served_by_a_vm_if_its_user_wants_that() {
    let mut ground = Ground::of(3);
    ground.annotate("drover.dev/repository", "vm");
    ground.import();
    ground.settle();
    let name = format!("upgrade-repo-{U}");
    assert!(ground.get("Deployment", "harvester-system", &name).is_null());
    let machine = ground.get("VirtualMachine", "harvester-system", &name);
    assert_eq!(machine["spec"]["template"]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], U);
    assert_eq!(ground.reasons(), [Reason::RepositoryNotReady]);

    ground.put(json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": { "name": name, "namespace": "harvester-system" }, "status": { "phase": "Running" },
    }));
    ground.served = Some(release());
    ground.settle();
    assert_eq!(ground.label("upgradeState"), "PreparingNodes");

    // It hangs: its steps would wait for it without a word.
    let ready = |status: &str| json!({ "status": { "conditions": [{ "type": "Ready", "status": status, "reason": "PodNotReady", "message": "no answer" }] } });
    ground.change("VirtualMachineInstance", "harvester-system", &name, &ready("False"));
    ground.settle();
    let told = ground.last.waits.iter().find(|wait| wait.reason == Reason::RepositoryNotReady).unwrap();
    assert!(told.sentence.ends_with("runs and does not answer: no answer"), "{told:?}");
    assert!(told.remedy.as_ref().unwrap().starts_with("virtctl stop"), "{told:?}");
    ground.change("VirtualMachineInstance", "harvester-system", &name, &ready("True"));
    ground.settle();
    assert_eq!(ground.reasons(), [Reason::ImagesPreloading]);

    // Somebody stops it: it is named until it runs, and started again if nobody does that.
    ground.objects.remove(&("VirtualMachineInstance".to_owned(), "harvester-system".to_owned(), name.clone()));
    let off = json!({ "spec": { "runStrategy": "Halted" }, "status": { "printableStatus": "Stopped" } });
    ground.change("VirtualMachine", "harvester-system", &name, &off);
    let starts = |decision: Decision| {
        decision.writes().any(|write| matches!(write.act, Act::Call { part: "start" }) && write.subject.name == name)
    };
    let at_once = ground.decide();
    assert_eq!(at_once.look_again, ground.now.checked_add(SignedDuration::from_mins(1)).ok());
    assert!(!starts(at_once), "whoever has stopped it may start it");
    ground.settle();
    let told = ground.last.waits.iter().find(|wait| wait.reason == Reason::RepositoryNotReady).unwrap();
    assert!(told.sentence.ends_with("which serves the release, is off"), "{told:?}");
    ground.now = ground.now.checked_add(SignedDuration::from_mins(1)).unwrap();
    assert!(starts(ground.decide()));
}

#[test]
fn the_only_node_of_a_cluster_goes_its_own_way() {
    let mut ground = Ground::of(1).until_nodes();
    assert!(ground.has_job("single-node-upgrade-node-1"));
    assert_eq!(ground.upgrade()["status"]["singleNode"], "node-1");
    assert_eq!(ground.get("Cluster", "fleet-local", "local")["spec"]["rkeConfig"]["provisionGeneration"], 4);
    ground.finish("single-node-upgrade-node-1");
    ground.settle();
    assert_eq!(ground.node_state("node-1"), "Waiting Reboot");
    ground.reboot(1);
    ground.settle();
    assert_eq!((ground.label("upgradeState"), ground.label("upgradeCleanup")), ("Succeeded", "Succeeded"));
}

#[test]
fn images_are_not_loaded_where_the_setting_skips_it() {
    let config = json!({ "imagePreloadOption": { "strategy": { "type": "skip" } } });
    let ground = Ground::configured(3, config).until_nodes();
    assert!(ground.get("Plan", "cattle-system", &format!("{U}-prepare")).is_null());
    assert_eq!(ground.condition("NodesPrepared").0, "True");
    assert_eq!(ground.node_state("node-3"), "Images preloaded");
}

/// The first node has failed and the Upgrade with it; its user wants another try.
fn failed_and_to_be_tried_again() -> Ground {
    let mut ground = Ground::of(3).until_nodes();
    ground.asks(1, "pre-drain");
    ground.settle();
    let failed = json!({ "status": { "conditions": [{ "type": "Failed", "status": "True", "reason": "BackoffLimitExceeded" }] } });
    ground.change("Job", "harvester-system", &format!("{U}-pre-drain-node-1"), &failed);
    ground.settle();
    assert_eq!((ground.label("upgradeState"), ground.label("upgradeCleanup")), ("Failed", "Succeeded"));
    let retry = json!({ "metadata": { "annotations": { "drover.dev/retry": "" } } });
    ground.change("Upgrade", "harvester-system", U, &retry);
    ground
}

#[test]
fn what_has_failed_is_taken_up_again_if_its_user_wants_that() {
    let mut ground = failed_and_to_be_tried_again();
    ground.settle();

    assert_eq!((ground.label("upgradeState"), ground.node_state("node-1")), ("UpgradingNodes", "Pre-draining"));
    assert!(ground.get("Job", "harvester-system", &format!("{U}-pre-drain-node-1"))["status"].is_null());
    assert!(ground.get("VirtualMachineImage", "harvester-system", U).is_object());
    for number in 1..=3 {
        ground.bring_over(number);
        ground.gives_back(number);
    }
    ground.settle();
    assert_eq!((ground.label("upgradeState"), ground.label("upgradeCleanup")), ("Succeeded", "Succeeded"));
}

#[test]
fn an_operator_that_dies_before_it_has_deleted_the_failed_job_leaves_that_to_the_next() {
    let mut ground = failed_and_to_be_tried_again();
    let first = ground.first_write();
    assert_eq!(first.purpose, Purpose::NoteProgress);
    ground.carry_out(&first);
    ground.settle();

    assert_eq!((ground.label("upgradeState"), ground.node_state("node-1")), ("UpgradingNodes", "Pre-draining"));
    assert!(ground.get("Job", "harvester-system", &format!("{U}-pre-drain-node-1"))["status"].is_null());
}

#[test]
fn a_clock_that_was_set_back_does_not_keep_the_status_from_being_written() {
    let publishes = |written: &'static str| {
        let mut ground = Ground::of(3);
        let first = ground.first_write();
        ground.carry_out(&first);
        ground.status_written = Some(written);
        ground.decide().writes().any(|write| write.purpose == Purpose::PublishStatus)
    };
    assert!(!publishes(NOON), "at most once a second");
    assert!(publishes("2026-01-01T23:00:00Z"), "a moment that lies ahead says nothing");
}

/// The first node is on its way, and the pod of its Job does not get its image.
fn without_image() -> Ground {
    let mut ground = Ground::of(3).until_nodes();
    ground.begins_with(1);
    let job = format!("{U}-pre-drain-node-1");
    let labels = json!({ "batch.kubernetes.io/job-name": job, "harvesterhci.io/upgrade": U });
    ground.put(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "pod", "namespace": "harvester-system", "labels": labels },
        "spec": { "nodeName": "node-1", "containers": [{ "name": "apply", "image": "upgrade:v1.8.0" }] },
        "status": {
            "phase": "Pending",
            "containerStatuses": [{ "name": "apply", "state": { "waiting": { "reason": "ImagePullBackOff" } } }],
        },
    }));
    ground
}

fn has_images(ground: &Ground, node: &str) -> bool {
    ground.get("Node", "", node)["metadata"]["labels"][format!("plan.upgrade.cattle.io/{U}-prepare")].is_string()
}

#[test]
fn a_node_that_has_lost_its_images_gets_them_once_more() {
    let mut ground = without_image();

    ground.settle();

    assert_eq!(ground.reasons().iter().filter(|reason| **reason == Reason::ImageMissing).count(), 1);
    assert!(!has_images(&ground, "node-1") && has_images(&ground, "node-2"));
    let told = ground.condition("Progressing").2;
    assert!(
        told.contains("node-1 does not have the image upgrade:v1.8.0: the images are loaded there again"),
        "{told}"
    );
}

#[test]
fn a_node_that_loses_its_images_again_is_left_to_its_user() {
    let mut ground = without_image();
    ground.settle();
    ground.preload();

    ground.settle();

    assert!(has_images(&ground, "node-1"));
    let wait = ground.last.waits.iter().find(|wait| wait.reason == Reason::ImageMissing).unwrap();
    assert!(wait.remedy.as_ref().unwrap().starts_with("make room on the disk of node-1"), "{wait:?}");
}

#[test]
fn a_plan_that_was_made_anew_has_loaded_nothing_before_it_says_what_its_result_is() {
    let mut ground = without_image();
    let plan = format!("{U}-prepare");
    ground.change("Plan", "cattle-system", &plan, &json!({ "status": { "latestHash": "" } }));
    ground.settle();
    ground.change("Plan", "cattle-system", &plan, &json!({ "status": { "latestHash": "h1" } }));

    ground.settle();

    assert!(!has_images(&ground, "node-1"), "it gets its Job once more");
}

#[test]
fn a_node_that_somebody_has_left_out_of_loading_stays_so() {
    let mut ground = without_image();
    let left_out = json!({ "metadata": { "labels": { format!("plan.upgrade.cattle.io/{U}-prepare"): "disabled" } } });
    ground.change("Node", "", "node-1", &left_out);

    ground.settle();

    assert!(has_images(&ground, "node-1"), "the label is its user's");
    let wait = ground.last.waits.iter().find(|wait| wait.reason == Reason::ImageMissing).unwrap();
    assert!(wait.remedy.as_ref().unwrap().starts_with("load it on node-1, which somebody has left out"), "{wait:?}");
}

#[test]
fn what_the_node_at_work_waits_for_is_told_first() {
    let mut ground = Ground::of(10).until_nodes();

    ground.begins_with(7);

    let first = &ground.last.waits[0];
    assert_eq!((first.subject.name.as_str(), first.reason), ("node-7", Reason::JobRunning));
}

#[test]
fn vms_that_were_stopped_are_started_again_before_the_upgrade_ends() {
    let config = |restores: bool| json!({ "imagePreloadOption": { "strategy": { "type": "sequential" } }, "restoreVM": restores });
    let list = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("{U}-restore-vm"), "namespace": "harvester-system" },
        "data": { "node-1": "default/db", "node-2": " " },
    });
    let all_over = |restores: bool| {
        let mut ground = Ground::configured(3, config(restores)).until_nodes();
        ground.put(list.clone());
        for number in 1..=3 {
            ground.bring_over(number);
            ground.gives_back(number);
        }
        ground.settle();
        ground
    };

    let mut ground = all_over(true);
    assert_eq!(ground.label("upgradeState"), "UpgradingNodes");
    assert_eq!(ground.reasons(), [Reason::JobRunning]);
    assert!(ground.has_job("restore-vm-node-1"));
    assert!(!ground.has_job("restore-vm-node-2") && !ground.has_job("restore-vm-node-3"), "nothing was stopped there");
    ground.finish("restore-vm-node-1");
    ground.settle();
    assert_eq!(ground.label("upgradeState"), "Succeeded");

    let mut ground = all_over(true);
    ground.fail("restore-vm-node-1");
    assert_eq!(ground.label("upgradeState"), "Succeeded", "the nodes are upgraded all the same");
    let message = "VMs that were stopped could not all be started again, of node-1: default/db: it did not work";
    assert_eq!(ground.condition("NodesUpgraded"), ("True".into(), "RestoreVMFailed".into(), message.into()));
    let message = "VMs that were stopped for node-1 could not all be started again: default/db: it did not work";
    let events: Vec<(String, String)> =
        told(&ground).into_iter().filter(|(reason, _)| reason.starts_with("RestoreVM")).collect();
    assert_eq!(events, [("RestoreVMFailed".to_owned(), message.to_owned())]);

    let ground = all_over(false);
    assert_eq!((ground.label("upgradeState"), ground.has_job("restore-vm-node-1")), ("Succeeded", false));
}

#[test]
fn what_the_setting_asked_for_when_the_upgrade_began_holds_until_its_end() {
    let config = |strategy: &str, restores: bool| {
        json!({ "imagePreloadOption": { "strategy": { "type": strategy } }, "restoreVM": restores,
                "nodeUpgradeOption": { "strategy": { "mode": "manual", "pauseNodes": ["node-4"] } } })
    };
    let set = |ground: &mut Ground, config: &Value| {
        ground.change("Setting", "", "upgrade-config", &json!({ "value": config.to_string() }));
    };
    let list = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("{U}-restore-vm"), "namespace": "harvester-system" },
        "data": { "node-1": "default/db" },
    });
    // A setting that names a node that has left cannot be followed; one that says something else could.
    for later in [None, Some(config("sequential", false))] {
        let mut ground = Ground::configured(4, config("parallel", true));
        ground.settle();
        match &later {
            Some(later) => set(&mut ground, later),
            None => ground.objects.retain(|key, _| key.2 != "node-4" && !key.2.starts_with("custom-4")),
        }
        ground.put(list.clone());
        let mut ground = ground.until_nodes();
        let at_once = &ground.get("Plan", "cattle-system", &format!("{U}-prepare"))["spec"]["concurrency"];
        assert_eq!(at_once, &json!(if later.is_some() { 4 } else { 3 }), "all nodes at once, as was asked");
        ground.bring_over(1);
        ground.gives_back(1);
        ground.settle();
        assert!(ground.has_job("restore-vm-node-1"));
    }
    let mut ground = Ground::configured(4, config("skip", false));
    ground.settle();
    set(&mut ground, &config("parallel", true));
    ground.put(list);
    let mut ground = ground.until_nodes();
    assert!(ground.get("Plan", "cattle-system", &format!("{U}-prepare")).is_null());
    ground.bring_over(1);
    ground.gives_back(1);
    ground.settle();
    assert!(!ground.has_job("restore-vm-node-1"));
}

#[test]
fn vms_are_started_again_each_time_that_they_were_stopped() {
    let mut ground = Ground::configured(3, json!({ "restoreVM": true })).until_nodes();
    ground.put(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": format!("{U}-restore-vm"), "namespace": "harvester-system" }, "data": { "node-1": "default/db" },
    }));
    ground.begins_with(1);
    ground.annotate("drover.dev/abort", "");
    ground.finish("restore-vm-node-1");
    ground.settle();
    assert_eq!((ground.label("upgradeState"), ground.label("upgradeCleanup")), ("Failed", "Succeeded"));
    assert!(told(&ground).iter().any(|(reason, _)| reason == "RestoreVMCompleted"));

    ground.annotate("drover.dev/retry", "");
    ground.import();
    ground.settle();
    ground.serve();
    ground.settle();
    ground.bring_over(1);
    ground.gives_back(1);
    ground.settle();

    let job = ground.get("Job", "harvester-system", &format!("{U}-restore-vm-node-1"));
    assert!(job.is_object() && job["status"].is_null(), "the Job of the first time is not taken for this one: {job}");
}

#[test]
fn nodes_are_upgraded_when_the_last_of_them_is() {
    let mut ground = Ground::of(3).until_nodes();
    let nothing = |status: &str| (status.to_owned(), String::new(), String::new());
    assert_eq!(ground.condition("NodesUpgraded"), nothing("Unknown"));
    for number in 1..=2 {
        ground.bring_over(number);
        ground.gives_back(number);
        assert_eq!(ground.condition("NodesUpgraded"), nothing("Unknown"));
    }
    ground.bring_over(3);
    assert_eq!(ground.condition("NodesUpgraded"), nothing("True"));
}

#[test]
fn the_vms_of_a_node_are_started_again_when_it_is_back_and_the_next_does_not_wait_for_them() {
    let mut ground = Ground::configured(3, json!({ "restoreVM": true })).until_nodes();
    ground.put(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": format!("{U}-restore-vm"), "namespace": "harvester-system", "labels": { "harvesterhci.io/upgrade": U },
        },
        "data": { "node-1": "default/vm-1" },
    }));
    ground.bring_over(1);
    ground.settle();
    assert!(!ground.has_job("restore-vm-node-1"), "the planner still has it cordoned");

    ground.gives_back(1);
    ground.settle();
    assert!(ground.has_job("restore-vm-node-1"));

    ground.begins_with(2);
    assert!(ground.has_job("pre-drain-node-2"));
    for number in 2..=3 {
        ground.bring_over(number);
        ground.gives_back(number);
    }
    ground.settle();
    assert_eq!(ground.label("upgradeState"), "UpgradingNodes", "it ends when they run");
    ground.finish("restore-vm-node-1");
    ground.settle();
    assert_eq!(ground.label("upgradeState"), "Succeeded");
}

fn told(ground: &Ground) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let events = ground.objects.iter().filter(|(key, _)| key.0 == "Event").map(|(_, event)| event);
    events.map(|event| (text(&event["reason"]), text(&event["message"]))).collect()
}

#[test]
fn phases_nodes_and_what_calls_for_somebody_are_told_as_events_each_once() {
    let mut ground = Ground::of(3).until_nodes();
    for number in 1..=3 {
        ground.bring_over(number);
        ground.gives_back(number);
    }
    ground.settle();

    let mut reasons: Vec<String> = told(&ground).into_iter().map(|(reason, _)| reason).collect();
    reasons.sort();
    assert_eq!(
        reasons,
        [
            "LoggingInfraPrepared",
            "NodeUpgraded",
            "NodeUpgraded",
            "NodeUpgraded",
            "PreparingNodes",
            "PreparingRepo",
            "Succeeded",
            "UpgradingNodes",
            "UpgradingSystemServices",
        ]
    );
    ground.change("Upgrade", "harvester-system", U, &json!({ "status": null }));
    ground.settle();
    assert_eq!(told(&ground).len(), reasons.len(), "a status that was wiped is written again, and nothing told again");
}

#[test]
fn a_pause_and_a_failure_are_told_at_once_and_what_may_pass_only_if_it_lasts() {
    let ground = Ground::configured(3, json!({ "nodeUpgradeOption": { "mode": "manual" } })).until_nodes();
    let paused = ("NodePaused".to_owned(), "node-1 is paused before its upgrade, as its user has asked".to_owned());
    assert!(told(&ground).contains(&paused), "{:?}", told(&ground));

    let mut ground = Ground::of(3);
    ground.settle();
    ground.import();
    ground.settle();
    assert!(ground.reasons().contains(&Reason::RepositoryNotReady));
    assert!(!told(&ground).iter().any(|(reason, _)| reason == "RepositoryNotReady"), "{:?}", told(&ground));
    assert_eq!(ground.last.look_again, Some("2026-01-01T12:01:00Z".parse().unwrap()));
}

#[test]
fn what_lasts_longer_than_it_usually_does_is_told_once_whatever_it_says_meanwhile() {
    let mut ground = Ground::of(3).until_nodes();
    ground.begins_with(1);
    let leaving = |ground: &mut Ground, vms: &str| {
        let waits = json!([{
            "subject": { "kind": "Node", "namespace": "", "name": "node-1" }, "reason": "VmsLeaving",
            "sentence": format!("{vms} leave node-1"), "since": NOON,
        }]);
        ground.put(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "steps", "namespace": "harvester-system",
                "labels": { "batch.kubernetes.io/job-name": format!("{U}-pre-drain-node-1"), "harvesterhci.io/upgrade": U },
                "annotations": { "drover.dev/waits": waits.to_string() },
            },
        }));
    };
    leaving(&mut ground, "a, b");
    ground.pass(19);
    assert_eq!((ground.reasons()[0], ground.events("VmsLeaving")), (Reason::VmsLeaving, vec![]));
    assert_eq!(ground.last.look_again, Some("2026-01-01T12:20:00Z".parse().unwrap()));

    ground.pass(1);
    leaving(&mut ground, "b");
    ground.pass(60);

    let said = format!(
        "Node/node-1: VMs leave a node. That has lasted for more than 20 minutes; drover why upgrade/{U} says what is behind it"
    );
    assert_eq!(ground.events("VmsLeaving"), [("Warning".to_owned(), said)]);
}

#[test]
fn a_node_that_does_not_come_back_from_its_boot_calls_for_somebody() {
    let mut ground = Ground::of(3).until_nodes();
    ground.begins_with(1);
    ground.finish("pre-drain-node-1");
    ground.settle();
    ground.raises(1);
    ground.finish("post-drain-node-1");
    ground.settle();
    ground.pass(19);
    assert_eq!((ground.reasons()[0], ground.events("NodeRebooting")), (Reason::NodeRebooting, vec![]));

    ground.pass(2);

    assert_eq!(ground.events("NodeRebooting").len(), 1);
}
