//! A scenario on the embedded cluster: its objects, and how its machines behave.

use std::sync::OnceLock;
use std::time::Duration;

use drover_api::crds::{self, Controller};
use drover_api::plan::Plan;
use drover_corral::apiserver::Direct;
use drover_corral::world::{WorldOptions, annotations};
use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::Status;
use serde_json::{Value, json};

use crate::scenario::{NAMESPACE, PLAN, Scenario};

/// Making them takes longer than a good part of a run.
static DEFINITIONS: OnceLock<Vec<CustomResourceDefinition>> = OnceLock::new();

impl Scenario {
    /// Makes the scenario's namespace, definitions, nodes and Plan.
    pub fn set_up(&self, user: &Direct) -> Result<(), Box<Status>> {
        self.set_up_cluster(user)?;
        user.create(&from_json::<Plan>(self.plan())?)?;
        Ok(())
    }

    /// All but the Plan.
    pub fn set_up_cluster(&self, user: &Direct) -> Result<(), Box<Status>> {
        user.create(&from_json::<Namespace>(json!({ "metadata": { "name": NAMESPACE } }))?)?;
        for definition in DEFINITIONS.get_or_init(|| crds::of(Controller::Plan)) {
            user.create(definition)?;
        }
        for name in self.node_names() {
            user.create(&from_json::<Node>(self.node(&name))?)?;
        }
        Ok(())
    }

    fn node(&self, name: &str) -> Value {
        json!({
            "metadata": {
                "name": name,
                "labels": { "kubernetes.io/hostname": name, "kubernetes.io/os": "linux" },
                "annotations": { annotations::KUBELET: annotations::SIMULATED },
            },
            "spec": if self.cordoned.contains(name) { json!({ "unschedulable": true }) } else { json!({}) },
            "status": { "nodeInfo": {
                "kubeletVersion": self.from, "operatingSystem": "linux", "architecture": "amd64", "bootID": "",
                "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "", "machineID": "", "osImage": "",
                "systemUUID": "",
            }},
        })
    }

    /// Machines without heartbeats: in a simulation each would be an event that changes nothing.
    pub fn world(&self) -> WorldOptions {
        let mut options = WorldOptions::default();
        options.kubelet.lease_period = None;
        options.kubelet.job_duration = Duration::from_secs(self.job_seconds);
        options.kubelet.reboot = (self.reboot_seconds > 0).then(|| Duration::from_secs(self.reboot_seconds));
        options
    }

    /// What is still wrong on the embedded cluster: also that a node does not run the new version.
    pub fn unmet_now(&self, user: &Direct) -> Vec<String> {
        let plan = user.get::<Plan>(Some(NAMESPACE), PLAN).ok().flatten().map(|plan| json!(plan));
        let Some(plan) = plan else { return vec!["the Plan is gone".to_owned()] };
        let nodes: Vec<Value> = user.list::<Node>().unwrap_or_default().into_iter().map(|node| json!(node)).collect();
        let mut unmet = self.unmet(&plan, &nodes);
        let old = nodes.iter().filter(|node| node["status"]["nodeInfo"]["kubeletVersion"] != self.to.as_str());
        unmet.extend(old.map(|node| format!("{} does not run {}", node["metadata"]["name"], self.to)));
        unmet
    }
}

fn from_json<T: serde::de::DeserializeOwned>(json: Value) -> Result<T, Box<Status>> {
    serde_json::from_value(json).map_err(|error| Box::new(Status::failure(&error.to_string(), "Invalid")))
}
