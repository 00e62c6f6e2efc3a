//! What is told about an Upgrade as Events: that a phase begins, that a node is done, what became of its VMs, and what somebody has to look
//! after.
//!
//! Each is told once. A node has one Event of its own when it is done: what it goes through on its way stands in the status, and an Event
//! for each step would be most of what an upgrade asks of the API server.

use drover_api::harvester::events::{NODE_FAILED, NODE_SKIPPED, NODE_UPGRADED, NORMAL, WARNING, begins};
use drover_api::harvester::upgrade::events::{RESTORE_VM_COMPLETED, RESTORE_VM_FAILED};
use drover_api::harvester::upgrade::labels;
use jiff::{SignedDuration, Timestamp};

use super::decide::Turn;
use super::progress::{Ending, Step};
use super::stalling;
use crate::announce::{About, Told, announce};
use crate::decision::{Reason, Wait, Write};
use crate::why::Outlook;
use crate::why::reasons::{Meaning, meaning};

/// What may pass by itself is told when it has lasted for so long.
const MAY_PASS: SignedDuration = SignedDuration::from_secs(60);

/// `state` is the one that the Upgrade is in now. What was told before is among them as well, under the same name.
pub(super) fn events(turn: &Turn<'_>, state: &str, waits: &[Wait], look_again: &mut Option<Timestamp>) -> Vec<Write> {
    let metadata = &turn.view.upgrade.metadata;
    let about = About {
        api_version: "harvesterhci.io/v1beta1",
        kind: "Upgrade",
        namespace: &metadata.namespace,
        name: &metadata.name,
        uid: &metadata.uid,
        resource_version: metadata.resource_version,
    };
    let mut events = Vec::new();
    let mut tell = |type_: &str, reason: &str, message: &str, cause: &str| {
        events.push(announce(&about, &Told { type_, reason, message }, cause, turn.now));
    };
    let before = metadata.labels.get(labels::STATE).map(String::as_str).unwrap_or_default();
    if before != state {
        match &turn.next.ended {
            Some(Ending::Failed { message: why, .. }) => {
                tell(WARNING, state, &format!("{}: {why}", begins(state)), before)
            }
            _ => tell(NORMAL, state, begins(state), before),
        }
    }
    let known = |node: &str| turn.known.as_ref().map(|known| known.step(node)).unwrap_or_default();
    for (node, progress) in turn.next.nodes.iter().filter(|(node, progress)| known(node) != progress.step) {
        match progress.step {
            Step::Succeeded => tell(NORMAL, NODE_UPGRADED, &format!("{node} is upgraded"), ""),
            Step::Skipped => tell(NORMAL, NODE_SKIPPED, &format!("{node} is skipped"), ""),
            Step::Failed => tell(WARNING, NODE_FAILED, &format!("{node}: {}", progress.message), ""),
            _ => {}
        }
    }
    let was_told = |node: &str| turn.known.as_ref().is_some_and(|known| known.restored.contains_key(node));
    for (node, ending) in turn.next.restored.iter().filter(|(node, _)| !was_told(node)) {
        match ending {
            Ending::Succeeded => {
                tell(NORMAL, RESTORE_VM_COMPLETED, &format!("the VMs of {node} were started again"), "")
            }
            Ending::Failed { message, .. } => {
                let told = format!("VMs that were stopped for {node} could not all be started again: {message}");
                tell(WARNING, RESTORE_VM_FAILED, &told, "");
            }
        }
    }
    for wait in waits {
        let meaning = meaning(wait.reason);
        match patience(wait.reason, meaning).map(|patience| wait.since.checked_add(patience)) {
            Some(Ok(moment)) if turn.now < moment => {
                *look_again = Some(look_again.map_or(moment, |one| one.min(moment)))
            }
            Some(_) => tell(
                if meaning.alarm { WARNING } else { NORMAL },
                &wait.reason.to_string(),
                stalling::without_words(&wait.sentence),
                "",
            ),
            None => {}
        }
    }
    events
}

/// How long a wait has to last before it is told; none if that is the way of things.
fn patience(reason: Reason, meaning: Meaning) -> Option<SignedDuration> {
    match meaning.resolves_itself {
        Outlook::No => Some(SignedDuration::ZERO),
        Outlook::Maybe if meaning.alarm => {
            Some(if reason == Reason::JobFailed { SignedDuration::ZERO } else { MAY_PASS })
        }
        _ => None,
    }
}
