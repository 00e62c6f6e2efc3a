//! Pods and revisions from a pod template, as the controllers of workloads make them.

use drover_clock::later;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::Resource;

use crate::world::kubelet::digest;
use crate::world::notes::PodNote;
use crate::world::pods;

/// The signs that Kubernetes makes generated names of: no vowels, nothing that is easily mistaken.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A pod of a template, owned by an object. Its name is made up by the server unless it is given one.
pub fn pod<K: Resource<DynamicType = ()>>(owner: &K, template: &PodTemplateSpec) -> Pod {
    let metadata = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", pods::name(owner.meta()))),
            namespace: owner.meta().namespace.clone(),
            labels: metadata.labels,
            annotations: metadata.annotations,
            finalizers: metadata.finalizers,
            owner_references: Some(vec![controlled_by(owner)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

pub fn controlled_by<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into(),
        kind: K::kind(&()).into(),
        name: pods::name(owner.meta()).into(),
        uid: pods::uid(owner.meta()).into(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// A short name for a template: the same for the same one. The original hashes a dump of Go's memory, so its names differ.
pub fn hash(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    let text = serde_json::to_string(template).unwrap_or_default();
    let [a, b, c, d, ..] = digest(&["template", &text, &collisions.unwrap_or(0).to_string()]);
    let number = u32::from_be_bytes([a, b, c, d]).to_string();
    number.bytes().map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()])).collect()
}

/// A number as it stands, or a percentage of `whole`.
pub fn share(value: Option<&IntOrString>, whole: i32, round_up: bool) -> i32 {
    match value {
        None => 0,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(text)) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            let hundredths = i64::from(whole) * percent + if round_up { 99 } else { 0 };
            i32::try_from(hundredths / 100).unwrap_or(i32::MAX)
        }
    }
}

/// When the next of these pods has been ready for long enough to count as available.
pub fn next_available<'a>(
    pods: impl Iterator<Item = &'a PodNote>,
    min_ready_seconds: i32,
    now: Timestamp,
) -> Option<Timestamp> {
    pods.filter_map(|pod| pod.available_from(min_ready_seconds)).filter(|moment| *moment > now).min()
}

/// From when a pod counts as available: when it has been ready for so many seconds.
impl PodNote {
    pub fn available_from(&self, min_ready_seconds: i32) -> Option<Timestamp> {
        if !self.ready || self.leaving {
            return None;
        }
        let needed = std::time::Duration::from_secs(u64::try_from(min_ready_seconds).unwrap_or(0));
        match self.ready_since {
            Some(since) if !needed.is_zero() => Some(later(since, needed)),
            Some(_) => Some(Timestamp::MIN),
            None => needed.is_zero().then_some(Timestamp::MIN),
        }
    }

    pub fn is_available(&self, min_ready_seconds: i32, now: Timestamp) -> bool {
        self.available_from(min_ready_seconds).is_some_and(|from| from <= now)
    }
}

pub fn count(items: impl Iterator) -> i32 {
    i32::try_from(items.count()).unwrap_or(i32::MAX)
}
