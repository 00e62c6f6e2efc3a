//! What people and machines do in the middle of an upgrade.

use std::time::Duration;

use drover_api::plan::Plan;
use drover_corral::apiserver::Direct;
use drover_sim::faults::PurposeMoment;
use drover_sim::scenario::{NAMESPACE, PLAN};
use drover_sim::{Fault, Incident, Moment, Scenario, Schedule, Stage, Terms};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::ResourceExt;
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(600);

fn stage(scenario: &Scenario) -> Stage {
    Stage::open(scenario, &Terms::calm(1))
}

/// What happens to the first write that is made for a purpose.
fn first(purpose: &str, what: Fault) -> Schedule {
    let at = Moment::Purpose(PurposeMoment { is: purpose.to_owned(), on: None, nth: 1 });
    Schedule { faults: vec![Incident { at, what }] }
}

fn nodes(user: &Direct) -> Vec<Node> {
    user.list::<Node>().unwrap()
}

fn claimed(user: &Direct) -> Option<Node> {
    nodes(user).into_iter().find(|node| node.labels().contains_key("drover.dev/claim"))
}

fn plan(user: &Direct, name: &str) -> Plan {
    user.get::<Plan>(Some(NAMESPACE), name).unwrap().unwrap()
}

fn condition(plan: &Plan, kind: &str) -> (String, String) {
    let conditions = plan.status.iter().flat_map(|status| &status.conditions);
    let found = conditions.into_iter().find(|condition| condition.type_ == kind);
    found.map(|condition| (condition.status.clone(), condition.message.clone())).unwrap_or_default()
}

fn unless(met: bool, sentence: &str) -> Vec<String> {
    if met { Vec::new() } else { vec![sentence.to_owned()] }
}

async fn until_a_job_runs(stage: &Stage) -> Job {
    let running = |user: &Direct| {
        user.list::<Job>().unwrap().into_iter().find(|job| job.status.as_ref().is_some_and(|s| s.active == Some(1)))
    };
    assert!(stage.until(SOON, |user| unless(running(user).is_some(), "no Job runs")).await);
    running(&stage.user).unwrap()
}

fn assert_clean(stage: Stage) {
    let outcome = stage.close();
    assert_eq!(outcome.violations, [], "{}", outcome.trace().join("\n"));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_plan_leaves_no_mark_and_no_cordon() {
    let stage = stage(&Scenario::default());
    until_a_job_runs(&stage).await;
    assert!(claimed(&stage.user).is_some());
    stage.user.delete::<Plan>(Some(NAMESPACE), PLAN, None).unwrap();

    let marks_gone = |user: &Direct| {
        let free = nodes(user).iter().all(|node| {
            let cordoned = node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true));
            !cordoned
                && !node.labels().contains_key("drover.dev/claim")
                && !node.annotations().contains_key("drover.dev/claim")
        });
        unless(free && user.list::<Job>().unwrap().is_empty(), "marks or Jobs are left")
    };
    assert!(stage.until(SOON, marks_gone).await);
    assert_clean(stage);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_somebody_deletes_is_made_again() {
    let scenario = Scenario::default();
    let stage = stage(&scenario);
    let job = until_a_job_runs(&stage).await;
    stage.user.delete::<Job>(Some(NAMESPACE), &job.name_any(), None).unwrap();

    assert!(stage.until(SOON, |_| stage.unmet_now()).await);
    assert_clean(stage);
}

#[tokio::test(start_paused = true)]
async fn a_node_taken_out_of_the_plan_between_claim_and_job_goes_back_to_service() {
    let scenario = Scenario::default();
    let stage = stage(&scenario);
    assert!(stage.until(SOON, |user| unless(claimed(user).is_some(), "no node is claimed")).await);
    let mut node = claimed(&stage.user).unwrap();
    let name = node.name_any();
    node.labels_mut().insert("kubernetes.io/os".to_owned(), "windows".to_owned());
    stage.user.update(&node).unwrap();

    let others_done = |user: &Direct| {
        let mine = user.get::<Node>(None, &name).unwrap().unwrap();
        let free = !mine.labels().contains_key("drover.dev/claim")
            && mine.spec.is_none_or(|spec| spec.unschedulable != Some(true));
        unless(free && condition(&plan(user, PLAN), "Complete").0 == "True", "not over")
    };
    assert!(stage.until(SOON, others_done).await);
    assert_clean(stage);
}

