//! The way of one machine: claimed, cordoned, drained, given its plan, probed, uncordoned.

use drover_api::marks::{NODE_CLAIM, NODE_RETRY};
use drover_api::rancher::machine_plan::annotations::{
    DRAIN_DONE, DRAIN_ERROR, DRAIN_OPTIONS, POST_DRAIN, PRE_DRAIN, UNCORDON,
};
use drover_api::rancher::machine_plan::keys;
use drover_api::rancher::provisioning_cluster::DrainOptions;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::marks::{CLEARED, PLANNED};
use super::seen::NodeSeen;
use super::tier::Waits;
use super::{Act, Decision, Drained, Entry, Order, Purpose, Target, View, Write, executor, plan, risk, token};
use crate::claims::{Claim, Claims, Mark, Owner};

/// When the probes of the plan were first well; users' tools read it.
const PROBES_PASSED: &str = "rke.cattle.io/plan-probes-passed";
const LAST_UPDATED: &str = "rke.cattle.io/plan-last-updated";

/// What the plan of a machine is for. Without a note of ours it is what the planner before us was last done with.
fn planned(view: &View<'_>, entry: &Entry<'_>) -> Option<String> {
    if let Some(noted) = entry.secret.planned() {
        return Some(noted.to_owned());
    }
    let version = plan::version(&entry.secret.datum(keys::PLAN)?)?;
    if version != view.control_plane.version() {
        return Some(version);
    }
    Some(view.control_plane.applied().unwrap_or_else(|| view.control_plane.asked()))
}

/// The cluster asks for something else than what the machine has.
pub fn needs_plan(view: &View<'_>, entry: &Entry<'_>) -> bool {
    planned(view, entry).is_some_and(|planned| planned != view.control_plane.asked())
}

/// Why what is asked for cannot be put into the plan of a machine; none if it can, or if nothing is asked for. Such a plan is not taken for one
/// that is carried out, and no node is drained for it.
pub fn unreadable(view: &View<'_>, entry: &Entry<'_>) -> Option<String> {
    let (plan, asked) = (entry.secret.datum(keys::PLAN)?, view.control_plane.asked());
    let is_at_rest = view.control_plane.applied() == Some(asked)
        && entry.node.is_some_and(|node| node.runs(view.control_plane.version()));
    if is_at_rest || plan::is_readable(&plan) {
        return None;
    }
    let meta = &entry.secret.meta;
    Some(format!(
        "the plan in Secret {}/{} cannot be raised: no instruction install in it has an image with a version, and env",
        meta.namespace, meta.name
    ))
}

/// It takes up a slot of its tier.
pub fn is_out(view: &View<'_>, entry: &Entry<'_>, claims: &Claims) -> bool {
    let secret = entry.secret;
    let is_marked = entry.node.is_some_and(|node| is_ours(view, node));
    super::is_claimed(entry, claims)
        || is_marked
        || secret.is_in_drain()
        || !secret.is_in_sync()
        || !secret.ill_probes().is_empty()
}

/// What is to be done for a machine that has its turn, or has had it.
#[allow(clippy::too_many_arguments, reason = "one turn rests on all of these, and on nothing else")]
pub fn turn(
    view: &View<'_>,
    entry: &Entry<'_>,
    token: &str,
    options: &DrainOptions,
    claims: &mut Claims,
    now: Timestamp,
    decision: &mut Decision,
    waits: &mut Waits,
) {
    if entry.secret.datum(keys::PLAN).is_none() {
        return waits.configuring(entry.name(), "waiting for agent to check in and apply initial plan");
    }
    let Some(node) = entry.node else {
        return waits.configuring(entry.name(), "waiting for the Node of the machine");
    };
    match needs_plan(view, entry) {
        true => before(view, entry, node, token, options, claims, now, decision, waits),
        false => after(view, entry, node, claims, now, decision, waits),
    }
}

fn annotate(entry: &Entry<'_>, purpose: Purpose, notes: Value) -> Write {
    let mut metadata = entry.secret.meta.guard();
    metadata["annotations"] = notes;
    Write {
        purpose,
        target: Target::Secret(entry.secret.meta.name.clone()),
        act: Act::Patch(json!({ "metadata": metadata })),
    }
}

