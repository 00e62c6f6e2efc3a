//! Deployments: roll from one ReplicaSet to the next.
//!
//! Models `pkg/controller/deployment` of Kubernetes 1.34: rolling updates within maxSurge and maxUnavailable, Recreate,
//! revisions and their history, proportional scaling, pause, and the progress deadline. Left out: the rollback of
//! `extensions/v1beta1`.

mod scaling;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStatus, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::template::{controlled_by, hash, share};
use crate::world::events::Note;
use crate::world::outcome::{Action, Outcome};
use crate::world::pods;

const TEMPLATE_HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations of a Deployment that its ReplicaSets do not get.
const NOT_COPIED: [&str; 5] =
    ["kubectl.kubernetes.io/last-applied-configuration", REVISION, REVISION_HISTORY, DESIRED_REPLICAS, MAX_REPLICAS];

/// What to do about a Deployment, given its ReplicaSets and how many pods of each, by uid, have not ended.
pub fn reconcile(
    deployment: &Deployment,
    sets: Vec<ReplicaSet>,
    pods_of: &BTreeMap<String, usize>,
    now: Timestamp,
) -> Outcome {
    let Some(spec) = &deployment.spec else { return Outcome::nothing() };
    let mut rollout = Rollout::new(deployment, spec, sets);
    let mut status = deployment.status.clone().unwrap_or_default();
    if deployment.metadata.deletion_timestamp.is_some() {
        let status = status::counted(&rollout, status, now);
        return rollout.finish(status, now);
    }
    status::mark_pause(spec, &mut status, now);
    rollout.adopt();
    if spec.paused == Some(true) || rollout.is_being_scaled() {
        if rollout.new.is_some() {
            rollout.revise_new();
        }
        rollout.scale_in_proportion();
        if spec.paused == Some(true) {
            rollout.forget_old();
        }
        let status = status::counted(&rollout, status, now);
        return rollout.finish(status, now);
    }
    if is_recreate(spec) {
        rollout.recreate(&mut status, pods_of, now);
    } else {
        rollout.roll(&mut status, now);
    }
    if status::is_complete(spec, &status::counted(&rollout, status.clone(), now)) {
        rollout.forget_old();
    }
    let status = status::with_progress(&rollout, status, now);
    rollout.finish(status, now)
}

/// A Deployment with its ReplicaSets on the way from old to new.
struct Rollout<'a> {
    deployment: &'a Deployment,
    spec: &'a DeploymentSpec,
    /// As they are to be; those that have to be written are in `changed`.
    sets: Vec<ReplicaSet>,
    /// The one with the template of the Deployment.
    new: Option<usize>,
    changed: Vec<bool>,
    actions: Vec<Action>,
    notes: Vec<Action>,
}

impl<'a> Rollout<'a> {
    fn new(deployment: &'a Deployment, spec: &'a DeploymentSpec, mut sets: Vec<ReplicaSet>) -> Self {
        sets.sort_by_key(|set| {
            (set.metadata.creation_timestamp.as_ref().map(|time| time.0), pods::name(&set.metadata).to_string())
        });
        let new = sets.iter().position(|set| has_template(set, &spec.template));
        let changed = vec![false; sets.len()];
        Rollout { deployment, spec, sets, new, changed, actions: Vec::new(), notes: Vec::new() }
    }

    fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    fn max_surge(&self) -> i32 {
        let rolling = self.spec.strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
        if is_recreate(self.spec) {
            0
        } else {
            share(rolling.and_then(|rolling| rolling.max_surge.as_ref()), self.replicas(), true)
        }
    }

