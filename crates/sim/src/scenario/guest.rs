//! A guest cluster in a few lines, and its update.

use std::collections::{BTreeMap, BTreeSet};

use drover_core::guest::{Order, OrderError, Patches, Version};
use drover_corral::apiserver::{ApiServer, Options};
use drover_corral::world::guest::{Contract, Guest as Settled, age};
use drover_corral::world::{Part, WorldOptions, definitions};
use jiff::{SignedDuration, Timestamp};
use kube::core::Status;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Scenario;
use super::tanzu::kubernetes;
use crate::known::Known;

const CERTIFICATES: [&str; 4] = ["ca", "etcd", "proxy", "sa"];

/// A guest cluster whose control plane is updated from the scenario's `from` to its `to`, as a Job would do it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Guest {
    pub namespace: String,
    pub name: String,
    /// How many machines its control plane has.
    pub machines: usize,
    pub upgrade_id: String,
    /// How long a machine may take to come, and to go.
    pub machine_timeout_seconds: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub infrastructure_patches: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bootstrap_patches: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kubeadm_patches: Vec<Value>,
    /// Annotations of machines and their infrastructure, by number from 1; those that tell them what to do are in corral.md.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub told: BTreeMap<usize, BTreeMap<String, String>>,
    /// How many workers a MachineDeployment keeps; without, there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
    /// The version of Cluster API that describes it; a TanzuKubernetesCluster knows the first one only.
    #[serde(skip_serializing_if = "ClusterApi::is_usual")]
    pub cluster_api: ClusterApi,
    /// The version that the cluster was begun in, if another than `from`: its `kubeadm-config` is as kubeadm of then has written it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begun_in: Option<String>,
    /// A TanzuKubernetesCluster stands for it, and is kept as it is asked for; `from` and `to` are distributions then, such as
    /// `v1.16.7+vmware.1-guest.1`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tanzu: bool,
    /// There is only the TanzuKubernetesCluster, and the cluster has to be made.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub new: bool,
    /// Merged into the spec of the TanzuKubernetesCluster.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub spec: Value,
    /// Of the TanzuKubernetesCluster, or of the Cluster if there is none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// More objects of the guest cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<Value>,
    /// The add-ons that the image of `from` brings, by name: what their annotations hold, `type` left out, or any text.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub old_addons: BTreeMap<String, Value>,
    /// The same of `to`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub new_addons: BTreeMap<String, Value>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ClusterApi {
    #[default]
    V1alpha2,
    V1beta1,
}

impl ClusterApi {
    fn is_usual(&self) -> bool {
        *self == ClusterApi::V1alpha2
    }

    fn contract(self) -> Contract {
        match self {
            ClusterApi::V1alpha2 => Contract::V1alpha2,
            ClusterApi::V1beta1 => Contract::V1beta1,
        }
    }
}

impl Default for Guest {
    fn default() -> Self {
        Guest {
            namespace: "default".to_owned(),
            name: "my-tkc".to_owned(),
            machines: 3,
            upgrade_id: "1280807".to_owned(),
            machine_timeout_seconds: 900,
            infrastructure_patches: Vec::new(),
            bootstrap_patches: Vec::new(),
            kubeadm_patches: Vec::new(),
            told: BTreeMap::new(),
            workers: None,
            cluster_api: ClusterApi::V1alpha2,
            begun_in: None,
            tanzu: false,
            new: false,
            spec: Value::Null,
            annotations: BTreeMap::new(),
            manifests: Vec::new(),
            old_addons: BTreeMap::new(),
            new_addons: BTreeMap::new(),
        }
    }
}

impl Guest {
    pub fn key(&self) -> (String, String) {
        (self.namespace.clone(), self.name.clone())
    }

    /// Only who asks for a cluster can have one made.
    pub fn is_new(&self) -> bool {
        self.tanzu && self.new
    }

    pub(super) fn settled(&self, version: &str) -> Settled {
        Settled {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            machines: self.machines,
            version: kubernetes(version).trim_start_matches('v').to_owned(),
            begun: self.begun_in.clone(),
            told: self.told.clone(),
            workers: self.workers,
            contract: self.cluster_api.contract(),
            distribution: self.tanzu.then(|| version.to_owned()),
        }
    }
}

impl Scenario {
    /// The updates of control planes that are asked for; none where TanzuKubernetesClusters ask for them.
    pub fn orders(&self) -> impl Iterator<Item = Result<Order, OrderError>> {
        self.guests().filter(|guest| !guest.tanzu).map(|guest| self.order(guest))
    }

    fn order(&self, guest: &Guest) -> Result<Order, OrderError> {
        let version = Version::parse(&self.to).ok_or_else(|| OrderError::Version(self.to.clone()))?;
        let order = Order {
            namespace: guest.namespace.clone(),
            cluster: guest.name.clone(),
            version,
            id: guest.upgrade_id.clone(),
            patches: Patches {
                infrastructure: guest.infrastructure_patches.clone(),
                bootstrap: guest.bootstrap_patches.clone(),
                kubeadm: guest.kubeadm_patches.clone(),
            },
            replicas: None,
            machine_timeout: SignedDuration::from_secs(i64::from(guest.machine_timeout_seconds)),
        };
        order.check()
    }

