//! The beginning: may this Upgrade begin now, and what is fixed for all of it?

use drover_api::harvester::NAMESPACE;
use drover_api::harvester::setting::names as settings;
use drover_api::harvester::upgrade::{annotations, cleanup, labels, states};
use drover_api::marks;
use jiff::SignedDuration;
use serde_json::json;

use super::admission::registration::{INCUMBENT, incumbent};
use super::config;
use super::decide::{Admission, Phase, Turn, members};
use super::ending;
use super::etcd;
use super::options;
use super::pausing;
use super::progress::Chosen;
use super::upgrade_config::UpgradeConfig;
use crate::cluster::Meta;
use crate::cluster::harvester::Upgrade;
use crate::decision::{Act, Kind, Purpose, Reason, Subject};

/// What speaks against an Upgrade is looked for again after this time, in seconds: much of it is in kinds that nobody follows.
const JUDGE_AGAIN: i64 = 10;

/// Begins, if nothing speaks against it.
pub(super) fn begin(turn: &mut Turn<'_>) -> bool {
    if another_drives(turn) || another_first(turn) || !is_valid(turn) || !is_understood(turn) {
        return false;
    }
    let Some(config) = config_of(turn) else { return false };
    if !is_admitted(turn) {
        return false;
    }
    let cluster = turn.cluster();
    turn.phase = Phase::ImportingImage;
    let version = cluster.harvester.settings.named(settings::SERVER_VERSION);
    turn.next.previous_version = version.map(|setting| setting.effective().to_owned()).unwrap_or_default();
    turn.next.chosen = Some(Chosen::by(&config));
    turn.next.voters = etcd::voters(cluster);
    if cluster.nodes.len() == 1 {
        turn.next.single_node = cluster.nodes.iter().map(|node| node.metadata.name.clone()).collect();
    }
    if turn.annotation(annotations::PAUSE_MAP).is_none() {
        let (nodes, _) = members(cluster);
        let map = config.pauses(nodes.iter().map(|member| member.name()));
        if !map.is_empty() {
            turn.annotations.insert(annotations::PAUSE_MAP, json!(json!(map).to_string()));
        }
    }
    true
}

/// There is one latest Upgrade: those before it lose the mark. It is looked for in every turn, because who has begun an Upgrade may
/// have died before this.
pub(super) fn outdate_older(turn: &mut Turn<'_>) {
    let own = &turn.view.upgrade.metadata;
    let begins = turn.known.is_none();
    if !begins && !own.labels.contains_key(labels::LATEST) {
        return;
    }
    let is_outdated = |other: &&Upgrade| {
        let other = &other.metadata;
        other.name != own.name && other.labels.contains_key(labels::LATEST) && (begins || came_before(other, own))
    };
    for other in turn.cluster().harvester.upgrades.in_namespace(NAMESPACE).filter(is_outdated) {
        let version = other.metadata.resource_version.to_string();
        let patch = json!({ "metadata": { "resourceVersion": version, "labels": { labels::LATEST: null } } });
        let subject = Subject::new(Kind::Upgrade, NAMESPACE, &other.metadata.name);
        turn.write(Purpose::NoteProgress, subject, Act::Patch(patch));
    }
}

fn came_before(one: &Meta, other: &Meta) -> bool {
    (one.creation_timestamp, &one.name) < (other.creation_timestamp, &other.name)
}

/// Nothing goes on before every node that pauses says so.
pub(super) fn mark_pauses(turn: &mut Turn<'_>) -> bool {
    turn.phase = Phase::ImportingImage;
    if turn.known.is_some() {
        options::are_understood(turn);
    }
    // One that is taken up after a failure has gone further: a node whose mark is to come pauses by the map meanwhile.
    pausing::heed(turn) || turn.next.release.is_some()
}

/// Never two drivers.
fn another_drives(turn: &mut Turn<'_>) -> bool {
    let metadata = &turn.view.upgrade.metadata;
    if ending::has_lost_its_notes(turn) && !ending::was_cleaned(turn) {
        cannot_go_on(turn, "is gone");
        return true;
    }
    if metadata.labels.contains_key(labels::STATE) {
        let sentence = format!("Upgrade {} was begun by another controller, which drives it", turn.name());
        turn.wait_with_remedy(
            turn.subject(),
            Reason::AnotherControllerActs,
            sentence,
            "let that controller end it, or delete the Upgrade and create it again when that controller is gone",
        );
        return true;
    }
    let is_overruled = [marks::DRIVE_ANYWAY, INCUMBENT].iter().any(|word| drives_in_spite_of(turn, word));
    if let Some(incumbent) = incumbent(turn.cluster()).filter(|_| !is_overruled) {
        let sentence = format!(
            "{incumbent} is at work, and Harvester's own upgrade controller with it: Drover only watches{}",
            said_otherwise(turn)
        );
        let drive = options::annotate(turn.name(), &format!("{}={}", marks::DRIVE, marks::DRIVE_ANYWAY));
        let remedy = format!("switch that controller off, then: {drive}");
        turn.wait_with_remedy(turn.subject(), Reason::AnotherControllerActs, sentence, remedy);
        return true;
    }
    false
}

