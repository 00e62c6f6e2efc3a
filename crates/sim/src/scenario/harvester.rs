//! A Harvester cluster in a few lines: nodes that Rancher has provisioned, KubeVirt and Longhorn on them, and machines with
//! volumes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use drover_corral::apiserver::ApiServer;
use drover_corral::world::provisioned::{Seed, settled};
use drover_corral::world::{Part, chart_repository, charts, definitions, fleet, helm};
use drover_operator::harvester::{NoRepositories, Repositories};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Scenario;
use super::cluster::{OF_HARVESTERS_UPGRADES, OF_UPGRADES};
use crate::repository::ScriptedRepositories;

const SYSTEM: &str = "harvester-system";
const STORAGE: &str = "longhorn-system";
const CATTLE: &str = "cattle-system";
const FLEET: &str = "fleet-local";

/// What is special about a Harvester cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Harvester {
    /// How many of the nodes, the first ones, are servers: etcd and control plane. The others are workers.
    pub servers: usize,
    /// The version of Rancher, on which the form of its tokens depends.
    pub rancher: String,
    /// Nodes that only vote: no machine runs there, no volume is kept there.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub witnesses: BTreeSet<String>,
    /// The operating system of the nodes.
    pub os: String,
    /// The setting `upgrade-config`, if one is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Value>,
    /// Upgrades have a status of their own, as Drover defines them; without it the definition is the one that Harvester installs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub own_status: bool,
    /// There is no Rancher: the operators plan the machines as well. Rancher's agents still carry out what is planned.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub own_planner: bool,
    /// Fleet has an agent, without which it deploys nothing; elsewhere it needs none.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fleet_agent: bool,
    /// Harvester's own webhook is at work. To it the operators are anybody: it refuses what only Harvester may do.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub webhook: bool,
    /// The charts of Harvester are served to Rancher, those of one version at a time; elsewhere it has all of them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub chart_repository: bool,
    /// An Upgrade that is asked for from the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<UpgradeLines>,
}

/// An Upgrade, and the release that it leads to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct UpgradeLines {
    pub name: String,
    /// The version of Harvester.
    pub to: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Merged into `harvester-release.yaml` as a JSON merge patch: `null` takes a field away.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub release: Value,
    /// The images that the release lists; none if it does not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// The images of the release that runs, as the new one lists them; none if it does not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub previous_images: Vec<String>,
    /// What else the repository serves, by path: manifests that the release names below `drover`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
}

impl Default for UpgradeLines {
    fn default() -> Self {
        UpgradeLines {
            name: "hvst-upgrade-1".to_owned(),
            to: "v1.8.0".to_owned(),
            annotations: BTreeMap::new(),
            release: Value::Null,
            images: Vec::new(),
            previous_images: Vec::new(),
            files: BTreeMap::new(),
        }
    }
}

impl Default for Harvester {
    fn default() -> Self {
        Harvester {
            servers: 3,
            rancher: "v2.12.3".to_owned(),
            witnesses: BTreeSet::new(),
            os: "Harvester v1.7.0".to_owned(),
            config: None,
            own_status: false,
            own_planner: false,
            fleet_agent: false,
            webhook: false,
            chart_repository: false,
            upgrade: None,
        }
    }
}

impl Harvester {
    /// The version that is there before.
    fn runs(&self) -> &str {
        self.os.rsplit(' ').next().unwrap_or_default()
    }
}

/// How many virtual machines there are (`vm-1`, `vm-2` and so on), or which.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Vms {
    Count(usize),
    Named(Vec<Vm>),
}

impl Default for Vms {
    fn default() -> Self {
        Vms::Count(0)
    }
}

impl Vms {
    pub fn is_none(&self) -> bool {
        self.all().is_empty()
    }

    fn all(&self) -> Vec<Vm> {
        match self {
            Vms::Count(count) => (1..=*count).map(|number| Vm::named(&format!("vm-{number}"))).collect(),
            Vms::Named(vms) => vms.clone(),
        }
    }
}

