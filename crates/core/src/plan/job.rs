//! The Job that upgrades one node.
//!
//! Upgrade images, scripts and other controllers know it from system-upgrade-controller, so it is the same to the last
//! field. Ours are: the claim, without which its pod finds no node; the image that cordons and drains; that it is never
//! created paused; and that it goes after its pod when its Plan is deleted.

use std::collections::BTreeMap;

use drover_api::plan::jobs::{CONTROLLER_NAME, DROVER_IMAGE, volumes};
use drover_api::plan::{API_VERSION, KIND, PlanSpec, labels as plan_labels};
use drover_api::{marks, node};
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Affinity, DownwardAPIVolumeFile, DownwardAPIVolumeSource, HostPathVolumeSource, NodeAffinity, NodeSelector,
    NodeSelectorRequirement, NodeSelectorTerm, ObjectFieldSelector, PodAffinityTerm, PodAntiAffinity, PodSpec,
    PodTemplateSpec, SecretVolumeSource, Toleration, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    LabelSelector, LabelSelectorRequirement, ObjectMeta, OwnerReference,
};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::container::{self, some};
use super::duration::GoDuration;
use super::hash::{LatestHash, go_text};
use super::names::hex;
use super::{labels, names};
use crate::claims::ClaimId;
use crate::seen::Meta;

/// With it the garbage collector deletes the Job of a deleted Plan in the foreground, so that the Job is there for as long as its
/// pod works on the node. Whoever deletes the Job and asks for something else gets that.
/// <https://kubernetes.io/docs/concepts/architecture/garbage-collection/#foreground-deletion>
const AFTER_ITS_POD: &str = "foregroundDeletion";

/// Everything that the Job for one node follows from.
#[derive(Clone, Copy, Debug)]
pub struct JobOrder<'a> {
    pub plan: &'a Meta,
    pub spec: &'a PlanSpec,
    /// The name of the Node.
    pub node: &'a str,
    /// The Node's `kubernetes.io/hostname` label, by which its pod finds it.
    pub hostname: &'a str,
    /// Another Node has the same name up to its first dot.
    pub shares_short_name: bool,
    pub is_windows: bool,
    pub hash: &'a LatestHash,
    pub version: &'a str,
    /// What the Plan asks for: see [`template`].
    pub template: &'a str,
    pub claim: &'a ClaimId,
    pub settings: &'a JobSettings,
}

/// What the operator decides for all Jobs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JobSettings {
    /// The name under which the operator's Jobs are known.
    pub controller: String,
    /// For Plans that do not say how long a Job may take.
    pub active_deadline_seconds: i64,
    /// No Job may take longer than this, whatever its Plan says; 0: there is no such limit.
    pub active_deadline_seconds_max: i64,
    pub backoff_limit: i32,
    pub ttl_seconds_after_finished: i32,
    pub image_pull_policy: String,
    /// Of the containers `cordon` and `drain`.
    pub kubectl_image: String,
    /// The same on Windows; empty: nodes with Windows cannot be cordoned or drained.
    pub kubectl_image_windows: String,
    pub pod_replacement_policy: String,
    /// Of the upgrade container, if the Plan gives it no security context.
    pub privileged: bool,
}

impl Default for JobSettings {
    fn default() -> Self {
        Self {
            controller: CONTROLLER_NAME.to_owned(),
            active_deadline_seconds: 600,
            active_deadline_seconds_max: 0,
            backoff_limit: 2,
            ttl_seconds_after_finished: 900,
            image_pull_policy: "IfNotPresent".to_owned(),
            kubectl_image: DROVER_IMAGE.to_owned(),
            kubectl_image_windows: String::new(),
            pod_replacement_policy: "TerminatingOrFailed".to_owned(),
            privileged: true,
        }
    }
}

pub fn job(order: &JobOrder<'_>) -> Job {
    let ttl_seconds = ttl_seconds(order);
    Job {
        metadata: ObjectMeta {
            name: Some(names::job(&order.plan.name, order.node, order.shares_short_name, order.hash)),
            namespace: Some(order.plan.namespace.clone()),
            labels: Some(labels::of_job(order)),
            annotations: Some(labels::annotations_of_job(order, ttl_seconds)),
            owner_references: Some(vec![OwnerReference {
                api_version: API_VERSION.to_owned(),
                kind: KIND.to_owned(),
                name: order.plan.name.clone(),
                uid: order.plan.uid.clone(),
                controller: Some(true),
                block_owner_deletion: Some(false),
            }]),
            finalizers: Some(vec![AFTER_ITS_POD.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: Some(JobSpec {
            completions: Some(1),
            parallelism: Some(1),
            backoff_limit: Some(order.settings.backoff_limit),
            active_deadline_seconds: active_deadline_seconds(order),
            ttl_seconds_after_finished: Some(ttl_seconds),
            pod_replacement_policy: Some(order.settings.pod_replacement_policy.clone()),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels::of_pod(order)),
                    annotations: Some(labels::annotations_of_pods(order.plan))
                        .filter(|annotations| !annotations.is_empty()),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod(order)),
            },
            ..JobSpec::default()
        }),
        status: None,
    }
}

/// A digest of all that a Plan says of what its Jobs do. A Job at work is not interrupted by another release of Drover, nor by
/// somebody who labels or annotates the Plan.
pub fn template(spec: &PlanSpec, version: &str) -> String {
    let shaping = PlanSpec {
        version: version.to_owned(),
        channel: String::new(),
        concurrency: 0,
        node_selector: None,
        window: None,
        job_active_deadline_secs: None,
        post_complete_delay: None,
        post_complete_labels: BTreeMap::new(),
        ..spec.clone()
    };
    let digest = Sha256::digest(go_text(&json!(shaping)));
    hex(&digest)[..12].to_owned()
}

