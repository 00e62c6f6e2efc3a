//! Migrations: an instance gets a second pod on another node, its memory is copied, and the first pod ends.
//!
//! Models `pkg/virt-controller/watch/migration` of KubeVirt 1.6 and what the two virt-handlers report. How long the copying
//! takes, and whether it fails, is told by annotations of the instance.

use std::time::Duration;

use drover_api::kubevirt::virtual_machine_instance::{
    MigrationState, NODE_NAME, VirtualMachineInstance, phases as instance_phases,
};
use drover_api::kubevirt::virtual_machine_instance_migration::{
    EVACUATION, FINALIZER, MigrationSpec, PhaseTime, VMI_NAME, VirtualMachineInstanceMigration, phases,
};
use drover_clock::later;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{PARALLEL, PARALLEL_FROM_A_NODE, is_leaving, is_migratable, is_migrating, launcher, node, phase};
use crate::world::annotations::{self, DURATION, Lasts, MIGRATION_DURATION, MIGRATION_FAILS};
use crate::world::events::Note;
use crate::world::outcome::{Action, Outcome, doubled};
use crate::world::{loose, pods};

/// How long the copying takes if nothing else is said.
const COPYING: Duration = Duration::from_secs(10);
/// A target that finds no node for this long is given up.
const UNSCHEDULABLE: Duration = Duration::from_secs(300);
/// How soon one that has to wait for others is looked at again.
const AGAIN: Duration = Duration::from_secs(5);
/// The pause after a failed evacuation, and the longest one.
const FIRST_PAUSE: Duration = Duration::from_secs(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// What is known of a migration beside itself.
pub struct Scene<'a> {
    pub migration: &'a VirtualMachineInstanceMigration,
    pub instance: Option<&'a VirtualMachineInstance>,
    /// All pods of the instance.
    pub pods: &'a [Pod],
    /// All migrations of the instance, this one among them.
    pub of_instance: &'a [VirtualMachineInstanceMigration],
    /// How many others are under way, in the cluster and from the same node.
    pub under_way: usize,
    pub under_way_from_node: usize,
}

/// One that somebody asks for; the annotation says why.
pub fn of(instance: &VirtualMachineInstance, prefix: &str, why: &str, value: &str) -> VirtualMachineInstanceMigration {
    let name = pods::name(&instance.metadata).to_string();
    let mut migration = VirtualMachineInstanceMigration::named("");
    migration.metadata = ObjectMeta {
        generate_name: Some(format!("{prefix}-")),
        namespace: instance.metadata.namespace.clone(),
        labels: Some([(VMI_NAME.to_string(), name.clone())].into()),
        annotations: Some([(why.to_string(), value.to_string())].into()),
        finalizers: Some(vec![FINALIZER.into()]),
        ..ObjectMeta::default()
    };
    migration.spec = Some(MigrationSpec { vmi_name: Some(name), ..MigrationSpec::default() });
    migration
}

pub fn reconcile(scene: &Scene<'_>, now: Timestamp) -> Outcome {
    let migration = scene.migration;
    if let Some(labelled) = with_marks(migration) {
        return Outcome::act(vec![Action::update(&labelled)]);
    }
    if is_final(migration) {
        return tidy_up(scene);
    }
    let Some(instance) = scene.instance.filter(|instance| !super::has_ended(instance) && !is_leaving(instance)) else {
        return fail(scene, "the instance is gone", now);
    };
    if migration.metadata.deletion_timestamp.is_some() {
        // Somebody has taken it back while it was under way.
        return fail(scene, "Live migration aborted", now);
    }
    match migration_phase(migration) {
        "" => to(migration, phases::PENDING, now),
        phases::PENDING => start(scene, instance, now),
        phases::SCHEDULING => await_target(scene, instance, now),
        phases::SCHEDULED => to(migration, phases::PREPARING_TARGET, now),
        phases::PREPARING_TARGET => to(migration, phases::TARGET_READY, now),
        phases::TARGET_READY => hand_over(scene, instance, now),
        _ => copy(scene, instance, now),
    }
}

