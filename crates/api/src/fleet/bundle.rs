//! `Bundle` (fleet.cattle.io/v1alpha1): what is deployed to clusters.

use crate::foreign::{LooseCondition, foreign_kind, foreign_part};

foreign_kind! {
    Bundle = "fleet.cattle.io" "v1alpha1" "bundles" Namespaced {
        status: BundleStatus,
    }
}

foreign_part! {
    BundleStatus {
        observed_generation: i64,
        conditions: Vec<LooseCondition>,
    }
}

pub const READY: &str = "Ready";
