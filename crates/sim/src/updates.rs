//! What the Job of a TanzuKubernetesCluster asks `drover control-plane-upgrade` for, read from its pod as the kubelet and the
//! command line would.

use drover_api::cluster_api::labels::CLUSTER_NAME;
use drover_api::tanzu::tanzu_kubernetes_cluster::jobs::{CONTAINER, UPGRADE_ID, UPGRADE_VERSION};
use drover_core::guest::{MACHINE_TIMEOUT, Order, Patches, Version};
use drover_core::plan::duration::GoDuration;
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
        machine_timeout: match flag("machine-timeout") {
            // The original's Jobs do not say it.
            "" => MACHINE_TIMEOUT,
            text => SignedDuration::from(GoDuration::parse(text)?),
        },
    };
    order.check().ok()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::batch::v1::Job;

    use super::*;

    #[test]
    fn a_pod_of_the_originals_job_is_understood() {
        let job: Job = serde_saphyr::from_str(include_str!("../../core/testdata/original-job.yaml")).unwrap();
        let template = job.spec.unwrap().template;
        let pod = Pod { metadata: template.metadata.unwrap(), spec: template.spec, ..Pod::default() };

        let order = order(&pod).unwrap();

        assert_eq!(
            (order.id.as_str(), order.cluster.as_str(), order.namespace.as_str()),
            ("1280807", "my-tkc", "default")
        );
        assert_eq!(order.version.to_string(), "1.16.7+vmware.1");
        assert_eq!((order.machine_timeout, order.replicas), (MACHINE_TIMEOUT, None));
        assert_eq!((order.patches.infrastructure.len(), order.patches.kubeadm.len()), (3, 6));
    }
}
