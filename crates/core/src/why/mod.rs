//! Why does it not go on?
//!
//! An explanation leads from what the user asked about, link by link, to the object that holds it up: the Plan waits for
//! a node, the node for a pod, the pod for a budget, the budget for a pod of its that crashes. Plans and Upgrades are explained
//! by the very decisions that drive them ([`crate::plan::decide`], [`crate::harvester::decide`]); everything below, and guest
//! clusters, which others drive as well, is read from the objects of one look.

mod budget;
mod chart;
mod drain;
mod driver;
mod ending;
mod guest;
mod image;
mod job;
mod link;
mod log;
mod node;
mod plan;
mod pod;
pub mod reasons;
mod scene;
mod scheduling;
mod surprises;
#[cfg(test)]
mod tests;
mod text;
mod upgrade;
mod vm;
mod volume;
mod waits;

use serde::Serialize;

use crate::cluster::{Cluster, ObjectRef};
pub use driver::Driver;
pub use link::{Cause, Certainty, Costs, Link, Outlook};
pub use scene::Scene;
pub use text::rough;

/// What is known about one object: how far it is, and what holds it up, the most decisive first.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub object: ObjectRef,
    /// How far it is, in a line.
    pub summary: String,
    /// Nothing is left to be done.
    pub complete: bool,
    /// Who acts on it, for what somebody acts on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<Driver>,
    pub causes: Vec<Cause>,
    /// What could not be looked at although it may matter here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<String>,
}

impl Explanation {
    /// Something is wrong, as opposed to work that takes its time.
    pub fn is_alarming(&self) -> bool {
        self.causes.iter().any(|cause| cause.alarm)
    }
}

/// Why there is no explanation.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Unexplained {
    #[error("there is no {0}")]
    NotThere(String),
    #[error("{object} could not be looked at: {cause}")]
    Unseen { object: String, cause: String },
    #[error(
        "{0} cannot be explained: give upgrade/NAME, plan/NAMESPACE/NAME, tkc/NAMESPACE/NAME, cluster/NAMESPACE/NAME, machine/NAMESPACE/NAME, node/NAME, pod/NAMESPACE/NAME or vm/NAMESPACE/NAME"
    )]
    Kind(String),
}

/// Explains one Upgrade, Plan, guest cluster, Machine, Node or Pod, or what Harvester runs on: a VM, a volume, a chart, an image.
pub fn explain(cluster: &Cluster, object: &ObjectRef) -> Result<Explanation, Unexplained> {
    let (namespace, name) = (object.namespace.as_str(), object.name.as_str());
    let explanation = match object.kind.as_str() {
        "Plan" => cluster.plan(namespace, name).map(|seen| plan::explain(cluster, seen)),
        "Node" => cluster.nodes.named(name).map(|seen| node::explain(cluster, seen)),
        "Pod" => cluster.pods.get(namespace, name).map(|seen| pod::explain(cluster, seen)),
        "TanzuKubernetesCluster" => {
            cluster.tanzu.clusters.get(namespace, name).map(|seen| guest::explain_tanzu(cluster, seen))
        }
        "Cluster" => cluster.cluster_api.clusters.get(namespace, name).map(|seen| guest::explain(cluster, seen)),
        "Machine" => {
            cluster.cluster_api.machines.get(namespace, name).map(|seen| guest::explain_machine(cluster, seen))
        }
        _ => of_harvester(cluster, object)?,
    };
    explanation.ok_or_else(|| match cluster.blind_to(&object.kind) {
        Some(unseen) => Unexplained::Unseen { object: object.in_words(), cause: unseen.to_string() },
        None => Unexplained::NotThere(object.in_words()),
    })
}

fn of_harvester(cluster: &Cluster, object: &ObjectRef) -> Result<Option<Explanation>, Unexplained> {
    let (namespace, name) = (object.namespace.as_str(), object.name.as_str());
    let crate::cluster::harvester::Harvester { upgrades, upgrade_logs, charts, images, .. } = &cluster.harvester;
    let crate::cluster::kubevirt::VirtualMachines { machines, instances, migrations, .. } = &cluster.kubevirt;
    Ok(match object.kind.as_str() {
        "Upgrade" => upgrades.get(namespace, name).map(|seen| upgrade::explain(cluster, seen)),
        "UpgradeLog" => upgrade_logs.get(namespace, name).map(|seen| log::explain(cluster, seen)),
        "VirtualMachineImage" => images.get(namespace, name).map(|seen| image::explain(cluster, seen)),
        "ManagedChart" => charts.get(namespace, name).map(|seen| chart::explain(cluster, seen)),
        "VirtualMachine" => machines.get(namespace, name).map(|seen| vm::explain(cluster, seen)),
        "VirtualMachineInstance" => instances.get(namespace, name).map(|seen| vm::explain_instance(cluster, seen)),
        "VirtualMachineInstanceMigration" => {
            migrations.get(namespace, name).map(|seen| vm::explain_migration(cluster, seen))
        }
        "Volume.longhorn.io" => {
            cluster.longhorn.volumes.get(namespace, name).map(|seen| volume::explain(cluster, seen))
        }
        _ => return Err(Unexplained::Kind(object.in_words())),
    })
}

