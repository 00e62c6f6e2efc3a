//! What the nodes of a Plan need now: those that are out first, then the ones whose turn comes.

use std::collections::BTreeSet;

use drover_api::node::HOSTNAME;
use drover_api::plan::NodeCounts;
use drover_api::plan::events::PlanEvent;
use jiff::Timestamp;

use super::announce::announce;
use super::decide::{View, Wish};
use super::jobs::{Jobs, delete_stale};
use super::marking::{is_set_aside_by, undo_set_aside, write_claims};
use super::selection::Selection;
use super::start::start_more;
use super::tend::{Fate, tend};
use crate::claims::{Claim, Claims};
use crate::decision::{Purpose, Reason, Wait, Write};
use crate::seen::NodeSeen;

/// What the nodes of a Plan need now, and how far they are.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// To nodes that are claimed already, and to Jobs.
    pub writes: Vec<Step>,
    /// To the Plan: after all of the above is done.
    pub claims: Option<Write>,
    /// To the nodes that this very decision claims: once the claim stands, the node is taken, then its Job is made.
    pub takes: Vec<Write>,
    pub jobs: Vec<Write>,
    pub waits: Vec<Wait>,
    /// Hostname label values of the claimed nodes, by node name.
    pub applying: Vec<String>,
    pub counts: NodeCounts,
    /// `Job <ns>/<job> failed on Node <node>: …` for each failed node.
    pub failures: Vec<String>,
    /// The names of the failed nodes.
    pub failed: BTreeSet<String>,
    /// The names of the nodes that are released with their result.
    pub released: BTreeSet<String>,
    /// How many seconds nodes took that are released now.
    pub took: Vec<i64>,
    /// Another controller drives this Plan: nothing may be written but an Event that says so.
    pub hands_off: bool,
    /// No further node is taken until the window opens.
    pub window_closed: bool,
    /// When to look again if nothing changes.
    pub look_again: Option<Timestamp>,
    /// The nodes cannot be seen: what the status says of them stays.
    pub unknown: bool,
}

impl Steps {
    pub fn look_again_by(&mut self, moment: Timestamp) {
        self.look_again = Some(self.look_again.map_or(moment, |earlier| earlier.min(moment)));
    }

    fn is_idle(&self) -> bool {
        self.writes.is_empty() && self.takes.is_empty() && self.jobs.is_empty()
    }
}

/// A write and the Event that tells of it.
#[derive(Debug)]
pub(super) struct Step {
    pub write: Write,
    pub announcement: Option<Write>,
}

impl From<Write> for Step {
    fn from(write: Write) -> Self {
        Step { write, announcement: None }
    }
}

/// What every question about a node is asked with.
pub(super) struct Look<'a> {
    pub view: &'a View<'a>,
    pub wish: &'a Wish,
    pub selection: &'a Selection<'a>,
    pub jobs: &'a Jobs<'a>,
    pub now: Timestamp,
}

pub(super) fn next(view: &View<'_>, wish: &Wish, now: Timestamp) -> Steps {
    let mut steps = Steps::default();
    if let Some((wait, announcement)) = another_controller(view, now) {
        steps.hands_off = true;
        steps.waits.push(wait);
        steps.writes.push(announcement.into());
        return steps;
    }
    let (selection, jobs) = (Selection::of(view, wish), Jobs::of(view));
    let look = Look { view, wish, selection: &selection, jobs: &jobs, now };

    let known = with_adopted(view, now);
    let mut wanted = known.clone();
    for (name, claim) in &known.nodes {
        let fate = match view.nodes.get(name) {
            Some(node) => tend(&look, node, claim, &mut steps),
            // Nothing is left to release; a patch of the vanished Node can no longer land.
            None => Fate::Over,
        };
        if fate == Fate::Over {
            wanted.nodes.remove(name);
        }
    }
    steps.took.iter().for_each(|seconds| wanted.note_duration(*seconds));
    delete_stale(view, wish, &known, &mut steps);
    undo_what_is_no_longer_meant(&look, &mut steps);
    start_more(&look, &mut wanted, &mut steps);
    let held = hold_claims(view, known, wanted, &mut steps);
    steps.applying = held.nodes.keys().map(|name| hostname(view, name)).collect();
    steps.counts = counts(&selection, &held, &steps);
    steps
}

