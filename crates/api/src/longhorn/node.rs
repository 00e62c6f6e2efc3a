//! `Node` (longhorn.io/v1beta2): a node with disks.

use crate::foreign::{LooseCondition, foreign_kind, foreign_part};

foreign_kind! {
    Node = "longhorn.io" "v1beta2" "nodes" Namespaced {
        spec: NodeSpec,
        status: NodeStatus,
    }
}

foreign_part! {
    NodeSpec {
        allow_scheduling: bool,
        eviction_requested: bool,
    }
    NodeStatus {
        conditions: Vec<LooseCondition>,
    }
}

pub mod conditions {
    pub const READY: &str = "Ready";
    pub const SCHEDULABLE: &str = "Schedulable";
}
