//! What a Plan's status says: rebuilt from the facts each time, and written when it differs.

use drover_api::plan::conditions::{self as condition, reasons};
use drover_api::plan::events::{PlanEvent, VersionSource};
use drover_api::plan::{PlanCondition, PlanStatus, PublishedWait};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::announce::announce;
use super::decide::{View, Wish};
use super::nodes::Steps;
use crate::decision::{Act, Decision, Purpose, Reason, Wait, Write};

/// At most one status write in this time for one Plan.
const BETWEEN_WRITES: SignedDuration = SignedDuration::from_secs(1);
/// So many waits are listed: of a hundred nodes at work the first ones tell enough, and the status stays small.
const PUBLISHED: usize = 30;

/// The stages that publish what is decided; none if the status says it already, or was written just now.
pub(super) fn publish(
    view: &View<'_>,
    wish: &Wish,
    steps: &Steps,
    waits: &[Wait],
    now: Timestamp,
    decision: &mut Decision,
) -> Vec<Vec<Write>> {
    let old = &view.plan.status;
    let new = status(old, wish, steps, waits, now);
    if steps.hands_off || new == *old {
        return Vec::new();
    }
    // One that was written in what is the future now says only that the clock was set back.
    let written = view.status_written.filter(|written| *written <= now);
    if let Some(again) = written.and_then(|written| written.checked_add(BETWEEN_WRITES).ok())
        && now < again
    {
        decision.look_again_by(again);
        return Vec::new();
    }
    // The Events go first: a crash between the two then repeats them under the same names, and loses none.
    let events =
        transitions(old, &new, wish).into_iter().map(|(event, cause)| announce(view.plan, &event, &cause, now));
    let patch = json!({
        "metadata": { "resourceVersion": view.plan.meta.resource_version.to_string() },
        "status": replacing(&new),
    });
    let write = Write { purpose: Purpose::PublishStatus, subject: view.plan.subject(), act: Act::PatchStatus(patch) };
    vec![events.collect(), vec![write]]
}

/// A merge patch keeps what it does not name: every field is named.
fn replacing(status: &PlanStatus) -> Value {
    let mut value = json!(status);
    for field in ["conditions", "latestVersion", "latestHash", "applying", "counts", "waits"] {
        if value.get(field).is_none() {
            value[field] = Value::Null;
        }
    }
    value
}

fn status(old: &PlanStatus, wish: &Wish, steps: &Steps, waits: &[Wait], now: Timestamp) -> PlanStatus {
    let mut new = old.clone();
    if let (Ok(version), Some(hash)) = (&wish.version, &wish.hash) {
        new.latest_version = version.clone();
        new.latest_hash = hash.as_str().to_owned();
    }
    let at = whole_seconds(now).to_string();
    if !steps.unknown {
        new.applying = steps.applying.clone();
        new.counts = Some(steps.counts);
        let (status, reason, message) = complete(wish, steps);
        set(&mut new, condition::COMPLETE, status, reason, &message, &at);
    }
    match &wish.valid {
        Ok(()) => set(&mut new, condition::VALIDATED, condition::TRUE, reasons::PLAN_IS_VALID, "", &at),
        Err(wait) => set(&mut new, condition::VALIDATED, condition::FALSE, reasons::ERROR, &wait.sentence, &at),
    }
    match &wish.version {
        Ok(_) => {
            let source = match wish.source {
                VersionSource::Version => reasons::VERSION,
                VersionSource::Channel => reasons::CHANNEL,
            };
            set(&mut new, condition::LATEST_RESOLVED, condition::TRUE, source, "", &at);
        }
        Err(wait) => set(&mut new, condition::LATEST_RESOLVED, condition::FALSE, reasons::ERROR, &wait.sentence, &at),
    }
    record_acceptance(&mut new, &wish.accepted, &at);
    let complete = find(&new, condition::COMPLETE).is_some_and(|condition| condition.status == condition::TRUE);
    let progressing = if complete && waits.is_empty() { condition::FALSE } else { condition::TRUE };
    let reason = waits.first().map_or_else(|| reasons::COMPLETE.to_owned(), |wait| wait.reason.to_string());
    let message = progress(&new, waits);
    set(&mut new, condition::PROGRESSING, progressing, &reason, &message, &at);
    new.waits = waits.iter().take(PUBLISHED).map(published).collect();
    new
}