/// Whoever acts must hold the epoch; whoever does not, raises it and does nothing else until that is written. Answers with
/// the claims as they stand when all is written.
fn hold_claims(view: &View<'_>, known: Claims, wanted: Claims, steps: &mut Steps) -> Claims {
    let written = &view.plan.claims;
    let changed = wanted.nodes != written.nodes;
    if !changed && steps.is_idle() {
        return known;
    }
    if written.holder != view.me {
        *steps = Steps {
            claims: Some(write_claims(view, Purpose::RaiseEpoch, &written.raised_by(view.me))),
            writes: Vec::new(),
            takes: Vec::new(),
            jobs: Vec::new(),
            ..std::mem::take(steps)
        };
        return known;
    }
    if changed {
        steps.claims = Some(write_claims(view, Purpose::ClaimNodes, &wanted));
    }
    // With trouble the status is written before the claims, and must not say what may not come to pass.
    if view.trouble.is_empty() { wanted } else { known }
}

/// The claims as written, and those of nodes that carry our mark although the annotation lost them.
fn with_adopted(view: &View<'_>, now: Timestamp) -> Claims {
    let mut claims = view.plan.claims.clone();
    for (name, node) in view.nodes {
        if let (Some(id), true) = (&node.claim, is_marked_by(view, node)) {
            claims.nodes.entry(name.clone()).or_insert_with(|| Claim {
                id: id.clone(),
                owner: view.plan.meta.uid.clone(),
                since: now,
            });
        }
    }
    claims
}

pub(super) fn is_marked_by(view: &View<'_>, node: &NodeSeen) -> bool {
    node.mark.as_ref().is_some_and(|mark| mark.owner.uid == view.plan.meta.uid)
}

/// A node that the Plan went on without, and that it no longer means, goes back to service.
fn undo_what_is_no_longer_meant(look: &Look<'_>, steps: &mut Steps) {
    let ours = look.view.nodes.values().filter(|node| is_set_aside_by(look.view, node) && node.claim.is_none());
    for node in ours.filter(|node| !look.selection.is_pending(node)) {
        if let Some(record) = &node.set_aside {
            steps.writes.push(undo_set_aside(node, record).into());
        }
    }
}

/// Each selected node is counted once.
fn counts(selection: &Selection<'_>, claims: &Claims, steps: &Steps) -> NodeCounts {
    let mut counts = NodeCounts::default();
    for node in &selection.members {
        let name = &node.meta.name;
        counts.selected += 1;
        if selection.is_updated(node) || steps.released.contains(name) && !claims.nodes.contains_key(name) {
            counts.updated += 1;
        } else if steps.failed.contains(name) {
            counts.failed += 1;
        } else if claims.nodes.contains_key(name) {
            counts.applying += 1;
        } else {
            counts.waiting += 1;
        }
    }
    counts
}

fn hostname(view: &View<'_>, name: &str) -> String {
    let label = view.nodes.get(name).and_then(|node| node.meta.labels.get(HOSTNAME));
    label.cloned().unwrap_or_else(|| name.to_owned())
}

/// An Event is the one thing that can be written about a Plan without taking part in driving it.
fn another_controller(view: &View<'_>, now: Timestamp) -> Option<(Wait, Write)> {
    let job = view.jobs.iter().find(|job| job.claim.is_none() && job.outcome.is_none())?;
    let sentence = format!("Job {} of this Plan was made by another controller and is at work", job.meta.name);
    let remedy = "stop the other controller (system-upgrade-controller) and let its Jobs end";
    let event = PlanEvent::another_controller_acts(&format!("{sentence}; {remedy}"));
    let announcement = announce(view.plan, &event, &job.meta.uid, now);
    let wait = Wait::new(view.plan.subject(), Reason::AnotherControllerActs, sentence, now).with_remedy(remedy);
    Some((wait, announcement))
}
