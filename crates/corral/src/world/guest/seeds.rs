//! A guest cluster that has been running for a while, as objects of the management cluster and of its own.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use drover_api::cluster_api::cluster::conditions::CONTROL_PLANE_INITIALIZED;
use drover_api::cluster_api::cluster::phases;
use drover_api::cluster_api::machine::FINALIZER;
use drover_api::cluster_api::machine::{self, MachineStatus};
use drover_api::cluster_api::{labels, secrets};
use drover_api::foreign::Reference;
use drover_api::vm_operator::virtual_machine::{self, labels as vm_labels};
use drover_api::wcp::wcp_machine;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::cluster::kubeconfig;
use super::contract::Contract;
use super::etcd::{self, Members};
use super::join::{IMAGES, Joining, kubeadm_config, kubelet_config_map, settled};
use super::{CERTIFICATES, bootstrap};
use crate::world::kubelet::{digest, hex};

/// The numbers of workers begin here; those of machines of the control plane are smaller.
pub(super) const WORKERS: usize = 100;
/// Since when all of it is there.
pub(super) const SINCE: &str = "2026-01-01T00:00:00Z";

/// What is special about a guest cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Guest {
    pub namespace: String,
    pub name: String,
    /// How many machines its control plane has.
    pub machines: usize,
    /// Of Kubernetes, without `v`.
    pub version: String,
    /// The version that the cluster was begun in, if another: what kubeadm has written then is still there.
    pub begun: Option<String>,
    /// Annotations of its Machines and their infrastructure, by the number of the machine, from 1; those that tell them what to do
    /// are in [`crate::world::annotations`].
    pub told: BTreeMap<usize, BTreeMap<String, String>>,
    /// How many workers a MachineDeployment keeps; without, there is none.
    pub workers: Option<usize>,
    /// The version of Cluster API that describes it.
    pub contract: Contract,
    /// The version of what a TanzuKubernetesCluster calls a distribution, in full: its machines carry it, and are made of its image.
    pub distribution: Option<String>,
}

/// The objects of both clusters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settled {
    pub management: Vec<Value>,
    pub guest: Vec<Value>,
}

/// Certificate and key of each Secret, by the end of its name. They belong together, and to no cluster that there is.
pub fn certificate_texts() -> BTreeMap<&'static str, (String, String)> {
    let pair = |public: &str, key: &str| (public.to_owned(), key.to_owned());
    BTreeMap::from([
        (secrets::CA, pair(AUTHORITY, include_str!("certificates/ca.key"))),
        (secrets::ETCD, pair(include_str!("certificates/etcd.crt"), include_str!("certificates/etcd.key"))),
        (secrets::PROXY, pair(include_str!("certificates/proxy.crt"), include_str!("certificates/proxy.key"))),
        (secrets::SERVICE_ACCOUNT, pair(include_str!("certificates/sa.pub"), include_str!("certificates/sa.key"))),
    ])
}

/// The certificate of the authority that signs for the API servers of guest clusters.
pub const AUTHORITY: &str = include_str!("certificates/ca.crt");

/// Where the API server of a guest cluster is said to be.
pub fn address(namespace: &str, name: &str) -> String {
    format!("https://{name}.{namespace}.guest:6443")
}

impl Guest {
    pub fn machine_names(&self) -> Vec<String> {
        (1..=self.machines).map(|number| self.machine_name(number)).collect()
    }

    fn machine_name(&self, number: usize) -> String {
        let lot = hex(&digest(&[&self.name, &number.to_string()]));
        format!("{}-control-plane-{number}{}", self.name, &lot[..4])
    }