/// What somebody accepts stays on record, also when it is no longer accepted.
fn record_acceptance(status: &mut PlanStatus, codes: &str, at: &str) {
    let before = find(status, condition::RISKS_ACCEPTED).map(|condition| condition.message.clone());
    match before {
        _ if !codes.is_empty() => {
            set(status, condition::RISKS_ACCEPTED, condition::TRUE, reasons::ACCEPTED, codes, at);
        }
        Some(codes) => set(status, condition::RISKS_ACCEPTED, condition::FALSE, reasons::WITHDRAWN, &codes, at),
        None => {}
    }
}

/// Is it done, in the words that scripts of today compare.
fn complete(wish: &Wish, steps: &Steps) -> (&'static str, &'static str, String) {
    let none = String::new();
    if wish.hash.is_none() {
        (condition::FALSE, reasons::NOT_READY, condition::NOT_VALID_AND_RESOLVED.to_owned())
    } else if let Some(failure) = steps.failures.first() {
        (condition::FALSE, reasons::JOB_FAILED, failure.clone())
    } else if !steps.applying.is_empty() {
        (condition::FALSE, reasons::SYNC_JOB, none)
    } else if steps.window_closed {
        (condition::FALSE, reasons::WAITING, condition::OUTSIDE_WINDOW.to_owned())
    } else if steps.counts.updated < steps.counts.selected {
        (condition::FALSE, reasons::RESOLVED, none)
    } else {
        (condition::TRUE, reasons::COMPLETE, none)
    }
}

/// Counts and waits in one text, for those who see only conditions.
fn progress(status: &PlanStatus, waits: &[Wait]) -> String {
    const SHOWN: usize = 3;
    let counts = status.counts.unwrap_or_default();
    let mut text = format!("{} of {} nodes updated", counts.updated, counts.selected);
    for (count, word) in [(counts.applying, "applying"), (counts.waiting, "waiting"), (counts.failed, "failed")] {
        if count > 0 {
            text.push_str(&format!(", {count} {word}"));
        }
    }
    for wait in waits.iter().take(SHOWN) {
        text.push_str("; ");
        text.push_str(&wait.sentence);
    }
    if waits.len() > SHOWN {
        text.push_str("; and more");
    }
    text
}

fn published(wait: &Wait) -> PublishedWait {
    PublishedWait {
        subject: wait.subject.to_string(),
        reason: wait.reason.to_string(),
        sentence: wait.sentence.clone(),
        since: Time(wait.since),
        deadline: wait.deadline.map(Time),
        remedy: wait.remedy.clone(),
    }
}

/// A wait goes on for as long as its subject waits for the same reason. Where the installed definition of Plan prunes
/// the list, the condition still tells since when the first one lasts.
pub(super) fn keep_since(waits: &mut [Wait], old: &PlanStatus) {
    let progressing = find(old, condition::PROGRESSING);
    for wait in waits {
        let subject = wait.subject.to_string();
        let reason = wait.reason.to_string();
        let listed = old.waits.iter().find(|old| old.subject == subject && old.reason == reason).map(|old| old.since.0);
        let stood = progressing
            .filter(|condition| condition.reason == reason)
            .and_then(|condition| condition.last_transition_time.parse().ok());
        wait.since = listed.or(if old.waits.is_empty() { stood } else { None }).unwrap_or(whole_seconds(wait.since));
    }
}

fn find<'a>(status: &'a PlanStatus, type_: &str) -> Option<&'a PlanCondition> {
    status.conditions.iter().find(|condition| condition.type_ == type_)
}

/// Sets one condition. `lastUpdateTime` moves with status or message, as scripts of today know it;
/// `lastTransitionTime`, which they do not, with the reason.
fn set(plan: &mut PlanStatus, type_: &str, status: &str, reason: &str, message: &str, at: &str) {
    let index = plan.conditions.iter().position(|condition| condition.type_ == type_);
    let index = index.unwrap_or_else(|| {
        plan.conditions.push(PlanCondition { type_: type_.to_owned(), ..PlanCondition::default() });
        plan.conditions.len() - 1
    });
    let condition = &mut plan.conditions[index];
    if condition.status != status || condition.message != message {
        condition.last_update_time = at.to_owned();
    }
    if type_ == condition::PROGRESSING && (condition.status != status || condition.reason != reason) {
        condition.last_transition_time = at.to_owned();
    }
    condition.status = status.to_owned();
    condition.reason = reason.to_owned();
    condition.message = message.to_owned();
}

