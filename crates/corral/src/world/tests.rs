//! The parts of the world together, on a server, in virtual time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use drover_clock::Clock;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::PropagationPolicy;
use serde_json::{Value, json};

use super::annotations::{KUBELET, SIMULATED};
use super::{World, WorldOptions, pods};
use crate::apiserver::{ApiServer, Direct, Kind, Options, ResourceId};

fn noon() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn object<K: Kind>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// A cluster with a world on it.
pub(super) struct Cluster {
    server: ApiServer,
    pub(super) direct: Direct,
    world: tokio::task::JoinHandle<()>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.world.abort();
    }
}

impl Cluster {
    pub(super) fn new(options: WorldOptions) -> Cluster {
        Cluster::on(fresh_server(noon()), options)
    }

    pub(super) fn on(server: ApiServer, options: WorldOptions) -> Cluster {
        let world = tokio::spawn(World::run(server.clone(), options));
        Cluster { direct: server.direct("test"), server, world }
    }

    pub(super) async fn with_nodes(names: &[&str]) -> Cluster {
        let cluster = Cluster::new(WorldOptions::default());
        for name in names {
            cluster.create::<Node>(node(name));
        }
        cluster.passes(1).await;
        cluster
    }

    pub(super) fn create<K: Kind>(&self, value: Value) -> K {
        self.direct.create(&object::<K>(value)).unwrap()
    }

    /// Serves the kinds of the products that a Harvester cluster is made of.
    pub(super) fn define_harvester(&self) {
        self.load(super::definitions::harvester());
    }

    pub(super) fn load(&self, objects: Vec<Value>) {
        self.server.load(&json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": objects})).unwrap();
    }

    pub(super) fn ensure_namespace(&self, name: &str) {
        self.create::<Namespace>(json!({"metadata": {"name": name}}));
    }

    pub(super) fn get<K: Kind>(&self, namespace: &str, name: &str) -> Option<K> {
        self.direct.get(Some(namespace).filter(|namespace| !namespace.is_empty()), name).unwrap()
    }

    pub(super) fn node(&self, name: &str) -> Node {
        self.get("", name).unwrap()
    }

    fn job(&self, name: &str) -> Job {
        self.get("default", name).unwrap()
    }

    pub(super) fn pods(&self) -> Vec<Pod> {
        self.direct.list().unwrap()
    }

    /// Tells who makes each write.
    pub(super) fn observe(&self, mut tell: impl FnMut(&str) + Send + 'static) {
        self.server.observe(Box::new(move |commit| tell(commit.actor)));
    }

    pub(super) fn annotate(&self, node: &str, key: &str, value: &str) {
        let mut node = self.node(node);
        node.metadata.annotations.get_or_insert_default().insert(key.into(), value.into());
        self.direct.update(&node).unwrap();
    }

    pub(super) async fn passes(&self, seconds: u64) {
        self.server.clock().sleep(Duration::from_secs(seconds)).await;
    }

    /// Waits for something to become so, and fails if it has not within an hour.
    pub(super) async fn until(&self, what: &str, holds: impl Fn(&Cluster) -> bool) {
        for _ in 0..36_000 {
            if holds(self) {
                return;
            }
            self.server.clock().sleep(Duration::from_millis(100)).await;
        }
        panic!("it never came to this: {what}\n{:#}", self.server.save());
    }

    async fn until_finished(&self, job: &str) -> Vec<String> {
        self.until("the Job finishes", |cluster| super::job::is_finished(&cluster.job(job))).await;
        let job = self.job(job);
        let conditions = job.status.as_ref().unwrap().conditions.as_ref().unwrap();
        conditions.iter().map(|one| format!("{} {}", one.type_, one.reason.clone().unwrap())).collect()
    }
}

fn fresh_server(epoch: Timestamp) -> ApiServer {
    let clock = Clock::virtual_from(epoch);
    ApiServer::new(Options { clock, seed: 7, latency: Duration::from_millis(1), watch_window: 1000 })
}

pub(super) fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": {KUBELET: SIMULATED}}})
}

/// A Job in the form of an upgrade of one node.
fn upgrade(name: &str, annotations: Value, spec: Value) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "completions": 1, "parallelism": 1, "backoffLimit": 2,
            "template": {
                "metadata": {"labels": {"upgrade.cattle.io/version": "v1.35.0"}, "annotations": annotations},
                "spec": {
                    "restartPolicy": "Never",
                    "tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}],
                    "containers": [{"name": "upgrade", "image": "rancher/k3s-upgrade:v1.35.0"}],
                },
            },
        },
    });
    job["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    job
}

