//! Nodes whose Jobs fail.

use super::*;

const ENDED: &str = "2026-01-01T11:55:00Z";

/// n1 has failed for the n-th time, at five to twelve, and that has been counted.
fn failed(attempts: u32) -> Cluster {
    let cluster = three_nodes().taken("n1").job("n1", "Failed");
    let cluster = cluster.clone().after(&cluster.decide());
    let mut mark = mark(&cluster, "n1");
    assert_eq!(mark["failed"]["attempts"], 1);
    mark["failed"]["attempts"] = json!(attempts);
    cluster.node_annotation("n1", "drover.dev/claim", &mark.to_string())
}

fn mark(cluster: &Cluster, node: &str) -> Value {
    let text = cluster.nodes[node]["metadata"]["annotations"]["drover.dev/claim"].as_str().unwrap();
    serde_json::from_str(text).unwrap()
}

fn minutes_after_the_end(minutes: i64) -> Timestamp {
    at(ENDED).checked_add(SignedDuration::from_mins(minutes)).unwrap()
}

#[test]
fn a_failed_node_stays_out_and_says_why() {
    let decision = three_nodes().taken("n1").job("n1", "Failed").decide();

    assert_eq!(acts(&decision), [(Purpose::NoteFailure, "n1".to_owned())]);
    assert_eq!(reasons(&decision), [Reason::JobFailed, Reason::TooManyNodesFailed]);
    assert!(decision.waits[0].remedy.as_ref().unwrap().contains("kubectl delete job -n system-upgrade apply-up-on-n1"));
    let (status, reason, message) = condition(&new_status(&decision), conditions::COMPLETE);
    assert_eq!((status.as_str(), reason.as_str()), ("False", "JobFailed"));
    assert!(message.ends_with("failed on Node n1: BackoffLimitExceeded: too often"), "{message}");
}

#[test]
fn a_failure_is_counted_once_and_on_the_node() {
    let cluster = failed(1);
    assert_eq!(acts(&cluster.decide_at(at("2026-01-01T11:55:30Z"))), []);
    assert_eq!(mark(&cluster, "n1")["failed"]["job"], "uid-job-n1-v2");
}

#[test]
fn free_places_go_on_while_a_node_has_failed() {
    let decision = failed(1).spec("concurrency", json!(2)).decide_at(at("2026-01-01T11:55:30Z"));
    assert_eq!(claimed_nodes(&decision).len(), 2);
}

#[test]
fn a_failed_node_is_tried_again_after_1_2_4_and_at_most_30_minutes() {
    for (attempts, minutes) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 30), (60, 30)] {
        let cluster = failed(attempts);
        let due = minutes_after_the_end(minutes);
        let early = cluster.decide_at(due.checked_sub(SignedDuration::from_secs(1)).unwrap());
        assert_eq!(acts(&early), [], "{attempts}");
        assert_eq!(early.look_again, Some(due), "{attempts}");
        assert_eq!(early.waits[0].deadline, Some(due), "{attempts}");
        assert_eq!(purposes(&cluster.decide_at(due)), [Purpose::DeleteJob], "{attempts}");

        let gone = cluster.clone().after(&cluster.decide_at(due));
        assert_eq!(purposes(&gone.decide_at(due)), [Purpose::CreateJob], "{attempts}");
    }
}

#[test]
fn the_count_goes_on_when_it_fails_again() {
    let mut cluster = failed(2);
    cluster.jobs[0]["metadata"]["uid"] = json!("uid-of-the-third");
    let cluster = cluster.clone().after(&cluster.decide());
    assert_eq!(mark(&cluster, "n1")["failed"]["attempts"], 3);
}

#[test]
fn a_change_of_the_plan_starts_the_count_anew_and_tries_at_once() {
    let edited = failed(5).spec("version", json!("v3"));
    assert_eq!(purposes(&edited.decide()), [Purpose::CreateJob, Purpose::DeleteJob]);
    let mut cluster = failed(5);
    let mut other = mark(&cluster, "n1");
    other["failed"]["wish"] = json!("what was asked for before");
    cluster.jobs[0]["metadata"]["uid"] = json!("uid-of-another");
    let cluster = cluster.node_annotation("n1", "drover.dev/claim", &other.to_string());
    let cluster = cluster.clone().after(&cluster.decide());
    assert_eq!(mark(&cluster, "n1")["failed"]["attempts"], 1);
}