/// The Events that tell the difference of two statuses, each with what makes it unique.
fn transitions(old: &PlanStatus, new: &PlanStatus, wish: &Wish) -> Vec<(PlanEvent, String)> {
    let mut events = Vec::new();
    let changed = |type_: &str| {
        let (before, after) = (find(old, type_), find(new, type_));
        let text = |c: Option<&PlanCondition>| c.map(|c| (c.status.clone(), c.message.clone()));
        let cause = before.map(|condition| condition.last_update_time.clone()).unwrap_or_default();
        after.filter(|_| text(before) != text(after)).map(|condition| (condition.clone(), cause))
    };
    if let Some((condition, cause)) = changed(condition::VALIDATED) {
        let event = match condition.status.as_str() {
            condition::TRUE => PlanEvent::validated(),
            _ => PlanEvent::validate_failed(&condition.message),
        };
        events.push((event, cause));
    }
    match changed(condition::LATEST_RESOLVED) {
        Some((failed, cause)) if failed.status == condition::FALSE => {
            events.push((PlanEvent::resolve_failed(&failed.message), cause));
        }
        _ if new.latest_version != old.latest_version => {
            let cause = old.latest_version.clone();
            events.push((PlanEvent::resolved(wish.source, &new.latest_version), cause));
        }
        _ => {}
    }
    if let Some((condition, cause)) = changed(condition::RISKS_ACCEPTED) {
        events.push((PlanEvent::risks_accepted(&condition.message, condition.status == condition::TRUE), cause));
    }
    let held_up = [Reason::BudgetForbids, Reason::EvictionRefused].map(|reason| reason.to_string());
    for wait in new.waits.iter().filter(|wait| held_up.contains(&wait.reason) && !has_said(old, &wait.sentence)) {
        events.push((PlanEvent::drain_held_up(&wait.sentence), format!("{}/{}", wait.subject, wait.since.0)));
    }
    let late = [Reason::NodeSlow, Reason::NodeStalled].map(|reason| reason.to_string());
    for wait in new.waits.iter().filter(|wait| late.contains(&wait.reason) && !has_said(old, &wait.sentence)) {
        events.push((PlanEvent::node_late(&wait.reason, &wait.sentence), format!("{}/{}", wait.subject, wait.since.0)));
    }
    if let Some(wait) = &wish.channel
        && !has_said(old, &wait.sentence)
    {
        events.push((PlanEvent::resolve_failed(&wait.sentence), old.latest_version.clone()));
    }
    let cause = find(old, condition::COMPLETE).map(|c| c.last_update_time.clone()).unwrap_or_default();
    if new.applying != old.applying && !new.applying.is_empty() {
        let event = PlanEvent::sync_job(&new.latest_version, &new.applying, &new.latest_hash);
        events.push((event, format!("{cause}/{}", old.applying.join(","))));
    }
    if let Some((condition, cause)) = changed(condition::COMPLETE) {
        match (condition.status.as_str(), condition.reason.as_str()) {
            (condition::TRUE, _) => {
                events.push((PlanEvent::complete(&new.latest_version, &new.latest_hash), cause));
            }
            (_, reasons::WAITING) => events.push((PlanEvent::waiting(&new.latest_version, &new.latest_hash), cause)),
            (_, reasons::JOB_FAILED) => events.push((PlanEvent::job_failed(condition.message), cause)),
            _ => {}
        }
    }
    events
}

/// Is the wait among those that were published before?
fn has_said(old: &PlanStatus, sentence: &str) -> bool {
    let listed = old.waits.iter().any(|old| old.sentence == sentence);
    listed || find(old, condition::PROGRESSING).is_some_and(|condition| condition.message.contains(sentence))
}

/// The API server keeps whole seconds.
pub(super) fn whole_seconds(moment: Timestamp) -> Timestamp {
    Timestamp::from_second(moment.as_second()).unwrap_or(moment)
}
