//! Which nodes go next, and what the ones that are out need now.

use drover_api::node::HOSTNAME;
use drover_api::plan::events::PlanEvent;
use drover_api::plan::{conditions, labels};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::announce::announce;
use super::decide::{View, Wish};
use super::hash::LatestHash;
use super::job::{self, JobOrder};
use super::marking::{fence, note_job_end, release, take, wants_cordon, write_claims};
use super::selection::{Selection, turn};
use super::window::Window;
use crate::claims::{Claim, ClaimId, Claims, Mark};
use crate::decision::{Act, Purpose, Reason, Subject, Wait, Write};
use crate::seen::{JobSeen, NodeSeen, Outcome};

/// A closed window is looked at again after this time.
const LOOK_AT_WINDOW: SignedDuration = SignedDuration::from_secs(30);

/// What the nodes of a Plan need now, and how far they are.
#[derive(Debug, Default)]
pub(super) struct Steps {
    pub writes: Vec<Step>,
    pub waits: Vec<Wait>,
    /// Hostname label values of the claimed nodes, by node name.
    pub applying: Vec<String>,
    pub selected: usize,
    pub updated: usize,
    /// `Job <ns>/<job> failed on Node <node>: …` for each failed node.
    pub failures: Vec<String>,
    /// Another controller drives this Plan: nothing may be written, not even a status.
    pub hands_off: bool,
    /// The claims change only after all other writes are done.
    pub claims_last: bool,
    /// No further node is taken until the window opens.
    pub window_closed: bool,
    /// When to look again if nothing changes.
    pub look_again: Option<Timestamp>,
    /// The nodes cannot be seen: what the status says of them stays.
    pub unknown: bool,
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

pub(super) fn next(view: &View<'_>, wish: &Wish, now: Timestamp) -> Steps {
    let mut steps = Steps::default();
    if let Some(wait) = another_controller(view, now) {
        steps.hands_off = true;
        steps.waits.push(wait);
        return steps;
    }
    let selection = Selection::of(view, wish);
    steps.selected = selection.members.len();
    steps.updated = selection.members.iter().filter(|node| selection.is_updated(node)).count();

    let known = with_adopted(view, now);
    let mut wanted = known.clone();
    for (name, claim) in &known.nodes {
        let fate = match view.nodes.get(name) {
            Some(node) => look_after(view, wish, &selection, node, claim, now, &mut steps),
            // Nothing is left to release; a patch of the vanished Node can no longer land.
            None => Fate::Over,
        };
        if fate != Fate::Out {
            wanted.nodes.remove(name);
        }
        steps.claims_last |= fate == Fate::OverOnceReleased;
    }
    delete_stale_jobs(view, wish, &known, &mut steps);
    steps.applying = wanted.nodes.keys().map(|name| hostname(view, name)).collect();
    claim_more(view, wish, &selection, &mut wanted, now, &mut steps);
    hold_claims(view, wanted, &mut steps);
    steps
}

/// Whoever acts must hold the epoch; whoever does not, raises it and does nothing else until that is written.
fn hold_claims(view: &View<'_>, wanted: Claims, steps: &mut Steps) {
    let written = &view.plan.claims;
    let changed = wanted.nodes != written.nodes;
    if !changed && steps.writes.is_empty() {
        return;
    }
    if written.holder != view.me {
        steps.writes = vec![write_claims(view, Purpose::RaiseEpoch, &written.raised_by(view.me)).into()];
    } else if changed {
        steps.writes.push(write_claims(view, Purpose::ClaimNodes, &wanted).into());
    }
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

fn is_marked_by(view: &View<'_>, node: &NodeSeen) -> bool {
    node.mark.as_ref().is_some_and(|mark| mark.owner.uid == view.plan.meta.uid)
}

#[derive(PartialEq)]
enum Fate {
    Out,
    /// Its release is among the writes, and nothing will be left to tell that it was: the claim ends right after it.
    OverOnceReleased,
    /// The node is back in service, or was never taken out of it: its claim ends.
    Over,
}

/// The next step of one claimed node.
fn look_after(
    view: &View<'_>,
    wish: &Wish,
    selection: &Selection<'_>,
    node: &NodeSeen,
    claim: &Claim,
    now: Timestamp,
    steps: &mut Steps,
) -> Fate {
    let subject = Subject::node(&node.meta.name);
    let wanted = selection.is_pending(node);
    let Some(mark) = node.mark.as_ref().filter(|_| node.claim.as_ref() == Some(&claim.id)) else {
        if node.mark.is_some() && !is_marked_by(view, node) {
            if !wanted {
                return Fate::Over;
            }
            steps.waits.push(claimed_by_another(node, now));
        } else if !wanted && selection.is_updated(node) {
            // Released by us or by a leader before us: the result label came with the release.
            return Fate::Over;
        } else if !wanted {
            steps.writes.push(fence(view, node, claim).into());
        } else if wish.hash.is_some() {
            steps.writes.push(take(view, node, claim).into());
        }
        return Fate::Out;
    };

    let jobs = || jobs_on(view, &node.meta.name);
    let current = jobs().find(|job| job.claim.as_ref() == Some(&claim.id) && !is_outdated(job, wish));
    match current {
        Some(job) if job.meta.deletion_timestamp.is_some() => {
            let sentence = format!("Job {} is being deleted", job.meta.name);
            steps.waits.push(Wait::new(subject, Reason::JobBeingDeleted, sentence, now));
        }
        Some(job) => match &job.outcome {
            None => {
                let sentence = format!("Node {} is being upgraded by Job {}", node.meta.name, job.meta.name);
                steps.waits.push(Wait::new(subject, Reason::JobRunning, sentence, now).with_deadline(job.deadline));
            }
            Some(Outcome::Failed { reason, message }) if wanted => {
                let sentence =
                    conditions::job_failed(&job.meta.namespace, &job.meta.name, &node.meta.name, reason, message);
                let remedy = format!(
                    "read its log, then try again: kubectl delete job -n {} {}",
                    job.meta.namespace, job.meta.name
                );
                steps.failures.push(sentence.clone());
                steps.waits.push(Wait::new(subject, Reason::JobFailed, sentence, now).with_remedy(remedy));
            }
            // The user took the node out of the Plan: that ends a failed attempt.
            Some(Outcome::Failed { .. }) => {
                steps.writes.push(release(node, mark, None).into());
                return Fate::OverOnceReleased;
            }
            Some(Outcome::Complete) => {
                let released = back_to_service(view, node, claim, mark, job, now, steps);
                if released && !wanted {
                    return Fate::OverOnceReleased;
                }
            }
        },
        None if jobs().any(|job| job.outcome.is_none()) => {
            let sentence = format!("a Job of an earlier attempt on Node {} has to go first", node.meta.name);
            steps.waits.push(Wait::new(subject, Reason::JobBeingDeleted, sentence, now));
        }
        None if !wanted => {
            steps.writes.push(release(node, mark, None).into());
            return Fate::OverOnceReleased;
        }
        None => {
            if let (Some(hash), Ok(version)) = (&wish.hash, &wish.version) {
                if wants_cordon(view) && !node.unschedulable {
                    steps.writes.push(take(view, node, claim).into());
                } else {
                    create_job(view, node, claim, hash, version, now, steps);
                }
            }
        }
    }
    Fate::Out
}

/// The Job is complete; true if the node is released. It is when it is Ready in the boot that the Job ended in; a node that reboots
/// after that is looked at anew.
fn back_to_service(
    view: &View<'_>,
    node: &NodeSeen,
    claim: &Claim,
    mark: &Mark,
    job: &JobSeen,
    now: Timestamp,
    steps: &mut Steps,
) -> bool {
    if mark.job_ended_in_boot.as_deref() != Some(&node.boot_id) {
        steps.writes.push(note_job_end(node, mark).into());
    } else if node.ready {
        // The label says what ran on the node, which may be older than what the Plan asks for by now.
        let label = labels::plan_hash(&view.plan.meta.name);
        let result = job.meta.labels.get(&label).map(|hash| (label, hash.clone()));
        steps.writes.push(Step {
            write: release(node, mark, result),
            announcement: Some(announce(view.plan, &PlanEvent::job_complete(&node.meta.name), claim.id.as_str(), now)),
        });
        return true;
    } else {
        steps.waits.push(not_ready(node, now));
    }
    false
}

fn create_job(
    view: &View<'_>,
    node: &NodeSeen,
    claim: &Claim,
    hash: &LatestHash,
    version: &str,
    now: Timestamp,
    steps: &mut Steps,
) {
    let Ok(spec) = &view.plan.spec else { return };
    let order = JobOrder {
        plan: &view.plan.meta,
        spec,
        node: &node.meta.name,
        hostname: node.meta.labels.get(HOSTNAME).unwrap_or(&node.meta.name),
        hash,
        version,
        claim: &claim.id,
        settings: view.settings,
    };
    let job = job::job(&order);
    let name = job.metadata.name.clone().unwrap_or_default();
    if let Some(old) = view.jobs.iter().find(|job| job.meta.name == name) {
        // A finished Job of an earlier claim has the name that is needed now; or, of two nodes with the same short name,
        // the other one's Job still needs it.
        let in_use = view.plan.claims.nodes.values().any(|claim| old.claim.as_ref() == Some(&claim.id));
        if !in_use && old.meta.deletion_timestamp.is_none() {
            steps.writes.push(delete_job(old).into());
        }
        let sentence = format!("another Job with the name {name} has to go first");
        steps.waits.push(Wait::new(Subject::node(&node.meta.name), Reason::JobBeingDeleted, sentence, now));
        return;
    }
    let subject = Subject::job(&view.plan.meta.namespace, &name);
    steps.writes.push(Write { purpose: Purpose::CreateJob, subject, act: Act::Create(json!(job)) }.into());
}

/// Jobs that run for no claim: a dead leader's, or of a version that the Plan no longer asks for.
fn delete_stale_jobs(view: &View<'_>, wish: &Wish, claims: &Claims, steps: &mut Steps) {
    for job in &view.jobs {
        let claimed = job
            .meta
            .labels
            .get(labels::NODE)
            .and_then(|node| claims.nodes.get(node))
            .is_some_and(|claim| job.claim.as_ref() == Some(&claim.id));
        let ours = job.claim.is_some() && job.meta.deletion_timestamp.is_none();
        let stale = if claimed { is_outdated(job, wish) } else { job.outcome.is_none() };
        if ours && stale {
            steps.writes.push(delete_job(job).into());
        }
    }
}

fn delete_job(job: &JobSeen) -> Write {
    Write {
        purpose: Purpose::DeleteJob,
        subject: Subject::job(&job.meta.namespace, &job.meta.name),
        act: Act::Delete { uid: job.meta.uid.clone() },
    }
}

/// A Job of another version is replaced, and so is a failed one once anything that counts has changed. One that runs
/// or has run with another hash of the same version is not interrupted.
fn is_outdated(job: &JobSeen, wish: &Wish) -> bool {
    let (Some(hash), Ok(version)) = (&wish.hash, &wish.version) else { return false };
    match job.outcome {
        Some(Outcome::Complete) => false,
        None => job.meta.labels.get(labels::VERSION) != Some(version),
        Some(Outcome::Failed { .. }) => !job.meta.labels.values().any(|value| value == hash.as_str()),
    }
}

fn jobs_on<'a>(view: &'a View<'_>, node: &'a str) -> impl Iterator<Item = &'a JobSeen> + 'a {
    view.jobs.iter().copied().filter(move |job| job.meta.labels.get(labels::NODE).is_some_and(|name| name == node))
}

fn claim_more(
    view: &View<'_>,
    wish: &Wish,
    selection: &Selection<'_>,
    claims: &mut Claims,
    now: Timestamp,
    steps: &mut Steps,
) {
    let Some(hash) = &wish.hash else { return };
    let limit = view.plan.spec.as_ref().map_or(0, |spec| spec.concurrency.max(0));
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut free = limit.saturating_sub(claims.nodes.len());

    let pending = selection
        .members
        .iter()
        .filter(|node| selection.is_pending(node) && !claims.nodes.contains_key(&node.meta.name));
    let (mut open, mut blocked): (Vec<&NodeSeen>, Vec<Wait>) = (Vec::new(), Vec::new());
    for node in pending {
        if node.claim.is_some() {
            blocked.push(claimed_by_another(node, now));
        } else if !node.ready {
            blocked.push(not_ready(node, now));
        } else {
            open.push(node);
        }
    }
    if !open.is_empty() && is_window_closed(view, now) {
        steps.waits.push(Wait::new(view.plan.subject(), Reason::WindowClosed, conditions::OUTSIDE_WINDOW, now));
        steps.window_closed = true;
        steps.look_again = now.checked_add(LOOK_AT_WINDOW).ok();
        open.clear();
    }
    if free > 0 {
        open.sort_by_cached_key(|node| turn(node, view, hash));
    }
    let mut left_over = false;
    for node in open {
        if free == 0 {
            left_over = true;
            break;
        }
        free -= 1;
        let id = ClaimId::new(&view.plan.meta.uid, view.plan.meta.resource_version, &node.meta.uid);
        let claim = Claim { id, owner: view.plan.meta.uid.clone(), since: now };
        claims.nodes.insert(node.meta.name.clone(), claim);
    }
    if left_over {
        let sentence = format!("the other nodes wait for {}", some_of(claims.nodes.keys()));
        steps.waits.push(Wait::new(view.plan.subject(), Reason::ConcurrencyReached, sentence, now));
    }
    steps.waits.extend(blocked);
}

fn is_window_closed(view: &View<'_>, now: Timestamp) -> bool {
    let window = view.plan.spec.as_ref().ok().and_then(|spec| spec.window.as_ref());
    window.is_some_and(|window| Window::parse(window).is_ok_and(|window| !window.is_open(now)))
}

fn some_of<'a>(names: impl ExactSizeIterator<Item = &'a String>) -> String {
    const SHOWN: usize = 3;
    let more = names.len().saturating_sub(SHOWN);
    let mut text = names.take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(" and others");
    }
    text
}

