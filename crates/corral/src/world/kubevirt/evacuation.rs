//! Evacuation: instances leave a node that has the drain taint, or from which somebody tried to evict them.
//!
//! Models `pkg/virt-controller/watch/drain/evacuation` of KubeVirt 1.6. An instance that cannot migrate stays, and an Event says
//! so every minute; one that does not want to is left to the drain.

use std::time::Duration;

use drover_api::harvester::node::DRAIN_TAINT;
use drover_api::kubevirt::virtual_machine_instance::VirtualMachineInstance;
use drover_api::kubevirt::virtual_machine_instance_migration::{EVACUATION, EVACUATION_PREFIX};
use drover_clock::later;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;

use super::migration::of;
use super::{PARALLEL, PARALLEL_FROM_A_NODE, evacuated_from, has_ended, is_leaving, is_migratable, wants_to_migrate};
use crate::world::events::Note;
use crate::world::outcome::{Action, Outcome};
use crate::world::pods;

const AGAIN: Duration = Duration::from_secs(5);
const TOLD_AGAIN: Duration = Duration::from_secs(60);

/// An instance on the node, and whether a migration of it has not come to its end.
pub struct Guest {
    pub instance: VirtualMachineInstance,
    pub strategy: String,
    pub migrates: bool,
}

/// `under_way` is how many migrations have not ended in the whole cluster.
pub fn reconcile(node: &Node, guests: &[Guest], under_way: usize, now: Timestamp) -> Outcome {
    let name = pods::name(&node.metadata);
    let drained = is_drained(node);
    let to_leave = guests.iter().filter(|guest| {
        !has_ended(&guest.instance)
            && !is_leaving(&guest.instance)
            && (drained || evacuated_from(&guest.instance) == Some(name))
            && wants_to_migrate(&guest.instance, &guest.strategy)
            && guest.strategy != drover_api::kubevirt::virtual_machine_instance::eviction::EXTERNAL
    });
    let (able, unable): (Vec<&Guest>, Vec<&Guest>) = to_leave.partition(|guest| is_migratable(&guest.instance));
    let candidates: Vec<&Guest> = able.into_iter().filter(|guest| !guest.migrates).collect();
    let from_here = guests.iter().filter(|guest| guest.migrates).count();
    let room = PARALLEL.saturating_sub(under_way).min(PARALLEL_FROM_A_NODE.saturating_sub(from_here));
    let mut actions: Vec<Action> = candidates
        .iter()
        .take(room)
        .map(|guest| Action::create(&of(&guest.instance, EVACUATION_PREFIX, EVACUATION, name)))
        .collect();
    actions.extend(unable.iter().map(|guest| {
        let event = Note::normal("FailedCreate", "VirtualMachineInstance is not migrateable");
        Action::Note(Box::new(event.by("disruptionbudget-controller").about(&guest.instance)))
    }));
    let wake = match (candidates.len() > room, unable.is_empty()) {
        (true, _) => Some(later(now, AGAIN)),
        (false, false) => Some(later(now, TOLD_AGAIN)),
        (false, true) => None,
    };
    Outcome { actions, wake }
}

pub fn is_drained(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.into_iter().flatten().any(|taint| taint.key == DRAIN_TAINT && taint.effect == "NoSchedule")
}