fn pinned_by_claim(mut job: Value, claim: &str) -> Value {
    job["spec"]["template"]["spec"]["affinity"] = json!({"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "drover.dev/claim", "operator": "In", "values": [claim]},
        ]}]},
    }});
    job
}

fn ready(node: &Node) -> bool {
    super::lifecycle::is_ready(node)
}

fn kubelet_version(node: &Node) -> &str {
    &node.status.as_ref().unwrap().node_info.as_ref().unwrap().kubelet_version
}

fn boot_id(node: &Node) -> &str {
    &node.status.as_ref().unwrap().node_info.as_ref().unwrap().boot_id
}

fn taints(node: &Node) -> Vec<String> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.map(|taint| format!("{}:{}", taint.key, taint.effect)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_job_pinned_by_a_claim_waits_until_a_node_is_claimed() {
    let cluster = Cluster::with_nodes(&["n1", "n2"]).await;
    cluster.create::<Job>(pinned_by_claim(upgrade("apply", json!({}), json!({})), "c1"));
    cluster.passes(60).await;

    let waiting = cluster.pods().remove(0);
    let scheduled = pods::condition(&waiting, pods::POD_SCHEDULED).unwrap();
    assert_eq!((pods::phase(&waiting), scheduled.reason.as_deref()), (pods::PENDING, Some("Unschedulable")));

    let mut claimed = cluster.node("n2");
    claimed.metadata.labels.get_or_insert_default().insert("drover.dev/claim".into(), "c1".into());
    cluster.direct.update(&claimed).unwrap();

    assert_eq!(
        cluster.until_finished("apply").await,
        ["SuccessCriteriaMet CompletionsReached", "Complete CompletionsReached"]
    );
    assert_eq!(pods::node(&cluster.pods()[0]), Some("n2"));
    assert_eq!(kubelet_version(&cluster.node("n2")), "v1.35.0");
    assert_eq!(kubelet_version(&cluster.node("n1")), "v1.34.4");
}

#[tokio::test(start_paused = true)]
async fn a_failing_job_is_tried_three_times_and_has_failed() {
    let cluster = Cluster::with_nodes(&["n1"]).await;
    cluster.create::<Job>(upgrade("apply", json!({"corral.drover.dev/exit-code": "1"}), json!({})));

    assert_eq!(
        cluster.until_finished("apply").await,
        ["FailureTarget BackoffLimitExceeded", "Failed BackoffLimitExceeded"]
    );
    let status = cluster.job("apply").status.unwrap();
    assert_eq!((status.failed, status.succeeded, status.active), (Some(3), None, None));
    assert_eq!(cluster.pods().len(), 3, "failed pods stay, for those who ask why");
    let took = drover_clock::between(noon(), cluster.server.clock().now()).as_secs();
    assert!((66..75).contains(&took), "3 runs of 12 s and pauses of 10 and 20 s, not {took} s");
}

#[tokio::test(start_paused = true)]
async fn one_faulty_node_fails_only_its_own_job() {
    let cluster = Cluster::new(WorldOptions::default());
    let mut faulty = node("n1");
    faulty["metadata"]["annotations"]["corral.drover.dev/job-exit-code"] = json!("1");
    cluster.create::<Node>(faulty);
    cluster.create::<Node>(node("n2"));
    for name in ["n1", "n2"] {
        cluster.create::<Job>(upgrade(
            &format!("apply-{name}"),
            json!({}),
            json!({"backoffLimit": 0, "template": {
                "metadata": {"labels": {"upgrade.cattle.io/version": "v1.35.0"}},
                "spec": {
                    "restartPolicy": "Never", "nodeSelector": {"kubernetes.io/hostname": name},
                    "containers": [{"name": "upgrade", "image": "upgrade"}],
                },
            }}),
        ));
    }

    assert_eq!(cluster.until_finished("apply-n1").await[1], "Failed BackoffLimitExceeded");
    assert_eq!(cluster.until_finished("apply-n2").await[1], "Complete CompletionsReached");
    assert_eq!((kubelet_version(&cluster.node("n1")), kubelet_version(&cluster.node("n2"))), ("v1.34.4", "v1.35.0"));
}

#[tokio::test(start_paused = true)]
async fn a_hanging_job_is_cut_off_at_its_deadline() {
    let cluster = Cluster::with_nodes(&["n1"]).await;
    let hangs = json!({"corral.drover.dev/duration": "never"});
    cluster.create::<Job>(upgrade("apply", hangs, json!({"activeDeadlineSeconds": 600})));

    assert_eq!(cluster.until_finished("apply").await, ["FailureTarget DeadlineExceeded", "Failed DeadlineExceeded"]);
    assert_eq!(cluster.pods().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_pod_deleted_by_hand_is_replaced() {
    let cluster = Cluster::with_nodes(&["n1"]).await;
    cluster.create::<Job>(upgrade("apply", json!({}), json!({})));
    cluster.until("the pod runs", |cluster| cluster.pods().iter().any(|pod| pods::phase(pod) == pods::RUNNING)).await;
    let first = cluster.pods().remove(0);
    cluster.direct.delete::<Pod>(Some("default"), pods::name(&first.metadata), None).unwrap();

    cluster.until_finished("apply").await;

    let status = cluster.job("apply").status.unwrap();
    assert_eq!((status.failed, status.succeeded), (Some(1), Some(1)));
    assert_eq!(cluster.pods().len(), 1, "the deleted one is gone");
}

#[tokio::test(start_paused = true)]
async fn deleting_the_owner_deletes_its_jobs_and_their_pods() {
    let cluster = Cluster::with_nodes(&["n1"]).await;
    let owner: ConfigMap = cluster
        .create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plan", "namespace": "default"}}));
    let mut job = upgrade("apply", json!({"corral.drover.dev/duration": "never"}), json!({}));
    job["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "plan", "uid": owner.metadata.uid, "controller": true,
    }]);
    cluster.create::<Job>(job);
    cluster.until("the pod runs", |cluster| cluster.pods().iter().any(|pod| pods::phase(pod) == pods::RUNNING)).await;

    cluster.direct.delete::<ConfigMap>(Some("default"), "plan", None).unwrap();
    cluster.passes(3).await;

    assert_eq!(cluster.get::<Job>("default", "apply"), None);
    assert_eq!(cluster.pods(), []);
}

#[tokio::test(start_paused = true)]
async fn an_object_made_for_an_owner_that_is_gone_goes_too() {
    let cluster = Cluster::with_nodes(&[]).await;
    cluster.create::<ConfigMap>(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "late", "namespace": "default", "ownerReferences": [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "plan", "uid": "gone"},
        ]},
    }));
    cluster.create::<ConfigMap>(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "foreign", "namespace": "default", "ownerReferences": [
            {"apiVersion": "example.com/v1", "kind": "Herd", "name": "web", "uid": "elsewhere"},
        ]},
    }));
    cluster.passes(1).await;

    assert_eq!(cluster.get::<ConfigMap>("default", "late"), None);
    assert!(
        cluster.get::<ConfigMap>("default", "foreign").is_some(),
        "nobody can tell about kinds that are not served"
    );
}

