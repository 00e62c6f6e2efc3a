//! Rancher upgrades a cluster, in virtual time.

use std::collections::BTreeMap;

use drover_api::cluster_api::cluster::Cluster as CapiCluster;
use drover_api::harvester::FLEET_NAMESPACE;
use drover_api::rancher::machine_plan::annotations::{
    DRAIN_DONE, DRAIN_ERROR, DRAIN_OPTIONS, POST_DRAIN, POST_HOOK, PRE_DRAIN, PRE_HOOK, UNCORDON,
};
use drover_api::rancher::provisioning_cluster::Cluster as RancherCluster;
use drover_api::rancher::rke_control_plane::RKEControlPlane;
use drover_api::rancher::setting::Setting;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Secret};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::json;

use super::seeds::{Seed, settled};
use super::{is_in_drain, note};
use crate::world::tests::{Cluster, node};
use crate::world::{Part, WorldOptions, pods};

const FROM: &str = "v1.33.5+rke2r1";
const TO: &str = "v1.34.1+rke2r1";

/// Machines with their roles: `e`, `c` and `w`.
async fn provisioned(roles: &[&str]) -> Cluster {
    let cluster = Cluster::new(WorldOptions::default().with([Part::Rancher, Part::SystemAgents]));
    cluster.define_harvester();
    let mut seeds = Vec::new();
    for (at, roles) in roles.iter().enumerate() {
        let name = format!("node-{}", at + 1);
        let mut object = node(&name);
        object["status"] = json!({"nodeInfo": {
            "kubeletVersion": FROM, "operatingSystem": "linux", "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "",
            "kernelVersion": "", "kubeProxyVersion": "", "machineID": "", "osImage": "", "systemUUID": "",
        }});
        cluster.create::<Node>(object);
        let has = |role: char| roles.contains(role);
        seeds.push(Seed {
            machine: format!("custom-{}", at + 1),
            address: format!("10.0.0.{}", at + 1),
            node: name,
            etcd: has('e'),
            control_plane: has('c'),
            worker: has('w'),
        });
    }
    cluster.load(settled(&seeds, FROM, "v2.12.3"));
    cluster.passes(30).await;
    assert_eq!(phase(&cluster), "Provisioned");
    assert!(secrets(&cluster).values().all(|secret| !is_in_drain(secret)));
    cluster
}

/// Asks for another version, as a Harvester upgrade does.
fn ask(cluster: &Cluster, worker_concurrency: &str) {
    let options = json!({
        "enabled": true, "force": true, "ignoreDaemonSets": true, "deleteEmptyDirData": true,
        "preDrainHooks": [{"annotation": PRE_HOOK}], "postDrainHooks": [{"annotation": POST_HOOK}],
    });
    let mut asked: RancherCluster = cluster.get(FLEET_NAMESPACE, "local").unwrap();
    let spec = asked.spec.as_mut().unwrap();
    spec.kubernetes_version = Some(TO.into());
    let config = spec.rke_config.get_or_insert_default();
    config.provision_generation = config.provision_generation.map(|generation| generation + 1);
    config.upgrade_strategy = Some(
        serde_json::from_value(json!({
            "controlPlaneConcurrency": "1", "controlPlaneDrainOptions": options,
            "workerConcurrency": worker_concurrency, "workerDrainOptions": options,
        }))
        .unwrap(),
    );
    cluster.direct.update(&asked).unwrap();
}

/// By the names of the machines.
fn secrets(cluster: &Cluster) -> BTreeMap<String, Secret> {
    let all = cluster.direct.list::<Secret>().unwrap().into_iter();
    all.filter_map(|secret| {
        let machine = super::label(&secret, "rke.cattle.io/machine-name")?.to_string();
        Some((machine, secret))
    })
    .collect()
}

fn has(cluster: &Cluster, machine: &str, key: &str) -> bool {
    note(&secrets(cluster)[machine], key).is_some()
}

/// Does what the owner of hooks has to do.
fn acknowledge(cluster: &Cluster, machine: &str, asked: &str, hook: &str) {
    let mut secret = secrets(cluster)[machine].clone();
    let token = note(&secret, asked).unwrap().to_string();
    super::set_note(&mut secret, hook, &token);
    cluster.direct.update(&secret).unwrap();
}

fn in_drain(cluster: &Cluster) -> Vec<String> {
    secrets(cluster).into_iter().filter(|(_, secret)| is_in_drain(secret)).map(|(machine, _)| machine).collect()
}

fn phase(cluster: &Cluster) -> String {
    cluster.get::<CapiCluster>(FLEET_NAMESPACE, "local").unwrap().status.unwrap().phase.unwrap()
}

