//! What the world is going to look at, and when.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;

/// An object by its namespace and name.
pub type Key = (String, String);

/// One thing to look at. Of what is due at the same moment, the first of this order comes first, so that a run can be
/// repeated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Look {
    /// A kubelet at its own Node.
    Machine(String),
    /// A kubelet at its Lease.
    Lease(String),
    /// A kubelet at its disk.
    Disk(String),
    /// The node lifecycle controller at a Node whose kubelet may have fallen silent.
    Silence(String),
    /// The node lifecycle controller at the taints of a Node.
    Taints(String),
    /// The node lifecycle controller at a pod.
    Readiness(Key),
    /// The taint eviction controller at a pod.
    Eviction(Key),
    /// The pod garbage collector at a pod whose Node is gone.
    Stranded(Key),
    /// A kubelet at a pod.
    Pod(Key),
    /// The Job controller at a Job.
    Job(Key),
    /// The Job controller at a pod whose Job is gone.
    Orphan(Key),
    /// The Deployment controller at a Deployment.
    Deployment(Key),
    /// The controller of its kind at a ReplicaSet, StatefulSet or DaemonSet.
    ReplicaSet(Key),
    StatefulSet(Key),
    DaemonSet(Key),
    /// The EndpointSlice controller at a Service.
    Service(Key),
    /// The scheduler at a pod.
    Waiting(Key),
    /// The scheduler at a Node that might suit a waiting pod now.
    Room(String),
    /// The disruption controller at a budget.
    Budget(Key),
    /// The garbage collector at the object with this uid.
    Garbage(String),
    /// The namespace controller at a namespace.
    Namespace(String),
    /// KubeVirt at its own installation, a VirtualMachine, an instance, a migration, and the instances of a node.
    KubeVirt(Key),
    VirtualMachine(Key),
    Instance(Key),
    Migration(Key),
    Evacuation(String),
    /// Longhorn at a volume, and at the instance manager of a node.
    Volume(String),
    InstanceManager(String),
    /// Rancher at a cluster, and at the drain of the machine with this plan Secret.
    Planner(Key),
    MachineDrain(Key),
    /// The agent of a machine at its plan Secret.
    SystemAgent(Key),
    /// Cluster API at a Machine.
    CapiMachine(Key),
    /// RKE2 at the etcd member of a Node.
    Member(String),
    /// Rancher at a ManagedChart, Fleet at a Bundle, Harvester at an Addon and at an image.
    Chart(Key),
    Bundle(Key),
    /// The same Rancher at a repository of charts.
    ClusterRepo(String),
    /// Fleet at its agent on a cluster.
    FleetCluster(Key),
    Addon(Key),
    Image(Key),
    /// The Helm controller of RKE2 at a HelmChart, and Rancher at its own version.
    HelmChart(Key),
    Rancher(Key),
    /// Cluster API at a Machine of a guest cluster, and the providers at its bootstrap config and its virtual machine.
    GuestMachine(Key),
    Bootstrap(Key),
    Infrastructure(Key),
    /// The same at the Cluster, and at the address of its API.
    GuestCluster(Key),
    Balancer(Key),
    /// The same at those who keep a number of Machines.
    MachineSet(Key),
    MachineDeployment(Key),
}