#[tokio::test(start_paused = true)]
async fn a_job_deleted_without_its_pods_leaves_them_running() {
    let cluster = Cluster::with_nodes(&["n1"]).await;
    let job: Job = cluster.create(upgrade("apply", json!({"corral.drover.dev/duration": "60s"}), json!({})));
    cluster.passes(10).await;

    let jobs = ResourceId::new("batch", "jobs", "Job");
    let uid = pods::uid(&job.metadata);
    cluster.direct.delete_object(&jobs, "default", "apply", uid, PropagationPolicy::Orphan).unwrap();
    cluster.passes(1).await;

    assert_eq!(cluster.get::<Job>("default", "apply"), None);
    let orphan = cluster.pods().remove(0);
    assert_eq!((pods::phase(&orphan), pods::controller(&orphan.metadata)), (pods::RUNNING, None));
    assert_eq!(orphan.metadata.finalizers, None);
}

#[tokio::test(start_paused = true)]
async fn a_finished_job_goes_with_its_pods_when_its_time_is_over() {
    let cluster = Cluster::with_nodes(&["n1"]).await;
    cluster.create::<Job>(upgrade("apply", json!({}), json!({"ttlSecondsAfterFinished": 900})));
    cluster.until_finished("apply").await;

    cluster.passes(890).await;
    assert!(cluster.get::<Job>("default", "apply").is_some());
    cluster.passes(15).await;

    assert_eq!(cluster.get::<Job>("default", "apply"), None);
    assert_eq!(cluster.pods(), []);
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_reboots_comes_back_with_another_boot_id() {
    let cluster = Cluster::with_nodes(&["n1"]).await;
    let before = cluster.node("n1");
    cluster.create::<Job>(upgrade("apply", json!({"corral.drover.dev/reboot": "20s"}), json!({})));

    cluster.until("the machine goes down", |cluster| !ready(&cluster.node("n1"))).await;
    cluster.passes(1).await;
    let down = cluster.node("n1");
    assert_eq!(taints(&down), ["node.kubernetes.io/not-ready:NoSchedule", "node.kubernetes.io/not-ready:NoExecute"]);
    assert_eq!((kubelet_version(&down), boot_id(&down)), ("v1.35.0", boot_id(&before)));
    assert_eq!(cluster.until_finished("apply").await[1], "Complete CompletionsReached");

    let gone_at = cluster.server.clock().now();
    cluster.until("it comes back", |cluster| ready(&cluster.node("n1"))).await;
    let away = drover_clock::between(gone_at, cluster.server.clock().now()).as_secs();
    assert!((17..=20).contains(&away), "about 20 s, of which one has passed, not {away}");
    cluster.passes(1).await;
    let back = cluster.node("n1");
    assert_ne!(boot_id(&back), boot_id(&before));
    assert_eq!(taints(&back), [] as [String; 0]);
}

#[tokio::test(start_paused = true)]
async fn pods_that_run_for_ever_are_not_ready_while_their_node_is_away() {
    let cluster = Cluster::with_nodes(&["n1"]).await;
    cluster.create::<Pod>(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "web"}]},
    }));
    cluster.create::<PodDisruptionBudget>(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": 0, "selector": {"matchLabels": {"app": "web"}}},
    }));
    let web = |cluster: &Cluster| cluster.get::<Pod>("default", "web").unwrap();
    let allowed = |cluster: &Cluster| {
        let status = cluster.get::<PodDisruptionBudget>("default", "web").unwrap().status;
        status.map(|status| status.disruptions_allowed)
    };
    cluster.until("it is ready", |cluster| pods::is_ready(&web(cluster))).await;
    cluster.until("it may be disrupted", |cluster| allowed(cluster) == Some(1)).await;

    let mut node = cluster.node("n1");
    let back = drover_clock::later(cluster.server.clock().now(), Duration::from_secs(30));
    node.metadata.annotations.get_or_insert_default().insert(super::annotations::DOWN_UNTIL.into(), back.to_string());
    cluster.direct.update(&node).unwrap();

    cluster.until("it is not ready", |cluster| !pods::is_ready(&web(cluster))).await;
    cluster.until("nothing may be disrupted", |cluster| allowed(cluster) == Some(0)).await;
    cluster.until("it is ready again", |cluster| pods::is_ready(&web(cluster))).await;
    assert!(cluster.server.clock().now() >= back);
    assert_eq!(web(&cluster).status.unwrap().container_statuses.unwrap()[0].restart_count, 1);
}

