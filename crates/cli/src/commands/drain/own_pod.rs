//! The pod that this process runs in, if it runs in a Job of an upgrade.

use drover_api::plan::jobs::variables::POD_NAME;
use drover_core::decision::{Kind, Subject};

/// Where the kubelet puts the namespace of a pod with a service account.
const NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

pub fn of_this_process() -> Option<Subject> {
    let name = std::env::var(POD_NAME).ok()?;
    let namespace = std::fs::read_to_string(NAMESPACE).ok()?.trim().to_owned();
    Some(Subject { kind: Kind::Pod, namespace, name })
}
