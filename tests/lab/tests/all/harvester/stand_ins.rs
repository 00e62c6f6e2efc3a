//! Who plays the parts of a Harvester cluster that no real component plays here. Each does what the original lets others see, and
//! nothing else:
//!
//! - CDI, which imports the image of a release into a claim that it makes;
//! - Rancher and Fleet, which say that a ManagedChart is deployed;
//! - the agent of each machine, which carries out its plan: the kubelet says another version then;
//! - the machine, which boots what was installed when the Job that did it has ended;
//! - the containers of the Jobs: Drover's own steps, which run here, against the same API.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use drover_clock::Clock;
use drover_core::decision::{Kind, Subject};
use drover_core::harvester::steps::HostDeed;
use drover_operator::harvester::NoRepositories;
use drover_operator::harvester::steps::{self, Host, Reach};
use drover_sim::Scenario;
use futures::future::BoxFuture;
use kube::Client;
use kube::api::{DynamicObject, ListParams};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tokio::task::{AbortHandle, JoinSet};

use super::ground::{SYSTEM, api, make, merge, say};

/// From one look to the next.
const PAUSE: Duration = Duration::from_millis(200);
const FLEET: &str = "fleet-local";

/// A part that somebody plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Images,
    Charts,
    Agents,
    Machines,
    Steps,
}

/// The parts that nobody plays for now.
#[derive(Debug, Clone, Default)]
pub struct Held(Arc<Mutex<BTreeSet<Part>>>);

impl Held {
    pub fn hold(&self, part: Part) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(part);
    }

    pub fn release(&self, part: Part) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&part);
    }

    fn has(&self, part: Part) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&part)
    }
}

pub struct StandIns {
    client: Client,
    held: Held,
    /// Of Kubernetes, which agents install.
    version: String,
    installed: Installed,
    /// The steps that were begun, by the uids of their pods.
    begun: BTreeMap<String, AbortHandle>,
    steps: JoinSet<()>,
}

/// The systems that machines boot next, by their Nodes.
type Installed = Arc<Mutex<BTreeMap<String, String>>>;

impl StandIns {
    pub fn new(client: Client, scenario: &Scenario) -> Self {
        StandIns {
            client,
            held: Held::default(),
            version: scenario.to.clone(),
            installed: Installed::default(),
            begun: BTreeMap::new(),
            steps: JoinSet::new(),
        }
    }

    pub fn held(&self) -> Held {
        self.held.clone()
    }

