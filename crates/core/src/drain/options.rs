//! What a drain may do to pods, as the user asked.

use jiff::SignedDuration;

/// As the flags of `kubectl drain`, and some more. The default removes nothing that could be missed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    /// Pods without a controller go, too, and so do those whose DaemonSet is gone.
    pub force: bool,
    /// Pods of DaemonSets stay, instead of being in the way.
    pub ignore_daemon_sets: bool,
    /// Pods with an emptyDir go, and lose it.
    pub delete_empty_dir_data: bool,
    /// Instead of what each pod asks for.
    pub grace_seconds: Option<i64>,
    /// None: for ever.
    pub timeout: Option<SignedDuration>,
    pub on_timeout: OnTimeout,
    /// Delete instead of evicting: budgets are not asked.
    pub disable_eviction: bool,
    /// A pod that has been ending for longer than this many seconds is not waited for.
    pub skip_ending_after: Option<i64>,
    /// How many pods are on their way out at a time; none: all of them.
    pub at_once: Option<usize>,
}

/// What to do when time is up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnTimeout {
    /// Give up; the node stays cordoned.
    #[default]
    Fail,
    /// Give up, and give the node back if this drain has cordoned it.
    Uncordon,
    /// Delete the pods that are left, past their budgets.
    Delete,
}