/// Everything that waits: Upgrades, Plans and guest clusters that are not done, nodes that are out of order, pods that do not run although nothing above
/// accounts for them.
pub fn explain_all(cluster: &Cluster) -> Vec<Explanation> {
    let waits = |one: &Explanation| !one.complete || one.is_alarming();
    let upgrades = cluster.harvester.upgrades.iter().map(|upgrade| upgrade::explain(cluster, upgrade));
    let mut all: Vec<Explanation> = upgrades.filter(waits).collect();
    for explanation in cluster.plans().map(|plan| plan::explain(cluster, plan)).filter(waits) {
        if !is_accounted_for(&all, &explanation) {
            all.push(explanation);
        }
    }
    for explanation in guests(cluster).filter(waits) {
        if !is_accounted_for(&all, &explanation) {
            all.push(explanation);
        }
    }
    let nodes = cluster.nodes.iter().map(|node| node::explain(cluster, node));
    for explanation in nodes.filter(Explanation::is_alarming) {
        if !is_told(&all, &explanation) {
            all.push(explanation);
        }
    }
    let pods = cluster.pods.iter().filter(|pod| !pod.is_ready() || pod.is_ending());
    let pods = pods.map(|pod| pod::explain(cluster, pod)).filter(Explanation::is_alarming);
    for explanation in pods {
        if !is_accounted_for(&all, &explanation) {
            all.push(explanation);
        }
    }
    // What is wrong comes before what takes its time.
    all.sort_by_key(|explanation| !explanation.is_alarming());
    all
}

/// Every guest cluster, each by the kind that it is asked for by.
pub(crate) fn guests(cluster: &Cluster) -> impl Iterator<Item = Explanation> {
    let tanzu = cluster.tanzu.clusters.iter().map(|seen| guest::explain_tanzu(cluster, seen));
    let own = |seen: &&crate::cluster::cluster_api::Cluster| !is_part_of_another(cluster, seen);
    tanzu.chain(cluster.cluster_api.clusters.iter().filter(own).map(|seen| guest::explain(cluster, seen)))
}

/// Something else stands for it: a TanzuKubernetesCluster of its name, or Rancher.
pub(crate) fn is_part_of_another(cluster: &Cluster, seen: &crate::cluster::cluster_api::Cluster) -> bool {
    let (namespace, name) = (&seen.metadata.namespace, &seen.metadata.name);
    seen.is_rancher_s() || cluster.tanzu.clusters.get(namespace, name).is_some()
}

/// All that is wrong with a node is what an Upgrade waits for with it.
fn is_told(all: &[Explanation], one: &Explanation) -> bool {
    let told = |cause: &Cause| {
        let upgrades = all.iter().filter(|other| other.object.kind == "Upgrade");
        let mut causes = upgrades.flat_map(|other| &other.causes);
        causes.any(|other| other.object == cause.object && other.statement == cause.statement)
    };
    one.causes.iter().filter(|cause| cause.alarm).all(told)
}

/// What stands in the explanation of something larger need not be told again.
fn is_accounted_for(all: &[Explanation], one: &Explanation) -> bool {
    let mentioned = all.iter().flat_map(|other| &other.causes).flat_map(|cause| &cause.chain);
    mentioned.into_iter().any(|step| step.object == one.object)
}

/// Pods that a drain has to move; those of DaemonSets, the kubelet's own and those of upgrades stay.
pub(crate) fn has_to_go(pod: &crate::cluster::Pod) -> bool {
    drain::has_to_go(pod)
}

/// What lies at the bottom of why a pod cannot be evicted now.
pub(crate) fn forbidden(cluster: &Cluster, pod: &crate::cluster::Pod) -> Option<Link> {
    let held = match pod.is_ending() {
        true => ending::holds(cluster, pod).filter(|chain| chain.last().is_some_and(|link| link.alarm)),
        false => budget::forbids(cluster, pod),
    };
    held.and_then(|chain| chain.into_iter().next())
}

/// Does KubeVirt or Longhorn protect the pod by a budget, and lift it once its VM or its volumes can do without?
pub(crate) fn is_kept_by_product(cluster: &Cluster, pod: &crate::cluster::Pod) -> bool {
    vm::of(cluster, pod).is_some() || volume::is_instance_manager(pod) && !cluster.longhorn.volumes.is_empty()
}

/// Why a node cannot be drained at all: nobody there answers.
pub(crate) fn node_down(cluster: &Cluster, node: &crate::cluster::Node) -> Option<Link> {
    node::down(cluster, node).and_then(|chain| chain.into_iter().next())
}

pub use guest::{Pool, Progress};
pub(crate) use guest::{
    explain as guest_explanation, explain_tanzu as tanzu_explanation, is_of, parts as guest_parts, paused,
};
pub(crate) use upgrade::{explain as upgrade_explanation, progress_of as progress_of_upgrade};

/// An explanation together with the counts that it rests on.
pub(crate) fn plan_explanation(
    cluster: &Cluster,
    plan: &crate::seen::PlanSeen,
) -> (Explanation, drover_api::plan::NodeCounts) {
    plan::explain_with_counts(cluster, plan, &[])
}

/// The Jobs of a Plan, as they are in the cluster.
pub(crate) fn jobs_of<'a>(cluster: &'a Cluster, plan: &crate::seen::PlanSeen) -> Vec<&'a crate::cluster::Job> {
    scene::jobs_of(cluster, plan).filter_map(|job| cluster.jobs.get(&job.meta.namespace, &job.meta.name)).collect()
}

pub(crate) fn job_phase(cluster: &Cluster, namespace: &str, name: &str) -> &'static str {
    job::phase(cluster, namespace, name)
}
