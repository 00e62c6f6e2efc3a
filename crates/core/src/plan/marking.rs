//! The writes that take nodes out of service and give them back: each one guarded patch of one object.

use std::collections::BTreeMap;

use drover_api::marks;
use drover_api::plan::KIND;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::decide::View;
use crate::claims::{Claim, Claims, Done, Failed, Mark, Owner, SetAside};
use crate::cluster::Taint;
use crate::decision::{Act, Purpose, Subject, Write};
use crate::seen::NodeSeen;

/// The claims as they stand on the Plan.
pub(super) fn write_claims(view: &View<'_>, purpose: Purpose, claims: &Claims) -> Write {
    let patch = json!({ "metadata": {
        "resourceVersion": view.plan.meta.resource_version.to_string(),
        "annotations": { marks::CLAIMS: claims.write() },
    }});
    Write { purpose, subject: view.plan.subject(), act: Act::Patch(patch) }
}

/// A drain cordons, too.
pub(super) fn wants_cordon(view: &View<'_>) -> bool {
    view.plan.spec.as_ref().is_ok_and(|spec| spec.cordon || spec.drain.is_some())
}

/// Takes the node out of service: one guarded patch.
pub(super) fn take(view: &View<'_>, node: &NodeSeen, claim: &Claim) -> Write {
    let cordons = wants_cordon(view) && !node.unschedulable;
    let mark = marked_by(view, node, is_cordon_ours(view, node) || cordons);
    let mut patch = guarded(node, json!({ marks::NODE_CLAIM: claim.id }), json!({ marks::NODE_CLAIM: text(&mark) }));
    if cordons {
        patch["spec"] = cordon(node);
    }
    for (is_over, key) in [(is_set_aside_by(view, node), marks::NODE_FAILED), (node.retry, marks::NODE_RETRY)] {
        if is_over {
            patch["metadata"]["annotations"][key] = Value::Null;
        }
    }
    write(Purpose::TakeNode, node, patch)
}

/// Marks a node whose claim is no longer wanted, and leaves it in service.
pub(super) fn fence(view: &View<'_>, node: &NodeSeen, claim: &Claim) -> Write {
    let mark = marked_by(view, node, is_cordon_ours(view, node));
    let labels = json!({ marks::NODE_CLAIM: claim.id });
    write(Purpose::FenceNode, node, guarded(node, labels, json!({ marks::NODE_CLAIM: text(&mark) })))
}

/// Notes that the Job has ended well. A node that waits for its delay is in service meanwhile: it is uncordoned.
pub(super) fn note_job_end(node: &NodeSeen, mark: &Mark, done: Done, back_in_service: bool) -> Write {
    let uncordons = back_in_service && mark.cordoned;
    let noted = Mark { done: Some(done), cordoned: mark.cordoned && !uncordons, ..mark.clone() };
    let mut patch = guarded(node, json!({}), json!({ marks::NODE_CLAIM: text(&noted) }));
    if uncordons {
        patch["spec"] = uncordon(node);
    }
    write(Purpose::NoteJobEnd, node, patch)
}

/// Counts a failure; whoever wanted another try has been heard.
pub(super) fn note_failure(node: &NodeSeen, mark: &Mark, failed: Failed) -> Write {
    let noted = Mark { failed: Some(failed), ..mark.clone() };
    let mut annotations = json!({ marks::NODE_CLAIM: text(&noted) });
    if node.retry {
        annotations[marks::NODE_RETRY] = Value::Null;
    }
    write(Purpose::NoteFailure, node, guarded(node, json!({}), annotations))
}

/// Marks and cordon go, the result labels come, in one guarded patch.
pub(super) fn release(node: &NodeSeen, mark: &Mark, results: BTreeMap<String, String>) -> Write {
    let mut labels = json!(results);
    labels[marks::NODE_CLAIM] = Value::Null;
    let mut annotations = json!({ marks::NODE_CLAIM: null });
    if node.retry {
        annotations[marks::NODE_RETRY] = Value::Null;
    }
    forget_waits(node, &mut annotations);
    let mut patch = guarded(node, labels, annotations);
    if mark.cordoned {
        patch["spec"] = uncordon(node);
    }
    write(Purpose::ReleaseNode, node, patch)
}

