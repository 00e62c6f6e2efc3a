//! The machine-plan `Secret` (v1): where Rancher's planner and the agent of one machine talk to each other, and where
//! the owner of drain hooks answers. See <https://github.com/rancher/rancher/tree/main/pkg/capr>.

pub const TYPE: &str = "rke.cattle.io/machine-plan";
/// `<machine>-machine-plan`
pub const NAME_SUFFIX: &str = "-machine-plan";

pub mod labels {
    pub const MACHINE_NAME: &str = "rke.cattle.io/machine-name";
    pub const CLUSTER_NAME: &str = "rke.cattle.io/cluster-name";
    pub const MACHINE_ID: &str = "rke.cattle.io/machine-id";
    pub const NODE_NAME: &str = "rke.cattle.io/node-name";
    pub const INIT_NODE: &str = "rke.cattle.io/init-node";
    pub const ETCD_ROLE: &str = "rke.cattle.io/etcd-role";
    pub const CONTROL_PLANE_ROLE: &str = "rke.cattle.io/control-plane-role";
    pub const WORKER_ROLE: &str = "rke.cattle.io/worker-role";
}

/// The annotations of the drain handshake, in the order in which they come.
pub mod annotations {
    pub const DRAIN_OPTIONS: &str = "rke.cattle.io/drain-options";
    pub const PRE_DRAIN: &str = "rke.cattle.io/pre-drain";
    pub const DRAIN_DONE: &str = "rke.cattle.io/drain-done";
    pub const UNCORDON: &str = "rke.cattle.io/uncordon";
    pub const POST_DRAIN: &str = "rke.cattle.io/post-drain";
    pub const DRAIN_ERROR: &str = "rke.cattle.io/drain-error";
    /// What Harvester answers with.
    pub const PRE_HOOK: &str = "harvesterhci.io/pre-hook";
    pub const POST_HOOK: &str = "harvesterhci.io/post-hook";
    pub const JOIN_URL: &str = "rke.cattle.io/join-url";
}

/// The keys of the Secret's data.
pub mod keys {
    pub const PLAN: &str = "plan";
    pub const APPLIED_PLAN: &str = "appliedPlan";
    pub const APPLIED_CHECKSUM: &str = "applied-checksum";
    pub const FAILED_CHECKSUM: &str = "failed-checksum";
    pub const FAILURE_COUNT: &str = "failure-count";
    pub const PLAN_STATE: &str = "plan-state";
    pub const PROBE_STATUSES: &str = "probe-statuses";
}

/// The Secret that holds the state of a cluster: without it the planner does not go on.
pub const STATE_TYPE: &str = "rke.cattle.io/cluster-state";
pub const STATE_SUFFIX: &str = "-rke-state";

/// On a Node: asks for the removal of its etcd member.
pub const REMOVE_ETCD_MEMBER: &str = "etcd.rke2.cattle.io/remove";
