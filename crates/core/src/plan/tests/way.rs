//! The way of a node: claimed, taken, upgraded, released.

use super::*;

#[test]
fn a_new_leader_raises_the_epoch_before_it_does_anything_else() {
    let decision = three_nodes().taken("n1").held_by("operator-0").decide();

    assert_eq!(acts(&decision), [(Purpose::RaiseEpoch, "up".to_owned())]);
    let text = patch(&decision, Purpose::RaiseEpoch)["metadata"]["annotations"]["drover.dev/claims"].clone();
    let claims = Claims::read(text.as_str());
    assert_eq!((claims.epoch, claims.holder.as_str()), (2, ME));
    assert_eq!(claims.nodes.into_keys().collect::<Vec<_>>(), ["n1"]);
}

#[test]
fn a_leader_with_nothing_to_do_leaves_the_epoch_alone() {
    let done = three_nodes().held_by("operator-0").updated("n1").updated("n2").updated("n3").published();
    assert_eq!(done.decide().stages, Vec::<Vec<_>>::new());
}

#[test]
fn one_node_is_claimed_and_the_others_wait_for_it() {
    let decision = three_nodes().decide();

    assert_eq!(claimed_nodes(&decision).len(), 1);
    assert_eq!(reasons(&decision), [Reason::ConcurrencyReached]);
}

#[test]
fn a_claim_is_followed_up_in_the_same_batch_and_in_order() {
    let decision = three_nodes().decide();

    assert_eq!(purposes(&decision), [Purpose::ClaimNodes, Purpose::TakeNode, Purpose::CreateJob]);
    let stages: Vec<Purpose> = decision.stages.iter().map(|stage| stage[0].purpose).collect();
    assert_eq!(&stages[..3], [Purpose::ClaimNodes, Purpose::TakeNode, Purpose::CreateJob]);
}

#[test]
fn the_claim_is_guarded_by_the_version_of_the_plan_it_was_decided_on() {
    assert_eq!(patch(&three_nodes().decide(), Purpose::ClaimNodes)["metadata"]["resourceVersion"], "20");
}

#[test]
fn as_many_nodes_are_claimed_at_once_as_the_plan_allows() {
    assert_eq!(claimed_nodes(&three_nodes().spec("concurrency", json!(2)).decide()).len(), 2);
    assert_eq!(claimed_nodes(&three_nodes().spec("concurrency", json!(9)).decide()), ["n1", "n2", "n3"]);
}

#[test]
fn nodes_take_turns_in_the_order_of_their_digests() {
    let cluster = three_nodes();
    let turn = |name: &str| Sha256::digest(format!("uid-{name}uid-up{}", hash())).to_vec();
    let mut names = ["n1", "n2", "n3"];
    names.sort_by_key(|name| turn(name));

    assert_eq!(claimed_nodes(&cluster.decide()), [names[0]]);
}

#[test]
fn a_claimed_node_is_marked_and_cordoned_in_one_patch() {
    let decision = three_nodes().claimed("n1").decide();

    assert_eq!(acts(&decision), [(Purpose::TakeNode, "n1".to_owned())]);
    let patch = patch(&decision, Purpose::TakeNode);
    assert_eq!(patch["metadata"]["resourceVersion"], "10");
    assert_eq!(patch["metadata"]["labels"]["drover.dev/claim"], "claim-n1");
    assert_eq!(patch["spec"]["unschedulable"], true);
}

#[test]
fn a_cordon_brings_its_taint_and_takes_it_away_and_leaves_those_of_others() {
    let (cordon, other) = (
        json!({ "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" }),
        json!({ "key": "gpu", "value": "a100", "effect": "NoExecute", "timeAdded": "2026-01-01T11:00:00Z" }),
    );
    let taken = three_nodes().tainted("n1", &[&other]).claimed("n1").decide();
    assert_eq!(patch(&taken, Purpose::TakeNode)["spec"]["taints"], json!([other, cordon]));

    let back = |taints: &[&Value]| {
        let cluster = three_nodes().taken("n1").tainted("n1", taints);
        let decision = cluster.job("n1", "Complete").job_end_noted("n1", "boot-1").decide();
        patch(&decision, Purpose::ReleaseNode)["spec"].clone()
    };
    assert_eq!(back(&[&cordon, &other]), json!({ "unschedulable": null, "taints": [other] }));
    assert_eq!(back(&[&cordon]), json!({ "unschedulable": null, "taints": null }));
    assert_eq!(back(&[&other]), json!({ "unschedulable": null }), "what is gone is not taken away");
}

