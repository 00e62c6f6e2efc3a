//! What is kept of each object: the fields that decisions read, decoded straight from the parts.
//!
//! A whole Node or Job as typed structures costs ten times the memory of these.

use std::collections::BTreeMap;

use drover_api::plan::{PlanSpec, PlanStatus};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::claims::{ClaimId, Claims, Mark, SetAside};
use crate::cluster::Taint;
use crate::decision::{Kind, Subject, Wait};
use crate::plan::hash::secret_digest;

/// What every object has, and what tells two versions of it apart.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    pub name: String,
    #[serde(default)]
    pub namespace: String,
    #[serde(default)]
    pub uid: String,
    #[serde(default, deserialize_with = "number")]
    pub resource_version: u64,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    #[serde(default)]
    pub creation_timestamp: Option<Timestamp>,
    #[serde(default)]
    pub deletion_timestamp: Option<Timestamp>,
}

/// resourceVersions are compared as numbers: the newest wins.
fn number<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
    text.parse().map_err(|_| serde::de::Error::custom(format!("resourceVersion {text:?} is not a number")))
}

#[derive(Debug, Clone, PartialEq)]
pub struct NodeSeen {
    pub meta: Meta,
    pub unschedulable: bool,
    pub taints: Box<[Taint]>,
    pub ready: bool,
    pub boot_id: String,
    /// The claim on it, whoever's it is.
    pub claim: Option<ClaimId>,
    pub mark: Option<Box<Mark>>,
    /// A Plan has given up on it.
    pub set_aside: Option<Box<SetAside>>,
    /// Somebody wants to try again what failed on it.
    pub retry: bool,
    /// What its drain waits for, where the drain may not say so on its own pod.
    pub waits: Option<Vec<Wait>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct JobSeen {
    pub meta: Meta,
    /// The claim it was made under; none if Drover did not make it.
    pub claim: Option<ClaimId>,
    /// What its Plan asked for when it was made; none if Drover did not say.
    pub template: Option<String>,
    pub began: Option<Timestamp>,
    pub deadline: Option<Timestamp>,
    pub outcome: Option<Outcome>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Until when it is kept after its end.
    pub kept_until: Option<Timestamp>,
}

/// How a Job ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Complete,
    Failed { reason: String, message: String },
}

/// The pod of a Job, as far as its drain tells what it waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct PodSeen {
    pub meta: Meta,
    /// The name of its Job.
    pub job: String,
    pub waits: Vec<Wait>,
}

/// A Secret is known by its digest alone; its contents are not kept.
#[derive(Debug, Clone, PartialEq)]
pub struct SecretSeen {
    pub meta: Meta,
    /// None: it is there, but only its metadata may be read.
    pub digest: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PlanSeen {
    pub meta: Meta,
    /// A Plan that cannot be decoded is a state of that Plan; the others go on.
    pub spec: Result<PlanSpec, String>,
    pub status: PlanStatus,
    pub claims: Claims,
    /// The object as JSON, for the paths that the digest annotation names; null if there is none.
    pub raw: serde_json::Value,
}

/// Any object that the store holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    Plan(Box<PlanSeen>),
    Node(NodeSeen),
    Job(JobSeen),
    Secret(SecretSeen),
    Pod(PodSeen),
}

impl Seen {
    /// Decodes one object. Only an object without usable metadata is an error; a strange spec is not.
    pub fn decode(kind: Kind, json: &[u8]) -> Result<Option<Seen>, serde_json::Error> {
        Ok(match kind {
            Kind::Plan => Some(Seen::Plan(Box::new(PlanSeen::decode(json)?))),
            Kind::Node => Some(Seen::Node(NodeSeen::decode(json)?)),
            Kind::Job => Some(Seen::Job(JobSeen::decode(json)?)),
            Kind::Secret => Some(Seen::Secret(SecretSeen::decode(json)?)),
            Kind::Pod => Some(Seen::Pod(PodSeen::decode(json)?)),
            _ => None,
        })
    }

    pub fn meta(&self) -> &Meta {
        match self {
            Seen::Plan(plan) => &plan.meta,
            Seen::Node(node) => &node.meta,
            Seen::Job(job) => &job.meta,
            Seen::Secret(secret) => &secret.meta,
            Seen::Pod(pod) => &pod.meta,
        }
    }
}

/// An object as far as it is read: parts that are missing are as their defaults.
#[derive(Deserialize)]
struct Wire<S: Default, T: Default> {
    metadata: Meta,
    #[serde(default)]
    spec: S,
    #[serde(default)]
    status: T,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    last_transition_time: Option<Timestamp>,
}

fn has(conditions: &[Condition], kind: &str) -> bool {
    conditions.iter().any(|condition| condition.kind == kind && condition.status == "True")
}

/// What a drain tells on a pod or a Node is its own affair: words that cannot be read say nothing.
fn told_waits(metadata: &Meta) -> Option<Vec<Wait>> {
    let told = metadata.annotations.get(drover_api::marks::WAITS)?;
    Some(serde_json::from_str(told).unwrap_or_default())
}

