//! The drain of one machine: cordon, the hooks before it, evictions, and after the plan the hooks after it and the uncordon.
//!
//! Models `pkg/controllers/capr/machinedrain` of Rancher 2.12 and the drain of kubectl that it calls: an eviction that a budget
//! refuses is tried again every five seconds, for ten minutes; then the error is written down, and it begins anew.

use std::time::Duration;

use drover_api::rancher::machine_plan::annotations;
use drover_api::rancher::provisioning_cluster::DrainOptions;
use drover_clock::later;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Secret};

use super::{note, options, set_note};
use crate::world::annotations::DRAINING_SINCE;
use crate::world::loose;
use crate::world::notes::PodNote;
use crate::world::outcome::Action;

/// How long one try lasts if the options do not say.
const ONE_TRY: Duration = Duration::from_secs(600);
pub const AGAIN: Duration = Duration::from_secs(5);

/// What the controller does about a Secret.
#[derive(Debug)]
pub enum Step {
    Nothing,
    /// Writes, after which it looks again.
    Act(Vec<Action>),
    /// Evicts what is left on the node, until the moment at which this try is given up.
    Evict {
        options: Box<DrainOptions>,
        until: Timestamp,
    },
}

pub fn step(secret: &Secret, node: Option<&Node>, keeps_annotations: bool, now: Timestamp) -> Step {
    let (Some(token), Some(node)) = (note(secret, annotations::DRAIN_OPTIONS), node) else { return Step::Nothing };
    let wanted = options::read(token);
    if note(secret, annotations::DRAIN_DONE) != Some(token) {
        return before_the_plan(secret, node, token, wanted, now);
    }
    if note(secret, annotations::UNCORDON).is_none() {
        return Step::Nothing;
    }
    let hooks: Vec<&str> = options::annotations(&wanted.post_drain_hooks).collect();
    if !hooks.is_empty() && note(secret, annotations::POST_DRAIN) != Some(token) {
        return write(secret, annotations::POST_DRAIN, token);
    }
    if hooks.iter().any(|hook| note(secret, hook) != Some(token)) {
        return Step::Nothing;
    }
    if is_cordoned(node) {
        return Step::Act(vec![Action::update(&with_cordon(node, false))]);
    }
    Step::Act(vec![Action::update(&cleared(secret, &wanted, keeps_annotations))])
}

fn before_the_plan(secret: &Secret, node: &Node, token: &str, wanted: DrainOptions, now: Timestamp) -> Step {
    if !is_cordoned(node) {
        return Step::Act(vec![Action::update(&with_cordon(node, true))]);
    }
    let hooks: Vec<&str> = options::annotations(&wanted.pre_drain_hooks).collect();
    if !hooks.is_empty() && note(secret, annotations::PRE_DRAIN) != Some(token) {
        return write(secret, annotations::PRE_DRAIN, token);
    }
    if hooks.iter().any(|hook| note(secret, hook) != Some(token)) {
        return Step::Nothing;
    }
    if wanted.enabled != Some(true) {
        return Step::Act(vec![done(secret, token)]);
    }
    let since = secret.metadata.annotations.as_ref().and_then(|all| loose::moment(all.get(DRAINING_SINCE)));
    match since {
        None => write(secret, DRAINING_SINCE, &loose::text(now)),
        Some(since) => {
            let seconds = wanted.timeout.and_then(|seconds| u64::try_from(seconds).ok()).filter(|seconds| *seconds > 0);
            let until = later(since, seconds.map_or(ONE_TRY, Duration::from_secs));
            Step::Evict { options: Box::new(wanted), until }
        }
    }
}

/// Nothing is left to evict.
pub fn done(secret: &Secret, token: &str) -> Action {
    let mut after = secret.clone();
    let notes = after.metadata.annotations.get_or_insert_default();
    notes.remove(DRAINING_SINCE);
    notes.remove(annotations::DRAIN_ERROR);
    set_note(&mut after, annotations::DRAIN_DONE, token);
    Action::update(&after)
}

/// A try is over, and the next one begins.
pub fn failed(secret: &Secret, error: &str, now: Timestamp) -> Action {
    let mut after = secret.clone();
    set_note(&mut after, annotations::DRAIN_ERROR, error);
    set_note(&mut after, DRAINING_SINCE, &loose::text(now));
    Action::update(&after)
}

/// The pods that a drain takes away: all but those of DaemonSets, and without `force` but those that nobody would replace.
pub fn takes(pod: &PodNote, options: &DrainOptions) -> bool {
    let kind = pod.owner.as_ref().map(|owner| owner.kind.as_str());
    match kind {
        Some("DaemonSet") => options.ignore_daemon_sets == Some(false),
        Some("Node") => false,
        Some(_) => true,
        None => options.force == Some(true) || pod.has_ended(),
    }
}

fn write(secret: &Secret, key: &str, value: &str) -> Step {
    let mut after = secret.clone();
    set_note(&mut after, key, value);
    Step::Act(vec![Action::update(&after)])
}

/// All of a drain goes at once. A planner that writes from an old reading brings its own annotations back, once, but not those
/// of the owners of hooks.
fn cleared(secret: &Secret, wanted: &DrainOptions, keeps_annotations: bool) -> Secret {
    let mut after = secret.clone();
    let notes = after.metadata.annotations.get_or_insert_default();
    for hook in options::annotations(&wanted.pre_drain_hooks).chain(options::annotations(&wanted.post_drain_hooks)) {
        notes.remove(hook);
    }
    if keeps_annotations && notes.insert(BROUGHT_BACK.into(), "true".into()).is_none() {
        return after;
    }
    for key in [
        annotations::PRE_DRAIN,
        annotations::POST_DRAIN,
        annotations::DRAIN_OPTIONS,
        annotations::DRAIN_DONE,
        annotations::UNCORDON,
        annotations::DRAIN_ERROR,
        DRAINING_SINCE,
        BROUGHT_BACK,
    ] {
        notes.remove(key);
    }
    after
}

/// On a Secret whose annotations were brought back: it does not happen twice.
const BROUGHT_BACK: &str = "corral.drover.dev/brought-back";

fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true))
}

fn with_cordon(node: &Node, cordoned: bool) -> Node {
    let mut node = node.clone();
    node.spec.get_or_insert_default().unschedulable = Some(true).filter(|_| cordoned);
    node
}
