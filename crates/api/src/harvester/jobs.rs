//! Labels and names of what an upgrade makes: Jobs, Plans, the release repository.
//! See <https://github.com/harvester/harvester/tree/master/pkg/controller/master/upgrade>.

/// On everything that belongs to an Upgrade: its name.
pub const UPGRADE: &str = "harvesterhci.io/upgrade";
pub const COMPONENT: &str = "harvesterhci.io/upgradeComponent";
pub const JOB_TYPE: &str = "harvesterhci.io/upgradeJobType";
pub const NODE: &str = "harvesterhci.io/node";
pub const CREATOR: &str = "harvesterhci.io/creator";
pub const CREATOR_HARVESTER: &str = "harvester";

/// The values of [`COMPONENT`].
pub mod components {
    pub const NODE: &str = "node";
    pub const MANIFEST: &str = "manifest";
    pub const CLEANUP: &str = "cleanup";
    pub const REPO: &str = "repo";
    pub const APPLY_SKIP_MANIFESTS: &str = "apply-skip-rke2-manifests";
    pub const REMOVE_SKIP_MANIFESTS: &str = "remove-skip-rke2-manifests";
    /// Drover's own.
    pub const RECOVER_AGENT: &str = "recover-system-agent";
}

/// The values of [`JOB_TYPE`].
pub mod types {
    pub const PRE_DRAIN: &str = "pre-drain";
    pub const POST_DRAIN: &str = "post-drain";
    pub const SINGLE_NODE_UPGRADE: &str = "single-node-upgrade";
    pub const RESTORE_VM: &str = "restore-vm";
}

/// What the names of the upgrade's objects end or begin with; the name of the Upgrade is the other part.
pub mod names {
    pub const PREPARE: &str = "prepare";
    pub const APPLY_MANIFESTS: &str = "apply-manifests";
    pub const SKIP_MANIFESTS_APPLY: &str = "skip-manifests-apply";
    pub const SKIP_MANIFESTS_REMOVE: &str = "skip-manifests-remove";
    pub const CLEANUP: &str = "cleanup";
    /// A Plan of the steps of a stock release, which carries no label of its Upgrade: its drop-in keeps Rancher's agent from enabling RKE2.
    pub const SKIP_RESTART_AGENT: &str = "skip-restart-rancher-system-agent";
    /// Drover's own: takes that drop-in away again.
    pub const RECOVER_AGENT: &str = "recover-system-agent";
    pub const RESTORE_VM: &str = "restore-vm";
    pub const UPGRADE_LOG: &str = "upgradelog";
    pub const REPO_PREFIX: &str = "upgrade-repo-";
}

/// The container of the Jobs of nodes and of the system services.
pub const CONTAINER: &str = "apply";
/// Who these Jobs run as.
pub const SERVICE_ACCOUNT: &str = "harvester";

/// What a release of Harvester brings for its own upgrade.
pub mod stock {
    pub const IMAGE: &str = "rancher/harvester-upgrade";
    /// The release that runs prepares nodes, with this as its argument.
    pub const PREPARE: &str = "prepare";
    /// Runs the steps of a node; the argument is the type of the Job.
    pub const NODE_STEPS: &str = "do_upgrade_node.sh";
    pub const MANIFESTS: &str = "upgrade_manifests.sh";
    pub const HELPER: &str = "upgrade-helper";
}

/// The variables that the steps of releases read.
pub mod variables {
    pub const UPGRADE_NAME: &str = "HARVESTER_UPGRADE_NAME";
    pub const NODE_NAME: &str = "HARVESTER_UPGRADE_NODE_NAME";
    pub const POD_NAME: &str = "HARVESTER_UPGRADE_POD_NAME";
}

/// The release repository, as its Service offers it.
pub mod repository {
    pub const CONTAINER: &str = "nginx-iso-server";
    /// How the upgrade image of a release serves an ISO: with its nginx, from a loop device (`upgrade_repo.go` of Harvester 1.7).
    pub const SERVE_ISO: &str = "set -e\nmkdir -p /srv/www/htdocs/harvester-iso\n\
        mount -o loop,ro /iso/disk.img /srv/www/htdocs/harvester-iso\nexec nginx -g 'daemon off;'\n";
    /// Lets a machine that boots the ISO of a release serve it instead of installing it.
    pub const SERVE_MODE: &str =
        "name: \"enable repo mode\"\nstages:\n  rootfs:\n  - commands:\n    - echo > /sysroot/harvester-serve-iso\n";
    pub const PATH: &str = "harvester-iso";
    pub const RELEASE_FILE: &str = "harvester-release.yaml";
    pub const PORT: u16 = 80;
}
