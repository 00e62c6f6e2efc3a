//! The inside of a Plan's Job: names of containers, variables, volumes and paths that upgrade images rely on.

/// The operator's name, unless its settings say otherwise.
pub const CONTROLLER_NAME: &str = "system-upgrade-controller";
/// Drover's own image: that of the containers `cordon` and `drain`, unless the operator's settings say otherwise. It
/// understands the arguments of `kubectl cordon` and `kubectl drain`.
pub const DROVER_IMAGE: &str = concat!("drover.dev/drover:v", env!("CARGO_PKG_VERSION"));

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

/// Who containers on Windows run as.
pub const WINDOWS_USER: &str = r"NT AUTHORITY\SYSTEM";

/// The environment of the operator, as system-upgrade-controller reads it.
pub mod environment {
    /// What all of them begin with.
    pub const PREFIX: &str = "SYSTEM_UPGRADE_";
    pub const CONTROLLER_NAME: &str = "SYSTEM_UPGRADE_CONTROLLER_NAME";
    pub const CONTROLLER_NAMESPACE: &str = "SYSTEM_UPGRADE_CONTROLLER_NAMESPACE";
    pub const ACTIVE_DEADLINE_SECONDS: &str = "SYSTEM_UPGRADE_JOB_ACTIVE_DEADLINE_SECONDS";
    pub const ACTIVE_DEADLINE_SECONDS_MAX: &str = "SYSTEM_UPGRADE_JOB_ACTIVE_DEADLINE_SECONDS_MAX";
    pub const BACKOFF_LIMIT: &str = "SYSTEM_UPGRADE_JOB_BACKOFF_LIMIT";
    pub const IMAGE_PULL_POLICY: &str = "SYSTEM_UPGRADE_JOB_IMAGE_PULL_POLICY";
    pub const CONTROLLER_DEBUG: &str = "SYSTEM_UPGRADE_CONTROLLER_DEBUG";
    pub const CONTROLLER_LEADER_ELECT: &str = "SYSTEM_UPGRADE_CONTROLLER_LEADER_ELECT";
    pub const CONTROLLER_KUBE_CONFIG: &str = "SYSTEM_UPGRADE_CONTROLLER_KUBE_CONFIG";
    pub const CONTROLLER_MASTER_URL: &str = "SYSTEM_UPGRADE_CONTROLLER_MASTER_URL";
    pub const CONTROLLER_NODE_NAME: &str = "SYSTEM_UPGRADE_CONTROLLER_NODE_NAME";
    pub const CONTROLLER_THREADS: &str = "SYSTEM_UPGRADE_CONTROLLER_THREADS";
    pub const POLLING_INTERVAL: &str = "SYSTEM_UPGRADE_PLAN_POLLING_INTERVAL";
    pub const KUBECTL_IMAGE_WINDOWS: &str = "SYSTEM_UPGRADE_JOB_KUBECTL_IMAGE_WINDOWS";
    pub const ELECTION_LEASE_DURATION: &str = "CATTLE_ELECTION_LEASE_DURATION";
    pub const ELECTION_RENEW_DEADLINE: &str = "CATTLE_ELECTION_RENEW_DEADLINE";
    pub const ELECTION_RETRY_PERIOD: &str = "CATTLE_ELECTION_RETRY_PERIOD";
    pub const KUBECTL_IMAGE: &str = "SYSTEM_UPGRADE_JOB_KUBECTL_IMAGE";
    /// Drover's own: what Jobs run whose program is Drover itself.
    pub const JOB_IMAGE: &str = "DROVER_JOB_IMAGE";
    pub const POD_REPLACEMENT_POLICY: &str = "SYSTEM_UPGRADE_JOB_POD_REPLACEMENT_POLICY";
    pub const PRIVILEGED: &str = "SYSTEM_UPGRADE_JOB_PRIVILEGED";
    pub const TTL_SECONDS_AFTER_FINISH: &str = "SYSTEM_UPGRADE_JOB_TTL_SECONDS_AFTER_FINISH";
}
