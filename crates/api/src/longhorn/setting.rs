//! `Setting` (longhorn.io/v1beta2): one option of Longhorn.

use crate::foreign::foreign_kind;

foreign_kind! {
    Setting = "longhorn.io" "v1beta2" "settings" Namespaced {
        value: String,
    }
}

pub mod names {
    pub const REPLENISHMENT_INTERVAL: &str = "replica-replenishment-wait-interval";
    pub const NODE_DRAIN_POLICY: &str = "node-drain-policy";
    pub const DETACH_WHEN_CORDONED: &str = "detach-manually-attached-volumes-when-cordoned";
}
