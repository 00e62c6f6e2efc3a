//! A TanzuKubernetesCluster in a few lines: the object that its owner has changed, and the images of both distributions.

use std::collections::BTreeMap;

use drover_api::tanzu::NAMESPACE;
use drover_core::guest::tanzu::Settings;
use drover_corral::world::guest::{IMAGES, image_name};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::cluster::OF_GUESTS;
use super::{Guest, Scenario, merge};
use crate::known::Known;

/// Of the original, on every TanzuKubernetesCluster of which anything is there.
const FINALIZER: &str = "tanzukubernetescluster.run.tanzu.vmware.com";

/// The version of Kubernetes in one of a distribution: `v1.16.7+vmware.1` of `v1.16.7+vmware.1-guest.1`.
pub fn kubernetes(distribution: &str) -> &str {
    let build = distribution.find('+').unwrap_or(0);
    let end = distribution[build..].find('-').map_or(distribution.len(), |at| build + at);
    &distribution[..end]
}

impl Guest {
    /// Of the controller that keeps it.
    pub fn settings(&self) -> Settings {
        Settings {
            image: "drover".to_owned(),
            service_account: String::new(),
            machine_timeout: SignedDuration::from_secs(i64::from(self.machine_timeout_seconds)),
            node_selector: None,
        }
    }

    /// The TanzuKubernetesCluster: it asks for the newest distribution that begins as that of the scenario does.
    fn tanzu_object(&self, from: &str, to: &str) -> Value {
        let pool = |count: usize| json!({ "count": count, "class": "best-effort-small", "storageClass": "gc-storage-profile" });
        let mut spec = json!({
            "topology": { "controlPlane": pool(self.machines), "workers": pool(self.workers.unwrap_or(0)) },
            "distribution": { "version": to.split('+').next() },
        });
        merge(&mut spec, &self.spec);
        let mut object = json!({
            "apiVersion": "run.tanzu.vmware.com/v1alpha1", "kind": "TanzuKubernetesCluster",
            "metadata": {
                "name": self.name, "namespace": self.namespace, "annotations": self.annotations,
                "uid": self.settled(from).tanzu_uid(),
            },
            "spec": spec,
        });
        if !self.is_new() {
            object["metadata"]["finalizers"] = json!([FINALIZER]);
            object["status"] = json!({ "phase": "running", "version": from });
        }
        object
    }
}

fn image(distribution: &str, addons: &BTreeMap<String, Value>) -> Value {
    let parts = json!({
        "distribution": { "version": distribution },
        "kubernetes": { "imageRepository": "vmware", "version": kubernetes(distribution) },
        "etcd": { "imageRepository": "vmware", "version": IMAGES.etcd },
        "coredns": { "imageRepository": "vmware", "version": IMAGES.coredns },
    });
    let mut annotations = json!({ "vmware-system.guest.kubernetes.distribution.image.version": parts.to_string() });
    for (name, addon) in addons {
        let mut addon = addon.clone();
        if addon.is_object() {
            addon["type"] = json!("inline");
        }
        let text = addon.as_str().map_or_else(|| addon.to_string(), str::to_owned);
        annotations[format!("vmware-system.guest.kubernetes.addons.{name}")] = json!(text);
    }
    json!({
        "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachineImage",
        "metadata": { "name": image_name(distribution), "annotations": annotations },
        "spec": { "type": "ovf", "productInfo": { "fullVersion": distribution, "version": distribution } },
    })
}

impl Scenario {
    /// The guest cluster, if a TanzuKubernetesCluster stands for it.
    pub fn tanzu(&self) -> Option<&Guest> {
        self.guest.as_ref().filter(|guest| guest.tanzu)
    }

    pub(super) fn tanzu_objects(&self) -> Vec<Value> {
        let Some(guest) = self.tanzu() else { return Vec::new() };
        let mut objects = OF_GUESTS.clone();
        objects.push(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }));
        objects.push(image(&self.from, &guest.old_addons));
        if self.to != self.from {
            objects.push(image(&self.to, &guest.new_addons));
        }
        objects.extend(self.guests().map(|guest| guest.tanzu_object(&self.from, &self.to)));
        objects
    }

    /// What is still wrong with a TanzuKubernetesCluster that is to be as it is asked for.
    pub(super) fn unmet_of_tanzu(&self, known: &Known, guest: &Guest) -> Vec<String> {
        let Some(tkc) = known.get("TanzuKubernetesCluster", &guest.namespace, &guest.name) else {
            return vec!["the TanzuKubernetesCluster is gone".to_owned()];
        };
        let mut unmet = Vec::new();
        let status = &tkc["status"];
        for (field, wanted) in [("phase", "running"), ("version", self.to.as_str())] {
            if status[field] != wanted {
                unmet.push(format!("the {field} of the TanzuKubernetesCluster is {}, not {wanted}", status[field]));
            }
        }
        let finalizers = tkc["metadata"]["finalizers"].as_array().into_iter().flatten();
        let others = finalizers.filter(|one| *one != FINALIZER);
        unmet.extend(others.map(|one| format!("the TanzuKubernetesCluster still carries {one}")));
        let is_own =
            |object: &Value| object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] == guest.name.as_str();
        for (_, name, deployment) in known.named("MachineDeployment").filter(|(_, _, one)| is_own(one)) {
            for mark in ["drover.dev/failed", "drover.dev/held"] {
                if deployment["metadata"]["annotations"][mark].is_string() {
                    unmet.push(format!("MachineDeployment {name} still carries {mark}"));
                }
            }
            if deployment["spec"]["paused"] == true {
                unmet.push(format!("MachineDeployment {name} is paused"));
            }
        }
        let nodes = status["nodeStatus"].as_object().into_iter().flatten();
        unmet.extend(
            nodes.filter(|(_, state)| *state != "ready").map(|(node, state)| format!("Node {node} is {state}")),
        );
        unmet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_begins_with_its_version_of_kubernetes() {
        assert_eq!(kubernetes("v1.16.7+vmware.1-guest.1"), "v1.16.7+vmware.1");
        assert_eq!(kubernetes("v1.16.7+vmware.1"), "v1.16.7+vmware.1");
    }
}
