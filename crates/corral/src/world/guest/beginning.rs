//! `kubeadm init` on the first machine of a control plane: etcd with one member, the components beside it, the configuration that others
//! join with, and the two add-ons of kubeadm itself.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::etcd::{self, Members};
use super::join::{Joining, command, kubeadm_config, kubelet_config_map, node_object, pod_object};
use super::{COMPONENTS, ETCD, SYSTEM};
use crate::apiserver::Kind;
use crate::world::outcome::Action;

/// What it makes, as kubeadm of 1.15 and later does. Nothing of it answers before the pods run.
pub fn begin(machine: &Joining<'_>, configuration: &Value, now: Timestamp) -> Vec<Action> {
    let mut asked = configuration.clone();
    // As kubeadm writes it down, whoever told it.
    asked["kubernetesVersion"] = json!(format!("v{}", machine.version));
    let config = kubeadm_config(machine.version, machine.version, &[], &asked);
    let mut actions = Vec::new();
    actions.extend(made::<Namespace>(
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": etcd::NAMESPACE } }),
    ));
    actions.extend(made::<ConfigMap>(config));
    actions.extend(made::<ConfigMap>(kubelet_config_map(machine.version)));
    actions.extend(made::<Node>(node_object(machine, false)));
    for component in COMPONENTS {
        let mut pod = pod_object(component, machine.name);
        if component != ETCD {
            pod["spec"]["containers"][0]["command"] = command(component, &asked);
        }
        actions.extend(made::<Pod>(pod));
    }
    let repository = asked["imageRepository"].as_str().unwrap_or("k8s.gcr.io");
    let tag = asked["dns"]["imageTag"].as_str().unwrap_or("1.6.2");
    let version = machine.version.replace('+', "_");
    actions.extend(made::<Deployment>(dns(&format!("{repository}/coredns:{tag}"))));
    actions.extend(made::<DaemonSet>(proxy(&format!("{repository}/kube-proxy:v{version}"))));
    actions.extend(made::<ConfigMap>(Members::of(&[machine.name.to_owned()], now).object()));
    actions
}

fn made<K: Kind + DeserializeOwned>(object: Value) -> Option<Action> {
    serde_json::from_value::<K>(object).ok().map(|object| Action::create(&object))
}

fn dns(image: &str) -> Value {
    let labels = json!({ "k8s-app": "kube-dns" });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "coredns", "namespace": SYSTEM, "labels": labels },
        "spec": {
            "replicas": 2, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": {
                "tolerations": [{ "operator": "Exists" }], "containers": [{ "name": "coredns", "image": image }],
            }},
        },
    })
}

fn proxy(image: &str) -> Value {
    let labels = json!({ "k8s-app": "kube-proxy" });
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "kube-proxy", "namespace": SYSTEM, "labels": labels },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": {
                "tolerations": [{ "operator": "Exists" }], "containers": [{ "name": "kube-proxy", "image": image }],
            }},
        },
    })
}
