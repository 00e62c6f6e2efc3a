//! What is read of Cluster API's kinds, in any of its versions.

use std::collections::{BTreeMap, BTreeSet};

use drover_api::cluster_api::labels;
use drover_api::cluster_api::machine::conditions;
use drover_api::cluster_api::{PAUSED, RANCHER_GROUP};
use jiff::Timestamp;

use super::shelf::projections;
use super::wire::{seen, shelves};
use super::{Condition, Meta, ObjectRef, Projection as _};

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
        v1beta2: Option<NewConditions>,
        failure_message: String,
        error_message: String,
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
        #[serde(rename = "providerID")]
        provider_id: String,
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
        v1beta2: Option<NewConditions>,
        certificates_expiry_date: Option<Timestamp>,
        failure_message: String,
        failure_reason: String,
        error_message: String,
        error_reason: String,
        deprecated: Deprecated,
    }
    /// What v1beta2 has left of v1beta1.
    Deprecated {
        v1beta1: OldStatus,
    }
    OldStatus {
        failure_message: String,
        failure_reason: String,
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
        ready_replicas: i64,
        updated_replicas: i64,
        /// As v1beta2 calls those that are updated.
        up_to_date_replicas: i64,
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
        observed_generation: Option<i64>,
        replicas: i64,
        ready_replicas: i64,
        updated_replicas: i64,
        /// As v1beta2 calls those that are updated.
        up_to_date_replicas: i64,
        available_replicas: i64,
        conditions: Vec<Condition>,
        v1beta2: Option<NewConditions>,
    }

    /// The Machines of one template of a MachineDeployment.
    MachineSet {
        metadata: Meta,
        spec: MachineSetSpec,
        status: MachineSetStatus,
    }
    MachineSetSpec {
        cluster_name: String,
        replicas: Option<i64>,
        template: MachineTemplate,
    }
    MachineSetStatus {
        replicas: i64,
        conditions: Vec<Condition>,
        v1beta2: Option<NewConditions>,
        error_message: String,
    }

    /// What stands behind a Machine: its infrastructure, or what makes a node of it, whoever provides that.
    Part {
        metadata: Meta,
        status: PartStatus,
    }
    PartStatus {
        conditions: Vec<Condition>,
        v1beta2: Option<NewConditions>,
        failure_message: String,
        error_message: String,
        /// Of WCPMachines.
        vmstatus: String,
    }
}

impl ControlPlaneTemplate {
    pub fn infrastructure(&self) -> &Reference {
        if self.infrastructure_ref.name.is_empty() { &self.spec.infrastructure_ref } else { &self.infrastructure_ref }
    }
}

/// The condition of a type, in the newer or the older place.
fn newest<'a>(newer: &'a Option<NewConditions>, older: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    let newer = newer.iter().flat_map(|newer| &newer.conditions);
    newer.chain(older).find(|condition| condition.kind == type_)
}

/// Says that a kind has conditions in the newer and in the older place.
macro_rules! with_conditions {
    ($($type:ty),*) => { $(impl $type {
        /// The condition of a type, in the newer or the older place.
        pub fn condition(&self, type_: &str) -> Option<&Condition> {
            newest(&self.status.v1beta2, &self.status.conditions, type_)
        }
    })* };
}

with_conditions! { Cluster, Machine, KubeadmControlPlane, MachineDeployment, MachineSet, Part }

impl Cluster {
    /// Cluster API does nothing for it.
    pub fn is_paused(&self) -> bool {
        self.spec.paused || is_paused(&self.metadata)
    }

    pub fn failure(&self) -> Option<&str> {
        said([&self.status.failure_message, &self.status.error_message])
    }

    /// Rancher provisions it, and is looked at instead.
    pub fn is_rancher_s(&self) -> bool {
        self.metadata.namespace == drover_api::harvester::FLEET_NAMESPACE
            || self.spec.control_plane_ref.group() == RANCHER_GROUP
    }
}

impl Machine {
    /// What it says of its own failure, which nothing ends but its end.
    pub fn failure(&self) -> Option<&str> {
        let MachineStatus { failure_message, failure_reason, error_message, error_reason, deprecated, .. } =
            &self.status;
        let old = &deprecated.v1beta1;
        let messages = said([failure_message, error_message, &old.failure_message]);
        messages.or_else(|| said([failure_reason, error_reason, &old.failure_reason]))
    }

    /// It is one of the control plane's.
    pub fn is_of_control_plane(&self) -> bool {
        let owners = &self.metadata.owner_references;
        self.metadata.labels.contains_key(labels::CONTROL_PLANE)
            || owners.iter().any(|owner| owner.kind == KubeadmControlPlane::KIND)
    }

    pub fn is_being_deleted(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// It is a node, and nobody says that this one is not well.
    pub fn is_ready(&self) -> bool {
        let is_sick = |type_: &str| self.condition(type_).is_some_and(|condition| condition.status == "False");
        !self.status.node_ref.name.is_empty()
            && !self.is_being_deleted()
            && self.failure().is_none()
            && !is_sick(conditions::NODE_HEALTHY)
    }
}

impl Part {
    pub fn failure(&self) -> Option<&str> {
        said([&self.status.failure_message, &self.status.error_message])
    }
}

impl KubeadmControlPlane {
    pub fn wanted(&self) -> i64 {
        self.spec.replicas.unwrap_or(1)
    }