fn hostname(view: &View<'_>, name: &str) -> String {
    let label = view.nodes.get(name).and_then(|node| node.meta.labels.get(HOSTNAME));
    label.cloned().unwrap_or_else(|| name.to_owned())
}

fn another_controller(view: &View<'_>, now: Timestamp) -> Option<Wait> {
    let job = view.jobs.iter().find(|job| job.claim.is_none() && job.outcome.is_none())?;
    let sentence = format!("Job {} of this Plan was made by another controller and is at work", job.meta.name);
    let remedy = "stop the other controller (system-upgrade-controller) and let its Jobs end";
    Some(Wait::new(view.plan.subject(), Reason::AnotherControllerActs, sentence, now).with_remedy(remedy))
}

fn claimed_by_another(node: &NodeSeen, now: Timestamp) -> Wait {
    let owner = node.mark.as_ref().map_or_else(
        || "another owner".to_owned(),
        |mark| format!("{} {}/{}", mark.owner.kind, mark.owner.namespace, mark.owner.name),
    );
    let sentence = format!("Node {} is out for {owner}", node.meta.name);
    Wait::new(Subject::node(&node.meta.name), Reason::NodeClaimedByAnother, sentence, now)
}

fn not_ready(node: &NodeSeen, now: Timestamp) -> Wait {
    let sentence = format!("Node {} is not Ready", node.meta.name);
    let remedy = format!("find out why: kubectl describe node {}", node.meta.name);
    Wait::new(Subject::node(&node.meta.name), Reason::NodeNotReady, sentence, now).with_remedy(remedy)
}
