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
use crate::why::reasons::meaning;

/// What may pass by itself is told when it has lasted for so long.
const MAY_PASS: SignedDuration = SignedDuration::from_secs(60);
/// Work on a node or a service usually takes less.
const LONG: SignedDuration = SignedDuration::from_mins(20);
/// Gigabytes that come over a network, and what is cleared away on many nodes, usually take less.
const VERY_LONG: SignedDuration = SignedDuration::from_mins(60);

/// Drover has stopped, since somebody else drives.
pub(super) fn stopped(turn: &Turn<'_>, wait: &Wait) -> Write {
    let reason = wait.reason.to_string();
    let told = Told { type_: WARNING, reason: &reason, message: &wait.sentence };
    announce(&about(turn), &told, "", turn.now)
}

fn about<'a>(turn: &Turn<'a>) -> About<'a> {
    let metadata = &turn.view.upgrade.metadata;
    About {
        api_version: "harvesterhci.io/v1beta1",
        kind: "Upgrade",
        namespace: &metadata.namespace,
        name: &metadata.name,
        uid: &metadata.uid,
        resource_version: metadata.resource_version,
    }
}

/// `state` is the one that the Upgrade is in now. What was told before is among them as well, under the same name.
pub(super) fn events(turn: &Turn<'_>, state: &str, waits: &[Wait], look_again: &mut Option<Timestamp>) -> Vec<Write> {
    let metadata = &turn.view.upgrade.metadata;
    let about = about(turn);
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
        let Some(patience) = patience(wait.reason) else { continue };
        let meaning = meaning(wait.reason);
        match wait.since.checked_add(patience) {
            Ok(moment) if turn.now < moment => {
                *look_again = Some(look_again.map_or(moment, |one| one.min(moment)));
            }
            // What such a wait says changes while it lasts, and each time it would be another Event.
            _ if patience >= LONG => {
                tell(WARNING, &wait.reason.to_string(), &lasts(&metadata.name, wait, patience), "");
            }
            _ => tell(
                if meaning.alarm { WARNING } else { NORMAL },
                &wait.reason.to_string(),
                stalling::without_words(&wait.sentence),
                "",
            ),
        }
    }
    events
}

/// How long a wait has to last before it is told; none if another one tells it.
fn patience(reason: Reason) -> Option<SignedDuration> {
    let meaning = meaning(reason);
    match (meaning.resolves_itself, reason) {
        (Outlook::No, _) | (_, Reason::JobFailed) => Some(SignedDuration::ZERO),
        (Outlook::Maybe, _) if meaning.alarm => Some(MAY_PASS),
        (_, Reason::JobRunning | Reason::NodeRebooting | Reason::VmsLeaving | Reason::ServiceNotReady) => Some(LONG),
        (_, Reason::ImageNotReady | Reason::ImagesPreloading | Reason::CleaningUp) => Some(VERY_LONG),
        _ => None,
    }
}

fn lasts(upgrade: &str, wait: &Wait, patience: SignedDuration) -> String {
    let (subject, meaning, minutes) = (&wait.subject, meaning(wait.reason), patience.as_mins());
    format!(
        "{subject}: {} That has lasted for more than {minutes} minutes; drover why upgrade/{upgrade} says what is behind it",
        meaning.sentence
    )
}
