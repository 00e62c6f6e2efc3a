//! Why a virtual machine does not leave its node. Its pod is protected by a budget until KubeVirt has migrated it.

use super::link::{Chain, Link, Outlook};
use super::pod;
use crate::cluster::kubevirt::{Migration, VirtualMachineInstance};
use crate::cluster::{Cluster, ObjectRef, Pod};

const KIND: &str = "VirtualMachineInstance";
/// On the pods of a VM: the uid of its instance.
const CREATED_BY: &str = "kubevirt.io/created-by";

/// The VM that runs in a pod.
pub fn of<'a>(cluster: &'a Cluster, pod: &Pod) -> Option<&'a VirtualMachineInstance> {
    let owner = pod.metadata.controller().filter(|owner| owner.kind == KIND)?;
    cluster.kubevirt.instances.get(&pod.metadata.namespace, &owner.name)
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
            let statement = format!("VM {namespace}/{name} is not away yet: its last migration failed");
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
            vec![link(statement).outlook(Outlook::Maybe).remedy("look whether virt-controller works")]
        }
    }
}

/// The pod that a migration goes to.
fn target<'a>(cluster: &'a Cluster, vm: &VirtualMachineInstance) -> Option<&'a Pod> {
    let of_vm = |pod: &&Pod| pod.metadata.labels.get(CREATED_BY) == Some(&vm.metadata.uid);
    let elsewhere = |pod: &&Pod| pod.spec.node_name != vm.status.node_name && !pod.has_ended() && !pod.is_ending();
    cluster.pods.in_namespace(&vm.metadata.namespace).filter(of_vm).find(elsewhere)
}
