//! How far upgrades are: their nodes, what is left, when they may be done.

mod guest;
mod upgrade;

use drover_api::plan::{NodeCounts, labels};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::cluster::{Cluster, Job, Node, ObjectRef};
use crate::forecast::{Forecast, Rules, Verdict, forecast_all};
use crate::plan::names;
use crate::plan::selector::Selector;
use crate::seen::PlanSeen;
use crate::why::{self, Cause, Driver, Outlook};
pub use guest::{GuestStatus, Guests, MachineLine, guests, of_guest, of_tanzu};
pub use upgrade::{UpgradeStatus, of_upgrade};

/// One Plan on one screen.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub object: ObjectRef,
    pub driver: Driver,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    pub complete: bool,
    pub counts: NodeCounts,
    pub nodes: Vec<NodeLine>,
    /// When it may be done; none while something holds it up that does not resolve itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// What holds it up, the most decisive first, a line each.
    pub waits: Vec<WaitLine>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeLine {
    pub name: String,
    /// `updated`, `waiting`, `failed`, or what its Job does: `draining`, `upgrading`, ….
    pub state: String,
    pub ready: bool,
    pub cordoned: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kubelet: String,
    /// Since when it is in that state, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WaitLine {
    pub object: ObjectRef,
    pub statement: String,
    pub alarm: bool,
}

/// A forecast, said with what it rests on.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Estimate {
    pub done_at: Timestamp,
    /// `3 nodes that are done took about 4 min each`.
    pub basis: String,
}

/// All Upgrades, Plans and guest clusters, and whether the nodes could be drained.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    pub looked_at: Timestamp,
    pub nodes: NodeSum,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub upgrades: Vec<UpgradeStatus>,
    pub plans: Vec<Status>,
    /// Guest clusters; what needs somebody comes first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<GuestStatus>,
    /// The nodes that cannot be drained now, with what is in the way.
    pub drains: Vec<Forecast>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct NodeSum {
    pub all: usize,
    pub ready: usize,
    pub cordoned: usize,
}

pub fn overview(cluster: &Cluster) -> Overview {
    let count = |is: fn(&Node) -> bool| cluster.nodes.iter().filter(|node| is(node)).count();
    let drains = forecast_all(cluster, Rules::default());
    Overview {
        looked_at: cluster.looked_at,
        nodes: NodeSum {
            all: cluster.nodes.len(),
            ready: count(Node::is_ready),
            cordoned: count(|node| node.spec.unschedulable),
        },
        upgrades: upgrade::shown(cluster).map(|upgrade| of_upgrade(cluster, upgrade)).collect(),
        plans: cluster.plans().map(|plan| of(cluster, plan)).collect(),
        clusters: guests(cluster).clusters,
        drains: drains.into_iter().filter(|forecast| forecast.drains != Verdict::Now).collect(),
        unseen: cluster.unseen.iter().filter(|unseen| unseen.may_hide_something()).map(ToString::to_string).collect(),
    }
}

pub fn of(cluster: &Cluster, plan: &PlanSeen) -> Status {
    let (explanation, counts) = why::plan_explanation(cluster, plan);
    let jobs = why::jobs_of(cluster, plan);
    let nodes: Vec<NodeLine> = members(cluster, plan).map(|node| line(cluster, plan, node, &jobs)).collect();
    Status {
        estimate: estimate(cluster, plan, &counts, &nodes, &jobs).filter(|_| !is_stuck(&explanation.causes)),
        object: explanation.object,
        driver: explanation.driver.unwrap_or(Driver::Nobody),
        version: plan.status.latest_version.clone(),
        complete: explanation.complete,
        counts,
        nodes,
        waits: explanation.causes.iter().map(wait_line).collect(),
    }
}

fn wait_line(cause: &Cause) -> WaitLine {
    WaitLine { object: cause.object.clone(), statement: cause.statement.clone(), alarm: cause.alarm }
}

fn is_stuck(causes: &[Cause]) -> bool {
    causes.iter().any(|cause| cause.resolves_itself == Outlook::No)
}

