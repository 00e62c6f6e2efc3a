//! Clusters whose owners leave an upgrade to an operator, by an annotation: which is begun when, what is raised next, which is halted, and
//! what is said of each.
//!
//! Each is decided on by itself, but for whose turn it is: one that is refused or halted holds up no other.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use drover_api::marks::{PROGRESS, UPGRADE_TO};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::below::below;
use super::{Awaited, Halted, Lever, Next, Refusal, Waited, Waiting, annotate, follow, lever, named};
use crate::after::Name;
use crate::cluster::cluster_api::{Cluster as Guest, MachineDeployment};
use crate::cluster::{Cluster, ObjectRef, Projection as _};
use crate::guest::order::Version;

/// Where an upgrade stands. The names are part of the interface: scripts compare them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stand {
    UpToDate,
    /// As many as may be are at work.
    AnotherClusterFirst,
    /// It comes after a cluster that is not done.
    PredecessorFirst,
    /// The order between clusters names one that is not there, or goes in a circle.
    OrderRefused,
    /// Somebody has paused it.
    ClusterPaused,
    /// The version is none, too far up, or too far from that of the workers.
    VersionRefused,
    /// Somebody has raised it further by hand.
    Outlived,
    /// Somebody else raises it, or it has a control plane that nobody is spoken to about here.
    AnotherControllerActs,
    /// What is asked for is there already in part, and the rest comes.
    Rolling,
    /// Nothing has come of it for too long: it has given its place to another.
    Stalled,
    /// Somebody has paused its control plane or workers of it, and nothing else.
    PartPaused,
    /// A new machine has failed: the cluster was paused.
    MachineFailed,
}

/// What is published of an upgrade, in [`PROGRESS`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Said {
    pub to: String,
    pub stand: Stand,
    pub sentence: String,
    /// By the clock of whoever wrote it: nothing is measured by it.
    pub since: Timestamp,
    /// By the same clock: when it counts as stalled, if nothing comes of it before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// How long nothing has come of it already, for the operator that comes next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited: Option<Waited>,
}

impl Said {
    fn new(own: &Guest, stand: Stand, sentence: impl Into<String>, now: Timestamp) -> Self {
        let to = asked(own).to_owned();
        let known = said(own).filter(|said| said.stand == stand && said.to == to);
        let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
        let since = known.map_or(whole, |said| said.since);
        Said { to, stand, sentence: sentence.into(), since, deadline: None, remedy: None, waited: None }
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Counts how long nothing has come of it.
    fn counted(mut self, own: &Guest, awaited: &Awaited, terms: &Terms) -> Self {
        let still = awaited.still(terms.machine);
        self.waited = awaited.told(terms.machine);
        let left = still.limit.saturating_sub(still.waited);
        let at = Timestamp::from_second(terms.now.as_second()).ok().and_then(|now| now.checked_add(left).ok());
        let known =
            said(own).filter(|said| said.stand == self.stand && said.to == self.to).and_then(|said| said.deadline);
        let is_near = |known: &Timestamp| at.is_some_and(|at| at.duration_since(*known).abs() <= NEARLY);
        self.deadline = known.filter(is_near).or(at).filter(|_| self.stand == Stand::Rolling);
        self
    }
}

/// What an operator knows of Clusters beside the objects.
#[derive(Debug)]
pub struct Terms {
    /// How long a new machine may take.
    pub machine: SignedDuration,
    /// So many are at work at once; none: all.
    pub at_once: Option<usize>,
    /// What is written down.
    pub now: Timestamp,
}

/// A deadline that is published stays as it is while a clock is no more than this off.
const NEARLY: SignedDuration = SignedDuration::from_secs(5);

/// Since when the new Machines of each cluster have been waited for.
#[derive(Debug, Default)]
pub struct AllAwaited(BTreeMap<Name, Awaited>);

/// What to write for one cluster, one after the other until one fails.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    pub object: ObjectRef,
    pub levers: Vec<Lever>,
    /// What is to be known of it, for the log.
    pub sentence: String,
}

impl AllAwaited {
    /// Takes in who is waited for now, which is a time that nobody can set. No time runs against a cluster that is paused.
    pub fn look(&mut self, cluster: &Cluster, now: Timestamp) {
        let mut known = std::mem::take(&mut self.0);
        for own in asking(cluster).filter(|own| !own.is_paused()) {
            let mut awaited = known.remove(&key(own)).unwrap_or_default();
            awaited.look(cluster, own, asked(own), now);
            self.0.insert(key(own), awaited);
        }
    }

    /// When one of them will have taken longer than `limit`.
    pub fn next(&self, limit: SignedDuration) -> Option<Duration> {
        self.0.values().filter_map(|awaited| awaited.next(limit)).min()
    }
}

