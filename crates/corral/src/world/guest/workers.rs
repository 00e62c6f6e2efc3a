//! The workers of a guest cluster that has been running for a while: a MachineDeployment with one set, and its machines.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use drover_api::cluster_api::labels;
use drover_api::cluster_api::machine::FINALIZER;
use drover_api::cluster_api::machine_deployment::MachineTemplate;
use drover_api::tanzu::DISTRIBUTION_LABEL;
use drover_api::wcp::{self, wcp_machine};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::join::{Joining, settled};
use super::machine_deployment::hash;
use super::seeds::{Guest, SINCE, Settled, WORKERS};
use super::{Contract, bootstrap, watch};
use crate::world::kubelet::{digest, hex};

/// The name of the image of a distribution.
pub fn image_name(distribution: &str) -> String {
    format!("photon-k8sd-{}", distribution.replace('+', "-"))
}

impl Guest {
    /// Labels of the Nodes of a distribution, as pairs.
    pub(super) fn node_labels(&self) -> Vec<(String, String)> {
        let label = |version: &String| (DISTRIBUTION_LABEL.to_owned(), version.replace('+', "_"));
        self.distribution.iter().map(label).collect()
    }

    /// What kubeadm is told of a Node.
    pub(super) fn registration(&self) -> Value {
        let mut arguments = json!({ "cloud-provider": "external" });
        for (key, value) in self.node_labels() {
            arguments["node-labels"] = json!(format!("{key}={value}"));
        }
        json!({ "name": "{{ ds.meta_data.hostname }}", "kubeletExtraArgs": arguments })
    }

    pub(super) fn infrastructure(&self) -> Value {
        let plain = || format!("photon-k8s-v{}", self.version.replace('+', "-"));
        let image = self.distribution.as_deref().map_or_else(plain, image_name);
        json!({ "imageName": image, "className": "best-effort-small", "storageClass": "gc-storage-profile" })
    }

