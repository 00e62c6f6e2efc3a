//! What a person does to a Cluster of Cluster API, on the embedded API server: what is written, and what is refused before that.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use drover_clock::Clock;
use drover_corral::apiserver::{ApiServer, Direct, Options};
use drover_operator::clusters::{ClusterVerbs, Keeper, KeeperOptions};
use http::{Method, Request};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::client::Body;
use serde_json::{Value, json};

/// A server with Cluster API of one version, and a cluster `team/web`.
struct Ground {
    client: kube::Client,
    version: &'static str,
    /// The objects that were written to, in order.
    writes: Arc<Mutex<Vec<String>>>,
    /// What was watched.
    watched: Arc<Mutex<BTreeSet<String>>>,
}

const KINDS: [(&str, &str, &str); 5] = [
    ("cluster.x-k8s.io", "Cluster", "clusters"),
    ("cluster.x-k8s.io", "Machine", "machines"),
    ("cluster.x-k8s.io", "MachineDeployment", "machinedeployments"),
    ("cluster.x-k8s.io", "MachineSet", "machinesets"),
    ("controlplane.cluster.x-k8s.io", "KubeadmControlPlane", "kubeadmcontrolplanes"),
];

fn define(user: &Direct, version: &str) {
    for (group, kind, plural) in KINDS {
        let schema = json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.{group}") },
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": { "kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase() },
                "versions": [{ "name": version, "served": true, "storage": true, "schema": schema }],
            },
        });
        let definition: CustomResourceDefinition = serde_json::from_value(definition).unwrap();
        user.create(&definition).unwrap();
    }
}

impl Ground {
    /// `machines` are the versions of the control plane's machines, the workers are of the last one.
    async fn new(version: &'static str, asked: &str, machines: &[&str], workers: &str) -> Self {
        let ground = Self::of_nobody(
            version,
            machines,
            workers,
            json!({
                "controlPlaneRef": { "kind": "KubeadmControlPlane", "name": "web", "apiGroup": "controlplane.cluster.x-k8s.io" },
            }),
        );
        let ground = ground.await;
        let spec = json!({ "version": asked, "replicas": machines.len() });
        ground.make("KubeadmControlPlane", "web", json!({ "spec": spec })).await;
        ground
    }

    /// The machines of the control plane belong to nobody that is made here.
    async fn of_nobody(version: &'static str, machines: &[&str], workers: &str, cluster: Value) -> Self {
        let clock = Clock::real();
        let server = ApiServer::new(Options { clock, seed: 1, latency: Duration::ZERO, watch_window: 1000 });
        let user = server.direct("user");
        let namespace = json!({ "metadata": { "name": "team" } });
        user.create(&serde_json::from_value::<Namespace>(namespace).unwrap()).unwrap();
        define(&user, version);
        let writes: Arc<Mutex<Vec<String>>> = Arc::default();
        let watched: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let (noted, opened) = (writes.clone(), watched.clone());
        let client = crate::support::refusing::client(server.service("person"), move |request: &Request<Body>| {
            if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
                opened.lock().unwrap().extend(request.uri().path().rsplit('/').next().map(str::to_owned));
            }
            if request.method() == Method::PATCH {
                noted.lock().unwrap().push(request.uri().path().rsplit('/').take(2).collect::<Vec<_>>().join(" of "));
            }
            None
        });
        let ground = Ground { client, version, writes, watched };
        ground.make("Cluster", "web", json!({ "spec": cluster })).await;
        let template = json!({ "spec": { "version": workers } });
        let spec = json!({ "clusterName": "web", "replicas": 2, "template": template });
        ground.make("MachineDeployment", "web-md", json!({ "spec": spec })).await;
        for (index, version) in machines.iter().enumerate() {
            let labels = json!({ "cluster.x-k8s.io/cluster-name": "web", "cluster.x-k8s.io/control-plane": "" });
            let spec = json!({ "clusterName": "web", "version": version });
            let machine =
                json!({ "metadata": { "labels": labels }, "spec": spec, "status": { "nodeRef": { "name": "n" } } });
            ground.make("Machine", &format!("web-{index}"), machine).await;
        }
        ground
    }

    fn path(&self, kind: &str) -> (String, String) {
        let (group, _, plural) = KINDS.into_iter().find(|(_, known, _)| *known == kind).unwrap();
        let api_version = format!("{group}/{}", self.version);
        (format!("/apis/{api_version}/namespaces/team/{plural}"), api_version)
    }

    async fn make(&self, kind: &str, name: &str, mut object: Value) {
        let (path, api_version) = self.path(kind);
        object["apiVersion"] = json!(api_version);
        object["kind"] = json!(kind);
        object["metadata"]["name"] = json!(name);
        let request = Request::post(path).header("Content-Type", "application/json");
        let request = request.body(object.to_string().into_bytes()).unwrap();
        self.client.request::<Value>(request).await.unwrap();
    }

    async fn read(&self, kind: &str, name: &str) -> Value {
        let request = Request::get(format!("{}/{name}", self.path(kind).0)).body(Vec::new()).unwrap();
        self.client.request::<Value>(request).await.unwrap()
    }

    fn verbs(&self) -> ClusterVerbs {
        ClusterVerbs::on(self.client.clone(), Clock::real(), "team", "web")
    }

    fn written(&self) -> Vec<String> {
        std::mem::take(&mut *self.writes.lock().unwrap())
    }

    async fn refused(&self, to: &str) -> String {
        let said = self.verbs().start(to).await.unwrap_err().to_string();
        assert_eq!(self.written(), Vec::<String>::new(), "{said}");
        said
    }
}

