//! VMs that cannot leave their node are stopped, and noted first, so that they can be started again.

use std::collections::BTreeSet;

use drover_api::harvester::NAMESPACE;
use drover_api::harvester::jobs::COMPONENT;
use drover_api::harvester::jobs::components::REPO;
use drover_api::harvester::node::WITNESS;
use drover_api::kubevirt::virtual_machine::{START, strategies, verbs};
use drover_api::kubevirt::virtual_machine_instance::conditions::PAUSED;
use drover_api::kubevirt::virtual_machine_instance::phases;
use serde_json::json;

use super::super::names;
use super::{Next, Scene};
use crate::cluster::kubevirt::{VirtualMachine, VirtualMachineInstance};
use crate::cluster::{Node, is_true};
use crate::decision::{Act, Kind, Purpose, Reason, Subject, Wait, Write};
use crate::forecast::suits_vm;

/// The VMs that run on the node of the step. One that serves the release is nobody's: it is started again elsewhere if it cannot move.
pub(super) fn on_node<'a>(scene: &Scene<'a>) -> impl Iterator<Item = &'a VirtualMachineInstance> {
    let node = scene.order.node.clone();
    let is_repository =
        |vm: &VirtualMachineInstance| vm.metadata.labels.get(COMPONENT).is_some_and(|component| component == REPO);
    let here = scene.cluster.kubevirt.instances.iter();
    here.filter(move |vm| vm.status.node_name == node && !vm.is_over() && !is_repository(vm))
}

pub(super) fn path(vm: &VirtualMachineInstance) -> String {
    format!("{}/{}", vm.metadata.namespace, vm.metadata.name)
}

/// None if every VM there can move. One that can move only to a node that is away is not stopped for that: the node may be back in a moment.
pub(super) fn stop_those_that_stay(scene: &Scene<'_>) -> Option<Next> {
    let (mut staying, mut waiting) = (Vec::new(), Vec::new());
    for vm in on_node(scene) {
        match way(scene, vm) {
            Way::Moves => {}
            Way::Waits(node) => waiting.push((vm, node)),
            Way::Stays => staying.push(vm),
        }
    }
    if !staying.is_empty()
        && let Some(write) = note(scene, &staying)
    {
        return Some(Next::Wait { writes: vec![write], waits: Vec::new() });
    }
    let waits: Vec<Wait> = stopped(scene, &staying).into_iter().chain(waits_for(scene, &waiting)).collect();
    if waits.is_empty() {
        return None;
    }
    let is_asked_for = |vm: &&&VirtualMachineInstance| {
        let machine = scene.cluster.kubevirt.machines.get(&vm.metadata.namespace, &vm.metadata.name);
        machine.is_some_and(|machine| !machine.ends(vm))
    };
    let writes = staying.iter().filter(is_asked_for).map(|vm| Write {
        purpose: Purpose::Step,
        subject: Subject::new(Kind::VirtualMachine, &vm.metadata.namespace, &vm.metadata.name),
        act: Act::Call { part: verbs::STOP },
    });
    Some(Next::Wait { writes: writes.collect(), waits })
}

fn stopped(scene: &Scene<'_>, staying: &[&VirtualMachineInstance]) -> Option<Wait> {
    let names: Vec<String> = staying.iter().map(|vm| path(vm)).collect();
    let sentence = format!("VMs that cannot migrate are stopped on {}: {}", scene.order.node, names.join(", "));
    let wait = Wait::new(Subject::node(&scene.order.node), Reason::VmsLeaving, sentence, scene.now);
    (!staying.is_empty()).then_some(wait)
}

fn waits_for(scene: &Scene<'_>, waiting: &[(&VirtualMachineInstance, &str)]) -> Option<Wait> {
    let (first, _) = waiting.first()?;
    let vms: Vec<String> = waiting.iter().map(|(vm, _)| path(vm)).collect();
    let nodes: BTreeSet<&str> = waiting.iter().map(|(_, node)| *node).collect();
    let nodes = nodes.into_iter().collect::<Vec<&str>>().join(", ");
    let here = &scene.order.node;
    let sentence = format!("VMs can leave {here} only for nodes that are not Ready ({nodes}): {}", vms.join(", "));
    let metadata = &first.metadata;
    let stop = format!("virtctl -n {} stop {}", metadata.namespace, metadata.name);
    let wait = Wait::new(Subject::node(here), Reason::VmsLeaving, sentence, scene.now);
    Some(wait.with_remedy(format!("bring {nodes} back; or stop each of these VMs: {stop}")))
}

