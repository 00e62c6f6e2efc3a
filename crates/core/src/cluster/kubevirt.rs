//! What is read of KubeVirt's kinds.

use std::collections::BTreeMap;

use drover_api::kubevirt::virtual_machine::{STOP, strategies};
use drover_api::kubevirt::virtual_machine_instance::{conditions, phases};
use k8s_openapi::api::core::v1::NodeAffinity;

use super::shelf::projections;
use super::wire::{seen, shelves};
use super::{Condition, Meta, condition};

seen! {
    VirtualMachine {
        metadata: Meta,
        spec: VirtualMachineSpec,
        status: VirtualMachineStatus,
    }
    VirtualMachineSpec {
        running: Option<bool>,
        run_strategy: String,
        template: VirtualMachineTemplate,
    }
    VirtualMachineTemplate {
        spec: VirtualMachineTemplateSpec,
    }
    VirtualMachineTemplateSpec {
        volumes: Box<[Named]>,
    }
    Named {
        name: String,
    }
    VirtualMachineStatus {
        printable_status: String,
        /// What was asked for and is not done yet.
        state_change_requests: Box<[StateChangeRequest]>,
        /// Volumes that are on their way in or out.
        volume_requests: Box<[serde::de::IgnoredAny]>,
    }
    StateChangeRequest {
        action: String,
        /// Of the instance that is to stop.
        uid: String,
    }

    VirtualMachineInstance {
        metadata: Meta,
        spec: InstanceSpec,
        status: InstanceStatus,
    }
    InstanceSpec {
        node_selector: BTreeMap<String, String>,
        affinity: InstanceAffinity,
        domain: Domain,
        volumes: Box<[InstanceVolume]>,
        eviction_strategy: Option<String>,
    }
    InstanceAffinity {
        node_affinity: Option<NodeAffinity>,
    }
    Domain {
        devices: Devices,
    }
    Devices {
        host_devices: Box<[Named]>,
    }
    InstanceVolume {
        name: String,
        persistent_volume_claim: Option<Hotpluggable>,
        data_volume: Option<Hotpluggable>,
    }
    Hotpluggable {
        hotpluggable: bool,
    }
    InstanceStatus {
        phase: String,
        node_name: String,
        conditions: Box<[Condition]>,
    }

    /// A VM on its way to another node.
    Migration {
        metadata: Meta,
        spec: MigrationSpec,
        status: MigrationStatus,
    }
    MigrationSpec {
        vmi_name: String,
    }
    MigrationStatus {
        phase: String,
    }

    /// The installation itself.
    KubeVirt {
        metadata: Meta,
        status: KubeVirtStatus,
    }
    KubeVirtStatus {
        phase: String,
        #[serde(rename = "observedKubeVirtVersion")]
        observed_version: String,
    }
}

impl VirtualMachine {
    /// When KubeVirt runs it; older ones say it by a truth value.
    pub fn strategy(&self) -> &str {
        match (self.spec.run_strategy.as_str(), self.spec.running) {
            ("", Some(true)) => strategies::ALWAYS,
            ("", _) => strategies::HALTED,
            (strategy, _) => strategy,
        }
    }

    /// Whether KubeVirt ends this instance of it without being asked again. Where the strategy leaves it to others when the machine
    /// runs, it stays as it is, and only a request tells that.
    pub fn ends(&self, instance: &VirtualMachineInstance) -> bool {
        let is_asked = |request: &StateChangeRequest| request.action == STOP && request.uid == instance.metadata.uid;
        instance.metadata.deletion_timestamp.is_some()
            || self.strategy() == strategies::HALTED
            || self.status.state_change_requests.iter().any(is_asked)
    }
}

impl VirtualMachineInstance {
    pub fn is_over(&self) -> bool {
        matches!(self.status.phase.as_str(), phases::SUCCEEDED | phases::FAILED)
    }

    /// KubeVirt itself says that it cannot be migrated.
    pub fn refuses_migration(&self) -> Option<&Condition> {
        condition(&self.status.conditions, conditions::LIVE_MIGRATABLE).filter(|said| said.status == "False")
    }

    /// Volumes that were plugged in while it ran.
    pub fn hotplugged(&self) -> impl Iterator<Item = &str> {
        let is_hotplugged = |volume: &&InstanceVolume| {
            let sources = [&volume.persistent_volume_claim, &volume.data_volume];
            sources.into_iter().flatten().any(|source| source.hotpluggable)
        };
        self.spec.volumes.iter().filter(is_hotplugged).map(|volume| volume.name.as_str())
    }
}

impl Migration {
    pub fn is_over(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }
}

projections! {
    VirtualMachine => "VirtualMachine",
    VirtualMachineInstance => "VirtualMachineInstance",
    Migration => "VirtualMachineInstanceMigration",
    KubeVirt => "KubeVirt",
}

shelves! {
    VirtualMachines {
        machines: VirtualMachine = ("kubevirt.io", "VirtualMachine"),
        instances: VirtualMachineInstance = ("kubevirt.io", "VirtualMachineInstance"),
        migrations: Migration = ("kubevirt.io", "VirtualMachineInstanceMigration"),
        installations: KubeVirt = ("kubevirt.io", "KubeVirt"),
    }
}
