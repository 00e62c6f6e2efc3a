//! What must be so when a run has ended: all that is published is true, and nothing waits in silence.

use jiff::Timestamp;
use serde_json::Value;

use super::status::waits;
use super::{claim, has_condition, hash_for, is_finished, is_ready, limit, owner, selector, window, written_claims};
use crate::known::Known;

/// What is wrong with what the Plans say, in sentences. `refusing`: the API server still refuses requests. `calm`:
/// nothing went wrong, so that no Event may have been lost.
pub fn untrue(known: &Known, now: Timestamp, refusing: bool, calm: bool) -> Vec<String> {
    let mut untrue = Vec::new();
    for (_, name, plan) in known.named("Plan") {
        for wait in waits(plan) {
            if let Some(why) = falsehood(known, plan, wait, now, refusing) {
                let (subject, reason) = (text(&wait["subject"]), text(&wait["reason"]));
                untrue.push(format!("the Plan {name} says that {subject} waits for {reason}, but {why}"));
            }
        }
        let driven_by_others = jobs(known, name).any(|job| claim(job).is_none() && !is_finished(job));
        if !has_condition(plan, "Complete") && waits(plan).next().is_none() && !driven_by_others {
            untrue.push(format!("the Plan {name} is not complete and does not say what it waits for"));
        }
        untrue.extend(wrong_counts(known, name, plan));
        untrue.extend(untold(known, name, plan).filter(|_| calm));
    }
    untrue
}

/// Why a published wait is not true; none if it is.
fn falsehood(known: &Known, plan: &Value, wait: &Value, now: Timestamp, refusing: bool) -> Option<&'static str> {
    let plan_name = text(&plan["metadata"]["name"]);
    let subject = text(&wait["subject"]);
    let node_name = subject.strip_prefix("Node/").unwrap_or_default();
    let node = known.node(node_name);
    let on_node =
        || jobs(known, plan_name).filter(|job| job["metadata"]["labels"]["upgrade.cattle.io/node"] == node_name);
    let unless = |is_so: bool, why: &'static str| (!is_so).then_some(why);
    match text(&wait["reason"]) {
        "PlanInvalid" => unless(!has_condition(plan, "Validated"), "the Plan is valid"),
        "VersionUnresolved" => unless(text(&plan["spec"]["version"]).is_empty(), "it has a version"),
        "SecretNotFound" => {
            let namespace = text(&plan["metadata"]["namespace"]);
            let secrets = plan["spec"]["secrets"].as_array().into_iter().flatten();
            let mut named = secrets.map(|secret| text(&secret["name"]));
            unless(named.any(|name| known.get("Secret", namespace, name).is_none()), "all Secrets are there")
        }
        "ConcurrencyReached" => {
            let own = written_claims(plan)["nodes"].as_object().map_or(0, serde_json::Map::len);
            let left = known.all("Node").filter(|node| is_left_by_predecessor(node, plan)).count();
            unless(own + left >= limit(plan), "fewer nodes are out than it allows")
        }
        "WindowClosed" => unless(!window::is_open(plan, now), "the window is open"),
        "NodeNotReady" => unless(node.is_some_and(|node| !is_ready(node)), "the node is Ready"),
        "NodeClaimedByAnother" => {
            let by_another = node.is_some_and(|node| owner(node).is_some_and(|uid| plan["metadata"]["uid"] != uid));
            unless(by_another, "the node is not out for another")
        }
        "JobRunning" | "NodeSlow" | "NodeStalled" => {
            unless(on_node().any(|job| !is_finished(job)), "no Job runs on it")
        }
        "JobFailed" => {
            let noted = node.is_some_and(|node| has_failed(node) || claim(node).is_some());
            unless(noted || on_node().any(|job| has_condition(job, "Failed")), "no Job has failed on it")
        }
        "Soaking" => {
            let claimed = written_claims(plan)["nodes"].get(node_name).is_some();
            unless(claimed && on_node().any(|job| has_condition(job, "Complete")), "no Job is complete on it")
        }
        "ChannelFails" | "ChannelDowngrades" => unless(!text(&plan["spec"]["channel"]).is_empty(), "it has no channel"),
        "PlanPaused" => {
            let paused = &plan["metadata"]["annotations"]["drover.dev/paused"];
            unless(paused.is_string() && paused != "false", "it is not paused")
        }
        "OtherPlanFirst" => {
            let named = text(&plan["metadata"]["annotations"]["drover.dev/after"]);
            let incomplete = |name: &str| {
                let name = name.trim().rsplit('/').next().unwrap_or_default();
                let found = known.named("Plan").find(|(_, own, _)| *own == name);
                !name.is_empty() && found.is_none_or(|(_, _, plan)| !has_condition(plan, "Complete"))
            };
            unless(named.split(',').any(incomplete), "those that come first are complete")
        }
        "ExclusivePlanActs" => {
            let acts = |other: &Value| {
                let claims = written_claims(other);
                other["spec"]["exclusive"] == true
                    && other["metadata"]["uid"] != plan["metadata"]["uid"]
                    && claims["nodes"].as_object().is_some_and(|nodes| !nodes.is_empty())
            };
            unless(known.all("Plan").any(acts), "no other exclusive Plan acts")
        }
        "GateClosed" | "GateFails" => {
            unless(plan["metadata"]["annotations"]["drover.dev/gate"].is_string(), "it has no gate")
        }
        "WindowTooShort" => unless(plan["spec"]["window"].is_object(), "it has no window"),
        "TooManyNodesFailed" => {
            let failed = known.all("Node").filter(|node| has_failed(node)).count();
            unless(failed > 0 && failed >= limit(plan), "fewer nodes have failed")
        }
        "JobBeingDeleted" => unless(on_node().next().is_some(), "there is no Job"),
        "AnotherControllerActs" => {
            let foreign = jobs(known, plan_name).any(|job| claim(job).is_none() && !is_finished(job));
            unless(foreign, "no Job of another controller is at work")
        }
        "NoPermission" | "ApiRefuses" | "EvictionRefused" => unless(refusing, "nothing is refused any more"),
        "BudgetForbids" => {
            let mut budgets = known.all("PodDisruptionBudget");
            unless(budgets.any(|budget| budget["status"]["disruptionsAllowed"] == 0), "every budget allows it")
        }
        "PodTerminating" => {
            let mut pods = known.all("Pod");
            unless(pods.any(|pod| pod["metadata"]["deletionTimestamp"].is_string()), "no pod is ending")
        }
        "VolumeAttached" => unless(known.all("VolumeAttachment").next().is_some(), "no volume is attached"),
        _ => Some("nobody knows how to tell whether that is true"),
    }
}

