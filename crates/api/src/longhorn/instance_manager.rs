//! `InstanceManager` (longhorn.io/v1beta2): what runs engines and replicas on a node.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::foreign::{foreign_kind, foreign_part};

foreign_kind! {
    InstanceManager = "longhorn.io" "v1beta2" "instancemanagers" Namespaced {
        spec: InstanceManagerSpec,
        status: InstanceManagerStatus,
    }
}

foreign_part! {
    InstanceManagerSpec {
        #[serde(rename = "nodeID")]
        node_id: String,
        image: String,
        r#type: String,
        data_engine: String,
    }
    InstanceManagerStatus {
        current_state: String,
        /// What runs in it, by name.
        instance_engines: BTreeMap<String, Value>,
        instance_replicas: BTreeMap<String, Value>,
    }
}

pub const RUNNING: &str = "running";
pub const STARTING: &str = "starting";
pub const STOPPED: &str = "stopped";
/// Its node does not answer.
pub const UNKNOWN: &str = "unknown";

pub mod labels {
    pub const COMPONENT: &str = "longhorn.io/component";
    pub const COMPONENT_VALUE: &str = "instance-manager";
    pub const NODE: &str = "longhorn.io/node";
    pub const TYPE: &str = "longhorn.io/instance-manager-type";
    pub const TYPE_ALL_IN_ONE: &str = "aio";
    pub const DATA_ENGINE: &str = "longhorn.io/data-engine";
    pub const IMAGE: &str = "longhorn.io/instance-manager-image";
}