pub fn migration_phase(migration: &VirtualMachineInstanceMigration) -> &str {
    migration.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

pub fn is_final(migration: &VirtualMachineInstanceMigration) -> bool {
    matches!(migration_phase(migration), phases::SUCCEEDED | phases::FAILED)
}

/// It has a target pod, and has not come to an end.
pub fn has_target(migration: &VirtualMachineInstanceMigration) -> bool {
    !matches!(migration_phase(migration), "" | phases::PENDING | phases::SUCCEEDED | phases::FAILED)
}

pub fn instance_name(migration: &VirtualMachineInstanceMigration) -> &str {
    migration.spec.as_ref().and_then(|spec| spec.vmi_name.as_deref()).unwrap_or_default()
}

/// What the webhook of the original puts on every migration when it is made.
fn with_marks(migration: &VirtualMachineInstanceMigration) -> Option<VirtualMachineInstanceMigration> {
    if migration.metadata.deletion_timestamp.is_some() || is_final(migration) {
        return None;
    }
    let mut after = migration.clone();
    let name = instance_name(migration).to_string();
    after.metadata.labels.get_or_insert_default().entry(VMI_NAME.into()).or_insert(name);
    if !pods::has_finalizer(&after.metadata, FINALIZER) {
        after.metadata.finalizers.get_or_insert_default().push(FINALIZER.into());
    }
    (after != *migration).then_some(after)
}

/// Makes the target pod, if not too many others are under way.
fn start(scene: &Scene<'_>, instance: &VirtualMachineInstance, now: Timestamp) -> Outcome {
    if !is_migratable(instance) {
        return fail(scene, "the instance is not migratable", now);
    }
    if let Some(moment) = backs_off_until(scene).filter(|moment| now < *moment) {
        return Outcome::wait_until(moment);
    }
    let others = scene.of_instance.iter().any(|other| other != scene.migration && has_target(other));
    let no_room = scene.under_way >= PARALLEL || scene.under_way_from_node >= PARALLEL_FROM_A_NODE;
    if others || no_room || phase(instance) != instance_phases::RUNNING || is_migrating(instance) {
        return Outcome::wait_until(later(now, AGAIN));
    }
    if target_pod(scene).is_some() {
        return to(scene.migration, phases::SCHEDULING, now);
    }
    Outcome::act(vec![Action::CreatePod(Box::new(launcher::target(instance, scene.migration)))])
}

/// After each evacuation that failed the next one waits twice as long.
fn backs_off_until(scene: &Scene<'_>) -> Option<Timestamp> {
    let is_evacuation = |one: &&VirtualMachineInstanceMigration| {
        one.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(EVACUATION))
    };
    Some(scene.migration).filter(is_evacuation)?;
    let mut ended: Vec<(Timestamp, &str)> = scene
        .of_instance
        .iter()
        .filter(|one| is_evacuation(one) && is_final(one))
        .filter_map(|one| Some((ended_at(one)?, migration_phase(one))))
        .collect();
    ended.sort_unstable();
    let failures = ended.iter().rev().take_while(|(_, phase)| *phase == phases::FAILED).count();
    let (last, _) = ended.last().filter(|_| failures > 0)?;
    Some(later(*last, doubled(FIRST_PAUSE, u32::try_from(failures).unwrap_or(u32::MAX), LONGEST_PAUSE)))
}

fn ended_at(migration: &VirtualMachineInstanceMigration) -> Option<Timestamp> {
    let times = migration.status.as_ref()?.phase_transition_timestamps.as_ref()?;
    loose::moment(times.last()?.phase_transition_timestamp.as_ref())
}

fn target_pod<'a>(scene: &Scene<'a>) -> Option<&'a Pod> {
    let uid = pods::uid(&scene.migration.metadata);
    scene.pods.iter().find(|pod| launcher::migration_of(pod) == Some(uid))
}

