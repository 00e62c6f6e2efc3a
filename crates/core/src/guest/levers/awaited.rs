//! How long has been waited: for each new Machine to become a Node, and for anything to come of the upgrade at all.
//!
//! Whoever looks counts what it has itself seen pass, by a clock that nobody can set: what the clocks of other machines say is not compared.
//! How long nothing has come of it is published in thirds, and whoever comes next goes on from there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::below::below;
use super::following::raised;
use super::keeping::{Stand, said};
use super::{Halted, plane_of, stuck};
use crate::cluster::Cluster;
use crate::cluster::cluster_api::{Cluster as Guest, Machine};
use crate::guest::order::Version;
use crate::guest::tanzu::Spent;

/// So many times as long as a machine may take nothing may come of an upgrade: one has to come, and another to go.
const STILL: i32 = 2;

/// Since when new Machines have been waited for to become Nodes, and since when nothing has come of the upgrade, by who follows.
#[derive(Debug, Default)]
pub struct Awaited {
    /// The version that is followed.
    to: String,
    now: Timestamp,
    since: BTreeMap<String, Timestamp>,
    still: Option<(Far, Timestamp)>,
}

/// How far an upgrade has come at best: Machines that are made and end again, one after the other, get it no further.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Far {
    /// Parts that ask for the version.
    pub raised: usize,
    /// Machines of it that are Nodes.
    pub new: usize,
    /// What is of a lower one.
    pub old: usize,
}

/// What is published of how long nothing has come of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waited {
    pub seconds: i64,
    #[serde(flatten)]
    pub far: Far,
}

impl Far {
    fn of(cluster: &Cluster, own: &Guest, to: &str) -> Self {
        let Some(version) = Version::parse(to) else { return Far::default() };
        let api = &cluster.cluster_api;
        let workers = api.deployments_of(&own.metadata.namespace, &own.metadata.name);
        let asks = workers.map(|one| &one.spec.template.spec.version);
        let asks = asks.chain(own.spec.topology.iter().map(|class| &class.version));
        let asks = asks.chain(plane_of(cluster, own).map(|plane| &plane.spec.version));
        let is_node = |one: &&Machine| !one.status.node_ref.name.is_empty();
        Far {
            raised: asks.filter(|text| Version::parse(text).is_some_and(|asked| asked >= version)).count(),
            new: raised(cluster, own, to).filter(is_node).count(),
            old: below(cluster, own, &version).count(),
        }
    }

    fn is_beyond(&self, other: &Far) -> bool {
        self.raised > other.raised || self.new > other.new || self.old < other.old
    }

    fn and(self, other: Far) -> Far {
        let Far { raised, new, old } = other;
        Far { raised: self.raised.max(raised), new: self.new.max(new), old: self.old.min(old) }
    }
}

impl Awaited {
    /// Takes in who is waited for now, which is a time that nobody can set.
    pub fn look(&mut self, cluster: &Cluster, own: &Guest, to: &str, now: Timestamp) {
        if self.to != to {
            *self = Awaited { to: to.to_owned(), ..Awaited::default() };
        }
        let known = Halted::of(own).unwrap_or_default().machines;
        let is_awaited = |one: &&Machine| one.status.node_ref.name.is_empty() && !known.contains(&one.metadata.uid);
        let coming = raised(cluster, own, to).filter(is_awaited);
        let coming: BTreeSet<&str> = coming.map(|machine| machine.metadata.uid.as_str()).collect();
        self.now = now;
        self.since.retain(|uid, _| coming.contains(uid.as_str()));
        for uid in coming {
            self.since.entry(uid.to_owned()).or_insert(now);
        }
        let far = Far::of(cluster, own, to);
        let is_paused = Version::parse(to).is_some_and(|version| stuck::paused(cluster, own, &version).is_some());
        self.still = Some(match self.still.or_else(|| told(own, to, now)) {
            Some((best, since)) if !far.is_beyond(&best) && !is_paused => (best, since),
            Some((best, _)) => (best.and(far), now),
            None => (far, now),
        });
    }

    /// When one of them will have taken longer than `limit`, or there is something to tell of how long nothing has come of it.
    pub fn next(&self, limit: SignedDuration) -> Option<Duration> {
        let machine = self.since.values().min().map(|since| limit.saturating_sub(self.now.duration_since(*since)));
        let Spent { waited, limit: all } = self.still(limit);
        let told = SignedDuration::from_secs(self.told(limit).map_or(0, |told| told.seconds));
        let third = (told < all).then(|| (told + all / 3).min(all).saturating_sub(waited));
        let left = machine.into_iter().chain(third).min()?;
        Some(Duration::try_from(left).unwrap_or_default() + Duration::from_secs(1))
    }

    pub(super) fn waited(&self, machine: &Machine) -> SignedDuration {
        let since = self.since.get(&machine.metadata.uid);
        since.map_or(SignedDuration::ZERO, |since| self.now.duration_since(*since))
    }

    /// How long nothing has come of it, where a machine may take so long.
    pub(super) fn still(&self, limit: SignedDuration) -> Spent {
        let waited = self.still.map_or(SignedDuration::ZERO, |(_, since)| self.now.duration_since(since));
        Spent { waited, limit: limit * STILL }
    }

    /// What is worth telling who comes next.
    pub(super) fn told(&self, limit: SignedDuration) -> Option<Waited> {
        let (far, _) = self.still?;
        Some(Waited { seconds: self.still(limit).told()?, far })
    }
}

/// What the one before has told.
fn told(own: &Guest, to: &str, now: Timestamp) -> Option<(Far, Timestamp)> {
    let known = said(own).filter(|said| said.to == to && [Stand::Rolling, Stand::Stalled].contains(&said.stand));
    let waited = known?.waited?;
    let since = now.checked_sub(SignedDuration::from_secs(waited.seconds.max(0))).unwrap_or(now);
    Some((waited.far, since))
}