#[test]
fn without_a_cordon_in_the_plan_the_node_stays_schedulable() {
    let decision = three_nodes().spec("cordon", json!(false)).claimed("n1").decide();
    assert_eq!(patch(&decision, Purpose::TakeNode)["spec"], Value::Null);
}

#[test]
fn a_taken_node_gets_its_job_which_requires_the_claim() {
    let decision = three_nodes().taken("n1").decide();

    let [(Purpose::CreateJob, name)] = &acts(&decision)[..] else { panic!("{:?}", acts(&decision)) };
    assert!(name.starts_with("apply-up-on-n1-with-"), "{name}");
    let job = decision.writes().find_map(|write| match &write.act {
        Act::Create(job) if write.purpose == Purpose::CreateJob => Some(job.to_string()),
        _ => None,
    });
    assert!(job.unwrap().contains(r#"{"key":"drover.dev/claim","operator":"In","values":["claim-n1"]}"#));
}

#[test]
fn while_the_job_runs_nothing_is_done() {
    let decision = three_nodes().taken("n1").job("n1", "").published().decide();

    assert_eq!(acts(&decision), []);
    assert_eq!(reasons(&decision), [Reason::JobRunning, Reason::ConcurrencyReached]);
}

#[test]
fn a_node_that_is_ready_when_its_job_ends_is_released_at_once() {
    let decision = three_nodes().taken("n1").job("n1", "Complete").decide();

    assert_eq!(acts(&decision)[0], (Purpose::ReleaseNode, "n1".to_owned()));
    assert_eq!(told(&decision)[0], "JobComplete");
}

#[test]
fn the_end_of_a_job_is_noted_on_a_node_that_has_to_be_waited_for() {
    let ended = three_nodes().taken("n1").job("n1", "Complete").not_ready("n1");
    assert_eq!(acts(&ended.decide()), [(Purpose::NoteJobEnd, "n1".to_owned())]);
    let mut noted = ended.clone().after(&ended.decide());
    assert_eq!(acts(&noted.decide()), []);

    // From here on the Job may go: nothing runs twice.
    noted.jobs.clear();
    assert_eq!(acts(&noted.decide()), []);
    noted.nodes.get_mut("n1").unwrap()["status"]["conditions"][0]["status"] = json!("True");
    assert_eq!(acts(&noted.decide())[0].0, Purpose::ReleaseNode);
    // It rebooted after the Job's end: it has to be Ready in the new boot.
    assert_eq!(acts(&noted.rebooted("n1").decide()), [(Purpose::NoteJobEnd, "n1".to_owned())]);
}

#[test]
fn the_release_of_one_node_and_the_start_of_the_next_are_one_batch_in_that_order() {
    let cluster = three_nodes().taken("n1").job("n1", "Complete");
    let decision = cluster.decide();

    assert_eq!(purposes(&decision), [Purpose::ReleaseNode, Purpose::ClaimNodes, Purpose::TakeNode, Purpose::CreateJob]);
    let claims = Claims::read(cluster.after(&decision).plan["metadata"]["annotations"]["drover.dev/claims"].as_str());
    assert_eq!(claims.took, [600]);
}

#[test]
fn a_node_is_released_with_its_result_in_one_patch() {
    let cluster = three_nodes().taken("n1").job("n1", "Complete").job_end_noted("n1", "boot-1");
    let patch = patch(&cluster.decide(), Purpose::ReleaseNode);

    assert_eq!(patch["metadata"]["resourceVersion"], "10");
    assert_eq!(patch["metadata"]["labels"]["drover.dev/claim"], Value::Null);
    assert!(patch["metadata"]["labels"].as_object().unwrap().contains_key("drover.dev/claim"));
    assert_eq!(patch["metadata"]["labels"]["plan.upgrade.cattle.io/up"], hash());
    assert!(patch["spec"].as_object().unwrap().contains_key("unschedulable"));
}

#[test]
fn a_node_that_somebody_else_cordoned_stays_cordoned() {
    let taken = three_nodes().cordoned_by_somebody("n1").claimed("n1").decide();
    assert_eq!(patch(&taken, Purpose::TakeNode)["spec"], Value::Null);

    let ended = three_nodes().claimed("n1").marked("n1", "uid-up", false).cordoned_by_somebody("n1");
    let released = ended.job("n1", "Complete").job_end_noted("n1", "boot-1").decide();
    assert_eq!(patch(&released, Purpose::ReleaseNode)["spec"], Value::Null);
}

#[test]
fn a_cordon_that_somebody_has_lifted_while_the_job_runs_is_ours_from_then_on_and_goes_in_the_end() {
    let lifted = three_nodes().claimed("n1").marked("n1", "uid-up", false).job("n1", "");
    let decision = lifted.decide();
    assert_eq!(patch(&decision, Purpose::TakeNode)["spec"]["unschedulable"], true);

    let mut ended = lifted.after(&decision);
    assert_eq!(ended.nodes["n1"]["spec"]["unschedulable"], true);
    ended.jobs.clear();
    let released = ended.job("n1", "Complete").job_end_noted("n1", "boot-1").decide();
    assert!(patch(&released, Purpose::ReleaseNode)["spec"].as_object().unwrap().contains_key("unschedulable"));
}

#[test]
fn the_next_node_waits_until_the_last_is_ready_again() {
    let cluster = three_nodes().taken("n1").job("n1", "Complete").job_end_noted("n1", "boot-1").not_ready("n1");
    let decision = cluster.published().decide();

    assert_eq!(acts(&decision), []);
    assert_eq!(reasons(&decision), [Reason::NodeNotReady, Reason::ConcurrencyReached]);
}

#[test]
fn a_released_node_gives_its_place_to_the_next_in_one_write() {
    let decision = three_nodes().claimed("n1").updated("n1").updated("n2").job("n1", "Complete").decide();

    assert_eq!(purposes(&decision)[0], Purpose::ClaimNodes);
    assert_eq!(claimed_nodes(&decision), ["n3"]);
}

#[test]
fn a_job_that_somebody_deleted_is_made_again() {
    assert_eq!(acts(&three_nodes().taken("n1").decide())[0].0, Purpose::CreateJob);
}

#[test]
fn a_dead_leaders_job_is_deleted_by_its_uid() {
    let decision = three_nodes().updated("n1").job_under(Some("claim-of-the-dead"), "n1", "v2", "").decide();
    let delete = decision.writes().find(|write| write.purpose == Purpose::DeleteJob).unwrap();

    assert_eq!(delete.act, Act::Delete { uid: "uid-job-n1-v2".to_owned() });
}

#[test]
fn a_finished_job_of_an_earlier_claim_makes_room_for_the_new_one() {
    let decision = three_nodes().taken("n1").job_under(Some("claim-before"), "n1", "v2", "Complete").decide();
    assert_eq!(acts(&decision)[0].0, Purpose::DeleteJob);
    assert!(reasons(&decision).contains(&Reason::JobBeingDeleted));
}

#[test]
fn a_running_job_of_another_version_is_replaced() {
    let decision = three_nodes().taken("n1").job_under(Some("claim-n1"), "n1", "v1", "").decide();
    assert_eq!(acts(&decision)[0].0, Purpose::DeleteJob);
}

#[test]
fn a_job_that_another_controller_made_keeps_hands_off_the_whole_plan() {
    let decision = three_nodes().job_under(None, "n2", "v2", "").decide();
    assert_eq!(acts(&decision), []);
    assert_eq!(reasons(&decision), [Reason::AnotherControllerActs]);
    // What another one drives is not written, not even its status; an Event tells.
    assert_eq!(decision.writes().map(|write| write.purpose).collect::<Vec<_>>(), [Purpose::Announce]);
    assert_eq!(told(&decision), ["AnotherControllerActs"]);
}

#[test]
fn marks_that_the_annotation_lost_count_as_claims() {
    let cluster = three_nodes().marked("n2", "uid-up", false);
    assert_eq!(claimed_nodes(&cluster.decide()), ["n2"]);
}

#[test]
fn a_node_that_another_plan_took_is_left_to_it() {
    let decision = three_nodes().marked("n1", "uid-other", false).updated("n2").updated("n3").published().decide();
    assert_eq!(acts(&decision), []);
    assert_eq!(reasons(&decision), [Reason::NodeClaimedByAnother]);
}

#[test]
fn a_node_that_is_not_ready_is_not_taken_and_holds_no_place() {
    let decision = three_nodes().not_ready("n1").not_ready("n2").decide();
    assert_eq!(claimed_nodes(&decision), ["n3"]);
    assert_eq!(reasons(&decision), [Reason::NodeNotReady, Reason::NodeNotReady]);
}

#[test]
fn a_claim_that_is_no_longer_wanted_is_fenced_before_it_ends() {
    let cluster = three_nodes().claimed("n1").label("n1", "pool", "b");
    assert_eq!(acts(&cluster.decide())[0], (Purpose::FenceNode, "n1".to_owned()));
    assert_eq!(patch(&cluster.decide(), Purpose::FenceNode)["spec"], Value::Null);

    // Nothing on the Node will tell that it was released: the claim ends in the same batch, right after it.
    let decision = cluster.marked("n1", "uid-up", false).decide();
    assert_eq!(purposes(&decision)[..2], [Purpose::ReleaseNode, Purpose::ClaimNodes]);
    assert_eq!(claimed_nodes(&decision).len(), 1);
    assert!(!claimed_nodes(&decision).contains(&"n1".to_owned()));
}

#[test]
fn a_node_taken_out_of_the_plan_finishes_what_runs_on_it() {
    let cluster = three_nodes().taken("n1").label("n1", "pool", "b").job("n1", "");
    assert_eq!(acts(&cluster.published().decide()), []);
}

#[test]
fn a_vanished_node_gives_its_place_back() {
    let mut cluster = three_nodes().taken("n1").updated("n2");
    cluster.nodes.remove("n1");
    assert_eq!(claimed_nodes(&cluster.decide()), ["n3"]);
}

#[test]
fn a_closed_window_keeps_further_nodes_waiting_and_lets_the_ones_out_go_on() {
    // Noon of a Thursday.
    let evening = json!({ "days": ["th"], "startTime": "18:00", "endTime": "22:00" });
    let closed = three_nodes().spec("window", evening).decide();
    assert_eq!(acts(&closed), []);
    assert_eq!(reasons(&closed), [Reason::WindowClosed]);
    assert_eq!(condition(&new_status(&closed), conditions::COMPLETE).1, "Waiting");
    assert!(closed.look_again.is_some());

    let evening = json!({ "days": ["th"], "startTime": "18:00", "endTime": "22:00" });
    assert_eq!(acts(&three_nodes().spec("window", evening).taken("n1").decide())[0].0, Purpose::CreateJob);
    let open = json!({ "days": ["th"], "startTime": "11:00", "endTime": "13:00" });
    assert_eq!(acts(&three_nodes().spec("window", open).decide())[0].0, Purpose::ClaimNodes);
}

#[test]
fn labels_of_the_plan_come_with_the_result() {
    let labels = json!({ "a/version": "$(LATEST_VERSION)", "a/hash": "$(LATEST_HASH)", "a/static": "x" });
    let ended = three_nodes().spec("postCompleteLabels", labels).taken("n1").job("n1", "Complete");
    let labels = patch(&ended.decide(), Purpose::ReleaseNode)["metadata"]["labels"].clone();

    assert_eq!((&labels["a/version"], &labels["a/static"]), (&json!("v2"), &json!("x")));
    assert_eq!(labels["a/hash"], hash());
}

#[test]
fn a_job_is_replaced_when_its_plan_asks_for_something_else() {
    let mut cluster = three_nodes().taken("n1").job("n1", "").published();
    assert_eq!(acts(&cluster.decide()), []);

    let edited = cluster.clone().spec("upgrade", json!({ "image": "img", "args": ["other"] }));
    let delete = edited.decide().writes().find(|write| write.purpose == Purpose::DeleteJob).cloned().unwrap();
    assert_eq!(delete.act, Act::Delete { uid: "uid-job-n1-v2".to_owned() });
    let gone = edited.clone().after(&edited.decide());
    assert_eq!(acts(&gone.decide())[0].0, Purpose::CreateJob);

    // What has ended well has done what was asked for then.
    cluster.jobs[0]["status"]["conditions"] = json!([{ "type": "Complete", "status": "True" }]);
    let ended = cluster.spec("upgrade", json!({ "image": "img", "args": ["other"] }));
    assert_eq!(acts(&ended.decide())[0].0, Purpose::ReleaseNode);
}

#[test]
fn a_node_with_a_name_that_no_label_holds_finds_its_job() {
    let name = format!("{}.example", "n".repeat(70));
    let mut cluster = three_nodes().updated("n1").updated("n2").updated("n3");
    let mut node = cluster.nodes["n1"].clone();
    node["metadata"]["name"] = json!(name);
    node["metadata"]["labels"].as_object_mut().unwrap().remove("plan.upgrade.cattle.io/up");
    cluster.nodes.insert(name.clone(), node);
    let cluster = cluster.taken(&name);
    let decision = cluster.decide();
    let Some(Act::Create(job)) = decision.writes().find(|w| w.purpose == Purpose::CreateJob).map(|w| &w.act) else {
        panic!("no Job is made")
    };
    assert!(job["metadata"]["labels"]["upgrade.cattle.io/node"].as_str().unwrap().len() <= 63);
    let mut running = cluster.published();
    running.jobs.push(job.clone());
    running.jobs[0]["metadata"]["uid"] = json!("uid-job");
    assert_eq!(reasons(&running.decide()), [Reason::JobRunning]);
}

#[test]
fn a_node_with_windows_needs_an_image_that_can_cordon_it() {
    let mut cluster = three_nodes().label("n1", "kubernetes.io/os", "windows").updated("n2").updated("n3");
    let decision = cluster.decide();
    assert_eq!(acts(&decision), []);
    assert!(decision.waits[0].remedy.as_ref().unwrap().contains("SYSTEM_UPGRADE_JOB_KUBECTL_IMAGE_WINDOWS"));

    cluster.settings.kubectl_image_windows = "kubectl:windows".to_owned();
    assert_eq!(purposes(&cluster.decide()), [Purpose::ClaimNodes, Purpose::TakeNode, Purpose::CreateJob]);
}

#[test]
fn two_nodes_with_one_short_name_are_upgraded_side_by_side() {
    let mut cluster = three_nodes().spec("concurrency", json!(2));
    for name in ["n9.a", "n9.b"] {
        let mut node = cluster.nodes["n1"].clone();
        node["metadata"]["name"] = json!(name);
        cluster.nodes.insert(name.to_owned(), node);
    }
    let decision = cluster.taken("n9.a").taken("n9.b").job("n9.a", "").decide();
    let name = crate::plan::names::job("up", "n9.b", true, &LatestHash::of_test(&hash()));
    assert_eq!(acts(&decision), [(Purpose::CreateJob, name)]);
}

#[test]
fn a_plan_that_is_being_deleted_is_left_alone() {
    let mut cluster = three_nodes();
    cluster.plan["metadata"]["deletionTimestamp"] = json!("2026-01-01T11:00:00Z");
    assert_eq!(cluster.decide().stages, Vec::<Vec<_>>::new());
}

#[test]
fn marks_of_a_deleted_plan_are_undone_once_its_job_is_gone() {
    let running = three_nodes().taken("n1").job("n1", "");
    let orphans = |cluster: &Cluster, plans: &[&str]| {
        cluster.view(|view| {
            let jobs = view.jobs.iter().copied();
            undo_orphaned_marks("system-upgrade", &plans.iter().copied().collect(), view.nodes, jobs)
        })
    };
    assert_eq!(orphans(&running, &["uid-up"]), []);
    assert_eq!(orphans(&running, &[]), []);

    let writes = orphans(&three_nodes().taken("n1"), &[]);
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].purpose, Purpose::UndoMarks);
    let Act::Patch(patch) = &writes[0].act else { panic!() };
    assert!(patch["spec"].as_object().unwrap().contains_key("unschedulable"));
}

