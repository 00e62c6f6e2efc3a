//! The writes that take nodes out of service and give them back: each one guarded patch of one object.

use drover_api::marks;
use drover_api::plan::KIND;
use serde_json::{Value, json};

use super::decide::View;
use crate::claims::{Claim, Claims, Mark, Owner};
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
    let was_ours = node.mark.as_ref().is_some_and(|mark| mark.cordoned);
    let mark = mark(view, was_ours || wants_cordon(view) && !node.unschedulable);
    let mut patch = marked(node, claim, &mark);
    if mark.cordoned {
        patch["spec"] = json!({ "unschedulable": true });
    }
    Write { purpose: Purpose::TakeNode, subject: Subject::node(&node.meta.name), act: Act::Patch(patch) }
}

/// Marks a node whose claim is no longer wanted, and leaves it in service.
pub(super) fn fence(view: &View<'_>, node: &NodeSeen, claim: &Claim) -> Write {
    let cordoned = node.mark.as_ref().is_some_and(|mark| mark.cordoned);
    let patch = marked(node, claim, &mark(view, cordoned));
    Write { purpose: Purpose::FenceNode, subject: Subject::node(&node.meta.name), act: Act::Patch(patch) }
}

fn mark(view: &View<'_>, cordoned: bool) -> Mark {
    let meta = &view.plan.meta;
    let owner = Owner {
        kind: KIND.to_owned(),
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        uid: meta.uid.clone(),
    };
    Mark { owner, cordoned, job_ended_in_boot: None }
}

fn marked(node: &NodeSeen, claim: &Claim, mark: &Mark) -> Value {
    json!({ "metadata": {
        "resourceVersion": node.meta.resource_version.to_string(),
        "labels": { marks::NODE_CLAIM: claim.id },
        "annotations": { marks::NODE_CLAIM: text(mark) },
    }})
}

fn text(mark: &Mark) -> String {
    json!(mark).to_string()
}

/// Notes the boot that the Job ended in.
pub(super) fn note_job_end(node: &NodeSeen, mark: &Mark) -> Write {
    let noted = Mark { job_ended_in_boot: Some(node.boot_id.clone()), ..mark.clone() };
    let patch = json!({ "metadata": {
        "resourceVersion": node.meta.resource_version.to_string(),
        "annotations": { marks::NODE_CLAIM: text(&noted) },
    }});
    Write { purpose: Purpose::NoteJobEnd, subject: Subject::node(&node.meta.name), act: Act::Patch(patch) }
}

/// Marks and cordon go, the result label comes, in one guarded patch.
pub(super) fn release(node: &NodeSeen, mark: &Mark, result: Option<(String, String)>) -> Write {
    let mut patch = json!({ "metadata": {
        "resourceVersion": node.meta.resource_version.to_string(),
        "labels": { marks::NODE_CLAIM: null },
        "annotations": { marks::NODE_CLAIM: null },
    }});
    if let Some((label, value)) = result {
        patch["metadata"]["labels"][label] = json!(value);
    }
    if mark.cordoned {
        patch["spec"] = json!({ "unschedulable": null });
    }
    Write { purpose: Purpose::ReleaseNode, subject: Subject::node(&node.meta.name), act: Act::Patch(patch) }
}