/// A virtual machine with one volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Vm {
    pub name: String,
    /// Whether its volume can be used on two nodes at once, without which it cannot migrate.
    #[serde(default = "yes")]
    pub migratable: bool,
    /// A device of its host is passed through to it, which keeps it there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub host_device: bool,
    /// `Always`, `RerunOnFailure`, `Manual`, `Halted` or `Once`.
    #[serde(default = "always")]
    pub run_strategy: String,
    /// How many replicas its volume has.
    #[serde(default = "three")]
    pub replicas: usize,
    /// Of its instances; those that tell migrations what to do are in corral.md.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

fn yes() -> bool {
    true
}

fn always() -> String {
    "Always".to_owned()
}

fn three() -> usize {
    3
}

impl Vm {
    fn named(name: &str) -> Vm {
        Vm {
            name: name.to_owned(),
            migratable: yes(),
            host_device: false,
            run_strategy: always(),
            replicas: three(),
            annotations: BTreeMap::new(),
        }
    }
}

impl Scenario {
    /// The parts of the world that it needs beside those of Kubernetes.
    pub(super) fn products(&self) -> Vec<Part> {
        match (&self.harvester, self.vms.is_none()) {
            (Some(harvester), _) => {
                let without = |part: &Part| harvester.own_planner && *part == Part::Rancher;
                Part::HARVESTER.into_iter().filter(|part| !without(part)).collect()
            }
            (None, false) => vec![Part::KubeVirt, Part::Longhorn],
            (None, true) => Vec::new(),
        }
    }

    /// The definitions, installations and machines of these products.
    pub(super) fn product_objects(&self) -> Vec<Value> {
        if self.products().is_empty() {
            return Vec::new();
        }
        let mut objects = definitions::harvester();
        let own_status = self.harvester.as_ref().is_some_and(|harvester| harvester.own_status);
        let upgrades = if own_status { &OF_UPGRADES } else { &OF_HARVESTERS_UPGRADES };
        objects.extend(upgrades.iter().cloned());
        objects.extend(kubevirt());
        objects.extend(self.storage());
        if let Some(harvester) = &self.harvester {
            let seeds: Vec<Seed> = self.node_names().iter().map(|name| self.seed(harvester, name)).collect();
            objects.extend(settled(&seeds, &self.from, &harvester.rancher));
            let charts = ["harvester", "harvester-crd", "rancher-monitoring-crd", "rancher-logging-crd"];
            objects.extend(charts.iter().flat_map(|chart| charts::deployed(chart, chart, "1.7.0")));
            objects.extend(harvester.fleet_agent.then(fleet::settled).into_iter().flatten());
            objects.extend(self.upgrade_objects(harvester));
            objects.extend(self.rancher_objects(harvester));
            let served = || chart_repository::settled(harvester.runs());
            objects.extend(harvester.chart_repository.then(served).into_iter().flatten());
        }
        objects.extend(self.vms.all().iter().flat_map(|vm| self.vm(vm)));
        objects
    }

    /// Rancher itself, where the release raises it; elsewhere nobody looks at more than its version.
    fn rancher_objects(&self, harvester: &Harvester) -> Vec<Value> {
        let asked = self.release().and_then(|release| release["rancher"].as_str().map(str::to_owned));
        match asked.filter(|asked| *asked != harvester.rancher) {
            Some(_) => {
                helm::rancher(&harvester.rancher, harvester.servers, &json!({ "hostname": "rancher.local" })).into()
            }
            None => Vec::new(),
        }
    }

