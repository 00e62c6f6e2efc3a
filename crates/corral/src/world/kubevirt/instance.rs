//! Instances: the launcher pod of each, its phases, and whether it can migrate.
//!
//! Models `pkg/virt-controller/watch/vmi` and what virt-handler reports, of KubeVirt 1.6.

use std::collections::BTreeMap;

use drover_api::kubevirt::virtual_machine_instance::{
    FINALIZER, NODE_NAME, VirtualMachineInstance, conditions, phases,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::{has_ended, is_leaving, launcher, node, phase};
use crate::world::loose;
use crate::world::outcome::{Action, Outcome};
use crate::world::pods;

const TERMINATING: &str = "PodTerminating";

/// What is known of an instance beside itself.
pub struct Scene<'a> {
    pub instance: &'a VirtualMachineInstance,
    /// All pods that it controls.
    pub pods: &'a [Pod],
    /// Claims of it that only one node can use at a time.
    pub unshared: &'a [String],
}

pub fn reconcile(scene: &Scene<'_>, now: Timestamp) -> Outcome {
    let instance = scene.instance;
    if is_leaving(instance) {
        return leave(scene, now);
    }
    let mut after = instance.clone();
    let mut deeds = Vec::new();
    if !pods::has_finalizer(&after.metadata, FINALIZER) && !has_ended(instance) {
        after.metadata.finalizers.get_or_insert_default().push(FINALIZER.into());
    }
    match phase(instance) {
        "" => set_phase(&mut after, phases::PENDING),
        phases::PENDING => match own_pod(scene) {
            Some(_) => set_phase(&mut after, phases::SCHEDULING),
            None => deeds.push(Action::CreatePod(Box::new(launcher::pod(instance)))),
        },
        phases::SCHEDULING => schedule(scene, &mut after, now),
        phases::SCHEDULED => set_phase(&mut after, phases::RUNNING),
        phases::RUNNING => run(scene, &mut after, now),
        _ => {}
    }
    describe(scene, &mut after, now);
    if after != *instance {
        deeds.push(Action::update(&after));
    }
    Outcome::act(deeds)
}

/// A guest is shut down before its instance goes: the pods go first.
fn leave(scene: &Scene<'_>, now: Timestamp) -> Outcome {
    let instance = scene.instance;
    let alive = scene.pods.iter().filter(|pod| !pods::has_ended(pod));
    let told: Vec<Action> = alive.clone().filter(|pod| !pods::is_leaving(pod)).map(Action::delete_pod).collect();
    if alive.count() > 0 {
        return Outcome::act(told);
    }
    let mut after = instance.clone();
    if !has_ended(instance) {
        set_phase(&mut after, phases::SUCCEEDED);
        describe(scene, &mut after, now);
        return Outcome::act(vec![Action::update(&after)]);
    }
    if !pods::has_finalizer(&instance.metadata, FINALIZER) {
        return Outcome::nothing();
    }
    after.metadata.finalizers.get_or_insert_default().retain(|finalizer| finalizer != FINALIZER);
    Outcome::act(vec![Action::update(&after)])
}

/// The pod that the instance starts in: the first that was not made for a migration.
fn own_pod<'a>(scene: &Scene<'a>) -> Option<&'a Pod> {
    scene.pods.iter().find(|pod| launcher::migration_of(pod).is_none() && !pods::has_ended(pod))
}

fn schedule(scene: &Scene<'_>, after: &mut VirtualMachineInstance, now: Timestamp) {
    let Some(pod) = scene.pods.iter().find(|pod| launcher::migration_of(pod).is_none()) else {
        return set_phase(after, phases::FAILED);
    };
    if pods::has_ended(pod) {
        return set_phase(after, phases::FAILED);
    }
    let status = after.status.get_or_insert_default();
    let scheduled = pods::condition(pod, pods::POD_SCHEDULED).filter(|condition| condition.status == "False");
    if let Some(waiting) = scheduled {
        let because = (waiting.reason.as_deref().unwrap_or_default(), waiting.message.as_deref().unwrap_or_default());
        loose::set(&mut status.conditions, pods::POD_SCHEDULED, "False", Some(because), now);
    } else if let Some(conditions) = &mut status.conditions {
        conditions.retain(|condition| condition.type_ != pods::POD_SCHEDULED);
    }
    if let Some(node) = pods::node(pod).filter(|_| pods::is_ready(pod)) {
        status.node_name = Some(node.into());
        status.phase = Some(phases::SCHEDULED.into());
        after.metadata.labels.get_or_insert_default().insert(NODE_NAME.into(), node.into());
    }
}

