//! The kinds of Harvester that an upgrade reads and writes (group harvesterhci.io).
//! See <https://github.com/harvester/harvester/tree/master/pkg/apis/harvesterhci.io/v1beta1>.

pub mod addon;
pub mod events;
pub mod jobs;
pub mod node;
pub mod setting;
pub mod upgrade;
pub mod upgrade_log;
pub mod version;
pub mod virtual_machine_image;

pub const GROUP: &str = "harvesterhci.io";
pub const VERSION: &str = "v1beta1";

/// Where Harvester's own objects live, and those of its embedded Rancher.
pub const NAMESPACE: &str = "harvester-system";
pub const CATTLE_NAMESPACE: &str = "cattle-system";
pub const FLEET_NAMESPACE: &str = "fleet-local";
