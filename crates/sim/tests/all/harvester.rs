//! Clusters with virtual machines, volumes and Rancher, asked for in a few lines.

use std::time::Duration;

use drover_api::cluster_api::cluster::Cluster as CapiCluster;
use drover_api::harvester::upgrade::Upgrade;
use drover_api::harvester::virtual_machine_image::VirtualMachineImage;
use drover_api::kubevirt::virtual_machine::VirtualMachine;
use drover_api::kubevirt::virtual_machine_instance::VirtualMachineInstance;
use drover_api::longhorn::volume::Volume;
use drover_api::plan::Plan;
use drover_corral::apiserver::Direct;
use drover_sim::campaign::{Campaign, Part};
use drover_sim::{Scenario, Stage, Terms};
use k8s_openapi::api::core::v1::{Event, Node};
use serde_json::json;

const SOON: Duration = Duration::from_secs(300);

fn scenario(lines: serde_json::Value) -> Scenario {
    serde_json::from_value(lines).unwrap()
}

fn running(user: &Direct) -> usize {
    let machines = user.list::<VirtualMachine>().unwrap().into_iter();
    machines.filter(|one| one.status.as_ref().unwrap().printable_status.as_deref() == Some("Running")).count()
}

fn healthy(user: &Direct) -> usize {
    let volumes = user.list::<Volume>().unwrap().into_iter();
    volumes.filter(|one| one.status.as_ref().unwrap().robustness.as_deref() == Some("healthy")).count()
}

fn unless(met: bool, sentence: &str) -> Vec<String> {
    if met { Vec::new() } else { vec![sentence.to_owned()] }
}

