//! A cluster that its owner has paused: Cluster API makes no machine of it and deletes none, however long one waits.

use drover_api::cluster_api::PAUSED;
use serde_json::Value;

use super::dialect::Dialect;
use super::view::{Flow, Machine, View};
use super::wait::Reason;

/// Ends a try that has anything left to do. The next one goes on from there, with all of its time.
pub fn refuse(view: &View<'_>, cluster: &Value, machines: &[Machine<'_>]) -> Flow<()> {
    // The first version knows no pause.
    if view.dialect == Dialect::V1alpha2 {
        return Ok(());
    }
    let order = view.order;
    let (namespace, name) = (&order.namespace, &order.cluster);
    let is_marked = |object: &Value| object["metadata"]["annotations"][PAUSED].is_string();
    let marked = machines.iter().find(|machine| is_marked(machine.object));
    let (what, how) = match marked {
        _ if cluster["spec"]["paused"] == true => (
            format!("Cluster {namespace}/{name} is paused (spec.paused)"),
            format!("drover upgrade resume cluster/{namespace}/{name}"),
        ),
        _ if is_marked(cluster) => (
            format!("Cluster {namespace}/{name} is paused (annotation {PAUSED})"),
            format!("kubectl -n {namespace} annotate cluster {name} {PAUSED}-"),
        ),
        Some(machine) => (
            format!("{} is paused (annotation {PAUSED})", machine.reference()),
            format!("kubectl -n {namespace} annotate machine {} {PAUSED}-", machine.name()),
        ),
        None => return Ok(()),
    };
    let sentence = format!("{what}: Cluster API makes no machine of it, and deletes none");
    view.fail(Reason::ClusterPaused, sentence, format!("{how}; the same call goes on from there"))
}