fn await_target(scene: &Scene<'_>, instance: &VirtualMachineInstance, now: Timestamp) -> Outcome {
    let Some(pod) = target_pod(scene).filter(|pod| !pods::has_ended(pod) && !pods::is_leaving(pod)) else {
        return fail(scene, "the target pod is gone", now);
    };
    if !pods::is_ready(pod) {
        let made = pod.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
        let deadline = later(made, UNSCHEDULABLE);
        return match pods::node(pod) {
            None if now >= deadline => fail(scene, "the target pod cannot be scheduled", now),
            None => Outcome::wait_until(deadline),
            Some(_) => Outcome::nothing(),
        };
    }
    let mut after = instance.clone();
    let source = scene.pods.iter().find(|pod| pods::node(pod) == node(instance) && !pods::has_ended(pod));
    after.status.get_or_insert_default().migration_state = Some(MigrationState {
        migration_uid: Some(pods::uid(&scene.migration.metadata).into()),
        source_node: node(instance).map(Into::into),
        source_pod: source.map(|pod| pods::name(&pod.metadata).into()),
        target_node: pods::node(pod).map(Into::into),
        target_pod: Some(pods::name(&pod.metadata).into()),
        ..MigrationState::default()
    });
    let mut outcome = to(scene.migration, phases::SCHEDULED, now);
    outcome.actions.insert(0, Action::update(&after));
    outcome
}

fn hand_over(scene: &Scene<'_>, instance: &VirtualMachineInstance, now: Timestamp) -> Outcome {
    let mut after = instance.clone();
    if let Some(state) = own_state(scene, &mut after) {
        state.start_timestamp = Some(loose::text(now));
    }
    let mut outcome = to(scene.migration, phases::RUNNING, now);
    outcome.actions.insert(0, Action::update(&after));
    outcome
}

fn own_state<'a>(scene: &Scene<'_>, instance: &'a mut VirtualMachineInstance) -> Option<&'a mut MigrationState> {
    let uid = pods::uid(&scene.migration.metadata);
    let state = instance.status.as_mut()?.migration_state.as_mut()?;
    Some(state).filter(|state| state.migration_uid.as_deref() == Some(uid))
}

fn copy(scene: &Scene<'_>, instance: &VirtualMachineInstance, now: Timestamp) -> Outcome {
    let mut after = instance.clone();
    let Some(state) = own_state(scene, &mut after) else { return fail(scene, "its state is gone", now) };
    if state.completed == Some(true) {
        let ended = if state.failed == Some(true) { phases::FAILED } else { phases::SUCCEEDED };
        return to(scene.migration, ended, now);
    }
    let Some(target) = target_pod(scene).filter(|pod| !pods::has_ended(pod) && !pods::is_leaving(pod)) else {
        return fail(scene, "the target pod is gone", now);
    };
    let told = instance.metadata.annotations.as_ref();
    let takes = match annotations::lasts_for_all(told, MIGRATION_DURATION) {
        Some(Lasts::Forever) => return Outcome::nothing(),
        Some(Lasts::For(time)) => time,
        None => COPYING,
    };
    let ends = later(loose::moment(state.start_timestamp.as_ref()).unwrap_or(now), takes);
    if now < ends {
        return Outcome::wait_until(ends);
    }
    if told.and_then(|told| told.get(MIGRATION_FAILS)).is_some_and(|value| value == "true") {
        return fail(scene, "Live migration failed error encountered during MigrateToURI3 libvirt api call", now);
    }
    state.completed = Some(true);
    state.end_timestamp = Some(loose::text(now));
    let status = after.status.get_or_insert_default();
    status.node_name = pods::node(target).map(Into::into);
    // It has left the node that it was to leave.
    status.evacuation_node_name = None;
    if let Some(node) = pods::node(target) {
        after.metadata.labels.get_or_insert_default().insert(NODE_NAME.into(), node.into());
    }
    Outcome::act(vec![Action::update(&after)])
}

