//! Keeps TanzuKubernetesClusters as their owners ask for them: sees, decides with [`drover_core::guest::tanzu`], acts.
//!
//! Each cluster is decided on by itself: one that is refused or unreachable holds up no other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use drover_api::tanzu::NAMESPACE;
use drover_clock::{Clock, later};
use drover_core::decision::Act;
use drover_core::guest::tanzu::addons::Told;
use drover_core::guest::tanzu::between::{self, Standing};
use drover_core::guest::tanzu::places::{Places, by_name};
use drover_core::guest::tanzu::{Decision, Settings, View, Watched, decide, forsaken, order_of_addons, standing};
use drover_core::guest::{Collection, Seen, Write};
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Guests;
use super::ear::{Ear, News, Visit};
use super::errand::Errand;
use super::hands::send;
use super::ledger::{Key, Ledger, PARTS, Part, collection_of, key_of};
use crate::api::{Api, ApiError};
use crate::election::{Candidate, ElectionOptions, resign};
use crate::engine::desk::{COALESCE, LOOK_AT_ALL, pause_after};
use crate::follow;
use crate::inbox;

/// A Job whose cluster is not seen is an orphan after this time: watches may tell of the two in any order.
const BEFORE_AN_ORPHAN: Duration = Duration::from_secs(60);
/// A guest is asked for its Nodes when its Machines change, and for that no more often than this.
const PEEK_AGAIN: Duration = Duration::from_secs(10);
/// From one write of a status that says nothing but itself to the next.
const STATUS_AGAIN: Duration = Duration::from_secs(1);
/// How many clusters are updated at once if nothing else is said.
pub const LIMIT: usize = 5;
/// What a guest refuses is hardly mended within the first pauses of all.
const FIRST_TRIES: u32 = 3;

#[derive(Debug, Clone)]
pub struct ClustersOptions {
    /// Unique to this process.
    pub identity: String,
    pub election: ElectionOptions,
    pub settings: Settings,
    pub guests: Arc<dyn Guests>,
    /// So many clusters are updated at once; none: all that are asked for.
    pub limit: Option<usize>,
    pub clock: Clock,
}

impl ClustersOptions {
    pub fn new(identity: &str, settings: Settings, guests: Arc<dyn Guests>, clock: Clock) -> Self {
        let election = ElectionOptions::new(NAMESPACE, "drover-guest");
        ClustersOptions { identity: identity.to_owned(), election, settings, guests, limit: Some(LIMIT), clock }
    }
}

/// One such process.
pub struct Clusters {
    client: Client,
    options: ClustersOptions,
}

impl std::fmt::Debug for Clusters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clusters").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Clusters {
    pub fn new(client: Client, options: ClustersOptions) -> Self {
        Clusters { client, options }
    }

    /// Runs until `stop` ends, then gives the Lease back. Dropped before that, it ends as a crashed process would.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let ClustersOptions { identity, election, clock, .. } = self.options.clone();
        let api = Api::new(self.client, clock);
        let (desk, news) = unbounded_channel();
        let mut tasks = JoinSet::new();
        for part in PARTS {
            let ear = Ear { part, to: desk.clone(), listed: Vec::new() };
            tasks.spawn(follow::follow(api.clone(), clock, part.followed(), ear));
        }
        let (leading, leading_until) = watch::channel(None);
        let (inbox, turns) = unbounded_channel();
        let candidate = Candidate {
            api: api.clone(),
            clock,
            options: election.clone(),
            identity: identity.clone(),
            leading_until: leading,
            inbox,
            seen: None,
        };
        tasks.spawn(candidate.stand());
        let shift = Shift {
            api: api.clone(),
            options: self.options,
            news: desk,
            ledger: Ledger::default(),
            leading: false,
            leading_until,
            desks: BTreeMap::new(),
            orphans_due: Timestamp::MAX,
            steady: clock.steady(),
            peeks: JoinSet::new(),
            told: BTreeMap::new(),
        };
        tokio::select! {
            biased;
            () = stop => {}
            () = shift.run(news, turns) => {}
        }
        drop(tasks);
        resign(&api, &election, &identity).await;
    }
}

