//! Revisions of a StatefulSet or DaemonSet: each template that it has had, as a ControllerRevision.
//!
//! Models `pkg/controller/history` of Kubernetes 1.34.

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::Resource;
use serde_json::json;

use super::template::{controlled_by, hash};
use crate::world::labels::Labels;
use crate::world::outcome::Action;
use crate::world::pods;

/// On a revision: the short name of its template.
pub const HASH: &str = "controller.kubernetes.io/hash";
/// On a pod: the revision that it is of.
pub const POD_REVISION: &str = "controller-revision-hash";
const DEFAULT_HISTORY: i32 = 10;

/// The revisions of one object, the oldest first, with the one of its template last.
#[derive(Debug)]
pub struct History {
    pub revisions: Vec<ControllerRevision>,
    /// What has to be written for the history to be true.
    pub actions: Vec<Action>,
}

impl History {
    /// Finds the revision of the template, or makes it.
    pub fn of<K: Resource<DynamicType = ()>>(
        owner: &K,
        template: &PodTemplateSpec,
        labels: Labels,
        collisions: Option<i32>,
        mut revisions: Vec<ControllerRevision>,
    ) -> History {
        revisions.sort_by_key(|revision| (revision.revision, name(revision).to_string()));
        let next = revisions.last().map_or(1, |last| last.revision + 1);
        let mut actions = Vec::new();
        let known = revisions.iter().position(|revision| template_of(revision).as_ref() == Some(template));
        match known {
            Some(at) if at + 1 == revisions.len() => {}
            Some(at) => {
                // A template that comes back is the newest again.
                let mut again = revisions.remove(at);
                again.revision = next;
                actions.push(Action::UpdateRevision(Box::new(again.clone())));
                revisions.push(again);
            }
            None => {
                let made = make(owner, template, labels, collisions, next);
                actions.push(Action::CreateRevision(Box::new(made.clone())));
                revisions.push(made);
            }
        }
        History { revisions, actions }
    }

    /// The revision of the template.
    pub fn update(&self) -> Option<&ControllerRevision> {
        self.revisions.last()
    }

    pub fn named(&self, wanted: &str) -> Option<&ControllerRevision> {
        self.revisions.iter().find(|revision| name(revision) == wanted)
    }

    /// Deletes what no pod is of, down to the limit, the oldest first.
    pub fn forget(&self, limit: Option<i32>, is_live: impl Fn(&ControllerRevision) -> bool) -> Vec<Action> {
        let Some((_, old)) = self.revisions.split_last() else { return Vec::new() };
        let idle: Vec<&ControllerRevision> = old.iter().filter(|revision| !is_live(revision)).collect();
        let limit = usize::try_from(limit.unwrap_or(DEFAULT_HISTORY)).unwrap_or(0);
        let surplus = idle.len().saturating_sub(limit);
        idle.into_iter()
            .take(surplus)
            .map(|revision| Action::DeleteRevision {
                namespace: pods::namespace(&revision.metadata).into(),
                name: name(revision).into(),
                uid: pods::uid(&revision.metadata).into(),
            })
            .collect()
    }
}

pub fn name(revision: &ControllerRevision) -> &str {
    pods::name(&revision.metadata)
}

pub fn hash_of(revision: &ControllerRevision) -> &str {
    revision.metadata.labels.as_ref().and_then(|labels| labels.get(HASH)).map(String::as_str).unwrap_or_default()
}

pub fn template_of(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut template = revision.data.as_ref()?.0.get("spec")?.get("template")?.clone();
    template.as_object_mut()?.remove("$patch");
    serde_json::from_value(template).ok()
}

fn make<K: Resource<DynamicType = ()>>(
    owner: &K,
    template: &PodTemplateSpec,
    mut labels: Labels,
    collisions: Option<i32>,
    number: i64,
) -> ControllerRevision {
    let hash = hash(template, collisions);
    labels.insert(HASH.into(), hash.clone());
    let mut data = json!({"spec": {"template": template}});
    data["spec"]["template"]["$patch"] = json!("replace");
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", pods::name(owner.meta()))),
            namespace: owner.meta().namespace.clone(),
            labels: Some(labels),
            owner_references: Some(vec![controlled_by(owner)]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(data)),
        revision: number,
    }
}