fn fail(scene: &Scene<'_>, why: &str, now: Timestamp) -> Outcome {
    let mut outcome = to(scene.migration, phases::FAILED, now);
    let Some(instance) = scene.instance else { return outcome };
    let mut after = instance.clone();
    if let Some(state) = own_state(scene, &mut after) {
        (state.completed, state.failed) = (Some(true), Some(true));
        state.failure_reason = Some(why.into());
        state.end_timestamp = Some(loose::text(now));
        outcome.actions.insert(0, Action::update(&after));
    }
    let uid = pods::uid(&scene.migration.metadata);
    let sentence = format!("VirtualMachineInstance migration uid {uid} failed. reason:{why}");
    let event = Note::warning("FailedMigration", sentence).by("virtualmachine-controller").about(instance);
    outcome.actions.push(Action::Note(Box::new(event)));
    outcome
}

/// The pod that lost ends: the source after a success, the target after a failure.
fn tidy_up(scene: &Scene<'_>) -> Outcome {
    let target = pods::uid(&scene.migration.metadata);
    let alive = scene.pods.iter().filter(|pod| !pods::has_ended(pod) && !pods::is_leaving(pod));
    let here = scene.instance.and_then(node);
    let mut deeds: Vec<Action> = match migration_phase(scene.migration) {
        phases::FAILED => alive
            .filter(|pod| launcher::migration_of(pod) == Some(target) && pods::node(pod) != here)
            .map(Action::delete_pod)
            .collect(),
        _ if is_last(scene) => {
            let left = alive.filter(|pod| pods::node(pod) != here && !is_awaited(scene, pod));
            left.filter_map(told_to_end).collect()
        }
        _ => Vec::new(),
    };
    if scene.migration.metadata.deletion_timestamp.is_some()
        && pods::has_finalizer(&scene.migration.metadata, FINALIZER)
    {
        let mut after = scene.migration.clone();
        after.metadata.finalizers.get_or_insert_default().retain(|finalizer| finalizer != FINALIZER);
        deeds.push(Action::update(&after));
    }
    Outcome::act(deeds)
}

/// The pod is where the instance goes next, though it has not set out yet.
fn is_awaited(scene: &Scene<'_>, pod: &Pod) -> bool {
    let unfinished = scene.of_instance.iter().filter(|other| !is_final(other));
    let mut uids = unfinished.map(|other| pods::uid(&other.metadata));
    uids.any(|uid| launcher::migration_of(pod) == Some(uid))
}

/// The instance has not set out again since.
fn is_last(scene: &Scene<'_>) -> bool {
    let state = scene.instance.and_then(|instance| instance.status.as_ref()?.migration_state.as_ref());
    let uid = pods::uid(&scene.migration.metadata);
    state.is_some_and(|state| state.migration_uid.as_deref() == Some(uid)) && !scene.of_instance.iter().any(has_target)
}

/// A launcher whose guest has gone elsewhere ends by itself.
fn told_to_end(pod: &Pod) -> Option<Action> {
    let mut pod = pod.clone();
    let before = pod.metadata.annotations.get_or_insert_default().insert(DURATION.into(), "0s".into());
    (before.as_deref() != Some("0s")).then(|| Action::update(&pod))
}

fn to(migration: &VirtualMachineInstanceMigration, phase: &str, now: Timestamp) -> Outcome {
    let mut after = migration.clone();
    let status = after.status.get_or_insert_default();
    status.phase = Some(phase.into());
    status.phase_transition_timestamps.get_or_insert_default().push(PhaseTime {
        phase: Some(phase.into()),
        phase_transition_timestamp: Some(loose::text(now)),
        ..PhaseTime::default()
    });
    Outcome::act(vec![Action::status(&after)])
}
