//! Guest clusters of Cluster API v1alpha2 and v1beta1: Machines, their bootstrap and infrastructure, and what their virtual machines do
//! to the guest cluster when they come and go.
//!
//! Models Cluster API 0.2.9, the kubeadm bootstrap provider 0.1 and the machines of vSphere with Kubernetes 7.0, and, for what is of
//! v1beta1, Cluster API 1.9 with machines that belong to no KubeadmControlPlane (`contract`), as far as an update of a control plane can see them: a Machine gets its bootstrap data only while all four certificate Secrets are there,
//! boots after a while, joins etcd as a learner before it votes, and is drained, with no limit, before it goes. The certificate
//! Secrets belong to the KubeadmConfig that began the cluster, so the garbage collector takes them away with it, as it did. A guest
//! cluster is an API server of its own; it answers while a member of etcd with an API server beside it is well, and etcd has its
//! quorum. Workers are kept by MachineSets, which a MachineDeployment rolls. A new Cluster gets its address, its certificates and its
//! kubeconfig, and its first machine begins the control plane; its Nodes are known to nobody before a cloud provider runs in it. Left out: tokens, and all of a VM and a load balancer but their time.

pub mod etcd;

mod beginning;
mod bootstrap;
mod cluster;
mod contract;
mod infrastructure;
mod join;
mod machine;
mod machine_deployment;
mod machine_set;
mod seeds;
#[cfg(test)]
mod tests;
mod virtual_machine;
mod watch;
mod watch_clusters;
mod watch_workers;
mod workers;
#[cfg(test)]
mod workers_tests;

pub use contract::Contract;
pub use join::IMAGES;
pub use seeds::{Guest, Settled, address, certificate_texts};
pub use workers::image_name;

use drover_api::cluster_api::machine::v1alpha2::Machine;
use drover_api::cluster_api::{labels, secrets};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};

use super::outcome::Action;
use super::pods;
use crate::apiserver::{Direct, Kind};

/// The parts of a control plane that run as static pods.
const COMPONENTS: [&str; 4] = [ETCD, API_SERVER, "kube-controller-manager", "kube-scheduler"];
const ETCD: &str = "etcd";
const API_SERVER: &str = "kube-apiserver";
const SYSTEM: &str = "kube-system";
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The Secrets with the certificates of a cluster, by what their names end with.
const CERTIFICATES: [&str; 4] = [secrets::CA, secrets::ETCD, secrets::PROXY, secrets::SERVICE_ACCOUNT];

/// What is done, in the management cluster and in the guest, and when to look again.
#[derive(Debug, Default, PartialEq)]
struct Steps {
    own: Vec<Action>,
    guest: Vec<Action>,
    wake: Option<jiff::Timestamp>,
}

impl Steps {
    fn wait_until(moment: jiff::Timestamp) -> Self {
        Steps { wake: Some(moment), ..Steps::default() }
    }

    fn own(actions: Vec<Action>) -> Self {
        Steps { own: actions, ..Steps::default() }
    }
}

/// Whether the API of a guest cluster answers: a well API server beside a member of an etcd that has its quorum.
pub fn is_reachable(guest: &Direct) -> bool {
    let members = etcd::Members::read(guest);
    let well = |name: &str| is_well(guest, API_SERVER, name) && is_well(guest, ETCD, name);
    members.has_quorum(guest) && members.0.iter().any(|member| !member.learner && well(&member.name))
}

/// The minor version of Kubernetes of the oldest machine that an API server runs on: any of them may answer.
pub fn age(guest: &Direct) -> Option<u32> {
    let nodes = guest.list::<Node>().ok()?;
    let serves = |node: &&Node| {
        let labels = node.metadata.labels.as_ref();
        labels.is_some_and(|all| all.contains_key(join::MASTER) || all.contains_key(join::CONTROL_PLANE))
    };
    let version = |node: &Node| Some(join::minor(&node.status.as_ref()?.node_info.as_ref()?.kubelet_version));
    nodes.iter().filter(serves).filter_map(version).min()
}

/// Whether a part of the control plane is well on a node.
fn is_well(guest: &Direct, component: &str, node: &str) -> bool {
    let pod = guest.get::<Pod>(Some(SYSTEM), &format!("{component}-{node}")).ok().flatten();
    let machine = guest.get::<Node>(None, node).ok().flatten();
    let is_off = machine.as_ref().is_some_and(virtual_machine::is_switched_off);
    !is_off && pod.is_some_and(|pod| pods::is_ready(&pod) && !pods::is_leaving(&pod))
}

fn is_mirror(pod: &Pod) -> bool {
    pod.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(MIRROR))
}

fn is_of_control_plane(machine: &Machine) -> bool {
    machine.metadata.labels.as_ref().is_some_and(|all| all.contains_key(labels::CONTROL_PLANE))
}

/// Owned, but not controlled: as v1alpha2 does it. The version is the owner's own.
fn owned_by<K: Kind>(owner: &K, api_version: &str) -> OwnerReference {
    OwnerReference {
        api_version: api_version.to_owned(),
        kind: K::kind(&()).into_owned(),
        name: pods::name(owner.meta()).into(),
        uid: pods::uid(owner.meta()).into(),
        ..OwnerReference::default()
    }
}

/// Adds an owner, unless it is there.
fn adopt(metadata: &mut ObjectMeta, owner: OwnerReference) {
    let owners = metadata.owner_references.get_or_insert_default();
    if !owners.iter().any(|known| known.uid == owner.uid) {
        owners.push(owner);
    }
}

fn drop_finalizer(metadata: &mut ObjectMeta, finalizer: &str) {
    if let Some(finalizers) = &mut metadata.finalizers {
        finalizers.retain(|one| one != finalizer);
    }
}

fn time(moment: jiff::Timestamp) -> Time {
    Time(moment)
}

fn has_provider(node: &Node, provider_id: &str) -> bool {
    node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()) == Some(provider_id)
}