/// What is known of one cluster beside its objects.
#[derive(Debug)]
struct Desk {
    /// When to decide next.
    due: Timestamp,
    failures: u32,
    not_before: Timestamp,
    nodes: Option<BTreeMap<String, bool>>,
    /// The ClusterConfiguration of the guest.
    configuration: Option<Value>,
    addons: Option<Told>,
    /// How often in a row its add-ons could not all be applied.
    tries: u32,
    /// When the guest itself is asked next.
    asks_at: Timestamp,
    asking: bool,
    asked: Timestamp,
    status_written: Timestamp,
    /// How long what it waits for has lasted.
    watched: Watched,
    /// Nothing was to be done when it was last looked at, and nothing waited for.
    is_idle: bool,
}

impl Desk {
    fn new(due: Timestamp) -> Self {
        Desk {
            due,
            failures: 0,
            not_before: Timestamp::MIN,
            nodes: None,
            configuration: None,
            addons: None,
            tries: 0,
            asks_at: Timestamp::MIN,
            asking: false,
            asked: Timestamp::MIN,
            status_written: Timestamp::MIN,
            watched: Watched::default(),
            is_idle: false,
        }
    }

    /// The guest has been asked. What is applied stays so while it does not answer.
    fn hear(&mut self, visit: Visit, now: Timestamp) {
        self.asking = false;
        let told = match visit {
            Visit::Told(told) => told,
            Visit::Unasked => return,
            // Whoever leads goes on where this ended: that may be this operator, back from where nobody ran it.
            Visit::BrokenOff => {
                self.asks_at = self.asks_at.min(later(now, PEEK_AGAIN));
                self.due = self.due.min(self.asks_at);
                return;
            }
        };
        self.tries = if told.again { self.tries + 1 } else { 0 };
        if told.again {
            self.asks_at = self.asks_at.min(later(now, pause_after(self.tries + FIRST_TRIES)));
        }
        let is_known = self.addons.as_ref().is_some_and(|known| known.key == told.key && known.answered);
        if (told.answered || !is_known) && self.addons.as_ref() != Some(&told) {
            self.addons = Some(told);
        }
        // Meanwhile something else may be wanted.
        self.due = self.due.min(later(now, COALESCE));
    }
}

struct Shift {
    api: Api,
    options: ClustersOptions,
    news: UnboundedSender<News>,
    ledger: Ledger,
    leading: bool,
    leading_until: watch::Receiver<Option<Instant>>,
    desks: BTreeMap<Key, Desk>,
    /// When to look for Jobs whose clusters are gone.
    orphans_due: Timestamp,
    /// What all moments of this process are told by: nobody can set it.
    steady: Clock,
    peeks: JoinSet<()>,
    /// What was last said of each cluster.
    told: BTreeMap<Key, Vec<String>>,
}

impl Shift {
    async fn run(mut self, mut news: UnboundedReceiver<News>, mut turns: UnboundedReceiver<inbox::Message>) {
        let steady = self.steady;
        loop {
            let due = self.desks.values().map(|desk| desk.due).min().unwrap_or(Timestamp::MAX).min(self.orphans_due);
            tokio::select! {
                biased;
                Some(turn) = turns.recv() => {
                    if let inbox::Message::Leading(leading) = turn {
                        tracing::info!("guest clusters: {}", if leading { "leading" } else { "not leading" });
                        self.leading = leading;
                        // Meanwhile another may have waited for it.
                        self.desks.values_mut().for_each(|desk| desk.watched = Watched::default());
                        self.wake_all();
                        self.look_for_orphans(COALESCE);
                    }
                }
                message = news.recv() => match message {
                    Some(message) => self.take(message),
                    None => return,
                },
                () = steady.sleep_until(due) => self.look().await,
            }
            while self.peeks.try_join_next().is_some() {}
        }
    }