/// The version that its owner has left to an operator to raise it to; empty if there is none.
pub fn asked(own: &Guest) -> &str {
    own.metadata.annotations.get(UPGRADE_TO).map(|to| to.trim()).unwrap_or_default()
}

/// What an operator has said of it last.
pub fn said(own: &Guest) -> Option<Said> {
    serde_json::from_str(own.metadata.annotations.get(PROGRESS)?).ok()
}

/// Clusters of which something was left to an operator.
fn asking(cluster: &Cluster) -> impl Iterator<Item = &Guest> {
    let all = cluster.cluster_api.clusters.iter();
    all.filter(|own| !asked(own).is_empty() && own.metadata.deletion_timestamp.is_none())
}

/// How much is to be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Nobody leaves anything to an operator: the Clusters alone.
    None,
    /// All is as it was asked for, as far as was said: whether their control planes and workers stay so.
    Kept,
    /// One is not as its owner asks: all that they are made of.
    Some,
}

impl Work {
    /// Whether this kind matters.
    pub fn needs(self, kind: &str) -> bool {
        match self {
            Work::None => kind == Guest::KIND,
            Work::Kept => [Guest::KIND, "KubeadmControlPlane", MachineDeployment::KIND].contains(&kind),
            Work::Some => true,
        }
    }
}

pub fn work(cluster: &Cluster) -> Work {
    let is_over =
        |own: &Guest, stand: Stand| said(own).is_some_and(|said| said.to == asked(own) && said.stand == stand);
    let stays = |own: &Guest| Version::parse(asked(own)).is_none_or(|to| below(cluster, own, &to).next().is_none());
    let is_done = |own: &Guest| is_over(own, Stand::Outlived) || is_over(own, Stand::UpToDate) && stays(own);
    match (asking(cluster).next(), asking(cluster).all(is_done)) {
        (None, _) => Work::None,
        (_, true) => Work::Kept,
        (_, false) => Work::Some,
    }
}

fn key(own: &Guest) -> Name {
    (own.metadata.namespace.clone(), own.metadata.name.clone())
}

/// What comes next of each, in the order of their names.
pub fn keep(cluster: &Cluster, awaited: &AllAwaited, terms: &Terms) -> Vec<Turn> {
    let untried = Awaited::default();
    let waited = |own| awaited.0.get(&key(own)).unwrap_or(&untried);
    let next = |own| (own, follow(cluster, own, asked(own), waited(own), terms.machine));
    let all: Vec<(&Guest, Result<Next, Refusal>)> = asking(cluster).map(next).collect();
    let at_work = |(own, next): &&(&Guest, Result<Next, Refusal>)| match next {
        Ok(Next::Waits(waiting)) => waiting.stalled.is_none() && (waiting.is_behind || is_under_way(own)),
        Ok(Next::Raise(levers)) => !begins(cluster, own, levers),
        Err(Refusal::PartPaused(paused)) => paused.others_move,
        _ => false,
    };
    let mut names: BTreeSet<Name> = all.iter().filter(at_work).map(|(own, _)| key(own)).collect();
    all.into_iter().map(|(own, next)| turn(cluster, own, next, waited(own), &mut names, terms)).collect()
}

/// Nothing of it was raised yet, or it has given its place back since: workers come after their control plane, unless that belongs to nobody who
/// would raise it here.
fn begins(cluster: &Cluster, own: &Guest, levers: &[Lever]) -> bool {
    let is_nobodys = own.spec.topology.is_none() && cluster.cluster_api.control_plane_of(own).is_none();
    let over = [Stand::Stalled, Stand::UpToDate];
    let has_no_place = said(own).is_some_and(|said| said.to == asked(own) && over.contains(&said.stand));
    is_nobodys || has_no_place || levers.iter().any(|lever| lever.object.kind != MachineDeployment::KIND)
}