    pub fn settled(&self, now: Timestamp) -> Settled {
        let names = self.machine_names();
        let namespaced = |name: &str| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        let mut management: Vec<Value> =
            if self.namespace == "default" { Vec::new() } else { vec![namespaced(&self.namespace)] };
        management.push(self.cluster());
        management.extend(self.secrets());
        let mut guest = vec![
            namespaced(etcd::NAMESPACE),
            Members::of(&names, now).object(),
            kubeadm_config(&self.version, self.begun.as_ref().unwrap_or(&self.version), &names, &self.images()),
            kubelet_config_map(&self.version),
        ];
        for (number, name) in (1..).zip(&names) {
            management.extend(self.machine(number, name));
            let provider_id = self.provider_id(number);
            guest.extend(settled(&Joining {
                name,
                version: &self.version,
                provider_id: &provider_id,
                labels: &self.node_labels(),
                is_worker: false,
                begins: None,
                since: now,
                dies: false,
            }));
        }
        let mut settled = Settled { management, guest };
        self.add_workers(&mut settled, now);
        settled
    }

    /// What a distribution says of the configuration of kubeadm.
    fn images(&self) -> Value {
        let tagged = |tag: &str| json!({ "imageRepository": "vmware", "imageTag": tag });
        match self.distribution {
            Some(_) => json!({ "dns": tagged(IMAGES.coredns), "etcd": { "local": tagged(IMAGES.etcd) } }),
            None => json!({}),
        }
    }

    pub(super) fn uid(&self, kind: &str, number: usize) -> String {
        let lot = hex(&digest(&[&self.namespace, &self.name, kind, &number.to_string()]));
        format!("{}-{}-4{}-8{}-{}", &lot[..8], &lot[8..12], &lot[12..15], &lot[15..18], &lot[18..30])
    }

    fn provider_id(&self, number: usize) -> String {
        format!("vsphere://{}", self.uid("WCPMachine", number))
    }

    pub(super) fn metadata(&self, name: &str, kind: &str, number: usize) -> Value {
        json!({
            "name": name, "namespace": self.namespace, "uid": self.uid(kind, number), "creationTimestamp": SINCE,
            "labels": { labels::CLUSTER_NAME: self.name },
        })
    }

    /// Of the TanzuKubernetesCluster that stands for it.
    pub fn tanzu_uid(&self) -> String {
        self.uid("TanzuKubernetesCluster", 0)
    }

    /// Metadata of what goes with the TanzuKubernetesCluster, if there is one.
    pub(super) fn owned_metadata(&self, name: &str, kind: &str) -> Value {
        let mut metadata = self.metadata(name, kind, 0);
        if self.distribution.is_some() {
            metadata["ownerReferences"] = json!([{
                "apiVersion": "run.tanzu.vmware.com/v1alpha1", "kind": "TanzuKubernetesCluster", "name": self.name,
                "uid": self.tanzu_uid(), "controller": true, "blockOwnerDeletion": true,
            }]);
        }
        metadata
    }

    fn cluster(&self) -> Value {
        let endpoint = json!({ "host": "192.0.2.1", "port": 6443 });
        let mut spec = json!({ "clusterNetwork": { "pods": { "cidrBlocks": ["192.168.0.0/16"] } } });
        let status = match self.contract {
            Contract::V1alpha2 => json!({
                "phase": "provisioned", "infrastructureReady": true, "controlPlaneInitialized": true,
                "apiEndpoints": [endpoint],
            }),
            Contract::V1beta1 => {
                spec["controlPlaneEndpoint"] = endpoint;
                let said = |type_: &str| json!({ "type": type_, "status": "True", "lastTransitionTime": SINCE });
                json!({
                    "phase": phases::PROVISIONED, "infrastructureReady": true, "controlPlaneReady": true,
                    "conditions": [said("Ready"), said(CONTROL_PLANE_INITIALIZED), said("InfrastructureReady")],
                })
            }
        };
        let mut metadata = self.owned_metadata(&self.name, "Cluster");
        metadata["finalizers"] = json!([drover_api::cluster_api::cluster::FINALIZER]);
        json!({
            "apiVersion": self.contract.api_version(), "kind": "Cluster",
            "metadata": metadata, "spec": spec, "status": status,
        })
    }

