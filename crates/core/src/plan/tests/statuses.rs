//! What the status and the Events say.

use super::*;

#[test]
fn a_disabled_node_is_not_selected() {
    let cluster = three_nodes().label("n1", "plan.upgrade.cattle.io/up", "disabled").updated("n2").updated("n3");
    let status = new_status(&cluster.decide());
    assert_eq!(status.counts.unwrap().selected, 2);
    assert_eq!(condition(&status, conditions::COMPLETE).0, "True");
}

#[test]
fn a_plan_without_concurrency_is_invalid_and_never_complete() {
    let decision = three_nodes().spec("concurrency", json!(0)).decide();

    assert_eq!(acts(&decision), []);
    let status = new_status(&decision);
    assert_eq!(condition(&status, conditions::VALIDATED).0, "False");
    let (complete, reason, message) = condition(&status, conditions::COMPLETE);
    assert_eq!((complete.as_str(), reason.as_str()), ("False", "NotReady"));
    assert_eq!(message, "plan is not valid and resolved");
}

#[test]
fn a_plan_that_cannot_be_decoded_says_so_itself() {
    let decision = three_nodes().spec("postCompleteDelay", json!({ "five": "minutes" })).decide();

    assert_eq!(reasons(&decision)[0], Reason::PlanInvalid);
    let (status, reason, message) = condition(&new_status(&decision), conditions::VALIDATED);
    assert_eq!((status.as_str(), reason.as_str()), ("False", "Error"));
    assert!(message.starts_with("spec cannot be read: "), "{message}");
}

