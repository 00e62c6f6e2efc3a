//! Labels and annotations of upgrade.cattle.io, on Plans, on the Jobs and pods that come of them, and on Nodes.
//!
//! Scripts and other controllers read them: Harvester's Job controller knows a Job by its plan and node labels, k3s and
//! RKE2 wait for the label on the Node.

/// On Jobs and pods: the operator that made them. A drain leaves pods with this label alone, whatever its value.
pub const CONTROLLER: &str = "upgrade.cattle.io/controller";
/// On Jobs and pods: `true` if the Plan is exclusive, else `false`.
pub const EXCLUSIVE: &str = "upgrade.cattle.io/exclusive";
/// On Jobs and pods: the name of the Node.
pub const NODE: &str = "upgrade.cattle.io/node";
/// On Jobs and pods: the name of the Plan.
pub const PLAN: &str = "upgrade.cattle.io/plan";
/// On Jobs and pods: the version that the Node is upgraded to.
pub const VERSION: &str = "upgrade.cattle.io/version";
/// Of the pod of a Job: the Job's name. Written by the
/// [Job controller of Kubernetes](https://kubernetes.io/docs/reference/labels-annotations-taints/#batchkubernetesio-job-name).
pub const JOB_NAME: &str = "batch.kubernetes.io/job-name";

/// Annotation of a Plan: fields, such as `spec.upgrade.envs,spec.drain`, that are part of its hash.
pub const DIGEST: &str = "upgrade.cattle.io/digest";
/// Annotation of a Job: when to delete it after its end, should its spec not say so.
pub const TTL_SECONDS_AFTER_FINISHED: &str = "upgrade.cattle.io/ttl-seconds-after-finished";

/// On Nodes: the hash of the Plan that was last completed there. On Jobs and pods: the hash that they are for.
pub fn plan_hash(plan: &str) -> String {
    format!("{PLAN_HASH_PREFIX}{plan}")
}

/// What every key of [`plan_hash`] begins with.
pub const PLAN_HASH_PREFIX: &str = "plan.upgrade.cattle.io/";

/// The value of [`plan_hash`] by which a person keeps a Node out of a Plan.
pub const DISABLED: &str = "disabled";

/// What rancher/wrangler writes on the Jobs that it applies, by which the original finds its Jobs again.
pub mod objectset {
    pub const HASH: &str = "objectset.rio.cattle.io/hash";
    pub const ID: &str = "objectset.rio.cattle.io/id";
    pub const OWNER_GVK: &str = "objectset.rio.cattle.io/owner-gvk";
    pub const OWNER_NAME: &str = "objectset.rio.cattle.io/owner-name";
    pub const OWNER_NAMESPACE: &str = "objectset.rio.cattle.io/owner-namespace";
    /// The value of [`OWNER_GVK`].
    pub const PLAN_GVK: &str = "upgrade.cattle.io/v1, Kind=Plan";
}

/// Keys that contain this are not copied from a Plan to its Jobs.
pub const CATTLE_KEYS: &str = "cattle.io/";
/// Annotations whose keys contain this are not copied from a Plan to its Jobs.
pub const KUBECTL_KEYS: &str = "kubectl.kubernetes.io/";
