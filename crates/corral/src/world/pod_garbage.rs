//! The pod garbage collector: pods whose Node is gone go, too.
//!
//! Models `gcOrphaned` of `pkg/controller/podgc` of Kubernetes 1.34. The original looks every 20 seconds; here the time begins
//! when the Node goes. Left out: the limit of ended pods, pods that end before they have a node, and nodes out of service.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::outcome::{Action, Outcome};
use super::pods;

/// How long a Node that has gone may take to come back.
pub const QUARANTINE: Duration = Duration::from_secs(40);

/// Ends a pod that nobody is left to end.
pub fn collect(pod: &Pod, now: Timestamp) -> Outcome {
    let mut actions = Vec::new();
    if !pods::has_ended(pod) {
        let mut status = pod.status.clone().unwrap_or_default();
        status.phase = Some(pods::FAILED.into());
        let conditions = status.conditions.get_or_insert_default();
        let why = Some("PodGC: node no longer exists".into());
        pods::set_condition(conditions, "DisruptionTarget", true, Some("DeletionByPodGC"), why, now);
        actions.push(Action::PodStatus(Box::new(Pod { status: Some(status), ..pod.clone() })));
    }
    actions.push(Action::RemovePod {
        namespace: pods::namespace(&pod.metadata).into(),
        name: pods::name(&pod.metadata).into(),
        uid: pods::uid(&pod.metadata).into(),
    });
    Outcome::act(actions)
}
