//! What the status of an Upgrade says: rebuilt from the facts each time, and written when it differs.

use std::collections::BTreeMap;

use drover_api::harvester::jobs::stock;
use drover_api::harvester::upgrade::events::RESTORE_VM_FAILED;
use drover_api::harvester::upgrade::{conditions, node_states, reasons};
use drover_api::harvester::{NAMESPACE, upgrade_log, virtual_machine_image};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::decide::{Phase, Turn, members};
use super::progress::{Ending, Step};
use super::release::Steps;
use super::{names, nodes, preload, repo};
use crate::cluster::harvester::{NodeStatus, UpgradeStatus};
use crate::cluster::{Condition, condition};
use crate::decision::{Act, Kind, Purpose, Wait, Write};

/// At most one status write in this time for one Upgrade.
const BETWEEN_WRITES: SignedDuration = SignedDuration::from_secs(1);
/// So many waits stand in the condition.
const SHOWN: usize = 5;
/// The state of a node whose turn has not come.
const PENDING: &str = "Pending";
/// The reason of a condition that waits for nothing.
const WORKING: &str = "Working";

/// Status, reason and message of a condition.
type Words = (&'static str, String, String);

const TRUE: &str = "True";
const FALSE: &str = "False";
const UNKNOWN: &str = "Unknown";

fn plain(status: &'static str) -> Words {
    (status, String::new(), String::new())
}

/// The write that publishes what is decided; none if the status says it already, or was written just now.
pub(super) fn publish(turn: &Turn<'_>, waits: &[Wait], look_again: &mut Option<Timestamp>) -> Option<Write> {
    let old = &turn.view.upgrade.status;
    let new = status(turn, waits);
    if new == *old {
        return None;
    }
    // One that was written in what is the future now says only that the clock was set back.
    let written = turn.view.status_written.filter(|written| *written <= turn.now);
    if let Some(again) = written.and_then(|written| written.checked_add(BETWEEN_WRITES).ok())
        && turn.now < again
    {
        *look_again = Some(look_again.map_or(again, |earlier| earlier.min(again)));
        return None;
    }
    let patch = json!({
        "metadata": { "resourceVersion": turn.view.upgrade.metadata.resource_version.to_string() },
        "status": on_the_wire(&new, old),
    });
    Some(Write { purpose: Purpose::PublishStatus, subject: turn.subject(), act: Act::PatchStatus(patch) })
}

fn on_the_wire(new: &UpgradeStatus, old: &UpgradeStatus) -> Value {
    let text = |value: &str| if value.is_empty() { Value::Null } else { json!(value) };
    let condition = |condition: &Condition| {
        let at = condition.last_transition_time.map(|at| at.to_string());
        let mut value = json!({
            "type": condition.kind, "status": condition.status, "lastUpdateTime": at, "lastTransitionTime": at,
        });
        for (key, word) in [("reason", &condition.reason), ("message", &condition.message)] {
            if !word.is_empty() {
                value[key] = json!(word);
            }
        }
        value
    };
    // A merge patch keeps what it does not name: what is gone is named with null.
    let mut nodes: BTreeMap<&str, Value> = old.node_statuses.keys().map(|name| (name.as_str(), Value::Null)).collect();
    for (name, node) in &new.node_statuses {
        let fields =
            json!({ "state": text(&node.state), "reason": text(&node.reason), "message": text(&node.message) });
        nodes.insert(name, fields);
    }
    json!({
        "conditions": new.conditions.iter().map(condition).collect::<Vec<Value>>(),
        "nodeStatuses": nodes,
        "previousVersion": text(&new.previous_version), "imageID": text(&new.image_id),
        "repoInfo": text(&new.repo_info), "singleNode": text(&new.single_node), "upgradeLog": text(&new.upgrade_log),
    })
}

fn status(turn: &Turn<'_>, waits: &[Wait]) -> UpgradeStatus {
    let old = &turn.view.upgrade.status;
    let mut new = old.clone();
    if turn.phase > Phase::Waits {
        let (namespace, image) = repo::image_of(turn);
        new.previous_version.clone_from(&turn.next.previous_version);
        new.image_id = format!("{namespace}/{image}");
        new.single_node.clone_from(&turn.next.single_node);
        new.repo_info = turn.next.release.as_ref().map(|release| release.as_yaml()).unwrap_or_default();
        new.node_statuses = node_statuses(turn, waits);
        let log = names::log(turn.name());
        let has_log = turn.cluster().harvester.upgrade_logs.get(NAMESPACE, &log).is_some();
        new.upgrade_log = if has_log { log } else { String::new() };
    }
    let at = Timestamp::from_second(turn.now.as_second()).unwrap_or(turn.now);
    for (kind, (status, reason, message)) in all_conditions(turn, waits) {
        set(&mut new.conditions, kind, status, reason, message, at);
    }
    new
}

/// A condition that says the same keeps its time.
fn set(all: &mut Vec<Condition>, kind: &str, status: &str, reason: String, message: String, at: Timestamp) {
    let new = Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason,
        message,
        last_transition_time: Some(at),
        last_heartbeat_time: None,
    };
    match all.iter_mut().find(|known| known.kind == kind) {
        Some(known) if (&known.status, &known.reason, &known.message) == (&new.status, &new.reason, &new.message) => {}
        Some(known) => *known = new,
        None => all.push(new),
    }
}

