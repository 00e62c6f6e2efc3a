//! The inside of a Plan's Job: names of containers, variables, volumes and paths that upgrade images rely on.

/// The operator's name, unless its settings say otherwise.
pub const CONTROLLER_NAME: &str = "system-upgrade-controller";
/// The image of the containers `cordon` and `drain`, unless the operator's settings say otherwise.
pub const KUBECTL_IMAGE: &str = "rancher/kubectl:v1.30.3";

pub mod containers {
    pub const PREPARE: &str = "prepare";
    pub const CORDON: &str = "cordon";
    pub const DRAIN: &str = "drain";
    pub const UPGRADE: &str = "upgrade";
}

pub mod variables {
    pub const NODE_NAME: &str = "SYSTEM_UPGRADE_NODE_NAME";
    pub const POD_NAME: &str = "SYSTEM_UPGRADE_POD_NAME";
    pub const POD_UID: &str = "SYSTEM_UPGRADE_POD_UID";
    pub const PLAN_NAME: &str = "SYSTEM_UPGRADE_PLAN_NAME";
    pub const PLAN_LATEST_HASH: &str = "SYSTEM_UPGRADE_PLAN_LATEST_HASH";
    pub const PLAN_LATEST_VERSION: &str = "SYSTEM_UPGRADE_PLAN_LATEST_VERSION";
}

pub mod volumes {
    /// The root of the node's file system.
    pub const HOST_ROOT: &str = "host-root";
    pub const HOST_ROOT_PATH: &str = "/host";
    /// The pod's labels and annotations.
    pub const POD_INFO: &str = "pod-info";
    pub const POD_INFO_PATH: &str = "/run/system-upgrade/pod";
    /// Where Secrets without an absolute path are mounted.
    pub const SECRETS_PATH: &str = "/run/system-upgrade/secrets";
}

/// What the upgrade container may do on the host if the Plan does not say.
pub const REBOOT_CAPABILITY: &str = "CAP_SYS_BOOT";
