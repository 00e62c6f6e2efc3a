//! `Setting` (harvesterhci.io/v1beta1): one option of the cluster, by name.
//! See <https://docs.harvesterhci.io/latest/advanced/index>.

use crate::foreign::{LooseCondition, foreign_kind, foreign_part};

foreign_kind! {
    Setting = "harvesterhci.io" "v1beta1" "settings" Cluster {
        value: String,
        default: String,
        customized: bool,
        source: String,
        status: SettingStatus,
    }
}

foreign_part! {
    SettingStatus {
        conditions: Vec<LooseCondition>,
    }
}

impl Setting {
    /// What holds: the value, or the default where that is empty.
    pub fn effective(&self) -> &str {
        let value = self.value.as_deref().filter(|value| !value.is_empty());
        value.or(self.default.as_deref()).unwrap_or_default()
    }
}

/// The settings that an upgrade reads or writes.
pub mod names {
    pub const UPGRADE_CONFIG: &str = "upgrade-config";
    pub const SERVER_VERSION: &str = "server-version";
    pub const UPGRADE_CHECKER_ENABLED: &str = "upgrade-checker-enabled";
    pub const UPGRADE_CHECKER_URL: &str = "upgrade-checker-url";
    pub const RELEASE_DOWNLOAD_URL: &str = "release-download-url";
    pub const CONTAINERD_REGISTRY: &str = "containerd-registry";
    pub const OVERCOMMIT_CONFIG: &str = "overcommit-config";
    pub const LONGHORN_V2_ENABLED: &str = "longhorn-v2-data-engine-enabled";
}

/// Words of the setting `upgrade-config`, which is JSON.
pub mod upgrade_config {
    pub const SKIP: &str = "skip";
    pub const SEQUENTIAL: &str = "sequential";
    pub const PARALLEL: &str = "parallel";
    pub const PRELOAD_STRATEGIES: [&str; 3] = [SKIP, SEQUENTIAL, PARALLEL];
    pub const AUTO: &str = "auto";
    pub const MANUAL: &str = "manual";
    /// What may stand in `logReadyTimeout`.
    pub const TIMEOUT_MINUTES: std::ops::RangeInclusive<i64> = 1..=20;
}

/// On `containerd-registry`: the version for which it was written anew.
pub const UPGRADE_PATCHED: &str = "harvesterhci.io/upgrade-patched";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_holds_where_there_is_no_value() {
        let mut setting = Setting::named(names::SERVER_VERSION);
        assert_eq!(setting.effective(), "");
        setting.default = Some("v1.6.0".into());
        assert_eq!(setting.effective(), "v1.6.0");
        setting.value = Some("v1.7.0".into());
        assert_eq!(setting.effective(), "v1.7.0");
    }
}
