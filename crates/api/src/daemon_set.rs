//! `DaemonSet` (apps/v1): which of its templates a pod is of.
//! See <https://github.com/kubernetes/api/blob/master/apps/v1/types.go>.

/// On a DaemonSet: how often its template was changed; it was a field once.
pub const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
/// On each pod of a DaemonSet, and on no other: which of its templates it is of.
pub const POD_TEMPLATE_GENERATION: &str = "pod-template-generation";