/// On the way to the plan.
#[allow(clippy::too_many_arguments, reason = "one turn rests on all of these, and on nothing else")]
fn before(
    view: &View<'_>,
    entry: &Entry<'_>,
    node: &NodeSeen,
    token: &str,
    options: &DrainOptions,
    claims: &Claims,
    now: Timestamp,
    decision: &mut Decision,
    waits: &mut Waits,
) {
    if let Some(why) = risk(view, node, claims) {
        return waits.configuring(entry.name(), &why);
    }
    let secret = entry.secret;
    let is = |key: &str| secret.note(key) == Some(token);
    let asked = token::read(token);
    if token::takes_out(&asked) && !is(DRAIN_DONE) {
        waits.draining(entry.name(), "draining node");
        if let Some(write) = take(view, entry, node, claims) {
            return decision.writes.push(write);
        }
        if !is(DRAIN_OPTIONS) {
            // What an earlier drain has left says nothing about this one.
            let mut notes = cleared(options);
            notes.insert(DRAIN_OPTIONS.to_owned(), json!(token));
            return decision.writes.push(annotate(entry, Purpose::AskForDrain, Value::Object(notes)));
        }
        let hooks: Vec<&str> = token::hooks(&asked.pre_drain_hooks).collect();
        if !hooks.is_empty() && !is(PRE_DRAIN) {
            return decision.writes.push(annotate(entry, Purpose::CallPreHooks, json!({ PRE_DRAIN: token })));
        }
        if !hooks.iter().all(|hook| is(hook)) {
            return;
        }
        let done = || annotate(entry, Purpose::NoteDrainDone, json!({ DRAIN_DONE: token, DRAIN_ERROR: null }));
        let drained = view.drains.get(&node.meta.name).filter(|drained| drained.token == token);
        return match drained {
            _ if asked.enabled != Some(true) => decision.writes.push(done()),
            Some(Drained { result: Some(Ok(())), .. }) => decision.writes.push(done()),
            other => {
                if let Some(Drained { result: Some(Err(error)), .. }) = other
                    && secret.note(DRAIN_ERROR) != Some(error)
                {
                    decision.writes.push(annotate(entry, Purpose::NoteDrainError, json!({ DRAIN_ERROR: error })));
                }
                let order = Order { token: token.to_owned(), options: token::drain(&asked) };
                decision.drains.insert(node.meta.name.clone(), order);
            }
        };
    }
    waits.configuring(entry.name(), "waiting for plan to be applied");
    decision.writes.extend(deliver(view, entry, now));
}

/// Takes the node out of service, under the claim that the planner holds; none if that has been done.
fn take(view: &View<'_>, entry: &Entry<'_>, node: &NodeSeen, claims: &Claims) -> Option<Write> {
    let claim = claims.nodes.get(&node.meta.name)?;
    let is_marked = node.claim() == Some(claim.id.as_str());
    if is_marked && node.is_cordoned() {
        return None;
    }
    // A node that was cordoned before stays so, unless another planner did it for a drain that it did not end; one that
    // somebody has uncordoned meanwhile is cordoned again.
    let is_of_a_drain = node.mark().map_or(entry.secret.is_in_drain(), |mark| mark.cordoned);
    let cordoned = !node.is_cordoned() || is_of_a_drain;
    let mut patch = marked(view, node, claim, cordoned);
    patch["spec"] = json!({ "unschedulable": true });
    Some(Write { purpose: Purpose::TakeNode, target: Target::Node(node.meta.name.clone()), act: Act::Patch(patch) })
}

/// A patch that marks the node as ours under a claim; `cordoned` if the cordon is ours, too.
pub fn marked(view: &View<'_>, node: &NodeSeen, claim: &Claim, cordoned: bool) -> Value {
    let meta = &view.control_plane.meta;
    let owner = Owner {
        kind: "RKEControlPlane".to_owned(),
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        uid: meta.uid.clone(),
    };
    let mark = Mark { owner, cordoned, done: None, failed: None };
    let mut metadata = node.meta.guard();
    metadata["labels"] = json!({ NODE_CLAIM: claim.id });
    metadata["annotations"] = json!({ NODE_CLAIM: json!(mark).to_string() });
    json!({ "metadata": metadata })
}

