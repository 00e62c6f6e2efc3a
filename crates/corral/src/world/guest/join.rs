//! What kubeadm does on a machine that has booted: its Node comes, then its member of etcd, first as a learner, and in the end
//! the Node is marked as one of the control plane.

use std::collections::BTreeMap;
use std::time::Duration;

use drover_clock::later;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use serde_json::{Value, json};

use super::etcd::Members;
use super::{API_SERVER, COMPONENTS, ETCD, MIRROR, SYSTEM, Steps, beginning, is_reachable};
use crate::apiserver::Direct;
use crate::world::annotations::{KUBELET, SIMULATED};
use crate::world::outcome::Action;
use crate::world::pods;

const BOOTING: Duration = Duration::from_secs(10);
const LEARNING: Duration = Duration::from_secs(5);
/// How soon a step of kubeadm that fails is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// Where the cloud provider of a guest cluster runs.
const CLOUD_PROVIDER: &str = "vmware-system-cloud-provider";
/// The taint of a Node that no cloud provider has seen.
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

pub const MASTER: &str = "node-role.kubernetes.io/master";
pub const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// A machine that joins.
#[derive(Debug)]
pub struct Joining<'a> {
    pub name: &'a str,
    /// Of Kubernetes, without `v`.
    pub version: &'a str,
    pub provider_id: &'a str,
    /// Of its Node.
    pub labels: &'a [(String, String)],
    /// It joins no control plane.
    pub is_worker: bool,
    /// It begins the control plane, with this configuration.
    pub begins: Option<&'a Value>,
    /// Since when it runs.
    pub since: Timestamp,
    /// kubeadm dies on it when it has added a member to etcd, which never starts then.
    pub dies: bool,
}

/// What kubeadm says where it cannot read what a machine is to join with; cloud-init does not call it again.
pub fn refuses(machine: &Joining<'_>, guest: &Direct, now: Timestamp) -> Option<String> {
    let is_begun = guest.get::<Node>(None, machine.name).ok().flatten().is_some() || machine.begins.is_some();
    if now < later(machine.since, BOOTING) || is_begun || !is_reachable(guest) {
        return None;
    }
    let api = configuration(guest)["apiVersion"].as_str().unwrap_or_default().to_owned();
    let (from, until) = match api.strip_prefix("kubeadm.k8s.io/")? {
        "v1beta1" => (13, 22),
        "v1beta2" => (15, 27),
        "v1beta3" => (22, u32::MAX),
        "v1beta4" => (31, u32::MAX),
        _ => (0, 0),
    };
    (!(from..until).contains(&minor(machine.version))).then(|| {
        format!(
            "error execution phase preflight: unable to fetch the kubeadm-config ConfigMap: failed to decode cluster \
             configuration data: no kind \"ClusterConfiguration\" is registered for version {api:?} in scheme \
             \"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/scheme/scheme.go:31\""
        )
    })
}

/// None when it has joined.
pub fn join(machine: &Joining<'_>, guest: &Direct, now: Timestamp) -> Option<Steps> {
    let booted = later(machine.since, BOOTING);
    if now < booted {
        return Some(Steps::wait_until(booted));
    }
    let again = Some(Steps::wait_until(later(now, AGAIN)));
    if let Some(configuration) = machine.begins.filter(|_| Members::read(guest).0.is_empty()) {
        return Some(acts(beginning::begin(machine, configuration, now), now));
    }
    if !is_reachable(guest) {
        return again;
    }
    let Some(node) = guest.get::<Node>(None, machine.name).ok().flatten() else {
        let config = guest.get::<ConfigMap>(Some(SYSTEM), &kubelet_config(machine.version)).ok().flatten();
        return if config.is_none() { again } else { Some(acts(begin(machine, guest), now)) };
    };
    let is_known = is_known(&node);
    if !is_known && has_cloud_provider(guest) {
        return Some(acts(vec![known(node, machine)], now));
    }
    // kubeadm does not wait for it.
    let unknown = || (!is_known).then(|| Steps::wait_until(later(now, AGAIN)));
    if machine.is_worker {
        return unknown();
    }
    let members = Members::read(guest);
    let act = |members: Result<Members, String>, pod: Option<Pod>| match members {
        Ok(members) => Some(acts(pod.iter().map(Action::create).chain(stored(&members)).collect(), now)),
        Err(_) => Some(Steps::wait_until(later(now, AGAIN))),
    };
    match members.get(machine.name) {
        None if machine.dies && members.has_unstarted(machine.name) => Some(Steps::default()),
        None if machine.dies => act(members.with_unstarted(guest, machine.name, now), None),
        None => act(members.with_learner(guest, machine.name, now), pod(ETCD, machine.name)),
        Some(member) if member.learner => {
            let votes = later(member.since, LEARNING);
            match Members::is_well(guest, member) && now >= votes {
                true => act(members.with_promoted(guest, machine.name), None),
                false => Some(Steps::wait_until(votes.max(later(now, AGAIN / 4)))),
            }
        }
        Some(_) => finish(machine, node, guest).map(|actions| acts(actions, now)).or_else(unknown),
    }
}

