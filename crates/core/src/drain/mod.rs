//! How a node is emptied: which pods go, which may stay, what holds one up.
//!
//! The rules are those of `kubectl drain`. Unlike there, each look decides anew from the pods that are on the node now,
//! so a drain that was interrupted goes on where it stood, and a refused eviction is a wait that says who forbids it.

mod filter;
mod options;
mod pod;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::decision::{Kind, Reason, Subject, Wait};
pub use filter::DaemonSet;
use filter::{Blockers, Fate, fate};
pub use options::{OnTimeout, Options};
pub use pod::{Controller, PodSeen};

/// A refused eviction is tried again after this time, unless the server names another.
const TRY_AGAIN: SignedDuration = SignedDuration::from_secs(5);

/// Everything one look rests on.
#[derive(Debug, Clone)]
pub struct View<'a> {
    pub node: &'a str,
    pub options: &'a Options,
    /// The pods on the node that the selector matches.
    pub pods: &'a [PodSeen],
    /// The DaemonSets that pods on the node name as their controllers, by namespace and name.
    pub daemon_sets: &'a BTreeMap<(String, String), DaemonSet>,
    /// PersistentVolumes of drained pods that are still attached to the node.
    pub attached: &'a BTreeSet<String>,
    pub memory: &'a Memory,
    pub started: Timestamp,
}

/// What a drain remembers from one look to the next. Losing it costs nothing but the time since when something waits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    /// The pods that were there at the first look, by uid; none before it.
    pub first: Option<BTreeSet<String>>,
    /// Evictions that were refused, by the pod's uid.
    pub refusals: BTreeMap<String, Refusal>,
    /// Volumes that are seen to be attached, since when.
    pub attached_since: Option<Timestamp>,
}

/// The server's last answer to the eviction of one pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    pub since: Timestamp,
    pub again: Timestamp,
    /// 429 for a budget.
    pub code: u16,
    pub message: String,
    pub causes: Vec<String>,
}

impl Refusal {
    /// A refusal now, or one more of the same.
    pub fn new(
        before: Option<&Refusal>,
        now: Timestamp,
        retry_after: Option<SignedDuration>,
        code: u16,
        message: &str,
        causes: Vec<String>,
    ) -> Self {
        let pause = retry_after.filter(|pause| pause.is_positive()).unwrap_or(TRY_AGAIN);
        Refusal {
            since: before.map_or(now, |before| before.since),
            again: now.checked_add(pause).unwrap_or(Timestamp::MAX),
            code,
            message: message.to_owned(),
            causes,
        }
    }

    /// The budget that the server names: `The disruption budget <name> needs …`.
    fn budget(&self) -> Option<&str> {
        self.causes.iter().find_map(|cause| cause.strip_prefix("The disruption budget ")?.split(' ').next())
    }
}

/// What to do now, what to wait for, and whether it is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    pub removals: Vec<Removal>,
    pub waits: Vec<Wait>,
    /// In kubectl's words, about pods that stay or that lose something.
    pub warnings: Vec<String>,
    pub look_again: Option<Timestamp>,
    pub verdict: Verdict,
}

/// One pod that has to go.
#[derive(Debug, Clone, PartialEq)]
pub struct Removal {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub way: Way,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Evict,
    /// Past every budget: only if the user asked for it.
    Delete,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    Going,
    Drained,
    /// Pods that may not be removed with these options: nothing was removed.
    Blocked(Vec<String>),
    TimedOut,
}

pub fn decide(view: &View<'_>, now: Timestamp) -> Decision {
    let mut blockers = Blockers::default();
    let mut going: Vec<&PodSeen> = Vec::new();
    for pod in view.pods.iter().filter(|pod| !came_on_purpose(pod, view.memory)) {
        match fate(pod, view, now) {
            Fate::Goes(warning) => {
                blockers.warn(pod, warning);
                going.push(pod);
            }
            Fate::Stays(warning) => blockers.warn(pod, warning),
            Fate::Blocks(why) => blockers.block(pod, why),
        }
    }
    let warnings = blockers.warnings();
    let mut decision =
        Decision { removals: Vec::new(), waits: Vec::new(), warnings, look_again: None, verdict: Verdict::Going };
    if let Some(sentences) = blockers.sentences() {
        decision.verdict = Verdict::Blocked(sentences);
        return decision;
    }
    if going.is_empty() && view.attached.is_empty() {
        decision.verdict = Verdict::Drained;
        return decision;
    }
    let deadlines = Deadlines::of(view);
    if deadlines.last.is_some_and(|last| now >= last) {
        decision.waits = waits(view, &going, now);
        decision.verdict = Verdict::TimedOut;
        return decision;
    }
    let by_force = deadlines.force.is_some_and(|force| now >= force);
    decision.removals = removals(view, &going, by_force, now);
    decision.waits = waits(view, &going, now);
    let retries = going.iter().filter_map(|pod| view.memory.refusals.get(&pod.uid)).map(|refusal| refusal.again);
    let moments = retries.chain(deadlines.force.filter(|_| !by_force)).chain(deadlines.last);
    decision.look_again = moments.filter(|moment| *moment > now).min();
    decision
}

