//! Raises the Clusters of Cluster API whose owners leave that to an operator: sees, decides with [`drover_core::guest::levers`], acts.
//!
//! While none of them asks for anything, Clusters alone are watched; while all are as they are asked for, their control planes and
//! MachineDeployments, too, so that they stay so; their Machines, only as long as one of them is not.

use std::collections::BTreeMap;
use std::time::Duration;

use drover_api::marks::FIELD_MANAGER;
use drover_clock::{Clock, between, later};
use drover_core::cluster::{Cluster, RESOURCES};
use drover_core::guest::MACHINE_TIMEOUT;
use drover_core::guest::levers::{AllAwaited, Lever, READ, Terms, Turn, Work, keep, work};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::FOR_EVER;
use super::followed::{Followed, Source};
use crate::api::{Api, ApiError};
use crate::election::{Candidate, ElectionOptions, resign};
use crate::engine::desk::{LOOK_AT_ALL, pause_after};
use crate::guest::LIMIT;
use crate::inbox;
use crate::survey::{groups, version_of};

/// Whether there is Cluster API by now is asked again after this time.
const ASK_AGAIN: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
pub struct KeeperOptions {
    /// Unique to this process.
    pub identity: String,
    pub election: ElectionOptions,
    /// So many clusters are raised at once; none: all that are asked for.
    pub limit: Option<usize>,
    /// How long a new machine may take.
    pub machine_timeout: SignedDuration,
    pub clock: Clock,
}

impl KeeperOptions {
    pub fn new(namespace: &str, identity: &str, clock: Clock) -> Self {
        let election = ElectionOptions::new(namespace, "drover-cluster");
        let (identity, limit) = (identity.to_owned(), Some(LIMIT));
        KeeperOptions { identity, election, limit, machine_timeout: MACHINE_TIMEOUT, clock }
    }
}

/// One such process.
pub struct Keeper {
    client: Client,
    options: KeeperOptions,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Keeper {
    pub fn new(client: Client, options: KeeperOptions) -> Self {
        Keeper { client, options }
    }

    /// Runs until `stop` ends, then gives the Lease back. Dropped before that, it ends as a crashed process would.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let KeeperOptions { identity, election, clock, .. } = self.options.clone();
        let api = Api::new(self.client, clock);
        let mut tasks = JoinSet::new();
        let (inbox, turns) = unbounded_channel();
        let (candidate, leading_until) = Candidate::new(api.clone(), clock, election.clone(), identity.clone(), inbox);
        tasks.spawn(candidate.stand());
        let shift = Shift {
            api: api.clone(),
            options: self.options,
            leading: false,
            leading_until,
            awaited: AllAwaited::default(),
            failures: BTreeMap::new(),
            told: BTreeMap::new(),
        };
        tokio::select! {
            biased;
            () = stop => {}
            () = shift.run(turns) => {}
        }
        drop(tasks);
        resign(&api, &election, &identity).await;
    }
}

/// One process while it watches over Clusters.
struct Shift {
    api: Api,
    options: KeeperOptions,
    leading: bool,
    leading_until: watch::Receiver<Option<Instant>>,
    awaited: AllAwaited,
    /// Of clusters of which the last write was refused: how often in a row, and when to try again.
    failures: BTreeMap<String, (u32, Timestamp)>,
    told: BTreeMap<String, String>,
}

impl Shift {
    async fn run(mut self, mut turns: UnboundedReceiver<inbox::Message>) {
        loop {
            let sources = self.sources().await;
            self.keep(&sources, &mut turns).await;
            self.options.clock.sleep(ASK_AGAIN).await;
        }
    }

    /// Where the kinds are; waits until there is Cluster API.
    async fn sources(&self) -> Vec<Source> {
        let clock = self.options.clock;
        let mut said = false;
        loop {
            match groups(&self.api).await {
                Ok(served) => {
                    let read = RESOURCES.iter().filter(|resource| READ.contains(&resource.kind));
                    let known = read.filter_map(|resource| {
                        let version = version_of(resource, &served)?;
                        Some(Source::of(resource, version, ""))
                    });
                    let sources: Vec<Source> = known.collect();
                    if sources.iter().any(is_of_clusters) {
                        return sources;
                    }
                    if !std::mem::replace(&mut said, true) {
                        tracing::info!("clusters: there is no Cluster API here; it is waited for");
                    }
                }
                Err(error) => tracing::warn!("clusters: cannot ask which kinds the API server has: {error}"),
            }
            clock.sleep(ASK_AGAIN).await;
        }
    }

