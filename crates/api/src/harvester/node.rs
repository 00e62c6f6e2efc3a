//! What Harvester and its upgrade write on a `Node` (v1).

pub const MANAGED: &str = "harvesterhci.io/managed";
/// What the name of the operating system begins with, before its version.
pub const OS_PREFIX: &str = "Harvester ";
/// A node that only votes.
pub const WITNESS: &str = "node-role.harvesterhci.io/witness";
/// The operating system that a node has after its reboot.
pub const PENDING_OS_IMAGE: &str = "harvesterhci.io/pendingOSImage";
/// The taint that makes KubeVirt evacuate VMs. See <https://kubevirt.io/user-guide/cluster_admin/node_maintenance/>.
pub const DRAIN_TAINT: &str = "kubevirt.io/drain";
pub const DRAINING: &str = "draining";
/// The address that RKE2 uses. See <https://docs.rke2.io>.
pub const INTERNAL_IP: &str = "rke2.io/internal-ip";
/// How far Harvester is with making a worker a server; it begins by writing [`PROMOTING`].
pub const PROMOTE_STATUS: &str = "harvesterhci.io/promote-status";
pub const PROMOTING: &str = "running";
/// While it is there the upgrade of the node does not begin; removing it is the consent. Its value is the Upgrade.
pub const UPGRADE_PAUSE: &str = "harvesterhci.io/node-upgrade-pause";
