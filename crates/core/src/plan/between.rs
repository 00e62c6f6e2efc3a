//! What has to be true before another node is started: asked anew for every one.

use drover_api::marks;
use drover_api::plan::conditions;
use jiff::{SignedDuration, Timestamp};

use super::decide::{View, read_wish};
use super::gate;
use super::selection::Selection;
use super::window::Window;
use crate::after::{self, Name};
use crate::claims::Claims;
use crate::decision::{Reason, Wait};
use crate::seen::PlanSeen;

/// A closed window is looked at again after this time.
const LOOK_AT_WINDOW: SignedDuration = SignedDuration::from_secs(30);

/// What keeps the Plan from starting another node.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub waits: Vec<Wait>,
    pub window_closed: bool,
    pub look_again: Option<Timestamp>,
}

pub(super) fn hold(view: &View<'_>, claims: &Claims, now: Timestamp) -> Held {
    let mut held = Held::default();
    held.waits.extend(paused(view, now));
    held.waits.extend(after_others(view, now));
    held.waits.extend(beside_exclusive(view, now));
    window(view, claims, now, &mut held);
    if held.waits.is_empty() {
        held.waits.extend(gate::wait(view, now));
    }
    held
}

pub(super) fn is_paused(view: &View<'_>) -> bool {
    view.plan.meta.annotations.get(marks::PAUSED).is_some_and(|value| value != "false")
}

fn paused(view: &View<'_>, now: Timestamp) -> Option<Wait> {
    let remedy = format!(
        "kubectl annotate -n {} plans.upgrade.cattle.io {} {}-",
        view.plan.meta.namespace,
        view.plan.meta.name,
        marks::PAUSED
    );
    let sentence = "the Plan is paused: no further node is started";
    is_paused(view).then(|| {
        Wait::new(view.plan.subject(), Reason::PlanPaused, sentence, now).with_remedy(format!("resume it: {remedy}"))
    })
}

/// The Plans that this one comes after, and that are not complete.
fn after_others(view: &View<'_>, now: Timestamp) -> Vec<Wait> {
    let wait = |sentence: String| Wait::new(view.plan.subject(), Reason::OtherPlanFirst, sentence, now);
    let waits = predecessors(view.plan).into_iter().filter_map(|(namespace, name)| {
        let shown = format!("{namespace}/{name}");
        if namespace != view.plan.meta.namespace {
            let sentence = format!("{} names Plan {shown}, which this operator does not see", marks::AFTER);
            let remedy = format!("name a Plan of namespace {}", view.plan.meta.namespace);
            return Some(wait(sentence).with_remedy(remedy));
        }
        match view.plans.get(&name) {
            None => Some(wait(format!("{} names Plan {shown}, which is not there", marks::AFTER))),
            Some(other) if leads_back(view, other) => {
                let sentence = format!("Plan {shown} comes after this one and this one after it: neither can start");
                Some(wait(sentence).with_remedy(format!("take {} out of one of them", marks::AFTER)))
            }
            Some(other) if is_complete(view, other, now) => None,
            Some(_) => Some(wait(format!("Plan {shown} has to be complete first"))),
        }
    });
    waits.collect()
}

/// Namespace and name of each Plan that `plan` comes after.
fn predecessors(plan: &PlanSeen) -> Vec<Name> {
    let text = plan.meta.annotations.get(marks::AFTER).map(String::as_str).unwrap_or_default();
    after::named(&plan.meta.namespace, text)
}

/// Does `from` come after the Plan that is decided on, over however many others?
fn leads_back(view: &View<'_>, from: &PlanSeen) -> bool {
    let name = |plan: &PlanSeen| (plan.meta.namespace.clone(), plan.meta.name.clone());
    let is_seen = |(namespace, _): &Name| *namespace == view.plan.meta.namespace;
    let after = |(_, name): &Name| {
        let before = view.plans.get(name).map(predecessors).unwrap_or_default();
        before.into_iter().filter(is_seen).collect()
    };
    after::leads_to(&name(from), &name(view.plan), after)
}

/// Taken from the facts: the other's status may be of what was asked for a moment ago.
fn is_complete(view: &View<'_>, other: &PlanSeen, now: Timestamp) -> bool {
    let of_other = View { plan: other, jobs: Vec::new(), pods: Vec::new(), trouble: Vec::new(), ..view.clone() };
    let wish = read_wish(&of_other, now);
    let selection = Selection::of(&of_other, &wish);
    wish.hash.is_some()
        && other.claims.nodes.is_empty()
        && selection.members.iter().all(|node| selection.is_updated(node))
}

/// Of all exclusive Plans of a namespace, one at a time has nodes out.
fn beside_exclusive(view: &View<'_>, now: Timestamp) -> Option<Wait> {
    let other = exclusive_others(view).find(|other| holds(view, other))?;
    let sentence = format!("exclusive Plan {} has nodes out", other.meta.name);
    Some(Wait::new(view.plan.subject(), Reason::ExclusivePlanActs, sentence, now))
}

/// Two exclusive Plans have claims, because two operators wrote them at the same time: the older claim goes first.
pub(super) fn must_yield<'a>(view: &'a View<'_>) -> Option<&'a PlanSeen> {
    let rank = |plan: &PlanSeen| (plan.claims.nodes.values().map(|claim| claim.since).min(), plan.meta.name.clone());
    let mine = rank(view.plan);
    exclusive_others(view).find(|other| !other.claims.nodes.is_empty() && rank(other) < mine)
}

fn exclusive_others<'a>(view: &'a View<'_>) -> impl Iterator<Item = &'a PlanSeen> {
    let is_exclusive = |plan: &PlanSeen| plan.spec.as_ref().is_ok_and(|spec| spec.exclusive);
    let mine = is_exclusive(view.plan);
    view.plans.values().filter(move |other| mine && other.meta.uid != view.plan.meta.uid && is_exclusive(other))
}

fn holds(view: &View<'_>, other: &PlanSeen) -> bool {
    !other.claims.nodes.is_empty() || view.claiming.contains(&other.meta.name)
}

fn window(view: &View<'_>, claims: &Claims, now: Timestamp, held: &mut Held) {
    let spec = view.plan.spec.as_ref().ok().and_then(|spec| spec.window.as_ref());
    let Some(window) = spec.and_then(|window| Window::parse(window).ok()) else { return };
    if !window.is_open(now) {
        held.waits.push(Wait::new(view.plan.subject(), Reason::WindowClosed, conditions::OUTSIDE_WINDOW, now));
        held.window_closed = true;
    } else if let (Some(seconds), Some(closes)) = (claims.usual_seconds(), window.closes_at(now)) {
        let done = now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
        if done <= closes {
            return;
        }
        let sentence = "the window closes before another node would be done, by the time that the last ones took";
        let wait = Wait::new(view.plan.subject(), Reason::WindowTooShort, sentence, now);
        held.waits.push(wait.with_remedy("wait for it to open again, or make spec.window longer"));
    } else {
        return;
    }
    held.look_again = now.checked_add(LOOK_AT_WINDOW).ok();
}
