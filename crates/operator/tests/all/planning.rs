//! A cluster without Rancher is taken to another version of RKE2, on the embedded cluster in virtual time: the planner is ours, the
//! agents that carry out its plans are the world's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use drover_api::cluster_api::cluster::Cluster as CapiCluster;
use drover_api::rancher::machine_plan::annotations::{
    DRAIN_OPTIONS, POST_DRAIN, POST_HOOK, PRE_DRAIN, PRE_HOOK, UNCORDON,
};
use drover_api::rancher::provisioning_cluster::Cluster as RancherCluster;
use drover_api::rancher::rke_control_plane::RKEControlPlane;
use drover_clock::Clock;
use drover_corral::apiserver::{ApiServer, Direct, Options};
use drover_corral::world::provisioned::{Seed, settled};
use drover_corral::world::{Part, World, WorldOptions, annotations, definitions};
use drover_operator::{Planner, PlannerOptions};
use http::StatusCode;
use k8s_openapi::api::core::v1::{Node, Secret};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

const FROM: &str = "v1.33.5+rke2r1";
const TO: &str = "v1.34.1+rke2r1";
const FLEET: &str = "fleet-local";

/// A cluster that runs, and everything that was out of service at once.
struct Cluster {
    server: ApiServer,
    user: Direct,
    clock: Clock,
    worst: Arc<Mutex<BTreeSet<String>>>,
    world: JoinHandle<()>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.world.abort();
    }
}

impl Cluster {
    /// Machines by their roles: `e`, `c` and `w`. Their kubelets send no heartbeats, which takes time and changes nothing.
    fn new(roles: &[&str]) -> Self {
        Cluster::with_heartbeats(roles, None)
    }

    fn with_heartbeats(roles: &[&str], period: Option<Duration>) -> Self {
        Cluster::of(roles, period, "v2.12.3")
    }