    /// The definitions and objects of guest clusters in the management cluster.
    pub(super) fn guest_objects(&self) -> Vec<Value> {
        let Some(first) = &self.guest else { return Vec::new() };
        let mut objects = definitions::guest(first.cluster_api.contract());
        for guest in self.guests().filter(|guest| !guest.is_new()) {
            let mut own = guest.settled(&self.from).settled(Timestamp::UNIX_EPOCH).management;
            for cluster in own.iter_mut().filter(|one| one["kind"] == "Cluster" && !guest.tanzu) {
                cluster["metadata"]["annotations"] = json!(guest.annotations);
            }
            objects.extend(own);
        }
        objects.extend(self.tanzu_objects());
        objects
    }

    /// Whether Clusters are left to the operators.
    pub fn leaves_clusters(&self) -> bool {
        self.guests().any(|guest| !guest.tanzu && guest.annotations.contains_key("drover.dev/upgrade-to"))
    }

    /// All guest clusters.
    pub fn guests(&self) -> impl Iterator<Item = &Guest> {
        self.guest.iter().chain(&self.beside)
    }

    /// The API servers of guest clusters, by namespace and name of their Clusters.
    pub fn guest_servers(&self, options: Options) -> BTreeMap<(String, String), ApiServer> {
        let seeds = (0..).map(|number: u64| options.seed.wrapping_add(number));
        let server = |seed: u64| {
            let server = ApiServer::without_own_managers(Options { seed, ..options });
            server.grow_as_old_as(age);
            server
        };
        self.guests().zip(seeds).map(|(guest, seed)| (guest.key(), server(seed))).collect()
    }

    /// Makes what is on guest clusters.
    pub fn set_up_guests(&self, servers: &BTreeMap<(String, String), ApiServer>) -> Result<(), Box<Status>> {
        for guest in self.guests() {
            let Some(server) = servers.get(&guest.key()) else { continue };
            let mut objects = match guest.is_new() {
                true => Vec::new(),
                false => guest.settled(&self.from).settled(Timestamp::UNIX_EPOCH).guest,
            };
            objects.extend(guest.manifests.iter().cloned());
            server.load(&json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": objects }))?;
        }
        Ok(())
    }

    /// The machines of the guest cluster, without heartbeats.
    pub fn guest_world() -> WorldOptions {
        let mut options = WorldOptions::default();
        options.kubelet.lease_period = None;
        options
    }

    pub(super) fn guest_parts(&self) -> Vec<Part> {
        if self.guest.is_some() { Part::GUESTS.to_vec() } else { Vec::new() }
    }

    /// What is still wrong with guest clusters that are to be updated. `guests` is what is on them.
    pub fn unmet_of_guests(&self, known: &Known, guests: &BTreeMap<(String, String), Known>) -> Vec<String> {
        let first = self.guest.as_ref().and_then(|lines| guests.get(&lines.key()));
        let mut unmet: Vec<String> = first
            .iter()
            .flat_map(|guest| self.expect.guest_objects.iter().filter_map(|all| all.unmet(guest)))
            .collect();
        let is_expected = |lines: &&Guest| self.expect.complete.as_ref().is_none_or(|all| all.contains(&lines.name));
        for lines in self.guests().filter(is_expected) {
            let Some(guest) = guests.get(&lines.key()) else { continue };
            let own = self.unmet_of_guest(known, lines, guest);
            unmet.extend(own.into_iter().map(|sentence| match self.beside.is_empty() {
                true => sentence,
                false => format!("{}: {sentence}", lines.name),
            }));
        }
        unmet
    }

    fn unmet_of_guest(&self, known: &Known, lines: &Guest, guest: &Known) -> Vec<String> {
        let mut unmet = Vec::new();
        let is_own = |namespace: &str, object: &Value| {
            namespace == lines.namespace && object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] == lines.name
        };
        let version = kubernetes(&self.to).trim_start_matches('v');
        let of_machines = lines.cluster_api.contract().kubernetes(version);
        let (mut names, mut all, mut parts) = (BTreeSet::new(), BTreeSet::new(), [BTreeSet::new(), BTreeSet::new()]);
        for (_, name, machine) in known.named("Machine").filter(|(namespace, _, machine)| is_own(namespace, machine)) {
            all.insert(name.to_owned());
            if machine["metadata"]["labels"]["cluster.x-k8s.io/control-plane"].is_string() {
                names.insert(name.to_owned());
            }
            let refers =
                [&machine["spec"]["bootstrap"]["configRef"]["name"], &machine["spec"]["infrastructureRef"]["name"]];
            for (part, name) in parts.iter_mut().zip(refers) {
                part.insert(name.as_str().unwrap_or_default().to_owned());
            }
            let annotations = &machine["metadata"]["annotations"];
            if machine["spec"]["version"] != of_machines {
                unmet.push(format!("machine {name} is of {}", machine["spec"]["version"]));
            }
            if !machine["metadata"]["deletionTimestamp"].is_null() {
                unmet.push(format!("machine {name} is on its way out"));
            }
            for mark in ["upgrade.cluster-api.vmware.com/id", "drover.dev/failed"] {
                if annotations[mark].is_string() {
                    unmet.push(format!("machine {name} still carries {mark}"));
                }
            }
        }
        let count = |pool: &str| {
            known.get("TanzuKubernetesCluster", &lines.namespace, &lines.name)?["spec"]["topology"][pool]["count"]
                .as_u64()
        };
        let asked = |pool: &str, given: usize| count(pool).and_then(|count| count.try_into().ok()).unwrap_or(given);
        let machines = asked("controlPlane", lines.machines);
        if names.len() != machines {
            unmet.push(format!("there are {} machines, not {machines}", names.len()));
        }
        let workers = asked("workers", lines.workers.unwrap_or(0));
        if all.len() != names.len() + workers {
            unmet.push(format!("there are {} workers, not {workers}", all.len() - names.len()));
        }
        for (kind, part) in ["KubeadmConfig", "WCPMachine"].into_iter().zip(&parts) {
            let of_it = known.named(kind).filter(|(namespace, _, object)| is_own(namespace, object));
            let left: BTreeSet<String> = of_it.map(|(_, name, _)| name.to_owned()).collect();
            if left != *part {
                unmet.push(format!("there are {kind}s {left:?}, and machines refer to {part:?}"));
            }
        }
        let nodes: BTreeSet<String> = guest.named("Node").map(|(_, name, _)| name.to_owned()).collect();
        let voters: BTreeSet<String> = crate::invariants::guests::voters(guest).into_iter().collect();
        for (what, found, machines) in [("Nodes", nodes, &all), ("voters of etcd", voters, &names)] {
            if found != *machines {
                unmet.push(format!("the {what} are {found:?}, the machines {machines:?}"));
            }
        }
        for (_, name, node) in guest.named("Node") {
            if node["spec"]["unschedulable"] == true {
                unmet.push(format!("Node {name} of the guest cluster is cordoned"));
            }
            if node["metadata"]["annotations"]["drover.dev/leaves"].is_string() {
                unmet.push(format!("Node {name} of the guest cluster still carries drover.dev/leaves"));
            }
        }
        if lines.tanzu {
            unmet.extend(self.unmet_of_tanzu(known, lines));
        }
        // A TanzuKubernetesCluster of the same distribution keeps its control plane, and its certificates their owner.
        if !lines.tanzu || self.from != self.to {
            unmet.extend(unmet_certificates(known, lines));
        }
        if lines.is_new() {
            let names = CERTIFICATES.iter().map(|end| format!("{}-{end}", lines.name));
            let lost = names.filter(|name| known.get("Secret", &lines.namespace, name).is_none());
            unmet.extend(lost.map(|name| format!("there is no Secret {name}")));
        }
        unmet.extend(unmet_kubeadm(guest, version, &names));
        unmet
    }
}