#[test]
fn who_deletes_the_failed_job_tries_again_at_once() {
    let mut cluster = failed(6);
    cluster.jobs.clear();
    assert_eq!(purposes(&cluster.decide_at(minutes_after_the_end(14))), [Purpose::CreateJob]);
}

#[test]
fn a_failed_job_that_was_kept_long_enough_is_not_taken_for_one_that_somebody_deleted() {
    let mut cluster = failed(6);
    cluster.jobs.clear();
    let decision = cluster.decide_at(minutes_after_the_end(16));
    assert_eq!(acts(&decision), []);
    assert_eq!(reasons(&decision)[0], Reason::JobFailed);
    assert_eq!(decision.look_again, Some(minutes_after_the_end(30)));
    assert_eq!(purposes(&cluster.decide_at(minutes_after_the_end(30))), [Purpose::CreateJob]);
}

#[test]
fn a_person_can_ask_for_another_try_on_the_node() {
    let asked = failed(6).node_annotation("n1", "drover.dev/retry", "now");
    let noted = asked.clone().after(&asked.decide());
    assert_eq!(purposes(&asked.decide()), [Purpose::NoteFailure]);
    assert_eq!(noted.nodes["n1"]["metadata"]["annotations"].get("drover.dev/retry"), None);
    assert_eq!(purposes(&noted.decide()), [Purpose::DeleteJob]);
}

#[test]
fn a_paused_plan_does_not_try_again() {
    let paused = failed(1).annotated("drover.dev/paused", "");
    assert_eq!(acts(&paused.decide_at(minutes_after_the_end(60))), []);
}

#[test]
fn a_failed_node_that_leaves_the_plan_goes_back_to_service() {
    let left = failed(1).label("n1", "pool", "b");
    assert_eq!(purposes(&left.decide())[..2], [Purpose::ReleaseNode, Purpose::ClaimNodes]);
}

#[test]
fn a_plan_that_continues_sets_a_node_aside_after_the_third_failure_once_it_is_ready() {
    let cluster = failed(3).annotated("drover.dev/on-failure", "continue").spec("concurrency", json!(2));
    assert_eq!(acts(&cluster.clone().not_ready("n1").taken("n2").job("n2", "").decide()), []);
    let decision = cluster.decide();
    assert_eq!(purposes(&decision)[..2], [Purpose::SetAside, Purpose::ClaimNodes]);
    assert_eq!(claimed_nodes(&decision), ["n2", "n3"]);

    let aside = cluster.clone().after(&decision);
    let node = &aside.nodes["n1"];
    assert_eq!(node["spec"]["unschedulable"], true);
    assert_eq!(node["metadata"]["labels"].get("drover.dev/claim"), None);
    assert_eq!(node["metadata"]["annotations"].get("drover.dev/claim"), None);
    let counts = new_status(&aside.decide()).counts.unwrap();
    assert_eq!((counts.selected, counts.applying, counts.failed), (3, 2, 1));
}

/// n1 has been set aside by this Plan.
fn set_aside() -> Cluster {
    let cluster = failed(3).annotated("drover.dev/on-failure", "continue").updated("n2").updated("n3");
    let cluster = cluster.clone().after(&cluster.decide());
    assert_eq!(cluster.claims().nodes.len(), 0);
    cluster
}

#[test]
fn at_as_many_failed_nodes_as_may_be_out_the_plan_waits() {
    let mut cluster = set_aside();
    let labels = cluster.nodes.get_mut("n3").unwrap()["metadata"]["labels"].as_object_mut().unwrap();
    labels.remove("plan.upgrade.cattle.io/up");
    let decision = cluster.decide();

    assert_eq!(acts(&decision), []);
    assert_eq!(reasons(&decision), [Reason::TooManyNodesFailed, Reason::JobFailed]);
    assert!(purposes(&cluster.spec("concurrency", json!(2)).decide()).contains(&Purpose::ClaimNodes));
}