fn all_conditions(turn: &Turn<'_>, waits: &[Wait]) -> Vec<(&'static str, Words)> {
    let mut all = Vec::new();
    // One that has lost its notes ends without having come to a phase.
    if turn.phase > Phase::Waits || turn.next.ended.is_some() && !turn.next.cleaned {
        all.push((conditions::COMPLETED, completed(turn)));
    }
    if turn.phase > Phase::Waits {
        all.push((conditions::LOG_READY, log_ready(turn)));
        all.extend(image_ready(turn).map(|words| (conditions::IMAGE_READY, words)));
    }
    let reached = |phase: Phase| turn.phase >= phase && (turn.phase < Phase::Ended || came_to(turn, phase));
    if reached(Phase::ServingRelease) {
        let ready = turn.phase > Phase::ServingRelease;
        all.push((conditions::REPO_READY, plain(if ready { TRUE } else { UNKNOWN })));
    }
    if turn.next.release.is_some() {
        all.push((conditions::STEPS_CHOSEN, steps_chosen(turn)));
    }
    if reached(Phase::PreparingNodes) {
        all.push((conditions::NODES_PREPARED, plain(if turn.next.prepared { TRUE } else { UNKNOWN })));
    }
    if reached(Phase::UpgradingServices) {
        let words = match &turn.next.services {
            None => plain(UNKNOWN),
            Some(Ending::Succeeded) => plain(TRUE),
            Some(Ending::Failed { reason, message }) => (FALSE, reason.clone(), message.clone()),
        };
        all.push((conditions::SYSTEM_SERVICES_UPGRADED, words));
    }
    if reached(Phase::UpgradingNodes) {
        all.push((conditions::NODES_UPGRADED, nodes_upgraded(turn)));
    }
    all.push((conditions::PROGRESSING, progressing(turn, waits)));
    all
}

/// Whether an Upgrade that has ended had come to a phase.
fn came_to(turn: &Turn<'_>, phase: Phase) -> bool {
    match phase {
        Phase::ServingRelease | Phase::ReadingRelease | Phase::PreparingNodes => turn.next.release.is_some(),
        Phase::UpgradingServices => turn.next.prepared,
        Phase::UpgradingNodes => turn.next.services == Some(Ending::Succeeded),
        _ => true,
    }
}