/// Whether its user wants the Upgrade driven in spite of a controller, by the word for it. Any other word is none for it.
fn drives_in_spite_of(turn: &Turn<'_>, controller: &str) -> bool {
    turn.annotation(marks::DRIVE).is_some_and(|over| over.split(',').any(|one| one.trim() == controller))
}

/// What its user has said of controllers, where that does not help.
fn said_otherwise(turn: &Turn<'_>) -> String {
    let said = turn.annotation(marks::DRIVE);
    said.map(|said| format!("; {} says {said:?}, which does not name it", marks::DRIVE)).unwrap_or_default()
}

/// The command that lets Drover go on beside these, and beside those that its user has named before.
fn drive_beside(turn: &Turn<'_>, others: &[&str]) -> String {
    let named = turn.annotation(marks::DRIVE).unwrap_or_default().split(',').map(str::trim);
    let named = named.filter(|word| !word.is_empty() && !others.contains(word));
    let all: Vec<&str> = named.chain(others.iter().copied()).collect();
    options::annotate(turn.name(), &format!("{}={}", marks::DRIVE, all.join(",")))
}

/// Never two drivers: somebody else has written what only the driver does, after this Upgrade was begun here.
pub(super) fn another_writes(turn: &mut Turn<'_>) -> bool {
    let Some(others) = turn.cluster().drivers.get(turn.name()) else { return false };
    let others: Vec<&str> =
        others.iter().map(String::as_str).filter(|other| !drives_in_spite_of(turn, other)).collect();
    if others.is_empty() {
        return false;
    }
    let names = others.join(",");
    let drive = drive_beside(turn, &others);
    let sentence = format!(
        "{names} has written the state of Upgrade {}, which Drover drives: Drover only watches until its user decides{}",
        turn.name(),
        said_otherwise(turn)
    );
    let remedy = format!("stop that controller, then: {drive}; or leave the Upgrade to it");
    turn.wait_with_remedy(turn.subject(), Reason::AnotherControllerActs, sentence, remedy);
    true
}

/// Never two drivers: Harvester's own controller is at work, although this Upgrade was begun here. A chart that is raised may bring it back. Who
/// has only said that Drover may begin beside it has said nothing of one that was switched off since.
pub(super) fn incumbent_acts(turn: &mut Turn<'_>) -> bool {
    if is_over(turn) {
        return false;
    }
    let deployment = turn.cluster().deployments.get(NAMESPACE, INCUMBENT);
    turn.next.switched_off |= deployment.is_some_and(|deployment| deployment.spec.wanted() == 0);
    let is_overruled =
        drives_in_spite_of(turn, INCUMBENT) || !turn.next.switched_off && drives_in_spite_of(turn, marks::DRIVE_ANYWAY);
    let Some(incumbent) = incumbent(turn.cluster()).filter(|_| !is_overruled) else { return false };
    let sentence = format!(
        "{incumbent} is at work, and Harvester's own upgrade controller with it, while Drover drives Upgrade {}: Drover only watches{}",
        turn.name(),
        said_otherwise(turn)
    );
    let off = format!("kubectl -n {NAMESPACE} scale deployment {INCUMBENT} --replicas=0");
    let drive = drive_beside(turn, &[INCUMBENT]);
    let remedy = format!("switch that controller off, and it goes on: {off}; or let it go on beside it: {drive}");
    turn.wait_with_remedy(turn.subject(), Reason::AnotherControllerActs, sentence, remedy);
    true
}

/// It has ended, nothing of it is left, and nobody asks for more: whoever is at work meets nothing of it.
pub(super) fn is_over(turn: &Turn<'_>) -> bool {
    turn.next.ended.is_some()
        && turn.next.cleaned
        && !turn.next.is_stuck()
        && turn.annotation(marks::UPGRADE_RETRY).is_none()
}

/// What is noted on the Upgrade cannot be read, maybe because a newer Drover has written it, or somebody has taken it away. Who began anew
/// would drain nodes that are done, so nothing is begun, and nothing is written over.
pub(super) fn cannot_go_on(turn: &mut Turn<'_>, problem: &str) {
    let sentence = format!(
        "how far Upgrade {} is, in its annotation {}, {problem}: nothing goes on",
        turn.name(),
        marks::PROGRESS
    );
    let anew = options::annotate(turn.name(), &format!("{}='{{}}'", marks::PROGRESS));
    let remedy = format!("put it back as it was; or begin anew, with every node: {anew}");
    turn.wait_with_remedy(turn.subject(), Reason::UpgradeInvalid, sentence, remedy);
}