/// It is out for a Plan of the same name, which was deleted.
fn is_left_by_predecessor(node: &Value, plan: &Value) -> bool {
    let mark = text(&node["metadata"]["annotations"]["drover.dev/claim"]);
    let owner = serde_json::from_str::<Value>(mark).unwrap_or_default()["owner"].take();
    owner["name"] == plan["metadata"]["name"] && owner["uid"] != plan["metadata"]["uid"]
}

/// A Plan has given up on it.
fn has_failed(node: &Value) -> bool {
    node["metadata"]["annotations"]["drover.dev/failed"].is_string()
}

fn wrong_counts(known: &Known, name: &str, plan: &Value) -> Option<String> {
    let counts = &plan["status"]["counts"];
    let hash = plan["status"]["latestHash"].as_str().filter(|hash| !hash.is_empty())?;
    if !counts.is_object() || !has_condition(plan, "Validated") {
        return None;
    }
    let selected: Vec<&Value> = known
        .all("Node")
        .filter(|node| selector::selects(&plan["spec"]["nodeSelector"], node))
        .filter(|node| hash_for(node, name) != Some("disabled"))
        .collect();
    let updated = selected.iter().filter(|node| hash_for(node, name) == Some(hash)).count();
    let said = |field: &str| counts[field].as_u64().unwrap_or(0);
    let right = said("selected") == selected.len() as u64 && said("updated") == updated as u64;
    (!right).then(|| {
        let (said_updated, said_selected) = (said("updated"), said("selected"));
        let all = selected.len();
        format!("the Plan {name} counts {said_updated} of {said_selected} nodes as updated, {updated} of {all} are")
    })
}

/// What has happened was told as an Event.
fn untold(known: &Known, name: &str, plan: &Value) -> Option<String> {
    let told = |reason: &str| {
        known
            .all("Event")
            .any(|event| event["involvedObject"]["uid"] == plan["metadata"]["uid"] && event["reason"] == reason)
    };
    let untold = has_condition(plan, "Complete") && !told("Complete");
    untold.then(|| format!("no Event tells that the Plan {name} is complete"))
}

fn jobs<'a>(known: &'a Known, plan: &'a str) -> impl Iterator<Item = &'a Value> + 'a {
    known.all("Job").filter(move |job| job["metadata"]["labels"]["upgrade.cattle.io/plan"] == plan)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