/// What the conditions of all three objects say.
fn message(cluster: &Cluster) -> String {
    let of = |conditions: Option<Vec<drover_api::foreign::LooseCondition>>, kind: &str| {
        let found = crate::world::loose::find(conditions.as_ref(), kind).cloned().unwrap_or_default();
        (found.status, found.message.unwrap_or_default())
    };
    let plane = cluster.get::<RKEControlPlane>(FLEET_NAMESPACE, "local").unwrap().status.unwrap();
    let asked = cluster.get::<RancherCluster>(FLEET_NAMESPACE, "local").unwrap().status.unwrap();
    let capi = cluster.get::<CapiCluster>(FLEET_NAMESPACE, "local").unwrap().status.unwrap();
    let ready = of(plane.conditions, "Ready");
    assert_eq!(of(asked.conditions, "Updated"), ready);
    assert_eq!(of(capi.conditions, "ControlPlaneReady"), ready);
    ready.1
}

fn kubelet(cluster: &Cluster, name: &str) -> String {
    cluster.node(name).status.unwrap().node_info.unwrap().kubelet_version
}

fn is_cordoned(cluster: &Cluster, name: &str) -> bool {
    cluster.node(name).spec.unwrap_or_default().unschedulable == Some(true)
}

/// Takes one machine through its drain.
async fn upgrade(cluster: &Cluster, machine: &str) {
    cluster.until("it asks before the drain", |cluster| has(cluster, machine, PRE_DRAIN)).await;
    acknowledge(cluster, machine, PRE_DRAIN, PRE_HOOK);
    cluster.until("it asks after the plan", |cluster| has(cluster, machine, POST_DRAIN)).await;
    acknowledge(cluster, machine, POST_DRAIN, POST_HOOK);
    cluster.until("it is cleared away", |cluster| !has(cluster, machine, DRAIN_OPTIONS)).await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_cordoned_and_drained_only_when_its_hook_is_answered() {
    let cluster = provisioned(&["ecw", "ecw", "ecw"]).await;
    ask(&cluster, "1");
    cluster.until("it asks before the drain", |cluster| has(cluster, "custom-1", PRE_DRAIN)).await;
    cluster.passes(60).await;

    assert_eq!(message(&cluster), "draining bootstrap node(s) custom-1: draining node");
    assert_eq!(phase(&cluster), "Provisioning");
    assert_eq!(in_drain(&cluster), ["custom-1"]);
    assert!(is_cordoned(&cluster, "node-1"));
    let token = note(&secrets(&cluster)["custom-1"], PRE_DRAIN).unwrap().to_string();
    assert_eq!(note(&secrets(&cluster)["custom-1"], DRAIN_OPTIONS), Some(token.as_str()));
    assert!(token.starts_with("{\"deleteEmptyDirData\":true,\"disableEviction\":false,\"enabled\":true,"));
    assert_eq!(kubelet(&cluster, "node-1"), FROM);

    acknowledge(&cluster, "custom-1", PRE_DRAIN, PRE_HOOK);
    cluster.until("the drain is done", |cluster| has(cluster, "custom-1", DRAIN_DONE)).await;
    cluster
        .until("it waits for the plan", |cluster| {
            message(cluster) == "configuring bootstrap node(s) custom-1: waiting for plan to be applied"
        })
        .await;
    cluster.until("it asks after the plan", |cluster| has(cluster, "custom-1", POST_DRAIN)).await;
    cluster.passes(60).await;
    assert_eq!(kubelet(&cluster, "node-1"), TO);
    assert!(is_cordoned(&cluster, "node-1") && has(&cluster, "custom-1", UNCORDON));
    assert_eq!(message(&cluster), "uncordoning bootstrap node(s) custom-1: waiting for uncordon to finish");

    acknowledge(&cluster, "custom-1", POST_DRAIN, POST_HOOK);
    cluster.until("it is cleared away", |cluster| !has(cluster, "custom-1", DRAIN_OPTIONS)).await;
    assert!(!is_cordoned(&cluster, "node-1"));
    assert!([PRE_HOOK, POST_HOOK, PRE_DRAIN, POST_DRAIN].iter().all(|key| !has(&cluster, "custom-1", key)));
}

#[tokio::test(start_paused = true)]
async fn voters_go_one_by_one_before_workers_which_go_as_many_at_a_time_as_may_be_out() {
    let cluster = provisioned(&["ecw", "ecw", "w", "w", "w"]).await;
    ask(&cluster, "2");
    upgrade(&cluster, "custom-1").await;
    cluster.until("the next one", |cluster| in_drain(cluster) == ["custom-2"]).await;
    upgrade(&cluster, "custom-2").await;
    cluster.until("two workers", |cluster| in_drain(cluster) == ["custom-3", "custom-4"]).await;
    cluster.passes(30).await;
    assert_eq!(in_drain(&cluster), ["custom-3", "custom-4"]);
    assert!(message(&cluster).starts_with("draining worker node(s) custom-3,custom-4: "));
    for machine in ["custom-3", "custom-4", "custom-5"] {
        upgrade(&cluster, machine).await;
    }
    cluster.until("all is done", |cluster| phase(cluster) == "Provisioned").await;
    assert!((1..=5).all(|at| kubelet(&cluster, &format!("node-{at}")) == TO));
    assert_eq!(message(&cluster), "");
}

#[tokio::test(start_paused = true)]
async fn the_only_machine_is_asked_for_its_hooks_and_not_drained() {
    let cluster = provisioned(&["ecw"]).await;
    add_workload(&cluster, 1);
    cluster.passes(10).await;
    ask(&cluster, "1");
    upgrade(&cluster, "custom-1").await;
    assert_eq!(kubelet(&cluster, "node-1"), TO);
    assert_eq!(cluster.pods().len(), 1);
}

/// Pods with a budget that wants so many of them.
fn add_workload(cluster: &Cluster, least: i32) {
    cluster.create::<Deployment>(json!({
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "shop"}},
            "template": {"metadata": {"labels": {"app": "shop"}}, "spec": {"containers": [{"name": "main", "image": "shop:1"}]}},
        },
    }));
    cluster.create::<PodDisruptionBudget>(json!({
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": "shop"}}},
    }));
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_refuses_holds_the_drain_and_shows_as_an_error_after_ten_minutes() {
    let cluster = provisioned(&["ecw", "w"]).await;
    add_workload(&cluster, 1);
    cluster.passes(20).await;
    let on = pods::node(&cluster.pods()[0]).unwrap().to_string();
    let machine = on.replace("node", "custom");
    ask(&cluster, "1");
    if machine == "custom-2" {
        upgrade(&cluster, "custom-1").await;
    }
    cluster.until("it asks before the drain", |cluster| has(cluster, &machine, PRE_DRAIN)).await;
    acknowledge(&cluster, &machine, PRE_DRAIN, PRE_HOOK);
    cluster.passes(590).await;
    assert!(!has(&cluster, &machine, DRAIN_ERROR) && !has(&cluster, &machine, DRAIN_DONE));
    cluster.until("it says so", |cluster| has(cluster, &machine, DRAIN_ERROR)).await;
    assert!(note(&secrets(&cluster)[&machine], DRAIN_ERROR).unwrap().contains("global timeout reached"));

    cluster.direct.delete::<PodDisruptionBudget>(Some("default"), "shop", None).unwrap();
    cluster.until("the drain is done", |cluster| has(cluster, &machine, DRAIN_DONE)).await;
    assert!(!has(&cluster, &machine, DRAIN_ERROR));
}

