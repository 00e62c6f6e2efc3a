//! What the Job of a TanzuKubernetesCluster asks `drover control-plane-upgrade` for, read from its pod as the kubelet and the
//! command line would.

use drover_api::cluster_api::labels::CLUSTER_NAME;
use drover_api::tanzu::tanzu_kubernetes_cluster::jobs::{CONTAINER, UPGRADE_ID, UPGRADE_VERSION};
use drover_core::guest::{Order, Patches, Version};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;

/// None if the pod asks for nothing that could be understood.
pub fn order(pod: &Pod) -> Option<Order> {
    let said = |key: &str| pod.metadata.annotations.as_ref()?.get(key).cloned();
    let cluster = pod.metadata.labels.as_ref()?.get(CLUSTER_NAME)?.clone();
    let variables = [("VERSION", said(UPGRADE_VERSION)?), ("UPGRADE_ID", said(UPGRADE_ID)?), ("CLUSTER_NAME", cluster)];
    let container = pod.spec.as_ref()?.containers.iter().find(|one| one.name == CONTAINER)?;
    let expanded = |argument: &String| {
        variables.iter().fold(argument.clone(), |text, (name, value)| text.replace(&format!("$({name})"), value))
    };
    let arguments: Vec<String> = container.args.iter().flatten().map(expanded).collect();
    let flag = |name: &str| {
        let begin = format!("--{name}=");
        arguments.iter().find_map(|argument| argument.strip_prefix(&begin)).unwrap_or_default()
    };
    let order = Order {
        namespace: flag("cluster-namespace").to_owned(),
        cluster: flag("cluster-name").to_owned(),
        version: Version::parse(flag("kubernetes-version"))?,
        id: flag("upgrade-id").to_owned(),
        patches: Patches {
            infrastructure: Patches::parse("infrastructure", flag("infrastructure-patches")).ok()?,
            bootstrap: Patches::parse("bootstrap", flag("bootstrap-patches")).ok()?,
            kubeadm: Patches::parse("kubeadm", flag("kubeadm-configmap-patches")).ok()?,
        },
        replicas: flag("replicas").parse().ok(),
        machine_timeout: SignedDuration::from_secs(flag("machine-timeout").trim_end_matches('s').parse().ok()?),
    };
    order.check().ok()
}
