//! What is read of a pod to decide whether it has to go.

use jiff::Timestamp;
use serde::Deserialize;

/// How the scheduler's cordon looks to a pod.
const CORDON_TAINT: &str = "node.kubernetes.io/unschedulable";
/// The kubelet's own pods, of which the API server holds only a picture.
const MIRROR: &str = "kubernetes.io/config.mirror";

#[derive(Debug, Clone, PartialEq)]
pub struct PodSeen {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// It has run to its end.
    pub finished: bool,
    pub mirror: bool,
    pub empty_dir: bool,
    pub controller: Option<Controller>,
    /// When it will be gone, if it is on its way out.
    pub deletion_timestamp: Option<Timestamp>,
    pub deletion_grace_seconds: i64,
    pub tolerates_cordon: bool,
    /// The PersistentVolumeClaims that it mounts.
    pub claims: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Controller {
    pub api_version: String,
    pub kind: String,
    pub name: String,
}

impl Controller {
    pub fn is_daemon_set(&self) -> bool {
        self.kind == "DaemonSet" && self.api_version == "apps/v1"
    }
}

#[derive(Deserialize)]
struct Wire {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, serde::de::IgnoredAny>,
    #[serde(default)]
    owner_references: Vec<OwnerReference>,
    deletion_timestamp: Option<Timestamp>,
    deletion_grace_period_seconds: Option<i64>,
}

#[derive(Deserialize)]
struct OwnerReference {
    #[serde(default)]
    controller: bool,
    #[serde(flatten)]
    owner: Controller,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    volumes: Vec<Volume>,
    #[serde(default)]
    tolerations: Vec<Toleration>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Volume {
    empty_dir: Option<serde::de::IgnoredAny>,
    persistent_volume_claim: Option<ClaimSource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaimSource {
    claim_name: String,
}

#[derive(Deserialize)]
struct Toleration {
    #[serde(default)]
    key: String,
    #[serde(default)]
    operator: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    effect: String,
}

impl Toleration {
    fn covers_cordon(&self) -> bool {
        let key = match self.operator.as_str() {
            "Exists" => self.key.is_empty() || self.key == CORDON_TAINT,
            _ => self.key == CORDON_TAINT && self.value.is_empty(),
        };
        key && matches!(self.effect.as_str(), "" | "NoSchedule")
    }
}

#[derive(Deserialize, Default)]
struct Status {
    #[serde(default)]
    phase: String,
}

impl PodSeen {
    /// Reads a pod as the API server sends it.
    pub fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        let Wire { metadata, spec, status } = serde_json::from_slice(json)?;
        Ok(PodSeen {
            name: metadata.name,
            namespace: metadata.namespace,
            uid: metadata.uid,
            finished: matches!(status.phase.as_str(), "Succeeded" | "Failed"),
            mirror: metadata.annotations.contains_key(MIRROR),
            empty_dir: spec.volumes.iter().any(|volume| volume.empty_dir.is_some()),
            controller: metadata.owner_references.into_iter().find(|owner| owner.controller).map(|owner| owner.owner),
            deletion_timestamp: metadata.deletion_timestamp,
            deletion_grace_seconds: metadata.deletion_grace_period_seconds.unwrap_or(0),
            tolerates_cordon: spec.tolerations.iter().any(Toleration::covers_cordon),
            claims: spec
                .volumes
                .into_iter()
                .filter_map(|volume| volume.persistent_volume_claim)
                .map(|claim| claim.claim_name)
                .collect(),
        })
    }
}
