//! Nodes while an Upgrade is under way: none joins, and none changes its role.

use drover_api::harvester::node::{PROMOTE_STATUS, PROMOTING};
use drover_api::harvester::upgrade::{annotations, conditions, labels};

use super::codes::CONFLICT;
use super::{User, Verdict};
use crate::cluster::harvester::Upgrade;
use crate::cluster::{Cluster, Node, condition};
use crate::preflight::switch;

/// The Upgrade that is under way: the first of those that count as the latest decides.
fn under_way(cluster: &Cluster) -> Option<&Upgrade> {
    let is_latest =
        |upgrade: &&Upgrade| upgrade.metadata.labels.get(labels::LATEST).is_some_and(|value| value == "true");
    let latest = cluster.harvester.upgrades.iter().find(is_latest)?;
    let completed = condition(&latest.status.conditions, conditions::COMPLETED)?;
    (completed.status == "Unknown").then_some(latest)
}

/// May a node join the cluster now?
pub fn join(node: &str, user: &User, cluster: &Cluster) -> Verdict {
    if user.is_controller || cluster.nodes.named(node).is_some() {
        return Verdict::default();
    }
    let Some(upgrade) = under_way(cluster) else { return Verdict::default() };
    let (namespace, name) = (&upgrade.metadata.namespace, &upgrade.metadata.name);
    let stated = upgrade.metadata.annotations.get(annotations::ALLOW_NODE_JOIN);
    let key = annotations::ALLOW_NODE_JOIN;
    let invalid = match stated.map(|value| (value, switch(value))) {
        Some((_, Some(true))) => return Verdict::default(),
        Some((value, None)) => format!(" and has an invalid value \"{value}\" for annotation {key}"),
        _ => String::new(),
    };
    Verdict::no(
        CONFLICT,
        format!(
            "cannot add node \"{node}\" to the cluster because the upgrade \"{namespace}/{name}\" is currently in \
             progress{invalid}. If you must add this node now, run: kubectl annotate upgrades.harvesterhci.io -n \
             {namespace} {name} {key}=true --overwrite"
        ),
    )
}

/// May a worker become a server now? Harvester begins with a mark on its Node; a member that joins etcd while others leave it
/// for their reboot can cost the quorum.
pub fn promotion(before: &Node, after: &Node, cluster: &Cluster) -> Verdict {
    let begins = |node: &Node| node.metadata.annotations.get(PROMOTE_STATUS).is_some_and(|status| status == PROMOTING);
    if begins(before) || !begins(after) {
        return Verdict::default();
    }
    match under_way(cluster) {
        None => Verdict::default(),
        Some(upgrade) => Verdict::no(
            CONFLICT,
            format!(
                "cannot promote node \"{}\" because the upgrade \"{}/{}\" is currently in progress",
                after.metadata.name, upgrade.metadata.namespace, upgrade.metadata.name
            ),
        ),
    }
}
