//! A node whose Job has failed: it keeps its claim and its cordon, and is tried again after pauses that grow.

use drover_api::marks;
use drover_api::plan::conditions;
use jiff::{SignedDuration, Timestamp};

use super::between::is_paused;
use super::decide::View;
use super::jobs::delete;
use super::marking::{note_failure, set_aside};
use super::nodes::{Look, Steps};
use super::tend::Fate;
use super::waiting::not_ready;
use crate::claims::{Failed, Mark, SetAside};
use crate::decision::{Purpose, Reason, Subject, Wait};
use crate::seen::{JobSeen, NodeSeen};

/// The pause after the first failure; it doubles with each further one.
const FIRST_PAUSE: SignedDuration = SignedDuration::from_mins(1);
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_mins(30);
/// A Plan that goes on without failed nodes does so after this many.
const LAST_ATTEMPT: u32 = 3;

/// Counts the failure of a Job, and decides whether it is tried again.
pub(super) fn after(
    look: &Look<'_>,
    node: &NodeSeen,
    mark: &Mark,
    job: &JobSeen,
    (reason, message): (&str, &str),
    steps: &mut Steps,
) -> Fate {
    let sentence = conditions::job_failed(&job.meta.namespace, &job.meta.name, &node.meta.name, reason, message);
    steps.failures.push(sentence.clone());
    steps.failed.insert(node.meta.name.clone());
    let counted = mark.failed.as_ref().filter(|failed| failed.job == job.meta.uid);
    let remedy =
        format!("read its log, then try again: kubectl delete job -n {} {}", job.meta.namespace, job.meta.name);
    let wait = Wait::new(Subject::node(&node.meta.name), Reason::JobFailed, sentence.clone(), look.now);
    let wait = wait.with_remedy(remedy).with_deadline(counted.map(retry_at));
    let Some(counted) = counted else {
        steps.writes.push(note_failure(node, mark, count(mark, job, sentence, look.now)).into());
        steps.waits.push(wait);
        return Fate::Out;
    };
    if counted.at > look.now {
        // Counted by a clock that ran ahead of this one: the pause begins anew.
        steps.writes.push(note_failure(node, mark, Failed { at: look.now, ..counted.clone() }).into());
        steps.waits.push(wait);
        return Fate::Out;
    }
    let goes_on_without = goes_on_without_failed(look.view) && counted.attempts >= LAST_ATTEMPT && !counted.retry;
    let goes_on_without = goes_on_without && may_give_up_another(look, steps);
    if node.retry && !counted.retry {
        steps.writes.push(note_failure(node, mark, Failed { retry: true, ..counted.clone() }).into());
    } else if goes_on_without && node.ready {
        steps.writes.push(set_aside(node, mark, &hash_of(job), counted, look.now).into());
        return Fate::Over;
    } else if goes_on_without {
        steps.waits.push(not_ready(node, look.now));
    } else if look.wish.hash.is_some() && !is_paused(look.view) {
        if counted.retry || look.now >= retry_at(counted) {
            steps.writes.push(delete(job).into());
        } else {
            steps.look_again_by(retry_at(counted));
        }
    }
    steps.waits.push(wait);
    Fate::Out
}

/// There is no Job on a node where one has failed. Whoever deleted it wants another try at once; but one that was kept for as
/// long as finished Jobs are kept is simply gone, and the pause goes on.
pub(super) fn is_held_back(look: &Look<'_>, node: &NodeSeen, mark: &Mark, steps: &mut Steps) -> bool {
    let Some(failed) = &mark.failed else { return false };
    let is_over = failed.retry || node.retry || look.now < failed.kept_until || look.now >= retry_at(failed);
    if is_over || failed.wish != current_wish(look) {
        return false;
    }
    steps.failures.push(failed.sentence.clone());
    steps.failed.insert(node.meta.name.clone());
    steps.look_again_by(retry_at(failed));
    let wait = Wait::new(Subject::node(&node.meta.name), Reason::JobFailed, failed.sentence.clone(), look.now);
    steps.waits.push(wait.with_remedy(try_again(&node.meta.name)).with_deadline(Some(retry_at(failed))));
    true
}

/// At as many nodes as may be out at once, the Plan goes on without no further one: whoever fails then keeps its claim.
fn may_give_up_another(look: &Look<'_>, steps: &Steps) -> bool {
    let before = look.selection.members.iter().filter(|node| node.claim.is_none() && given_up(look, node).is_some());
    let now = steps.writes.iter().filter(|step| step.write.purpose == Purpose::SetAside);
    before.count() + now.count() < limit(look.view)
}

/// How many nodes may be out at once.
pub(super) fn limit(view: &View<'_>) -> usize {
    let limit = view.plan.spec.as_ref().map_or(0, |spec| spec.concurrency.max(0));
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// A node that the Plan goes on without, and that is not to be tried again with what the Plan asks for now.
pub(super) fn given_up<'n>(look: &Look<'_>, node: &'n NodeSeen) -> Option<&'n SetAside> {
    let record = node.set_aside.as_ref().filter(|record| record.owner.uid == look.view.plan.meta.uid)?;
    let is_same = look.wish.hash.as_ref().is_none_or(|hash| hash.as_str() == record.hash);
    (is_same && !node.retry).then_some(record)
}

pub(super) fn given_up_wait(node: &NodeSeen, record: &SetAside, now: Timestamp) -> Wait {
    let wait = Wait::new(Subject::node(&node.meta.name), Reason::JobFailed, record.sentence.clone(), now);
    wait.with_remedy(try_again(&node.meta.name))
}

fn try_again(node: &str) -> String {
    format!("find out why, then try again: kubectl annotate node {node} {}=now", marks::NODE_RETRY)
}

fn count(mark: &Mark, job: &JobSeen, sentence: String, now: Timestamp) -> Failed {
    let wish = format!("{}/{}", hash_of(job), job.template.as_deref().unwrap_or_default());
    let before = mark.failed.as_ref().filter(|failed| failed.wish == wish).map_or(0, |failed| failed.attempts);
    Failed {
        attempts: before.saturating_add(1),
        wish,
        job: job.meta.uid.clone(),
        at: job.ended.unwrap_or(now).min(now),
        kept_until: job.kept_until.unwrap_or(Timestamp::MAX),
        sentence,
        retry: false,
    }
}

fn current_wish(look: &Look<'_>) -> String {
    let hash = look.wish.hash.as_ref().map(|hash| hash.as_str()).unwrap_or_default();
    format!("{hash}/{}", look.wish.template)
}

fn hash_of(job: &JobSeen) -> String {
    let label = job.meta.labels.iter().find(|(key, _)| key.starts_with(drover_api::plan::labels::PLAN_HASH_PREFIX));
    label.map(|(_, hash)| hash.clone()).unwrap_or_default()
}

/// 1, 2, 4, … at most 30 minutes after the failure.
fn retry_at(failed: &Failed) -> Timestamp {
    let doublings = failed.attempts.saturating_sub(1).min(5);
    let pause = FIRST_PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE);
    failed.at.checked_add(pause).unwrap_or(Timestamp::MAX)
}

pub(super) fn goes_on_without_failed(view: &View<'_>) -> bool {
    view.plan.meta.annotations.get(marks::ON_FAILURE).is_some_and(|value| value == marks::CONTINUE)
}
