use k8s_openapi::api::batch::v1::UncountedTerminatedPods;
use serde_json::{Value, json};

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_268_800 + seconds).unwrap()
}

fn job(spec: Value) -> Job {
    let mut job = json!({
        "metadata": {"name": "apply", "namespace": "system-upgrade", "uid": "job-1"},
        "spec": {
            "completions": 1, "parallelism": 1, "backoffLimit": 2,
            "template": {
                "metadata": {"labels": {"plan": "k3s"}, "annotations": {"note": "kept"}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "upgrade"}]},
            },
        },
    });
    job["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    serde_json::from_value(job).unwrap()
}

fn started(mut job: Job) -> Job {
    job.status = Some(JobStatus { start_time: Some(stamp(at(0))), ..JobStatus::default() });
    job
}

/// A pod in a phase; one that has ended did so ten seconds after the start.
fn pod(name: &str, phase: &str) -> Pod {
    let ended = matches!(phase, pods::SUCCEEDED | pods::FAILED);
    let state =
        if ended { json!({"terminated": {"exitCode": 1, "finishedAt": at(10).to_string()}}) } else { json!({}) };
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "system-upgrade", "uid": name, "finalizers": [TRACKING]},
        "spec": {"containers": []},
        "status": {
            "phase": phase,
            "containerStatuses": [{"name": "upgrade", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state}],
        },
    }))
    .unwrap()
}

fn leaving(mut pod: Pod) -> Pod {
    pod.metadata.deletion_timestamp = Some(stamp(at(40)));
    pod.metadata.deletion_grace_period_seconds = Some(30);
    pod
}

fn untracked(mut pod: Pod) -> Pod {
    pod.metadata.finalizers = None;
    pod
}

fn created(outcome: &Outcome) -> Vec<&Pod> {
    outcome
        .actions
        .iter()
        .filter_map(|act| if let Action::CreatePod(pod) = act { Some(&**pod) } else { None })
        .collect()
}

fn status(outcome: &Outcome) -> JobStatus {
    let mut written = outcome
        .actions
        .iter()
        .filter_map(|act| if let Action::JobStatus(job) = act { job.status.clone() } else { None });
    written.next_back().expect("a status was written")
}

fn conditions(status: &JobStatus) -> Vec<String> {
    let all = status.conditions.iter().flatten();
    all.map(|one| {
        format!("{}={} {}: {}", one.type_, one.status, one.reason.clone().unwrap(), one.message.clone().unwrap())
    })
    .collect()
}

fn deleted(name: &str) -> Action {
    Action::DeletePod { namespace: "system-upgrade".into(), name: name.into(), uid: name.into() }
}

fn released(name: &str) -> Action {
    Action::ReleasePod { namespace: "system-upgrade".into(), name: name.into() }
}

/// The Job as the store has it after `outcome`.
fn after(outcome: &Outcome, job: &Job) -> Job {
    Job { status: Some(status(outcome)), ..job.clone() }
}

#[test]
fn a_new_job_gets_one_pod_made_from_its_template() {
    let outcome = reconcile(&job(json!({})), &[], at(0));

    let [pod] = created(&outcome)[..] else { panic!("one pod") };
    assert_eq!(pod.metadata.generate_name.as_deref(), Some("apply-"));
    assert_eq!(pod.metadata.labels.as_ref().unwrap()["plan"], "k3s");
    assert_eq!(pod.metadata.annotations.as_ref().unwrap()["note"], "kept");
    let owner = pods::controller(&pod.metadata).unwrap();
    assert_eq!((owner.kind.as_str(), owner.name.as_str(), owner.uid.as_str()), ("Job", "apply", "job-1"));
    assert!(pods::has_finalizer(&pod.metadata, TRACKING));
    assert_eq!(status(&outcome).start_time, Some(stamp(at(0))));
    assert_eq!(status(&outcome).active, Some(1));
}

#[test]
fn a_job_with_parallelism_zero_starts_and_waits() {
    let outcome = reconcile(&job(json!({"parallelism": 0})), &[], at(0));

    assert_eq!(created(&outcome).len(), 0);
    assert_eq!(status(&outcome).start_time, Some(stamp(at(0))));
    assert_eq!(status(&outcome).active, None);
}

#[test]
fn a_job_whose_pod_runs_has_nothing_to_write() {
    let running = [pod("p1", pods::RUNNING)];
    let first = reconcile(&started(job(json!({}))), &running, at(1));
    let second = reconcile(&after(&first, &job(json!({}))), &running, at(2));

    assert_eq!(second, Outcome::nothing());
}

