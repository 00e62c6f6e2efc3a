//! Which pods go and which stay: the filters of `kubectl drain`, in its order and its words.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{PodSeen, View};

const DAEMON_SET_BLOCKS: &str = "DaemonSet-managed Pods (use --ignore-daemonsets to ignore)";
const DAEMON_SET_STAYS: &str = "ignoring DaemonSet-managed Pods";
const EMPTY_DIR_BLOCKS: &str = "Pods with local storage (use --delete-emptydir-data to override)";
const EMPTY_DIR_GOES: &str = "deleting Pods with local storage";
const UNMANAGED_BLOCKS: &str = "Pods that declare no controller (use --force to override)";
const UNMANAGED_GOES: &str = "deleting Pods that declare no controller";

/// Whether a pod's DaemonSet is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DaemonSet {
    There,
    /// Gone, in the server's words: only `--force` removes its pods.
    Gone(String),
    /// It could not be looked up, in the server's words.
    Unknown(String),
}

/// What becomes of one pod, with a warning where the user may want to know.
pub(super) enum Fate {
    Goes(Option<String>),
    Stays(Option<String>),
    Blocks(String),
}

/// Each filter may end the matter; the warning of a later one counts.
pub(super) fn fate(pod: &PodSeen, view: &View<'_>, now: Timestamp) -> Fate {
    if is_given_up(pod, view, now) {
        return Fate::Stays(None);
    }
    let mut warning = None;
    if let Some(decided) = by_daemon_set(pod, view, &mut warning) {
        return decided;
    }
    if pod.mirror {
        return Fate::Stays(None);
    }
    if pod.empty_dir && !pod.finished {
        if !view.options.delete_empty_dir_data {
            return Fate::Blocks(EMPTY_DIR_BLOCKS.to_owned());
        }
        warning = Some(EMPTY_DIR_GOES.to_owned());
    }
    if pod.controller.is_none() && !pod.finished {
        if !view.options.force {
            return Fate::Blocks(UNMANAGED_BLOCKS.to_owned());
        }
        warning = Some(UNMANAGED_GOES.to_owned());
    }
    Fate::Goes(warning)
}

/// It has been ending for longer than the user wants to wait.
fn is_given_up(pod: &PodSeen, view: &View<'_>, now: Timestamp) -> bool {
    let limit = view.options.skip_ending_after.filter(|limit| *limit > 0);
    pod.deletion_timestamp.zip(limit).is_some_and(|(end, limit)| now.duration_since(end).as_secs() > limit)
}

/// A pod of a DaemonSet would come back at once: it never goes, but for one that has ended or whose DaemonSet is gone.
fn by_daemon_set(pod: &PodSeen, view: &View<'_>, warning: &mut Option<String>) -> Option<Fate> {
    let controller = pod.controller.as_ref().filter(|controller| controller.is_daemon_set() && !pod.finished)?;
    match view.daemon_sets.get(&(pod.namespace.clone(), controller.name.clone())) {
        Some(DaemonSet::Gone(message)) if view.options.force => {
            *warning = Some(message.clone());
            None
        }
        Some(DaemonSet::Gone(message) | DaemonSet::Unknown(message)) => Some(Fate::Blocks(message.clone())),
        _ if !view.options.ignore_daemon_sets => Some(Fate::Blocks(DAEMON_SET_BLOCKS.to_owned())),
        _ => Some(Fate::Stays(Some(DAEMON_SET_STAYS.to_owned()))),
    }
}

/// Pods by what is to be said of them.
#[derive(Debug, Default)]
pub(super) struct Blockers {
    blocked: BTreeMap<String, Vec<String>>,
    warned: BTreeMap<String, Vec<String>>,
}

impl Blockers {
    pub fn warn(&mut self, pod: &PodSeen, warning: Option<String>) {
        if let Some(warning) = warning {
            self.warned.entry(warning).or_default().push(format!("{}/{}", pod.namespace, pod.name));
        }
    }

    pub fn block(&mut self, pod: &PodSeen, why: String) {
        self.blocked.entry(why).or_default().push(format!("{}/{}", pod.namespace, pod.name));
    }

    pub fn warnings(&self) -> Vec<String> {
        self.warned.iter().map(|(warning, pods)| format!("{warning}: {}", pods.join(", "))).collect()
    }

    /// Why nothing may be removed; none if nothing is in the way.
    pub fn sentences(&self) -> Option<Vec<String>> {
        let sentences: Vec<String> =
            self.blocked.iter().map(|(why, pods)| format!("cannot delete {why}: {}", pods.join(", "))).collect();
        (!sentences.is_empty()).then_some(sentences)
    }
}
