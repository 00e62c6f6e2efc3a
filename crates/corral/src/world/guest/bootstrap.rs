//! The kubeadm bootstrap provider: makes the data that a machine boots with. The first machine of a control plane begins it, and gets the
//! certificates of the cluster, which are made then; all others join, with the certificates that there are. None are made for a
//! cluster that has begun; without them it waits.
//!
//! Models the provider 0.1 (`controllers/kubeadmconfig_controller.go`): it waits for the infrastructure of the cluster, lets one machine
//! at a time begin (the ConfigMap `<cluster>-lock`), and tells kubeadm of the network and the address of the Cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use drover_api::cluster_api::cluster::conditions::CONTROL_PLANE_INITIALIZED;
use drover_api::cluster_api::cluster::v1alpha2::Cluster;
use drover_api::cluster_api::kubeadm_config::LOCK_SUFFIX;
use drover_api::cluster_api::kubeadm_config::v1alpha2::KubeadmConfig;
use drover_api::cluster_api::machine::v1alpha2::Machine;
use drover_api::cluster_api::{labels, secrets};
use drover_api::foreign::{LooseCondition, condition};
use drover_clock::later;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};

use super::contract::Contract;
use super::{CERTIFICATES, Steps, certificate_texts, is_of_control_plane, owned_by};
use crate::world::outcome::Action;
use crate::world::pods;

/// What is missing is looked for again so soon.
const AGAIN: Duration = Duration::from_secs(30);

/// Where kubeadm looks for the certificate and the key of each Secret.
const FILES: [(&str, &str, &str); 4] = [
    (secrets::CA, "ca.crt", "ca.key"),
    (secrets::ETCD, "etcd/ca.crt", "etcd/ca.key"),
    (secrets::PROXY, "front-proxy-ca.crt", "front-proxy-ca.key"),
    (secrets::SERVICE_ACCOUNT, "sa.pub", "sa.key"),
];

/// What the machine that begins a control plane does; all others do the other thing.
const BEGINS: &str = "kubeadm init --config /tmp/kubeadm.yaml";
const JOINS: &str = "kubeadm join --config /tmp/kubeadm-controlplane-join-config.yaml";

pub struct Scene<'a> {
    pub config: &'a KubeadmConfig,
    pub machine: Option<&'a Machine>,
    pub cluster: Option<&'a Cluster>,
    /// The Secrets that there are, by the ends of their names.
    pub certificates: &'a BTreeMap<&'a str, Secret>,
    /// The machine that may begin the control plane; none if nobody does.
    pub locked_by: Option<&'a str>,
}

pub fn reconcile(scene: &Scene<'_>, now: Timestamp) -> Steps {
    let config = scene.config;
    let is_ready = config.status.as_ref().is_some_and(|status| status.ready == Some(true));
    let Some(machine) = scene.machine.filter(|_| !is_ready && config.metadata.deletion_timestamp.is_none()) else {
        return Steps::default();
    };
    let Some(status) = scene.cluster.and_then(|cluster| cluster.status.as_ref()) else { return Steps::default() };
    if status.infrastructure_ready != Some(true) {
        return Steps::default();
    }
    // v1beta1 says it by a condition.
    let said = condition(status.conditions.as_ref(), CONTROL_PLANE_INITIALIZED);
    match status.control_plane_initialized == Some(true) || said.is_some_and(LooseCondition::is_true) {
        true => join(scene, now),
        false => begin(scene, machine, now),
    }
}

