//! What a demonstration has come to.

use std::time::Duration;

use drover_api::plan::conditions::{COMPLETE, TRUE};
use drover_api::plan::{NodeCounts, PlanStatus};
use drover_clock::between;
use drover_sim::Scenario;
use drover_sim::scenario::NAMESPACE;
use jiff::Timestamp;
use serde::Serialize;

use super::picture::{Picture, State};
use super::screen::clock_time;
use crate::serving::Serving;

/// The names are part of the interface: scripts read them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub scenario: String,
    pub nodes: Vec<NodeSummary>,
    pub plan: PlanSummary,
    /// How long it took on the cluster's clock.
    pub virtual_seconds: f64,
    /// How many writes the operator made, without those of its election.
    pub writes: usize,
    /// Everything that was waited for, in the order in which it began.
    pub waits: Vec<WaitSummary>,
    /// What of the scenario's expectations was not met.
    pub unmet: Vec<String>,
    /// What must never happen, and did.
    pub violations: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSummary {
    pub name: String,
    pub state: State,
    pub version: String,
    /// How long it was out of service.
    pub seconds: Option<f64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanSummary {
    pub namespace: String,
    pub name: String,
    pub complete: bool,
    pub counts: NodeCounts,
    pub latest_version: String,
    pub latest_hash: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitSummary {
    pub subject: String,
    pub reason: String,
    pub sentence: String,
    pub since_seconds: f64,
    /// How long it lasted; absent if it still does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

impl Summary {
    pub fn of(scenario: &Scenario, picture: &Picture, writes: usize, started: Timestamp, ended: Timestamp) -> Self {
        let nodes = picture.nodes.iter().map(|(name, node)| NodeSummary {
            name: name.clone(),
            state: node.state,
            version: node.version.clone(),
            seconds: node.took().map(seconds),
        });
        let waits = picture.waits.iter().map(|waited| WaitSummary {
            subject: waited.wait.subject.to_string(),
            reason: waited.wait.reason.to_string(),
            sentence: waited.wait.sentence.clone(),
            since_seconds: seconds(between(started, waited.wait.since)),
            seconds: waited.until.map(|until| seconds(between(waited.wait.since, until))),
        });
        Summary {
            scenario: scenario.name.clone(),
            nodes: nodes.collect(),
            plan: PlanSummary::of(
                &picture.plan_name,
                &picture.plan.as_ref().map(|plan| plan.status.clone()).unwrap_or_default(),
            ),
            virtual_seconds: seconds(between(started, ended)),
            writes,
            waits: waits.collect(),
            unmet: Vec::new(),
            violations: Vec::new(),
            address: None,
            kubeconfig: None,
        }
    }

    pub fn served_as(&mut self, serving: Option<&Serving>) -> &Self {
        self.address = serving.map(Serving::address);
        self.kubeconfig = serving.map(Serving::kubeconfig);
        self
    }

    pub fn text(&self) -> String {
        let plan = &self.plan;
        let took = clock_time(Duration::from_secs_f64(self.virtual_seconds));
        let count = plan.counts.updated;
        let nodes = if count == 1 { "node" } else { "nodes" };
        let complete = if plan.complete { "complete" } else { "not complete" };
        format!(
            "Upgraded {count} {nodes} to {} in {took} on the cluster's clock, with {} writes.\n\
             Plan {}/{} is {complete}: {count} of {} nodes updated, hash {:.12}.\n",
            plan.latest_version, self.writes, plan.namespace, plan.name, plan.counts.selected, plan.latest_hash,
        )
    }
}

impl PlanSummary {
    fn of(name: &str, status: &PlanStatus) -> Self {
        let complete =
            status.conditions.iter().any(|condition| condition.type_ == COMPLETE && condition.status == TRUE);
        PlanSummary {
            namespace: NAMESPACE.to_owned(),
            name: name.to_owned(),
            complete,
            counts: status.counts.unwrap_or_default(),
            latest_version: status.latest_version.clone(),
            latest_hash: status.latest_hash.clone(),
        }
    }
}

/// To the millisecond.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}
