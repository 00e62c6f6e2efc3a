//! Why a virtual machine does not leave its node, or does not run. Its pod is protected by a budget until KubeVirt has
//! migrated it.

use drover_api::kubevirt::virtual_machine::strategies;
use jiff::SignedDuration;

use super::link::{Cause, Chain, Link, Outlook, sort};
use super::{Explanation, ending, node, pod};
use crate::cluster::kubevirt::{Migration, VirtualMachine, VirtualMachineInstance};
use crate::cluster::{Cluster, ObjectRef, Pod};

const KIND: &str = "VirtualMachineInstance";
/// On the pods of a VM: the uid of its instance.
const CREATED_BY: &str = "kubevirt.io/created-by";
/// So long KubeVirt may take to begin with a migration.
const USUAL: SignedDuration = SignedDuration::from_mins(5);

/// The VM that runs in a pod.
pub fn of<'a>(cluster: &'a Cluster, pod: &Pod) -> Option<&'a VirtualMachineInstance> {
    let owner = pod.metadata.controller().filter(|owner| owner.kind == KIND)?;
    cluster.kubevirt.instances.get(&pod.metadata.namespace, &owner.name)
}

/// Explains a VM by its instance, if it has one.
pub fn explain(cluster: &Cluster, machine: &VirtualMachine) -> Explanation {
    let (namespace, name) = (&machine.metadata.namespace, &machine.metadata.name);
    let instance = cluster.kubevirt.instances.get(namespace, name).filter(|instance| !instance.is_over());
    if let Some(instance) = instance {
        return Explanation { object: ObjectRef::of(machine), ..explain_instance(cluster, instance) };
    }
    let causes: Vec<Cause> = off(cluster, machine).and_then(Cause::of).into_iter().collect();
    let summary = match machine.status.printable_status.as_str() {
        "" => "off".to_owned(),
        status => status.to_owned(),
    };
    let complete = causes.is_empty();
    Explanation { object: ObjectRef::of(machine), summary, complete, driver: None, causes, unseen: Vec::new() }
}

pub fn explain_instance(cluster: &Cluster, vm: &VirtualMachineInstance) -> Explanation {
    let mut chains: Vec<Chain> = Vec::new();
    let here = cluster.nodes.named(&vm.status.node_name);
    let held = launcher(cluster, vm).and_then(|pod| pod::holds(cluster, pod));
    chains.extend(held);
    if chains.is_empty() && here.is_some_and(|host| host.spec.unschedulable) {
        chains.push(leaves(cluster, vm));
    }
    let mut causes: Vec<Cause> = chains.into_iter().filter_map(Cause::of).collect();
    sort(&mut causes);
    let summary = match vm.status.node_name.as_str() {
        "" => format!("{}, on no node", vm.status.phase),
        host => format!("{}, on Node {host}", vm.status.phase),
    };
    let complete = causes.is_empty();
    Explanation { object: ObjectRef::of(vm), summary, complete, driver: None, causes, unseen: Vec::new() }
}

pub fn explain_migration(cluster: &Cluster, migration: &Migration) -> Explanation {
    let vm = cluster.kubevirt.instances.get(&migration.metadata.namespace, &migration.spec.vmi_name);
    let chain = vm.filter(|_| !migration.is_over() || migration.status.phase == "Failed").map(|vm| stays(cluster, vm));
    let causes: Vec<Cause> = chain.and_then(Cause::of).into_iter().collect();
    let phase = if migration.status.phase.is_empty() { "Pending" } else { &migration.status.phase };
    let summary = format!("{phase}, of VM {}/{}", migration.metadata.namespace, migration.spec.vmi_name);
    let complete = causes.is_empty();
    Explanation { object: ObjectRef::of(migration), summary, complete, driver: None, causes, unseen: Vec::new() }
}

/// A VM that should run and has no instance.
pub fn off(cluster: &Cluster, machine: &VirtualMachine) -> Option<Chain> {
    let (namespace, name) = (&machine.metadata.namespace, &machine.metadata.name);
    let runs = cluster.kubevirt.instances.get(namespace, name).is_some_and(|vm| !vm.is_over());
    if runs || machine.strategy() == strategies::HALTED {
        return None;
    }
    let status = &machine.status.printable_status;
    let why = if status.is_empty() { String::new() } else { format!(" ({status})") };
    let statement = format!("VM {namespace}/{name} does not run{why}");
    Some(vec![Link::proven(ObjectRef::of(machine), statement).remedy(format!("virtctl -n {namespace} start {name}"))])
}

/// A VM that has to leave its node, by migration or, where it is told to stop, by that; from the VM down.
pub fn leaves(cluster: &Cluster, vm: &VirtualMachineInstance) -> Chain {
    let (namespace, name) = (&vm.metadata.namespace, &vm.metadata.name);
    let machine = cluster.kubevirt.machines.get(namespace, name);
    match vm.metadata.deletion_timestamp.is_some() || machine.is_some_and(|machine| machine.ends(vm)) {
        true => shut_off(cluster, vm),
        false => stays(cluster, vm),
    }
}