fn join(scene: &Scene<'_>, now: Timestamp) -> Steps {
    let config = scene.config;
    let mut after = config.clone();
    let status = after.status.get_or_insert_default();
    // A worker only has to know whom it can trust.
    let needed = if is_worker(config) { &CERTIFICATES[..1] } else { &CERTIFICATES[..] };
    let missing = needed.iter().find(|end| !scene.certificates.contains_key(*end));
    if let Some(missing) = missing {
        status.error_message = Some(format!("missing certificate: the Secret with the name …{missing} is not there"));
        let own = Action::change(config, &after).into_iter().collect();
        return Steps { own, guest: Vec::new(), wake: Some(later(now, AGAIN)) };
    }
    status.error_message = None;
    status.ready = Some(true);
    let document = if is_worker(config) { worker_cloud_init() } else { cloud_init(scene.certificates) };
    let mut actions = Vec::new();
    match Contract::of(&config.api_version) {
        Contract::V1alpha2 => status.bootstrap_data = Some(STANDARD.encode(document)),
        Contract::V1beta1 => {
            status.data_secret_name.clone_from(&config.metadata.name);
            actions.push(Action::create(&data_secret(config, document)));
        }
    }
    actions.extend(Action::change(config, &after));
    Steps::own(actions)
}

/// Only one machine of the control plane begins it; all others wait until it has.
fn begin(scene: &Scene<'_>, machine: &Machine, now: Timestamp) -> Steps {
    let (config, again) = (scene.config, Steps::wait_until(later(now, AGAIN)));
    let spec = config.spec.clone().unwrap_or_default();
    let can_begin = spec.init_configuration.is_some() || spec.cluster_configuration.is_some();
    let Some(cluster) = scene.cluster.filter(|_| is_of_control_plane(machine) && can_begin) else { return again };
    let name = pods::name(&machine.metadata);
    let Some(holder) = scene.locked_by else {
        return Steps { own: vec![Action::create(&lock(cluster, name))], guest: Vec::new(), wake: Some(now) };
    };
    if holder != name {
        return again;
    }
    let mut certificates = scene.certificates.clone();
    let mut actions = Vec::new();
    for (end, text) in certificate_texts() {
        if !certificates.contains_key(end) {
            let secret = certificate(config, cluster, end, text);
            actions.push(Action::create(&secret));
            certificates.insert(end, secret);
        }
    }
    let mut after = config.clone();
    let spec = after.spec.get_or_insert_default();
    spec.cluster_configuration = Some(told(cluster, machine, spec.cluster_configuration.take()));
    let status = after.status.get_or_insert_default();
    status.ready = Some(true);
    status.bootstrap_data = Some(STANDARD.encode(cloud_init(&certificates).replace(JOINS, BEGINS)));
    actions.extend(Action::change(config, &after));
    Steps::own(actions)
}

/// What kubeadm has to know and nobody has said.
fn told(cluster: &Cluster, machine: &Machine, said: Option<Value>) -> Value {
    let network = cluster.spec.as_ref().and_then(|spec| spec.cluster_network.clone()).unwrap_or_default();
    let endpoints = cluster.status.as_ref().and_then(|status| status.api_endpoints.as_ref());
    let endpoint = endpoints.and_then(|all| all.first()).cloned().unwrap_or_default();
    let version = machine.spec.as_ref().and_then(|spec| spec.version.clone()).unwrap_or_default();
    let ranges = |ranges: Option<Vec<String>>| ranges.unwrap_or_default().join(",");
    let mut told = json!({
        "clusterName": cluster.metadata.name,
        "controlPlaneEndpoint": format!("{}:{}", endpoint.host.unwrap_or_default(), endpoint.port.unwrap_or_default()),
        "kubernetesVersion": version,
        "networking": {
            "dnsDomain": network.service_domain,
            "podSubnet": ranges(network.pods.and_then(|ranges| ranges.cidr_blocks)),
            "serviceSubnet": ranges(network.services.and_then(|ranges| ranges.cidr_blocks)),
        },
    });
    json_patch::merge(&mut told, &said.unwrap_or_else(|| json!({})));
    told
}

fn named(cluster: &Cluster, end: &str) -> ObjectMeta {
    let name = pods::name(&cluster.metadata);
    ObjectMeta {
        name: Some(format!("{name}{end}")),
        namespace: cluster.metadata.namespace.clone(),
        labels: Some([(labels::CLUSTER_NAME.to_owned(), name.to_owned())].into()),
        ..ObjectMeta::default()
    }
}

