//! The Harvester cluster of a scenario, on a real control plane: definitions, objects and KWOK nodes, with Drover's operator,
//! planner and webhooks beside them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use drover_clock::Clock;
use drover_core::harvester::Settings;
use drover_corral::apiserver::{ApiServer, Options};
use drover_lab::{Lab, LabOptions};
use drover_operator::harvester::{HarvesterOptions, Repositories, Texts};
use drover_operator::{
    Connection, Operator, OperatorOptions, Place, Planner, PlannerOptions, WebhookOptions, Webhooks, connect,
};
use drover_sim::Scenario;
use futures::future::BoxFuture;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::stand_ins::{Held, StandIns};

pub const SYSTEM: &str = "harvester-system";
const CATTLE: &str = "cattle-system";
/// What every cluster has, and what needs a component that is not there: KubeVirt answers for evictions.
const LEFT_OUT: [&str; 3] = ["CustomResourceDefinition", "Upgrade", "ValidatingWebhookConfiguration"];

pub struct Ground {
    // Before the lab, so that it ends first: nobody asks a server that was taken down.
    _running: JoinSet<()>,
    pub client: Client,
    pub lab: Lab,
    /// What nobody plays for now.
    pub held: Held,
}

/// Serves one release, in place of the pods of the repository, which run nothing on KWOK nodes.
#[derive(Debug)]
struct PlayedRepository(Texts);

impl Repositories for PlayedRepository {
    fn fetch(&self, _: String, _: String) -> BoxFuture<'static, Result<Texts, String>> {
        let texts = self.0.clone();
        Box::pin(async move { Ok(texts) })
    }

    fn file(&self, url: String) -> BoxFuture<'static, Result<String, String>> {
        Box::pin(async move { Err(format!("{url} is not played")) })
    }
}

impl Ground {
    /// All is there but the Upgrade, and what plays a part plays it.
    pub async fn up(scenario: &Scenario) -> Result<Self> {
        let lab = Lab::up(&LabOptions { kwok: true, ..LabOptions::default() })?;
        let client = client_of(lab.kubeconfig()).await?;
        // Somebody else than the administrator: who Drover itself is may do what others may not.
        let own = client_of(&lab.kubeconfig_for("drover", Some("system:masters"))?).await?;
        let objects = objects_of(scenario)?;
        let definitions: Vec<&Value> =
            objects.iter().filter(|object| object["kind"] == "CustomResourceDefinition").collect();
        lab.define(&json!({ "apiVersion": "v1", "kind": "List", "items": definitions }).to_string())?;
        let names = scenario.node_names();
        lab.add_kwok_nodes(&names.iter().map(String::as_str).collect::<Vec<_>>(), &[])?;
        let is_named = |object: &&Value| object["kind"] == "Namespace";
        for object in objects.iter().filter(is_named).chain(objects.iter().filter(|object| !is_named(object))) {
            match (object["apiVersion"].as_str(), object["kind"].as_str().unwrap_or_default()) {
                // Longhorn has a kind of that name, too.
                (Some("v1"), "Node") => dress(&client, object).await?,
                (_, kind) if LEFT_OUT.contains(&kind) => {}
                _ => make(&client, object).await?,
            }
        }
        for (namespace, account) in [(SYSTEM, "harvester"), (CATTLE, "system-upgrade-controller")] {
            make(&client, &json!({
                "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": account, "namespace": namespace },
            }))
            .await?;
        }

        let mut running = JoinSet::new();
        let stand_ins = StandIns::new(client.clone(), scenario);
        let held = stand_ins.held();
        running.spawn(stand_ins.play());
        start_operator(&mut running, &own, scenario)?;
        start_webhooks(&mut running, &own).await?;
        Ok(Ground { _running: running, client, lab, held })
    }

    /// What kubectl complains of.
    pub fn refusal(&self, arguments: &[&str]) -> Result<String> {
        match self.lab.kubectl(arguments) {
            Ok(done) => bail!("`kubectl {}` was not refused: {done}", arguments.join(" ")),
            Err(error) => Ok(error.to_string()),
        }
    }

    /// The same for an Upgrade that is asked for.
    pub fn refusal_of(&self, upgrade: &Value) -> Result<String> {
        match self.create(upgrade) {
            Ok(done) => bail!("the Upgrade was taken: {done}"),
            Err(error) => Ok(error.to_string()),
        }
    }

    pub fn create(&self, upgrade: &Value) -> Result<String> {
        self.send("create", upgrade)
    }

    /// As kubectl does it with a file.
    pub fn send(&self, verb: &str, object: &Value) -> Result<String> {
        let path = self.lab.dir().join("object.json");
        std::fs::write(&path, object.to_string())?;
        Ok(self.lab.kubectl(&[verb, "-f", &path.to_string_lossy()])?)
    }

    pub async fn merge_status(&self, object: &Value, status: &Value) -> Result<()> {
        let patch = json!({ "status": status });
        api(&self.client, object)?.patch_status(name(object), &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }
}

