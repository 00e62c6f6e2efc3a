//! Nodes, and the heartbeats of their kubelets.

use drover_api::node::UNSCHEDULABLE_TAINT;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::amount::Amounts;
use super::parts::{Condition, Meta, condition, is_true};
use super::shelf::projections;

/// Where kubelets renew their Leases.
pub const LEASES: &str = "kube-node-lease";
/// The node controller takes a node for lost after this time without a heartbeat; its default.
const GRACE: SignedDuration = SignedDuration::from_secs(50);
const NO_SCHEDULE: &str = "NoSchedule";

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Node {
    pub metadata: Meta,
    pub spec: NodeSpec,
    pub status: NodeStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    pub unschedulable: bool,
    pub taints: Box<[Taint]>,
    #[serde(rename = "providerID")]
    pub provider_id: String,
}

/// Whole, since a Node's taints can only be written back whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    pub key: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    pub effect: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Timestamp>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    pub capacity: Amounts,
    pub allocatable: Amounts,
    pub conditions: Box<[Condition]>,
    pub node_info: NodeInfo,
    pub addresses: Box<[Address]>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeInfo {
    pub kubelet_version: String,
    pub os_image: String,
    pub kernel_version: String,
    pub container_runtime_version: String,
    #[serde(rename = "bootID")]
    pub boot_id: String,
    pub architecture: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Address {
    #[serde(rename = "type")]
    pub kind: String,
    pub address: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Lease {
    pub metadata: Meta,
    pub spec: LeaseSpec,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseSpec {
    pub holder_identity: String,
    pub lease_duration_seconds: Option<i64>,
    pub renew_time: Option<Timestamp>,
    pub acquire_time: Option<Timestamp>,
}

projections! { Node => "Node", Lease => "Lease" }

impl Node {
    pub fn is_ready(&self) -> bool {
        is_true(&self.status.conditions, "Ready")
    }

    pub fn ready(&self) -> Option<&Condition> {
        condition(&self.status.conditions, "Ready")
    }

    /// Taints that keep new pods away, beside the cordon.
    pub fn barriers(&self) -> impl Iterator<Item = &Taint> {
        self.spec.taints.iter().filter(|taint| {
            matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute") && taint.key != UNSCHEDULABLE_TAINT
        })
    }
}

impl Taint {
    /// The one that a cordoned node has.
    pub fn of_cordon() -> Self {
        Taint { key: UNSCHEDULABLE_TAINT.to_owned(), effect: NO_SCHEDULE.to_owned(), ..Taint::default() }
    }

    pub fn is_of_cordon(&self) -> bool {
        self.key == UNSCHEDULABLE_TAINT && self.effect == NO_SCHEDULE
    }

    /// `key=value:Effect`, as kubectl takes it.
    pub fn in_words(&self) -> String {
        match self.value.as_str() {
            "" => format!("{}:{}", self.key, self.effect),
            value => format!("{}={value}:{}", self.key, self.effect),
        }
    }
}

impl Lease {
    /// Since when its holder is silent, if that is longer than a node controller waits.
    pub fn silent_since(&self, now: Timestamp) -> Option<Timestamp> {
        self.spec.renew_time.filter(|renewed| now.duration_since(*renewed) > GRACE)
    }
}