    /// Until a kind is not served any more as it was.
    async fn keep(&mut self, sources: &[Source], turns: &mut UnboundedReceiver<inbox::Message>) {
        let clock = self.options.clock;
        let needed = |work: Work| sources.iter().filter(|source| work.needs(source.kind)).cloned().collect();
        let mut known = Work::None;
        let mut followed = Followed::of(&self.api, clock, needed(known));
        let mut wait = FOR_EVER;
        loop {
            tokio::select! {
                biased;
                Some(turn) = turns.recv() => {
                    if let inbox::Message::Leading(leading) = turn {
                        tracing::info!("clusters: {}", if leading { "leading" } else { "not leading" });
                        self.leading = leading;
                        // Meanwhile another may have waited for them.
                        self.awaited = AllAwaited::default();
                    }
                }
                unseen = followed.next(clock, wait) => {
                    for (act, error) in unseen {
                        tracing::warn!("clusters: cannot {act}: {error}");
                        if error.code() == Some(404) {
                            return;
                        }
                    }
                }
            }
            wait = FOR_EVER;
            if !self.leading || !followed.is_whole() {
                continue;
            }
            let seen = followed.cluster(clock.now());
            if work(&seen) != known {
                known = work(&seen);
                followed = Followed::of(&self.api, clock, needed(known));
                continue;
            }
            if known == Work::Some {
                wait = self.look(&seen, sources, &mut followed).await;
            }
        }
    }

    /// Decides on all that ask, and acts; says when to look again if nothing changes.
    async fn look(&mut self, seen: &Cluster, sources: &[Source], followed: &mut Followed) -> Duration {
        let clock = self.options.clock;
        // A time that nobody can set.
        let now = clock.steady().now();
        self.awaited.look(seen, now);
        let machine = self.options.machine_timeout;
        let terms = Terms { machine, at_once: self.options.limit, now: clock.now() };
        let mut wait = self.awaited.next(machine).unwrap_or(LOOK_AT_ALL).min(LOOK_AT_ALL);
        for turn in keep(seen, &self.awaited, &terms) {
            let key = format!("{}/{}", turn.object.namespace, turn.object.name);
            if self.told.get(&key) != Some(&turn.sentence) {
                tracing::info!("{}: {}", turn.object.in_words(), turn.sentence);
                self.told.insert(key.clone(), turn.sentence.clone());
            }
            if let Some((_, again)) = self.failures.get(&key).filter(|(_, again)| *again > now) {
                wait = wait.min(between(now, *again));
                continue;
            }
            match self.act(turn, sources, followed).await {
                Ok(false) => {}
                // What follows from it is decided at once.
                Ok(true) => {
                    self.failures.remove(&key);
                    wait = Duration::ZERO;
                }
                Err(error) => {
                    tracing::warn!("cannot change Cluster {key}, or what it is made of: {error}");
                    let failures = self.failures.get(&key).map_or(0, |(failures, _)| *failures) + 1;
                    let pause = pause_after(failures);
                    self.failures.insert(key, (failures, later(now, pause)));
                    wait = wait.min(pause);
                }
            }
        }
        wait
    }

    /// Whether something was written.
    async fn act(&self, turn: Turn, sources: &[Source], followed: &mut Followed) -> Result<bool, ApiError> {
        let mut has_written = false;
        for Lever { object, patch } in turn.levers {
            let Some(source) = sources.iter().find(|source| source.kind == object.kind) else { continue };
            if self.leading_until.borrow().is_none_or(|until| Instant::now() >= until) {
                return Ok(false);
            }
            let path = source.path_to(&object);
            match self.api.patch(&format!("{path}?fieldManager={FIELD_MANAGER}"), &patch).await {
                Ok(body) => followed.learn(source.kind, &body),
                Err(error) => {
                    // Whoever lost a race reads at once what the other wrote.
                    if error.code() == Some(409)
                        && let Ok(body) = self.api.get(&path).await
                    {
                        followed.learn(source.kind, &body);
                    }
                    return Err(error);
                }
            }
            has_written = true;
        }
        Ok(has_written)
    }
}

fn is_of_clusters(source: &Source) -> bool {
    source.kind == "Cluster"
}
