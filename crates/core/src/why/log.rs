//! Why the logs of an upgrade are not collected: Harvester does not begin before they are.

use jiff::SignedDuration;

use super::link::{Cause, Chain, Link, Outlook, sort};
use super::{Explanation, chart, pod};
use crate::cluster::harvester::UpgradeLog;
use crate::cluster::{Cluster, ObjectRef, Pod};

/// Conditions, in the order in which they come to be.
const WAY: [&str; 3] = ["LoggingOperatorReady", "InfraReady", "Started"];
/// On what collects, and on its pods.
const UPGRADE_LOG: &str = "harvesterhci.io/upgradeLog";
/// So long it may take.
const USUAL: SignedDuration = SignedDuration::from_mins(5);

pub fn explain(cluster: &Cluster, log: &UpgradeLog) -> Explanation {
    let mut causes: Vec<Cause> = holds(cluster, log).and_then(Cause::of).into_iter().collect();
    sort(&mut causes);
    let complete = causes.is_empty();
    let summary = if complete { "logs are collected" } else { "logs are not collected yet" };
    let (object, summary) = (ObjectRef::of(log), summary.to_owned());
    Explanation { object, summary, complete, driver: None, causes, unseen: Vec::new() }
}

/// From the UpgradeLog of an Upgrade down.
pub fn of_upgrade(cluster: &Cluster, upgrade: &str) -> Option<Chain> {
    let log = cluster.harvester.upgrade_logs.iter().find(|log| log.spec.upgrade_name == upgrade)?;
    holds(cluster, log)
}

/// Nothing if logs are collected.
fn holds(cluster: &Cluster, log: &UpgradeLog) -> Option<Chain> {
    let says = |kind: &str| log.status.conditions.iter().find(|said| said.kind == kind);
    let missing = WAY.into_iter().find(|kind| !says(kind).is_some_and(|said| said.is_true()))?;
    let object = ObjectRef::of(log);
    let since = log.metadata.creation_timestamp;
    let is_late = since.is_some_and(|since| cluster.looked_at.duration_since(since) > USUAL);
    let said = says(missing).map(|said| said.said()).filter(|said| !said.is_empty());
    let said = said.map(|said| format!(" ({said})")).unwrap_or_default();
    let statement = format!(
        "{} is not {missing}{said}: the upgrade does not begin before its logs are collected",
        object.in_words()
    );
    let remedy = "create the Upgrade with logEnabled: false, if you can do without its logs";
    let link = Link::proven(object, statement).since(since).outlook(Outlook::Maybe).remedy(remedy);
    let operator = format!("{}-operator", log.metadata.name);
    let chart = chart::not_ready(cluster).find(|chart| chart.metadata.name == operator);
    let below = chart.and_then(|chart| chart::holds(cluster, chart)).or_else(|| {
        let own = |pod: &&Pod| pod.metadata.labels.get(UPGRADE_LOG) == Some(&log.metadata.name);
        let pods = cluster.pods.in_namespace(&log.metadata.namespace).filter(own);
        pods.filter_map(|pod| pod::holds(cluster, pod)).find(|chain| chain.last().is_some_and(|link| link.alarm))
    });
    let mut chain = vec![if is_late { link } else { link.as_usual() }];
    chain.extend(below.unwrap_or_default());
    Some(chain)
}