/// A guest that runs ends with its pod: well if the pod was told to end, else not.
fn run(scene: &Scene<'_>, after: &mut VirtualMachineInstance, now: Timestamp) {
    let pod = active_pod(scene);
    let was_told = {
        let conditions = after.status.as_ref().and_then(|status| status.conditions.as_ref());
        loose::find(conditions, conditions::READY).is_some_and(|ready| ready.reason.as_deref() == Some(TERMINATING))
    };
    match pod {
        Some(pod) if !pods::has_ended(pod) => {}
        Some(pod) if pods::phase(pod) == pods::SUCCEEDED => set_phase(after, phases::SUCCEEDED),
        _ if was_told => set_phase(after, phases::SUCCEEDED),
        _ => set_phase(after, phases::FAILED),
    }
    let can = migratability(scene);
    let status = after.status.get_or_insert_default();
    loose::set(
        &mut status.conditions,
        conditions::LIVE_MIGRATABLE,
        if can.is_none() { "True" } else { "False" },
        can.as_ref().map(|(reason, message)| (*reason, message.as_str())),
        now,
    );
}

/// The pod on the node that the instance is on. While two are there, the newer one has not taken over yet.
fn active_pod<'a>(scene: &Scene<'a>) -> Option<&'a Pod> {
    let on_node = |pod: &&Pod| pods::node(pod) == node(scene.instance);
    let mut found: Vec<&Pod> = scene.pods.iter().filter(on_node).collect();
    found.sort_by_key(|pod| (pods::has_ended(pod), pod.metadata.creation_timestamp.clone()));
    found.first().copied()
}

/// Why an instance cannot migrate, as virt-handler says it.
fn migratability(scene: &Scene<'_>) -> Option<(&'static str, String)> {
    let spec = scene.instance.spec.as_ref();
    let devices = spec.and_then(|spec| spec.domain.as_ref()?.devices.as_ref()?.host_devices.as_ref());
    if devices.is_some_and(|devices| !devices.is_empty()) {
        return Some(("HostDeviceNotLiveMigratable", "VMI uses a PCI host devices".into()));
    }
    let claim = scene.unshared.first()?;
    let why = format!(
        "cannot migrate VMI: PVC {claim} is not shared, live migration requires that all PVCs must be shared (using \
         ReadWriteMany access mode)"
    );
    Some(("DisksNotLiveMigratable", why))
}

/// What follows from phase and pods.
fn describe(scene: &Scene<'_>, after: &mut VirtualMachineInstance, now: Timestamp) {
    let active: BTreeMap<String, String> = scene
        .pods
        .iter()
        .filter(|pod| !pods::has_ended(pod))
        .filter_map(|pod| Some((pods::uid(&pod.metadata).to_string(), pods::node(pod)?.to_string())))
        .collect();
    let runs = phase(after) == phases::RUNNING;
    let leaving = active_pod(scene).is_some_and(pods::is_leaving);
    let ready = active_pod(scene).is_some_and(pods::is_ready) && runs && !leaving;
    let because = match (runs, leaving) {
        (true, true) => Some((TERMINATING, "virt-launcher pod is terminating")),
        (true, false) if !ready => Some(("PodNotReady", "virt-launcher pod has not ready yet")),
        (true, false) => None,
        (false, _) => Some(("GuestNotRunning", "Guest VM is not reported as running")),
    };
    let status = after.status.get_or_insert_default();
    status.active_pods = Some(active).filter(|active| !active.is_empty());
    loose::set(&mut status.conditions, conditions::READY, if ready { "True" } else { "False" }, because, now);
}

fn set_phase(instance: &mut VirtualMachineInstance, phase: &str) {
    instance.status.get_or_insert_default().phase = Some(phase.into());
}