/// A VM that is stopped, or is going to be; from the VM down.
pub fn shut_off(cluster: &Cluster, vm: &VirtualMachineInstance) -> Chain {
    let (namespace, name) = (&vm.metadata.namespace, &vm.metadata.name);
    let link = Link::proven(ObjectRef::of(vm), format!("VM {namespace}/{name} is being shut off"));
    let link = link.since(vm.metadata.deleted_since()).outlook(Outlook::Yes).as_usual();
    let held = launcher(cluster, vm).and_then(|pod| ending::holds(cluster, pod));
    let held = held.filter(|chain| chain.last().is_some_and(|link| link.alarm));
    [link].into_iter().chain(held.unwrap_or_default()).collect()
}

/// From the VM down.
pub fn stays(cluster: &Cluster, vm: &VirtualMachineInstance) -> Chain {
    let (namespace, name) = (&vm.metadata.namespace, &vm.metadata.name);
    let link = |statement: String| Link::proven(ObjectRef::of(vm), statement);
    if let Some(said) = vm.refuses_migration() {
        let statement = format!("VM {namespace}/{name} cannot be migrated: {}", said.said());
        let stop = format!("shut it off: virtctl -n {namespace} stop {name}");
        return vec![link(statement).since(said.last_transition_time).remedy(stop)];
    }
    let mine = |migration: &&Migration| migration.spec.vmi_name == *name;
    let migrations = cluster.kubevirt.migrations.in_namespace(namespace).filter(mine);
    let latest = migrations.max_by_key(|migration| migration.metadata.creation_timestamp);
    let describe = |migration: &Migration| format!("kubectl describe -n {namespace} vmim {}", migration.metadata.name);
    match latest {
        Some(migration) if migration.status.phase == "Failed" => {
            let told = cluster.events_about(&ObjectRef::of(vm)).into_iter().rev();
            let told =
                told.into_iter().find(|event| event.is_warning() && event.message.to_lowercase().contains("migrat"));
            let why = told.map(|event| format!(": {}", event.message)).unwrap_or_default();
            let statement = format!("VM {namespace}/{name} is not away yet: its last migration failed{why}");
            vec![
                link(statement)
                    .since(migration.metadata.creation_timestamp)
                    .outlook(Outlook::Maybe)
                    .remedy(describe(migration)),
            ]
        }
        Some(migration) if !migration.is_over() => {
            let statement = format!("VM {namespace}/{name} is being migrated");
            let since = migration.metadata.creation_timestamp;
            let moving = link(statement).since(since).outlook(Outlook::Yes).as_usual();
            let target = target(cluster, vm).and_then(|pod| pod::holds(cluster, pod));
            let held = target.filter(|chain| chain.last().is_some_and(|link| link.alarm));
            [moving].into_iter().chain(held.unwrap_or_default()).collect()
        }
        _ => {
            let statement = format!("VM {namespace}/{name} has to be migrated first, and no migration is under way");
            let link = link(statement).outlook(Outlook::Maybe).remedy("look whether virt-controller works");
            vec![if begins_soon(cluster, vm) { link.as_usual() } else { link }]
        }
    }
}

/// Its node is emptied since a moment ago, or other VMs are on their way and it waits for its turn.
fn begins_soon(cluster: &Cluster, vm: &VirtualMachineInstance) -> bool {
    let others = cluster.kubevirt.migrations.iter().any(|migration| !migration.is_over());
    let host = cluster.nodes.named(&vm.status.node_name);
    let since = host.and_then(|host| node::emptied_since(cluster, host));
    others || since.is_some_and(|since| cluster.looked_at.duration_since(since) < USUAL)
}

fn launcher<'a>(cluster: &'a Cluster, vm: &VirtualMachineInstance) -> Option<&'a Pod> {
    let of_vm = |pod: &&Pod| pod.metadata.labels.get(CREATED_BY) == Some(&vm.metadata.uid);
    let here = |pod: &&Pod| pod.spec.node_name == vm.status.node_name && !pod.has_ended();
    cluster.pods.in_namespace(&vm.metadata.namespace).filter(of_vm).find(here)
}

/// The pod that a migration goes to.
fn target<'a>(cluster: &'a Cluster, vm: &VirtualMachineInstance) -> Option<&'a Pod> {
    let of_vm = |pod: &&Pod| pod.metadata.labels.get(CREATED_BY) == Some(&vm.metadata.uid);
    let elsewhere = |pod: &&Pod| pod.spec.node_name != vm.status.node_name && !pod.has_ended() && !pod.is_ending();
    cluster.pods.in_namespace(&vm.metadata.namespace).filter(of_vm).find(elsewhere)
}
