//! What is read of the objects that a plan follows from.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use drover_api::harvester::node::UPGRADE_PAUSE;
use drover_api::marks::{CLAIMS, NODE_CLAIM, NODE_RETRY};
use drover_api::rancher::machine_plan::{annotations, keys, labels};
use drover_api::rancher::provisioning_cluster::UpgradeStrategy;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::marks::PLANNED;
use crate::claims::{Claims, Mark};

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    #[serde(deserialize_with = "number")]
    pub resource_version: u64,
    pub generation: i64,
    #[serde(deserialize_with = "or_default")]
    pub labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub annotations: BTreeMap<String, String>,
    deletion_timestamp: Option<String>,
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(String::deserialize(deserializer)?.parse().unwrap_or(0))
}

fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl Meta {
    /// The metadata of a patch that must not meet another version of the object.
    pub(super) fn guard(&self) -> Value {
        json!({ "resourceVersion": self.resource_version.to_string() })
    }

    fn note(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// The Cluster of provisioning.cattle.io, by which users ask.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ClusterSeen {
    #[serde(rename = "metadata")]
    pub meta: Meta,
    #[serde(deserialize_with = "or_default")]
    spec: ClusterSpec,
    #[serde(deserialize_with = "or_default")]
    pub(super) status: Value,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClusterSpec {
    kubernetes_version: String,
    #[serde(deserialize_with = "or_default")]
    rke_config: RkeConfig,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RkeConfig {
    provision_generation: i64,
    #[serde(deserialize_with = "or_default")]
    upgrade_strategy: Value,
}

impl ClusterSeen {
    /// What of its spec a control plane takes over.
    pub(super) fn wanted(&self) -> Value {
        let config = &self.spec.rke_config;
        json!({
            "kubernetesVersion": self.spec.kubernetes_version, "provisionGeneration": config.provision_generation,
            "upgradeStrategy": if config.upgrade_strategy.is_null() { json!({}) } else { config.upgrade_strategy.clone() },
        })
    }
}

/// What the planner works on.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ControlPlaneSeen {
    #[serde(rename = "metadata")]
    pub meta: Meta,
    #[serde(deserialize_with = "or_default")]
    spec: ControlPlaneSpec,
    #[serde(deserialize_with = "or_default")]
    pub(super) status: Value,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ControlPlaneSpec {
    kubernetes_version: String,
    provision_generation: i64,
    #[serde(deserialize_with = "or_default")]
    upgrade_strategy: Strategy,
}

/// Read twice: as it is, to compare, and as it is meant.
#[derive(Debug, Clone, Default, PartialEq)]
struct Strategy {
    text: Value,
    meant: UpgradeStrategy,
}

impl<'de> Deserialize<'de> for Strategy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Value::deserialize(deserializer)?;
        // Options that cannot be read ask for nothing; the API server would not have taken them.
        let meant = serde_json::from_value(text.clone()).unwrap_or_default();
        Ok(Strategy { text, meant })
    }
}

impl ControlPlaneSeen {
    pub(super) fn spec_as_asked(&self) -> Value {
        let strategy = &self.spec.upgrade_strategy.text;
        json!({
            "kubernetesVersion": self.spec.kubernetes_version, "provisionGeneration": self.spec.provision_generation,
            "upgradeStrategy": if strategy.is_null() { json!({}) } else { strategy.clone() },
        })
    }

    pub(super) fn claims(&self) -> Claims {
        Claims::read(self.meta.note(CLAIMS))
    }

    pub(super) fn strategy(&self) -> &UpgradeStrategy {
        &self.spec.upgrade_strategy.meant
    }

    pub(super) fn version(&self) -> &str {
        &self.spec.kubernetes_version
    }

    pub(super) fn generation(&self) -> i64 {
        self.spec.provision_generation
    }

    /// What is asked for, as a Secret remembers what its plan is for.
    pub(super) fn asked(&self) -> String {
        format!("{} {}", self.version(), self.generation())
    }

    /// What all machines had when the planner was last done with them.
    pub(super) fn applied(&self) -> Option<String> {
        let spec = &self.status["appliedSpec"];
        Some(format!("{} {}", spec["kubernetesVersion"].as_str()?, spec["provisionGeneration"].as_i64().unwrap_or(0)))
    }
}

/// The Cluster of Cluster API.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct CapiClusterSeen {
    #[serde(rename = "metadata")]
    pub meta: Meta,
    #[serde(deserialize_with = "or_default")]
    spec: CapiSpec,
    #[serde(deserialize_with = "or_default")]
    pub(super) status: Value,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct CapiSpec {
    paused: bool,
}

impl CapiClusterSeen {
    pub(super) fn paused(&self) -> bool {
        self.spec.paused
    }
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct MachineSeen {
    #[serde(rename = "metadata")]
    pub meta: Meta,
    #[serde(deserialize_with = "or_default")]
    status: MachineStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MachineStatus {
    #[serde(deserialize_with = "or_default")]
    node_ref: NodeRef,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct NodeRef {
    name: String,
}

impl MachineSeen {
    /// The name of its Node; empty if it has none.
    pub(super) fn node(&self) -> &str {
        &self.status.node_ref.name
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.meta.deletion_timestamp.is_some()
    }
}

/// A machine-plan Secret.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SecretSeen {
    #[serde(rename = "metadata")]
    pub meta: Meta,
    #[serde(deserialize_with = "or_default")]
    data: BTreeMap<String, String>,
}

impl SecretSeen {
    pub(super) fn machine(&self) -> &str {
        self.meta.labels.get(labels::MACHINE_NAME).map_or("", String::as_str)
    }

    pub(super) fn has(&self, role: &str) -> bool {
        self.meta.labels.get(role).is_some_and(|value| value == "true")
    }

    pub(super) fn is_init_node(&self) -> bool {
        self.has(labels::INIT_NODE)
    }

    pub(super) fn has_join_url(&self) -> bool {
        self.note(annotations::JOIN_URL).is_some()
    }

    pub(super) fn note(&self, key: &str) -> Option<&str> {
        self.meta.note(key)
    }

    pub(super) fn datum(&self, key: &str) -> Option<String> {
        let bytes = STANDARD.decode(self.data.get(key)?).ok()?;
        String::from_utf8(bytes).ok().filter(|text| !text.is_empty())
    }

    /// What its plan is for, as it was noted when that was delivered.
    pub(super) fn planned(&self) -> Option<&str> {
        self.note(PLANNED)
    }

    /// The agent has carried out the plan that stands there.
    pub(super) fn is_in_sync(&self) -> bool {
        match (self.datum(keys::PLAN), self.datum(keys::APPLIED_CHECKSUM)) {
            (Some(plan), Some(applied)) => checksum(&plan) == applied,
            _ => false,
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        let failed = self.datum(keys::FAILED_CHECKSUM);
        let is_this = failed.is_some() && failed == self.datum(keys::PLAN).map(|plan| checksum(&plan));
        !self.is_in_sync() && (is_this || self.datum(keys::PLAN_STATE).as_deref() == Some("failed"))
    }

    /// The probes of its plan that are not well; all of them before the agent has said anything.
    pub(super) fn ill_probes(&self) -> Vec<String> {
        let read = |key: &str| -> Value {
            self.datum(key).and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
        };
        let (plan, statuses) = (read(keys::PLAN), read(keys::PROBE_STATUSES));
        let names = plan["probes"].as_object().map(|probes| probes.keys().cloned().collect()).unwrap_or_default();
        let names: Vec<String> = names;
        names.into_iter().filter(|name| statuses[name]["healthy"] != true).collect()
    }

    /// A drain of its node has begun, and was not cleared away.
    pub(super) fn is_in_drain(&self) -> bool {
        super::marks::OF_A_DRAIN.iter().any(|key| self.note(key).is_some())
    }
}

pub(super) fn checksum(plan: &str) -> String {
    Sha256::digest(plan.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NodeSeen {
    #[serde(rename = "metadata")]
    pub meta: Meta,
    #[serde(deserialize_with = "or_default")]
    spec: NodeSpec,
    #[serde(deserialize_with = "or_default")]
    status: NodeStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct NodeSpec {
    unschedulable: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeStatus {
    node_info: NodeInfo,
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<Condition>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeInfo {
    kubelet_version: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    kind: String,
    pub status: String,
    pub reason: String,
}

impl NodeSeen {
    pub(super) fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.kind == kind)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(|ready| ready.status == "True")
    }

    pub(super) fn is_cordoned(&self) -> bool {
        self.spec.unschedulable
    }

    /// Its user wants to be asked before it is touched.
    pub(super) fn is_paused(&self) -> bool {
        self.meta.annotations.contains_key(UPGRADE_PAUSE)
    }

    /// Its user wants another try of what has failed on it.
    pub(super) fn wants_retry(&self) -> bool {
        self.meta.annotations.contains_key(NODE_RETRY)
    }

    pub(super) fn claim(&self) -> Option<&str> {
        self.meta.labels.get(NODE_CLAIM).map(String::as_str)
    }

    pub(super) fn mark(&self) -> Option<Mark> {
        serde_json::from_str(self.meta.note(NODE_CLAIM)?).ok()
    }

    /// Its kubelet is of the release; what stands after `+` is the build of a distribution.
    pub(super) fn runs(&self, version: &str) -> bool {
        let base = |version: &str| version.split(['+', '-']).next().unwrap_or_default().to_owned();
        base(&self.status.node_info.kubelet_version) == base(version)
    }
}
