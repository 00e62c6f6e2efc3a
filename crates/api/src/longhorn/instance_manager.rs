//! `InstanceManager` (longhorn.io/v1beta2): what runs engines and replicas on a node.

use crate::foreign::{foreign_kind, foreign_part};

foreign_kind! {
    InstanceManager = "longhorn.io" "v1beta2" "instancemanagers" Namespaced {
        status: InstanceManagerStatus,
    }
}

foreign_part! {
    InstanceManagerStatus {
        current_state: String,
    }
}

pub const RUNNING: &str = "running";

pub mod labels {
    pub const NODE: &str = "longhorn.io/node";
    pub const TYPE: &str = "longhorn.io/instance-manager-type";
    pub const TYPE_ALL_IN_ONE: &str = "aio";
    pub const DATA_ENGINE: &str = "longhorn.io/data-engine";
    pub const IMAGE: &str = "longhorn.io/instance-manager-image";
}
