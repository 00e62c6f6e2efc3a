//! The limit: the same Jobs, created directly, a fixed number at a time.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use drover_core::claims::ClaimId;
use drover_core::plan::hash::latest_hash;
use drover_core::plan::job::{JobOrder, JobSettings, job};
use drover_core::seen::Meta;
use drover_operator::{Connection, connect};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{PostParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

pub const NAMESPACE: &str = "limit";

/// How long it takes until a Job on every node is complete, if `concurrency` of them are there at any moment.
pub fn jobs(kubeconfig: &Path, nodes: &[String], concurrency: usize, plan: &Value) -> Result<Duration> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let connection = Connection { kubeconfig: Some(kubeconfig.to_owned()), ..Connection::default() };
        let client = connect(&connection).await?;
        let namespace: Namespace = serde_json::from_value(json!({ "metadata": { "name": NAMESPACE } }))?;
        Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await?;
        let api = Api::<Job>::namespaced(client, NAMESPACE);
        // The service account of a new namespace takes a moment, and pods are refused without it.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let started = Instant::now();
        run(&api, nodes, concurrency, plan).await?;
        Ok(started.elapsed())
    })
}

async fn run(api: &Api<Job>, nodes: &[String], concurrency: usize, plan: &Value) -> Result<()> {
    let mut events = api.watch(&WatchParams::default().timeout(290), "0").await?.boxed();
    let mut waiting = nodes.iter();
    let mut create = Vec::new();
    for node in waiting.by_ref().take(concurrency) {
        create.push(order(plan, node)?);
    }
    let params = PostParams::default();
    futures::future::try_join_all(create.iter().map(|job| api.create(&params, job))).await?;
    let mut complete = BTreeSet::new();
    while complete.len() < nodes.len() {
        let event = events.try_next().await?.context("the watch of the Jobs has ended")?;
        let (WatchEvent::Added(job) | WatchEvent::Modified(job)) = event else { continue };
        let conditions = job.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        if conditions.iter().any(|condition| condition.type_ == "Failed") {
            bail!("Job {} has failed", job.name_any());
        }
        let is_complete =
            conditions.iter().any(|condition| condition.type_ == "Complete" && condition.status == "True");
        if is_complete
            && complete.insert(job.name_any())
            && let Some(node) = waiting.next()
        {
            api.create(&params, &order(plan, node)?).await?;
        }
    }
    Ok(())
}

/// The Job that the operator would make, but for the claim, which is not there.
fn order(plan: &Value, node: &str) -> Result<Job> {
    let mut meta: Meta = serde_json::from_value(plan["metadata"].clone())?;
    meta.namespace = NAMESPACE.to_owned();
    let spec = serde_json::from_value(plan["spec"].clone())?;
    let hash = latest_hash("v1.0.0", &spec, &Value::Null, |_| None)?;
    let mut job = json!(job(&JobOrder {
        plan: &meta,
        spec: &spec,
        node,
        hostname: node,
        shares_short_name: false,
        is_windows: false,
        hash: &hash,
        version: "v1.0.0",
        template: "",
        claim: &ClaimId::from("none"),
        settings: &JobSettings::default(),
    }));
    job["metadata"]["ownerReferences"] = Value::Null;
    let terms = "/spec/template/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/\
                 nodeSelectorTerms/0/matchExpressions";
    let terms = job.pointer_mut(terms).and_then(Value::as_array_mut).context("the Job is bound to no node")?;
    terms.retain(|term| term["key"] != "drover.dev/claim");
    Ok(serde_json::from_value(job)?)
}
