//! A guest cluster that has been running for a while, as objects of the management cluster and of its own.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use drover_api::cluster_api::machine::FINALIZER;
use drover_api::cluster_api::{labels, secrets};
use drover_api::wcp::wcp_machine;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::cluster::kubeconfig;
use super::etcd::{self, Members};
use super::join::{IMAGES, Joining, kubeadm_config, kubelet_config_map, settled};
use super::{CERTIFICATES, bootstrap};
use crate::world::kubelet::{digest, hex};

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
    /// Annotations of its Machines and their infrastructure, by the number of the machine, from 1; those that tell them what to do
    /// are in [`crate::world::annotations`].
    pub told: BTreeMap<usize, BTreeMap<String, String>>,
    /// How many workers a MachineDeployment keeps; without, there is none.
    pub workers: Option<usize>,
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
            kubeadm_config(&self.version, &names, &self.images()),
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
        json!({
            "apiVersion": "cluster.x-k8s.io/v1alpha2", "kind": "Cluster",
            "metadata": self.owned_metadata(&self.name, "Cluster"),
            "spec": { "clusterNetwork": { "pods": { "cidrBlocks": ["192.168.0.0/16"] } } },
            "status": {
                "phase": "provisioned", "infrastructureReady": true, "controlPlaneInitialized": true,
                "apiEndpoints": [{ "host": "192.0.2.1", "port": 6443 }],
            },
        })
    }

    /// The certificates belong to the config that the cluster began with, as the original has it.
    fn secrets(&self) -> Vec<Value> {
        let owner = json!([{
            "apiVersion": "bootstrap.cluster.x-k8s.io/v1alpha2", "kind": "KubeadmConfig",
            "name": self.machine_name(1), "uid": self.uid("KubeadmConfig", 1),
        }]);
        let texts = certificate_texts();
        let certificates =
            CERTIFICATES.iter().filter_map(|end| Some((end, texts.get(end)?))).map(|(end, (text, key))| {
                let mut metadata = self.metadata(&format!("{}{end}", self.name), end, 0);
                metadata["ownerReferences"] = owner.clone();
                json!({
                    "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata,
                    "data": { secrets::CERTIFICATE: STANDARD.encode(text), secrets::KEY: STANDARD.encode(key) },
                })
            });
        // What is found by the label of a cluster are its certificates.
        let mut metadata = self.metadata(&format!("{}{}", self.name, secrets::KUBECONFIG), "kubeconfig", 0);
        metadata["labels"] = json!({});
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata,
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

    fn machine(&self, number: usize, name: &str) -> [Value; 3] {
        let told = self.told.get(&number).cloned().unwrap_or_default();
        let owner = |kind: &str, api_version: &str, uid: String, name: &str| json!([{ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid }]);
        let of_machine = owner("Machine", "cluster.x-k8s.io/v1alpha2", self.uid("Machine", number), name);
        let mut metadata = self.metadata(name, "Machine", number);
        metadata["labels"][labels::CONTROL_PLANE] = json!("true");
        metadata["annotations"] = json!(told);
        metadata["finalizers"] = json!([FINALIZER]);
        metadata["ownerReferences"] = owner("Cluster", "cluster.x-k8s.io/v1alpha2", self.uid("Cluster", 0), &self.name);
        let data = self.bootstrap_data();
        let reference = |api_version: &str, kind: &str| json!({ "apiVersion": api_version, "kind": kind, "name": name, "namespace": self.namespace });
        let machine = json!({
            "apiVersion": "cluster.x-k8s.io/v1alpha2", "kind": "Machine", "metadata": metadata,
            "spec": {
                "version": self.version, "providerID": self.provider_id(number),
                "bootstrap": { "configRef": reference("bootstrap.cluster.x-k8s.io/v1alpha2", "KubeadmConfig"), "data": data },
                "infrastructureRef": reference("infrastructure.cluster.vmware.com/v1alpha2", "WCPMachine"),
            },
            "status": {
                "phase": "running", "bootstrapReady": true, "infrastructureReady": true,
                "nodeRef": { "kind": "Node", "name": name },
            },
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
            "apiVersion": "bootstrap.cluster.x-k8s.io/v1alpha2", "kind": "KubeadmConfig", "metadata": metadata, "spec": spec,
            "status": { "ready": true, "bootstrapData": data },
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
        [machine, config, infrastructure]
    }
}