    /// As a version of Rancher has left it.
    fn of(roles: &[&str], period: Option<Duration>, rancher: &str) -> Self {
        let clock = Clock::virtual_from("2026-01-01T12:00:00Z".parse().unwrap());
        let server =
            ApiServer::new(Options { clock, seed: 1, latency: Duration::from_millis(1), watch_window: 10_000 });
        let mut objects: Vec<Value> = ["fleet-local", "cattle-system"]
            .iter()
            .map(|name| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }))
            .collect();
        objects.extend(definitions::harvester());
        let mut seeds = Vec::new();
        for (at, roles) in roles.iter().enumerate() {
            let seed = Seed {
                machine: format!("custom-{}", at + 1),
                node: format!("node-{}", at + 1),
                address: format!("10.0.0.{}", at + 1),
                etcd: roles.contains('e'),
                control_plane: roles.contains('c'),
                worker: roles.contains('w'),
            };
            objects.push(node(&seed));
            seeds.push(seed);
        }
        objects.extend(settled(&seeds, FROM, rancher));
        server.load(&json!({ "apiVersion": "v1", "kind": "List", "items": objects })).unwrap();
        let worst = Arc::new(Mutex::new(BTreeSet::new()));
        let mut options = WorldOptions::default().with([Part::SystemAgents, Part::Etcd]);
        options.kubelet.lease_period = period;
        let world = tokio::spawn(World::run(server.clone(), options));
        let cluster = Cluster { user: server.direct("user"), server, clock, worst, world };
        cluster.watch_cordons();
        cluster
    }

    /// Notes the largest set of nodes that were cordoned at the same time.
    fn watch_cordons(&self) {
        let (worst, cordoned) = (self.worst.clone(), Mutex::new(BTreeSet::new()));
        self.server.observe(Box::new(move |commit| {
            if commit.resource.plural != "nodes" || !commit.resource.group.is_empty() {
                return;
            }
            let object: Value = commit.after.map(|json| serde_json::from_slice(json).unwrap()).unwrap_or_default();
            let name = commit.name.to_owned();
            let mut cordoned = cordoned.lock().unwrap();
            match object["spec"]["unschedulable"] == true {
                true => drop(cordoned.insert(name)),
                false => drop(cordoned.remove(&name)),
            }
            let mut worst = worst.lock().unwrap();
            if cordoned.len() > worst.len() {
                worst.clone_from(&cordoned);
            }
        }));
    }

    fn planner(&self, name: &str) -> JoinHandle<()> {
        self.planner_of(self.server.client(name), name)
    }

    fn planner_of(&self, client: kube::Client, name: &str) -> JoinHandle<()> {
        let planner = Planner::new(client, PlannerOptions::new(name, self.clock));
        tokio::spawn(planner.run(std::future::pending()))
    }

    async fn pass(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    /// Asks for another version, with these drain options for all machines.
    fn ask(&self, version: &str, options: Value, worker_concurrency: &str) {
        let mut cluster = self.user.get::<RancherCluster>(Some(FLEET), "local").unwrap().unwrap();
        let spec = cluster.spec.as_mut().unwrap();
        spec.kubernetes_version = Some(version.to_owned());
        let config = spec.rke_config.get_or_insert_default();
        config.provision_generation = config.provision_generation.map(|generation| generation + 1);
        let strategy = json!({
            "controlPlaneConcurrency": "1", "controlPlaneDrainOptions": options,
            "workerConcurrency": worker_concurrency, "workerDrainOptions": options,
        });
        config.upgrade_strategy = Some(serde_json::from_value(strategy).unwrap());
        self.user.update(&cluster).unwrap();
    }

    fn node(&self, name: &str) -> Node {
        self.user.get::<Node>(None, name).unwrap().unwrap()
    }

    fn change_node(&self, name: &str, change: impl FnOnce(&mut Node)) {
        let mut node = self.node(name);
        change(&mut node);
        self.user.update(&node).unwrap();
    }

    fn versions(&self) -> BTreeMap<String, String> {
        let nodes = self.user.list::<Node>().unwrap().into_iter();
        nodes
            .map(|node| (node.metadata.name.unwrap(), node.status.unwrap().node_info.unwrap().kubelet_version))
            .collect()
    }

    fn cordoned(&self) -> Vec<String> {
        let nodes = self.user.list::<Node>().unwrap().into_iter();
        let out = nodes.filter(|node| node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true)));
        out.map(|node| node.metadata.name.unwrap()).collect()
    }

    fn secret(&self, machine: &str) -> Secret {
        self.user.get::<Secret>(Some(FLEET), &format!("{machine}-machine-plan")).unwrap().unwrap()
    }

    fn note(&self, machine: &str, key: &str) -> Option<String> {
        self.secret(machine).metadata.annotations?.get(key).cloned().filter(|value| !value.is_empty())
    }

    /// What the conditions of all three objects say; it has to be the same.
    fn message(&self) -> String {
        let of = |conditions: Option<Vec<drover_api::foreign::LooseCondition>>, kind: &str| {
            let all = conditions.unwrap_or_default();
            all.into_iter().find(|one| one.type_ == kind).map(|one| (one.status, one.reason, one.message)).unwrap()
        };
        let plane = self.user.get::<RKEControlPlane>(Some(FLEET), "local").unwrap().unwrap();
        let plane = of(plane.status.unwrap().conditions, "Ready");
        let cluster = self.user.get::<RancherCluster>(Some(FLEET), "local").unwrap().unwrap();
        assert_eq!(of(cluster.status.unwrap().conditions, "Updated"), plane);
        let capi = self.user.get::<CapiCluster>(Some(FLEET), "local").unwrap().unwrap();
        assert_eq!(of(capi.status.unwrap().conditions, "ControlPlaneReady"), plane);
        plane.2.unwrap_or_default()
    }

    fn phase(&self) -> String {
        self.user.get::<CapiCluster>(Some(FLEET), "local").unwrap().unwrap().status.unwrap().phase.unwrap()
    }

    fn all_run(&self, version: &str) -> bool {
        self.versions().values().all(|one| one == version) && self.phase() == "Provisioned"
    }

    async fn until(&self, seconds: u64, holds: impl Fn(&Cluster) -> bool) {
        for _ in 0..seconds {
            if holds(self) {
                return;
            }
            self.pass(1).await;
        }
        panic!("after {seconds} s: {:?}, {:?} cordoned: {}", self.versions(), self.cordoned(), self.message());
    }

    /// Nothing of a drain is left anywhere.
    fn is_tidy(&self, machines: usize) -> bool {
        let keys = [DRAIN_OPTIONS, PRE_DRAIN, UNCORDON, POST_DRAIN, PRE_HOOK, POST_HOOK];
        let clean = (1..=machines).all(|at| keys.iter().all(|key| self.note(&format!("custom-{at}"), key).is_none()));
        let nodes = self.user.list::<Node>().unwrap();
        let marked =
            |node: &Node| node.metadata.labels.as_ref().is_some_and(|all| all.contains_key("drover.dev/claim"));
        clean && !nodes.iter().any(marked)
    }

    /// Answers hooks as their owner does, until it is dropped.
    fn answers_hooks(&self, machines: usize) -> JoinHandle<()> {
        let (user, clock) = (self.user.clone(), self.clock);
        tokio::spawn(async move {
            loop {
                clock.sleep(Duration::from_millis(700)).await;
                for at in 1..=machines {
                    let name = format!("custom-{at}-machine-plan");
                    let mut secret = user.get::<Secret>(Some(FLEET), &name).unwrap().unwrap();
                    let notes = secret.metadata.annotations.get_or_insert_default();
                    let before = notes.clone();
                    for (asked, answer) in [(PRE_DRAIN, PRE_HOOK), (POST_DRAIN, POST_HOOK)] {
                        if let Some(token) = before.get(asked) {
                            notes.insert(answer.to_owned(), token.clone());
                        }
                    }
                    if *notes != before {
                        // Somebody else may have been faster: then it is for the next round.
                        let _ = user.update(&secret);
                    }
                }
            }
        })
    }
}

