//! PodDisruptionBudgets.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;

use super::parts::{Condition, Meta};
use super::pod::Pod;
use super::shelf::projections;
use crate::plan::selector::Selector;

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PodDisruptionBudget {
    pub metadata: Meta,
    pub spec: BudgetSpec,
    pub status: BudgetStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetSpec {
    /// None selects nothing; one without requirements selects every pod of the namespace.
    pub selector: Option<LabelSelector>,
    pub min_available: Option<Bound>,
    pub max_unavailable: Option<Bound>,
    pub unhealthy_pod_eviction_policy: String,
}

/// A number, or a share of all pods: `1` or `50%`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Bound {
    Number(i64),
    Share(String),
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetStatus {
    pub current_healthy: i64,
    pub desired_healthy: i64,
    pub expected_pods: i64,
    pub disruptions_allowed: i64,
    pub observed_generation: i64,
    pub conditions: Vec<Condition>,
    /// Pods whose eviction is let through and that may not have gone yet.
    pub disrupted_pods: BTreeMap<String, Timestamp>,
}

projections! { PodDisruptionBudget => "PodDisruptionBudget" }

impl PodDisruptionBudget {
    pub fn covers(&self, pod: &Pod) -> bool {
        let selector = self.spec.selector.as_ref().and_then(|selector| Selector::parse(selector).ok());
        self.metadata.namespace == pod.metadata.namespace
            && selector.is_some_and(|selector| selector.matches(&pod.metadata.labels))
    }

    /// Before `policy/v1` a selector without requirements selected nothing.
    pub fn spare_all_by_an_empty_selector(&mut self) {
        self.spec.selector.take_if(|selector| *selector == LabelSelector::default());
    }

    /// As the user wrote it: `minAvailable: 2`.
    pub fn rule(&self) -> String {
        match (&self.spec.min_available, &self.spec.max_unavailable) {
            (Some(bound), _) => format!("minAvailable: {bound}"),
            (None, Some(bound)) => format!("maxUnavailable: {bound}"),
            (None, None) => "neither minAvailable nor maxUnavailable".to_owned(),
        }
    }
}

impl Bound {
    /// Of `all` pods, rounded up, as the disruption controller rounds. None for a share that cannot be read.
    pub fn of(&self, all: i64) -> Option<i64> {
        match self {
            Bound::Number(number) => Some(*number),
            Bound::Share(share) => {
                let percent: i64 = share.strip_suffix('%')?.parse().ok()?;
                Some((percent.saturating_mul(all)).saturating_add(99) / 100)
            }
        }
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bound::Number(number) => write!(f, "{number}"),
            Bound::Share(share) => f.write_str(share),
        }
    }
}
