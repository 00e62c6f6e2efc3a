//! The agent on a machine: it carries out the plan of its Secret, and tells how the machine's probes are.
//!
//! Models rancher-system-agent 0.3, and the states of plans that 0.15 has. It installs nothing: the kubelet of the machine has
//! the version of the plan when that is done. What it does is told by annotations of the Node.

use std::time::Duration;

use drover_api::rancher::machine_plan::keys;
use drover_clock::later;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Secret};
use serde_json::{Map, Value, json};

use super::{checksum, datum, is_in_sync, plan, set_datum, set_note};
use crate::world::annotations::{
    self, APPLYING_SINCE, Lasts, PLAN_DURATION, PLAN_FAILS, SYSTEM_AGENT, UNHEALTHY_PROBES,
};
use crate::world::kubelet::Upgraded;
use crate::world::loose;
use crate::world::outcome::{Action, Outcome};
use crate::world::pods;

/// How long a plan takes if nothing else is said.
const APPLYING: Duration = Duration::from_secs(15);
/// From one look at the probes to the next.
const PROBING: Duration = Duration::from_secs(5);
/// A plan that has failed is tried again after this long.
const COOLS_DOWN: Duration = Duration::from_secs(30);

const PLAN_REVISION: &str = "plan-revision";
const SUCCESS_COUNT: &str = "success-count";
const LAST_APPLY: &str = "last-apply-time";

/// What an agent does about its Secret while its machine is up.
pub fn work(secret: &Secret, node: &Node, now: Timestamp) -> Outcome {
    let told = node.metadata.annotations.as_ref();
    let said = |key: &str| told.and_then(|all| all.get(key)).map(String::as_str);
    if said(SYSTEM_AGENT) == Some("absent") {
        return Outcome::nothing();
    }
    let Some(text) = datum(secret, keys::PLAN) else { return Outcome::nothing() };
    if is_in_sync(secret) {
        return probe(secret, text, said(UNHEALTHY_PROBES).unwrap_or_default(), now);
    }
    let has_states = datum(secret, keys::PLAN_STATE).is_some();
    if has_states && datum(secret, keys::PLAN_STATE) == Some("failed") {
        return Outcome::nothing();
    }
    let failed = datum(secret, keys::FAILED_CHECKSUM).map(String::from) == Some(checksum(text));
    let cools_until = datum(secret, LAST_APPLY).and_then(|text| text.parse().ok()).map(|last| later(last, COOLS_DOWN));
    if let Some(moment) = cools_until.filter(|moment| failed && now < *moment) {
        return Outcome::wait_until(moment);
    }
    let Some(since) = applying_since(secret, text) else {
        return Outcome::act(vec![begin(secret, text, has_states, now)]);
    };
    let ends = match annotations::lasts_for_all(told, PLAN_DURATION) {
        Some(Lasts::Forever) => return Outcome::nothing(),
        Some(Lasts::For(time)) => later(since, time),
        None => later(since, APPLYING),
    };
    if now < ends {
        return Outcome::wait_until(ends);
    }
    if said(PLAN_FAILS) == Some("true") {
        return Outcome::act(vec![fail(secret, text, has_states, now)]);
    }
    Outcome::act(finish(secret, node, text, has_states, now))
}

/// Since when the agent works on this plan, and not on another one.
fn applying_since(secret: &Secret, plan: &str) -> Option<Timestamp> {
    let (sum, since) = super::note(secret, APPLYING_SINCE)?.split_once(' ')?;
    since.parse().ok().filter(|_| sum == checksum(plan))
}

fn begin(secret: &Secret, plan: &str, has_states: bool, now: Timestamp) -> Action {
    let mut after = secret.clone();
    set_note(&mut after, APPLYING_SINCE, &format!("{} {}", checksum(plan), loose::text(now)));
    if has_states {
        set_datum(&mut after, keys::PLAN_STATE, "in-progress");
        let revision = count(secret, PLAN_REVISION) + 1;
        set_datum(&mut after, PLAN_REVISION, &revision.to_string());
    }
    Action::update(&after)
}

