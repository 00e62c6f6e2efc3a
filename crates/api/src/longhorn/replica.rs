//! `Replica` (longhorn.io/v1beta2): one copy of a volume, on one node.

use crate::foreign::{foreign_kind, foreign_part};

foreign_kind! {
    Replica = "longhorn.io" "v1beta2" "replicas" Namespaced {
        spec: ReplicaSpec,
        status: ReplicaStatus,
    }
}

foreign_part! {
    ReplicaSpec {
        volume_name: String,
        #[serde(rename = "nodeID")]
        node_id: String,
        desire_state: String,
        /// When it has last become healthy; empty if it has never run.
        healthy_at: String,
        /// When it was lost; empty while it is well.
        failed_at: String,
    }
    ReplicaStatus {
        current_state: String,
    }
}