impl fmt::Display for Look {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Look::Machine(name) => write!(formatter, "the kubelet's Node {name}"),
            Look::Lease(name) => write!(formatter, "the kubelet's Lease {name}"),
            Look::Disk(name) => write!(formatter, "the disk of Node {name}"),
            Look::Silence(name) => write!(formatter, "the silence of Node {name}"),
            Look::Taints(name) => write!(formatter, "the taints of Node {name}"),
            Look::Readiness((namespace, name)) => write!(formatter, "the readiness of pod {namespace}/{name}"),
            Look::Eviction((namespace, name)) => write!(formatter, "the eviction of pod {namespace}/{name}"),
            Look::Stranded((namespace, name)) => write!(formatter, "pod {namespace}/{name}, whose Node is gone"),
            Look::Pod((namespace, name)) => write!(formatter, "the kubelet's pod {namespace}/{name}"),
            Look::Job((namespace, name)) => write!(formatter, "Job {namespace}/{name}"),
            Look::Orphan((namespace, name)) => write!(formatter, "orphaned pod {namespace}/{name}"),
            Look::Deployment((namespace, name)) => write!(formatter, "Deployment {namespace}/{name}"),
            Look::ReplicaSet((namespace, name)) => write!(formatter, "ReplicaSet {namespace}/{name}"),
            Look::StatefulSet((namespace, name)) => write!(formatter, "StatefulSet {namespace}/{name}"),
            Look::DaemonSet((namespace, name)) => write!(formatter, "DaemonSet {namespace}/{name}"),
            Look::Service((namespace, name)) => write!(formatter, "Service {namespace}/{name}"),
            Look::Waiting((namespace, name)) => write!(formatter, "waiting pod {namespace}/{name}"),
            Look::Room(name) => write!(formatter, "the room on Node {name}"),
            Look::Budget((namespace, name)) => write!(formatter, "PodDisruptionBudget {namespace}/{name}"),
            Look::Garbage(uid) => write!(formatter, "the owners of the object with uid {uid}"),
            Look::Namespace(name) => write!(formatter, "namespace {name}"),
            Look::KubeVirt((namespace, name)) => write!(formatter, "KubeVirt {namespace}/{name}"),
            Look::VirtualMachine((namespace, name)) => write!(formatter, "VirtualMachine {namespace}/{name}"),
            Look::Instance((namespace, name)) => write!(formatter, "VirtualMachineInstance {namespace}/{name}"),
            Look::Migration((namespace, name)) => write!(formatter, "migration {namespace}/{name}"),
            Look::Planner((namespace, name)) => write!(formatter, "the plans of cluster {namespace}/{name}"),
            Look::MachineDrain((namespace, name)) => write!(formatter, "the drain of {namespace}/{name}"),
            Look::SystemAgent((namespace, name)) => write!(formatter, "the plan {namespace}/{name}"),
            Look::CapiMachine((namespace, name)) => write!(formatter, "Machine {namespace}/{name}"),
            Look::Member(name) => write!(formatter, "the etcd member of Node {name}"),
            Look::Chart((namespace, name)) => write!(formatter, "ManagedChart {namespace}/{name}"),
            Look::Bundle((namespace, name)) => write!(formatter, "Bundle {namespace}/{name}"),
            Look::ClusterRepo(name) => write!(formatter, "ClusterRepo {name}"),
            Look::FleetCluster((namespace, name)) => write!(formatter, "the agent of Fleet on {namespace}/{name}"),
            Look::Addon((namespace, name)) => write!(formatter, "Addon {namespace}/{name}"),
            Look::HelmChart((namespace, name)) => write!(formatter, "HelmChart {namespace}/{name}"),
            Look::Rancher((namespace, name)) => write!(formatter, "the version of Rancher {namespace}/{name}"),
            Look::Image((namespace, name)) => write!(formatter, "VirtualMachineImage {namespace}/{name}"),
            Look::GuestMachine((namespace, name)) => write!(formatter, "the guest's Machine {namespace}/{name}"),
            Look::Bootstrap((namespace, name)) => write!(formatter, "KubeadmConfig {namespace}/{name}"),
            Look::Infrastructure((namespace, name)) => write!(formatter, "the virtual machine of {namespace}/{name}"),
            Look::GuestCluster((namespace, name)) => write!(formatter, "the guest's Cluster {namespace}/{name}"),
            Look::Balancer((namespace, name)) => write!(formatter, "the address of {namespace}/{name}"),
            Look::MachineSet((namespace, name)) => write!(formatter, "MachineSet {namespace}/{name}"),
            Look::MachineDeployment((namespace, name)) => write!(formatter, "MachineDeployment {namespace}/{name}"),
            Look::Volume(name) => write!(formatter, "volume {name}"),
            Look::InstanceManager(name) => write!(formatter, "the instance manager of Node {name}"),
            Look::Evacuation(name) => write!(formatter, "the virtual machines of Node {name}"),
        }
    }
}

/// Every look has one moment at most; the earliest that was asked for holds.
#[derive(Debug, Default)]
pub struct Agenda {
    moments: BTreeMap<Look, Timestamp>,
    order: BTreeSet<(Timestamp, Look)>,
}

impl Agenda {
    pub fn add(&mut self, look: Look, moment: Timestamp) {
        match self.moments.get(&look) {
            Some(known) if *known <= moment => return,
            Some(known) => {
                self.order.remove(&(*known, look.clone()));
            }
            None => {}
        }
        self.moments.insert(look.clone(), moment);
        self.order.insert((moment, look));
    }

    pub fn has(&self, look: &Look) -> bool {
        self.moments.contains_key(look)
    }

    pub fn next_moment(&self) -> Option<Timestamp> {
        self.order.first().map(|(moment, _)| *moment)
    }

    /// Takes the first thing that is due.
    pub fn take_due(&mut self, now: Timestamp) -> Option<Look> {
        if self.next_moment()? > now {
            return None;
        }
        let (_, look) = self.order.pop_first()?;
        self.moments.remove(&look);
        Some(look)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn the_earliest_moment_for_a_look_holds() {
        let mut agenda = Agenda::default();
        let node = Look::Machine("n1".into());
        agenda.add(node.clone(), at(10));
        agenda.add(node.clone(), at(5));
        agenda.add(node.clone(), at(20));

        assert_eq!(agenda.next_moment(), Some(at(5)));
        assert_eq!(agenda.take_due(at(4)), None);
        assert_eq!(agenda.take_due(at(5)), Some(node));
        assert_eq!(agenda.next_moment(), None);
    }

    #[test]
    fn what_is_due_together_comes_in_a_fixed_order() {
        let mut agenda = Agenda::default();
        agenda.add(Look::Room("n1".into()), at(5));
        agenda.add(Look::Machine("n2".into()), at(5));
        agenda.add(Look::Machine("n1".into()), at(5));

        let mut order = Vec::new();
        while let Some(look) = agenda.take_due(at(5)) {
            order.push(look);
        }
        assert_eq!(order, [Look::Machine("n1".into()), Look::Machine("n2".into()), Look::Room("n1".into())]);
    }
}
