//! Plays one case against an API server, whichever that is: does what its steps say, and compares.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use drover_core::decision::Question;
use drover_core::plan::Answer;
use drover_operator::Channels;
use futures::future::{BoxFuture, try_join_all};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Node, Secret};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::table::{Case, Expected, Machines, Step, merge};

/// The label that binds the nodes of a case to its Plans.
pub const CASE: &str = "case";

/// What is wrong, in a sentence.
pub type Played<T> = Result<T, String>;

/// Annotations, of the nodes and of the Plan, that make machines do as told.
pub type Arrangement = fn(&Machines) -> (Value, Value);

/// A channel that answers what it is told to.
#[derive(Debug, Default)]
pub struct Script {
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

/// One case, in a namespace and with nodes of its own.
pub struct Play<'a> {
    pub client: Client,
    pub namespace: &'a str,
    pub case: &'a Case,
    pub channel: Arc<Script>,
    pub arrange: Arrangement,
    /// What the Plan is annotated with for the machines' sake.
    pub annotations: Mutex<Value>,
}

impl Play<'_> {
    /// Does what a step says; what comes of it is for [`Play::check`].
    pub async fn act(&self, step: &Step) -> Played<()> {
        if let Some(channel) = &step.channel {
            let answer = Answer { status: channel.status, location: channel.location.clone() };
            *self.channel.answer.lock().unwrap() = Some(answer).filter(|answer| answer.status > 0);
        }
        if let Some(data) = &step.secret {
            self.keep_secret(data).await?;
        }
        if let Some(machines) = &step.machines {
            let (of_nodes, of_plan) = (self.arrange)(machines);
            self.change_nodes(&json!({ "metadata": { "annotations": of_nodes } })).await?;
            *self.annotations.lock().unwrap() = of_plan;
        }
        if step.cordon {
            self.change_nodes(&json!({ "spec": { "unschedulable": true } })).await?;
        }
        for touch in 0..step.touch_nodes {
            self.change_nodes(&json!({ "metadata": { "annotations": { "touched": touch.to_string() } } })).await?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        if step.delete_jobs {
            let jobs: Api<Job> = Api::namespaced(self.client.clone(), self.namespace);
            for job in jobs.list(&ListParams::default()).await.map_err(told)? {
                jobs.delete(&job.name_any(), &DeleteParams::background()).await.map_err(told)?;
            }
        }
        if step.other {
            self.make("other", self.sound()).await?;
        }
        let Some(spec) = &step.apply else { return Ok(()) };
        match (&step.refused, self.apply(spec).await) {
            (None, Ok(())) => Ok(()),
            (Some(part), Err(said)) if said.contains(part) => Ok(()),
            (_, answer) => Err(format!("the server answered {answer:?}")),
        }
    }

    async fn keep_secret(&self, data: &str) -> Played<()> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), self.namespace);
        let secret = json!({ "metadata": { "name": "test" }, "data": { "key": data } });
        match secrets.get_opt("test").await.map_err(told)? {
            Some(_) => secrets.patch("test", &PatchParams::default(), &Patch::Merge(secret)).await,
            None => secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await,
        }
        .map(drop)
        .map_err(told)
    }

    async fn change_nodes(&self, patch: &Value) -> Played<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let changes = self.nodes().await?.into_iter().map(|node| {
            let nodes = nodes.clone();
            async move { nodes.patch(&node.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await }
        });
        try_join_all(changes).await.map(drop).map_err(told)
    }

    /// The nodes of this case, by name.
    async fn nodes(&self) -> Played<Vec<Node>> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let own = ListParams::default().labels(&format!("{CASE}={}", self.case.id));
        Ok(nodes.list(&own).await.map_err(told)?.items)
    }

    /// Makes the Plan, or changes it, as a person with kubectl would: as JSON that no type of ours has to hold.
    async fn apply(&self, spec: &Value) -> Played<()> {
        let (plans, name) = (self.plans(), &self.case.name);
        if plans.get_opt(name).await.map_err(told)?.is_some() {
            let annotations = self.annotations.lock().unwrap().clone();
            let patch = json!({ "metadata": { "annotations": annotations }, "spec": spec });
            return plans.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop).map_err(told);
        }
        let mut whole = self.sound();
        merge(&mut whole, spec);
        self.make(name, whole).await
    }

    async fn make(&self, name: &str, spec: Value) -> Played<()> {
        let annotations = self.annotations.lock().unwrap().clone();
        let plan = json!({
            "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan",
            "metadata": { "name": name, "annotations": annotations }, "spec": spec,
        });
        let plan = serde_json::from_value(plan).unwrap();
        self.plans().create(&PostParams::default(), &plan).await.map(drop).map_err(told)
    }

    fn plans(&self) -> Api<DynamicObject> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("upgrade.cattle.io", "v1", "Plan"));
        Api::namespaced_with(self.client.clone(), self.namespace, &kind)
    }

    fn sound(&self) -> Value {
        let nodes = json!({ "matchLabels": { CASE: self.case.id } });
        json!({ "concurrency": 1, "version": "test", "nodeSelector": nodes, "upgrade": { "image": "alpine:3.18" } })
    }

    /// Answers with the hash, or with what is not as expected.
    pub async fn check(&self, expected: &Expected, hash_before: &str) -> Played<String> {
        let Some(plan) = self.plans().get_opt(&self.case.name).await.map_err(told)? else { return Ok(String::new()) };
        let plan = json!(plan);
        let status = &plan["status"];
        check_conditions(expected, status)?;
        let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
        let (version, hash) = (text("latestVersion"), text("latestHash"));
        equal("latestVersion", Some(&version), expected.latest_version.as_ref())?;
        let right = match expected.latest_hash.as_deref() {
            None => true,
            Some("none") => hash.is_empty(),
            Some("some") => hash.len() == 56,
            Some("kept") => hash == hash_before,
            Some("changed") => hash.len() == 56 && hash != hash_before,
            Some(other) => return Err(format!("what is {other}?")),
        };
        so(right, || format!("latestHash is {hash:?}, before it was {hash_before:?}"))?;
        self.check_jobs(expected).await?;
        self.check_nodes(expected, &plan, &hash).await?;
        if expected.other_complete {
            let other = json!(self.plans().get("other").await.map_err(told)?);
            so(other["status"]["counts"]["updated"] == 1, || format!("the other Plan is at {}", other["status"]))?;
        }
        let events: Api<Event> = Api::namespaced(self.client.clone(), self.namespace);
        let events = events.list(&ListParams::default()).await.map_err(told)?;
        let events: Vec<String> = events.into_iter().filter_map(|event| event.reason).collect();
        so(expected.events.iter().all(|reason| events.contains(reason)), || format!("the Events are {events:?}"))?;
        equal("asked", Some(&self.channel.asked.load(Ordering::SeqCst)), expected.asked.as_ref())?;
        Ok(hash)
    }

    async fn check_jobs(&self, expected: &Expected) -> Played<()> {
        let jobs: Api<Job> = Api::namespaced(self.client.clone(), self.namespace);
        let jobs = jobs.list(&ListParams::default()).await.map_err(told)?.items;
        equal("jobs", Some(&jobs.len()), expected.jobs.as_ref())?;
        for (pointer, value) in &expected.job {
            let job = json!(jobs.first());
            equal(pointer, Some(job.pointer(pointer).unwrap_or(&Value::Null)), Some(value))?;
        }
        Ok(())
    }

    async fn check_nodes(&self, expected: &Expected, plan: &Value, hash: &str) -> Played<()> {
        let nodes = self.nodes().await?;
        for (key, value) in &expected.node_labels {
            equal(key, nodes[0].labels().get(key), Some(&value.replace("<latestHash>", hash)))?;
        }
        let cordoned = nodes[0].spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
        equal("unschedulable", Some(&cordoned), expected.unschedulable.as_ref())?;
        let first = expected.applying.as_ref().map(|_| json!(first_by_digest(&nodes, plan, hash, 2)));
        equal("applying", Some(&plan["status"]["applying"]), first.as_ref())
    }
}

fn check_conditions(expected: &Expected, status: &Value) -> Played<()> {
    for (kind, (state, reason, message)) in &expected.conditions {
        let mut all = status["conditions"].as_array().into_iter().flatten();
        let found = all.find(|condition| condition["type"] == kind.as_str()).unwrap_or(&Value::Null);
        let text = |field: &str| found[field].as_str().unwrap_or_default();
        let right = (text("status"), text("reason")) == (state, reason)
            && text("message").contains(message.as_str())
            && (!message.is_empty() || text("message").is_empty());
        so(right, || format!("condition {kind} is {found}"))?;
    }
    Ok(())
}

fn told(error: kube::Error) -> String {
    error.to_string()
}

fn so(is_so: bool, else_say: impl FnOnce() -> String) -> Played<()> {
    if is_so { Ok(()) } else { Err(else_say()) }
}

/// What is not expected may be anything.
fn equal<T: PartialEq + std::fmt::Debug>(what: &str, found: Option<&T>, expected: Option<&T>) -> Played<()> {
    so(expected.is_none() || found == expected, || format!("{what} is {found:?} and not {expected:?}"))
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
