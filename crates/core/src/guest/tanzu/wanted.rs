//! What machines should be, made from the spec and the distribution.

use drover_api::tanzu::DISTRIBUTION_LABEL;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::View;
use super::distribution::Distribution;
use crate::guest::order::{Order, Patches};

/// Where kubeadm is told how to label a Node.
const NODE_LABELS: &str = "/spec/joinConfiguration/nodeRegistration/kubeletExtraArgs/node-labels";

/// What the control plane is asked to be.
pub fn order(view: &View<'_>, distribution: &Distribution) -> Order {
    let parts = &distribution.parts;
    let mut order = Order {
        namespace: view.namespace().to_owned(),
        cluster: view.name().to_owned(),
        version: distribution.kubernetes.clone(),
        id: String::new(),
        patches: Patches {
            infrastructure: infrastructure(view, distribution, "controlPlane"),
            bootstrap: vec![replace(NODE_LABELS, &node_labels(distribution))],
            kubeadm: vec![
                replace("/dns/imageRepository", &parts.coredns.image_repository),
                replace("/dns/imageTag", &parts.coredns.version),
                replace("/etcd/local/imageRepository", &parts.etcd.image_repository),
                replace("/etcd/local/imageTag", &parts.etcd.version),
                replace("/imageRepository", &parts.kubernetes.image_repository),
                replace("/kubernetesVersion", &parts.kubernetes.version),
            ],
        },
        machine_timeout: view.settings.machine_timeout,
    };
    // Jobs of all clusters are in one namespace; the same cause has the same id, whoever decides.
    order.id = short(&format!("{} {}", view.uid(), order.digest()), 5);
    order
}

/// Patches of what stands for a virtual machine of a pool, `controlPlane` or `workers`.
pub fn infrastructure(view: &View<'_>, distribution: &Distribution, pool: &str) -> Vec<Value> {
    let pool = &view.tkc["spec"]["topology"][pool];
    vec![
        replace("/spec/imageName", &distribution.image),
        json!({ "op": "replace", "path": "/spec/className", "value": pool["class"] }),
        json!({ "op": "replace", "path": "/spec/storageClass", "value": pool["storageClass"] }),
    ]
}

pub fn node_labels(distribution: &Distribution) -> String {
    format!("{DISTRIBUTION_LABEL}={}", distribution.label())
}

fn replace(path: &str, value: &str) -> Value {
    json!({ "op": "replace", "path": path, "value": value })
}

/// A few letters that stand for a text.
pub fn short(text: &str, bytes: usize) -> String {
    Sha256::digest(text.as_bytes()).iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
}