#[tokio::test]
async fn workers_are_raised_beside_machines_that_belong_to_nobody_once_those_are_done() {
    for version in ["v1beta1", "v1beta2"] {
        let old = ["v1.34.1", "v1.33.4", "v1.33.4"];
        let said = Ground::of_nobody(version, &old, "v1.33.4", json!({})).await.refused("v1.34.1").await;
        assert!(said.contains("drover control-plane-upgrade --cluster-namespace team --cluster-name web"), "{said}");

        let ground = Ground::of_nobody(version, &["v1.34.1"; 3], "v1.33.4", json!({})).await;
        ground.verbs().start("v1.34.1").await.unwrap();
        assert_eq!(ground.written(), ["web-md of machinedeployments"]);
    }
}

#[tokio::test]
async fn a_start_raises_the_control_plane_and_the_workers_once_it_is_done() {
    for version in ["v1beta1", "v1beta2"] {
        let ground = Ground::new(version, "v1.33.4", &["v1.33.4"; 3], "v1.33.4").await;
        ground.verbs().start("1.34.1").await.unwrap();
        assert_eq!(ground.written(), ["web of kubeadmcontrolplanes"]);
        assert_eq!(ground.read("KubeadmControlPlane", "web").await["spec"]["version"], "v1.34.1");
        assert_eq!(
            ground.refused("v1.34.1").await,
            "the control plane is on its way to v1.34.1, with 0 of 3 machines: the workers are raised when it is done"
        );

        let ground = Ground::new(version, "v1.34.1", &["v1.34.1"; 3], "v1.33.4").await;
        ground.verbs().start("v1.34.1").await.unwrap();
        assert_eq!(ground.written(), ["web-md of machinedeployments"]);
        let workers = ground.read("MachineDeployment", "web-md").await;
        assert_eq!(workers["spec"]["template"]["spec"]["version"], "v1.34.1");
        assert_eq!(workers["spec"]["replicas"], 2);
    }
}

#[tokio::test]
async fn an_old_machine_of_the_control_plane_keeps_the_workers_back() {
    let machines = ["v1.34.1", "v1.34.1", "v1.34.1", "v1.33.4"];
    let ground = Ground::new("v1beta2", "v1.34.1", &machines, "v1.33.4").await;
    assert!(ground.refused("v1.34.1").await.starts_with("the control plane is on its way to v1.34.1"));
}