fn members<'a>(cluster: &'a Cluster, plan: &PlanSeen) -> impl Iterator<Item = &'a Node> {
    let selector = plan.spec.as_ref().ok().and_then(|spec| spec.node_selector.as_ref());
    let selector = selector.and_then(|selector| Selector::parse(selector).ok());
    let is_member = move |node: &&Node| {
        selector.as_ref().is_some_and(|selector| selector.matches(&node.metadata.labels))
            && node.metadata.labels.contains_key(drover_api::node::HOSTNAME)
    };
    cluster.nodes.iter().filter(is_member)
}

fn line(cluster: &Cluster, plan: &PlanSeen, node: &Node, jobs: &[&Job]) -> NodeLine {
    let name = &node.metadata.name;
    let label = names::label(name);
    let mine = jobs.iter().filter(|job| job.metadata.labels.get(labels::NODE) == Some(&label));
    let last = mine.max_by_key(|job| job.metadata.creation_timestamp);
    let result = node.metadata.labels.get(&labels::plan_hash(&plan.meta.name));
    let is_updated = result.is_some_and(|hash| *hash == plan.status.latest_hash && !hash.is_empty());
    let claim = plan.claims.nodes.get(name);
    let (state, since) = match last {
        _ if is_updated => ("updated", last.and_then(|job| job.status.completion_time)),
        Some(job) if !job.has_ended() => {
            (why::job_phase(cluster, &job.metadata.namespace, &job.metadata.name), job.status.start_time)
        }
        Some(job) if job.failure().is_some() => {
            ("failed", job.failure().and_then(|failure| failure.last_transition_time))
        }
        Some(job) if claim.is_some() || !node.is_ready() => ("coming back", job.status.completion_time),
        _ if result.is_some_and(|result| result == labels::DISABLED) => ("left out", None),
        _ if claim.is_some() => ("starting", claim.map(|claim| claim.since)),
        _ => ("waiting", None),
    };
    NodeLine {
        name: name.clone(),
        state: state.to_owned(),
        ready: node.is_ready(),
        cordoned: node.spec.unschedulable,
        kubelet: node.status.node_info.kubelet_version.clone(),
        since,
    }
}

/// From how long nodes took that are done: the median, as often as there are rounds left.
fn estimate(
    cluster: &Cluster,
    plan: &PlanSeen,
    counts: &NodeCounts,
    nodes: &[NodeLine],
    jobs: &[&Job],
) -> Option<Estimate> {
    let mut took: Vec<i64> = match plan.claims.took.is_empty() {
        false => plan.claims.took.clone(),
        true => jobs.iter().filter_map(|job| length(job)).collect(),
    };
    took.sort_unstable();
    let usual = took.get(took.len() / 2).copied().filter(|seconds| *seconds > 0)?;
    let at_once = plan.spec.as_ref().map_or(1, |spec| spec.concurrency.max(1));
    let left = counts.waiting + counts.failed;
    if left + counts.applying == 0 {
        return None;
    }
    // Whoever is at work needs the rest of its time, and at least a moment.
    let at_work =
        nodes.iter().filter(|node| !matches!(node.state.as_str(), "updated" | "waiting" | "failed" | "left out"));
    let ages = at_work.filter_map(|node| Some(cluster.looked_at.duration_since(node.since?).as_secs()));
    let rest = ages.map(|age| (usual - age).max(usual / 10)).max().unwrap_or(0);
    let rounds = left.div_euclid(at_once) + i64::from(left.rem_euclid(at_once) != 0);
    let seconds = rest + rounds * usual;
    let done_at = cluster.looked_at.checked_add(SignedDuration::from_secs(seconds)).ok()?;
    let nodes = if took.len() == 1 {
        "1 node that is done took".to_owned()
    } else {
        format!("{} nodes that are done took", took.len())
    };
    let basis = format!("{nodes} about {} each", why::rough(SignedDuration::from_secs(usual)));
    Some(Estimate { done_at, basis })
}