fn deliver(view: &View<'_>, entry: &Entry<'_>, now: Timestamp) -> Option<Write> {
    let secret = entry.secret;
    let current = secret.datum(keys::PLAN)?;
    let next = plan::raised(&current, view.control_plane.version(), view.control_plane.generation())?;
    let mut data = plan::data(&[(keys::PLAN, &next), ("max-failures", "-1"), ("failure-threshold", "1")]);
    data[keys::PROBE_STATUSES] = Value::Null;
    data[keys::FAILED_CHECKSUM] = Value::Null;
    if secret.datum(keys::PLAN_STATE).is_some() {
        data[keys::PLAN_STATE] = plan::data(&[(keys::PLAN_STATE, "pending")])[keys::PLAN_STATE].clone();
    }
    let mut metadata = secret.meta.guard();
    metadata["annotations"] =
        json!({ PLANNED: view.control_plane.asked(), PROBES_PASSED: "", LAST_UPDATED: format!("{now:.0}") });
    let patch = json!({ "metadata": metadata, "data": data });
    Some(Write {
        purpose: Purpose::DeliverPlan,
        target: Target::Secret(secret.meta.name.clone()),
        act: Act::Patch(patch),
    })
}

/// The plan is there: is it carried out, is the node well, may it come back?
fn after(
    view: &View<'_>,
    entry: &Entry<'_>,
    node: &NodeSeen,
    claims: &mut Claims,
    now: Timestamp,
    decision: &mut Decision,
    waits: &mut Waits,
) {
    let secret = entry.secret;
    if executor::is_due(view, entry) {
        return executor::carry_out(view, entry, node, claims, decision, waits);
    }
    if secret.has_failed() {
        let why = risk(view, node, claims).filter(|_| node.wants_retry());
        waits.configuring(entry.name(), why.as_deref().unwrap_or("failure while applying plan"));
        return decision.writes.extend((node.wants_retry() && why.is_none()).then(|| retry(entry)));
    }
    if node.wants_retry() {
        decision.writes.push(note_retry(node));
    }
    if !secret.is_in_sync() {
        return waits.configuring(entry.name(), "waiting for plan to be applied");
    }
    // What nobody can read is not known to be what is asked for.
    let is_adopted =
        secret.planned().is_some() || !secret.datum(keys::PLAN).is_some_and(|plan| plan::is_readable(&plan));
    if !is_adopted || secret.datum(keys::APPLIED_PLAN) != secret.datum(keys::PLAN) {
        return decision.writes.push(keep(view, entry, is_adopted));
    }
    let ill = secret.ill_probes();
    if !ill.is_empty() {
        return waits.configuring(entry.name(), &format!("waiting for probes: {}", ill.join(", ")));
    }
    if !node.runs(view.control_plane.version()) {
        return waits.configuring(entry.name(), "waiting for kubelet to update");
    }
    // It is taken while its mark stands, though somebody may have removed the claim.
    let is_taken = claims.nodes.contains_key(&node.meta.name) || is_ours(view, node);
    if let Some(write) = end_drain(entry, node, is_taken, now) {
        waits.uncordoning(entry.name(), "waiting for uncordon to finish");
        return decision.writes.extend(write);
    }
    if is_taken && !node.is_ready() {
        return waits.configuring(entry.name(), &format!("waiting for Node {} to be ready", node.meta.name));
    }
    if is_ours(view, node) {
        waits.uncordoning(entry.name(), "waiting for uncordon to finish");
        return decision.writes.push(give_back(node, node.mark().is_some_and(|mark| mark.cordoned)));
    }
    claims.nodes.remove(&node.meta.name);
}

/// A pause may last: nodes that were taken, and about which nobody was asked yet, or no longer is, are given back.
pub fn put_back(view: &View<'_>, entries: &[Entry<'_>], claims: &mut Claims) -> Vec<Write> {
    let mut writes = Vec::new();
    for entry in entries.iter().filter(|entry| needs_plan(view, entry) && !entry.secret.is_in_drain()) {
        let Some(node) = entry.node.filter(|node| claims.nodes.contains_key(&node.meta.name)) else { continue };
        match is_ours(view, node) {
            true => writes.push(give_back(node, node.mark().is_some_and(|mark| mark.cordoned))),
            false => drop(claims.nodes.remove(&node.meta.name)),
        }
    }
    writes
}

