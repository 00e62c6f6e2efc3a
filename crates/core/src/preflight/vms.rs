//! Virtual machines that cannot leave their node.

use drover_api::harvester::node::WITNESS;

use super::upgrades::config;
use super::{Check, Finding, Intent, Scope, Severity, path};
use crate::cluster::kubevirt::{Migration, VirtualMachineInstance};
use crate::cluster::{Cluster, Condition, Node, ObjectRef};
use crate::forecast::suits_vm;

pub const CHECKS: &[Check] = &[
    Check {
        code: "DRV-VM-001",
        severity: Severity::Blocks,
        scope: Scope::Drains,
        title: "A VM cannot be migrated",
        consequence: "its node cannot be emptied until the VM is shut off: the drain waits, or the VM is stopped.",
        remedy: "shut the VM off before, or let Harvester stop and start it again (restoreVM in the setting upgrade-config)",
        reads: &["Node", "VirtualMachineInstance", "Setting"],
        look: not_migratable,
    },
    Check {
        code: "DRV-VM-002",
        severity: Severity::Blocks,
        scope: Scope::Harvester,
        title: "A volume of a VM is on its way in or out",
        consequence: "the VM cannot be migrated before that is done.",
        remedy: "wait until the volume is attached or detached",
        reads: &["VirtualMachine", "Setting"],
        look: pending_volumes,
    },
    Check {
        code: "DRV-VM-003",
        severity: Severity::Blocks,
        scope: Scope::Harvester,
        title: "A VM has a plugged volume that its definition does not know",
        consequence: "the volume is lost to the VM when it is started again elsewhere.",
        remedy: "detach the volume, or add it to the VM",
        reads: &["VirtualMachine", "VirtualMachineInstance", "Setting"],
        look: unknown_volumes,
    },
    Check {
        code: "DRV-VM-004",
        severity: Severity::Blocks,
        scope: Scope::Drains,
        title: "No other node can take a VM",
        consequence: "its migration stays unschedulable, and its node is never emptied.",
        remedy: "change the VM's node selector or affinity, or shut it off before",
        reads: &["Node", "VirtualMachineInstance"],
        look: no_target,
    },
    Check {
        code: "DRV-VM-005",
        severity: Severity::Risks,
        scope: Scope::Drains,
        title: "A migration is under way",
        consequence: "a VM that is being migrated is not migrated again: its node waits.",
        remedy: "wait for the migration, or cancel it",
        reads: &["VirtualMachineInstanceMigration"],
        look: migrating,
    },
    Check {
        code: "DRV-VM-006",
        severity: Severity::Blocks,
        scope: Scope::Drains,
        title: "KubeVirt is not ready",
        consequence: "VMs are not migrated while KubeVirt itself is being deployed.",
        remedy: "find out what the virt-operator waits for",
        reads: &["KubeVirt"],
        look: kubevirt,
    },
];

/// The VMs that run on nodes which would be drained.
fn running<'a>(cluster: &'a Cluster, intent: &Intent) -> Vec<&'a VirtualMachineInstance> {
    let drained = super::workloads::drained(cluster, intent);
    let instances = cluster.kubevirt.instances.iter();
    instances.filter(|vm| !vm.is_over() && drained.contains(vm.status.node_name.as_str())).collect()
}

/// Nodes that VMs can run on.
fn hosts(cluster: &Cluster) -> impl Iterator<Item = &Node> {
    cluster.nodes.iter().filter(|node| !node.metadata.labels.contains_key(WITNESS))
}

/// VMs are stopped and started again, or there is but one node that they can be on.
fn nothing_moves(cluster: &Cluster) -> bool {
    config(cluster).restores_vms() || hosts(cluster).count() == 1
}

/// The VMs of a Harvester cluster that would have to be shut off: those that refuse to move, and those that no other node
/// suits.
pub(crate) fn tied_down<'a>(cluster: &'a Cluster, intent: &Intent) -> Vec<&'a VirtualMachineInstance> {
    if nothing_moves(cluster) {
        return Vec::new();
    }
    let mut tied = refusing(cluster, intent);
    for vm in without_target(cluster, intent) {
        if !tied.contains(&vm) {
            tied.push(vm);
        }
    }
    tied.sort_by_key(|vm| (&vm.metadata.namespace, &vm.metadata.name));
    tied
}