fn node(seed: &Seed) -> Value {
    let mut labels = json!({ "kubernetes.io/hostname": seed.node, "kubernetes.io/os": "linux" });
    let mut conditions = Vec::new();
    if seed.etcd {
        labels["node-role.kubernetes.io/etcd"] = json!("true");
        conditions.push(json!({ "type": "EtcdIsVoter", "status": "True", "reason": "MemberNotLearner" }));
    }
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": seed.node, "labels": labels,
            "annotations": { annotations::KUBELET: annotations::SIMULATED, "cluster.x-k8s.io/machine": seed.machine },
        },
        "spec": {},
        "status": { "conditions": conditions, "nodeInfo": {
            "kubeletVersion": FROM, "operatingSystem": "linux", "architecture": "amd64", "bootID": "",
            "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "", "machineID": "", "osImage": "",
            "systemUUID": "",
        } },
    })
}

fn drains() -> Value {
    json!({ "enabled": true, "force": true, "ignoreDaemonSets": true, "deleteEmptyDirData": true })
}

fn with_hooks() -> Value {
    let mut options = drains();
    options["preDrainHooks"] = json!([{ "annotation": PRE_HOOK }]);
    options["postDrainHooks"] = json!([{ "annotation": POST_HOOK }]);
    options
}

const SERVERS: [&str; 3] = ["ecw", "ecw", "ecw"];

#[tokio::test(start_paused = true)]
async fn three_servers_go_one_after_another_the_first_one_first() {
    let cluster = Cluster::new(&SERVERS);
    let _planner = cluster.planner("planner-1");
    cluster.pass(30).await;
    assert_eq!((cluster.message().as_str(), cluster.phase().as_str()), ("", "Provisioned"));

    cluster.ask(TO, drains(), "1");
    cluster.pass(10).await;
    assert_eq!(cluster.phase(), "Provisioning");
    assert!(cluster.message().contains("bootstrap node(s) custom-1: "), "{}", cluster.message());
    cluster.until(300, |cluster| cluster.all_run(TO)).await;

    assert_eq!(cluster.worst.lock().unwrap().len(), 1);
    assert!(cluster.is_tidy(3));
    assert_eq!(cluster.cordoned(), Vec::<String>::new());
    assert_eq!(cluster.message(), "");
}

#[tokio::test(start_paused = true)]
async fn a_server_and_its_worker_are_upgraded_the_server_first() {
    let cluster = Cluster::new(&["ec", "w"]);
    let _planner = cluster.planner("planner-1");
    cluster.pass(10).await;
    cluster.ask(TO, drains(), "1");

    cluster.until(300, |cluster| cluster.versions()["node-1"] == TO).await;
    assert_eq!(cluster.versions()["node-2"], FROM);
    cluster.until(300, |cluster| cluster.all_run(TO)).await;
    assert_eq!(cluster.worst.lock().unwrap().len(), 1);
    assert!(cluster.is_tidy(2));
}