/// How a VM leaves its node.
enum Way<'a> {
    Moves,
    /// It would move to this node, which is away.
    Waits(&'a str),
    Stays,
}

fn way<'a>(scene: &Scene<'a>, vm: &VirtualMachineInstance) -> Way<'a> {
    if vm.refuses_migration().is_some() || !vm.spec.domain.devices.host_devices.is_empty() {
        return Way::Stays;
    }
    let is_host = |node: &&Node| !node.metadata.labels.contains_key(WITNESS);
    let others = scene.cluster.nodes.iter().filter(is_host).filter(|node| node.metadata.name != scene.order.node);
    // A cordon is somebody's will, and may last.
    let targets = others.filter(|node| !node.spec.unschedulable && suits_vm(vm, node));
    let (ready, away): (Vec<&Node>, Vec<&Node>) = targets.partition(|node| node.is_ready());
    match (ready.first(), away.first()) {
        (Some(_), _) => Way::Moves,
        (None, Some(node)) => Way::Waits(&node.metadata.name),
        (None, None) => Way::Stays,
    }
}

/// The list of what is started again; those that somebody has paused are not. Names that stand there stay: a step that is
/// begun anew no longer sees what it has stopped.
fn note(scene: &Scene<'_>, staying: &[&VirtualMachineInstance]) -> Option<Write> {
    let name = names::restore_list(&scene.order.upgrade);
    let known = scene.cluster.harvester.config_maps.get(NAMESPACE, &name);
    let before = known.and_then(|map| map.data.get(&scene.order.node)).map(String::as_str).unwrap_or_default();
    let mut list: Vec<String> = before.split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect();
    for vm in staying.iter().filter(|vm| !is_true(&vm.status.conditions, PAUSED)) {
        if !list.contains(&path(vm)) {
            list.push(path(vm));
        }
    }
    let text = list.join(",");
    if text == before {
        return None;
    }
    Some(scene.keep(&name, json!({ scene.order.node.as_str(): text })))
}

/// Starts what was stopped for the node. What is still on its way down is waited for: nobody else would start it.
pub(super) fn restore(scene: &Scene<'_>) -> Next {
    let list = scene.cluster.harvester.config_maps.get(NAMESPACE, &names::restore_list(&scene.order.upgrade));
    let names = list.and_then(|list| list.data.get(&scene.order.node)).map(String::as_str).unwrap_or_default();
    let (mut writes, mut ending) = (Vec::new(), Vec::new());
    for (namespace, name) in names.split(',').filter_map(|one| one.trim().split_once('/')) {
        // One that was deleted meanwhile is not missed.
        let Some(machine) = scene.cluster.kubevirt.machines.get(namespace, name) else { continue };
        match standing(machine, scene.cluster.kubevirt.instances.get(namespace, name)) {
            Standing::Off => writes.push(Write {
                purpose: Purpose::Step,
                subject: Subject::new(Kind::VirtualMachine, namespace, name),
                act: Act::Call { part: verbs::START },
            }),
            Standing::Ending => ending.push(format!("{namespace}/{name}")),
            Standing::On => {}
        }
    }
    if writes.is_empty() && ending.is_empty() {
        return Next::Done;
    }
    let sentence = format!("VMs are started again once they are off: {}", ending.join(", "));
    let wait = Wait::new(Subject::node(&scene.order.node), Reason::VmsLeaving, sentence, scene.now);
    Next::Wait { writes, waits: if ending.is_empty() { Vec::new() } else { vec![wait] } }
}

/// Where a machine stands that should run again.
enum Standing {
    /// It runs, or will without anybody's help.
    On,
    Ending,
    Off,
}

/// KubeVirt refuses to start what it starts by itself, and what runs once only.
fn standing(machine: &VirtualMachine, instance: Option<&VirtualMachineInstance>) -> Standing {
    let is_asked_to_start = machine.status.state_change_requests.iter().any(|request| request.action == START);
    match (machine.strategy(), instance) {
        (strategies::ALWAYS | strategies::ONCE, _) => Standing::On,
        _ if is_asked_to_start => Standing::On,
        (_, Some(instance)) if !instance.is_over() && machine.ends(instance) => Standing::Ending,
        (_, Some(instance)) if !instance.is_over() => Standing::On,
        (strategies::RERUN_ON_FAILURE, Some(instance)) if instance.status.phase == phases::FAILED => Standing::On,
        _ => Standing::Off,
    }
}