#[test]
fn a_plan_that_is_made_again_counts_the_node_that_the_one_before_it_left_out() {
    let mut cluster = three_nodes().taken("n1").job("n1", "");
    cluster.plan["metadata"]["uid"] = json!("uid-again");
    cluster.plan["metadata"]["annotations"].as_object_mut().unwrap().remove("drover.dev/claims");
    cluster.jobs[0]["metadata"]["deletionTimestamp"] = json!("2026-01-01T11:59:00Z");

    let decision = cluster.decide();

    assert_eq!(acts(&decision), []);
    let subjects = decision.waits.iter().map(|wait| (wait.subject.name.as_str(), wait.reason, wait.sentence.as_str()));
    assert_eq!(
        subjects.collect::<Vec<_>>(),
        [
            ("up", Reason::ConcurrencyReached, "the other nodes wait for n1"),
            (
                "n1",
                Reason::NodeClaimedByAnother,
                "Node n1 is out for the Plan of this name that was deleted, until its Job and the pod of that are gone"
            ),
        ]
    );
    let two = cluster.spec("concurrency", json!(2)).decide();
    assert_eq!(purposes(&two), [Purpose::RaiseEpoch]);
}

#[test]
fn somebody_who_annotates_the_plan_interrupts_no_job() {
    let running = three_nodes().taken("n1").job("n1", "").published();
    assert_eq!(acts(&running.annotated("example.com/touched", "yes").decide()), []);
}

#[test]
fn a_mark_without_its_label_goes_when_the_node_has_its_result() {
    let mut cluster = three_nodes().taken("n1").updated("n1");
    cluster.nodes.get_mut("n1").unwrap()["metadata"]["labels"].as_object_mut().unwrap().remove("drover.dev/claim");
    let decision = cluster.decide();
    assert_eq!(purposes(&decision)[0], Purpose::ReleaseNode);
    let after = cluster.after(&decision);
    assert_eq!(after.nodes["n1"]["metadata"]["annotations"].get("drover.dev/claim"), None);
    assert_eq!(after.nodes["n1"]["spec"].get("unschedulable"), None);
}