#[tokio::test]
async fn what_cannot_go_well_is_refused_before_anything_is_written() {
    let ground = Ground::new("v1beta1", "v1.33.4", &["v1.33.4"; 3], "v1.33.4").await;
    assert_eq!(
        ground.refused("v1.32.9").await,
        "v1.32.9 is lower than v1.33.4, which Machine team/web-2 is of: a control plane cannot go back"
    );
    assert_eq!(
        ground.refused("v1.35.0").await,
        "v1.35.0 is more than one minor version further than v1.33.4, which KubeadmControlPlane team/web is of: raise it one \
         minor version at a time"
    );
    assert_eq!(ground.refused("v1.33.4").await, "Cluster team/web asks for v1.33.4 already: there is nothing to start");
    assert_eq!(ground.refused("soon").await, "\"soon\" is no version of Kubernetes, such as v1.34.1");

    let ground = Ground::new("v1beta1", "v1.33.4", &["v1.33.4"; 3], "v1.30.2").await;
    assert!(
        ground.refused("v1.34.1").await.starts_with("MachineDeployment team/web-md is of v1.30.2, more than 3 minor")
    );
}

#[tokio::test]
async fn a_cluster_of_a_class_is_raised_by_its_topology_alone() {
    let ground = Ground::new("v1beta2", "v1.33.4", &["v1.33.4"; 3], "v1.33.4").await;
    let spec = json!({ "spec": { "topology": { "classRef": { "name": "small" }, "version": "v1.33.4" } } });
    let patch = Request::patch(format!("{}/web", ground.path("Cluster").0))
        .header("Content-Type", "application/merge-patch+json");
    ground.client.request::<Value>(patch.body(spec.to_string().into_bytes()).unwrap()).await.unwrap();
    ground.written();

    ground.verbs().start("v1.34.1").await.unwrap();

    assert_eq!(ground.written(), ["web of clusters"]);
    let cluster = ground.read("Cluster", "web").await;
    assert_eq!(cluster["spec"]["topology"], json!({ "classRef": { "name": "small" }, "version": "v1.34.1" }));
    assert!(ground.refused("v1.35.0").await.contains("more than one minor version further than v1.33.4"));
}

#[tokio::test]
async fn a_cluster_is_paused_and_resumed_as_a_whole() {
    let ground = Ground::new("v1beta1", "v1.33.4", &["v1.33.4"], "v1.33.4").await;
    assert_eq!(ground.verbs().resume().await.unwrap_err().to_string(), "Cluster team/web is not paused");

    ground.verbs().pause().await.unwrap();
    assert_eq!(ground.read("Cluster", "web").await["spec"]["paused"], true);
    assert_eq!(ground.verbs().pause().await.unwrap_err().to_string(), "Cluster team/web is paused already");
    ground.written();
    assert_eq!(
        ground.refused("v1.34.1").await,
        "Cluster team/web is paused, and nothing would happen: drover upgrade resume cluster/team/web"
    );

    ground.verbs().resume().await.unwrap();
    assert_eq!(ground.read("Cluster", "web").await["spec"]["paused"], false);
    assert_eq!(ground.written(), ["web of clusters"]);
}

#[tokio::test]
async fn a_cluster_that_is_not_there_is_said_to_be_missing() {
    let ground = Ground::new("v1beta1", "v1.33.4", &["v1.33.4"], "v1.33.4").await;
    let verbs = ClusterVerbs::on(ground.client.clone(), Clock::real(), "team", "nothing");
    let said = verbs.start("v1.34.1").await.unwrap_err().to_string();
    assert!(said.starts_with("there is no Cluster team/nothing"), "{said}");
}

impl Ground {
    async fn change(&self, kind: &str, name: &str, patch: Value) {
        let request = Request::patch(format!("{}/{name}", self.path(kind).0))
            .header("Content-Type", "application/merge-patch+json")
            .body(patch.to_string().into_bytes())
            .unwrap();
        self.client.request::<Value>(request).await.unwrap();
        self.written();
    }