fn fail(secret: &Secret, plan: &str, has_states: bool, now: Timestamp) -> Action {
    let mut after = secret.clone();
    after.metadata.annotations.get_or_insert_default().remove(APPLYING_SINCE);
    set_datum(&mut after, keys::FAILED_CHECKSUM, &checksum(plan));
    set_datum(&mut after, keys::FAILURE_COUNT, &(count(secret, keys::FAILURE_COUNT) + 1).to_string());
    set_datum(&mut after, LAST_APPLY, &loose::text(now));
    if has_states {
        set_datum(&mut after, keys::PLAN_STATE, "failed");
    }
    Action::update(&after)
}

fn finish(secret: &Secret, node: &Node, plan: &str, has_states: bool, now: Timestamp) -> Vec<Action> {
    let mut after = secret.clone();
    after.metadata.annotations.get_or_insert_default().remove(APPLYING_SINCE);
    set_datum(&mut after, keys::APPLIED_CHECKSUM, &checksum(plan));
    set_datum(&mut after, keys::FAILURE_COUNT, "0");
    set_datum(&mut after, SUCCESS_COUNT, &(count(secret, SUCCESS_COUNT) + 1).to_string());
    set_datum(&mut after, LAST_APPLY, &loose::text(now));
    if let Some(data) = &mut after.data {
        data.remove(keys::FAILED_CHECKSUM);
    }
    if has_states {
        set_datum(&mut after, keys::PLAN_STATE, "succeeded");
    }
    let runs =
        node.status.as_ref().and_then(|status| status.node_info.as_ref()).map(|info| info.kubelet_version.clone());
    let installs = plan::version(plan).filter(|version| runs.as_ref() != Some(version));
    let upgraded = installs.map(|version| Action::MachineUpgraded {
        node: pods::name(&node.metadata).into(),
        upgraded: Upgraded { kubelet_version: Some(version), os_image: None, loads_images: false, down_until: None },
    });
    upgraded.into_iter().chain([Action::update(&after)]).collect()
}

/// Tells how the probes are, some seconds after the plan was carried out.
fn probe(secret: &Secret, plan: &str, ill: &str, now: Timestamp) -> Outcome {
    let statuses: Map<String, Value> = plan::probe_names(plan)
        .into_iter()
        .map(|name| {
            let healthy = !ill.split(',').any(|one| one.trim() == name);
            let count =
                if healthy { json!({ "healthy": true, "successCount": 1 }) } else { json!({ "failureCount": 5 }) };
            (name, count)
        })
        .collect();
    let statuses = Value::Object(statuses).to_string();
    if datum(secret, keys::PROBE_STATUSES) == Some(statuses.as_str()) {
        return Outcome::nothing();
    }
    let applied: Option<Timestamp> = datum(secret, LAST_APPLY).and_then(|text| text.parse().ok());
    if let Some(moment) = applied.map(|applied| later(applied, PROBING)).filter(|moment| now < *moment) {
        return Outcome::wait_until(moment);
    }
    let mut after = secret.clone();
    set_datum(&mut after, keys::PROBE_STATUSES, &statuses);
    Outcome::act(vec![Action::update(&after)])
}

fn count(secret: &Secret, key: &str) -> u64 {
    datum(secret, key).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// What the controller of plan Secrets adds: the plan that the agent has carried out, for who comes later.
pub fn keep_applied(secret: &Secret) -> Option<Action> {
    let plan = datum(secret, keys::PLAN).filter(|_| is_in_sync(secret))?;
    if datum(secret, keys::APPLIED_PLAN) == Some(plan) {
        return None;
    }
    let mut after = secret.clone();
    set_datum(&mut after, keys::APPLIED_PLAN, plan);
    Some(Action::update(&after))
}