fn steps_chosen(turn: &Turn<'_>) -> Words {
    let (reason, message) = match turn.next.steps {
        Steps::Drover => (reasons::STEPS_OF_DROVER, "the Jobs run the steps of Drover".to_owned()),
        Steps::Release => {
            let version = turn.next.release.as_ref().map(|release| release.harvester.as_str()).unwrap_or_default();
            let image = stock::IMAGE;
            (reasons::STEPS_OF_RELEASE, format!("the Jobs run the steps of the release itself, {image}:{version}"))
        }
    };
    (TRUE, reason.to_owned(), message)
}

fn completed(turn: &Turn<'_>) -> Words {
    match &turn.next.ended {
        None => plain(UNKNOWN),
        Some(Ending::Succeeded) => plain(TRUE),
        Some(Ending::Failed { reason, message }) => (FALSE, reason.clone(), message.clone()),
    }
}

fn log_ready(turn: &Turn<'_>) -> Words {
    if turn.view.upgrade.spec.log_enabled == Some(false) {
        return (FALSE, reasons::DISABLED.to_owned(), reasons::DISABLED_MESSAGE.to_owned());
    }
    let log = turn.cluster().harvester.upgrade_logs.get(NAMESPACE, &names::log(turn.name()));
    let started = log.and_then(|log| condition(&log.status.conditions, upgrade_log::conditions::STARTED));
    match started {
        Some(started) if started.is_true() => plain(TRUE),
        Some(_) => plain(UNKNOWN),
        // It is made next.
        None if log.is_none() && turn.phase == Phase::ImportingImage => plain(UNKNOWN),
        None => (FALSE, reasons::NO_COLLECTOR.to_owned(), reasons::NO_COLLECTOR_MESSAGE.to_owned()),
    }
}

/// None if nothing new can be said: the image is gone when the Upgrade has ended.
fn image_ready(turn: &Turn<'_>) -> Option<Words> {
    if turn.next.release.is_some() || turn.phase > Phase::ImportingImage && turn.phase < Phase::Ended {
        return Some(plain(TRUE));
    }
    match &turn.next.image {
        Some(Ending::Succeeded) => return Some(plain(TRUE)),
        Some(Ending::Failed { reason, message }) => return Some((FALSE, reason.clone(), message.clone())),
        None => {}
    }
    let (namespace, name) = repo::image_of(turn);
    let image = turn.cluster().harvester.images.get(namespace, name);
    let imported =
        image.and_then(|image| condition(&image.status.conditions, virtual_machine_image::conditions::IMPORTED));
    match imported {
        Some(said) if said.status == FALSE => Some((FALSE, said.reason.clone(), said.message.clone())),
        Some(said) if said.is_true() => Some(plain(TRUE)),
        Some(said) => Some((UNKNOWN, said.reason.clone(), said.message.clone())),
        None => (turn.phase < Phase::Ended).then(|| plain(UNKNOWN)),
    }
}

fn nodes_upgraded(turn: &Turn<'_>) -> Words {
    let known = &turn.next.nodes;
    if let Some(failed) = known.values().find(|node| node.step == Step::Failed) {
        return (FALSE, failed.reason.clone(), failed.message.clone());
    }
    let (members, _) = members(turn.cluster());
    let skipped = known.iter().filter(|(_, node)| node.step == Step::Skipped).map(|(name, _)| name.as_str());
    let left_out = turn.next.left_out.iter().map(String::as_str);
    let joined = turn.next.joined.iter().map(String::as_str);
    let without: [(&str, &str, Vec<&str>); 3] = [
        (reasons::SKIPPED, "skipped by their user", skipped.collect()),
        (reasons::LEFT_OUT, "not upgraded, since Harvester does not manage them", left_out.collect()),
        (reasons::JOINED, "not upgraded, since they have joined meanwhile", joined.collect()),
    ];
    match nodes::are_over(turn, &members) {
        true => {
            let without = without.into_iter().filter(|(_, _, nodes)| !nodes.is_empty());
            let said = without.map(|(reason, why, nodes)| (reason, format!("{why}: {}", nodes.join(", "))));
            let all: Vec<(&str, String)> = said.chain(not_restored(turn)).collect();
            let reason = all.first().map(|(reason, _)| (*reason).to_owned()).unwrap_or_default();
            let messages: Vec<String> = all.into_iter().map(|(_, message)| message).collect();
            (TRUE, reason, messages.join("; "))
        }
        false if turn.next.aborting && turn.next.ended.is_some() => {
            (FALSE, reasons::ABORTED.to_owned(), completed(turn).2)
        }
        false => plain(UNKNOWN),
    }
}