fn lock(cluster: &Cluster, machine: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            owner_references: Some(vec![owned_by(cluster, &cluster.api_version)]),
            ..named(cluster, LOCK_SUFFIX)
        },
        data: Some([("lock-information".to_owned(), json!({ "machineName": machine }).to_string())].into()),
        ..ConfigMap::default()
    }
}

/// Whom a lock names.
pub fn holder(lock: &ConfigMap) -> Option<String> {
    let said: Value = serde_json::from_str(lock.data.as_ref()?.get("lock-information")?).ok()?;
    said["machineName"].as_str().map(str::to_owned)
}

/// It belongs to the config that began the cluster. Another beginning has another key.
fn certificate(config: &KubeadmConfig, cluster: &Cluster, end: &str, (text, key): (String, String)) -> Secret {
    let lot = STANDARD.encode(pods::uid(&config.metadata));
    let key = key.replacen("-----\n", &format!("-----\n{lot}\n"), 1);
    let bytes = |text: String| ByteString(text.into_bytes());
    Secret {
        metadata: ObjectMeta {
            owner_references: Some(vec![owned_by(config, &config.api_version)]),
            ..named(cluster, end)
        },
        data: Some([(secrets::CERTIFICATE.to_owned(), bytes(text)), (secrets::KEY.to_owned(), bytes(key))].into()),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    }
}

/// What a machine of v1beta1 boots with: it goes with the config.
fn data_secret(config: &KubeadmConfig, document: String) -> Secret {
    let owner = OwnerReference { controller: Some(true), ..owned_by(config, &config.api_version) };
    Secret {
        metadata: ObjectMeta {
            name: config.metadata.name.clone(),
            namespace: config.metadata.namespace.clone(),
            labels: config.metadata.labels.clone(),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some([(secrets::VALUE.to_owned(), ByteString(document.into_bytes()))].into()),
        type_: Some(secrets::TYPE.to_owned()),
        ..Secret::default()
    }
}

/// Whether what a machine was booted with begins a control plane.
pub fn begins(machine: &Machine) -> bool {
    let data = machine.spec.as_ref().and_then(|spec| spec.bootstrap.as_ref()?.data.as_ref());
    let document = data.and_then(|data| STANDARD.decode(data).ok()).unwrap_or_default();
    String::from_utf8_lossy(&document).contains(BEGINS)
}

fn is_worker(config: &KubeadmConfig) -> bool {
    let spec = config.spec.clone().unwrap_or_default();
    let joins_control_plane = spec.join_configuration.as_ref().is_some_and(|join| !join["controlPlane"].is_null());
    spec.init_configuration.is_none() && !joins_control_plane
}

pub fn worker_cloud_init() -> String {
    "## template: jinja\n#cloud-config\n\nruncmd:\n  - kubeadm join --config /tmp/kubeadm-node.yaml\n".to_owned()
}

/// The document that a machine of a control plane boots with that joins it.
pub fn cloud_init(certificates: &BTreeMap<&str, Secret>) -> String {
    let mut text = "## template: jinja\n#cloud-config\n\nwrite_files:\n".to_owned();
    for (end, certificate, key) in FILES {
        let data = certificates.get(end).and_then(|secret| secret.data.as_ref());
        let files = [(certificate, secrets::CERTIFICATE, "0640"), (key, secrets::KEY, "0600")];
        for (file, field, permissions) in files {
            let bytes = data.and_then(|data| data.get(field)).map(|bytes| bytes.0.as_slice()).unwrap_or_default();
            let content = String::from_utf8_lossy(bytes).replace('\n', "\n      ");
            text += &format!(
                "-   path: /etc/kubernetes/pki/{file}\n    owner: root:root\n    permissions: '{permissions}'\n    \
                 content: |\n      {}\n\n",
                content.trim_end()
            );
        }
    }
    text + &format!("runcmd:\n  - {JOINS}\n")
}