#[tokio::test(start_paused = true)]
async fn a_node_waits_for_the_owners_of_its_hooks_before_and_after() {
    let cluster = Cluster::new(&SERVERS);
    let _planner = cluster.planner("planner-1");
    cluster.pass(10).await;
    cluster.ask(TO, with_hooks(), "1");
    cluster.pass(60).await;

    // As seed and original have it, word for word.
    assert_eq!(cluster.message(), "draining bootstrap node(s) custom-1: draining node");
    let token = cluster.note("custom-1", PRE_DRAIN).unwrap();
    assert_eq!(cluster.note("custom-1", DRAIN_OPTIONS).as_deref(), Some(token.as_str()));
    assert_eq!(
        token,
        r#"{"deleteEmptyDirData":true,"disableEviction":false,"enabled":true,"force":true,"gracePeriod":0,"ignoreDaemonSets":true,"postDrainHooks":[{"annotation":"harvesterhci.io/post-hook"}],"preDrainHooks":[{"annotation":"harvesterhci.io/pre-hook"}],"skipWaitForDeleteTimeoutSeconds":0,"timeout":0}"#
    );
    assert_eq!(cluster.cordoned(), ["node-1"]);
    assert_eq!(cluster.versions()["node-1"], FROM);

    let _owner = cluster.answers_hooks(3);
    cluster.until(400, |cluster| cluster.all_run(TO)).await;
    assert_eq!(cluster.worst.lock().unwrap().len(), 1);
    assert!(cluster.is_tidy(3));
}

