//! `Setting` (longhorn.io/v1beta2): one option of Longhorn.

use crate::foreign::foreign_kind;

foreign_kind! {
    Setting = "longhorn.io" "v1beta2" "settings" Namespaced {
        value: String,
    }
}

pub mod names {
    pub const REPLENISHMENT_INTERVAL: &str = "replica-replenishment-wait-interval";
    /// Of what runs engines and replicas on a node.
    pub const INSTANCE_MANAGER_IMAGE: &str = "default-instance-manager-image";
    pub const NODE_DRAIN_POLICY: &str = "node-drain-policy";
    /// The values of [`NODE_DRAIN_POLICY`].
    pub const BLOCK_IF_LAST_REPLICA: &str = "block-if-contains-last-replica";
    pub const ALLOW_IF_STOPPED: &str = "allow-if-replica-is-stopped";
    pub const ALWAYS_ALLOW: &str = "always-allow";
    pub const BLOCK_FOR_EVICTION: &str = "block-for-eviction";
    pub const BLOCK_FOR_EVICTION_IF_LAST: &str = "block-for-eviction-if-contains-last-replica";
    pub const DETACH_WHEN_CORDONED: &str = "detach-manually-attached-volumes-when-cordoned";
}
