//! A scenario on the embedded cluster: its objects, and how its machines behave.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use drover_api::crds::{self, Controller};
use drover_api::tanzu::tanzu_kubernetes_cluster::jobs::CONTAINER;
use drover_corral::apiserver::ApiServer;
use drover_corral::world::{WorldOptions, annotations};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::Status;
use serde_json::{Value, json};

use super::{Machine, NAMESPACE, PlanLines, Scenario, Workload};
use crate::known::Known;
use crate::programs;

/// The definitions of our kinds. Making them takes longer than a good part of a run.
pub(super) static OF_PLANS: LazyLock<Vec<Value>> = LazyLock::new(|| as_objects(&crds::of(Controller::Plan)));
pub(super) static OF_UPGRADES: LazyLock<Vec<Value>> = LazyLock::new(|| as_objects(&crds::of(Controller::Harvester)));
pub(super) static OF_HARVESTERS_UPGRADES: LazyLock<Vec<Value>> =
    LazyLock::new(|| as_objects(&crds::as_harvester_installs()));
pub(super) static OF_GUESTS: LazyLock<Vec<Value>> = LazyLock::new(|| as_objects(&crds::of(Controller::Guest)));

fn as_objects(definitions: &[CustomResourceDefinition]) -> Vec<Value> {
    definitions.iter().map(|definition| json!(definition)).collect()
}

impl Scenario {
    /// Makes the scenario's namespace, definitions, nodes, workloads and Plans.
    pub fn set_up(&self, server: &ApiServer) -> Result<(), Box<Status>> {
        let plans = self.all_plans();
        load(server, self.cluster().into_iter().chain(plans).collect())
    }

    /// All but the Plans.
    pub fn set_up_cluster(&self, server: &ApiServer) -> Result<(), Box<Status>> {
        load(server, self.cluster())
    }

    fn cluster(&self) -> Vec<Value> {
        let mut objects = vec![json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } })];
        objects.extend(OF_PLANS.iter().cloned());
        objects.extend(self.node_names().iter().map(|name| self.node(name)));
        objects.extend(self.product_objects());
        objects.extend(self.guest_objects());
        objects.extend(self.workloads.iter().flat_map(Workload::objects));
        objects.extend(self.manifests.iter().cloned());
        objects
    }

    fn node(&self, name: &str) -> Value {
        let plain = Machine::default();
        let machine = self.machines.get(name).unwrap_or(&plain);
        let mut labels = json!({ "kubernetes.io/hostname": name, "kubernetes.io/os": "linux" });
        for role in &machine.roles {
            labels[format!("node-role.kubernetes.io/{role}")] = json!("true");
        }
        for (key, value) in &machine.labels {
            labels[key] = json!(value);
        }
        let mut told = json!({ annotations::KUBELET: annotations::SIMULATED });
        for (key, value) in &machine.annotations {
            told[key] = json!(value);
        }
        let mut node = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "name": name, "labels": labels, "annotations": told },
            "spec": if self.cordoned.contains(name) { json!({ "unschedulable": true }) } else { json!({}) },
            "status": { "nodeInfo": {
                "kubeletVersion": machine.version.as_ref().unwrap_or(&self.from),
                "operatingSystem": "linux", "architecture": "amd64", "bootID": "",
                "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "", "machineID": "", "osImage": "",
                "systemUUID": "",
            }},
        });
        self.dress(name, &mut node);
        node
    }

    /// Machines without heartbeats: in a simulation each would be an event that changes nothing. Where Plans drain,
    /// [`programs::run`] has to run beside it.
    pub fn world(&self) -> WorldOptions {
        let mut options = WorldOptions::default().with(self.products()).with(self.guest_parts());
        if self.runs_programs() {
            options.kubelet.run_elsewhere = programs::run_elsewhere(self.prepares_by_drain());
            options.kubelet.run_elsewhere.extend(self.tanzu().map(|_| CONTAINER.to_owned()));
        }
        options.kubelet.lease_period = None;
        options.kubelet.job_duration = Duration::from_secs(self.job_seconds);
        options.kubelet.reboot = (self.reboot_seconds > 0).then(|| Duration::from_secs(self.reboot_seconds));
        options
    }

    /// Whether a Plan drains its nodes, from the start or after somebody has changed it.
    pub fn drains(&self) -> bool {
        let mentions = |value: &Value| value.to_string().contains("\"drain\":");
        self.plans.iter().any(|plan| mentions(&plan.spec)) || self.faults.iter().any(|fault| mentions(&json!(fault)))
    }

    /// Whether something of Drover's runs inside the simulated kubelets.
    pub fn runs_programs(&self) -> bool {
        self.drains() || self.upgrade().is_some() || self.tanzu().is_some()
    }

    /// Whether a Plan empties its nodes by what prepares them, too.
    fn prepares_by_drain(&self) -> bool {
        let args = |plan: &PlanLines| {
            let args = plan.spec["prepare"]["args"].as_array().into_iter().flatten();
            args.filter_map(|arg| arg.as_str().map(str::to_owned)).collect::<Vec<_>>()
        };
        self.plans.iter().any(|plan| programs::is_drain(&args(plan)))
    }

    pub fn names_secrets(&self) -> bool {
        self.plans.iter().any(|plan| plan.spec["secrets"].is_array())
    }

    /// What is still wrong on the embedded cluster, if nobody but the scenario has cordoned anything.
    pub fn unmet_now(&self, server: &ApiServer) -> Vec<String> {
        let cordoned: BTreeSet<String> = self.cordoned.clone();
        self.unmet(&Known::of_list(&server.save()), &cordoned)
    }
}

fn load(server: &ApiServer, objects: Vec<Value>) -> Result<(), Box<Status>> {
    server.load(&json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": objects }))
}

impl Workload {
    fn objects(&self) -> Vec<Value> {
        let labels = json!({ "app": self.name });
        let template = json!({
            "metadata": { "labels": labels, "annotations": self.annotations },
            "spec": { "containers": [{ "name": "main", "image": "registry.k8s.io/pause" }] },
        });
        let kind = if self.everywhere { "DaemonSet" } else { "Deployment" };
        let mut controller = json!({
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": { "name": self.name, "namespace": "default" },
            "spec": { "selector": { "matchLabels": labels }, "template": template },
        });
        if !self.everywhere {
            controller["spec"]["replicas"] = json!(self.replicas);
        }
        let budget = self.min_available.map(|available| {
            json!({
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": { "name": self.name, "namespace": "default" },
                "spec": { "minAvailable": available, "selector": { "matchLabels": labels } },
            })
        });
        std::iter::once(controller).chain(budget).collect()
    }
}