#[tokio::test(start_paused = true)]
async fn the_same_version_again_is_a_plan_of_its_own() {
    let cluster = Cluster::new(&["ec", "w"]);
    let _planner = cluster.planner("planner-1");
    cluster.pass(10).await;
    cluster.ask(FROM, with_hooks(), "1");
    let _owner = cluster.answers_hooks(2);
    cluster.pass(5).await;
    assert!(cluster.message().contains("bootstrap node(s) custom-1"), "{}", cluster.message());
    cluster.until(400, |cluster| cluster.message().is_empty()).await;
    assert_eq!(cluster.worst.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn workers_go_as_many_at_once_as_may() {
    let cluster = Cluster::new(&["ec", "w", "w", "w", "w"]);
    let _planner = cluster.planner("planner-1");
    cluster.pass(10).await;
    cluster.ask(TO, drains(), "50%");
    cluster.until(600, |cluster| cluster.all_run(TO)).await;
    assert_eq!(cluster.worst.lock().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn no_voter_goes_while_another_is_lost() {
    let cluster = Cluster::with_heartbeats(&SERVERS, Some(Duration::from_secs(10)));
    let _planner = cluster.planner("planner-1");
    cluster.pass(10).await;
    cluster.change_node("node-3", |node| {
        let away = ("corral.drover.dev/down-until".to_owned(), "2026-01-01T12:10:00Z".to_owned());
        node.metadata.annotations.get_or_insert_default().extend([away]);
    });
    cluster
        .until(300, |cluster| {
            let conditions = cluster.node("node-3").status.unwrap().conditions.unwrap_or_default();
            conditions.iter().any(|one| one.type_ == "Ready" && one.status != "True")
        })
        .await;
    cluster.ask(TO, drains(), "1");
    cluster.pass(60).await;

    let said = "configuring bootstrap node(s) custom-1: etcd needs 2 of 3 voters, and node-3 is out: node-1 must not be taken out as well";
    assert_eq!(cluster.message(), said);
    assert_eq!(cluster.cordoned(), Vec::<String>::new());
    cluster.until(1200, |cluster| cluster.all_run(TO)).await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_holds_up_a_drain_and_nothing_is_delivered() {
    let cluster = Cluster::new(&["ec", "w"]);
    let labels = json!({ "app": "shop" });
    let template = json!({ "metadata": { "labels": labels }, "spec": {
        "nodeSelector": { "kubernetes.io/hostname": "node-2" },
        "containers": [{ "name": "main", "image": "registry.k8s.io/pause" }] } });
    let objects = json!([
        { "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "shop", "namespace": "default" },
          "spec": { "replicas": 1, "selector": { "matchLabels": labels }, "template": template } },
        { "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "shop", "namespace": "default" },
          "spec": { "minAvailable": 1, "selector": { "matchLabels": labels } } },
    ]);
    cluster.server.load(&json!({ "apiVersion": "v1", "kind": "List", "items": objects })).unwrap();
    let _planner = cluster.planner("planner-1");
    cluster.pass(30).await;
    cluster.ask(TO, drains(), "1");
    cluster.pass(900).await;

    assert_eq!(cluster.message(), "draining worker node(s) custom-2: draining node");
    assert_eq!(cluster.versions()["node-2"], FROM);
    let error = cluster.note("custom-2", "rke.cattle.io/drain-error").unwrap();
    assert!(error.contains("default/shop-"), "{error}");

    use k8s_openapi::api::policy::v1::PodDisruptionBudget;
    cluster.user.delete::<PodDisruptionBudget>(Some("default"), "shop", None).unwrap();
    cluster.until(300, |cluster| cluster.all_run(TO)).await;
    assert!(cluster.is_tidy(2));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_pauses_is_not_touched_and_the_other_workers_go_on() {
    let cluster = Cluster::new(&["ec", "w", "w"]);
    let _planner = cluster.planner("planner-1");
    cluster.pass(10).await;
    cluster.change_node("node-2", |node| {
        let pause = ("harvesterhci.io/node-upgrade-pause".to_owned(), "up".to_owned());
        node.metadata.annotations.get_or_insert_default().extend([pause]);
    });
    cluster.ask(TO, drains(), "1");
    cluster.until(300, |cluster| cluster.versions()["node-3"] == TO).await;
    cluster.pass(60).await;
    let said = "configuring worker node(s) custom-2: Node node-2 is paused as requested by the user";
    assert_eq!((cluster.message().as_str(), cluster.versions()["node-2"].as_str()), (said, FROM));
    assert_eq!(cluster.cordoned(), Vec::<String>::new());

    cluster.change_node("node-2", |node| {
        node.metadata.annotations.get_or_insert_default().remove("harvesterhci.io/node-upgrade-pause");
    });
    cluster.until(300, |cluster| cluster.all_run(TO)).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_somebody_has_cordoned_stays_so() {
    let cluster = Cluster::new(&["ec", "w"]);
    cluster.change_node("node-2", |node| node.spec.get_or_insert_default().unschedulable = Some(true));
    let _planner = cluster.planner("planner-1");
    cluster.pass(10).await;
    cluster.ask(TO, drains(), "1");
    cluster.until(400, |cluster| cluster.all_run(TO)).await;
    assert_eq!(cluster.cordoned(), ["node-2"]);
    assert!(cluster.is_tidy(2));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_while_rancher_is_at_work() {
    let cluster = Cluster::new(&["ec", "w"]);
    let labels = json!({ "app": "rancher" });
    let rancher = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "rancher", "namespace": "cattle-system" },
        "spec": { "replicas": 1, "selector": { "matchLabels": labels }, "template": {
            "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "rancher", "image": "rancher" }] } } },
    });
    cluster.server.load(&json!({ "apiVersion": "v1", "kind": "List", "items": [rancher] })).unwrap();
    let before = cluster.secret("custom-1");
    let _planner = cluster.planner("planner-1");
    cluster.ask(TO, drains(), "1");
    cluster.pass(120).await;

    assert_eq!(cluster.secret("custom-1"), before);
    let plane = cluster.user.get::<RKEControlPlane>(Some(FLEET), "local").unwrap().unwrap();
    assert_eq!(plane.spec.unwrap().kubernetes_version.as_deref(), Some(FROM));

    use k8s_openapi::api::apps::v1::Deployment;
    cluster.user.delete::<Deployment>(Some("cattle-system"), "rancher", None).unwrap();
    cluster.until(400, |cluster| cluster.all_run(TO)).await;
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_stays_failed_is_tried_again_when_a_user_says_so() {
    // Agents of this version do not try again by themselves.
    let cluster = Cluster::of(&["ec", "w"], None, "v2.15.0");
    let _planner = cluster.planner("planner-1");
    cluster.pass(10).await;
    let fails = "corral.drover.dev/plan-fails".to_owned();
    cluster.change_node("node-2", |node| {
        node.metadata.annotations.get_or_insert_default().insert(fails.clone(), "true".to_owned());
    });
    cluster.ask(TO, drains(), "1");
    cluster.pass(300).await;
    assert_eq!(cluster.message(), "configuring worker node(s) custom-2: failure while applying plan");
    assert_eq!(cluster.versions()["node-1"], TO);

    cluster.change_node("node-2", |node| {
        let notes = node.metadata.annotations.get_or_insert_default();
        notes.remove(&fails);
        notes.insert("drover.dev/retry".to_owned(), "now".to_owned());
    });
    cluster.until(300, |cluster| cluster.all_run(TO)).await;
    let notes = cluster.node("node-2").metadata.annotations.unwrap_or_default();
    assert!(!notes.contains_key("drover.dev/retry"));
    assert!(cluster.is_tidy(2));
}

#[tokio::test(start_paused = true)]
async fn a_node_costs_few_requests_and_nobody_waits_for_nothing() {
    const NODES: usize = 10;
    let mut roles = vec!["w"; NODES];
    roles[..3].copy_from_slice(&SERVERS);
    let cluster = Cluster::new(&roles);
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let client = crate::support::refusing::client(cluster.server.service("planner-1"), move |request| {
        if !request.uri().path().contains("/leases") {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        None
    });
    let _planner = cluster.planner_of(client, "planner-1");
    cluster.pass(30).await;
    let (before, began) = (asked.load(Ordering::SeqCst), cluster.clock.now());

    cluster.ask(TO, drains(), "1");
    while !(cluster.all_run(TO) && cluster.is_tidy(NODES)) {
        cluster.clock.sleep(Duration::from_millis(100)).await;
    }

    // An agent takes 15 seconds for a plan and 5 more until it has probed, counted in whole ones: all else is the planner's.
    let each = drover_clock::between(began, cluster.clock.now()).as_secs_f64() / NODES as f64;
    let requests = (asked.load(Ordering::SeqCst) - before) / NODES;
    println!("{each:.2} s and {requests} requests a node");
    assert!(each < 21.0, "{each:.2} s a node");
    assert!(requests <= 30, "{requests} requests a node");
}

/// A planner that dies after so many writes, and another that takes over when its Lease has lapsed.
async fn survives_a_crash_after(cluster: Cluster, writes: usize) -> bool {
    cluster.ask(TO, with_hooks(), "1");
    let owner = cluster.answers_hooks(2);
    let left = Arc::new(AtomicUsize::new(writes));
    let counted = left.clone();
    let client = crate::support::refusing::client(cluster.server.service("planner-1"), move |request| {
        let is_write = request.method() != http::Method::GET && !request.uri().path().contains("/leases");
        let take_one = |left: usize| left.checked_sub(1);
        let is_dead = is_write && counted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take_one).is_err();
        is_dead.then_some(StatusCode::SERVICE_UNAVAILABLE)
    });
    let first = cluster.planner_of(client, "planner-1");
    let mut second = None;
    for _ in 0..600 {
        cluster.pass(1).await;
        if left.load(Ordering::SeqCst) == 0 && second.is_none() {
            first.abort();
            second = Some(cluster.planner("planner-2"));
        }
        if cluster.all_run(TO) && cluster.is_tidy(2) && cluster.cordoned().is_empty() && cluster.message().is_empty() {
            assert_eq!(cluster.worst.lock().unwrap().len(), 1, "after {writes} writes");
            owner.abort();
            first.abort();
            if let Some(second) = &second {
                second.abort();
            }
            return second.is_some();
        }
    }
    panic!("after {writes} writes: {:?}, {:?} cordoned: {}", cluster.versions(), cluster.cordoned(), cluster.message());
}

#[tokio::test(start_paused = true)]
async fn a_planner_may_die_after_any_of_its_writes() {
    let mut writes = 0;
    while survives_a_crash_after(Cluster::new(&["ec", "w"]), writes).await {
        writes += 1;
    }
    assert!(writes > 25, "only {writes} writes");
}

#[tokio::test(start_paused = true)]
async fn two_planners_at_once_keep_the_limit() {
    let cluster = Cluster::new(&["ecw", "ecw", "ecw", "w"]);
    let mut planners = Vec::new();
    for name in ["planner-1", "planner-2"] {
        let mut options = PlannerOptions::new(name, cluster.clock);
        options.election.stands = false;
        let planner = Planner::new(cluster.server.client(name), options);
        planners.push(tokio::spawn(planner.run(std::future::pending())));
    }
    cluster.pass(10).await;
    cluster.ask(TO, drains(), "1");
    cluster.until(900, |cluster| cluster.versions().values().all(|one| one == TO)).await;
    assert_eq!(cluster.worst.lock().unwrap().len(), 1);
}

/// Machines on which no agent is: their plans are carried out by Jobs.
fn without_agents(roles: &[&str]) -> Cluster {
    let cluster = Cluster::new(roles);
    for at in 1..=roles.len() {
        cluster.change_node(&format!("node-{at}"), |node| {
            let absent = ("corral.drover.dev/system-agent".to_owned(), "absent".to_owned());
            node.metadata.annotations.get_or_insert_default().extend([absent]);
        });
    }
    let mut asked = cluster.user.get::<RancherCluster>(Some(FLEET), "local").unwrap().unwrap();
    asked.metadata.annotations.get_or_insert_default().insert("drover.dev/executor".to_owned(), "job".to_owned());
    cluster.user.update(&asked).unwrap();
    cluster
}

fn jobs_at_work(cluster: &Cluster) -> usize {
    let jobs = cluster.user.list::<k8s_openapi::api::batch::v1::Job>().unwrap();
    jobs.iter().filter(|job| job.status.as_ref().is_none_or(|status| status.completion_time.is_none())).count()
}

#[tokio::test(start_paused = true)]
async fn machines_without_an_agent_are_upgraded_by_jobs() {
    let cluster = without_agents(&["ecw", "ecw", "ecw", "w"]);
    let _planner = cluster.planner("planner-1");
    cluster.pass(10).await;
    cluster.ask(TO, with_hooks(), "1");
    let _owner = cluster.answers_hooks(4);
    cluster.until(600, |cluster| cluster.all_run(TO)).await;

    assert_eq!(cluster.worst.lock().unwrap().len(), 1);
    cluster.pass(5).await;
    assert!(cluster.is_tidy(4));
    assert_eq!((cluster.message().as_str(), jobs_at_work(&cluster)), ("", 0));
    assert_eq!(cluster.cordoned(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_job_that_fails_is_told_with_its_words_and_tried_again_when_a_user_says_so() {
    let cluster = without_agents(&["ec", "w"]);
    let _planner = cluster.planner("planner-1");
    cluster.pass(10).await;
    let fails = "corral.drover.dev/job-exit-code".to_owned();
    cluster.change_node("node-2", |node| {
        node.metadata.annotations.get_or_insert_default().insert(fails.clone(), "1".to_owned());
    });
    cluster.ask(TO, drains(), "1");
    cluster.pass(600).await;
    let said = "configuring worker node(s) custom-2: failure while applying plan: Job apply-plan-custom-2-";
    assert!(cluster.message().starts_with(said), "{}", cluster.message());
    assert!(cluster.message().ends_with(": it ended with exit code 1"), "{}", cluster.message());
    assert_eq!((cluster.versions()["node-1"].as_str(), cluster.versions()["node-2"].as_str()), (TO, FROM));
    assert_eq!(cluster.cordoned(), ["node-2"]);

    cluster.change_node("node-2", |node| {
        let notes = node.metadata.annotations.get_or_insert_default();
        notes.remove(&fails);
        notes.insert("drover.dev/retry".to_owned(), "now".to_owned());
    });
    cluster.until(300, |cluster| cluster.all_run(TO)).await;
    cluster.pass(5).await;
    let notes = cluster.node("node-2").metadata.annotations.unwrap_or_default();
    assert!(!notes.contains_key("drover.dev/retry"));
    assert!(cluster.is_tidy(2));
}

#[tokio::test(start_paused = true)]
async fn a_planner_whose_plans_jobs_carry_out_may_die_after_any_of_its_writes() {
    let mut writes = 0;
    while survives_a_crash_after(without_agents(&["ec", "w"]), writes).await {
        writes += 1;
    }
    assert!(writes > 29, "only {writes} writes");
}
