//! `Setting` (management.cattle.io/v3): one option of Rancher.

use crate::foreign::foreign_kind;

foreign_kind! {
    Setting = "management.cattle.io" "v3" "settings" Cluster {
        value: String,
        default: String,
        customized: bool,
        source: String,
    }
}

pub mod names {
    pub const SERVER_VERSION: &str = "server-version";
    pub const CHART_DEFAULT_BRANCH: &str = "chart-default-branch";
    pub const TLS_ALLOWED_SERVICES: &str = "tls-internal-cn-allowed-services";
}
