//! `Engine` (longhorn.io/v1beta2): what serves a volume.

use std::collections::BTreeMap;

use crate::foreign::{foreign_kind, foreign_part};

foreign_kind! {
    Engine = "longhorn.io" "v1beta2" "engines" Namespaced {
        status: EngineStatus,
    }
}

foreign_part! {
    EngineStatus {
        current_state: String,
        replica_mode_map: BTreeMap<String, String>,
    }
}

pub const VOLUME: &str = "longhornvolume";
