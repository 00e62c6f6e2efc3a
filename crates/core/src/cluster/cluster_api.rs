//! What is read of Cluster API's kinds, in any of its versions.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::shelf::projections;
use super::wire::{seen, shelves};
use super::{Condition, Meta, ObjectRef};

seen! {
    Cluster {
        metadata: Meta,
        spec: ClusterSpec,
        status: ClusterStatus,
    }
    ClusterSpec {
        paused: bool,
        control_plane_ref: Reference,
        infrastructure_ref: Reference,
        topology: Option<Topology>,
    }
    /// A cluster that is made from a class.
    Topology {
        class: String,
        version: String,
    }
    ClusterStatus {
        phase: String,
        conditions: Vec<Condition>,
    }
    Reference {
        api_version: String,
        api_group: String,
        kind: String,
        namespace: String,
        name: String,
    }

    Machine {
        metadata: Meta,
        spec: MachineSpec,
        status: MachineStatus,
    }
    MachineSpec {
        cluster_name: String,
        version: String,
        infrastructure_ref: Reference,
        bootstrap: Bootstrap,
    }
    Bootstrap {
        config_ref: Reference,
    }
    MachineStatus {
        phase: String,
        node_ref: Reference,
        conditions: Vec<Condition>,
        certificates_expiry_date: Option<Timestamp>,
        failure_message: String,
        error_message: String,
    }

    KubeadmControlPlane {
        metadata: Meta,
        spec: ControlPlaneSpec,
        status: ControlPlaneStatus,
    }
    ControlPlaneSpec {
        replicas: Option<i64>,
        version: String,
        machine_template: ControlPlaneTemplate,
    }
    ControlPlaneTemplate {
        infrastructure_ref: Reference,
        /// Where v1beta2 has it.
        spec: ControlPlaneTemplateSpec,
    }
    ControlPlaneTemplateSpec {
        infrastructure_ref: Reference,
    }
    ControlPlaneStatus {
        replicas: i64,
        version: String,
        conditions: Vec<Condition>,
        v1beta2: Option<NewConditions>,
    }
    NewConditions {
        conditions: Vec<Condition>,
    }

    MachineDeployment {
        metadata: Meta,
        spec: MachineDeploymentSpec,
        status: MachineDeploymentStatus,
    }
    MachineDeploymentSpec {
        cluster_name: String,
        replicas: Option<i64>,
        paused: bool,
        template: MachineTemplate,
    }
    MachineTemplate {
        spec: MachineSpec,
    }
    MachineDeploymentStatus {
        replicas: i64,
        updated_replicas: i64,
        available_replicas: i64,
    }
}

impl ControlPlaneTemplate {
    pub fn infrastructure(&self) -> &Reference {
        if self.infrastructure_ref.name.is_empty() { &self.spec.infrastructure_ref } else { &self.infrastructure_ref }
    }
}

impl KubeadmControlPlane {
    /// The condition of a type, in the older or the newer place.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        let newer = self.status.v1beta2.iter().flat_map(|newer| &newer.conditions);
        newer.chain(&self.status.conditions).find(|condition| condition.kind == type_)
    }
}

/// Templates of machines and of their configuration, whoever provides them: only that they are there.
pub type Templates = BTreeSet<ObjectRef>;

/// Do kinds of this group whose names end in `Template` describe machines?
pub(super) fn has_templates(group: &str) -> bool {
    group.contains("cluster.x-k8s.io") || group == "infrastructure.cluster.vmware.com"
}

projections! {
    Cluster => "Cluster",
    Machine => "Machine",
    KubeadmControlPlane => "KubeadmControlPlane",
    MachineDeployment => "MachineDeployment",
}

shelves! {
    ClusterApi {
        clusters: Cluster = ("cluster.x-k8s.io", "Cluster"),
        machines: Machine = ("cluster.x-k8s.io", "Machine"),
        control_planes: KubeadmControlPlane = ("controlplane.cluster.x-k8s.io", "KubeadmControlPlane"),
        deployments: MachineDeployment = ("cluster.x-k8s.io", "MachineDeployment"),
    }
}