    pub async fn play(mut self) {
        loop {
            for part in [Part::Images, Part::Charts, Part::Agents, Part::Machines, Part::Steps] {
                if self.held.has(part) {
                    continue;
                }
                let played = match part {
                    Part::Images => self.import().await,
                    Part::Charts => self.deploy().await,
                    Part::Agents => self.carry_out_plans().await,
                    Part::Machines => self.boot().await,
                    Part::Steps => self.begin_steps().await,
                };
                // What somebody else has changed meanwhile is looked at again.
                if let Err(error) = played {
                    eprintln!("{part:?}: {error:#}");
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn list(&self, api_version: &str, kind: &str, namespace: Option<&str>) -> Result<Vec<Value>> {
        let some = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "namespace": namespace } });
        let list = api(&self.client, &some)?.list(&ListParams::default()).await?;
        let full = |object: DynamicObject| {
            let mut value = serde_json::to_value(object).unwrap_or_default();
            value["apiVersion"] = json!(api_version);
            value["kind"] = json!(kind);
            value
        };
        Ok(list.items.into_iter().map(full).collect())
    }

    async fn import(&self) -> Result<()> {
        for image in self.list("harvesterhci.io/v1beta1", "VirtualMachineImage", Some(SYSTEM)).await? {
            if image["status"]["progress"] == 100 {
                continue;
            }
            let name = &image["metadata"]["name"];
            let room = json!({ "storage": "10Gi" });
            let modes = json!(["ReadWriteMany"]);
            make(
                &self.client,
                &json!({
                    "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name },
                    "spec": {
                        "capacity": room, "accessModes": modes, "storageClassName": "longhorn-static",
                        "claimRef": { "namespace": SYSTEM, "name": name }, "hostPath": { "path": "/iso" },
                    },
                }),
            )
            .await?;
            make(&self.client, &json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name, "namespace": SYSTEM },
                "spec": {
                    "accessModes": modes, "storageClassName": "longhorn-static", "volumeName": name,
                    "resources": { "requests": room },
                },
            }))
            .await?;
            let imported = json!([{ "type": "Imported", "status": "True" }]);
            merge(&self.client, &image, &json!({ "status": { "progress": 100, "conditions": imported } })).await?;
        }
        Ok(())
    }

    async fn deploy(&self) -> Result<()> {
        for chart in self.list("management.cattle.io/v3", "ManagedChart", Some(FLEET)).await? {
            let generation = &chart["metadata"]["generation"];
            if chart["status"]["observedGeneration"] == *generation || chart["spec"]["paused"] == true {
                continue;
            }
            let ready = json!([{ "type": "Ready", "status": "True" }]);
            let status = json!({ "status": { "observedGeneration": generation, "conditions": ready } });
            let charts = api(&self.client, &chart)?;
            let name = chart["metadata"]["name"].as_str().unwrap_or_default();
            charts.patch_status(name, &Default::default(), &kube::api::Patch::Merge(&status)).await?;
        }
        Ok(())
    }

    async fn carry_out_plans(&self) -> Result<()> {
        for secret in self.list("v1", "Secret", Some(FLEET)).await? {
            let datum = |key: &str| {
                let text = secret["data"][key].as_str().and_then(|text| STANDARD.decode(text).ok());
                text.and_then(|text| String::from_utf8(text).ok())
            };
            let Some(plan) = datum("plan") else { continue };
            let checksum: String = Sha256::digest(plan.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
            if datum("applied-checksum").as_ref() == Some(&checksum) {
                continue;
            }
            let node = secret["metadata"]["labels"]["rke.cattle.io/node-name"].as_str().unwrap_or_default();
            say(&self.client, node, &json!({ "nodeInfo": { "kubeletVersion": self.version } })).await?;
            let read: Value = serde_json::from_str(&plan)?;
            let probes = read["probes"].as_object().into_iter().flat_map(Map::keys);
            let probes: Map<String, Value> =
                probes.map(|probe| (probe.clone(), json!({ "healthy": true, "successCount": 1 }))).collect();
            let data = json!({ "applied-checksum": checksum, "probe-statuses": json!(probes).to_string() });
            merge(&self.client, &secret, &json!({ "stringData": data })).await?;
        }
        Ok(())
    }

    async fn boot(&self) -> Result<()> {
        let due = self.installed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if due.is_empty() {
            return Ok(());
        }
        for node in self.list("v1", "Node", None).await? {
            let name = node["metadata"]["name"].as_str().unwrap_or_default();
            // The operator says by this mark that the Job has ended, and that it waits for the boot.
            let pending = &node["metadata"]["annotations"]["harvesterhci.io/pendingOSImage"];
            let Some(system) = due.get(name).filter(|system| pending == system.as_str()) else { continue };
            say(
                &self.client,
                name,
                &json!({ "nodeInfo": { "osImage": system, "bootID": format!("{system} on {name}") } }),
            )
            .await?;
            self.installed.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        }
        Ok(())
    }

    /// What runs in the pods of Jobs whose container is `apply`; it ends with its pod.
    async fn begin_steps(&mut self) -> Result<()> {
        while self.steps.try_join_next().is_some() {}
        let mut pods = self.list("v1", "Pod", Some(SYSTEM)).await?;
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        let uid_of = |pod: &Value| pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let there: BTreeSet<String> = pods.iter().map(uid_of).collect();
        let gone = self.begun.iter().filter(|(uid, _)| !there.contains(*uid));
        gone.for_each(|(_, steps)| steps.abort());
        for pod in pods {
            let (uid, container) = (uid_of(&pod), &pod["spec"]["containers"][0]);
            if container["name"] != "apply" || pod["status"]["phase"] != "Running" || self.begun.contains_key(&uid) {
                continue;
            }
            let args = container["args"].as_array().into_iter().flatten();
            let args: Vec<String> = args.filter_map(|arg| arg.as_str().map(str::to_owned)).collect();
            let Some(order) = steps::order(&args) else { continue };
            let host = Machine { node: order.node.clone(), installed: self.installed.clone() };
            let client = self.client.clone();
            let steps = self.steps.spawn(async move {
                let name = pod["metadata"]["name"].as_str().unwrap_or_default();
                let own = Subject::new(Kind::Pod, SYSTEM, name);
                let reach = Reach { host: &host, repositories: &NoRepositories };
                let done = steps::run(client.clone(), Clock::real(), &order, Some(own), reach, &mut |_| {}).await;
                if let Err(error) = &done {
                    eprintln!("{order:?}: {error}");
                }
                let code = if done.is_ok() { "0" } else { "1" };
                let patch = json!({ "metadata": { "annotations": { "lab.drover.dev/exit-code": code } } });
                if let Err(error) = merge(&client, &pod, &patch).await {
                    eprintln!("{error:#}");
                }
            });
            self.begun.insert(uid, steps);
        }
        Ok(())
    }
}

/// What is installed boots later.
#[derive(Debug)]
struct Machine {
    node: String,
    installed: Installed,
}

impl Host for Machine {
    fn act(&self, deed: HostDeed) -> BoxFuture<'static, Result<(), String>> {
        if let HostDeed::InstallSystem { os } = deed {
            self.installed.lock().unwrap_or_else(PoisonError::into_inner).insert(self.node.clone(), os);
        }
        Box::pin(async { Ok(()) })
    }
}
