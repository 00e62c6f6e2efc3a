//! `Eviction`, a part of every pod.
//! See <https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/>.

pub const KIND: &str = "Eviction";
/// Since Kubernetes 1.22.
pub const VERSION: &str = "policy/v1";
/// All that servers before that know; newer ones know it, too.
pub const VERSION_BEFORE: &str = "policy/v1beta1";
/// Part of what a server answers, with 400, to an Eviction of a version that it does not know.
pub const UNKNOWN: &str = "no kind \"Eviction\" is registered for version";
