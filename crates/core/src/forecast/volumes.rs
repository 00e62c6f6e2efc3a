//! Volumes of Longhorn whose last sound copy is on a node.

use std::collections::BTreeMap;

use drover_api::longhorn::setting::names::NODE_DRAIN_POLICY;

use super::{Blocker, Verdict};
use crate::cluster::longhorn::{Replica, Volume};
use crate::cluster::{Cluster, Node, ObjectRef};

/// Longhorn lets a node be drained whatever is on it.
const ALWAYS: &str = "always-allow";

/// The last sound replicas of volumes.
pub struct Copies<'a> {
    last: BTreeMap<(&'a str, &'a str), &'a Replica>,
    /// Longhorn keeps a node from being drained that holds the last copy of something.
    protected: bool,
}

impl<'a> Copies<'a> {
    pub fn of(cluster: &'a Cluster) -> Self {
        let mut settings = cluster.longhorn.settings.iter();
        let policy = settings.find(|setting| setting.metadata.name == NODE_DRAIN_POLICY);
        Copies { last: cluster.longhorn.last_replicas(), protected: policy.is_none_or(|policy| policy.value != ALWAYS) }
    }

    /// The volumes that would stop with this node.
    pub fn in_the_way(&self, cluster: &Cluster, node: &Node) -> Vec<Blocker> {
        let name = node.metadata.name.as_str();
        let here = self.last.iter().filter(|(_, replica)| replica.spec.node_id == name);
        let volumes = here.filter_map(|((namespace, volume), _)| cluster.longhorn.volumes.get(namespace, volume));
        let attached = volumes.filter(|volume| self.protected && volume.is_attached());
        attached.map(|volume| blocker(volume, name)).collect()
    }
}

fn blocker(volume: &Volume, node: &str) -> Blocker {
    let (namespace, name) = (&volume.metadata.namespace, &volume.metadata.name);
    let claim = volume.claim();
    // More replicas are wanted: Longhorn makes them, as long as there is room.
    let (statement, drains, remedy) = match volume.spec.number_of_replicas > 1 {
        true => (
            format!("Node {node} holds the last sound replica of volume {claim}"),
            Verdict::Later,
            format!("wait until another one is rebuilt: kubectl get -n {namespace} volumes.longhorn.io {name}"),
        ),
        false => (
            format!("Node {node} holds the only replica of volume {claim}"),
            Verdict::Never,
            format!(
                "give it a second one: kubectl patch -n {namespace} volumes.longhorn.io {name} --type=merge -p '{{\"spec\":{{\"numberOfReplicas\":2}}}}'"
            ),
        ),
    };
    Blocker { object: ObjectRef::of(volume), pod: None, statement, drains, remedy: Some(remedy) }
}