#[tokio::test(start_paused = true)]
async fn a_cordon_container_cordons_as_kubectl_would() {
    let cluster = Cluster::with_nodes(&["n1"]).await;
    let mut job = upgrade("apply", json!({}), json!({}));
    job["spec"]["template"]["spec"]["initContainers"] =
        json!([{"name": "cordon", "image": "rancher/kubectl", "args": ["cordon", "n1"]}]);
    cluster.create::<Job>(job);

    cluster.until_finished("apply").await;

    let node = cluster.node("n1");
    assert_eq!(node.spec.as_ref().unwrap().unschedulable, Some(true));
    assert_eq!(taints(&node), ["node.kubernetes.io/unschedulable:NoSchedule"]);
}

#[tokio::test(start_paused = true)]
async fn two_pods_that_keep_apart_take_turns() {
    let cluster = Cluster::with_nodes(&["n1"]).await;
    for name in ["one", "two"] {
        let mut job = upgrade(name, json!({}), json!({}));
        job["spec"]["template"]["spec"]["affinity"] = json!({"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{
                "labelSelector": {"matchExpressions": [{"key": "upgrade.cattle.io/version", "operator": "Exists"}]},
                "topologyKey": "kubernetes.io/hostname",
            }],
        }});
        cluster.create::<Job>(job);
    }
    cluster.until_finished("one").await;
    cluster.until_finished("two").await;

    let times = |job: &str| {
        let of_job = |pod: &Pod| pods::controller(&pod.metadata).is_some_and(|owner| owner.name == job);
        let pod = cluster.pods().into_iter().find(of_job).unwrap();
        let state = pod.status.unwrap().container_statuses.unwrap().remove(0).state.unwrap().terminated.unwrap();
        (state.started_at.unwrap(), state.finished_at.unwrap())
    };
    let (one, two) = (times("one"), times("two"));
    assert!(one.1 <= two.0 || two.1 <= one.0, "{one:?} and {two:?} overlap");
}