#[tokio::test(start_paused = true)]
async fn a_dead_leaders_patch_cannot_take_a_node_whose_claim_has_ended_since() {
    let scenario = Scenario { job_seconds: 60, ..Scenario::default() };
    let stage = Stage::open(&scenario, &Terms::of(first("TakeNode", Fault::LandsAtTheEnd), 1));
    let claims = |user: &Direct| plan(user, PLAN).annotations().get("drover.dev/claims").cloned().unwrap_or_default();
    let claimed_of =
        |user: &Direct| scenario.node_names().into_iter().find(|name| claims(user).contains(&format!("\"{name}\":")));
    assert!(stage.until(SOON, |user| unless(claimed_of(user).is_some(), "no node is claimed")).await);
    let name = claimed_of(&stage.user).unwrap();
    // The Plan no longer selects the node; the Node itself does not change, so its version guards nothing yet.
    let mut changed = plan(&stage.user, PLAN);
    let other_nodes =
        json!({ "matchExpressions": [{ "key": "kubernetes.io/hostname", "operator": "NotIn", "values": [name] }] });
    changed.spec.node_selector = Some(serde_json::from_value(other_nodes).unwrap());
    stage.user.update(&changed).unwrap();

    let another_is_out =
        |user: &Direct| unless(claimed(user).is_some_and(|node| node.name_any() != name), "no other node is out");
    assert!(stage.until(SOON, another_is_out).await);
    assert_eq!(stage.land_late_writes().await, 1);
    stage.clock.sleep(Duration::from_secs(1)).await;
    let node = stage.user.get::<Node>(None, &name).unwrap().unwrap();
    assert!(!node.labels().contains_key("drover.dev/claim") && node.spec.unwrap().unschedulable != Some(true));
    let outcome = stage.close();
    assert_eq!(outcome.violations, [], "{}", outcome.trace().join("\n"));
    assert!(outcome.purposes.contains_key("FenceNode"));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_a_dead_leader_made_too_late_never_runs_and_is_deleted() {
    let scenario = Scenario::default();
    let stage = Stage::open(&scenario, &Terms::of(first("CreateJob", Fault::LandsAtTheEnd), 1));
    assert!(stage.until(SOON, |_| stage.unmet_now()).await);
    let no_jobs = |user: &Direct| unless(user.list::<Job>().unwrap().is_empty(), "Jobs are left");
    // Until then the Job of the successor has the name.
    assert!(stage.until(SOON * 3, no_jobs).await);
    assert_eq!(stage.land_late_writes().await, 1);
    assert_eq!(stage.user.list::<Job>().unwrap().len(), 1);

    assert!(stage.until(SOON * 4, no_jobs).await);
    let outcome = stage.close();
    assert_eq!(outcome.violations, [], "{}", outcome.trace().join("\n"));
    assert!(outcome.purposes.contains_key("DeleteJob"));
}

#[tokio::test(start_paused = true)]
async fn a_wiped_status_and_lost_claims_heal() {
    let scenario = Scenario::default();
    let stage = stage(&scenario);
    until_a_job_runs(&stage).await;
    let mut wiped = plan(&stage.user, PLAN);
    wiped.status = Some(Default::default());
    let mut wiped = stage.user.update_status(&wiped).unwrap();
    wiped.annotations_mut().remove("drover.dev/claims");
    stage.user.update(&wiped).unwrap();

    assert!(stage.until(SOON, |_| stage.unmet_now()).await);
    assert_clean(stage);
}

#[tokio::test(start_paused = true)]
async fn a_failed_node_stays_out_until_its_job_is_deleted() {
    let scenario = Scenario::default();
    let stage = stage(&scenario);
    for mut node in nodes(&stage.user) {
        node.annotations_mut().insert("corral.drover.dev/job-exit-code".to_owned(), "1".to_owned());
        stage.user.update(&node).unwrap();
    }
    let has_failed = |user: &Direct| {
        unless(condition(&plan(user, PLAN), "Complete").1.contains("BackoffLimitExceeded"), "has not failed")
    };
    assert!(stage.until(SOON, has_failed).await);
    stage.clock.sleep(Duration::from_secs(120)).await;
    let out = claimed(&stage.user).unwrap();
    assert_eq!(out.spec.as_ref().unwrap().unschedulable, Some(true));
    assert_eq!(plan(&stage.user, PLAN).status.unwrap().counts.unwrap().failed, 1);

    for mut node in nodes(&stage.user) {
        node.annotations_mut().remove("corral.drover.dev/job-exit-code");
        stage.user.update(&node).unwrap();
    }
    for job in stage.user.list::<Job>().unwrap() {
        stage.user.delete::<Job>(Some(NAMESPACE), &job.name_any(), None).unwrap();
    }
    assert!(stage.until(SOON * 2, |_| stage.unmet_now()).await);
    assert_clean(stage);
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_cannot_be_read_or_lacks_its_secret_stops_no_other() {
    let scenario = Scenario::default();
    let stage = stage(&scenario);
    for (name, field, value) in [
        ("no-delay", "postCompleteDelay", json!("5 minutes")),
        ("no-secret", "secrets", json!([{ "name": "ca", "path": "/ca" }])),
        ("no-version", "version", json!("")),
    ] {
        let mut bad = scenario.plan();
        bad["metadata"]["name"] = json!(name);
        bad["spec"][field] = value;
        stage.user.create(&serde_json::from_value::<Plan>(bad).unwrap()).unwrap();
    }
    // The schema lets this number through, but it does not fit into the field.
    let mut unreadable = scenario.plan();
    unreadable["metadata"]["name"] = json!("unreadable");
    unreadable["spec"]["drain"] = json!({ "timeout": 60_000_000_000_u64 });
    let path = format!("/apis/upgrade.cattle.io/v1/namespaces/{NAMESPACE}/plans");
    let client = stage.server.client("user");
    let request = |method: &str, path: &str, body: Vec<u8>| {
        http::Request::builder().method(method).uri(path).header("content-type", "application/json").body(body).unwrap()
    };
    client.request_text(request("POST", &path, unreadable.to_string().into_bytes())).await.unwrap();

    assert!(stage.until(SOON, |_| stage.unmet_now()).await);
    let unreadable = client.request_text(request("GET", &format!("{path}/unreadable"), Vec::new())).await.unwrap();
    let unreadable: Value = serde_json::from_str(&unreadable).unwrap();
    let validated =
        unreadable["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Validated").unwrap();
    assert_eq!(validated["status"], "False");
    assert!(validated["message"].as_str().unwrap().starts_with("spec cannot be read: "), "{validated}");
    assert_eq!(condition(&plan(&stage.user, "no-delay"), "Validated").0, "False");
    assert_eq!(condition(&plan(&stage.user, "no-secret"), "Validated").1, r#"secrets "ca" not found"#);
    assert_eq!(condition(&plan(&stage.user, "no-version"), "LatestResolved").0, "False");

    let secret = json!({ "metadata": { "name": "ca", "namespace": NAMESPACE } });
    stage.user.create(&serde_json::from_value::<Secret>(secret).unwrap()).unwrap();
    let noticed = |user: &Direct| {
        unless(condition(&plan(user, "no-secret"), "Validated").0 == "True", "the Secret is not noticed")
    };
    assert!(stage.until(SOON, noticed).await);
}