/// Whether a cloud provider has written on the Node what it runs on: every kubelet is told to leave that to one.
fn is_known(node: &Node) -> bool {
    node.spec.as_ref().is_some_and(|spec| spec.provider_id.is_some())
}

/// A pod of it is ready; or it has written on a Node already, which in a cluster that has been running for a while nobody can see do so.
fn has_cloud_provider(guest: &Direct) -> bool {
    let is_one = |pod: &Pod| pods::namespace(&pod.metadata) == CLOUD_PROVIDER && pods::is_ready(pod);
    guest.list::<Node>().unwrap_or_default().iter().any(is_known)
        || guest.list::<Pod>().unwrap_or_default().iter().any(is_one)
}

/// What a cloud provider makes of a Node that it has not seen before.
fn known(mut node: Node, machine: &Joining<'_>) -> Action {
    let spec = node.spec.get_or_insert_default();
    spec.provider_id = Some(machine.provider_id.to_owned());
    spec.taints.get_or_insert_default().retain(|taint| taint.key != UNINITIALIZED);
    Action::update(&node)
}

/// The Node is marked, and the API server is noted where old versions of kubeadm look for it.
fn finish(machine: &Joining<'_>, mut node: Node, guest: &Direct) -> Option<Vec<Action>> {
    let labels = node.metadata.labels.get_or_insert_default();
    let wanted = role_labels(machine.version);
    if wanted.iter().all(|label| labels.contains_key(*label)) {
        return None;
    }
    labels.extend(wanted.iter().map(|label| ((*label).to_owned(), String::new())));
    let noted = guest.get::<ConfigMap>(Some(SYSTEM), "kubeadm-config").ok().flatten().and_then(|mut config| {
        let data = config.data.as_mut()?;
        let mut status: Value = serde_saphyr::from_str(data.get("ClusterStatus")?).ok()?;
        status["apiEndpoints"][machine.name] = endpoint();
        data.insert("ClusterStatus".into(), serde_saphyr::to_string(&status).ok()?);
        Some(config)
    });
    Some(noted.iter().map(Action::update).chain([Action::update(&node)]).collect())
}

fn acts(actions: Vec<Action>, now: Timestamp) -> Steps {
    Steps { guest: actions, wake: Some(now), ..Steps::default() }
}

fn begin(machine: &Joining<'_>, guest: &Direct) -> Vec<Action> {
    let node: Option<Node> = serde_json::from_value(node_object(machine, has_cloud_provider(guest))).ok();
    let components = COMPONENTS.iter().filter(|component| **component != ETCD && !machine.is_worker);
    let configuration = configuration(guest);
    let pods = components.filter_map(|component| {
        let mut object = pod_object(component, machine.name);
        object["spec"]["containers"][0]["command"] = command(component, &configuration);
        serde_json::from_value::<Pod>(object).ok()
    });
    node.iter().map(Action::create).chain(pods.map(|pod| Action::create(&pod))).collect()
}

/// The ClusterConfiguration that kubeadm reads when a machine joins.
fn configuration(guest: &Direct) -> Value {
    let config = guest.get::<ConfigMap>(Some(SYSTEM), "kubeadm-config").ok().flatten();
    let text = config.and_then(|config| config.data?.remove("ClusterConfiguration"));
    text.and_then(|text| serde_saphyr::from_str(&text).ok()).unwrap_or_default()
}

/// A component with its flags, as kubeadm writes them.
pub fn command(component: &str, configuration: &Value) -> Value {
    let part = match component {
        API_SERVER => "apiServer",
        "kube-controller-manager" => "controllerManager",
        _ => "scheduler",
    };
    let flags = configuration[part]["extraArgs"].as_object().into_iter().flatten();
    let flags = flags.map(|(flag, value)| format!("--{flag}={}", value.as_str().unwrap_or_default()));
    json!([component.to_owned()].into_iter().chain(flags).collect::<Vec<String>>())
}

fn stored(members: &Members) -> Option<Action> {
    let map: ConfigMap = serde_json::from_value(members.object()).ok()?;
    Some(Action::update(&map))
}

fn pod(component: &str, node: &str) -> Option<Pod> {
    serde_json::from_value(pod_object(component, node)).ok()
}

pub fn endpoint() -> Value {
    json!({ "advertiseAddress": "192.0.2.1", "bindPort": 6443 })
}

