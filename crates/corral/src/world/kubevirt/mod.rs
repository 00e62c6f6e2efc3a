//! KubeVirt: virtual machines, the pods that they run in, their way from node to node, and what a drain makes of them.
//!
//! Models virt-operator, virt-controller, virt-handler and virt-api of KubeVirt 1.6, as far as an upgrade can see them: run strategies and
//! `virtctl start|stop|restart`, instances and their launcher pods, `LiveMigratable`, migrations with their target pods,
//! limits and back-off, evacuation by the taint `kubevirt.io/drain` or by an eviction (which the API server answers as the
//! webhook does, see `apiserver::kubevirt_eviction`), and the budgets of instances. Left out: heartbeats and
//! schedulability of nodes, hot-plugged volumes, pausing, post-copy, network and storage of guests, the back-off of
//! machines that fail before they run, and the collection of old migrations.

pub mod evacuation;
pub mod instance;
pub mod launcher;
pub mod machine;
pub mod migration;
pub mod notes;
pub mod operator;

mod budget;
#[cfg(test)]
mod tests;
mod watch;

use drover_api::kubevirt::virtual_machine_instance::{
    VirtualMachineInstance, VirtualMachineInstanceStatus, conditions, eviction, phases,
};

use super::loose;

/// How many instances may be on their way at once, in the whole cluster and from one node.
pub const PARALLEL: usize = 5;
pub const PARALLEL_FROM_A_NODE: usize = 2;

pub fn phase(instance: &VirtualMachineInstance) -> &str {
    instance.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

pub fn has_ended(instance: &VirtualMachineInstance) -> bool {
    matches!(phase(instance), phases::SUCCEEDED | phases::FAILED)
}

pub fn node(instance: &VirtualMachineInstance) -> Option<&str> {
    status(instance)?.node_name.as_deref().filter(|name| !name.is_empty())
}

pub fn is_leaving(instance: &VirtualMachineInstance) -> bool {
    instance.metadata.deletion_timestamp.is_some()
}

pub fn is_migratable(instance: &VirtualMachineInstance) -> bool {
    let conditions = status(instance).and_then(|status| status.conditions.as_ref());
    loose::find(conditions, conditions::LIVE_MIGRATABLE).is_some_and(|condition| condition.is_true())
}

/// The node that it is to leave since somebody tried to evict its pod.
pub fn evacuated_from(instance: &VirtualMachineInstance) -> Option<&str> {
    status(instance)?.evacuation_node_name.as_deref().filter(|name| !name.is_empty())
}

/// Whether it is on its way to another node.
pub fn is_migrating(instance: &VirtualMachineInstance) -> bool {
    let state = status(instance).and_then(|status| status.migration_state.as_ref());
    state.is_some_and(|state| state.completed != Some(true))
}

/// What is to become of it when its node is drained; the installation says it for those that do not.
pub fn strategy<'a>(instance: &'a VirtualMachineInstance, installed: Option<&'a str>) -> &'a str {
    let own = instance.spec.as_ref().and_then(|spec| spec.eviction_strategy.as_deref());
    own.or(installed).unwrap_or(eviction::NONE)
}

/// Whether a budget protects it from evictions, and an evacuation takes it along.
pub fn wants_to_migrate(instance: &VirtualMachineInstance, strategy: &str) -> bool {
    match strategy {
        eviction::LIVE_MIGRATE | eviction::EXTERNAL => true,
        eviction::LIVE_MIGRATE_IF_POSSIBLE => is_migratable(instance),
        _ => false,
    }
}

fn status(instance: &VirtualMachineInstance) -> Option<&VirtualMachineInstanceStatus> {
    instance.status.as_ref()
}
