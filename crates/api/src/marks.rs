//! Everything that Drover writes on other people's objects: who writes it, when, and when it goes.
//!
//! A mark on a Node is temporary. It is gone when the upgrade ends, however it ends, and a mark whose owner is gone is
//! undone. A newer Drover must be able to read what an older one wrote, so a meaning never changes under its name.

/// The field manager of every write.
pub const FIELD_MANAGER: &str = "drover";

/// What all keys of ours begin with. They are never copied from a Plan to its Jobs.
pub const PREFIX: &str = "drover.dev/";

/// Annotation of a Plan: its claims, that is, the nodes that Drover may take out of service, and the leader's epoch.
///
/// The leader writes it, guarded by the Plan's resourceVersion, before it touches a node; so however many operators
/// act, they cannot claim more nodes than the Plan allows. A node's entry goes when the node is back in service.
pub const CLAIMS: &str = "drover.dev/claims";

/// Label and annotation of a Node: the claim that it is taken under.
///
/// The label holds the claim's id; every Job of ours requires it. The annotation holds, as JSON, who took the Node,
/// whether the cordon is ours, and the Node's bootID when the Job ended. Both come in the one patch that takes the Node
/// out of service, guarded by its resourceVersion, and go in the one patch that gives it back. A cordoned Node whose
/// annotation does not say that the cordon is ours stays cordoned.
pub const NODE_CLAIM: &str = "drover.dev/claim";

/// Label and annotation of a Job: the id of the claim that it was made under.
///
/// Written when the Job is created, and never changed. Its pod runs only where the Node's label [`NODE_CLAIM`] has the
/// same value: a Job that a dead leader's request creates late never starts.
pub const JOB_CLAIM: &str = "drover.dev/claim";

/// Annotation of a Job's pod: what its drain waits for, as JSON.
///
/// The drain itself writes it while something holds it up; the operator tells it with the Plan's own waits. It goes when
/// the drain goes on, or with the pod.
pub const WAITS: &str = "drover.dev/waits";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_of_ours_begin_alike() {
        for key in [CLAIMS, NODE_CLAIM, JOB_CLAIM, WAITS] {
            assert!(key.starts_with(PREFIX), "{key}");
        }
    }
}