/// The agent of a machine does not try again what it has called failed: it is told to.
fn retry(entry: &Entry<'_>) -> Write {
    let secret = entry.secret;
    let mut data = json!({ keys::FAILED_CHECKSUM: null });
    if secret.datum(keys::PLAN_STATE).is_some() {
        data[keys::PLAN_STATE] = plan::data(&[(keys::PLAN_STATE, "pending")])[keys::PLAN_STATE].clone();
    }
    let patch = json!({ "metadata": secret.meta.guard(), "data": data });
    Write { purpose: Purpose::RetryPlan, target: Target::Secret(secret.meta.name.clone()), act: Act::Patch(patch) }
}

pub fn note_retry(node: &NodeSeen) -> Write {
    let mut metadata = node.meta.guard();
    metadata["annotations"] = json!({ NODE_RETRY: null });
    let patch = json!({ "metadata": metadata });
    Write { purpose: Purpose::NoteRetry, target: Target::Node(node.meta.name.clone()), act: Act::Patch(patch) }
}

fn is_ours(view: &View<'_>, node: &NodeSeen) -> bool {
    node.mark().is_some_and(|mark| mark.owner.uid == view.control_plane.meta.uid)
}

/// Keeps for later what was carried out, and notes what it was for.
fn keep(view: &View<'_>, entry: &Entry<'_>, is_adopted: bool) -> Write {
    let secret = entry.secret;
    let plan = secret.datum(keys::PLAN).unwrap_or_default();
    let mut metadata = secret.meta.guard();
    metadata["annotations"] = json!({ PLANNED: view.control_plane.asked() });
    let patch = json!({ "metadata": metadata, "data": plan::data(&[(keys::APPLIED_PLAN, &plan)]) });
    let purpose = if is_adopted { Purpose::KeepAppliedPlan } else { Purpose::AdoptPlan };
    Write { purpose, target: Target::Secret(secret.meta.name.clone()), act: Act::Patch(patch) }
}

/// The next step towards the end of a drain; none if no drain is under way. Nothing to write, while the owners of hooks work.
fn end_drain(entry: &Entry<'_>, node: &NodeSeen, is_taken: bool, now: Timestamp) -> Option<Option<Write>> {
    let secret = entry.secret;
    if !secret.is_in_drain() {
        return None;
    }
    let token = secret.note(DRAIN_OPTIONS).unwrap_or_default();
    let asked = token::read(token);
    let is = |key: &str| secret.note(key) == Some(token);
    if !token.is_empty() {
        if !is(UNCORDON) {
            let passed = format!("{now:.0}");
            let notes = json!({ UNCORDON: token, PROBES_PASSED: passed });
            return Some(Some(annotate(entry, Purpose::AskForUncordon, notes)));
        }
        let hooks: Vec<&str> = token::hooks(&asked.post_drain_hooks).collect();
        if !hooks.is_empty() && !is(POST_DRAIN) {
            return Some(Some(annotate(entry, Purpose::CallPostHooks, json!({ POST_DRAIN: token }))));
        }
        if !hooks.iter().all(|hook| is(hook)) {
            return Some(None);
        }
        // After the hooks it may have been rebooted.
        if !node.is_ready() {
            return Some(None);
        }
    }
    // Another planner's drain, which nobody ended: the cordon belongs to it.
    if node.is_cordoned() && node.mark().is_none() && !is_taken {
        return Some(Some(give_back(node, true)));
    }
    // The marks go before the cordon does: only then is it known from the Node alone whose the cordon is.
    Some(Some(annotate(entry, Purpose::ClearMarks, Value::Object(cleared(&asked)))))
}

fn cleared(options: &DrainOptions) -> Map<String, Value> {
    let hooks = token::hooks(&options.pre_drain_hooks).chain(token::hooks(&options.post_drain_hooks));
    CLEARED.into_iter().chain(hooks).map(|key| (key.to_owned(), Value::Null)).collect()
}

fn give_back(node: &NodeSeen, uncordon: bool) -> Write {
    let mut metadata = node.meta.guard();
    metadata["labels"] = json!({ NODE_CLAIM: null });
    metadata["annotations"] = json!({ NODE_CLAIM: null });
    let mut patch = json!({ "metadata": metadata });
    if uncordon {
        patch["spec"] = json!({ "unschedulable": null });
    }
    Write { purpose: Purpose::GiveNodeBack, target: Target::Node(node.meta.name.clone()), act: Act::Patch(patch) }
}
