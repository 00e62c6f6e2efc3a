//! What makes pods, and the Secrets that they need.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;

use super::parts::{Condition, Meta, condition, is_true};
use super::shelf::projections;

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Deployment {
    pub metadata: Meta,
    pub spec: DeploymentSpec,
    pub status: ScaledStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ReplicaSet {
    pub metadata: Meta,
    pub spec: ScaledSpec,
    pub status: ScaledStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct StatefulSet {
    pub metadata: Meta,
    pub spec: ScaledSpec,
    pub status: ScaledStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScaledSpec {
    /// One if it is not said.
    pub replicas: Option<i64>,
    pub paused: bool,
    pub selector: LabelSelector,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentSpec {
    /// One if it is not said.
    pub replicas: Option<i64>,
    pub paused: bool,
    pub selector: LabelSelector,
    pub template: DeploymentTemplate,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct DeploymentTemplate {
    pub spec: DeploymentTemplateSpec,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct DeploymentTemplateSpec {
    pub containers: Box<[DeploymentContainer]>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct DeploymentContainer {
    pub name: String,
    pub image: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScaledStatus {
    pub replicas: i64,
    pub ready_replicas: i64,
    pub available_replicas: i64,
    pub updated_replicas: i64,
    pub observed_generation: i64,
    pub conditions: Box<[Condition]>,
}

impl ScaledSpec {
    pub fn wanted(&self) -> i64 {
        self.replicas.unwrap_or(1)
    }
}

impl DeploymentSpec {
    pub fn wanted(&self) -> i64 {
        self.replicas.unwrap_or(1)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct DaemonSet {
    pub metadata: Meta,
    pub status: DaemonSetStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetStatus {
    pub desired_number_scheduled: i64,
    pub current_number_scheduled: i64,
    /// Nodes that have a pod and should have none.
    pub number_misscheduled: i64,
    pub number_ready: i64,
    pub number_unavailable: i64,
    pub updated_number_scheduled: i64,
    pub observed_generation: i64,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Job {
    pub metadata: Meta,
    pub spec: JobSpec,
    pub status: JobStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSpec {
    pub active_deadline_seconds: Option<i64>,
    pub backoff_limit: Option<i64>,
    pub suspend: bool,
    pub ttl_seconds_after_finished: Option<i64>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    pub active: i64,
    pub succeeded: i64,
    pub failed: i64,
    pub start_time: Option<Timestamp>,
    pub completion_time: Option<Timestamp>,
    pub conditions: Box<[Condition]>,
}

impl Deployment {
    /// What a container of its pods runs.
    pub fn image_of(&self, container: &str) -> Option<&str> {
        let mut containers = self.spec.template.spec.containers.iter();
        containers.find(|one| one.name == container).map(|one| one.image.as_str())
    }

    /// All of its pods are of its newest template, and available.
    pub fn is_rolled_out(&self) -> bool {
        let (wanted, status) = (self.spec.wanted(), &self.status);
        status.observed_generation >= self.metadata.generation
            && [status.replicas, status.updated_replicas, status.available_replicas]
                .iter()
                .all(|count| *count == wanted)
    }
}

impl StatefulSet {
    /// The same; of pods that are not of its newest template it has none.
    pub fn is_rolled_out(&self) -> bool {
        let (wanted, status) = (self.spec.wanted(), &self.status);
        status.observed_generation >= self.metadata.generation
            && [status.updated_replicas, status.ready_replicas].iter().all(|count| *count == wanted)
    }
}

impl DaemonSet {
    /// The same, on every node where one should be.
    pub fn is_rolled_out(&self) -> bool {
        let status = &self.status;
        status.observed_generation >= self.metadata.generation
            && [status.updated_number_scheduled, status.number_ready]
                .iter()
                .all(|count| *count == status.desired_number_scheduled)
    }
}

impl Job {
    pub fn is_complete(&self) -> bool {
        is_true(&self.status.conditions, "Complete")
    }

    /// The condition that says that it has failed.
    pub fn failure(&self) -> Option<&Condition> {
        condition(&self.status.conditions, "Failed").filter(|condition| condition.is_true())
    }

    pub fn has_ended(&self) -> bool {
        self.is_complete() || self.failure().is_some()
    }
}

/// Its contents are not kept.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Secret {
    pub metadata: Meta,
    #[serde(rename = "type")]
    pub kind: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ServiceAccount {
    pub metadata: Meta,
}

projections! {
    ServiceAccount => "ServiceAccount",
    Deployment => "Deployment",
    ReplicaSet => "ReplicaSet",
    StatefulSet => "StatefulSet",
    DaemonSet => "DaemonSet",
    Job => "Job",
    Secret => "Secret",
}