#[test]
fn a_succeeded_pod_is_noted_before_it_is_released_and_counted_afterwards() {
    let succeeded = pod("p1", pods::SUCCEEDED);
    let noted = reconcile(&started(job(json!({}))), std::slice::from_ref(&succeeded), at(10));

    let written = status(&noted);
    assert_eq!(written.uncounted_terminated_pods.as_ref().unwrap().succeeded, Some(vec!["p1".to_string()]));
    assert_eq!(written.succeeded, None);
    assert_eq!(
        conditions(&written),
        ["SuccessCriteriaMet=True CompletionsReached: Reached expected number of succeeded pods"]
    );
    assert_eq!(noted.actions.last(), Some(&released("p1")));

    let done = reconcile(&after(&noted, &job(json!({}))), &[untracked(succeeded)], at(11));
    let written = status(&done);
    assert_eq!(written.succeeded, Some(1));
    assert_eq!(written.uncounted_terminated_pods, Some(UncountedTerminatedPods::default()));
    assert_eq!(written.completion_time, Some(stamp(at(11))));
    assert_eq!(conditions(&written)[1], "Complete=True CompletionsReached: Reached expected number of succeeded pods");

    assert_eq!(reconcile(&after(&done, &job(json!({}))), &[], at(12)), Outcome::nothing(), "a finished Job rests");
}

#[test]
fn a_failed_pod_is_replaced_ten_seconds_later() {
    let failed = [pod("p1", pods::FAILED)];
    let job = started(job(json!({})));

    let waiting = reconcile(&job, &failed, at(12));
    assert_eq!(created(&waiting).len(), 0);
    assert_eq!(waiting.wake, Some(at(20)));
    assert_eq!(created(&reconcile(&job, &failed, at(20))).len(), 1);
}