impl NodeSeen {
    fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize, Default)]
        struct Spec {
            #[serde(default)]
            unschedulable: bool,
            #[serde(default)]
            taints: Box<[Taint]>,
        }
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase")]
        struct Status {
            #[serde(default)]
            conditions: Vec<Condition>,
            #[serde(default)]
            node_info: NodeInfo,
        }
        #[derive(Deserialize, Default)]
        struct NodeInfo {
            #[serde(default, rename = "bootID")]
            boot_id: String,
        }
        let Wire::<Spec, Status> { mut metadata, spec, status } = serde_json::from_slice(json)?;
        let claim = metadata.labels.get(drover_api::marks::NODE_CLAIM).map(|id| ClaimId::from(id.as_str()));
        let mark =
            metadata.annotations.get(drover_api::marks::NODE_CLAIM).and_then(|text| serde_json::from_str(text).ok());
        let set_aside =
            metadata.annotations.get(drover_api::marks::NODE_FAILED).and_then(|text| serde_json::from_str(text).ok());
        let retry = metadata.annotations.contains_key(drover_api::marks::NODE_RETRY);
        let waits = told_waits(&metadata);
        // Nodes carry many annotations of others; none of them is read.
        metadata.annotations = BTreeMap::new();
        Ok(NodeSeen {
            meta: metadata,
            unschedulable: spec.unschedulable,
            taints: spec.taints,
            ready: has(&status.conditions, "Ready"),
            boot_id: status.node_info.boot_id,
            claim,
            mark,
            set_aside,
            retry,
            waits,
        })
    }
}

impl JobSeen {
    fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase")]
        struct Spec {
            #[serde(default)]
            active_deadline_seconds: Option<i64>,
            #[serde(default)]
            ttl_seconds_after_finished: Option<i64>,
        }
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase")]
        struct Status {
            #[serde(default)]
            conditions: Vec<Condition>,
            #[serde(default)]
            start_time: Option<Timestamp>,
            #[serde(default)]
            completion_time: Option<Timestamp>,
        }
        let Wire::<Spec, Status> { mut metadata, spec, status } = serde_json::from_slice(json)?;
        let failed = status.conditions.iter().find(|c| c.kind == "Failed" && c.status == "True");
        let outcome = match failed {
            Some(condition) => {
                Some(Outcome::Failed { reason: condition.reason.clone(), message: condition.message.clone() })
            }
            None => has(&status.conditions, "Complete").then_some(Outcome::Complete),
        };
        let claim = metadata.labels.get(drover_api::marks::JOB_CLAIM).map(|id| ClaimId::from(id.as_str()));
        let template = metadata.annotations.remove(drover_api::marks::JOB_TEMPLATE);
        let ended = failed.and_then(|condition| condition.last_transition_time).or(status.completion_time);
        let after = |start: Option<Timestamp>, seconds: Option<i64>| {
            start.zip(seconds).and_then(|(start, seconds)| start.checked_add(SignedDuration::from_secs(seconds)).ok())
        };
        metadata.annotations = BTreeMap::new();
        Ok(JobSeen {
            meta: metadata,
            claim,
            template,
            began: status.start_time,
            deadline: after(status.start_time, spec.active_deadline_seconds),
            outcome,
            ended,
            kept_until: after(ended, spec.ttl_seconds_after_finished),
        })
    }
}

impl PodSeen {
    fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        let Wire::<IgnoredAny, IgnoredAny> { mut metadata, .. } = serde_json::from_slice(json)?;
        let waits = told_waits(&metadata).unwrap_or_default();
        let job = metadata.labels.get(drover_api::plan::labels::JOB_NAME).cloned().unwrap_or_default();
        metadata.annotations = BTreeMap::new();
        metadata.labels.retain(|key, _| key == drover_api::plan::labels::PLAN);
        Ok(PodSeen { meta: metadata, job, waits })
    }
}

impl SecretSeen {
    fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        let secret: k8s_openapi::api::core::v1::Secret = serde_json::from_slice(json)?;
        let Wire::<(), ()> { mut metadata, .. } = serde_json::from_slice(json)?;
        metadata.annotations = BTreeMap::new();
        metadata.labels = BTreeMap::new();
        Ok(SecretSeen { meta: metadata, digest: Some(secret_digest(&secret)) })
    }

    /// One that is known to be there, and no more.
    pub fn unread(name: &str) -> Self {
        SecretSeen { meta: Meta { name: name.to_owned(), ..Meta::default() }, digest: None }
    }
}

impl PlanSeen {
    pub fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Parts<'a> {
            metadata: Meta,
            #[serde(borrow, default)]
            spec: Option<&'a RawValue>,
            #[serde(borrow, default)]
            status: Option<&'a RawValue>,
        }
        let parts: Parts<'_> = serde_json::from_slice(json)?;
        let spec = match parts.spec {
            Some(spec) => serde_json::from_str(spec.get()).map_err(|error| format!("spec cannot be read: {error}")),
            None => Err("spec is missing".to_owned()),
        };
        // The status is an output: one that cannot be read is written again from the facts.
        let status = parts.status.and_then(|status| serde_json::from_str(status.get()).ok()).unwrap_or_default();
        let claims = Claims::read(parts.metadata.annotations.get(drover_api::marks::CLAIMS).map(String::as_str));
        let is_digested = parts.metadata.annotations.contains_key(drover_api::plan::labels::DIGEST);
        let raw = if is_digested { serde_json::from_slice(json)? } else { serde_json::Value::Null };
        Ok(PlanSeen { meta: parts.metadata, spec, status, claims, raw })
    }

    pub fn subject(&self) -> Subject {
        Subject::plan(&self.meta.namespace, &self.meta.name)
    }
}
