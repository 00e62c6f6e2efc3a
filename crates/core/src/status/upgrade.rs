//! One Upgrade of Harvester on one screen.

use drover_api::harvester::NAMESPACE;
use drover_api::harvester::jobs;
use drover_api::harvester::upgrade::labels;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::{Estimate, NodeLine, WaitLine, is_stuck, outlook, table, told, wait_line};
use crate::cluster::harvester::Upgrade;
use crate::cluster::{Cluster, Job, ObjectRef};
use crate::harvester::progress::{Progress, Step};
use crate::why::{self, Driver};

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeStatus {
    pub object: ObjectRef,
    pub driver: Driver,
    /// Where it leads: the version, or the image that holds it.
    pub version: String,
    /// As the label of the Upgrade says it: `UpgradingNodes`; empty if it has not begun.
    pub phase: String,
    pub complete: bool,
    /// Nodes that are done, and all that take part.
    pub upgraded: usize,
    pub all: usize,
    pub nodes: Vec<NodeLine>,
    /// When its nodes may be done; none while something holds it up that does not resolve itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// What holds it up, the most decisive first, a line each.
    pub waits: Vec<WaitLine>,
}

/// The latest Upgrade, and those that are not over.
pub(super) fn shown(cluster: &Cluster) -> impl Iterator<Item = &Upgrade> {
    cluster.harvester.upgrades.iter().filter(|upgrade| {
        let is_latest = upgrade.metadata.labels.get(labels::LATEST).is_some_and(|latest| latest == "true");
        is_latest || why::progress_of_upgrade(cluster, upgrade).is_none_or(|progress| progress.ended.is_none())
    })
}

pub fn of_upgrade(cluster: &Cluster, upgrade: &Upgrade) -> UpgradeStatus {
    let explanation = why::upgrade_explanation(cluster, upgrade);
    let progress = why::progress_of_upgrade(cluster, upgrade).unwrap_or_default();
    let own = |job: &&Job| job.metadata.labels.get(jobs::UPGRADE) == Some(&upgrade.metadata.name);
    let jobs: Vec<&Job> = cluster.jobs.in_namespace(NAMESPACE).filter(own).collect();
    let statuses = &upgrade.status.node_statuses;
    let nodes: Vec<NodeLine> =
        statuses.iter().map(|(name, status)| line(cluster, name, &status.state, &jobs)).collect();
    let spec = &upgrade.spec;
    UpgradeStatus {
        estimate: estimate(cluster, &progress, &jobs, &nodes).filter(|_| !is_stuck(&explanation.causes)),
        driver: explanation.driver.unwrap_or(Driver::Nobody),
        version: if spec.image.is_empty() { spec.version.clone() } else { spec.image.clone() },
        phase: upgrade.metadata.labels.get(labels::STATE).cloned().unwrap_or_default(),
        complete: explanation.complete,
        upgraded: nodes.iter().filter(|node| progress.step(&node.name) == Step::Succeeded).count(),
        all: nodes.len(),
        nodes,
        waits: explanation.causes.iter().map(wait_line).collect(),
        object: explanation.object,
    }
}

fn of_node<'a>(jobs: &'a [&'a Job], node: &str) -> impl Iterator<Item = &'a Job> {
    let node = node.to_owned();
    jobs.iter().copied().filter(move |job| job.metadata.labels.get(jobs::NODE) == Some(&node))
}

fn line(cluster: &Cluster, name: &str, state: &str, jobs: &[&Job]) -> NodeLine {
    let node = cluster.nodes.named(name);
    NodeLine {
        name: name.to_owned(),
        state: state.to_lowercase(),
        ready: node.is_some_and(crate::cluster::Node::is_ready),
        cordoned: node.is_some_and(|node| node.spec.unschedulable),
        kubelet: node.map(|node| node.status.node_info.kubelet_version.clone()).unwrap_or_default(),
        since: of_node(jobs, name).filter_map(|job| job.status.completion_time.max(job.status.start_time)).max(),
    }
}

/// From how long nodes took from the start of their first Job to the end of their last: the median, for each that is left.
fn estimate(cluster: &Cluster, progress: &Progress, jobs: &[&Job], nodes: &[NodeLine]) -> Option<Estimate> {
    let begun = |node: &str| of_node(jobs, node).filter_map(|job| job.status.start_time).min();
    let ended = |node: &str| of_node(jobs, node).filter_map(|job| job.status.completion_time).max();
    let (done, left): (Vec<_>, Vec<_>) = nodes.iter().partition(|node| progress.step(&node.name) == Step::Succeeded);
    let took = |node: &&NodeLine| Some(ended(&node.name)?.duration_since(begun(&node.name)?).as_secs());
    let mut took: Vec<i64> = done.iter().filter_map(took).collect();
    took.sort_unstable();
    let usual = took.get(took.len() / 2).copied().filter(|seconds| *seconds > 0)?;
    if left.is_empty() {
        return None;
    }
    let now = cluster.looked_at;
    let rest = left.iter().map(|node| match begun(&node.name) {
        Some(begun) => (usual - now.duration_since(begun).as_secs()).max(usual / 10),
        None => usual,
    });
    let done_at = now.checked_add(SignedDuration::from_secs(rest.sum())).ok()?;
    let each = why::rough(SignedDuration::from_secs(usual));
    let basis = match took.len() {
        1 => format!("1 node that is done took about {each}"),
        many => format!("{many} nodes that are done took about {each} each"),
    };
    Some(Estimate { done_at, basis })
}

impl UpgradeStatus {
    pub fn text(&self, now: Timestamp) -> String {
        let phase = if self.phase.is_empty() { "not begun" } else { &self.phase };
        let mut text = format!("{}  {phase}, {}/{} nodes upgraded", self.object, self.upgraded, self.all);
        if !self.version.is_empty() {
            text.push_str(&format!("  to {}", self.version));
        }
        text.push('\n');
        text.push_str(&outlook("nodes ", self.estimate.as_ref(), self.complete, now));
        text.push_str(&table(&self.nodes, now));
        text.push_str(&told(&self.waits));
        text
    }
}
