//! `KubeVirt` (kubevirt.io/v1): the installation itself.

use crate::foreign::{LooseCondition, foreign_kind, foreign_part};

foreign_kind! {
    KubeVirt = "kubevirt.io" "v1" "kubevirts" Namespaced {
        status: KubeVirtStatus,
    }
}

foreign_part! {
    KubeVirtStatus {
        phase: String,
        #[serde(rename = "observedKubeVirtVersion")]
        observed_version: String,
        conditions: Vec<LooseCondition>,
    }
}

pub const DEPLOYED: &str = "Deployed";