#[test]
fn each_further_failure_doubles_the_wait_up_to_ten_minutes() {
    let mut job = started(job(json!({"backoffLimit": 20})));
    for (failures, wait) in [(1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (19, 600)] {
        job.status.as_mut().unwrap().failed = Some(failures);
        let outcome = reconcile(&job, &[untracked(pod("p1", pods::FAILED))], at(11));
        assert_eq!(outcome.wake, Some(at(10 + wait)), "after {failures} failures");
    }
}

#[test]
fn one_failure_more_than_the_limit_fails_the_job() {
    let mut job = started(job(json!({})));
    job.status.as_mut().unwrap().failed = Some(2);
    let third = pod("p3", pods::FAILED);

    let verdict = reconcile(&job, std::slice::from_ref(&third), at(50));
    assert_eq!(
        conditions(&status(&verdict)),
        ["FailureTarget=True BackoffLimitExceeded: Job has reached the specified backoff limit"]
    );
    assert_eq!(status(&verdict).failed, Some(2));

    let end = reconcile(&after(&verdict, &job), &[untracked(third)], at(51));
    assert_eq!(status(&end).failed, Some(3));
    assert_eq!(
        conditions(&status(&end))[1],
        "Failed=True BackoffLimitExceeded: Job has reached the specified backoff limit"
    );
    assert_eq!(status(&end).completion_time, None);
}

#[test]
fn a_job_that_is_active_for_too_long_loses_its_pod_before_it_fails() {
    let job = started(job(json!({"activeDeadlineSeconds": 60})));
    let running = pod("p1", pods::RUNNING);
    assert_eq!(reconcile(&job, std::slice::from_ref(&running), at(59)).wake, Some(at(60)));

    let verdict = reconcile(&job, std::slice::from_ref(&running), at(60));
    assert_eq!(verdict.actions.first(), Some(&deleted("p1")));
    assert_eq!(
        conditions(&status(&verdict)),
        ["FailureTarget=True DeadlineExceeded: Job was active longer than specified deadline"]
    );

    let job = after(&verdict, &job);
    let waits = reconcile(&job, &[untracked(leaving(running))], at(61));
    assert_eq!(conditions(&status(&waits)).len(), 1, "a pod is still terminating");
    let end = reconcile(&after(&waits, &job), &[], at(62));
    assert_eq!(
        conditions(&status(&end))[1],
        "Failed=True DeadlineExceeded: Job was active longer than specified deadline"
    );
    assert_eq!(status(&end).failed, Some(1), "the pod that was cut off counts as failed");
}

#[test]
fn a_pod_deleted_by_hand_counts_as_failed_and_is_replaced() {
    let job = started(job(json!({})));
    let gone = leaving(pod("p1", pods::RUNNING));

    let noted = reconcile(&job, std::slice::from_ref(&gone), at(11));
    assert_eq!(status(&noted).uncounted_terminated_pods.as_ref().unwrap().failed, Some(vec!["p1".to_string()]));
    assert_eq!(status(&noted).terminating, Some(1));
    assert_eq!(noted.actions.last(), Some(&released("p1")));

    assert_eq!(created(&reconcile(&after(&noted, &job), &[untracked(gone)], at(20))).len(), 1);
}

#[test]
fn a_job_that_replaces_only_failed_pods_waits_for_the_end_of_a_terminating_one() {
    let job = started(job(json!({"podReplacementPolicy": "Failed"})));
    let leaving = leaving(pod("p1", pods::RUNNING));

    let outcome = reconcile(&job, &[leaving], at(30));

    assert_eq!(created(&outcome).len(), 0);
    assert_eq!(status(&outcome).terminating, Some(1));
    assert_eq!(status(&outcome).uncounted_terminated_pods, Some(UncountedTerminatedPods::default()));
}

#[test]
fn a_suspended_job_ends_its_pods_without_counting_them() {
    let job = started(job(json!({"suspend": true})));

    let outcome = reconcile(&job, &[pod("p1", pods::RUNNING)], at(5));

    assert_eq!(outcome.actions[..2], [released("p1"), deleted("p1")]);
    assert_eq!(conditions(&status(&outcome)), ["Suspended=True JobSuspended: Job suspended"]);
    assert_eq!(status(&outcome).uncounted_terminated_pods, Some(UncountedTerminatedPods::default()));
}

#[test]
fn a_resumed_job_starts_its_deadline_anew() {
    let suspended = reconcile(&job(json!({"suspend": true})), &[], at(0));
    let resumed = after(&suspended, &job(json!({"suspend": false, "activeDeadlineSeconds": 60})));

    let outcome = reconcile(&resumed, &[], at(100));

    assert_eq!(conditions(&status(&outcome)), ["Suspended=False JobResumed: Job resumed"]);
    assert_eq!(status(&outcome).start_time, Some(stamp(at(100))));
    assert_eq!(created(&outcome).len(), 1);
}

#[test]
fn lowering_parallelism_ends_the_pod_that_has_come_least_far() {
    let job = started(job(json!({"completions": 2, "parallelism": 1})));

    let outcome = reconcile(&job, &[pod("a", pods::RUNNING), pod("b", pods::PENDING)], at(5));

    assert_eq!(outcome.actions[..2], [released("b"), deleted("b")]);
    assert_eq!(status(&outcome).active, Some(1));
}

#[test]
fn restarts_in_place_use_up_the_limit() {
    let mut spec = job(json!({}));
    spec.spec.as_mut().unwrap().template.spec.as_mut().unwrap().restart_policy = Some("OnFailure".into());
    let mut restarted = pod("p1", pods::RUNNING);
    restarted.status.as_mut().unwrap().container_statuses.as_mut().unwrap()[0].restart_count = 2;

    let outcome = reconcile(&started(spec), &[restarted], at(50));

    assert!(conditions(&status(&outcome))[0].starts_with("FailureTarget=True BackoffLimitExceeded"));
}

#[test]
fn a_job_that_is_being_deleted_lets_its_pods_go() {
    let mut job = started(job(json!({})));
    job.metadata.deletion_timestamp = Some(stamp(at(5)));

    let outcome = reconcile(&job, &[pod("p1", pods::RUNNING)], at(5));

    assert_eq!(outcome.actions.last(), Some(&released("p1")));
    assert_eq!(created(&outcome).len(), 0);
}

#[test]
fn a_pod_whose_job_is_gone_is_released() {
    let orphan = pod("p1", pods::RUNNING);

    assert_eq!(release_orphan(&orphan, true), Outcome::nothing());
    assert_eq!(release_orphan(&orphan, false).actions, [released("p1")]);
    assert_eq!(release_orphan(&untracked(orphan), false), Outcome::nothing());
}

#[test]
fn a_finished_job_is_deleted_when_its_time_to_live_has_passed() {
    let mut job = started(job(json!({"ttlSecondsAfterFinished": 900})));
    assert_eq!(ttl::expire(&job, at(5)), Outcome::nothing());
    conditions::finish(job.status.as_mut().unwrap(), &Verdict::completions_reached(), at(10));

    assert_eq!(ttl::expire(&job, at(11)), Outcome::wait_until(at(910)));
    let gone = Action::DeleteJob { namespace: "system-upgrade".into(), name: "apply".into(), uid: "job-1".into() };
    assert_eq!(ttl::expire(&job, at(910)).actions, [gone]);
}

#[test]
fn a_failed_pod_that_is_gone_is_still_waited_for() {
    let failed = pod("a", pods::FAILED);
    let outcome = reconcile(&started(job(json!({}))), &[failed], at(11));
    let noted = outcome.actions.iter().find_map(|act| if let Action::JobStatus(job) = act { Some(job) } else { None });
    let mut gone = (**noted.unwrap()).clone();
    let status = gone.status.as_mut().unwrap();
    (status.uncounted_terminated_pods, status.failed) = (None, Some(1));

    let waiting = reconcile(&gone, &[], at(12));
    assert_eq!(created(&waiting).len(), 0);
    assert_eq!(waiting.wake, Some(at(20)), "ten seconds after it failed");
    assert_eq!(created(&reconcile(&gone, &[], at(20))).len(), 1);
}