fn another_first(turn: &mut Turn<'_>) -> bool {
    let own = &turn.view.upgrade.metadata;
    let comes_first = |other: &&Upgrade| {
        let label = |key: &str| other.metadata.labels.get(key).map(String::as_str);
        let is_over = matches!(label(labels::STATE), Some(states::SUCCEEDED | states::FAILED));
        let is_cleaned = label(labels::CLEANUP) != Some(cleanup::PENDING);
        other.metadata.name != own.name
            && match label(labels::STATE) {
                Some(_) => !(is_over && is_cleaned),
                None => came_before(&other.metadata, own),
            }
    };
    let Some(other) = turn.cluster().harvester.upgrades.in_namespace(NAMESPACE).find(comes_first) else { return false };
    let name = &other.metadata.name;
    turn.wait_with_remedy(
        Subject::new(Kind::Upgrade, NAMESPACE, name),
        Reason::AnotherUpgradeFirst,
        format!("cannot proceed until previous upgrade \"{name}\" completes and is cleaned up"),
        format!("drover why upgrade/{name}"),
    );
    true
}

fn is_valid(turn: &mut Turn<'_>) -> bool {
    let Some((problem, remedy)) = invalid(turn) else { return true };
    turn.wait_with_remedy(turn.subject(), Reason::UpgradeInvalid, problem, remedy);
    false
}

/// What is wrong with the spec, and what helps.
fn invalid(turn: &Turn<'_>) -> Option<(String, String)> {
    let spec = &turn.view.upgrade.spec;
    let versions =
        || format!("kubectl -n {NAMESPACE} get versions.harvesterhci.io; then create the Upgrade with one of these");
    if spec.image.is_empty() {
        return match spec.version.as_str() {
            "" => Some(("version or image field are not specified.".to_owned(), versions())),
            version if turn.cluster().harvester.versions.get(NAMESPACE, version).is_none() => {
                Some((format!("version {version} is not found"), versions()))
            }
            _ => None,
        };
    }
    let images = format!("kubectl -n {NAMESPACE} get virtualmachineimages.harvesterhci.io");
    match spec.image.split('/').collect::<Vec<_>>()[..] {
        [NAMESPACE, name] if !name.is_empty() => None,
        // Its volume is mounted by the pods of the repository, and those are here.
        [namespace, name] if !namespace.is_empty() && !name.is_empty() => Some((
            format!("spec.image names {namespace}/{name}, and a release is served only from an image in {NAMESPACE}"),
            format!("import the release there, then create the Upgrade with spec.image {NAMESPACE}/NAME: {images}"),
        )),
        _ => Some((
            format!("spec.image {} is not in the form namespace/name", spec.image),
            format!("create the Upgrade with spec.image {NAMESPACE}/NAME: {images}"),
        )),
    }
}

/// Nothing begins with words that would be taken for others.
fn is_understood(turn: &mut Turn<'_>) -> bool {
    let mut understood = options::are_understood(turn);
    let map = turn.annotation(annotations::PAUSE_MAP).map_or(Ok(()), |text| options::pause_map(text).map(drop));
    if let Err(problem) = map {
        understood = false;
        let remedy = options::annotate(turn.name(), &format!("{}-", annotations::PAUSE_MAP));
        let remedy = format!(
            "name the nodes that pause, as {{\"NODE\":\"pause\"}}; or leave that to the setting upgrade-config: {remedy}"
        );
        turn.wait_with_remedy(turn.subject(), Reason::UpgradeInvalid, problem, remedy);
    }
    understood
}

/// What a webhook would have refused does not begin, either.
fn is_admitted(turn: &mut Turn<'_>) -> bool {
    let (at, verdict) = match turn.view.admission {
        Admission::Waived => return true,
        Admission::Judged { at, verdict } => (at, verdict),
        Admission::Unknown => {
            turn.judge = true;
            return false;
        }
    };
    let again = at.checked_add(SignedDuration::from_secs(JUDGE_AGAIN)).unwrap_or(at);
    // A clock that was set back does not make it wait for longer.
    let is_old = turn.now >= again || turn.now < at;
    turn.judge = is_old;
    if verdict.is_yes() {
        return !is_old;
    }
    if !is_old {
        turn.look_again_after((again.as_second() - turn.now.as_second()).max(1));
    }
    let remedy = remedy_of_refusal(turn.name());
    turn.wait_with_remedy(turn.subject(), Reason::UpgradeInvalid, verdict.message(), remedy);
    false
}

/// What can be done about an Upgrade that may not begin.
pub(crate) fn remedy_of_refusal(upgrade: &str) -> String {
    let accept = options::annotate(upgrade, &format!("{}=CODE,…", marks::ACCEPT));
    format!(
        "put that right, and it begins; or accept it by its code: {accept}; drover preflight upgrade/{upgrade} tells the codes"
    )
}

fn config_of(turn: &mut Turn<'_>) -> Option<UpgradeConfig> {
    match config::of(turn.cluster()) {
        Ok(config) => Some(config),
        Err(problem) => {
            turn.wait_with_remedy(
                turn.subject(),
                Reason::UpgradeInvalid,
                format!("the setting upgrade-config cannot be followed: {problem}"),
                "kubectl edit settings.harvesterhci.io upgrade-config",
            );
            None
        }
    }
}
