//! Why Longhorn does not let a node go: the budget of its instance manager stays as long as a volume needs the node.

use super::link::{Chain, Link, Outlook};
use crate::cluster::longhorn::Volume;
use crate::cluster::{Cluster, ObjectRef, Pod};

const COMPONENT: &str = "longhorn.io/component";
const INSTANCE_MANAGER: &str = "instance-manager";

/// It runs engines and replicas.
pub fn is_instance_manager(pod: &Pod) -> bool {
    pod.metadata.labels.get(COMPONENT).is_some_and(|component| component == INSTANCE_MANAGER)
}

/// From the volume down; empty if the pod is no instance manager, or none of its volumes needs it.
pub fn needs(cluster: &Cluster, pod: &Pod) -> Chain {
    if !is_instance_manager(pod) {
        return Chain::new();
    }
    let last = cluster.longhorn.last_replicas();
    let is_here = |volume: &&Volume| {
        let last = last.get(&(volume.metadata.namespace.as_str(), volume.metadata.name.as_str()));
        volume.is_attached() && last.is_some_and(|last| last.spec.node_id == pod.spec.node_name)
    };
    let Some(volume) = cluster.longhorn.volumes.iter().find(is_here) else { return Chain::new() };
    let (namespace, name, wanted) = (&volume.metadata.namespace, &volume.metadata.name, volume.spec.number_of_replicas);
    let statement = format!(
        "volume {} has its last sound replica on Node {}, of {wanted} that it wants",
        volume.claim(),
        pod.spec.node_name
    );
    let link = Link::proven(ObjectRef::of(volume), statement);
    // More are wanted: Longhorn makes them, as long as there is room.
    vec![match wanted > 1 {
        true => link.outlook(Outlook::Maybe).remedy(format!(
            "wait until another one is rebuilt: kubectl describe -n {namespace} volumes.longhorn.io {name}"
        )),
        false => {
            link.remedy(format!("give it a second replica: kubectl edit -n {namespace} volumes.longhorn.io {name}"))
        }
    }]
}
