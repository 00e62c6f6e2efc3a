//! APIs that Kubernetes has removed, and objects that are still written through them.

use super::parts::ObjectRef;

/// A version of an API that a release no longer serves.
/// See <https://kubernetes.io/docs/reference/using-api/deprecation-guide/>.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemovedApi {
    pub api_version: &'static str,
    pub kind: &'static str,
    /// The first minor release of Kubernetes 1 without it.
    pub removed_in: u64,
    /// What to use instead; empty: nothing takes its place.
    pub instead: &'static str,
}

const fn gone(api_version: &'static str, kind: &'static str, removed_in: u64, instead: &'static str) -> RemovedApi {
    RemovedApi { api_version, kind, removed_in, instead }
}

pub const REMOVED: &[RemovedApi] = &[
    gone("extensions/v1beta1", "Ingress", 22, "networking.k8s.io/v1"),
    gone("networking.k8s.io/v1beta1", "Ingress", 22, "networking.k8s.io/v1"),
    gone("networking.k8s.io/v1beta1", "IngressClass", 22, "networking.k8s.io/v1"),
    gone("rbac.authorization.k8s.io/v1beta1", "Role", 22, "rbac.authorization.k8s.io/v1"),
    gone("rbac.authorization.k8s.io/v1beta1", "RoleBinding", 22, "rbac.authorization.k8s.io/v1"),
    gone("rbac.authorization.k8s.io/v1beta1", "ClusterRole", 22, "rbac.authorization.k8s.io/v1"),
    gone("rbac.authorization.k8s.io/v1beta1", "ClusterRoleBinding", 22, "rbac.authorization.k8s.io/v1"),
    gone("apiextensions.k8s.io/v1beta1", "CustomResourceDefinition", 22, "apiextensions.k8s.io/v1"),
    gone("apiregistration.k8s.io/v1beta1", "APIService", 22, "apiregistration.k8s.io/v1"),
    gone(
        "admissionregistration.k8s.io/v1beta1",
        "ValidatingWebhookConfiguration",
        22,
        "admissionregistration.k8s.io/v1",
    ),
    gone("admissionregistration.k8s.io/v1beta1", "MutatingWebhookConfiguration", 22, "admissionregistration.k8s.io/v1"),
    gone("storage.k8s.io/v1beta1", "StorageClass", 22, "storage.k8s.io/v1"),
    gone("storage.k8s.io/v1beta1", "VolumeAttachment", 22, "storage.k8s.io/v1"),
    gone("storage.k8s.io/v1beta1", "CSIDriver", 22, "storage.k8s.io/v1"),
    gone("coordination.k8s.io/v1beta1", "Lease", 22, "coordination.k8s.io/v1"),
    gone("batch/v1beta1", "CronJob", 25, "batch/v1"),
    gone("discovery.k8s.io/v1beta1", "EndpointSlice", 25, "discovery.k8s.io/v1"),
    gone("events.k8s.io/v1beta1", "Event", 25, "events.k8s.io/v1"),
    gone("autoscaling/v2beta1", "HorizontalPodAutoscaler", 25, "autoscaling/v2"),
    gone("policy/v1beta1", "PodDisruptionBudget", 25, "policy/v1"),
    gone("policy/v1beta1", "PodSecurityPolicy", 25, ""),
    gone("node.k8s.io/v1beta1", "RuntimeClass", 25, "node.k8s.io/v1"),
    gone("autoscaling/v2beta2", "HorizontalPodAutoscaler", 26, "autoscaling/v2"),
    gone("flowcontrol.apiserver.k8s.io/v1beta1", "FlowSchema", 26, "flowcontrol.apiserver.k8s.io/v1"),
    gone("flowcontrol.apiserver.k8s.io/v1beta1", "PriorityLevelConfiguration", 26, "flowcontrol.apiserver.k8s.io/v1"),
    gone("storage.k8s.io/v1beta1", "CSIStorageCapacity", 27, "storage.k8s.io/v1"),
    gone("flowcontrol.apiserver.k8s.io/v1beta2", "FlowSchema", 29, "flowcontrol.apiserver.k8s.io/v1"),
    gone("flowcontrol.apiserver.k8s.io/v1beta2", "PriorityLevelConfiguration", 29, "flowcontrol.apiserver.k8s.io/v1"),
    gone("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema", 32, "flowcontrol.apiserver.k8s.io/v1"),
    gone("flowcontrol.apiserver.k8s.io/v1beta3", "PriorityLevelConfiguration", 32, "flowcontrol.apiserver.k8s.io/v1"),
];

/// An object that somebody applies or manages through such a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldVersion {
    pub object: ObjectRef,
    pub api: &'static RemovedApi,
}

impl OldVersion {
    /// Field managers and kubectl's copy of what was applied name the version that was written. The text is searched:
    /// to decode all of it for this would cost more than everything else.
    pub fn of(kind: &str, namespace: &str, name: &str, json: &[u8]) -> Option<Self> {
        let mut candidates = REMOVED.iter().filter(|api| api.kind == kind).peekable();
        candidates.peek()?;
        let text = std::str::from_utf8(json).ok()?;
        let is_named = |api: &&RemovedApi| {
            let places = text.match_indices(api.api_version);
            let mut before = places.map(|(at, _)| text[..at].trim_end_matches(['\\', '"', ' ', ':']));
            before.any(|before| before.ends_with("apiVersion"))
        };
        candidates.find(is_named).map(|api| OldVersion { object: ObjectRef::new(kind, namespace, name), api })
    }
}