/// The claim's marks go; the failure is told on the node, which stays cordoned.
pub(super) fn set_aside(node: &NodeSeen, mark: &Mark, hash: &str, failed: &Failed, now: Timestamp) -> Write {
    let record = SetAside {
        owner: mark.owner.clone(),
        cordoned: mark.cordoned,
        hash: hash.to_owned(),
        since: now,
        sentence: failed.sentence.clone(),
    };
    let mut annotations = json!({ marks::NODE_CLAIM: null, marks::NODE_FAILED: json!(record).to_string() });
    forget_waits(node, &mut annotations);
    write(Purpose::SetAside, node, guarded(node, json!({ marks::NODE_CLAIM: null }), annotations))
}

/// What a drain that was killed has left on the node.
fn forget_waits(node: &NodeSeen, annotations: &mut Value) {
    if node.waits.is_some() {
        annotations[marks::WAITS] = Value::Null;
    }
}

/// A node that was set aside is in service again, because it is no longer meant or has been upgraded by other means.
pub(super) fn undo_set_aside(node: &NodeSeen, record: &SetAside) -> Write {
    let mut patch = guarded(node, json!({}), json!({ marks::NODE_FAILED: null }));
    if record.cordoned {
        patch["spec"] = uncordon(node);
    }
    write(Purpose::UndoMarks, node, patch)
}

/// The taint of a cordon comes with it: a node controller that finds the two in agreement has nothing to read or write, which
/// would cost the API server four requests a node.
fn cordon(node: &NodeSeen) -> Value {
    if node.taints.iter().any(Taint::is_of_cordon) {
        return json!({ "unschedulable": true });
    }
    let taint = Taint::of_cordon();
    let taints: Vec<&Taint> = node.taints.iter().chain([&taint]).collect();
    json!({ "unschedulable": true, "taints": taints })
}

fn uncordon(node: &NodeSeen) -> Value {
    if !node.taints.iter().any(Taint::is_of_cordon) {
        return json!({ "unschedulable": null });
    }
    let others: Vec<&Taint> = node.taints.iter().filter(|taint| !taint.is_of_cordon()).collect();
    json!({ "unschedulable": null, "taints": Some(others).filter(|others| !others.is_empty()) })
}

/// The cordon on the node, if there is one, was set by this Plan before.
fn is_cordon_ours(view: &View<'_>, node: &NodeSeen) -> bool {
    let marked = node.mark.as_ref().is_some_and(|mark| mark.cordoned);
    marked || is_set_aside_by(view, node) && node.set_aside.as_ref().is_some_and(|record| record.cordoned)
}

/// A Plan of the same name, which is gone, took it out, and it is out still: to the user that is one Plan with one limit.
pub(super) fn is_left_by_predecessor(view: &View<'_>, node: &NodeSeen) -> bool {
    let meta = &view.plan.meta;
    node.mark.as_ref().is_some_and(|mark| {
        let owner = &mark.owner;
        owner.kind == KIND && (&owner.namespace, &owner.name) == (&meta.namespace, &meta.name) && owner.uid != meta.uid
    })
}

/// This Plan has given up on the node before.
pub(super) fn is_set_aside_by(view: &View<'_>, node: &NodeSeen) -> bool {
    node.set_aside.as_ref().is_some_and(|record| record.owner.uid == view.plan.meta.uid)
}

/// A new mark; failures that an earlier one of the same Plan has counted stay counted.
fn marked_by(view: &View<'_>, node: &NodeSeen, cordoned: bool) -> Mark {
    let meta = &view.plan.meta;
    let owner = Owner {
        kind: KIND.to_owned(),
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        uid: meta.uid.clone(),
    };
    let before = node.mark.as_ref().filter(|mark| mark.owner.uid == meta.uid);
    Mark { owner, cordoned, done: None, failed: before.and_then(|mark| mark.failed.clone()) }
}

fn guarded(node: &NodeSeen, labels: Value, annotations: Value) -> Value {
    let mut patch = json!({ "metadata": { "resourceVersion": node.meta.resource_version.to_string() } });
    for (field, entries) in [("labels", labels), ("annotations", annotations)] {
        if entries.as_object().is_some_and(|entries| !entries.is_empty()) {
            patch["metadata"][field] = entries;
        }
    }
    patch
}

fn write(purpose: Purpose, node: &NodeSeen, patch: Value) -> Write {
    Write { purpose, subject: Subject::node(&node.meta.name), act: Act::Patch(patch) }
}

fn text(mark: &Mark) -> String {
    json!(mark).to_string()
}