/// A finished Job must outlive the Plan's delay by a minute, or its end could be missed.
fn ttl_seconds(order: &JobOrder<'_>) -> i32 {
    let delay = order.spec.post_complete_delay.as_deref().and_then(GoDuration::parse);
    let least = delay.map_or(0, |delay| delay.as_secs().saturating_add(60));
    i32::try_from(least).unwrap_or(i32::MAX).max(order.settings.ttl_seconds_after_finished)
}

fn active_deadline_seconds(order: &JobOrder<'_>) -> Option<i64> {
    let wanted = match order.spec.job_active_deadline_secs {
        Some(0) => None,
        Some(seconds @ 1..) => Some(seconds),
        _ => Some(order.settings.active_deadline_seconds),
    };
    match order.settings.active_deadline_seconds_max {
        max @ 1.. => Some(wanted.map_or(max, |seconds| seconds.min(max))),
        _ => wanted,
    }
}

fn pod(order: &JobOrder<'_>) -> PodSpec {
    let spec = order.spec;
    let name = |name: &String| Some(name.clone()).filter(|name| !name.is_empty());
    let cordoned = Toleration {
        key: Some(node::UNSCHEDULABLE_TAINT.to_owned()),
        operator: Some("Exists".to_owned()),
        effect: Some("NoSchedule".to_owned()),
        ..Toleration::default()
    };
    PodSpec {
        host_ipc: Some(true),
        host_pid: Some(true),
        host_network: Some(true),
        dns_policy: Some("ClusterFirstWithHostNet".to_owned()),
        restart_policy: Some("Never".to_owned()),
        priority_class_name: name(&spec.priority_class_name),
        service_account_name: name(&spec.service_account_name),
        image_pull_secrets: some(spec.image_pull_secrets.clone()),
        tolerations: Some(std::iter::once(cordoned).chain(spec.tolerations.iter().cloned()).collect()),
        affinity: Some(Affinity {
            node_affinity: Some(only_this_node(order)),
            pod_anti_affinity: Some(not_beside_its_like(order)),
            pod_affinity: None,
        }),
        volumes: Some(volumes_of(spec)),
        init_containers: some(container::before(order)),
        containers: vec![container::upgrade(order)],
        ..PodSpec::default()
    }
}

/// The node, and only while it carries the claim: a Job that was ordered under an earlier one never gets a pod there.
fn only_this_node(order: &JobOrder<'_>) -> NodeAffinity {
    let is = |key: &str, value: &str| NodeSelectorRequirement {
        key: key.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![value.to_owned()]),
    };
    let term = NodeSelectorTerm {
        match_expressions: Some(vec![is(node::HOSTNAME, order.hostname), is(marks::NODE_CLAIM, order.claim.as_str())]),
        match_fields: None,
    };
    NodeAffinity {
        required_during_scheduling_ignored_during_execution: Some(NodeSelector { node_selector_terms: vec![term] }),
        ..NodeAffinity::default()
    }
}

/// Not where another pod of the Plan runs; or, if the Plan is exclusive, one of any exclusive Plan.
fn not_beside_its_like(order: &JobOrder<'_>) -> PodAntiAffinity {
    let (key, value) = match order.spec.exclusive {
        true => (plan_labels::EXCLUSIVE, "true"),
        false => (plan_labels::PLAN, order.plan.name.as_str()),
    };
    let like = LabelSelectorRequirement {
        key: key.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![value.to_owned()]),
    };
    let term = PodAffinityTerm {
        label_selector: Some(LabelSelector { match_expressions: Some(vec![like]), match_labels: None }),
        topology_key: node::HOSTNAME.to_owned(),
        ..PodAffinityTerm::default()
    };
    PodAntiAffinity {
        required_during_scheduling_ignored_during_execution: Some(vec![term]),
        ..PodAntiAffinity::default()
    }
}

fn volumes_of(spec: &PlanSpec) -> Vec<Volume> {
    let host_path = |name: &str, path: &str, type_: Option<&str>| Volume {
        name: name.to_owned(),
        host_path: Some(HostPathVolumeSource { path: path.to_owned(), type_: type_.map(str::to_owned) }),
        ..Volume::default()
    };
    let mut all = vec![host_path(volumes::HOST_ROOT, "/", Some("Directory")), pod_info()];
    all.extend(spec.secrets.iter().map(|secret| Volume {
        name: names::secret_volume(&secret.name),
        secret: Some(SecretVolumeSource {
            secret_name: Some(secret.name.clone()),
            default_mode: secret.default_mode,
            optional: Some(secret.ignore_updates),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    }));
    all.extend(spec.upgrade.volumes.iter().map(|volume| host_path(&volume.name, &volume.source, None)));
    all
}

fn pod_info() -> Volume {
    const READABLE_BY_ALL: i32 = 0o644;
    let file = |name: &str| DownwardAPIVolumeFile {
        path: name.to_owned(),
        field_ref: Some(ObjectFieldSelector {
            api_version: Some("v1".to_owned()),
            field_path: format!("metadata.{name}"),
        }),
        ..DownwardAPIVolumeFile::default()
    };
    Volume {
        name: volumes::POD_INFO.to_owned(),
        downward_api: Some(DownwardAPIVolumeSource {
            default_mode: Some(READABLE_BY_ALL),
            items: Some(vec![file("labels"), file("annotations")]),
        }),
        ..Volume::default()
    }
}

#[cfg(test)]
mod tests;