    /// The Upgrade, and what it is asked for with.
    fn upgrade_objects(&self, harvester: &Harvester) -> Vec<Value> {
        let Some(upgrade) = &harvester.upgrade else { return Vec::new() };
        let namespace = |name: &str| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        let setting = |name: &str, value: &str| {
            json!({
                "apiVersion": "harvesterhci.io/v1beta1", "kind": "Setting", "metadata": { "name": name }, "value": value,
            })
        };
        let mut objects: Vec<Value> = [SYSTEM, CATTLE, FLEET, STORAGE].iter().map(|name| namespace(name)).collect();
        objects.push(setting("server-version", harvester.runs()));
        objects.extend(harvester.config.as_ref().map(|config| setting("upgrade-config", &config.to_string())));
        objects.push(json!({
            "apiVersion": "harvesterhci.io/v1beta1", "kind": "Version",
            "metadata": { "name": upgrade.to, "namespace": SYSTEM },
            "spec": { "isoURL": format!("http://example.com/harvester-{}.iso", upgrade.to) },
        }));
        objects.push(json!({
            "apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade",
            "metadata": { "name": upgrade.name, "namespace": SYSTEM, "annotations": upgrade.annotations },
            // Nobody but Harvester may make the logs that the webhook knows of.
            "spec": { "version": upgrade.to, "logEnabled": harvester.webhook },
        }));
        objects.extend(harvester.webhook.then(|| {
            json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": { "name": "harvester-webhook", "namespace": SYSTEM },
                "spec": { "ports": [{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": 9443 }] },
            })
        }));
        objects
    }

    /// The Upgrade that is asked for, if one is.
    pub fn upgrade(&self) -> Option<&UpgradeLines> {
        self.harvester.as_ref()?.upgrade.as_ref()
    }

    /// Whether the operators plan the machines, in place of Rancher.
    pub fn plans_machines(&self) -> bool {
        self.harvester.as_ref().is_some_and(|harvester| harvester.own_planner)
    }

    /// What the release says of itself; none if there is no Upgrade.
    pub fn release(&self) -> Option<Value> {
        let (harvester, upgrade) = (self.harvester.as_ref()?, self.upgrade()?);
        let chart = upgrade.to.trim_start_matches('v');
        let mut release = json!({
            "harvester": upgrade.to, "harvesterChart": chart, "os": format!("Harvester {}", upgrade.to),
            "kubernetes": self.to, "rancher": harvester.rancher, "monitoringChart": "106.1.2", "loggingChart": "106.0.1",
            "loggingChartHarvesterEventRouter": "0.3.1", "minUpgradableVersion": "", "drover": {},
            "rancherDependencies": {
                "fleet": { "chart": "107.0.0+up0.13.0", "app": "0.13.0" },
                "fleet-crd": { "chart": "107.0.0+up0.13.0", "app": "0.13.0" },
                "rancher-webhook": { "chart": "107.0.0+up0.8.0", "app": "0.8.0" },
            },
        });
        super::merge(&mut release, &upgrade.release);
        Some(release)
    }

    /// What serves the release; none if there is no Upgrade.
    pub fn repositories(&self, server: ApiServer) -> Option<ScriptedRepositories> {
        let (release, upgrade) = (self.release()?, self.upgrade()?);
        let list = |images: &[String]| Some(images.join("\n")).filter(|images| !images.is_empty());
        let (images, previous_images) = (list(&upgrade.images), list(&upgrade.previous_images));
        Some(ScriptedRepositories { server, release, images, previous_images, files: upgrade.files.clone() })
    }

    /// What steps read of it.
    pub fn release_files(&self, server: ApiServer) -> Arc<dyn Repositories> {
        match self.repositories(server) {
            Some(repositories) => Arc::new(repositories),
            None => Arc::new(NoRepositories),
        }
    }

    fn number(&self, node: &str) -> usize {
        self.node_names().iter().position(|name| name == node).map_or(0, |at| at + 1)
    }

    fn seed(&self, harvester: &Harvester, node: &str) -> Seed {
        let number = self.number(node);
        let is_server = number <= harvester.servers;
        let is_witness = harvester.witnesses.contains(node);
        Seed {
            machine: machine_of(number),
            node: node.to_owned(),
            address: address_of(number),
            etcd: is_server || is_witness,
            control_plane: is_server && !is_witness,
            worker: !is_witness,
        }
    }

    /// What a Node of a Harvester cluster carries beside what every Node does.
    pub(super) fn dress(&self, name: &str, node: &mut Value) {
        let Some(harvester) = &self.harvester else { return };
        let number = self.number(name);
        let metadata = &mut node["metadata"];
        metadata["labels"]["harvesterhci.io/managed"] = json!("true");
        let seed = self.seed(harvester, name);
        if seed.etcd {
            metadata["labels"]["node-role.kubernetes.io/etcd"] = json!("true");
        }
        if seed.control_plane {
            metadata["labels"]["node-role.kubernetes.io/control-plane"] = json!("true");
        }
        if harvester.witnesses.contains(name) {
            metadata["labels"]["node-role.harvesterhci.io/witness"] = json!("true");
        }
        metadata["annotations"]["cluster.x-k8s.io/machine"] = json!(machine_of(number));
        metadata["annotations"]["rke2.io/internal-ip"] = json!(address_of(number));
        node["status"]["nodeInfo"]["osImage"] = json!(harvester.os);
        if seed.etcd {
            node["status"]["conditions"] = json!([{
                "type": "EtcdIsVoter", "status": "True", "reason": "MemberNotLearner",
                "message": "Node is a voting member of the etcd cluster",
            }]);
        }
    }

    /// The nodes that keep volumes.
    fn keepers(&self) -> Vec<String> {
        let witnesses = self.harvester.as_ref().map(|harvester| harvester.witnesses.clone()).unwrap_or_default();
        self.node_names().into_iter().filter(|name| !witnesses.contains(name)).collect()
    }

    fn storage(&self) -> Vec<Value> {
        let of = |kind: &str, name: &str, more: Value| {
            let mut object = json!({
                "apiVersion": "longhorn.io/v1beta2", "kind": kind, "metadata": { "name": name, "namespace": STORAGE },
            });
            super::merge(&mut object, &more);
            object
        };
        let mut objects: Vec<Value> = self
            .keepers()
            .iter()
            .map(|name| of("Node", name, json!({ "spec": { "allowScheduling": true } })))
            .collect();
        objects.extend(["harvester-longhorn", "longhorn-static"].map(|name| {
            json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": name },
                "provisioner": "driver.longhorn.io", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate",
            })
        }));
        objects.push(of("Setting", "replica-replenishment-wait-interval", json!({ "value": "600" })));
        objects.push(of("Setting", "node-drain-policy", json!({ "value": "allow-if-replica-is-stopped" })));
        objects
    }

    fn vm(&self, vm: &Vm) -> Vec<Value> {
        let mode = if vm.migratable { "ReadWriteMany" } else { "ReadWriteOnce" };
        let volume = format!("pvc-{}", vm.name);
        let replicas = vm.replicas.min(self.keepers().len());
        let mut devices = json!({ "disks": [{ "name": "root", "disk": { "bus": "virtio" } }] });
        if vm.host_device {
            devices["hostDevices"] = json!([{ "name": "gpu", "deviceName": "example.com/gpu" }]);
        }
        vec![
            json!({
                "apiVersion": "longhorn.io/v1beta2", "kind": "Volume",
                "metadata": { "name": volume, "namespace": STORAGE },
                "spec": { "numberOfReplicas": replicas, "nodeID": "" },
                "status": { "kubernetesStatus": { "namespace": "default", "pvcName": vm.name, "pvName": volume } },
            }),
            json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": { "name": vm.name, "namespace": "default" },
                "spec": {
                    "accessModes": [mode], "volumeMode": "Block", "volumeName": volume, "storageClassName": "harvester-longhorn",
                    "resources": { "requests": { "storage": "10Gi" } },
                },
                "status": { "phase": "Bound" },
            }),
            json!({
                "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
                "metadata": { "name": vm.name, "namespace": "default" },
                "spec": {
                    "runStrategy": vm.run_strategy,
                    "template": {
                        "metadata": { "labels": { "harvesterhci.io/vmName": vm.name }, "annotations": vm.annotations },
                        "spec": {
                            "evictionStrategy": "LiveMigrateIfPossible",
                            "domain": { "devices": devices },
                            "volumes": [{ "name": "root", "persistentVolumeClaim": { "claimName": vm.name } }],
                        },
                    },
                },
            }),
        ]
    }
}

fn machine_of(number: usize) -> String {
    format!("custom-{number:012x}")
}

fn address_of(number: usize) -> String {
    format!("10.0.{}.{}", number / 250, number % 250 + 1)
}

fn kubevirt() -> [Value; 2] {
    [
        json!({
            "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": { "name": "kubevirt", "namespace": SYSTEM },
            "spec": { "configuration": { "evictionStrategy": "LiveMigrateIfPossible" } },
            "status": { "phase": "Deployed", "observedKubeVirtVersion": "1.6.0" },
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": { "name": "virt-api-validator" },
            "webhooks": [{
                "name": "virt-launcher-eviction-interceptor.kubevirt.io",
                "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore", "sideEffects": "NoneOnDryRun",
                "clientConfig": {
                    "service": { "name": "virt-api", "namespace": SYSTEM, "path": "/launcher-eviction-validate" },
                },
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods/eviction"],
                }],
            }],
        }),
    ]
}