    fn take(&mut self, message: News) {
        match message {
            News::Listed { part, objects, as_of } => {
                self.ledger.replace(part, objects, as_of);
                self.keep_desks();
                self.wake_all();
            }
            News::Changed(part, object) => {
                let key = object.key.clone();
                self.ledger.put(part, object);
                self.heed(part, &key);
            }
            News::Gone(part, object) => {
                self.ledger.remove(part, &object);
                self.heed(part, &object.key);
            }
            News::Absent(part) => {
                self.ledger.note_absent(part);
                self.wake_all();
            }
            News::Nodes { key, nodes, configuration } => {
                let now = self.steady.now();
                let Some(desk) = self.desks.get_mut(&key) else { return };
                // What was told once stays so while the guest does not answer.
                let configuration = configuration.or_else(|| desk.configuration.clone());
                if desk.nodes != nodes || desk.configuration != configuration {
                    (desk.nodes, desk.configuration) = (nodes, configuration);
                    desk.due = desk.due.min(later(now, COALESCE));
                }
            }
            News::Asked { key, addons } => {
                let now = self.steady.now();
                if let Some(desk) = self.desks.get_mut(&key) {
                    desk.hear(addons, now);
                }
            }
        }
    }

    /// Whom a change concerns.
    fn heed(&mut self, part: Part, key: &Key) {
        match part.collection {
            Collection::Tanzu => {
                self.keep_desks();
                let ledger = &self.ledger;
                let follow: BTreeSet<Key> =
                    ledger.clusters().filter(|one| between::named(one).contains(key)).map(key_of).collect();
                self.wake(|one| one == key || follow.contains(one), false);
            }
            Collection::Jobs => {
                self.wake_all();
                // That of a dead leader may come when its cluster is gone; one whose cluster is not seen yet is left alone.
                self.look_for_orphans(BEFORE_AN_ORPHAN);
            }
            Collection::Images
            | Collection::Classes
            | Collection::StorageClasses
            | Collection::Pods
            | Collection::Controllers
            | Collection::ConfigMaps
            | Collection::Defaults => self.wake_all(),
            collection => {
                let asks = matches!(collection, Collection::Machines | Collection::Sets);
                self.wake(|one| one.0 == key.0, asks);
            }
        }
    }

    fn keep_desks(&mut self) {
        let keys: BTreeSet<Key> = self.ledger.clusters().map(key_of).collect();
        let now = self.steady.now();
        if self.desks.keys().any(|known| !keys.contains(known)) || self.desks.is_empty() {
            self.look_for_orphans(COALESCE);
        }
        self.desks.retain(|known, _| keys.contains(known));
        self.told.retain(|known, _| keys.contains(known));
        for key in keys {
            self.desks.entry(key).or_insert_with(|| Desk::new(later(now, COALESCE)));
        }
    }

    fn look_for_orphans(&mut self, after: Duration) {
        self.orphans_due = self.orphans_due.min(later(self.steady.now(), after));
    }

    fn wake_all(&mut self) {
        self.wake(|_| true, false);
    }

    fn wake(&mut self, which: impl Fn(&Key) -> bool, asks: bool) {
        let soon = later(self.steady.now(), COALESCE);
        for (_, desk) in self.desks.iter_mut().filter(|(key, _)| which(key)) {
            if asks {
                desk.asks_at = desk.asks_at.min(later(desk.asked, PEEK_AGAIN));
            }
            // What was refused a moment ago is not tried at once again.
            desk.due = desk.due.min(soon.max(desk.not_before));
        }
    }

    async fn look(&mut self) {
        let now = self.steady.now();
        let due: Vec<Key> = self.desks.iter().filter(|(_, desk)| desk.due <= now).map(|(key, _)| key.clone()).collect();
        let spaces: BTreeSet<String> = due.iter().map(|key| key.0.clone()).collect();
        for space in spaces {
            self.look_into(&space, due.iter().filter(|key| key.0 == space), now).await;
        }
        if self.orphans_due <= now {
            self.orphans_due = Timestamp::MAX;
            self.remove_orphans().await;
        }
    }