#[test]
fn no_more_nodes_are_set_aside_than_may_be_out_and_whoever_fails_then_keeps_its_claim() {
    let soon = at("2026-01-01T11:55:30Z");
    let both = failed(3).taken("n2").job("n2", "Failed").spec("concurrency", json!(2));
    let both = both.clone().after(&both.decide_at(soon));
    let mut third = mark(&both, "n2");
    third["failed"]["attempts"] = json!(3);
    let both = both.node_annotation("n2", "drover.dev/claim", &third.to_string());
    let both = both.annotated("drover.dev/on-failure", "continue").updated("n3");
    let set_aside = |decision: &Decision| purposes(decision).iter().filter(|one| **one == Purpose::SetAside).count();

    assert_eq!(set_aside(&both.decide_at(soon)), 2);
    let one_too_many = both.spec("concurrency", json!(1));
    let decision = one_too_many.decide_at(soon);
    assert_eq!(set_aside(&decision), 1);
    assert_eq!(claimed_nodes(&decision), ["n2"]);
    let later = one_too_many.clone().after(&decision);
    assert_eq!(set_aside(&later.decide_at(soon)), 0);
    assert_eq!(purposes(&later.decide_at(minutes_after_the_end(4))), [Purpose::DeleteJob]);
}

#[test]
fn a_node_that_was_set_aside_is_tried_again_when_asked_for_or_when_the_plan_changes() {
    assert_eq!(acts(&set_aside().decide()), []);
    for cluster in [
        set_aside().node_annotation("n1", "drover.dev/retry", "now"),
        set_aside().spec("version", json!("v3")).label("n2", "pool", "b").label("n3", "pool", "b"),
    ] {
        let mut cluster = cluster;
        cluster.jobs.clear();
        let decision = cluster.decide();
        assert_eq!(purposes(&decision), [Purpose::ClaimNodes, Purpose::TakeNode, Purpose::CreateJob]);
        let taken = cluster.after(&decision);
        // The cordon is still ours, and goes when it succeeds.
        assert_eq!(mark(&taken, "n1")["cordoned"], true);
        let annotations = taken.nodes["n1"]["metadata"]["annotations"].as_object().unwrap();
        assert_eq!(annotations.keys().collect::<Vec<_>>(), ["drover.dev/claim"]);
    }
}

#[test]
fn a_node_that_was_set_aside_and_leaves_the_plan_goes_back_to_service() {
    let left = set_aside().label("n1", "pool", "b");
    let decision = left.decide();
    assert_eq!(purposes(&decision), [Purpose::UndoMarks]);
    let node = left.after(&decision).nodes["n1"].clone();
    assert_eq!((&node["spec"]["unschedulable"], &node["metadata"]["annotations"]), (&Value::Null, &json!({})));
}

#[test]
fn a_claim_of_a_node_that_was_set_aside_ends_even_if_a_crash_came_between() {
    let cluster = failed(3).annotated("drover.dev/on-failure", "continue").updated("n2").updated("n3");
    let mut decision = cluster.decide();
    decision.stages.retain(|stage| stage[0].purpose == Purpose::SetAside);
    let crashed = cluster.after(&decision);
    assert_eq!(purposes(&crashed.decide()), [Purpose::ClaimNodes]);
    assert_eq!(claimed_nodes(&crashed.decide()), [""; 0]);
}

#[test]
fn marks_of_a_node_that_was_set_aside_go_with_its_plan() {
    let writes =
        set_aside().view(|view| undo_orphaned_marks("system-upgrade", &BTreeSet::new(), view.nodes, [].into_iter()));
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].purpose, Purpose::UndoMarks);
}

#[test]
fn a_failure_that_was_counted_by_a_clock_that_ran_ahead_is_tried_again_after_a_pause_by_this_one() {
    let (cluster, early) = (failed(2), at("2026-01-01T11:00:00Z"));
    let decision = cluster.decide_at(early);
    assert_eq!(acts(&decision), [(Purpose::NoteFailure, "n1".to_owned())]);

    let cluster = cluster.clone().after(&decision);
    assert_eq!(mark(&cluster, "n1")["failed"]["attempts"], 2);
    let waiting = cluster.decide_at(early);
    assert_eq!(acts(&waiting), []);
    assert_eq!(waiting.look_again, Some(at("2026-01-01T11:02:00Z")));
    assert_eq!(purposes(&cluster.decide_at(at("2026-01-01T11:02:00Z"))), [Purpose::DeleteJob]);
}

#[test]
fn a_failure_is_not_counted_as_of_a_moment_that_lies_ahead() {
    let early = at("2026-01-01T11:00:00Z");
    let cluster = three_nodes().taken("n1").job("n1", "Failed");
    let cluster = cluster.clone().after(&cluster.decide_at(early));
    assert_eq!(mark(&cluster, "n1")["failed"]["at"], "2026-01-01T11:00:00Z");
}