    fn max_unavailable(&self) -> i32 {
        if is_recreate(self.spec) || self.replicas() == 0 {
            return 0;
        }
        let rolling = self.spec.strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
        let most = share(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()), self.replicas(), false);
        // Rounding may leave no way forward.
        let most = if most == 0 && self.max_surge() == 0 { 1 } else { most };
        most.min(self.replicas())
    }

    /// Lone ReplicaSets that the Deployment selects become its own.
    fn adopt(&mut self) {
        for (set, changed) in self.sets.iter_mut().zip(&mut self.changed) {
            if pods::controller(&set.metadata).is_none() {
                set.metadata.owner_references.get_or_insert_default().push(controlled_by(self.deployment));
                *changed = true;
            }
        }
    }

    fn roll(&mut self, status: &mut DeploymentStatus, now: Timestamp) {
        let new = self.ensure_new(status, now);
        if !self.grow_new(new) {
            self.shrink_old(new);
        }
    }

    /// The new pods come when the old ones are gone, not before.
    fn recreate(&mut self, status: &mut DeploymentStatus, pods_of: &BTreeMap<String, usize>, now: Timestamp) {
        if self.new.is_some() {
            self.revise_new();
        }
        let mut scaled = false;
        for old in self.active_old() {
            scaled |= self.scale(old, 0);
        }
        let is_old = |(at, _): &(usize, &ReplicaSet)| Some(*at) != self.new;
        let left = self.sets.iter().enumerate().filter(is_old);
        let left: usize = left.filter_map(|(_, set)| pods_of.get(pods::uid(&set.metadata))).sum();
        if !scaled && left == 0 {
            let new = self.ensure_new(status, now);
            self.scale(new, self.replicas());
        }
    }

    /// The new ReplicaSet, made if there is none.
    fn ensure_new(&mut self, status: &mut DeploymentStatus, now: Timestamp) -> usize {
        if let Some(new) = self.new {
            self.revise_new();
            status::note_new(
                self.spec,
                status,
                "FoundNewReplicaSet",
                &format!("Found new replica set {:?}", self.name(new)),
                now,
            );
            return new;
        }
        let new = self.sets.len();
        let mut set = self.make_new(status.collision_count);
        self.sets.push(set.clone());
        self.changed.push(false);
        let replicas = self.new_size(new);
        set.spec.get_or_insert_default().replicas = Some(replicas);
        if let Some(slot) = self.sets.get_mut(new) {
            *slot = set.clone();
        }
        self.new = Some(new);
        let name = pods::name(&set.metadata).to_string();
        self.actions.push(Action::CreateReplicaSet(Box::new(set)));
        if replicas > 0 {
            self.say(format!("Scaled up replica set {name} from 0 to {replicas}"));
        }
        status::set_progressing(
            self.spec,
            status,
            "True",
            "NewReplicaSetCreated",
            &format!("Created new replica set {name:?}"),
            now,
        );
        new
    }

    fn make_new(&self, collisions: Option<i32>) -> ReplicaSet {
        let hash = hash(&self.spec.template, collisions);
        let mut template = self.spec.template.clone();
        let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
        labels.insert(TEMPLATE_HASH.into(), hash.clone());
        let mut selector = self.spec.selector.clone();
        selector.match_labels.get_or_insert_default().insert(TEMPLATE_HASH.into(), hash.clone());
        let mut set = ReplicaSet {
            metadata: ObjectMeta {
                name: Some(format!("{}-{hash}", pods::name(&self.deployment.metadata))),
                namespace: self.deployment.metadata.namespace.clone(),
                labels: template.metadata.as_ref().and_then(|metadata| metadata.labels.clone()),
                owner_references: Some(vec![controlled_by(self.deployment)]),
                ..ObjectMeta::default()
            },
            spec: Some(ReplicaSetSpec {
                replicas: Some(0),
                min_ready_seconds: self.spec.min_ready_seconds,
                selector,
                template: Some(template),
            }),
            status: None,
        };
        self.annotate(&mut set, self.next_revision());
        self.note_size(&mut set);
        set
    }

    /// The new ReplicaSet has the highest revision, and the annotations of its Deployment.
    fn revise_new(&mut self) {
        let Some(new) = self.new else { return };
        let Some(mut set) = self.sets.get(new).cloned() else { return };
        self.annotate(&mut set, self.next_revision());
        set.spec.get_or_insert_default().min_ready_seconds = self.spec.min_ready_seconds;
        self.replace(new, set);
    }

    fn annotate(&self, set: &mut ReplicaSet, revision: i64) {
        let own = self.deployment.metadata.annotations.iter().flatten();
        let copied: Vec<(String, String)> = own
            .filter(|(key, _)| !NOT_COPIED.contains(&key.as_str()))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let before = revision_of(set);
        let annotations = set.metadata.annotations.get_or_insert_default();
        annotations.extend(copied);
        if before.is_none_or(|before| before < revision) {
            annotations.insert(REVISION.into(), revision.to_string());
            if let Some(before) = before {
                let history = annotations.get(REVISION_HISTORY).cloned().unwrap_or_default();
                let history = if history.is_empty() { before.to_string() } else { format!("{history},{before}") };
                annotations.insert(REVISION_HISTORY.into(), history);
            }
        }
    }

    /// How large the Deployment was when its ReplicaSet was scaled last.
    fn note_size(&self, set: &mut ReplicaSet) {
        let annotations = set.metadata.annotations.get_or_insert_default();
        annotations.insert(DESIRED_REPLICAS.into(), self.replicas().to_string());
        annotations.insert(MAX_REPLICAS.into(), (self.replicas() + self.max_surge()).to_string());
    }

    fn next_revision(&self) -> i64 {
        let old = self.sets.iter().enumerate().filter(|(at, _)| Some(*at) != self.new);
        old.filter_map(|(_, set)| revision_of(set)).max().unwrap_or(0) + 1
    }

    /// Deletes ReplicaSets that nobody needs any more, the oldest revisions first.
    fn forget_old(&mut self) {
        let Some(limit) = self.spec.revision_history_limit.and_then(|limit| usize::try_from(limit).ok()) else {
            return;
        };
        let alive =
            |(at, set): &(usize, &ReplicaSet)| Some(*at) != self.new && set.metadata.deletion_timestamp.is_none();
        let mut old: Vec<&ReplicaSet> = self.sets.iter().enumerate().filter(alive).map(|(_, set)| set).collect();
        let surplus = old.len().saturating_sub(limit);
        old.sort_by_key(|set| (revision_of(set), pods::name(&set.metadata).to_string()));
        let is_idle = |set: &&&ReplicaSet| {
            let status = set.status.clone().unwrap_or_default();
            size(set) == 0 && status.replicas == 0 && status.observed_generation >= set.metadata.generation
        };
        let deletes = old.iter().take(surplus).filter(is_idle).map(|set| Action::DeleteReplicaSet {
            namespace: pods::namespace(&set.metadata).into(),
            name: pods::name(&set.metadata).into(),
            uid: pods::uid(&set.metadata).into(),
        });
        let deletes: Vec<Action> = deletes.collect();
        self.actions.extend(deletes);
    }

    fn replace(&mut self, at: usize, set: ReplicaSet) {
        if let (Some(slot), Some(changed)) = (self.sets.get_mut(at), self.changed.get_mut(at)) {
            *changed |= *slot != set;
            *slot = set;
        }
    }

    fn name(&self, at: usize) -> &str {
        self.sets.get(at).map(|set| pods::name(&set.metadata)).unwrap_or_default()
    }

    fn say(&mut self, sentence: String) {
        let event = Note::normal("ScalingReplicaSet", sentence).by("deployment-controller").about(self.deployment);
        self.notes.push(Action::Note(Box::new(event)));
    }

    /// Writes what has changed. The revision of the Deployment is that of its new ReplicaSet.
    fn finish(mut self, status: DeploymentStatus, now: Timestamp) -> Outcome {
        for (set, _) in self.sets.iter().zip(&self.changed).filter(|(_, changed)| **changed) {
            self.actions.push(Action::UpdateReplicaSet(Box::new(set.clone())));
        }
        self.actions.append(&mut self.notes);
        let wake = status::looks_again(self.spec, &status, now);
        let mut deployment = Deployment { status: Some(status), ..self.deployment.clone() };
        if let Some(revision) = self.new.and_then(|new| self.sets.get(new)).and_then(revision_of) {
            let annotations = deployment.metadata.annotations.get_or_insert_default();
            annotations.insert(REVISION.into(), revision.to_string());
        }
        if deployment != *self.deployment {
            self.actions.push(Action::DeploymentStatus(Box::new(deployment)));
        }
        Outcome { actions: self.actions, wake }
    }
}

fn is_recreate(spec: &DeploymentSpec) -> bool {
    spec.strategy.as_ref().is_some_and(|strategy| strategy.type_.as_deref() == Some("Recreate"))
}

/// Whether a ReplicaSet has this template, apart from the label that it got itself.
fn has_template(set: &ReplicaSet, template: &PodTemplateSpec) -> bool {
    let Some(mut own) = set.spec.as_ref().and_then(|spec| spec.template.clone()) else { return false };
    if let Some(labels) = own.metadata.as_mut().and_then(|metadata| metadata.labels.as_mut()) {
        labels.remove(TEMPLATE_HASH);
    }
    own == *template
}

fn revision_of(set: &ReplicaSet) -> Option<i64> {
    set.metadata.annotations.as_ref()?.get(REVISION)?.parse().ok()
}

fn size(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0)
}

fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}