#[tokio::test(start_paused = true)]
async fn leases_are_renewed_every_ten_seconds_while_the_machine_is_there() {
    let cluster = Cluster::with_nodes(&["n1"]).await;
    let renewed = |cluster: &Cluster| {
        let lease = cluster.get::<Lease>("kube-node-lease", "n1").unwrap();
        lease.spec.unwrap().renew_time.unwrap().0
    };
    let first = renewed(&cluster);
    cluster.passes(60).await;
    let last = renewed(&cluster);

    let seconds = drover_clock::between(first, last).as_secs();
    assert!((50..=60).contains(&seconds), "{seconds}");

    cluster.direct.delete::<Node>(None, "n1", None).unwrap();
    cluster.passes(60).await;
    assert_eq!(cluster.get::<Lease>("kube-node-lease", "n1"), None, "the lease goes with its node");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_namespace_is_emptied_and_goes() {
    let cluster = Cluster::with_nodes(&["n1"]).await;
    cluster.create::<Namespace>(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apps"}}));
    let mut job = upgrade("apply", json!({"corral.drover.dev/duration": "never"}), json!({}));
    job["metadata"]["namespace"] = json!("apps");
    cluster.create::<Job>(job);
    cluster.passes(10).await;

    cluster.direct.delete::<Namespace>(None, "apps", None).unwrap();
    cluster.passes(10).await;

    assert_eq!(cluster.get::<Namespace>("", "apps"), None);
    assert_eq!(cluster.pods(), []);
}

/// The world keeps nothing to itself: one that is made anew from the store goes on where the other one stopped.
#[tokio::test(start_paused = true)]
async fn a_saved_world_goes_on_where_it_was() {
    let cluster = Cluster::with_nodes(&["n1"]).await;
    cluster.create::<Job>(upgrade("apply", json!({"corral.drover.dev/duration": "60s"}), json!({})));
    cluster.passes(30).await;
    let (saved, then) = (cluster.server.save(), cluster.server.clock().now());
    drop(cluster);

    let server = fresh_server(then);
    server.load(&saved).unwrap();
    let cluster = Cluster::on(server, WorldOptions::default());
    cluster.until_finished("apply").await;

    assert_eq!(cluster.pods().len(), 1);
    let took = drover_clock::between(noon(), cluster.server.clock().now()).as_secs();
    assert!((62..66).contains(&took), "the pod was not started anew: {took} s");
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_makes_the_same_world() {
    async fn run() -> (String, Vec<String>) {
        let cluster = Cluster::new(WorldOptions::default());
        let trace: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = trace.clone();
        cluster.server.observe(Box::new(move |commit| {
            let line =
                format!("{} {} {:?} {} {}", commit.at, commit.actor, commit.verb, commit.resource.plural, commit.name);
            lines.lock().unwrap().push(line);
        }));
        for number in 0..10 {
            cluster.create::<Node>(node(&format!("n{number}")));
        }
        for number in 0..20 {
            let code = if number % 7 == 0 { "1" } else { "0" };
            cluster.create::<Job>(upgrade(
                &format!("job-{number}"),
                json!({"corral.drover.dev/exit-code": code}),
                json!({}),
            ));
        }
        cluster.passes(300).await;
        let trace = trace.lock().unwrap().clone();
        (cluster.server.digest(), trace)
    }
    let first = run().await;

    assert!(first.1.len() > 200);
    assert_eq!(run().await, first);
}

/// What a change costs must not grow with the cluster: here by the number of commits, which are the world's writes.
#[tokio::test(start_paused = true)]
async fn writes_grow_with_the_work_and_not_with_its_square() {
    async fn commits(nodes: usize) -> BTreeMap<String, usize> {
        let mut options = WorldOptions::default();
        options.kubelet.lease_period = None;
        let cluster = Cluster::new(options);
        let counts: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
        let by_actor = counts.clone();
        cluster.server.observe(Box::new(move |commit| {
            *by_actor.lock().unwrap().entry(commit.actor.to_string()).or_default() += 1;
        }));
        for number in 0..nodes {
            cluster.create::<Node>(node(&format!("n{number}")));
            cluster.create::<Job>(upgrade(&format!("job-{number}"), json!({}), json!({})));
        }
        cluster.passes(120).await;
        std::mem::take(&mut *counts.lock().unwrap())
    }
    let (ten, twenty) = (commits(10).await, commits(20).await);

    for (actor, count) in ten {
        assert!(twenty[&actor] <= 2 * count + 5, "{actor}: {count} writes for 10 nodes, {} for 20", twenty[&actor]);
    }
}