    pub(super) fn add_workers(&self, settled: &mut Settled, now: Timestamp) {
        let Some(replicas) = self.workers else { return };
        let lot = hex(&digest(&[&self.name, "workers"]));
        let named = |part: usize| format!("{}-workers-{}", self.name, &lot[part..part + 5]);
        let (deployment, infrastructure, config) = (named(0), named(5), named(10));
        let template = self.worker_template(&deployment, &infrastructure, &config);
        let hashed = serde_json::from_value::<MachineTemplate>(template.clone()).map(|one| hash(&one));
        let hash = hashed.unwrap_or_default();
        let set = format!("{deployment}-{hash}");
        let selector = |with_hash: bool| {
            let mut all = json!({ "machineDeployment": deployment });
            if with_hash {
                all[labels::TEMPLATE_HASH] = json!(hash);
            }
            json!({ "matchLabels": all })
        };
        let counts = json!({
            "replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas, "updatedReplicas": replicas,
        });
        settled.management.push(json!({
            "apiVersion": wcp_version(), "kind": "WCPMachineTemplate",
            "metadata": self.owned_metadata(&infrastructure, "WCPMachineTemplate"),
            "spec": { "template": { "spec": self.infrastructure() } },
        }));
        settled.management.push(json!({
            "apiVersion": self.contract.bootstrap_api_version(), "kind": "KubeadmConfigTemplate",
            "metadata": self.owned_metadata(&config, "KubeadmConfigTemplate"), "spec": { "template": { "spec": self.join() } },
        }));
        let mut spec = json!({
            "replicas": replicas, "selector": selector(false), "template": template, "minReadySeconds": 0,
            "revisionHistoryLimit": 1, "progressDeadlineSeconds": 600,
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } },
        });
        self.name_cluster(&mut spec);
        settled.management.push(json!({
            "apiVersion": self.contract.api_version(), "kind": "MachineDeployment",
            "metadata": self.owned_metadata(&deployment, "MachineDeployment"), "spec": spec, "status": counts,
        }));
        let mut of_set = template;
        of_set["metadata"]["labels"][labels::TEMPLATE_HASH] = json!(hash);
        let mut metadata = self.metadata(&set, "MachineSet", 0);
        metadata["labels"] = of_set["metadata"]["labels"].clone();
        metadata["ownerReferences"] =
            json!([self.controller("MachineDeployment", &deployment, &self.uid("MachineDeployment", 0))]);
        metadata["annotations"] = json!({ self.contract.revision(): "1" });
        let mut spec =
            json!({ "replicas": replicas, "minReadySeconds": 0, "selector": selector(true), "template": of_set });
        self.name_cluster(&mut spec);
        settled.management.push(json!({
            "apiVersion": self.contract.api_version(), "kind": "MachineSet", "metadata": metadata, "spec": spec,
            "status": counts,
        }));
        for number in 1..=replicas {
            self.add_worker(settled, number, [&set, &infrastructure, &config], &of_set, now);
        }
    }

    fn worker_template(&self, deployment: &str, infrastructure: &str, config: &str) -> Value {
        let mut template = json!({
            "metadata": { "labels": { labels::CLUSTER_NAME: self.name, "machineDeployment": deployment } },
            "spec": {
                "version": self.contract.kubernetes(&self.version),
                "bootstrap": { "configRef": {
                    "apiVersion": self.contract.bootstrap_api_version(), "kind": "KubeadmConfigTemplate", "name": config,
                    "namespace": self.namespace,
                }},
                "infrastructureRef": {
                    "apiVersion": wcp_version(), "kind": "WCPMachineTemplate", "name": infrastructure,
                    "namespace": self.namespace,
                },
            },
        });
        self.name_cluster(&mut template["spec"]);
        // Since then Machines say which MachineDeployment keeps them.
        if self.contract == Contract::V1beta1 {
            template["metadata"]["labels"][labels::DEPLOYMENT_NAME] = json!(deployment);
        }
        template
    }

    fn join(&self) -> Value {
        json!({ "joinConfiguration": { "nodeRegistration": self.registration() } })
    }

    fn controller(&self, kind: &str, name: &str, uid: &str) -> Value {
        json!({
            "apiVersion": self.contract.api_version(), "kind": kind, "name": name, "uid": uid, "controller": true,
            "blockOwnerDeletion": true,
        })
    }

    fn add_worker(&self, settled_now: &mut Settled, number: usize, names: [&str; 3], template: &Value, now: Timestamp) {
        let lot = hex(&digest(&[&self.name, "worker", &number.to_string()]));
        let [name, infrastructure, config] = {
            let suffixes = [&lot[..5], &lot[5..10], &lot[10..15]];
            let [set, of_infrastructure, of_config] = names;
            [
                format!("{set}-{}", suffixes[0]),
                format!("{of_infrastructure}-{}", suffixes[1]),
                format!("{of_config}-{}", suffixes[2]),
            ]
        };
        let id = WORKERS + number;
        let provider_id = format!("vsphere://{}", self.uid("WCPMachine", id));
        let booted = self.booted(&config, id, &STANDARD.encode(bootstrap::worker_cloud_init()));
        let labels = template["metadata"]["labels"].clone();
        let dressed = |name: &str, kind: &str, owner: Value| {
            let mut metadata = self.metadata(name, kind, id);
            metadata["labels"] = labels.clone();
            metadata["ownerReferences"] = json!([owner]);
            metadata
        };
        let of_machine = json!({
            "apiVersion": self.contract.api_version(), "kind": "Machine", "name": name, "uid": self.uid("Machine", id),
        });
        let mut metadata =
            dressed(&name, "Machine", self.controller("MachineSet", names[0], &self.uid("MachineSet", 0)));
        metadata["finalizers"] = json!([FINALIZER]);
        let mut spec = template["spec"].clone();
        spec["providerID"] = json!(provider_id);
        json_patch::merge(&mut spec["bootstrap"], &booted.of_machine);
        spec["bootstrap"]["configRef"]["kind"] = json!("KubeadmConfig");
        spec["bootstrap"]["configRef"]["name"] = json!(config);
        spec["infrastructureRef"]["kind"] = json!("WCPMachine");
        spec["infrastructureRef"]["name"] = json!(infrastructure);
        settled_now.management.push(json!({
            "apiVersion": self.contract.api_version(), "kind": "Machine", "metadata": metadata, "spec": spec,
            "status": self.running(&name),
        }));
        settled_now.management.push(json!({
            "apiVersion": self.contract.bootstrap_api_version(), "kind": "KubeadmConfig",
            "metadata": dressed(&config, "KubeadmConfig", of_machine.clone()), "spec": self.join(),
            "status": booted.of_config,
        }));
        settled_now.management.extend(booted.secret);
        settled_now.management.push(self.virtual_machine(&name, &infrastructure, id));
        let mut metadata = dressed(&infrastructure, "WCPMachine", of_machine);
        metadata["finalizers"] = json!([wcp_machine::FINALIZER]);
        let mut own = self.infrastructure();
        own["providerID"] = json!(provider_id);
        settled_now.management.push(json!({
            "apiVersion": wcp_version(), "kind": "WCPMachine", "metadata": metadata, "spec": own,
            "status": { "ready": true, "vmstatus": "ready", watch::JOINED: true, "since": SINCE },
        }));
        settled_now.guest.extend(settled(&Joining {
            name: &name,
            version: &self.version,
            provider_id: &provider_id,
            labels: &self.node_labels(),
            is_worker: true,
            begins: None,
            since: now,
            dies: false,
        }));
    }
}

fn wcp_version() -> String {
    format!("{}/{}", wcp::GROUP, wcp::VERSION)
}
