//! What of a cluster is not of a version yet: its class, its control plane, its workers, and their Machines.

use drover_api::cluster_api::labels::DEPLOYMENT_NAME;

use super::{asked, plane_of};
use crate::cluster::cluster_api::{Cluster as Guest, Machine};
use crate::cluster::{Cluster, ObjectRef};
use crate::guest::order::Version;
use crate::why::Progress;

/// Every part that is of a lower version, what asks before what is made of it. Workers that no MachineDeployment keeps are nobody's here.
pub fn below<'a>(cluster: &'a Cluster, own: &'a Guest, version: &'a Version) -> impl Iterator<Item = ObjectRef> + 'a {
    let api = &cluster.cluster_api;
    let (namespace, name) = (&own.metadata.namespace, &own.metadata.name);
    let is_lower = move |text: &str| Version::parse(text).is_some_and(|runs| runs < *version);
    let class = own.spec.topology.iter().filter(move |class| is_lower(&class.version)).map(|_| ObjectRef::of(own));
    let plane =
        plane_of(cluster, own).into_iter().filter(move |plane| is_lower(&plane.spec.version)).map(ObjectRef::of);
    let workers = api.deployments_of(namespace, name);
    let workers = workers.filter(move |one| is_lower(&one.spec.template.spec.version)).map(ObjectRef::of);
    let is_kept = |one: &&Machine| one.is_of_control_plane() || one.metadata.labels.contains_key(DEPLOYMENT_NAME);
    let machines = api.machines_of(namespace, name).filter(is_kept);
    let machines = machines.filter(move |one| is_lower(&one.spec.version)).map(ObjectRef::of);
    class.chain(plane).chain(workers).chain(machines)
}

/// Whether a cluster is as it is asked for, by whoever: nothing differs, and nothing is behind the version that its owner has left to an
/// operator, or that its control plane is to be of.
pub fn is_done(cluster: &Cluster, own: &Guest) -> bool {
    let left = Some(asked(own)).filter(|to| !to.is_empty());
    let is_no_version = left.is_some_and(|to| Version::parse(to).is_none());
    let progress = Progress::of_cluster(cluster, own);
    let goal = left.and_then(Version::parse).max(Version::parse(&progress.to));
    !progress.differs && !is_no_version && goal.is_none_or(|goal| below(cluster, own, &goal).next().is_none())
}
