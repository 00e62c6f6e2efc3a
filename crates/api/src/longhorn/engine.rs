//! `Engine` (longhorn.io/v1beta2): what serves a volume.

use std::collections::BTreeMap;

use crate::foreign::{foreign_kind, foreign_part};

foreign_kind! {
    Engine = "longhorn.io" "v1beta2" "engines" Namespaced {
        spec: EngineSpec,
        status: EngineStatus,
    }
}

foreign_part! {
    EngineSpec {
        volume_name: String,
        /// Where it is to run.
        #[serde(rename = "nodeID")]
        node_id: String,
        desire_state: String,
    }
    EngineStatus {
        current_state: String,
        /// `RW`, `WO` or `ERR` by the names of the replicas.
        replica_mode_map: BTreeMap<String, String>,
    }
}

pub const VOLUME: &str = "longhornvolume";

/// The states of engines and replicas.
pub mod states {
    pub const RUNNING: &str = "running";
    pub const STOPPED: &str = "stopped";
    pub const ERROR: &str = "error";
}

/// The values of `replicaModeMap`.
pub mod modes {
    pub const READ_WRITE: &str = "RW";
    /// It is being rebuilt.
    pub const WRITE_ONLY: &str = "WO";
}
