//! Harvester clusters without Rancher: the engine of Upgrades and the planner are both ours, and talk over the machine-plan Secrets.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use drover_api::cluster_api::cluster::Cluster as CapiCluster;
use drover_api::foreign::LooseCondition;
use drover_api::harvester::upgrade::Upgrade;
use drover_api::rancher::provisioning_cluster::Cluster;
use drover_api::rancher::rke_control_plane::RKEControlPlane;
use drover_corral::apiserver::Direct;
use drover_sim::campaign::{Campaign, Part};
use drover_sim::{Scenario, Stage, Terms};
use serde_json::Value;

const TWO_HOURS: Duration = Duration::from_secs(7200);

fn built_in(name: &str) -> Scenario {
    drover_sim::scenario::built_in().unwrap().into_iter().find(|one| one.name == name).unwrap()
}

/// What the planner says: the same on all three objects.
fn said(user: &Direct) -> String {
    let of = |conditions: Option<Vec<LooseCondition>>, kind: &str| {
        let all = conditions.unwrap_or_default();
        all.into_iter().find(|one| one.type_ == kind).map(|one| (one.status, one.reason, one.message)).unwrap()
    };
    let fleet = Some("fleet-local");
    let plane = of(user.get::<RKEControlPlane>(fleet, "local").unwrap().unwrap().status.unwrap().conditions, "Ready");
    let cluster = of(user.get::<Cluster>(fleet, "local").unwrap().unwrap().status.unwrap().conditions, "Updated");
    let capi =
        of(user.get::<CapiCluster>(fleet, "local").unwrap().unwrap().status.unwrap().conditions, "ControlPlaneReady");
    assert_eq!((&cluster, &capi), (&plane, &plane));
    plane.2.unwrap_or_default()
}

fn upgrade(user: &Direct) -> Upgrade {
    user.get::<Upgrade>(Some("harvester-system"), "hvst-upgrade-1").unwrap().unwrap()
}

/// How far a node is, and what is said about all of them.
fn state(user: &Direct, node: &str) -> String {
    let status = upgrade(user).status.unwrap_or_default();
    status.node_statuses.get(node).and_then(|node| node.state.clone()).unwrap_or_default()
}

fn progressing(user: &Direct) -> String {
    let conditions = upgrade(user).status.unwrap_or_default().conditions;
    let progressing = conditions.into_iter().find(|one| one.type_ == "Progressing");
    progressing.and_then(|one| one.message).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_node_that_waits_for_its_user_is_not_cordoned_and_holds_up_nobody() {
    let mut scenario = built_in("harvester-own-planner-paused");
    scenario.faults.clear();
    let stage = Stage::open(&scenario, &Terms::calm(1));
    let cordoned = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = cordoned.clone();
    stage.server.observe(Box::new(move |commit| {
        let object: Value = commit.after.and_then(|json| serde_json::from_slice(json).ok()).unwrap_or_default();
        if object["kind"] == "Node" && object["spec"]["unschedulable"] == true {
            seen.lock().unwrap().insert(commit.name.to_owned());
        }
    }));

    let third_is_done = |user: &Direct| match state(user, "node-3").as_str() {
        "Succeeded" => Vec::new(),
        other => vec![format!("node-3 is {other}")],
    };
    assert!(stage.until(TWO_HOURS, third_is_done).await, "{:?}", stage.violations());
    stage.clock.sleep(Duration::from_secs(60)).await;

    assert_eq!(*cordoned.lock().unwrap(), BTreeSet::from(["node-3".to_owned()]));
    assert_eq!(
        said(&stage.user),
        "configuring bootstrap node(s) custom-000000000001: Node node-1 is paused as requested by the user"
    );
    for node in ["node-1", "node-2"] {
        assert_eq!(state(&stage.user, node), "Node-upgrade paused");
        let own = format!("{node} is paused before its upgrade, as its user has asked (kubectl annotate node {node}");
        assert!(progressing(&stage.user).contains(&own), "{}", progressing(&stage.user));
    }
    assert_eq!(stage.violations(), []);
}

#[tokio::test(start_paused = true)]
async fn the_words_of_the_planner_stand_on_all_three_objects_while_a_node_is_drained() {
    let stage = Stage::open(&built_in("harvester-own-planner"), &Terms::calm(1));
    let empties_itself = |user: &Direct| match state(user, "node-1").as_str() {
        "Pre-draining" => Vec::new(),
        other => vec![format!("node-1 is {other}")],
    };
    assert!(stage.until(TWO_HOURS, empties_itself).await, "{:?}", stage.violations());
    assert_eq!(said(&stage.user), "draining bootstrap node(s) custom-000000000001: draining node");
}

/// A crash at some writes of each: what is left to be done is done by the next operator, whichever of the two engines had begun with it.
#[test]
fn an_operator_that_is_both_is_replaced_without_harm() {
    for name in ["harvester-own-planner", "harvester-own-planner-paused", "harvester-own-planner-aborted"] {
        let campaign = Campaign { every: 97, ..Campaign::new(Scenario { sampled: None, ..built_in(name) }, 1) };
        let report = campaign.run(&[Part::Crashes], &|_, _| ()).unwrap();
        let stories: Vec<String> = report.failures.iter().map(|failure| format!("{failure:?}")).collect();
        assert!(report.schedules > 1, "{name}: no crash was drawn");
        assert!(stories.is_empty(), "{name}: {}", stories.join("\n"));
    }
}