/// Without its roles; where a cloud provider runs, it has seen the Node before anybody else does.
pub fn node_object(machine: &Joining<'_>, has_cloud_provider: bool) -> Value {
    let name = machine.name;
    let mut taints = Vec::new();
    if !machine.is_worker {
        taints.push(json!({ "key": MASTER, "effect": "NoSchedule" }));
    }
    let mut spec = json!({});
    match has_cloud_provider {
        true => spec["providerID"] = json!(machine.provider_id),
        false => taints.push(json!({ "key": UNINITIALIZED, "value": "true", "effect": "NoSchedule" })),
    }
    spec["taints"] = json!(taints);
    let mut labels = json!({ "kubernetes.io/hostname": name, "kubernetes.io/os": "linux" });
    for (key, value) in machine.labels {
        labels[key] = json!(value);
    }
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name, "labels": labels,
            "annotations": { KUBELET: SIMULATED },
        },
        "spec": spec,
        "status": { "nodeInfo": {
            "kubeletVersion": format!("v{}", machine.version), "operatingSystem": "linux", "architecture": "amd64", "bootID": "",
            "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "", "machineID": "", "osImage": "",
            "systemUUID": "",
        }},
    })
}

pub fn pod_object(component: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{component}-{node}"), "namespace": SYSTEM,
            "labels": { "component": component, "tier": "control-plane" },
            "annotations": { MIRROR: "simulated" },
        },
        "spec": {
            "nodeName": node, "hostNetwork": true,
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{ "name": component, "image": format!("registry.k8s.io/{component}") }],
        },
    })
}

/// The ConfigMap that kubeadm of a version reads the configuration of its kubelet from.
pub fn kubelet_config(version: &str) -> String {
    match minor(version) {
        old if old < 24 => format!("kubelet-config-1.{old}"),
        _ => "kubelet-config".into(),
    }
}

/// Those that kubeadm of a version puts on a Node of the control plane.
pub fn role_labels(version: &str) -> Vec<&'static str> {
    match minor(version) {
        ..=19 => vec![MASTER],
        20..=23 => vec![MASTER, CONTROL_PLANE],
        _ => vec![CONTROL_PLANE],
    }
}

/// `ClusterStatus` went with the first minor version that this is not true for.
pub fn has_cluster_status(version: &str) -> bool {
    minor(version) < 22
}

pub fn minor(version: &str) -> u32 {
    version.trim_start_matches('v').split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or(0)
}

/// The components of a settled machine, and its Node with its roles.
pub fn settled(machine: &Joining<'_>) -> Vec<Value> {
    let mut node = node_object(machine, true);
    if machine.is_worker {
        return vec![node];
    }
    for label in role_labels(machine.version) {
        node["metadata"]["labels"][label] = json!("");
    }
    let pods = COMPONENTS.iter().map(|component| pod_object(component, machine.name));
    std::iter::once(node).chain(pods).collect()
}

/// The tags of what a distribution brings beside Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Images {
    pub etcd: &'static str,
    pub coredns: &'static str,
}

/// Of all distributions.
pub const IMAGES: Images = Images { etcd: "v3.3.15_vmware.6", coredns: "v1.6.2_vmware.6" };

/// `kubeadm-config` of a cluster, as kubeadm of the version `begun` has written it; `asked` is what it was begun with.
pub fn kubeadm_config(version: &str, begun: &str, nodes: &[String], asked: &Value) -> Value {
    let (api, dns) = match minor(begun) {
        ..=14 => ("v1beta1", json!({ "type": "CoreDNS" })),
        15..=21 => ("v1beta2", json!({ "type": "CoreDNS" })),
        _ => ("v1beta3", json!({})),
    };
    let mut configuration = json!({
        "apiServer": { "extraArgs": { "authorization-mode": "Node,RBAC" }, "timeoutForControlPlane": "4m0s" },
        "apiVersion": format!("kubeadm.k8s.io/{api}"), "certificatesDir": "/etc/kubernetes/pki",
        "clusterName": "kubernetes", "controlPlaneEndpoint": "192.0.2.1:6443",
    "dns": dns, "etcd": { "local": { "dataDir": "/var/lib/etcd" } },
        "imageRepository": "vmware", "kind": "ClusterConfiguration", "kubernetesVersion": format!("v{version}"),
        "networking": { "dnsDomain": "cluster.local", "podSubnet": "192.168.0.0/16", "serviceSubnet": "10.96.0.0/12" },
    });
    json_patch::merge(&mut configuration, asked);
    let mut data =
        BTreeMap::from([("ClusterConfiguration", serde_saphyr::to_string(&configuration).unwrap_or_default())]);
    if has_cluster_status(version) {
        let endpoints: BTreeMap<&String, Value> = nodes.iter().map(|node| (node, endpoint())).collect();
        let status = json!({ "apiEndpoints": endpoints, "apiVersion": format!("kubeadm.k8s.io/{api}"), "kind": "ClusterStatus" });
        data.insert("ClusterStatus", serde_saphyr::to_string(&status).unwrap_or_default());
    }
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "kubeadm-config", "namespace": SYSTEM }, "data": data,
    })
}

/// What kubelets of a version are configured by.
pub fn kubelet_config_map(version: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": kubelet_config(version), "namespace": SYSTEM },
        "data": { "kubelet": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" },
    })
}