fn refusing<'a>(cluster: &'a Cluster, intent: &Intent) -> Vec<&'a VirtualMachineInstance> {
    let harvester = intent.concerns(Scope::Harvester, cluster);
    if harvester && nothing_moves(cluster) {
        return Vec::new();
    }
    let refused = |vm: &&VirtualMachineInstance| {
        vm.refuses_migration().is_some() || harvester && !vm.spec.domain.devices.host_devices.is_empty()
    };
    running(cluster, intent).into_iter().filter(refused).collect()
}

fn not_migratable(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let finding = |vm: &VirtualMachineInstance| {
        let why = vm.refuses_migration().map_or("it uses devices of its host", Condition::said);
        Finding::new(format!(
            "There are non-live migratable VMs that need to be shut off before initiating the upgrade: {} on node {}: {why}",
            path(vm),
            vm.status.node_name
        ))
        .on(vm)
        .remedy(format!("virtctl -n {} stop {}", vm.metadata.namespace, vm.metadata.name))
    };
    refusing(cluster, intent).into_iter().map(finding).collect()
}

fn pending_volumes(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    if nothing_moves(cluster) {
        return Vec::new();
    }
    let pending = cluster.kubevirt.machines.iter().filter(|vm| !vm.status.volume_requests.is_empty());
    let finding = |vm: &crate::cluster::kubevirt::VirtualMachine| {
        let sentence =
            format!("There are VMs with pending volume hotplug requests (status.volumeRequests): {}", path(vm));
        Finding::new(sentence).on(vm)
    };
    pending.map(finding).collect()
}

fn unknown_volumes(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    if nothing_moves(cluster) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for vm in cluster.kubevirt.instances.iter().filter(|vm| !vm.is_over()) {
        let Some(machine) = cluster.kubevirt.machines.get(&vm.metadata.namespace, &vm.metadata.name) else { continue };
        let known = &machine.spec.template.spec.volumes;
        for volume in vm.hotplugged().filter(|volume| known.iter().all(|known| known.name != *volume)) {
            let sentence = format!(
                "There are VMs with hot-plugged volumes that exist in the VMI but not in the VM spec: {} (volume {volume})",
                path(vm)
            );
            let remedy = format!(
                "virtctl -n {} removevolume {} --volume-name={volume}",
                vm.metadata.namespace, vm.metadata.name
            );
            findings.push(Finding::new(sentence).on(vm).remedy(remedy));
        }
    }
    findings
}

fn without_target<'a>(cluster: &'a Cluster, intent: &Intent) -> Vec<&'a VirtualMachineInstance> {
    let hosts: Vec<&Node> = hosts(cluster).filter(|node| node.is_ready() && !node.spec.unschedulable).collect();
    if hosts.len() < 2 {
        return Vec::new();
    }
    let goes = |vm: &VirtualMachineInstance| {
        hosts.iter().any(|node| node.metadata.name != vm.status.node_name && suits_vm(vm, node))
    };
    running(cluster, intent).into_iter().filter(|vm| !goes(vm)).collect()
}

fn no_target(cluster: &Cluster, intent: &Intent) -> Vec<Finding> {
    let finding = |vm: &VirtualMachineInstance| {
        Finding::new(format!("VM {} runs on node {}, and no other node suits it", path(vm), vm.status.node_name))
            .on(vm)
            .about([ObjectRef::new("Node", "", &vm.status.node_name)])
            .remedy(format!("virtctl -n {} stop {}", vm.metadata.namespace, vm.metadata.name))
    };
    without_target(cluster, intent).into_iter().map(finding).collect()
}

fn migrating(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let under_way = cluster.kubevirt.migrations.iter().filter(|migration| !migration.is_over());
    let finding = |migration: &Migration| {
        let phase = if migration.status.phase.is_empty() { "pending" } else { &migration.status.phase };
        Finding::new(format!(
            "VM {}/{} is being migrated ({phase})",
            migration.metadata.namespace, migration.spec.vmi_name
        ))
        .on(migration)
    };
    under_way.map(finding).collect()
}

fn kubevirt(cluster: &Cluster, _: &Intent) -> Vec<Finding> {
    let installations = cluster.kubevirt.installations.iter();
    let unfinished = installations.filter(|one| one.status.phase != drover_api::kubevirt::kube_virt::DEPLOYED);
    let finding = |one: &crate::cluster::kubevirt::KubeVirt| {
        Finding::new(format!("KubeVirt {} is {}, not Deployed", path(one), one.status.phase))
            .on(one)
            .remedy(format!("kubectl -n {} describe kubevirt {}", one.metadata.namespace, one.metadata.name))
    };
    unfinished.map(finding).collect()
}