    async fn comes_after(&self, name: &str, others: &str) {
        let patch = json!({ "metadata": { "annotations": { "drover.dev/after": others } } });
        self.change("Cluster", name, patch).await;
    }
}

#[tokio::test]
async fn a_cluster_that_comes_after_another_is_started_when_that_is_done() {
    let ground = Ground::new("v1beta2", "v1.33.4", &["v1.33.4"], "v1.33.4").await;
    let status = json!({ "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "upToDateReplicas": 2, "availableReplicas": 2 });
    ground.change("MachineDeployment", "web-md", json!({ "status": status })).await;
    ground.comes_after("web", "first").await;
    assert_eq!(
        ground.refused("v1.34.1").await,
        "drover.dev/after of Cluster team/web names Cluster team/first, which is not there: mend it, or take it away"
    );

    let reference =
        json!({ "kind": "KubeadmControlPlane", "name": "first", "apiGroup": "controlplane.cluster.x-k8s.io" });
    ground.make("Cluster", "first", json!({ "spec": { "controlPlaneRef": reference } })).await;
    ground.make("KubeadmControlPlane", "first", json!({ "spec": { "version": "v1.34.1", "replicas": 1 } })).await;
    let labels = json!({ "cluster.x-k8s.io/cluster-name": "first", "cluster.x-k8s.io/control-plane": "" });
    let machine = json!({
        "metadata": { "labels": labels }, "spec": { "clusterName": "first", "version": "v1.33.4" },
        "status": { "nodeRef": { "name": "n" } },
    });
    ground.make("Machine", "first-0", machine).await;
    assert_eq!(
        ground.refused("v1.34.1").await,
        "Cluster team/web comes after Cluster team/first (drover.dev/after), which is not done: drover status \
         cluster/team/first"
    );

    ground.comes_after("first", "team/web").await;
    assert_eq!(
        ground.refused("v1.34.1").await,
        "Cluster team/web comes after Cluster team/first, and that comes after it: take drover.dev/after out of one of them"
    );

    ground.comes_after("first", "").await;
    ground.change("Machine", "first-0", json!({ "spec": { "version": "v1.34.1" } })).await;
    ground.verbs().start("v1.34.1").await.unwrap();
    assert_eq!(ground.written(), ["web of kubeadmcontrolplanes"]);
}

#[tokio::test]
async fn whoever_waits_sees_the_workers_raised_and_the_end() {
    let ground = Ground::new("v1beta2", "v1.33.4", &["v1.33.4"], "v1.33.4").await;
    let clock = Clock::scaled(Clock::real().now(), 100.0);
    let verbs = ClusterVerbs::on(ground.client.clone(), clock, "team", "web");
    let mut told = Vec::new();
    let mut tell = |sentence: &str| told.push(sentence.to_owned());
    let rolls = async {
        let is = |asked: Value| move |object: Value| asked == object;
        let control_plane_is_asked = is(json!("v1.34.1"));
        while !control_plane_is_asked(ground.read("KubeadmControlPlane", "web").await["spec"]["version"].clone()) {
            clock.sleep(Duration::from_secs(1)).await;
        }
        clock.sleep(Duration::from_secs(12)).await;
        ground.change("Machine", "web-0", json!({ "spec": { "version": "v1.34.1" } })).await;
        let workers_are_asked = is(json!("v1.34.1"));
        while !workers_are_asked(
            ground.read("MachineDeployment", "web-md").await["spec"]["template"]["spec"]["version"].clone(),
        ) {
            clock.sleep(Duration::from_secs(1)).await;
        }
        clock.sleep(Duration::from_secs(12)).await;
        let status = json!({ "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "upToDateReplicas": 2, "availableReplicas": 2 });
        ground.change("MachineDeployment", "web-md", json!({ "status": status })).await;
    };
    let (followed, ()) = tokio::join!(verbs.follow("v1.34.1", jiff::SignedDuration::from_mins(15), &mut tell), rolls);
    followed.unwrap();
    assert_eq!(
        told,
        [
            "KubeadmControlPlane team/web is raised to v1.34.1",
            "the control plane is on its way to v1.34.1, with 0 of 1 machines: the workers are raised when it is done",
            "MachineDeployment team/web-md is raised to v1.34.1",
            "the workers are on their way to v1.34.1, with 0 of 2 machines",
        ]
    );
}

#[tokio::test]
async fn a_new_machine_that_has_failed_pauses_the_cluster_and_whoever_waits_is_told_why() {
    let ground = Ground::new("v1beta1", "v1.34.1", &["v1.33.4"], "v1.33.4").await;
    let patch =
        json!({ "spec": { "version": "v1.34.1" }, "status": { "failureMessage": "no quota", "nodeRef": null } });
    ground.change("Machine", "web-0", patch).await;
    let said = ground.verbs().follow("v1.34.1", jiff::SignedDuration::from_mins(15), &mut |_| {}).await.unwrap_err();
    assert!(
        said.to_string().starts_with("Machine team/web-0 has failed: no quota; cluster/team/web is paused"),
        "{said}"
    );
    assert_eq!(ground.read("Cluster", "web").await["spec"]["paused"], true);
}

/// An operator that ends with the test.
struct Operator(tokio::task::JoinHandle<()>);

impl Drop for Operator {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Ground {
    fn operator(&self, clock: Clock) -> Operator {
        let keeper = Keeper::new(self.client.clone(), KeeperOptions::new("team", "operator-1", clock));
        Operator(tokio::spawn(keeper.run(std::future::pending())))
    }

    /// Where the upgrade stands, and in which words.
    async fn stands(&self) -> (String, String) {
        let said = self.read("Cluster", "web").await["metadata"]["annotations"]["drover.dev/progress"].clone();
        let said: Value = serde_json::from_str(said.as_str().unwrap_or("{}")).unwrap();
        let text = |field: &str| said[field].as_str().unwrap_or_default().to_owned();
        (text("stand"), text("sentence"))
    }

    async fn stands_as(&self, clock: Clock, stand: &str) -> String {
        for _ in 0..600 {
            let (said, sentence) = self.stands().await;
            if said == stand {
                return sentence;
            }
            clock.sleep(Duration::from_secs(1)).await;
        }
        panic!("it never says {stand}: {:?}", self.stands().await);
    }

    fn watched(&self) -> Vec<String> {
        std::mem::take(&mut *self.watched.lock().unwrap()).into_iter().collect()
    }
}

const COUNTS: &str =
    r#"{ "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "upToDateReplicas": 2, "availableReplicas": 2 }"#;

#[tokio::test]
async fn an_operator_raises_what_is_left_to_it_keeps_it_so_and_looks_at_no_machine_when_it_is_done() {
    let ground = Ground::new("v1beta2", "v1.33.4", &["v1.33.4"], "v1.33.4").await;
    let clock = Clock::scaled(Clock::real().now(), 100.0);
    let _operator = ground.operator(clock);
    clock.sleep(Duration::from_secs(60)).await;
    assert_eq!(ground.written(), Vec::<String>::new(), "nobody has left it to anybody");
    assert_eq!(ground.watched(), ["clusters"]);

    ground.verbs().leave("1.34.1").await.unwrap();
    let sentence = ground.stands_as(clock, "Rolling").await;
    assert!(sentence.starts_with("the control plane is on its way to v1.34.1, with 0 of 1 machines"), "{sentence}");
    assert_eq!(ground.read("KubeadmControlPlane", "web").await["spec"]["version"], "v1.34.1");
    assert_eq!(ground.watched(), ["clusters", "kubeadmcontrolplanes", "machinedeployments", "machines", "machinesets"]);

    ground.change("Machine", "web-0", json!({ "spec": { "version": "v1.34.1" } })).await;
    let is_raised = |object: Value| object["spec"]["template"]["spec"]["version"] == "v1.34.1";
    while !is_raised(ground.read("MachineDeployment", "web-md").await) {
        clock.sleep(Duration::from_secs(1)).await;
    }
    let status: Value = serde_json::from_str(COUNTS).unwrap();
    ground.change("MachineDeployment", "web-md", json!({ "status": status })).await;
    ground.stands_as(clock, "UpToDate").await;
    clock.sleep(Duration::from_secs(10)).await;
    ground.watched();
    ground.written();
    ground.change("Machine", "web-0", json!({ "metadata": { "annotations": { "a": "b" } } })).await;
    clock.sleep(Duration::from_secs(700)).await;
    assert_eq!(ground.written(), Vec::<String>::new());
    let watched = ground.watched();
    assert_eq!(
        watched,
        ["clusters", "kubeadmcontrolplanes", "machinedeployments"],
        "it ends after ten minutes, and is opened again"
    );

    let older = json!({ "spec": { "template": { "spec": { "version": "v1.33.4" } } } });
    ground.change("MachineDeployment", "web-md", older).await;
    for _ in 0..60 {
        if is_raised(ground.read("MachineDeployment", "web-md").await) {
            return;
        }
        clock.sleep(Duration::from_secs(1)).await;
    }
    panic!("what was asked for is kept");
}

#[tokio::test]
async fn whoever_starts_by_hand_takes_back_what_was_left_to_an_operator_for_an_older_version() {
    let ground = Ground::new("v1beta2", "v1.34.1", &["v1.34.1"], "v1.34.1").await;
    ground.verbs().leave("v1.34.1").await.unwrap();
    ground.written();
    let started = ground.verbs().start("v1.35.0").await.unwrap();
    assert_eq!(ground.written(), ["web of clusters", "web of kubeadmcontrolplanes"]);
    assert_eq!(started.taken_back.as_deref(), Some("v1.34.1"));
    let cluster = ground.read("Cluster", "web").await;
    assert_eq!(cluster["metadata"]["annotations"]["drover.dev/upgrade-to"], Value::Null);
}

#[tokio::test]
async fn an_operator_pauses_what_gets_nowhere_and_goes_on_when_somebody_resumes_it() {
    let ground = Ground::new("v1beta1", "v1.34.1", &["v1.33.4"], "v1.33.4").await;
    let clock = Clock::scaled(Clock::real().now(), 100.0);
    let _operator = ground.operator(clock);
    ground.verbs().leave("v1.34.1").await.unwrap();
    ground.stands_as(clock, "Rolling").await;
    let failed =
        json!({ "spec": { "version": "v1.34.1" }, "status": { "failureMessage": "no quota", "nodeRef": null } });
    ground.change("Machine", "web-0", failed).await;
    let sentence = ground.stands_as(clock, "MachineFailed").await;
    assert!(sentence.starts_with("Machine team/web-0 has failed: no quota; the cluster is paused"), "{sentence}");
    assert_eq!(ground.read("Cluster", "web").await["spec"]["paused"], true);

    ground.verbs().resume().await.unwrap();
    ground.stands_as(clock, "Rolling").await;
    assert_eq!(ground.read("Cluster", "web").await["spec"]["paused"], false, "whoever resumes it has seen why");

    let healed = json!({ "status": { "failureMessage": null, "nodeRef": { "name": "n" } } });
    ground.change("Machine", "web-0", healed).await;
    let status: Value = serde_json::from_str(COUNTS).unwrap();
    let workers = json!({ "spec": { "template": { "spec": { "version": "v1.34.1" } } }, "status": status });
    ground.change("MachineDeployment", "web-md", workers).await;
    ground.stands_as(clock, "UpToDate").await;
    let cluster = ground.read("Cluster", "web").await;
    assert_eq!(cluster["metadata"]["annotations"]["drover.dev/failed"], Value::Null);
}