#[tokio::test(start_paused = true)]
async fn another_version_of_rancher_in_the_middle_of_it_asks_for_another_answer() {
    let cluster = provisioned(&["ecw", "w"]).await;
    ask(&cluster, "1");
    cluster.until("it asks before the drain", |cluster| has(cluster, "custom-1", PRE_DRAIN)).await;
    let first = note(&secrets(&cluster)["custom-1"], PRE_DRAIN).unwrap().to_string();
    let mut version: Setting = cluster.get("", "server-version").unwrap();
    version.value = Some("v2.11.5".into());
    cluster.direct.update(&version).unwrap();
    cluster.passes(5).await;

    let second = note(&secrets(&cluster)["custom-1"], PRE_DRAIN).unwrap().to_string();
    assert_ne!(second, first);
    let mut late = secrets(&cluster)["custom-1"].clone();
    super::set_note(&mut late, PRE_HOOK, &first);
    cluster.direct.update(&late).unwrap();
    cluster.passes(60).await;
    assert!(!has(&cluster, "custom-1", DRAIN_DONE));
    acknowledge(&cluster, "custom-1", PRE_DRAIN, PRE_HOOK);
    cluster.until("the drain is done", |cluster| has(cluster, "custom-1", DRAIN_DONE)).await;
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_fails_is_tried_again_and_one_of_2_15_is_not() {
    for (rancher, goes_on) in [("v2.12.3", true), ("v2.15.0", false)] {
        let cluster = provisioned(&["ecw", "w"]).await;
        let mut version: Setting = cluster.get("", "server-version").unwrap();
        version.value = Some(rancher.into());
        cluster.direct.update(&version).unwrap();
        cluster.annotate("node-1", "corral.drover.dev/plan-fails", "true");
        ask(&cluster, "1");
        cluster.until("it asks before the drain", |cluster| has(cluster, "custom-1", PRE_DRAIN)).await;
        acknowledge(&cluster, "custom-1", PRE_DRAIN, PRE_HOOK);
        cluster
            .until("it has failed", |cluster| {
                message(cluster) == "configuring bootstrap node(s) custom-1: failure while applying plan"
            })
            .await;
        cluster.annotate("node-1", "corral.drover.dev/plan-fails", "false");
        cluster.passes(300).await;
        assert_eq!(kubelet(&cluster, "node-1") == TO, goes_on, "{rancher}");
    }
}

#[tokio::test(start_paused = true)]
async fn probes_that_are_never_well_and_machines_that_nobody_keeps_hold_the_tier() {
    let cluster = provisioned(&["ecw", "w"]).await;
    ask(&cluster, "1");
    cluster.until("it asks before the drain", |cluster| has(cluster, "custom-1", PRE_DRAIN)).await;
    cluster.annotate("node-1", "corral.drover.dev/unhealthy-probes", "kube-scheduler");
    acknowledge(&cluster, "custom-1", PRE_DRAIN, PRE_HOOK);
    cluster
        .until("it waits for a probe", |cluster| {
            message(cluster) == "configuring bootstrap node(s) custom-1: waiting for probes: kube-scheduler"
        })
        .await;
    cluster.passes(600).await;
    assert!(!has(&cluster, "custom-1", POST_DRAIN));

    let mut machine: drover_api::cluster_api::machine::Machine = cluster.get(FLEET_NAMESPACE, "custom-1").unwrap();
    machine.metadata.annotations.get_or_insert_default().insert("corral.drover.dev/stale".into(), "true".into());
    let status = machine.status.as_mut().unwrap();
    status.rest.insert("nodeInfo".into(), json!({"kubeletVersion": FROM}));
    let machine = cluster.direct.update(&machine).unwrap();
    let mut outdated = machine.clone();
    outdated.status.as_mut().unwrap().rest.insert("nodeInfo".into(), json!({"kubeletVersion": FROM}));
    cluster.direct.update_status(&outdated).unwrap();
    cluster.annotate("node-1", "corral.drover.dev/unhealthy-probes", "");
    cluster.until("it asks after the plan", |cluster| has(cluster, "custom-1", POST_DRAIN)).await;
    acknowledge(&cluster, "custom-1", POST_DRAIN, POST_HOOK);
    cluster
        .until("it waits for a kubelet that is long there", |cluster| {
            message(cluster) == "configuring bootstrap node(s) custom-1: waiting for kubelet to update"
        })
        .await;
    cluster.passes(600).await;
    assert_eq!(in_drain(&cluster), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn annotations_that_an_old_reading_brings_back_ask_for_one_more_answer() {
    let cluster = provisioned(&["ecw", "w"]).await;
    let mut plane: RKEControlPlane = cluster.get(FLEET_NAMESPACE, "local").unwrap();
    plane
        .metadata
        .annotations
        .get_or_insert_default()
        .insert("corral.drover.dev/wedges".into(), "stale-annotations".into());
    cluster.direct.update(&plane).unwrap();
    ask(&cluster, "1");
    cluster.until("it asks before the drain", |cluster| has(cluster, "custom-1", PRE_DRAIN)).await;
    acknowledge(&cluster, "custom-1", PRE_DRAIN, PRE_HOOK);
    cluster.until("it asks after the plan", |cluster| has(cluster, "custom-1", POST_DRAIN)).await;
    acknowledge(&cluster, "custom-1", POST_DRAIN, POST_HOOK);
    cluster.passes(600).await;

    assert_eq!(in_drain(&cluster), ["custom-1"]);
    assert!(!has(&cluster, "custom-1", POST_HOOK));
    acknowledge(&cluster, "custom-1", POST_DRAIN, POST_HOOK);
    cluster.until("the next one", |cluster| in_drain(cluster) == ["custom-2"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_paused_or_has_lost_its_state_goes_nowhere() {
    let cluster = provisioned(&["ecw", "w"]).await;
    let mut capi: CapiCluster = cluster.get(FLEET_NAMESPACE, "local").unwrap();
    capi.spec.get_or_insert_default().paused = Some(true);
    cluster.direct.update(&capi).unwrap();
    ask(&cluster, "1");
    cluster.passes(60).await;
    assert_eq!(in_drain(&cluster), Vec::<String>::new());
    assert_eq!(message(&cluster), "CAPI cluster or RKEControlPlane is paused");

    let mut capi: CapiCluster = cluster.get(FLEET_NAMESPACE, "local").unwrap();
    capi.spec.get_or_insert_default().paused = None;
    cluster.direct.delete::<Secret>(Some(FLEET_NAMESPACE), "local-rke-state", None).unwrap();
    cluster.direct.update(&capi).unwrap();
    cluster.passes(60).await;
    assert_eq!(in_drain(&cluster), Vec::<String>::new());
}
