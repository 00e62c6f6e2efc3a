//! Virtual machines that do not leave their node.

use drover_api::harvester::node::WITNESS;

use super::{Blocker, Verdict};
use crate::cluster::kubevirt::VirtualMachineInstance;
use crate::cluster::{Cluster, Node, ObjectRef};
use crate::placement::suits_affinity;

/// What keeps the VMs of a node there.
pub fn in_the_way(cluster: &Cluster, node: &Node) -> Vec<Blocker> {
    let here = cluster.kubevirt.instances.iter().filter(|vm| vm.status.node_name == node.metadata.name);
    here.filter(|vm| !vm.is_over()).filter_map(|vm| stays(cluster, vm)).collect()
}

fn stays(cluster: &Cluster, vm: &VirtualMachineInstance) -> Option<Blocker> {
    // These are stopped by a drain, as their users have said.
    let migrates = vm.spec.eviction_strategy.as_deref().unwrap_or("LiveMigrate");
    if matches!(migrates, "None" | "External") {
        return None;
    }
    let object = ObjectRef::of(vm);
    let (namespace, name) = (&vm.metadata.namespace, &vm.metadata.name);
    let blocker = |statement: String, drains, remedy: Option<String>| Blocker {
        object: object.clone(),
        pod: None,
        statement,
        drains,
        remedy,
    };
    let stop = Some(format!("shut it off before: virtctl -n {namespace} stop {name}"));
    if let Some(why) = vm.refuses_migration() {
        let statement = format!("VM {namespace}/{name} cannot be migrated: {}", why.said());
        return (migrates == "LiveMigrate").then(|| blocker(statement, Verdict::Never, stop));
    }
    let mut under_way = cluster.kubevirt.migrations.in_namespace(namespace);
    if under_way.any(|migration| migration.spec.vmi_name == *name && !migration.is_over()) {
        let statement = format!("VM {namespace}/{name} is being migrated");
        return Some(blocker(statement, Verdict::Later, Some("wait for the migration".to_owned())));
    }
    let others = cluster.nodes.iter().filter(|node| node.metadata.name != vm.status.node_name && suits(vm, node));
    let others: Vec<&Node> = others.collect();
    if others.iter().any(|node| node.is_ready() && !node.spec.unschedulable) {
        return None;
    }
    Some(match others.first() {
        Some(node) => blocker(
            format!("VM {namespace}/{name} can only be migrated to nodes that are out, such as {}", node.metadata.name),
            Verdict::Later,
            Some(format!("bring Node {} back", node.metadata.name)),
        ),
        None => blocker(
            format!("VM {namespace}/{name} cannot be migrated: no other node suits its node selector and affinity"),
            Verdict::Never,
            stop,
        ),
    })
}

/// Could the VM run on this node?
pub fn suits(vm: &VirtualMachineInstance, node: &Node) -> bool {
    let labels = &node.metadata.labels;
    let selected = vm.spec.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value));
    selected
        && !labels.contains_key(WITNESS)
        && vm.spec.affinity.node_affinity.as_ref().is_none_or(|affinity| suits_affinity(affinity, node))
}