fn length(job: &Job) -> Option<i64> {
    let (start, end) = (job.status.start_time?, job.status.completion_time?);
    job.is_complete().then(|| end.duration_since(start).as_secs())
}

impl Overview {
    pub fn text(&self, now: Timestamp) -> String {
        let NodeSum { all, ready, cordoned } = &self.nodes;
        let mut text = format!("{all} nodes, {ready} Ready, {cordoned} cordoned\n");
        for upgrade in &self.upgrades {
            text.push('\n');
            text.push_str(&upgrade.text(now));
        }
        if self.plans.is_empty() && self.upgrades.is_empty() && self.clusters.is_empty() {
            text.push_str("no Plans\n");
        }
        for plan in &self.plans {
            text.push('\n');
            text.push_str(&plan.text(now));
        }
        if !self.clusters.is_empty() {
            text.push('\n');
            text.push_str(&guest::table(&self.clusters));
        }
        if !self.drains.is_empty() {
            text.push_str("\nnodes that cannot be drained now:\n");
        }
        for forecast in &self.drains {
            text.push_str(&forecast.text());
        }
        if !self.unseen.is_empty() {
            text.push_str("\ncould not be looked at:\n");
            self.unseen.iter().for_each(|what| text.push_str(&format!("  {what}\n")));
        }
        text
    }
}

impl Status {
    pub fn text(&self, now: Timestamp) -> String {
        let counts = &self.counts;
        let mut text = format!("{}  {}/{} updated", self.object, counts.updated, counts.selected);
        for (count, word) in [(counts.applying, "applying"), (counts.waiting, "waiting"), (counts.failed, "failed")] {
            if count > 0 {
                text.push_str(&format!(", {count} {word}"));
            }
        }
        if !self.version.is_empty() {
            text.push_str(&format!("  version {}", self.version));
        }
        text.push('\n');
        text.push_str(&outlook("", self.estimate.as_ref(), self.complete, now));
        text.push_str(&table(&self.nodes, now));
        text.push_str(&told(&self.waits));
        text
    }
}

/// When it is done, as far as that can be told; `what` is, as in `nodes `, if not the whole.
fn outlook(what: &str, estimate: Option<&Estimate>, complete: bool, now: Timestamp) -> String {
    match estimate {
        Some(Estimate { done_at, basis }) => {
            format!("  {what}done in about {}, by estimate: {basis}\n", why::rough(done_at.duration_since(now)))
        }
        None if complete => "  done\n".to_owned(),
        None => String::new(),
    }
}

fn told(waits: &[WaitLine]) -> String {
    let line = |wait: &WaitLine| format!("  {} {}\n", if wait.alarm { "!" } else { "·" }, wait.statement);
    waits.iter().map(line).collect()
}

fn table(nodes: &[NodeLine], now: Timestamp) -> String {
    columns(&nodes.iter().map(|node| cells(node, now)).collect::<Vec<_>>(), "  ")
}

/// Rows in columns that are as wide as their widest cell, two blanks apart.
fn columns<const N: usize>(rows: &[[String; N]], indent: &str) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("{indent}{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

fn cells(node: &NodeLine, now: Timestamp) -> [String; 4] {
    let ready = if node.ready { "Ready" } else { "not Ready" };
    let health = if node.cordoned { format!("{ready}, cordoned") } else { ready.to_owned() };
    let age = node.since.map(|since| format!("for {}", why::rough(now.duration_since(since))));
    let age = age.filter(|_| node.state != "updated").unwrap_or_default();
    [node.name.clone(), node.state.clone(), health, [node.kubelet.as_str(), age.as_str()].join("  ").trim().to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_it_is_done_is_told_by_an_estimate_or_once_it_is() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let estimate =
            Estimate { done_at: "2026-01-01T14:00:00Z".parse().unwrap(), basis: "2 nodes so far".to_owned() };
        assert_eq!(outlook("", None, false, now), "");
        assert_eq!(outlook("", None, true, now), "  done\n");
        let told = outlook("nodes ", Some(&estimate), false, now);
        assert_eq!(told, "  nodes done in about 2 h, by estimate: 2 nodes so far\n");
    }
}