/// A pod that comes after the first look although the node is cordoned, and tolerates that, would come again: it is
/// left alone, as kubectl leaves all that come later.
fn came_on_purpose(pod: &PodSeen, memory: &Memory) -> bool {
    pod.tolerates_cordon && memory.first.as_ref().is_some_and(|first| !first.contains(&pod.uid))
}

/// When patience ends, and with what.
struct Deadlines {
    /// From then on what is left is deleted past its budgets.
    force: Option<Timestamp>,
    /// Then the drain ends.
    last: Option<Timestamp>,
}

impl Deadlines {
    fn of(view: &View<'_>) -> Self {
        let after = |times: i32| {
            let length = view.options.timeout.filter(|timeout| timeout.is_positive())?;
            view.started.checked_add(length.checked_mul(times)?).ok()
        };
        match view.options.on_timeout {
            OnTimeout::Fail | OnTimeout::Uncordon => Deadlines { force: None, last: after(1) },
            // What was deleted gets as long to end.
            OnTimeout::Delete => Deadlines { force: after(1), last: after(2) },
        }
    }
}

fn removals(view: &View<'_>, going: &[&PodSeen], by_force: bool, now: Timestamp) -> Vec<Removal> {
    let way = if view.options.disable_eviction || by_force { Way::Delete } else { Way::Evict };
    let (ending, standing): (Vec<&PodSeen>, Vec<&PodSeen>) =
        going.iter().partition(|pod| pod.deletion_timestamp.is_some());
    let room = view.options.at_once.map_or(usize::MAX, |limit| limit.saturating_sub(ending.len()));
    let is_due = |pod: &&PodSeen| {
        way == Way::Delete || view.memory.refusals.get(&pod.uid).is_none_or(|refusal| now >= refusal.again)
    };
    let removal =
        |pod: &PodSeen| Removal { namespace: pod.namespace.clone(), name: pod.name.clone(), uid: pod.uid.clone(), way };
    standing.into_iter().filter(is_due).take(room).map(removal).collect()
}

/// What holds the drain up: refusals first, since they need somebody to act.
fn waits(view: &View<'_>, going: &[&PodSeen], now: Timestamp) -> Vec<Wait> {
    let deadline = Deadlines::of(view).last;
    let refused = going.iter().filter(|pod| pod.deletion_timestamp.is_none()).filter_map(|pod| {
        let refusal = view.memory.refusals.get(&pod.uid)?;
        Some(refused(view.node, pod, refusal).with_deadline(deadline))
    });
    let ending = going.iter().filter_map(|pod| {
        let end = pod.deletion_timestamp?;
        let sentence = format!("Pod {}/{} is still ending on Node {}", pod.namespace, pod.name, view.node);
        let grace = SignedDuration::from_secs(pod.deletion_grace_seconds);
        let since = end.checked_sub(grace).unwrap_or(end).min(now);
        let remedy = format!("if it does not end, look whether the kubelet of {} works", view.node);
        let wait = Wait::new(subject(pod), Reason::PodTerminating, sentence, since).with_remedy(remedy);
        Some(wait.with_deadline(deadline))
    });
    let attached = (going.is_empty()).then_some(view.attached).into_iter().flatten().map(|volume| {
        let sentence = format!("volume {volume} of a drained pod is still attached to Node {}", view.node);
        let since = view.memory.attached_since.unwrap_or(now);
        let remedy = format!("kubectl get volumeattachments | grep {volume}");
        Wait::new(Subject::node(view.node), Reason::VolumeAttached, sentence, since)
            .with_remedy(remedy)
            .with_deadline(deadline)
    });
    refused.chain(ending).chain(attached).collect()
}

fn refused(node: &str, pod: &PodSeen, refusal: &Refusal) -> Wait {
    let (namespace, name) = (&pod.namespace, &pod.name);
    let wait =
        |reason, sentence, remedy: String| Wait::new(subject(pod), reason, sentence, refusal.since).with_remedy(remedy);
    match refusal.budget() {
        Some(budget) => wait(
            Reason::BudgetForbids,
            format!(
                "PodDisruptionBudget {namespace}/{budget} forbids to evict Pod {namespace}/{name} from Node {node}"
            ),
            format!(
                "let another pod of the budget become healthy, or change it: kubectl describe pdb -n {namespace} {budget}"
            ),
        ),
        None if refusal.message.contains("more than one PodDisruptionBudget") => wait(
            Reason::BudgetForbids,
            format!(
                "Pod {namespace}/{name} on Node {node} is covered by more than one PodDisruptionBudget, and then nobody can evict it"
            ),
            format!("leave it to one budget: kubectl get pdb -n {namespace}"),
        ),
        None => wait(
            Reason::EvictionRefused,
            format!("Pod {namespace}/{name} cannot be evicted from Node {node}: {}", refusal.message),
            format!("kubectl describe pod -n {namespace} {name}"),
        ),
    }
}

fn subject(pod: &PodSeen) -> Subject {
    Subject { kind: Kind::Pod, namespace: pod.namespace.clone(), name: pod.name.clone() }
}
