//! Does a node take longer than others did?

use jiff::{SignedDuration, Timestamp};

use super::nodes::{Look, Steps};
use crate::decision::{Reason, Subject, Wait};
use crate::seen::{JobSeen, NodeSeen};

/// Slow is what takes longer than so many times what the last nodes took, and this much on top.
const SLOW: (i32, SignedDuration) = (2, SignedDuration::from_mins(1));
/// The same for what is stalled.
const STALLED: (i32, SignedDuration) = (4, SignedDuration::from_mins(5));
/// While no node is done there is nothing to compare with: an upgrade of one node rarely takes longer.
const SLOW_AT_ALL: SignedDuration = SignedDuration::from_mins(30);
const STALLED_AT_ALL: SignedDuration = SignedDuration::from_hours(1);

/// What is said of a node whose Job runs: that it does, or that it has done so for too long. The sentences state what was
/// compared, and not why it is so.
pub(super) fn wait(look: &Look<'_>, node: &NodeSeen, job: &JobSeen, steps: &mut Steps) -> Wait {
    let name = &node.meta.name;
    let subject = Subject::node(name);
    let usual = look.view.plan.claims.usual_seconds().map(SignedDuration::from_secs);
    let (slow, stalled) = match usual {
        Some(usual) => (limit(usual, SLOW), limit(usual, STALLED)),
        None => (SLOW_AT_ALL, STALLED_AT_ALL),
    };
    let after = |length: SignedDuration| job.began.and_then(|began| began.checked_add(length).ok());
    let is_over = |moment: Option<Timestamp>| moment.is_some_and(|moment| look.now >= moment);
    let compared = |times: &str, at_all: &str| match usual {
        Some(_) => format!("for longer than {times} times as long as the last nodes of this Plan took"),
        None => format!("for longer than {at_all}, and no node of this Plan is done that it could be compared with"),
    };
    let of_job = format!("Node {name} is being upgraded by Job {}", job.meta.name);
    let wait = if is_over(after(stalled)) {
        let sentence = format!("{of_job} {}", compared("four", "an hour"));
        Wait::new(subject, Reason::NodeStalled, sentence, look.now).with_remedy(look_at(job))
    } else if is_over(after(slow)) {
        after(stalled).into_iter().for_each(|moment| steps.look_again_by(moment));
        let sentence = format!("{of_job} {}", compared("two", "half an hour"));
        Wait::new(subject, Reason::NodeSlow, sentence, look.now).with_remedy(look_at(job))
    } else {
        after(slow).into_iter().for_each(|moment| steps.look_again_by(moment));
        Wait::new(subject, Reason::JobRunning, of_job, look.now)
    };
    wait.with_deadline(job.deadline)
}

fn limit(usual: SignedDuration, (times, more): (i32, SignedDuration)) -> SignedDuration {
    usual.saturating_mul(times).saturating_add(more)
}

fn look_at(job: &JobSeen) -> String {
    format!("see what it does: kubectl logs -n {} job/{} --all-containers", job.meta.namespace, job.meta.name)
}