#[test]
fn a_missing_secret_is_a_state_that_keeps_the_last_good_hash() {
    let secrets = json!([{ "name": "ca", "path": "/ca" }]);
    let decision = three_nodes().taken("n1").job("n1", "").published().spec("secrets", secrets).decide();

    assert_eq!(acts(&decision), []);
    assert_eq!(reasons(&decision)[0], Reason::SecretNotFound);
    let status = new_status(&decision);
    assert_eq!(condition(&status, conditions::VALIDATED).2, r#"secrets "ca" not found"#);
    assert_eq!(status.latest_hash, hash());
}

#[test]
fn a_plan_without_version_and_channel_is_unresolved() {
    let decision = three_nodes().spec("version", json!("")).decide();
    let (status, reason, message) = condition(&new_status(&decision), conditions::LATEST_RESOLVED);
    assert_eq!((status.as_str(), reason.as_str()), ("False", "Error"));
    assert_eq!(message, "cannot resolve plan: missing channel and version");
}

#[test]
fn what_somebody_accepts_is_recorded_once() {
    let cluster = three_nodes().annotated("drover.dev/accept", "DRV-VOL-009, ChannelDowngrade");
    let decision = cluster.decide();

    let (status, reason, message) = condition(&new_status(&decision), conditions::RISKS_ACCEPTED);
    assert_eq!((status.as_str(), reason.as_str()), ("True", "Accepted"));
    assert_eq!(message, "ChannelDowngrade, DRV-VOL-009");
    assert_eq!(told(&decision).iter().filter(|reason| *reason == "RisksAccepted").count(), 1);

    let again = cluster.after(&decision).published().decide();
    assert!(!told(&again).contains(&"RisksAccepted".to_owned()));
}

#[test]
fn what_is_no_longer_accepted_stays_on_record() {
    let cluster = three_nodes().annotated("drover.dev/accept", "DRV-VOL-009").published();
    let decision = cluster.annotated("drover.dev/accept", "").decide();

    let (status, reason, message) = condition(&new_status(&decision), conditions::RISKS_ACCEPTED);
    assert_eq!((status.as_str(), reason.as_str(), message.as_str()), ("False", "Withdrawn", "DRV-VOL-009"));
    assert!(told(&decision).contains(&"RisksWithdrawn".to_owned()));
}

#[test]
fn a_plan_that_accepts_nothing_says_nothing_of_it() {
    let status = new_status(&three_nodes().decide());
    assert!(status.conditions.iter().all(|condition| condition.type_ != conditions::RISKS_ACCEPTED));
}

#[test]
fn the_status_mirrors_the_claims_by_hostname() {
    let status = new_status(&three_nodes().taken("n1").job("n1", "").decide());
    assert_eq!(status.applying, ["host-n1"]);
    let counts = status.counts.unwrap();
    assert_eq!((counts.selected, counts.updated, counts.applying, counts.waiting, counts.failed), (3, 0, 1, 2, 0));
    assert_eq!(condition(&status, conditions::COMPLETE).1, "SyncJob");
}

#[test]
fn each_selected_node_is_counted_once_whatever_else_is_out() {
    let cluster = three_nodes().spec("concurrency", json!(2)).taken("n1").job("n1", "").taken("n2").job("n2", "Failed");
    // A node that the Plan no longer selects finishes what runs on it, and counts no longer.
    let cluster = cluster.label("n1", "pool", "b");
    let status = new_status(&cluster.decide());

    let counts = status.counts.unwrap();
    assert_eq!((counts.selected, counts.updated, counts.applying, counts.waiting, counts.failed), (2, 0, 0, 1, 1));
    assert_eq!(status.applying, ["host-n1", "host-n2"]);
    let (_, _, message) = condition(&status, conditions::PROGRESSING);
    assert!(message.starts_with("0 of 2 nodes updated, 1 waiting, 1 failed; "), "{message}");
}

#[test]
fn the_last_update_of_a_condition_moves_with_status_or_message_and_not_with_the_reason() {
    let published = three_nodes().taken("n1").job("n1", "").published();
    let time = |status: &PlanStatus| {
        status.conditions.iter().find(|c| c.type_ == conditions::COMPLETE).unwrap().last_update_time.clone()
    };
    let before = published.clone().decide();
    assert_eq!(before.stages, Vec::<Vec<_>>::new());

    // From SyncJob to Resolved: both are false without a message.
    let mut idle = published.clone().label("n1", "pool", "b").label("n2", "pool", "b").not_ready("n3");
    idle.jobs.clear();
    idle.nodes.get_mut("n1").unwrap()["metadata"]["annotations"] = json!({});
    idle.nodes.get_mut("n1").unwrap()["metadata"]["labels"].as_object_mut().unwrap().remove("drover.dev/claim");
    idle.plan["metadata"]["annotations"] = json!({});
    let later = idle.decide_at(at("2026-01-01T13:00:00Z"));
    assert_eq!(condition(&new_status(&later), conditions::COMPLETE).1, "Resolved");
    assert_eq!(time(&new_status(&later)), "2026-01-01T12:00:00Z");
}

#[test]
fn a_finished_plan_is_complete_and_quiet() {
    let done = three_nodes().updated("n1").updated("n2").updated("n3");
    let status = new_status(&done.decide());
    assert_eq!(condition(&status, conditions::COMPLETE), ("True".into(), "Complete".into(), String::new()));

    let quiet = done.published().decide();
    let counts = quiet.counts.unwrap_or_default();
    assert_eq!((counts.selected, counts.updated), (3, 3));
    assert_eq!(quiet, Decision { counts: Some(counts), ..Decision::default() });
}

#[test]
fn a_wiped_status_is_written_again_from_the_facts() {
    let cluster = three_nodes().taken("n1").job("n1", "").published();
    let mut wiped = cluster.clone();
    wiped.plan["status"] = json!({});

    let status = new_status(&wiped.decide());
    assert_eq!(json!(status), cluster.plan["status"]);
}

#[test]
fn a_wait_keeps_the_moment_it_began() {
    let later = "2026-01-01T12:05:00Z".parse().unwrap();
    let decision = three_nodes().taken("n1").job("n1", "").published().decide_at(later);
    assert_eq!(decision.waits.iter().map(|wait| wait.since).collect::<Vec<_>>(), [noon(), noon()]);
}

#[test]
fn a_wait_keeps_its_beginning_even_if_the_installed_definition_prunes_the_list() {
    let mut cluster = three_nodes().taken("n1").job("n1", "").published();
    cluster.plan["status"].as_object_mut().unwrap().remove("waits");
    let decision = cluster.decide_at("2026-01-01T12:05:00Z".parse().unwrap());
    assert_eq!(decision.waits[0].since, noon());
}

#[test]
fn the_status_is_written_at_most_once_a_second() {
    let mut cluster = three_nodes().taken("n1").job("n1", "");
    cluster.status_written = Some(noon());
    let decision = cluster.decide_at("2026-01-01T12:00:00.4Z".parse().unwrap());

    assert_eq!(decision.stages, Vec::<Vec<_>>::new());
    assert_eq!(decision.look_again, Some("2026-01-01T12:00:01Z".parse().unwrap()));
}

#[test]
fn a_clock_that_was_set_back_keeps_no_status_from_being_written() {
    let mut cluster = three_nodes().taken("n1").job("n1", "");
    cluster.status_written = Some(noon());
    let decision = cluster.decide_at("2026-01-01T11:00:01Z".parse().unwrap());

    let purposes: Vec<Purpose> = decision.writes().map(|write| write.purpose).collect();
    assert!(purposes.contains(&Purpose::PublishStatus), "{purposes:?}");
}

#[test]
fn a_refused_write_is_published_before_it_is_tried_again() {
    let mut cluster = three_nodes().claimed("n1").published();
    let sentence = "cannot patch Node/n1: forbidden".to_owned();
    cluster.trouble = vec![Trouble { reason: Reason::NoPermission, sentence, remedy: None, blind: false }];
    let decision = cluster.decide();

    assert!(reasons(&decision).contains(&Reason::NoPermission));
    let purposes: Vec<Purpose> = decision.writes().map(|write| write.purpose).collect();
    assert_eq!(purposes, [Purpose::PublishStatus, Purpose::TakeNode]);
}

#[test]
fn who_cannot_see_the_nodes_says_so_and_touches_nothing_else() {
    let mut cluster = three_nodes().taken("n1").job("n1", "").published();
    let sentence = "cannot watch nodes: forbidden".to_owned();
    cluster.trouble = vec![Trouble { reason: Reason::NoPermission, sentence, remedy: None, blind: true }];
    let decision = cluster.decide();

    assert_eq!(acts(&decision), []);
    assert_eq!(new_status(&decision).applying, ["host-n1"]);
}

#[test]
fn events_tell_each_transition_once() {
    let cluster = three_nodes().taken("n1").job("n1", "");
    assert_eq!(told(&cluster.decide()), ["Validated", "Resolved", "SyncJob"]);
    assert_eq!(told(&cluster.published().decide()), Vec::<String>::new());
}

/// What a drain of n1 tells while a budget forbids it to go on.
fn held_up() -> String {
    let wait = json!([{
        "subject": { "kind": "Pod", "namespace": "shop", "name": "web-1" }, "reason": "BudgetForbids",
        "sentence": "PodDisruptionBudget shop/web forbids to evict Pod shop/web-1 from Node n1",
        "since": "2026-01-01T11:50:00Z",
    }]);
    wait.to_string()
}

#[test]
fn a_drain_that_is_held_up_is_told_first_with_the_budget_that_forbids_it() {
    let mut cluster = three_nodes().taken("n1").job("n1", "").published();
    let job = cluster.jobs[0]["metadata"]["name"].clone();
    cluster.pods.push(json!({ "metadata": {
        "name": "a-pod", "labels": { "batch.kubernetes.io/job-name": job },
        "annotations": { "drover.dev/waits": held_up() },
    } }));

    let decision = cluster.decide();

    assert_eq!(decision.waits[0].reason, Reason::BudgetForbids);
    assert_eq!(decision.waits[0].since, "2026-01-01T11:50:00Z".parse().unwrap());
    assert_eq!(told(&decision), ["DrainHeldUp"]);
    assert_eq!(told(&cluster.published().decide()), Vec::<String>::new());
}

#[test]
fn a_drain_that_may_not_write_on_its_pod_is_heard_on_its_node_until_the_node_is_released() {
    let tells = |cluster: Cluster| cluster.node_annotation("n1", "drover.dev/waits", &held_up());

    let held_up = tells(three_nodes().taken("n1").job("n1", "").published()).decide();
    assert_eq!(held_up.waits[0].reason, Reason::BudgetForbids);
    assert_eq!(told(&held_up), ["DrainHeldUp"]);

    let complete = tells(three_nodes().taken("n1").job("n1", "Complete"));
    let released = complete.clone().after(&complete.decide());
    assert_eq!(released.nodes["n1"]["metadata"]["annotations"], json!({}));
}

#[test]
fn words_on_a_pod_that_cannot_be_read_say_nothing() {
    let mut cluster = three_nodes().taken("n1").job("n1", "").published();
    let labels = json!({ "batch.kubernetes.io/job-name": cluster.jobs[0]["metadata"]["name"] });
    let annotations = json!({ "drover.dev/waits": "[{" });
    cluster.pods.push(json!({ "metadata": { "name": "a-pod", "labels": labels, "annotations": annotations } }));
    assert_eq!(reasons(&cluster.decide()), [Reason::JobRunning, Reason::ConcurrencyReached]);
}

#[test]
fn a_repeated_decision_announces_under_the_same_name() {
    let names = |decision: Decision| -> Vec<String> {
        let events = decision
            .writes()
            .filter(|write| write.purpose == Purpose::Announce)
            .map(|write| write.subject.name.clone());
        events.collect()
    };
    let cluster = three_nodes().taken("n1").job("n1", "");
    let later = "2026-01-01T12:01:00Z".parse().unwrap();
    assert_eq!(names(cluster.decide()), names(cluster.decide_at(later)));
}

#[test]
fn a_wait_reads_the_same_for_as_long_as_it_lasts() {
    let sentences = |decision: Decision| decision.waits.into_iter().map(|wait: Wait| wait.sentence).collect::<Vec<_>>();
    let cluster = three_nodes().taken("n1").job("n1", "");
    let later = "2026-01-01T12:07:00Z".parse().unwrap();
    assert_eq!(sentences(cluster.decide()), sentences(cluster.decide_at(later)));
}

#[test]
fn a_secret_that_must_not_be_read_leaves_the_hash_as_it_was_published() {
    let secrets = json!([{ "name": "ca", "path": "/ca" }, { "name": "token", "path": "/t", "ignoreUpdates": true }]);
    let mut read = three_nodes().spec("secrets", secrets);
    read.secrets = vec![json!({ "metadata": { "name": "ca", "resourceVersion": "5" }, "data": { "ca": "YQ==" } })];
    let read = read.published();
    let published = read.plan["status"]["latestHash"].as_str().unwrap().to_owned();
    let next = |unread: &'static str, version: &str| {
        let mut cluster = read.clone().spec("version", json!(version));
        cluster.secrets.retain(|secret| secret["metadata"]["name"] != unread);
        cluster.unread = vec![unread];
        cluster.decide()
    };

    let unread = next("ca", "v3");
    assert_eq!(new_status(&unread).latest_hash, published);
    assert!(!reasons(&unread).contains(&Reason::SecretNotFound), "it is there");
    let reckoned = new_status(&next("token", "v3")).latest_hash;
    assert!(!reckoned.is_empty() && reckoned != published, "a Secret whose updates are ignored hides nothing");
    assert_eq!(new_status(&next("other", "v3")).latest_hash, reckoned);

    let mut first = read.clone();
    first.plan["status"] = Value::Null;
    (first.secrets, first.unread) = (Vec::new(), vec!["ca"]);
    assert_eq!(reasons(&first.decide())[0], Reason::SecretNotFound, "there is no hash yet to go on with");
}