fn unmet_certificates(known: &Known, lines: &Guest) -> Vec<String> {
    let mut unmet = Vec::new();
    let configs: Vec<&Value> = known.all("KubeadmConfig").map(|config| &config["metadata"]["uid"]).collect();
    let cluster = known.get("Cluster", &lines.namespace, &lines.name).map(|cluster| &cluster["metadata"]["uid"]);
    for end in CERTIFICATES {
        let name = format!("{}-{end}", lines.name);
        let Some(secret) = known.get("Secret", &lines.namespace, &name) else {
            unmet.push(format!("the Secret {name} is gone"));
            continue;
        };
        let owners: Vec<&Value> =
            secret["metadata"]["ownerReferences"].as_array().into_iter().flatten().map(|owner| &owner["uid"]).collect();
        if !owners.iter().any(|owner| Some(*owner) == cluster) {
            unmet.push(format!("the Secret {name} does not belong to the Cluster"));
        }
        if !owners.iter().any(|owner| configs.contains(owner)) {
            unmet.push(format!("the Secret {name} belongs to no KubeadmConfig"));
        }
    }
    unmet
}

fn unmet_kubeadm(guest: &Known, version: &str, names: &BTreeSet<String>) -> Vec<String> {
    let Some(map) = guest.get("ConfigMap", "kube-system", "kubeadm-config") else {
        return vec!["the guest has no kubeadm-config".to_owned()];
    };
    let document = |key: &str| {
        let text = map["data"][key].as_str()?;
        serde_saphyr::from_str::<Value>(text).ok()
    };
    let mut unmet = Vec::new();
    let configuration = document("ClusterConfiguration").unwrap_or_default();
    if configuration["kubernetesVersion"] != format!("v{version}") {
        unmet.push(format!("kubeadm-config is of {}", configuration["kubernetesVersion"]));
    }
    if let Some(status) = document("ClusterStatus") {
        let endpoints: BTreeSet<String> =
            status["apiEndpoints"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
        if endpoints != *names {
            unmet.push(format!("kubeadm-config names the API servers {endpoints:?}"));
        }
    }
    unmet
}
