//! What users of system-upgrade-controller know of Plans, case by case: the table is `cases.json`.
//!
//! A case with a `job` is about what a Job is made of, and needs no cluster. One with `steps` runs the operator on the embedded
//! cluster and its simulated machines, in virtual time. The ids `U…` and `E…` are cases that system-upgrade-controller itself is
//! tested with, `O…` are things it was seen to do; where Drover means to do better, the case says what.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test whose ground is missing has failed")]

mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use drover_core::claims::ClaimId;
use drover_core::decision::Question;
use drover_core::plan::Answer;
use drover_core::plan::hash::latest_hash;
use drover_core::plan::job::{JobOrder, JobSettings, job};
use drover_core::seen::Meta;
use drover_corral::world::{World, WorldOptions};
use drover_operator::{Channels, Operator, OperatorOptions};
use futures::future::BoxFuture;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Node, Secret};
use kube::ResourceExt;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use support::{Cluster, NAMESPACE};

/// So many there are: none is lost on the way.
const ALL: usize = 54;
/// Longer than a minute, so that it is taken, and short enough to be waited for.
const POLL_INTERVAL: Duration = Duration::from_secs(61);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    says: String,
    #[serde(default)]
    job: Option<JobCase>,
    #[serde(default, rename = "is")]
    is: BTreeMap<String, Value>,
    #[serde(default)]
    has: BTreeMap<String, String>,
    #[serde(default)]
    lacks: BTreeMap<String, String>,
    #[serde(default)]
    steps: Vec<Step>,
    #[serde(default)]
    name: Option<String>,
    /// How many nodes.
    #[serde(default)]
    size: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JobCase {
    spec: Value,
    #[serde(default)]
    settings: BTreeMap<String, Value>,
    #[serde(default)]
    plan: Value,
    #[serde(default)]
    version: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Step {
    /// What the channel answers from now on; status 0: nothing.
    #[serde(default)]
    channel: Option<ChannelCase>,
    /// The data of the Secret.
    #[serde(default)]
    secret: Option<String>,
    /// Annotations of all nodes: what the simulated machines do.
    #[serde(default)]
    nodes: BTreeMap<String, Option<String>>,
    #[serde(default)]
    cordon: bool,
    /// A sound Plan beside the one that is looked at.
    #[serde(default)]
    other: bool,
    /// Merged into the Plan's spec.
    #[serde(default)]
    apply: Option<Value>,
    /// The API server refuses that, and says so.
    #[serde(default)]
    refused: Option<String>,
    #[serde(default)]
    delete_jobs: bool,
    #[serde(default)]
    touch_nodes: usize,
    #[serde(default)]
    wait: Option<u64>,
    #[serde(default)]
    expect: Expected,
}

#[derive(Debug, Deserialize)]
struct ChannelCase {
    status: u16,
    location: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct Expected {
    /// By type: status, reason, and what the message contains.
    conditions: BTreeMap<String, (String, String, String)>,
    latest_version: Option<String>,
    latest_hash: Option<String>,
    jobs: Option<usize>,
    /// Of the one Job, by JSON pointer.
    job: BTreeMap<String, Value>,
    node_labels: BTreeMap<String, String>,
    unschedulable: Option<bool>,
    applying: Option<String>,
    other_complete: bool,
    events: Vec<String>,
    /// How often the channel was asked so far.
    asked: Option<usize>,
}

fn cases() -> Vec<Case> {
    let cases: Vec<Case> = serde_json::from_str(include_str!("cases.json")).unwrap();
    let ids: std::collections::BTreeSet<&str> = cases.iter().map(|case| case.id.as_str()).collect();
    assert_eq!((cases.len(), ids.len()), (ALL, ALL));
    assert!(cases.iter().all(|case| case.job.is_some() == case.steps.is_empty()), "each is of one kind");
    cases
}

#[test]
fn jobs_are_what_users_know() {
    for case in cases() {
        let Some(given) = &case.job else { continue };
        let made = made(given);
        for (pointer, value) in &case.is {
            let found = made.pointer(pointer).unwrap_or(&Value::Null);
            assert_eq!(found, value, "{} ({}): {pointer}", case.id, case.says);
        }
        let text = |pointer: &str| made.pointer(pointer).map(Value::to_string).unwrap_or_default();
        for (pointer, part) in &case.has {
            assert!(text(pointer).contains(part), "{} ({}): {}", case.id, case.says, text(pointer));
        }
        for (pointer, part) in &case.lacks {
            assert!(!text(pointer).contains(part), "{} ({}): {}", case.id, case.says, text(pointer));
        }
    }
}

fn made(given: &JobCase) -> Value {
    let mut spec = json!({
        "concurrency": 1, "serviceAccountName": "system-upgrade-controller-foo", "nodeSelector": {},
        "upgrade": { "image": "test-image:latest" },
    });
    merge(&mut spec, &given.spec);
    let mut meta = json!({ "name": "test-1", "namespace": "default", "uid": "uid" });
    merge(&mut meta, &given.plan);
    let (spec, meta): (_, Meta) = (serde_json::from_value(spec).unwrap(), serde_json::from_value(meta).unwrap());
    let mut settings = JobSettings::default();
    for (name, value) in &given.settings {
        match name.as_str() {
            "deadline" => settings.active_deadline_seconds = value.as_i64().unwrap(),
            "deadlineMax" => settings.active_deadline_seconds_max = value.as_i64().unwrap(),
            "imagePullPolicy" => settings.image_pull_policy = value.as_str().unwrap().to_owned(),
            other => panic!("there is no setting {other}"),
        }
    }
    let version = given.version.as_deref().unwrap_or("1.0");
    let hash = latest_hash(version, &spec, &Value::Null, |_| Some(String::new())).unwrap();
    json!(job(&JobOrder {
        plan: &meta,
        spec: &spec,
        node: "prod.test.local",
        hostname: "prod.test.local",
        shares_short_name: false,
        is_windows: false,
        hash: &hash,
        version,
        template: "",
        claim: &ClaimId::from("c1"),
        settings: &settings,
    }))
}

/// RFC 7396, but that null and nothing stay apart in a spec that is yet to be made.
fn merge(target: &mut Value, patch: &Value) {
    match patch {
        Value::Object(fields) => {
            if !target.is_object() {
                *target = json!({});
            }
            for (key, value) in fields {
                if value.is_null() {
                    target.as_object_mut().unwrap().remove(key);
                } else {
                    merge(&mut target[key], value);
                }
            }
        }
        Value::Null => {}
        other => *target = other.clone(),
    }
}

/// A channel that answers what it is told to.
#[derive(Debug, Default)]
struct Script {
    answer: Mutex<Option<Answer>>,
    asked: AtomicUsize,
}

impl Channels for Script {
    fn ask(&self, _: Question, _: Option<String>) -> BoxFuture<'static, Result<Answer, String>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let answer = self.answer.lock().unwrap().clone().ok_or_else(|| "connection refused".to_owned());
        Box::pin(async move { answer })
    }
}

#[tokio::test(start_paused = true)]
async fn plans_do_what_users_know_or_better() {
    for case in cases().into_iter().filter(|case| !case.steps.is_empty()) {
        let play = Play::begin(&case);
        let mut hash = String::new();
        for (index, step) in case.steps.iter().enumerate() {
            play.act(&case, step).await;
            play.cluster.pass(step.wait.unwrap_or(30)).await;
            let place = format!("{} ({}), step {}", case.id, case.says, index + 1);
            hash = play.check(&step.expect, &hash, &place).await;
        }
        play.end();
    }
}

/// One case on a cluster of its own.
struct Play {
    cluster: Cluster,
    channel: Arc<Script>,
    name: String,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Play {
    fn begin(case: &Case) -> Self {
        let cluster = Cluster::new();
        let channel = Arc::new(Script::default());
        for number in 1..=case.size.unwrap_or(1) {
            let node = json!({ "metadata": {
                "name": format!("n{number}"),
                "labels": { "kubernetes.io/hostname": format!("n{number}"), "kubernetes.io/os": "linux" },
                "annotations": { "corral.drover.dev/kubelet": "simulated", "corral.drover.dev/job-duration": "1s" },
            } });
            cluster.user.create(&serde_json::from_value::<Node>(node).unwrap()).unwrap();
        }
        let mut options = OperatorOptions::new(NAMESPACE, "operator", cluster.clock);
        options.channels = channel.clone();
        options.poll_interval = POLL_INTERVAL;
        let operator = Operator::new(cluster.server.client("operator"), options);
        let mut world = WorldOptions::default();
        world.kubelet.lease_period = None;
        let tasks = vec![
            tokio::spawn(World::run(cluster.server.clone(), world)),
            tokio::spawn(operator.run(std::future::pending())),
        ];
        Play { cluster, channel, name: case.name.clone().unwrap_or_else(|| "test".to_owned()), tasks }
    }

    fn end(self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }

    async fn act(&self, case: &Case, step: &Step) {
        let user = &self.cluster.user;
        if let Some(channel) = &step.channel {
            let answer = Answer { status: channel.status, location: channel.location.clone() };
            *self.channel.answer.lock().unwrap() = Some(answer).filter(|answer| answer.status > 0);
        }
        if let Some(data) = &step.secret {
            let secret = json!({ "metadata": { "name": "test", "namespace": NAMESPACE }, "data": { "key": data } });
            let mut secret: Secret = serde_json::from_value(secret).unwrap();
            match user.get::<Secret>(Some(NAMESPACE), "test").unwrap() {
                Some(known) => {
                    secret.metadata = known.metadata;
                    user.update(&secret).unwrap();
                }
                None => drop(user.create(&secret).unwrap()),
            }
        }
        for _ in 0..=step.touch_nodes {
            self.change_nodes(step);
            self.cluster.clock.sleep(Duration::from_millis(100)).await;
        }
        if step.delete_jobs {
            for job in user.list::<Job>().unwrap() {
                user.delete::<Job>(Some(NAMESPACE), &job.name_any(), None).unwrap();
            }
        }
        if step.other {
            let plan = json!({ "metadata": { "name": "other" }, "spec": sound() });
            self.send("POST", "", plan).await.unwrap();
        }
        if let Some(spec) = &step.apply {
            let answer = self.apply(spec).await;
            match (&step.refused, answer) {
                (None, Ok(())) => {}
                (Some(part), Err(said)) if said.contains(part) => {}
                (_, answer) => panic!("{} ({}): {answer:?}", case.id, case.says),
            }
        }
    }

    fn change_nodes(&self, step: &Step) {
        for mut node in self.cluster.user.list::<Node>().unwrap() {
            let touched = node.annotations().get("touched").map_or(0, |count| count.parse::<u32>().unwrap());
            node.annotations_mut().insert("touched".to_owned(), (touched + 1).to_string());
            for (key, value) in &step.nodes {
                match value {
                    Some(value) => drop(node.annotations_mut().insert(key.clone(), value.clone())),
                    None => drop(node.annotations_mut().remove(key)),
                }
            }
            if step.cordon {
                node.spec.get_or_insert_default().unschedulable = Some(true);
            }
            self.cluster.user.update(&node).unwrap();
        }
    }

    /// Makes the Plan, or changes it, as a person with kubectl would: as JSON that no type of ours has to hold.
    async fn apply(&self, spec: &Value) -> Result<(), String> {
        if self.plan().await.is_some() {
            return self.send("PATCH", &format!("/{}", self.name), json!({ "spec": spec })).await.map(drop);
        }
        let mut whole = sound();
        merge(&mut whole, spec);
        self.send("POST", "", json!({ "metadata": { "name": self.name }, "spec": whole })).await.map(drop)
    }

    async fn plan(&self) -> Option<Value> {
        self.send("GET", &format!("/{}", self.name), Value::Null).await.ok()
    }

    async fn send(&self, method: &str, path: &str, mut body: Value) -> Result<Value, String> {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        if method == "POST" {
            merge(&mut body, &json!({ "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan" }));
        }
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = http::Request::builder()
            .method(method)
            .uri(format!("/apis/upgrade.cattle.io/v1/namespaces/{NAMESPACE}/plans{path}"))
            .header("content-type", kind)
            .body(body)
            .unwrap();
        let answer = self.cluster.server.client("user").request_text(request).await;
        answer.map(|text| serde_json::from_str(&text).unwrap()).map_err(|error| error.to_string())
    }

    /// Answers with the hash.
    async fn check(&self, expected: &Expected, hash_before: &str, place: &str) -> String {
        let user = &self.cluster.user;
        let Some(plan) = self.plan().await else { return String::new() };
        let status = &plan["status"];
        for (kind, (state, reason, message)) in &expected.conditions {
            let all = status["conditions"].as_array().unwrap();
            let found = all.iter().find(|condition| condition["type"] == kind.as_str()).unwrap();
            let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
            assert_eq!((&text("status"), &text("reason")), (state, reason), "{place}: {found}");
            assert!(text("message").contains(message), "{place}: {found}");
            assert!(!message.is_empty() || text("message").is_empty(), "{place}: {found}");
        }
        let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
        let (version, hash) = (text("latestVersion"), text("latestHash"));
        if let Some(expected) = &expected.latest_version {
            assert_eq!(&version, expected, "{place}");
        }
        match expected.latest_hash.as_deref() {
            None => {}
            Some("none") => assert_eq!(hash, "", "{place}"),
            Some("some") => assert_eq!(hash.len(), 56, "{place}"),
            Some("kept") => assert_eq!(hash, hash_before, "{place}"),
            Some("changed") => assert!(hash.len() == 56 && hash != hash_before, "{place}"),
            Some(other) => panic!("{place}: what is {other}?"),
        }
        let jobs = user.list::<Job>().unwrap();
        if let Some(expected) = expected.jobs {
            assert_eq!(jobs.len(), expected, "{place}");
        }
        for (pointer, value) in &expected.job {
            let found = json!(jobs.first().unwrap());
            assert_eq!(found.pointer(pointer).unwrap_or(&Value::Null), value, "{place}: {pointer}");
        }
        let nodes = user.list::<Node>().unwrap();
        for (key, value) in &expected.node_labels {
            let value = value.replace("<latestHash>", &hash);
            assert_eq!(nodes[0].labels().get(key), Some(&value), "{place}");
        }
        if let Some(expected) = expected.unschedulable {
            let cordoned = nodes[0].spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
            assert_eq!(cordoned, expected, "{place}");
        }
        if expected.applying.is_some() {
            assert_eq!(status["applying"], json!(first_by_digest(&nodes, &plan, &hash, 2)), "{place}");
        }
        if expected.other_complete {
            let other = self.send("GET", "/other", Value::Null).await.unwrap();
            assert!(other["status"]["conditions"].to_string().contains(r#""Complete""#), "{place}");
            assert_eq!(other["status"]["counts"]["updated"], 1, "{place}");
        }
        let told: Vec<String> = user.list::<Event>().unwrap().into_iter().filter_map(|event| event.reason).collect();
        for reason in &expected.events {
            assert!(told.contains(reason), "{place}: {told:?}");
        }
        if let Some(expected) = expected.asked {
            assert_eq!(self.channel.asked.load(Ordering::SeqCst), expected, "{place}");
        }
        hash
    }
}

fn sound() -> Value {
    json!({ "concurrency": 1, "version": "test", "nodeSelector": {}, "upgrade": { "image": "alpine:3.18" } })
}

fn first_by_digest(nodes: &[Node], plan: &Value, hash: &str, count: usize) -> Vec<String> {
    let plan_uid = plan["metadata"]["uid"].as_str().unwrap();
    let digest = |node: &Node| {
        let text = format!("{}{plan_uid}{hash}", node.metadata.uid.as_deref().unwrap());
        Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let mut names: Vec<(String, String)> = nodes.iter().map(|node| (digest(node), node.name_any())).collect();
    names.sort();
    let mut first: Vec<String> = names.into_iter().take(count).map(|(_, name)| name).collect();
    first.sort();
    first
}