#[tokio::test(start_paused = true)]
async fn a_harvester_cluster_is_a_line_and_its_machines_are_another() {
    let lines =
        json!({ "name": "hci", "nodes": 4, "from": "v1.33.5+rke2r1", "harvester": {}, "vms": 3, "concurrency": 0 });
    let stage = Stage::open(&scenario(lines), &Terms::calm(1));

    assert!(stage.until(SOON, |user| unless(running(user) == 3 && healthy(user) == 3, "not all is well")).await);
    let capi = stage.user.get::<CapiCluster>(Some("fleet-local"), "local").unwrap().unwrap();
    assert_eq!(capi.status.unwrap().phase.as_deref(), Some("Provisioned"));
    let nodes = stage.user.list::<Node>().unwrap();
    let labelled =
        |label: &str| nodes.iter().filter(|node| node.metadata.labels.as_ref().unwrap().contains_key(label)).count();
    assert_eq!((labelled("harvesterhci.io/managed"), labelled("node-role.kubernetes.io/etcd")), (4, 3));
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_drains_moves_machines_and_stops_none() {
    // An instance that has only just been started is stopped by an eviction, since it cannot migrate yet.
    let held = json!({ "drover.dev/paused": "true" });
    let drains = json!([{ "name": "upgrade", "annotations": held, "spec": { "drain": {} } }]);
    let stage = Stage::open(&scenario(json!({ "name": "vms", "vms": 3, "plans": drains })), &Terms::calm(1));
    assert!(stage.until(SOON, |user| unless(running(user) == 3, "not all run")).await);
    let uids = |user: &Direct| -> Vec<String> {
        user.list::<VirtualMachineInstance>().unwrap().into_iter().filter_map(|one| one.metadata.uid).collect()
    };
    let before = uids(&stage.user);
    let mut plan = stage.user.get::<Plan>(Some("system-upgrade"), "upgrade").unwrap().unwrap();
    plan.metadata.annotations = None;
    stage.user.update(&plan).unwrap();

    let upgraded = |user: &Direct| {
        let nodes = user.list::<Node>().unwrap();
        let all = nodes
            .iter()
            .all(|node| node.status.as_ref().unwrap().node_info.as_ref().unwrap().kubelet_version == "v1.34.0");
        unless(all && running(user) == 3, "not all nodes are upgraded")
    };
    assert!(stage.until(Duration::from_secs(3600), upgraded).await);
    let after = uids(&stage.user);
    let outcome = stage.close();
    assert_eq!(after, before, "{}", outcome.trace().join("\n"));
    assert_eq!(outcome.violations, [], "{}", outcome.trace().join("\n"));
}

/// A Harvester cluster to which something happens after a minute.
fn troubled(what: &str, more: serde_json::Value) -> Stage {
    let mut lines = json!({
        "name": "hci", "nodes": 4, "from": "v1.33.5+rke2r1", "harvester": {}, "vms": 1,
        "plans": [{ "name": "upgrade", "annotations": { "drover.dev/paused": "true" } }],
        "faults": [{ "at": { "time": "1m" }, "what": what }],
    });
    lines.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Stage::open(&scenario(lines), &Terms::calm(1))
}

/// `EtcdIsVoter` of a node: its status and its reason.
fn voter(user: &Direct, name: &str) -> Option<(String, String)> {
    let conditions = user.get::<Node>(None, name).unwrap().unwrap().status?.conditions?;
    let found = conditions.into_iter().find(|condition| condition.type_ == "EtcdIsVoter")?;
    Some((found.status, found.reason.unwrap_or_default()))
}

#[tokio::test(start_paused = true)]
async fn a_worker_is_promoted_and_a_member_is_lost() {
    let stage = troubled("nodePromoted", json!({}));
    stage.clock.sleep(Duration::from_secs(65)).await;
    assert_eq!(voter(&stage.user, "node-4"), Some(("False".into(), "MemberIsLearner".into())));
    stage.clock.sleep(Duration::from_secs(30)).await;
    assert_eq!(voter(&stage.user, "node-4"), Some(("True".into(), "MemberNotLearner".into())));

    let stage = troubled("etcdMemberLost", json!({}));
    stage.clock.sleep(Duration::from_secs(50)).await;
    assert_eq!(voter(&stage.user, "node-3"), Some(("True".into(), "MemberNotLearner".into())));
    stage.clock.sleep(Duration::from_secs(300)).await;
    assert_eq!(voter(&stage.user, "node-3"), Some(("False".into(), "NotAMember".into())));
}

#[tokio::test(start_paused = true)]
async fn migrations_fail_for_a_while_and_volumes_stop_healing() {
    let stage = troubled("migrationsFail", json!({}));
    stage.clock.sleep(Duration::from_secs(55)).await;
    let instance = stage.user.list::<VirtualMachineInstance>().unwrap().remove(0);
    let from = instance.status.unwrap().node_name.unwrap();
    let mut node = stage.user.get::<Node>(None, &from).unwrap().unwrap();
    let taint = json!([{ "key": "kubevirt.io/drain", "value": "draining", "effect": "NoSchedule" }]);
    node.spec.get_or_insert_default().taints = serde_json::from_value(taint).unwrap();
    stage.user.update(&node).unwrap();
    let here = |user: &Direct| user.list::<VirtualMachineInstance>().unwrap().remove(0).status.unwrap().node_name;
    stage.clock.sleep(Duration::from_secs(30)).await;
    assert_eq!(here(&stage.user).as_deref(), Some(from.as_str()));
    assert!(stage.until(SOON, |user| unless(here(user).as_deref() != Some(from.as_str()), "it has not moved")).await);

    let stage = troubled("volumesNeverHeal", json!({}));
    stage.clock.sleep(Duration::from_secs(70)).await;
    for name in ["node-2", "node-3"] {
        let mut node = stage.user.get::<Node>(None, name).unwrap().unwrap();
        let away = ("corral.drover.dev/down-until".to_owned(), "2026-01-01T12:05:00Z".to_owned());
        node.metadata.annotations.get_or_insert_default().extend([away]);
        stage.user.update(&node).unwrap();
    }
    stage.clock.sleep(Duration::from_secs(500)).await;
    assert_eq!(healthy(&stage.user), 0);
}

#[tokio::test(start_paused = true)]
async fn a_download_stalls_in_the_middle() {
    let iso = json!({
        "apiVersion": "harvesterhci.io/v1beta1", "kind": "VirtualMachineImage",
        "metadata": { "name": "iso", "namespace": "harvester-system", "annotations": { "corral.drover.dev/import-duration": "2m" } },
        "spec": { "sourceType": "download", "url": "http://example.com/harvester.iso" },
    });
    let stage = troubled("downloadsStall", json!({ "manifests": [iso] }));
    stage.clock.sleep(Duration::from_secs(600)).await;
    let iso = stage.user.get::<VirtualMachineImage>(Some("harvester-system"), "iso").unwrap().unwrap().status.unwrap();
    assert_eq!((iso.progress, iso.conditions.unwrap()[0].status.as_str()), (Some(50), "Unknown"));
}

fn built_in(name: &str) -> Scenario {
    drover_sim::scenario::built_in().unwrap().into_iter().find(|one| one.name == name).unwrap()
}

fn first_node_is_done(user: &Direct) -> Vec<String> {
    let upgrade = user.get::<Upgrade>(Some("harvester-system"), "hvst-upgrade-1").unwrap();
    let nodes = upgrade.and_then(|upgrade| upgrade.status).map(|status| status.node_statuses).unwrap_or_default();
    unless(nodes.get("node-1").is_some_and(|node| node.state.as_deref() == Some("Succeeded")), "node-1 is not done")
}

/// Under either definition the upgrade goes on where it was; under Drover's there is nothing to be mended.
#[tokio::test(start_paused = true)]
async fn a_client_that_puts_an_upgrade_back_without_its_status_restarts_nothing() {
    for own_status in [true, false] {
        let mut scenario = built_in("harvester-own-status");
        scenario.faults.clear();
        scenario.harvester.as_mut().unwrap().own_status = own_status;
        let stage = Stage::open(&scenario, &Terms::calm(1));
        assert!(stage.until(Duration::from_secs(7200), first_node_is_done).await);
        let mut upgrade = stage.user.get::<Upgrade>(Some("harvester-system"), "hvst-upgrade-1").unwrap().unwrap();
        let before = upgrade.status.take();
        let after = stage.user.update(&upgrade).unwrap();
        assert_eq!(after.status, before.filter(|_| own_status), "own status: {own_status}");

        stage.clock.sleep(Duration::from_secs(5)).await;
        assert_eq!(first_node_is_done(&stage.user), Vec::<String>::new(), "own status: {own_status}");
    }
}

#[test]
fn a_machine_that_was_stopped_for_its_node_runs_again_before_the_last_node_is_drained() {
    let outcome = drover_sim::run(&built_in("harvester-vms"), &Terms::calm(1)).unwrap();
    assert_eq!(outcome.violations, [], "{}", outcome.trace().join("\n"));
    let trace = outcome.trace();
    let at = |what: &str| trace.iter().position(|line| line.contains(what)).unwrap_or(trace.len());
    let restored = at("creates Job harvester-system/hvst-upgrade-1-restore-vm-node-2");
    let drained = at("creates Job harvester-system/hvst-upgrade-1-post-drain-node-3");
    assert!(restored < drained && drained < trace.len(), "{}", trace.join("\n"));
}

/// A crash at some writes of each, not at all of them, which takes minutes: what is left to be done is done by the next operator,
/// and nothing twice.
#[test]
fn an_operator_that_dies_in_the_middle_of_an_upgrade_is_replaced_without_harm() {
    let some = [
        ("harvester-three-nodes", 29),
        ("harvester-one-node", 19),
        ("harvester-aborted", 89),
        ("harvester-skipped", 71),
    ];
    for (name, every) in some {
        let campaign = Campaign { every, ..Campaign::new(Scenario { sampled: None, ..built_in(name) }, 1) };
        let report = campaign.run(&[Part::Crashes], &|_, _| ()).unwrap();
        let stories: Vec<String> = report.failures.iter().map(|failure| format!("{failure:?}")).collect();
        assert!(report.schedules > 1, "{name}: no crash was drawn");
        assert!(stories.is_empty(), "{name}: {}", stories.join("\n"));
    }
}

/// Paused nodes are resumed by the scenario.
#[tokio::test(start_paused = true)]
async fn what_happens_to_an_upgrade_is_told_as_events_each_once() {
    let stage = Stage::open(&built_in("harvester-paused"), &Terms::calm(1));
    let is_cleaned_up = |user: &Direct| {
        let upgrade = user.get::<Upgrade>(Some("harvester-system"), "hvst-upgrade-1").unwrap().unwrap();
        let cleaned = upgrade.metadata.labels.unwrap_or_default().get("harvesterhci.io/upgradeCleanup").cloned();
        unless(cleaned.as_deref() == Some("Succeeded"), "it is not cleaned up")
    };
    assert!(stage.until(Duration::from_secs(7200), is_cleaned_up).await);
    let events = stage.user.list::<Event>().unwrap();
    let own = events.iter().filter(|event| event.involved_object.kind.as_deref() == Some("Upgrade"));
    let mut told: Vec<(&str, &str)> =
        own.map(|event| (event.reason.as_deref().unwrap(), event.message.as_deref().unwrap())).collect();
    told.sort_unstable();
    assert_eq!(
        told,
        [
            ("LoggingInfraPrepared", "The upgrade has begun"),
            ("NodePaused", "node-2 is paused before its upgrade, as its user has asked"),
            ("NodePaused", "node-3 is paused before its upgrade, as its user has asked"),
            ("NodeUpgraded", "node-1 is upgraded"),
            ("NodeUpgraded", "node-2 is upgraded"),
            ("NodeUpgraded", "node-3 is upgraded"),
            ("PreparingNodes", "Nodes load the images of the release"),
            ("PreparingRepo", "The image of the release is imported"),
            ("RepoPrepared", "The repository serves the release"),
            ("Succeeded", "The upgrade has succeeded"),
            ("UpgradingNodes", "Nodes are upgraded"),
            ("UpgradingSystemServices", "System services are upgraded"),
        ]
    );
}
