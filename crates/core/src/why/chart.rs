//! Why a chart that Rancher manages is not ready. Fleet deploys it, as a Bundle, with Helm.

use drover_api::harvester::FLEET_NAMESPACE;
use drover_api::rancher::managed_chart::{READY, annotations};
use jiff::{SignedDuration, Timestamp};

use super::Explanation;
use super::link::{Cause, Certainty, Chain, Link, Outlook, sort};
use crate::cluster::harvester::{Bundle, ManagedChart};
use crate::cluster::{Cluster, ObjectRef, Secret, condition};

/// What the name of the Bundle of a chart begins with.
const BUNDLE_PREFIX: &str = "mcc-";
/// So long a chart may take to be deployed.
const USUAL: SignedDuration = SignedDuration::from_mins(20);
/// States of a Bundle that do not pass by themselves.
const STUCK: [&str; 2] = ["ErrApplied", "Modified"];

pub fn explain(cluster: &Cluster, chart: &ManagedChart) -> Explanation {
    let mut causes: Vec<Cause> = holds(cluster, chart).and_then(Cause::of).into_iter().collect();
    sort(&mut causes);
    let paused = if chart.spec.paused { ", paused" } else { "" };
    let ready = if causes.is_empty() { "ready" } else { "not ready" };
    let summary = format!("{ready}, version {}{paused}", chart.spec.version);
    let complete = causes.is_empty();
    Explanation { object: ObjectRef::of(chart), summary, complete, driver: None, causes, unseen: Vec::new() }
}

pub fn is_ready(chart: &ManagedChart) -> bool {
    let settled =
        chart.status.observed_generation == 0 || chart.status.observed_generation >= chart.metadata.generation;
    settled && condition(&chart.status.conditions, READY).is_some_and(|ready| ready.is_true())
}

/// From the chart down; nothing if it is ready.
pub fn holds(cluster: &Cluster, chart: &ManagedChart) -> Option<Chain> {
    if is_ready(chart) {
        return None;
    }
    let (namespace, name) = (&chart.metadata.namespace, &chart.metadata.name);
    let object = ObjectRef::of(chart);
    let since = raised(chart);
    if chart.spec.paused {
        let statement = format!("{} is paused, and Fleet does not deploy it", object.in_words());
        let remedy = format!(
            "kubectl -n {namespace} patch managedcharts.management.cattle.io {name} --type merge -p '{{\"spec\":{{\"paused\":false}}}}'"
        );
        return Some(vec![Link::proven(object, statement).since(since).remedy(remedy)]);
    }
    let mut chain = vec![Link::proven(object.clone(), format!("{} is not ready", object.in_words())).since(since)];
    let bundle = cluster.harvester.bundles.get(namespace, &format!("{BUNDLE_PREFIX}{name}"));
    chain.extend(bundle.map(|bundle| of_bundle(cluster, bundle, since)));
    let is_usual = chain.last().is_some_and(|link| !link.alarm) || chain.len() == 1 && !is_late(cluster, since);
    if let Some(first) = chain.first_mut().filter(|_| is_usual) {
        *first = first.clone().outlook(Outlook::Maybe).as_usual();
    }
    // A release that Helm has left in the middle of a change is never touched again by Fleet.
    let release = cluster.secrets.iter().find(|secret| pending(secret).is_some_and(|release| release == name.as_str()));
    chain.extend(release.filter(|_| is_late(cluster, since)).map(pending_release));
    Some(chain)
}

/// When an upgrade has raised it last.
fn raised(chart: &ManagedChart) -> Option<Timestamp> {
    chart.metadata.annotations.get(annotations::LAST_UPGRADE_TIME).and_then(|text| text.parse().ok())
}

fn is_late(cluster: &Cluster, since: Option<Timestamp>) -> bool {
    since.is_some_and(|since| cluster.looked_at.duration_since(since) > USUAL)
}

/// A Bundle of Fleet that is not ready.
pub fn of_bundle(cluster: &Cluster, bundle: &Bundle, since: Option<Timestamp>) -> Link {
    let ready = condition(&bundle.status.conditions, "Ready");
    let said = ready.map(|ready| ready.said()).unwrap_or_default();
    let state = bundle.status.display.state.as_str();
    let stuck = STUCK.into_iter().find(|stuck| state == *stuck || said.starts_with(stuck));
    let (namespace, name) = (&bundle.metadata.namespace, &bundle.metadata.name);
    let object = ObjectRef::of(bundle);
    let words = match (state, said) {
        ("", "") => String::new(),
        ("", said) => format!(": {said}"),
        (state, "") => format!(" ({state})"),
        (state, said) => format!(" ({state}): {said}"),
    };
    let link = Link::proven(object.clone(), format!("{} is not ready{words}", object.in_words())).since(since);
    let remedy = match stuck {
        Some("Modified") => format!(
            "something changed what it deploys: put that back, or let Fleet deploy it again: kubectl -n {namespace} patch bundle {name} \
             --type merge -p '{{\"spec\":{{\"forceSyncGeneration\":1}}}}'"
        ),
        _ => format!("kubectl -n {namespace} describe bundle {name}"),
    };
    let link = link.remedy(remedy).outlook(Outlook::Maybe);
    match stuck {
        Some(_) => link,
        None if is_late(cluster, since) => Link { certainty: Certainty::Likely, ..link },
        None => link.as_usual(),
    }
}

/// The name of the release of a Secret of Helm that is in the middle of a change.
fn pending(secret: &Secret) -> Option<&String> {
    let label = |key: &str| secret.metadata.labels.get(key);
    let is_pending = label("status").is_some_and(|status| status.starts_with("pending-"));
    label("name").filter(|_| label("owner").is_some_and(|owner| owner == "helm") && is_pending)
}

fn pending_release(secret: &Secret) -> Link {
    let name = pending(secret).map(String::as_str).unwrap_or_default();
    let namespace = &secret.metadata.namespace;
    let status = secret.metadata.labels.get("status").map(String::as_str).unwrap_or_default();
    let statement = format!("Helm release {namespace}/{name} was left {status}: nobody goes on with it");
    let link = Link::proven(ObjectRef::of(secret), statement).since(secret.metadata.creation_timestamp);
    link.remedy(format!("helm -n {namespace} rollback {name}"))
}

/// Releases of Fleet itself, without which it deploys nothing.
pub fn of_fleet(cluster: &Cluster) -> Option<Link> {
    let own = |secret: &&Secret| {
        pending(secret).is_some_and(|name| name.starts_with("fleet"))
            && secret.metadata.creation_timestamp.is_none_or(|made| cluster.looked_at.duration_since(made) > USUAL)
    };
    cluster.secrets.iter().find(own).map(pending_release)
}

/// The charts of the local cluster that are not ready.
pub fn not_ready(cluster: &Cluster) -> impl Iterator<Item = &ManagedChart> {
    cluster.harvester.charts.in_namespace(FLEET_NAMESPACE).filter(|chart| !is_ready(chart))
}