    pub fn updated(&self) -> i64 {
        self.status.updated_replicas.max(self.status.up_to_date_replicas)
    }
}

impl MachineDeployment {
    pub fn wanted(&self) -> i64 {
        self.spec.replicas.unwrap_or(1)
    }

    /// As long as nobody has looked at what it asks for by now, none.
    pub fn updated(&self) -> i64 {
        match self.status.observed_generation {
            Some(observed) if observed < self.metadata.generation => 0,
            _ => self.status.updated_replicas.max(self.status.up_to_date_replicas),
        }
    }

    pub fn is_paused(&self) -> bool {
        self.spec.paused || is_paused(&self.metadata)
    }
}

impl Reference {
    /// The group of what is named: v1beta2 gives it, before that it is part of the version.
    pub fn group(&self) -> &str {
        match self.api_group.as_str() {
            "" => self.api_version.split_once('/').map_or("", |(group, _)| group),
            group => group,
        }
    }
}

/// Somebody has paused one object by its annotation.
pub fn is_paused(metadata: &Meta) -> bool {
    metadata.annotations.contains_key(PAUSED)
}

fn said<const N: usize>(texts: [&String; N]) -> Option<&str> {
    texts.into_iter().find(|text| !text.is_empty()).map(String::as_str)
}

impl ClusterApi {
    /// The Machines of a cluster.
    pub fn machines_of<'a>(&'a self, namespace: &str, name: &'a str) -> impl Iterator<Item = &'a Machine> {
        let own = move |machine: &&Machine| belongs(&machine.metadata, &machine.spec.cluster_name, name);
        self.machines.in_namespace(namespace).filter(own)
    }

    pub fn deployments_of<'a>(&'a self, namespace: &str, name: &'a str) -> impl Iterator<Item = &'a MachineDeployment> {
        let own = move |one: &&MachineDeployment| belongs(&one.metadata, &one.spec.cluster_name, name);
        self.deployments.in_namespace(namespace).filter(own)
    }

    /// The control plane that a cluster names, if it is kubeadm's.
    pub fn control_plane_of(&self, cluster: &Cluster) -> Option<&KubeadmControlPlane> {
        self.control_planes.get(&cluster.metadata.namespace, &cluster.spec.control_plane_ref.name)
    }

    /// The MachineSets of a MachineDeployment.
    pub fn sets_of<'a>(&'a self, deployment: &'a MachineDeployment) -> impl Iterator<Item = &'a MachineSet> {
        let Meta { namespace, name, .. } = &deployment.metadata;
        self.sets.in_namespace(namespace).filter(move |set| {
            let owner = set.metadata.controller();
            owner.is_some_and(|owner| owner.kind == MachineDeployment::KIND && owner.name == *name)
        })
    }

    /// The Machines of a MachineDeployment, by their label or by whose MachineSet made them.
    pub fn workers_of<'a>(&'a self, deployment: &'a MachineDeployment) -> impl Iterator<Item = &'a Machine> {
        let Meta { namespace, name, .. } = &deployment.metadata;
        let sets: BTreeSet<&str> = self.sets_of(deployment).map(|set| set.metadata.name.as_str()).collect();
        self.machines.in_namespace(namespace).filter(move |machine| {
            let owner = machine.metadata.controller().filter(|owner| owner.kind == MachineSet::KIND);
            machine.metadata.labels.get(labels::DEPLOYMENT_NAME).is_some_and(|of| of == name)
                || owner.is_some_and(|owner| sets.contains(owner.name.as_str()))
        })
    }
}

/// v1alpha2 tells only by a label whose something is.
fn belongs(metadata: &Meta, cluster_name: &str, name: &str) -> bool {
    cluster_name == name || metadata.labels.get(labels::CLUSTER_NAME).is_some_and(|of| of == name)
}

/// Templates of machines and of their configuration, whoever provides them: only that they are there.
pub type Templates = BTreeSet<ObjectRef>;

/// What stands behind Machines, by kind, namespace and name.
pub type Parts = BTreeMap<ObjectRef, Part>;

/// Do kinds of this group whose names end in `Template` describe machines, and the others stand behind them?
pub(super) fn has_templates(group: &str) -> bool {
    group.contains("cluster.x-k8s.io") || group == "infrastructure.cluster.vmware.com"
}

/// Do objects of this kind stand behind Machines?
pub(super) fn is_part(group: &str, kind: &str) -> bool {
    has_templates(group)
        && (group.starts_with("infrastructure.") || group.starts_with("bootstrap."))
        && !kind.ends_with("Template")
}

projections! {
    Cluster => "Cluster",
    Machine => "Machine",
    KubeadmControlPlane => "KubeadmControlPlane",
    MachineDeployment => "MachineDeployment",
    MachineSet => "MachineSet",
}

shelves! {
    ClusterApi {
        clusters: Cluster = ("cluster.x-k8s.io", "Cluster"),
        machines: Machine = ("cluster.x-k8s.io", "Machine"),
        control_planes: KubeadmControlPlane = ("controlplane.cluster.x-k8s.io", "KubeadmControlPlane"),
        deployments: MachineDeployment = ("cluster.x-k8s.io", "MachineDeployment"),
        sets: MachineSet = ("cluster.x-k8s.io", "MachineSet"),
    }
}