fn turn(
    cluster: &Cluster,
    own: &Guest,
    next: Result<Next, Refusal>,
    awaited: &Awaited,
    at_work: &mut BTreeSet<Name>,
    terms: &Terms,
) -> Turn {
    let say = |stand: Stand, sentence: String| Said::new(own, stand, sentence, terms.now);
    let to = asked(own);
    let object = ObjectRef::of(own);
    match next {
        Ok(Next::Raise(levers)) => {
            if begins(cluster, own, &levers) {
                if terms.at_once.is_some_and(|limit| at_work.len() >= limit) {
                    let names: Vec<String> =
                        at_work.iter().map(|(namespace, name)| format!("{namespace}/{name}")).collect();
                    let sentence = format!("as many clusters are raised as may be at once: {}", names.join(", "));
                    return publish(own, say(Stand::AnotherClusterFirst, sentence));
                }
                at_work.insert(key(own));
            }
            let names: Vec<String> = levers.iter().map(|lever| lever.object.in_words()).collect();
            Turn { object, levers, sentence: format!("{} is raised to {to}", names.join(", ")) }
        }
        Ok(Next::Halt { mut lever, why }) => {
            let sentence = halted(own, &why);
            let said = say(Stand::MachineFailed, sentence.clone());
            json_patch::merge(&mut lever.patch, &annotate(PROGRESS, json!(said).to_string()));
            Turn { object, levers: vec![*lever], sentence }
        }
        Ok(Next::Waits(waiting)) if waiting.is_behind || is_under_way(own) => {
            let Waiting { sentence, stalled, .. } = waiting;
            let said = match stalled {
                Some(stuck) => say(Stand::Stalled, sentence).remedy(stuck.remedy),
                None => say(Stand::Rolling, sentence),
            };
            publish(own, said.counted(own, awaited, terms))
        }
        // What is missing is missed for another reason.
        Ok(Next::Waits(_) | Next::Done) => done(own, terms.now),
        Err(Refusal::PartPaused(stuck)) => publish(own, say(Stand::PartPaused, stuck.why).remedy(stuck.remedy)),
        Err(refusal @ Refusal::Lower { .. }) => {
            let remedy = format!(
                "nothing is done about it any more: ask for what it is to be of (drover upgrade start {} --to VERSION --by-operator), or take \
                 {UPGRADE_TO} away",
                named(own)
            );
            publish(own, say(Stand::Outlived, refusal.to_string()).remedy(remedy))
        }
        Err(refusal) => {
            let (stand, sentence) = refused(own, &refusal);
            publish(own, say(stand, sentence))
        }
    }
}

/// It was seen on its way to what is asked for, and not at the end of it.
fn is_under_way(own: &Guest) -> bool {
    let under_way = [Stand::Rolling, Stand::Stalled, Stand::MachineFailed];
    said(own).is_some_and(|said| said.to == asked(own) && under_way.contains(&said.stand))
}

fn done(own: &Guest, now: Timestamp) -> Turn {
    let sentence = format!("every machine is of {}", asked(own));
    let mut turn = publish(own, Said::new(own, Stand::UpToDate, sentence, now));
    // What it was halted for is over.
    if let Some(over) = Halted::outlived(own) {
        let mut lever = lever(own, over);
        turn.levers.drain(..).for_each(|said| json_patch::merge(&mut lever.patch, &said.patch));
        turn.levers.push(lever);
    }
    turn
}

fn halted(own: &Guest, why: &str) -> String {
    format!(
        "{why}; the cluster is paused, so that no other machine goes the same way: drover upgrade resume {} lets it go on, with that machine or \
         without it",
        named(own)
    )
}

/// A person may have to do something, or another cluster comes first.
fn refused(own: &Guest, refusal: &Refusal) -> (Stand, String) {
    let stand = match refusal {
        Refusal::Paused { .. } | Refusal::AlreadyPaused(_) | Refusal::PausedByAnnotation { .. } => {
            if let Some(halt) = Halted::of(own).filter(|_| own.spec.paused) {
                return (Stand::MachineFailed, halted(own, &halt.why));
            }
            Stand::ClusterPaused
        }
        Refusal::ComesAfter { .. } => Stand::PredecessorFirst,
        Refusal::AfterNobody { .. } | Refusal::Circle { .. } => Stand::OrderRefused,
        Refusal::NotAVersion(_) | Refusal::Skips { .. } | Refusal::WorkersTooOld { .. } => Stand::VersionRefused,
        Refusal::Lower { .. } => Stand::Outlived,
        Refusal::NotItsOwn(_) | Refusal::Provider { .. } | Refusal::NobodysMachines { .. } | Refusal::Deleting(_) => {
            Stand::AnotherControllerActs
        }
        Refusal::PartPaused(_) => Stand::PartPaused,
        Refusal::ControlPlaneFirst { .. } | Refusal::Nothing(..) | Refusal::NotPaused(_) => Stand::Rolling,
    };
    (stand, refusal.to_string())
}

/// Says where it stands, if that is not known yet.
fn publish(own: &Guest, new: Said) -> Turn {
    let levers = match said(own).as_ref() == Some(&new) {
        true => Vec::new(),
        false => vec![lever(own, annotate(PROGRESS, json!(new).to_string()))],
    };
    Turn { object: ObjectRef::of(own), levers, sentence: new.sentence }
}