    /// The certificates belong to the config that the cluster began with, as the original has it.
    fn secrets(&self) -> Vec<Value> {
        let owner = json!([{
            "apiVersion": self.contract.bootstrap_api_version(), "kind": "KubeadmConfig",
            "name": self.machine_name(1), "uid": self.uid("KubeadmConfig", 1),
        }]);
        let texts = certificate_texts();
        let certificates =
            CERTIFICATES.iter().filter_map(|end| Some((end, texts.get(end)?))).map(|(end, (text, key))| {
                let mut metadata = self.metadata(&format!("{}{end}", self.name), end, 0);
                metadata["ownerReferences"] = owner.clone();
                json!({
                    "apiVersion": "v1", "kind": "Secret", "type": self.contract.secret_type(), "metadata": metadata,
                    "data": { secrets::CERTIFICATE: STANDARD.encode(text), secrets::KEY: STANDARD.encode(key) },
                })
            });
        // What is found by the label of a cluster are its certificates.
        let mut metadata = self.metadata(&format!("{}{}", self.name, secrets::KUBECONFIG), "kubeconfig", 0);
        metadata["labels"] = json!({});
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Secret", "type": self.contract.secret_type(), "metadata": metadata,
            "data": { secrets::VALUE: STANDARD.encode(kubeconfig(&self.namespace, &self.name)) },
        });
        certificates.chain([kubeconfig]).collect()
    }

    fn bootstrap_data(&self) -> String {
        let secrets: BTreeMap<&str, Secret> = self
            .secrets()
            .into_iter()
            .filter_map(|value| serde_json::from_value::<Secret>(value).ok())
            .filter_map(|secret| {
                let name = secret.metadata.name.clone()?;
                let end = CERTIFICATES.iter().find(|end| name == format!("{}{end}", self.name))?;
                Some((*end, secret))
            })
            .collect();
        STANDARD.encode(bootstrap::cloud_init(&secrets))
    }

    fn machine(&self, number: usize, name: &str) -> Vec<Value> {
        let told = self.told.get(&number).cloned().unwrap_or_default();
        let owner = |kind: &str, api_version: &str, uid: String, name: &str| json!([{ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid }]);
        let of_machine = owner("Machine", &self.contract.api_version(), self.uid("Machine", number), name);
        let mut metadata = self.metadata(name, "Machine", number);
        metadata["labels"][labels::CONTROL_PLANE] = json!(self.contract.role());
        metadata["annotations"] = json!(told);
        metadata["finalizers"] = json!([FINALIZER]);
        metadata["ownerReferences"] =
            owner("Cluster", &self.contract.api_version(), self.uid("Cluster", 0), &self.name);
        let booted = self.booted(name, number, &self.bootstrap_data());
        let reference = |api_version: &str, kind: &str| json!({ "apiVersion": api_version, "kind": kind, "name": name, "namespace": self.namespace });
        let mut bootstrap = json!({ "configRef": reference(&self.contract.bootstrap_api_version(), "KubeadmConfig") });
        json_patch::merge(&mut bootstrap, &booted.of_machine);
        let mut spec = json!({
            "version": self.contract.kubernetes(&self.version), "providerID": self.provider_id(number),
            "bootstrap": bootstrap,
            "infrastructureRef": reference("infrastructure.cluster.vmware.com/v1alpha2", "WCPMachine"),
        });
        self.name_cluster(&mut spec);
        let machine = json!({
            "apiVersion": self.contract.api_version(), "kind": "Machine", "metadata": metadata, "spec": spec,
            "status": self.running(name),
        });
        let mut metadata = self.metadata(name, "KubeadmConfig", number);
        metadata["ownerReferences"] = of_machine.clone();
        let registration = self.registration();
        let spec = match number {
            1 => json!({
                "clusterConfiguration": { "imageRepository": "vmware", "kubernetesVersion": format!("v{}", self.version) },
                "initConfiguration": { "nodeRegistration": registration },
            }),
            _ => json!({ "joinConfiguration": {
                "controlPlane": { "localAPIEndpoint": {} }, "nodeRegistration": registration,
                "discovery": { "bootstrapToken": { "token": "abcdef.0123456789abcdef", "apiServerEndpoint": "192.0.2.1:6443" } },
            }}),
        };
        let config = json!({
            "apiVersion": self.contract.bootstrap_api_version(), "kind": "KubeadmConfig", "metadata": metadata,
            "spec": spec, "status": booted.of_config,
        });
        let mut metadata = self.metadata(name, "WCPMachine", number);
        metadata["ownerReferences"] = of_machine;
        metadata["annotations"] = json!(told);
        metadata["finalizers"] = json!([wcp_machine::FINALIZER]);
        let mut spec = self.infrastructure();
        spec["providerID"] = json!(self.provider_id(number));
        let infrastructure = json!({
            "apiVersion": "infrastructure.cluster.vmware.com/v1alpha2", "kind": "WCPMachine", "metadata": metadata,
            "spec": spec,
            "status": { "ready": true, "vmstatus": "ready", "joined": true, "since": SINCE },
        });
        let vm = self.virtual_machine(name, name, number);
        [machine, config, infrastructure, vm].into_iter().chain(booted.secret).collect()
    }

    /// Since v1beta1 the spec says which cluster it is of.
    pub(super) fn name_cluster(&self, spec: &mut Value) {
        if self.contract == Contract::V1beta1 {
            spec["clusterName"] = json!(self.name);
        }
    }

    /// The status of a Machine that is a Node.
    pub(super) fn running(&self, node: &str) -> Value {
        let status = MachineStatus {
            phase: Some(self.contract.phase(machine::phases::RUNNING)),
            bootstrap_ready: Some(true),
            infrastructure_ready: Some(true),
            node_ref: Some(Reference {
                kind: Some("Node".to_owned()),
                name: Some(node.to_owned()),
                ..Reference::default()
            }),
            ..MachineStatus::default()
        };
        let (mut status, since) = (status, SINCE.parse().unwrap_or_default());
        self.contract.describe(&mut status, since);
        json!(status)
    }

    /// Where what a machine was booted with is kept; its config is called `config`.
    pub(super) fn booted(&self, config: &str, number: usize, data: &str) -> Booted {
        match self.contract {
            Contract::V1alpha2 => Booted {
                of_machine: json!({ "data": data }),
                of_config: json!({ "ready": true, "bootstrapData": data }),
                secret: None,
            },
            Contract::V1beta1 => {
                let mut metadata = self.metadata(config, "data", number);
                metadata["ownerReferences"] = json!([{
                    "apiVersion": self.contract.bootstrap_api_version(), "kind": "KubeadmConfig", "name": config,
                    "uid": self.uid("KubeadmConfig", number), "controller": true,
                }]);
                Booted {
                    of_machine: json!({ "dataSecretName": config }),
                    of_config: json!({ "ready": true, "dataSecretName": config }),
                    secret: Some(json!({
                        "apiVersion": "v1", "kind": "Secret", "type": secrets::TYPE, "metadata": metadata,
                        "data": { secrets::VALUE: data },
                    })),
                }
            }
        }
    }

    /// What a machine runs on: it has the name of the Machine, and belongs to its infrastructure.
    pub(super) fn virtual_machine(&self, machine: &str, infrastructure: &str, number: usize) -> Value {
        let mut metadata = self.metadata(machine, "VirtualMachine", number);
        let is_worker = number >= WORKERS;
        let role = if is_worker { vm_labels::NODE } else { vm_labels::CONTROL_PLANE };
        metadata["labels"] = json!({ vm_labels::CLUSTER: self.name, vm_labels::ROLE: role });
        metadata["finalizers"] = json!([virtual_machine::FINALIZER]);
        metadata["ownerReferences"] = json!([{
            "apiVersion": "infrastructure.cluster.vmware.com/v1alpha2", "kind": "WCPMachine", "name": infrastructure,
            "uid": self.uid("WCPMachine", number),
        }]);
        let mut spec = self.infrastructure();
        spec["powerState"] = json!(virtual_machine::power::ON);
        json!({
            "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachine", "metadata": metadata, "spec": spec,
            "status": {
                "phase": virtual_machine::phases::CREATED, "powerState": virtual_machine::power::ON,
                "vmIp": "192.0.2.10", "biosUUID": self.uid("VirtualMachine", number),
            },
        })
    }
}

/// What is said of data that a machine was booted with, and where it is if it is apart.
pub(super) struct Booted {
    pub of_machine: Value,
    pub of_config: Value,
    pub secret: Option<Value>,
}
