//! The kubeadm bootstrap provider: makes the data that a machine of the control plane joins with, of the certificates of its
//! cluster. It never makes certificates for a cluster that has begun; without them it waits.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use drover_api::cluster_api::kubeadm_config::v1alpha2::KubeadmConfig;
use drover_api::cluster_api::secrets;
use drover_clock::later;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;

use super::{CERTIFICATES, Steps};
use crate::world::outcome::Action;

const MISSING_AGAIN: Duration = Duration::from_secs(30);

/// Where kubeadm looks for the certificate and the key of each Secret.
const FILES: [(&str, &str, &str); 4] = [
    (secrets::CA, "ca.crt", "ca.key"),
    (secrets::ETCD, "etcd/ca.crt", "etcd/ca.key"),
    (secrets::PROXY, "front-proxy-ca.crt", "front-proxy-ca.key"),
    (secrets::SERVICE_ACCOUNT, "sa.pub", "sa.key"),
];

/// `certificates` are the Secrets that there are, by the ends of their names.
pub fn reconcile(config: &KubeadmConfig, certificates: &BTreeMap<&str, Secret>, now: Timestamp) -> Steps {
    let is_owned = config.metadata.owner_references.iter().flatten().any(|owner| owner.kind == "Machine");
    let is_ready = config.status.as_ref().is_some_and(|status| status.ready == Some(true));
    if !is_owned || is_ready || config.metadata.deletion_timestamp.is_some() {
        return Steps::default();
    }
    let mut after = config.clone();
    let status = after.status.get_or_insert_default();
    // A worker only has to know whom it can trust.
    let needed = if is_worker(config) { &CERTIFICATES[..1] } else { &CERTIFICATES[..] };
    let missing = needed.iter().find(|end| !certificates.contains_key(*end));
    if let Some(missing) = missing {
        status.error_message = Some(format!("missing certificate: the Secret with the name …{missing} is not there"));
        let own = Action::change(config, &after).into_iter().collect();
        return Steps { own, guest: Vec::new(), wake: Some(later(now, MISSING_AGAIN)) };
    }
    status.error_message = None;
    status.ready = Some(true);
    let document = if is_worker(config) { worker_cloud_init() } else { cloud_init(certificates) };
    status.bootstrap_data = Some(STANDARD.encode(document));
    Steps::own(Action::change(config, &after).into_iter().collect())
}

fn is_worker(config: &KubeadmConfig) -> bool {
    let spec = config.spec.clone().unwrap_or_default();
    let joins_control_plane = spec.join_configuration.as_ref().is_some_and(|join| !join["controlPlane"].is_null());
    spec.init_configuration.is_none() && !joins_control_plane
}

pub fn worker_cloud_init() -> String {
    "## template: jinja\n#cloud-config\n\nruncmd:\n  - kubeadm join --config /tmp/kubeadm-node.yaml\n".to_owned()
}

/// The document that a machine of a control plane boots with.
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
    text + "runcmd:\n  - kubeadm join --config /tmp/kubeadm-controlplane-join-config.yaml\n"
}