/// VMs that were stopped for nodes and may be off since.
fn not_restored(turn: &Turn<'_>) -> Option<(&'static str, String)> {
    let failed = turn.next.restored.iter().filter_map(|(node, ending)| match ending {
        Ending::Failed { message, .. } => Some(format!("of {node}: {message}")),
        Ending::Succeeded => None,
    });
    let failed: Vec<String> = failed.collect();
    let message = format!("VMs that were stopped could not all be started again, {}", failed.join("; "));
    (!failed.is_empty()).then_some((RESTORE_VM_FAILED, message))
}

/// The waits, in the one place that another product's definition leaves for them.
fn progressing(turn: &Turn<'_>, waits: &[Wait]) -> Words {
    let status = if turn.next.ended.is_some() && turn.next.cleaned { FALSE } else { TRUE };
    // Nodes that the upgrade goes on without come last, and are not lost among the many that wait.
    let (beside, holding): (Vec<&Wait>, Vec<&Wait>) = waits.iter().partition(|wait| wait.reason.holds_nothing());
    let sentences: Vec<String> = shown(&holding).chain(shown(&beside)).collect();
    let reason = match (waits.first(), status) {
        (Some(wait), _) => wait.reason.to_string(),
        (None, FALSE) => "Ended".to_owned(),
        (None, _) => WORKING.to_owned(),
    };
    (status, reason, sentences.join("; "))
}

/// The first of them, each with what helps, and how many there are besides.
fn shown(waits: &[&Wait]) -> impl Iterator<Item = String> {
    let said = |wait: &&Wait| match &wait.remedy {
        Some(remedy) => format!("{} ({remedy})", wait.sentence),
        None => wait.sentence.clone(),
    };
    let more = (waits.len() > SHOWN).then(|| format!("and {} more", waits.len() - SHOWN));
    waits.iter().take(SHOWN).map(said).chain(more)
}

fn node_statuses(turn: &Turn<'_>, waits: &[Wait]) -> BTreeMap<String, NodeStatus> {
    let (members, _) = members(turn.cluster());
    members.iter().map(|member| (member.name().to_owned(), node(turn, member.name(), waits))).collect()
}

fn node(turn: &Turn<'_>, name: &str, waits: &[Wait]) -> NodeStatus {
    let says = |state: &str, reason: &str, message: &str| NodeStatus {
        state: state.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    let progress = turn.next.nodes.get(name).cloned().unwrap_or_default();
    match progress.step {
        Step::Failed => says(node_states::FAILED, &progress.reason, &progress.message),
        Step::Waits if !turn.next.prepared => match preload::is_preloading(turn, name) {
            true => says(node_states::IMAGES_PRELOADING, "", ""),
            false if preload::has_images(turn, name) => says(node_states::IMAGES_PRELOADED, "", ""),
            false => says(PENDING, "", ""),
        },
        Step::Waits if turn.paused.contains(name) && turn.phase == Phase::UpgradingNodes => {
            says(node_states::PAUSED, reasons::PAUSED, reasons::PAUSED_MESSAGE)
        }
        step => {
            let own = |wait: &&Wait| wait.subject.kind == Kind::Node && wait.subject.name == name;
            let said = waits.iter().find(own).filter(|_| step.is_at_work());
            let reason = said.map(|wait| wait.reason.to_string()).unwrap_or_default();
            says(step.state(), &reason, said.map(|wait| wait.sentence.as_str()).unwrap_or_default())
        }
    }
}
