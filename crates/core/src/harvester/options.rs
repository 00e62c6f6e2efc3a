//! What a person may say by annotations of an Upgrade, and what of it nobody understands.
//!
//! A word that is not understood is never taken for one that is: an Upgrade does not begin with it, and one that has begun says so.

use std::collections::BTreeMap;

use drover_api::harvester::NAMESPACE;
use drover_api::harvester::upgrade::annotations::{PAUSE, PAUSE_MAP, SKIP_VERSION_CHECK, UNPAUSE};
use drover_api::marks::{ACCEPT, DRIVE, DRIVE_ANYWAY, REPOSITORY, REPOSITORY_VM};

use super::decide::Turn;
use crate::accepted::codes;
use crate::cluster::Meta;
use crate::decision::Reason;
use crate::preflight::{catalogue, switch};

/// Something that is not understood, and what helps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Misunderstood {
    pub key: &'static str,
    pub sentence: String,
}

/// Which nodes pause, by name; what is wrong with it otherwise. Whether there are such nodes is another question: one may have left.
pub(crate) fn pause_map(text: &str) -> Result<BTreeMap<String, String>, String> {
    let map: BTreeMap<String, String> =
        serde_json::from_str(text).map_err(|error| format!("the annotation {PAUSE_MAP} cannot be read ({error})"))?;
    match map.iter().find(|(_, word)| ![PAUSE, UNPAUSE].contains(&word.as_str())) {
        Some((node, word)) => {
            Err(format!("the annotation {PAUSE_MAP} says {word} of {node}, and neither {PAUSE} nor {UNPAUSE}"))
        }
        None => Ok(map),
    }
}

/// Whether versions are compared at all.
pub(crate) fn skips_version_check(annotations: &BTreeMap<String, String>) -> bool {
    annotations.get(SKIP_VERSION_CHECK).is_some_and(|text| switch(text) == Some(true))
}

/// The options with one word that nobody understands. The map of nodes that pause is looked at by itself: see [`pause_map`].
pub(crate) fn misunderstood(annotations: &BTreeMap<String, String>) -> Vec<Misunderstood> {
    let mut all = Vec::new();
    let mut say = |key: &'static str, sentence: String| all.push(Misunderstood { key, sentence });
    if let Some(word) = annotations.get(REPOSITORY).filter(|word| *word != REPOSITORY_VM) {
        say(
            REPOSITORY,
            format!(
                "the annotation {REPOSITORY} says {word:?}, and the only word for it is {REPOSITORY_VM}: without it a Deployment serves \
                 the release"
            ),
        );
    }
    if let Some(word) = annotations.get(SKIP_VERSION_CHECK).filter(|word| switch(word).is_none()) {
        say(
            SKIP_VERSION_CHECK,
            format!("the annotation {SKIP_VERSION_CHECK} says {word:?}, and neither true nor false"),
        );
    }
    let unknown: Vec<String> =
        codes(annotations).into_iter().filter(|code| catalogue().all(|check| check.code != code)).collect();
    if !unknown.is_empty() {
        let unknown = unknown.join(", ");
        say(ACCEPT, format!("the annotation {ACCEPT} names {unknown}, and no check has such a code (docs/checks.md)"));
    }
    // A name may be that of a program that nobody knows here.
    let is_no_name = |word: &&str| NO_NAMES.contains(&word.trim().to_lowercase().as_str());
    if let Some(word) = annotations.get(DRIVE).and_then(|words| words.split(',').find(is_no_name)) {
        say(
            DRIVE,
            format!(
                "the annotation {DRIVE} says {word:?}, and only {DRIVE_ANYWAY} or the name of a controller means something there: to end \
                 an upgrade there is drover upgrade abort"
            ),
        );
    }
    all
}

/// No controller is called so.
const NO_NAMES: [&str; 10] = ["", "yes", "no", "on", "off", "false", "1", "0", "t", "f"];

/// Tells what is not understood; true if all is.
pub(super) fn are_understood(turn: &mut Turn<'_>) -> bool {
    let all = misunderstood(&turn.view.upgrade.metadata.annotations);
    for Misunderstood { key, sentence } in &all {
        let remedy = annotate(turn.name(), &format!("{key}-"));
        turn.wait_with_remedy(turn.subject(), Reason::UpgradeInvalid, sentence.clone(), remedy);
    }
    all.is_empty()
}

/// The command that accepts one more code.
pub(crate) fn accept(upgrade: &Meta, code: &str) -> String {
    let mut codes = codes(&upgrade.annotations);
    codes.insert(code.to_owned());
    annotate(&upgrade.name, &format!("{ACCEPT}={}", codes.into_iter().collect::<Vec<_>>().join(",")))
}

/// The command that annotates an Upgrade, whatever it says there now.
pub(crate) fn annotate(upgrade: &str, what: &str) -> String {
    format!("kubectl -n {NAMESPACE} annotate --overwrite upgrades.harvesterhci.io {upgrade} {what}")
}