    /// Looks at clusters of a namespace, which is folded again if all of its clusters are idle.
    async fn look_into(&mut self, space: &str, keys: impl Iterator<Item = &Key>, now: Timestamp) {
        self.ledger.open(space);
        for key in keys {
            if let Some(desk) = self.desks.get_mut(key) {
                desk.due = later(now, LOOK_AT_ALL);
            }
            if !self.leading || !self.ledger.is_whole() {
                continue;
            }
            if let Some(who) = self.ledger.incumbent() {
                self.tell(key, vec![format!("AnotherControllerActs: {who} keeps it; nothing is written beside it")]);
                if let Some(desk) = self.desks.get_mut(key) {
                    (desk.watched, desk.is_idle) = (Watched::default(), true);
                }
                continue;
            }
            self.look_at(key).await;
        }
        let mut of_space = self.desks.iter().filter(|(key, _)| key.0 == space);
        if !self.leading || of_space.all(|(_, desk)| desk.is_idle) {
            self.ledger.fold(space);
        }
    }

    async fn remove_orphans(&mut self) {
        if self.leading && self.ledger.is_whole() {
            let uid = |cluster: &Value| cluster["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            let there: BTreeSet<String> = self.ledger.clusters().map(uid).collect();
            for write in forsaken(self.ledger.common(NAMESPACE), &there) {
                if self.write(&write).await.is_err() {
                    self.look_for_orphans(BEFORE_AN_ORPHAN);
                }
            }
        }
    }

    async fn look_at(&mut self, key: &Key) {
        let now = self.steady.now();
        let Some(decision) = self.decide(key, now) else { return };
        if let Some(desk) = self.desks.get_mut(key).filter(|desk| decision.asks_guest && !desk.asking) {
            desk.asks_at = now;
        }
        if let Some(desk) = self.desks.get_mut(key).filter(|desk| decision.asks_again && !desk.asking) {
            desk.asks_at = desk.asks_at.min(later(desk.asked, PEEK_AGAIN));
        }
        self.peek(key, now);
        self.tell(key, decision.waits.iter().map(|wait| format!("{}: {}", wait.reason, wait.sentence)).collect());
        if let Some(desk) = self.desks.get_mut(key) {
            desk.is_idle = decision.writes.is_empty() && decision.waits.is_empty();
            desk.watched = decision.watched;
            desk.due = decision.look_again.map_or(desk.due, |moment| moment.min(desk.due));
            // What is only told can wait; what is acted on is told first.
            let again = later(desk.status_written, STATUS_AGAIN);
            if matches!(decision.writes.as_slice(), [only] if is_status(only)) && now < again {
                desk.due = desk.due.min(again);
                return;
            }
            if decision.writes.iter().any(is_status) {
                desk.status_written = now;
            }
        }
        for write in decision.writes {
            if self.leading_until.borrow().is_none_or(|until| Instant::now() >= until) {
                return;
            }
            let result = self.write(&write).await;
            let now = self.steady.now();
            let Some(desk) = self.desks.get_mut(key) else { return };
            match result {
                Ok(()) => {
                    desk.failures = 0;
                    desk.due = desk.due.min(later(now, COALESCE));
                }
                Err(error) => {
                    tracing::warn!("cannot {}: {}: {error}", write.purpose, write.object);
                    desk.failures += 1;
                    desk.not_before = later(now, pause_after(desk.failures));
                    desk.due = desk.not_before;
                    return;
                }
            }
        }
    }

    fn tell(&mut self, key: &Key, waits: Vec<String>) {
        let told = self.told.entry(key.clone()).or_default();
        for wait in waits.iter().filter(|wait| !told.contains(wait)) {
            tracing::info!("TanzuKubernetesCluster {}/{} waits: {wait}", key.0, key.1);
        }
        *told = waits;
    }

    /// What a write is answered with, the next decision knows.
    async fn write(&mut self, write: &Write) -> Result<(), ApiError> {
        let part = collection_of(&write.object);
        let result = send(&self.api, write).await;
        let is_delete = matches!(write.act, Act::Delete { .. });
        let answer = match result {
            Ok(body) => {
                tracing::info!("{}: {}", write.purpose, write.object);
                Ok(body)
            }
            // Whoever lost a race reads at once what the other wrote; what was to be made is there, and what was to go is gone.
            Err(error) if matches!(error.code(), Some(404 | 409)) => match self.api.get(&write.object.path()).await {
                Ok(body) if matches!(write.act, Act::Create(_)) => Ok(body),
                Ok(body) => {
                    self.learn(part, &body);
                    Err(error)
                }
                Err(ApiError::Refused { code: 404, .. }) => {
                    part.into_iter().for_each(|part| self.ledger.forget(part, &write.object));
                    if is_delete { return Ok(()) } else { Err(error) }
                }
                Err(_) => Err(error),
            },
            Err(error) => Err(error),
        };
        answer.map(|body| self.learn(part, &body))
    }

    fn learn(&mut self, part: Option<Part>, body: &[u8]) {
        let Some(part) = part else { return };
        let text = std::str::from_utf8(body).unwrap_or_default();
        let is_status = serde_json::from_str::<Value>(text).is_ok_and(|value| value["kind"] == "Status");
        if let Some(object) = part.kept(text).filter(|_| !is_status) {
            self.ledger.put(part, object);
        }
    }

    /// Asks a guest in the background, if it is time to: it may be slow to answer.
    fn peek(&mut self, key: &Key, now: Timestamp) {
        let Some(desk) = self.desks.get_mut(key).filter(|desk| !desk.asking) else { return };
        if now < desk.asks_at {
            desk.due = desk.due.min(desk.asks_at);
            return;
        }
        (desk.asks_at, desk.asking, desk.asked) = (Timestamp::MAX, true, now);
        let own = self.ledger.space(&key.0);
        let order = self.view(key, &own, now).and_then(|view| order_of_addons(&view));
        let errand = Errand {
            api: self.api.clone(),
            guests: self.options.guests.clone(),
            clock: self.steady,
            key: key.clone(),
            order,
            leading_until: self.leading_until.clone(),
        };
        self.peeks.spawn(errand.run(self.news.clone()));
    }

    /// Decides, knowing which clusters are at work, and how those stand that come before.
    fn decide(&self, key: &Key, now: Timestamp) -> Option<Decision> {
        let own = self.ledger.space(&key.0);
        let view = self.view(key, &own, now)?;
        let clusters = by_name(self.ledger.clusters());
        let (map, me) = (self.ledger.places(), self.options.identity.as_str());
        let places = self.options.limit.map(|limit| Places { map, limit, me, clusters: &clusters });
        let stands = |other: &Key| {
            let own = self.ledger.space(&other.0);
            self.view(other, &own, now).map_or(Standing::Missing, |view| standing(&view))
        };
        let after = between::predecessors(view.tkc, |other| self.ledger.cluster(other), stands);
        Some(decide(&View { places, after: &after, ..view }))
    }

    fn view<'a>(&'a self, key: &Key, own: &'a Seen, steady: Timestamp) -> Option<View<'a>> {
        let desk = self.desks.get(key)?;
        Some(View {
            tkc: self.ledger.cluster(key)?,
            own,
            global: self.ledger.common(""),
            system: self.ledger.common(NAMESPACE),
            nodes: desk.nodes.as_ref(),
            configuration: desk.configuration.as_ref(),
            addons: desk.addons.as_ref(),
            places: None,
            after: &[],
            settings: &self.options.settings,
            watched: &desk.watched,
            steady,
            now: self.options.clock.now(),
        })
    }
}

fn is_status(write: &Write) -> bool {
    matches!(write.act, Act::PatchStatus(_))
}