async fn client_of(kubeconfig: &Path) -> Result<Client> {
    let connection = Connection { kubeconfig: Some(kubeconfig.to_owned()), context: None, server: None };
    Ok(connect(&connection).await?)
}

/// As the scenario has them on the embedded cluster, before anything runs there.
fn objects_of(scenario: &Scenario) -> Result<Vec<Value>> {
    let options = Options { clock: Clock::real(), seed: 1, latency: Duration::ZERO, watch_window: 1000 };
    let server = ApiServer::new(options);
    scenario.set_up_cluster(&server).map_err(|status| anyhow::anyhow!("{}", status.message))?;
    let mut objects = server.save()["items"].as_array().cloned().context("nothing was saved")?;
    for object in &mut objects {
        let metadata = object["metadata"].as_object_mut().context("an object without metadata")?;
        for field in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
            metadata.remove(field);
        }
    }
    Ok(objects)
}

fn start_operator(running: &mut JoinSet<()>, client: &Client, scenario: &Scenario) -> Result<()> {
    let release = scenario.release().context("the scenario has no release")?;
    // JSON is YAML, too.
    let texts = Texts { release: release.to_string(), images: None, previous_images: None };
    let mut options = OperatorOptions::new(CATTLE, "operator", Clock::real());
    options.harvester = Some(HarvesterOptions {
        settings: Settings { image: options.settings.kubectl_image.clone() },
        repositories: Arc::new(PlayedRepository(texts)),
        // KWOK nodes have no kubelet to ask.
        asks_machines: false,
    });
    running.spawn(Operator::new(client.clone(), options).run(std::future::pending()));
    if scenario.plans_machines() {
        let planner = Planner::new(client.clone(), PlannerOptions::new("operator", Clock::real()));
        running.spawn(planner.run(std::future::pending()));
    }
    Ok(())
}

/// The API server calls them over TLS, with the certificate that they make themselves.
async fn start_webhooks(running: &mut JoinSet<()>, client: &Client) -> Result<()> {
    let options = WebhookOptions {
        listen: "127.0.0.1:0".parse()?,
        place: Place::Url(String::new()),
        namespace: SYSTEM.to_owned(),
        clock: Clock::real(),
    };
    let webhooks = Webhooks::bind(options).await?;
    let place = Place::Url(format!("https://localhost:{}", webhooks.address().port()));
    running.spawn(webhooks.at(place).run(client.clone(), std::future::pending()));
    Ok(())
}

pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

pub fn api(client: &Client, object: &Value) -> Result<Api<DynamicObject>> {
    let text = |field: &str| object[field].as_str().with_context(|| format!("an object without {field}"));
    let (group, version) = text("apiVersion")?.split_once('/').unwrap_or(("", text("apiVersion")?));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("kind")?));
    Ok(match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    })
}

/// Makes an object, and gives it the status that it has; what a server has made itself is left as it is.
pub async fn make(client: &Client, object: &Value) -> Result<()> {
    let (api, what) = (api(client, object)?, || format!("{} {}", object["kind"], name(object)));
    match api.create(&PostParams::default(), &serde_json::from_value(object.clone())?).await {
        Ok(made) if !object["status"].is_null() && made.data["status"] != object["status"] => {
            let patch = json!({ "status": object["status"] });
            let done = api.patch_status(name(object), &PatchParams::default(), &Patch::Merge(&patch)).await;
            done.map(drop).with_context(|| format!("cannot write the status of {}", what()))
        }
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot create {}", what())),
    }
}

pub async fn merge(client: &Client, object: &Value, patch: &Value) -> Result<()> {
    let done = api(client, object)?.patch(name(object), &PatchParams::default(), &Patch::Merge(patch)).await;
    done.map(drop).with_context(|| format!("cannot change {} {}", object["kind"], name(object)))
}

/// A KWOK node gets what the scenario's has, as a kubelet would say it.
async fn dress(client: &Client, node: &Value) -> Result<()> {
    let metadata = json!({
        "labels": node["metadata"]["labels"], "annotations": without_corral(&node["metadata"]["annotations"]),
    });
    merge(client, node, &json!({ "metadata": metadata })).await?;
    let known = &node["status"]["nodeInfo"];
    let info = json!({ "kubeletVersion": known["kubeletVersion"], "osImage": known["osImage"] });
    say(client, name(node), &json!({ "nodeInfo": info, "conditions": node["status"]["conditions"] })).await
}

/// Marks that tell simulated kubelets what to do.
fn without_corral(annotations: &Value) -> BTreeMap<&String, &Value> {
    let all = annotations.as_object().into_iter().flatten();
    all.filter(|(key, _)| !key.starts_with("corral.drover.dev/")).collect()
}

/// A kubelet says this of its Node; conditions that are not named stay.
pub async fn say(client: &Client, node: &str, status: &Value) -> Result<()> {
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": node } });
    let patch = json!({ "status": status });
    api(client, &node)?.patch_status(name(&node), &PatchParams::default(), &Patch::Strategic(&patch)).await?;
    Ok(())
}
