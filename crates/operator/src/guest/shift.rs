//! Watches over clusters while the process runs: who is looked at when, what is decided, what is written, which guests are asked.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use drover_api::tanzu::NAMESPACE;
use drover_clock::{Clock, later};
use drover_core::decision::Act;
use drover_core::guest::tanzu::between::{self, Standing};
use drover_core::guest::tanzu::places::{Places, by_name};
use drover_core::guest::tanzu::{Decision, View, Watched, decide, forsaken, order_of_addons, standing};
use drover_core::guest::{Collection, Seen, Write};
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio::time::Instant;

use super::clusters::ClustersOptions;
use super::desk::{Desk, PEEK_AGAIN};
use super::ear::News;
use super::errand::Errand;
use super::hands::send;
use super::lane::Lane;
use super::ledger::{Key, Ledger, Part, collection_of, key_of};
use crate::api::{Api, ApiError};
use crate::engine::desk::{COALESCE, LOOK_AT_ALL, pause_after};
use crate::inbox;

/// A Job whose cluster is not seen is an orphan after this time: watches may tell of the two in any order.
const BEFORE_AN_ORPHAN: Duration = Duration::from_secs(60);
/// From one write of a status that says nothing but itself to the next.
const STATUS_AGAIN: Duration = Duration::from_secs(1);

/// One process while it watches over clusters.
pub struct Shift {
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
    /// Guests that answer soon, and those that do not, or are slow to.
    prompt: Lane,
    slow: Lane,
    /// What was last said of each cluster.
    told: BTreeMap<Key, Vec<String>>,
}

impl Shift {
    pub fn new(
        api: Api,
        options: ClustersOptions,
        news: UnboundedSender<News>,
        leading_until: watch::Receiver<Option<Instant>>,
    ) -> Self {
        Shift {
            api,
            steady: options.clock.steady(),
            options,
            news,
            ledger: Ledger::default(),
            leading: false,
            leading_until,
            desks: BTreeMap::new(),
            orphans_due: Timestamp::MAX,
            prompt: Lane::prompt(),
            slow: Lane::slow(),
            told: BTreeMap::new(),
        }
    }

    pub async fn run(mut self, mut news: UnboundedReceiver<News>, mut turns: UnboundedReceiver<inbox::Message>) {
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
                () = self.prompt.one_is_done() => self.peek_next(),
                () = self.slow.one_is_done() => self.peek_next(),
                message = news.recv() => match message {
                    Some(message) => self.take(message),
                    None => return,
                },
                () = steady.sleep_until(due) => self.look().await,
            }
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
                let configuration =
                    configuration.map(|told| told.to_string().into()).or_else(|| desk.configuration.clone());
                if desk.nodes != nodes || desk.configuration != configuration {
                    (desk.nodes, desk.configuration) = (nodes, configuration);
                    desk.due = desk.due.min(later(now, COALESCE));
                }
            }
            News::Asked { key, addons, is_slow } => {
                let now = self.steady.now();
                if let Some(desk) = self.desks.get_mut(&key) {
                    desk.hear(addons, is_slow, now);
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
                    ledger.cards().filter(|one| between::named(one).contains(key)).map(key_of).collect();
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
            // Only a Job that is made looks at them, and they change all the time.
            Collection::Nodes => {}
            collection => {
                let asks = matches!(collection, Collection::Machines | Collection::Sets);
                self.wake(|one| one.0 == key.0, asks);
            }
        }
    }

    fn keep_desks(&mut self) {
        let keys: BTreeSet<Key> = self.ledger.cards().map(key_of).collect();
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
        // Whose turn it was need not have been asked.
        self.peek_next();
        if self.orphans_due <= now {
            self.orphans_due = Timestamp::MAX;
            self.remove_orphans().await;
        }
    }

    /// Looks at clusters of a namespace, which stays open while one of them is at work.
    async fn look_into(&mut self, space: &str, keys: impl Iterator<Item = &Key>, now: Timestamp) {
        if !self.is_idle(space) {
            self.ledger.open(space);
        }
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
        if !self.leading || self.is_idle(space) {
            self.ledger.fold(space);
        }
    }

    fn is_idle(&self, space: &str) -> bool {
        self.desks.iter().filter(|(key, _)| key.0 == space).all(|(_, desk)| desk.is_idle)
    }

    async fn remove_orphans(&mut self) {
        if self.leading && self.ledger.is_whole() {
            let uid = |cluster: &Value| cluster["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            let there: BTreeSet<String> = self.ledger.cards().map(uid).collect();
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
        let lane = if desk.is_slow { &mut self.slow } else { &mut self.prompt };
        if !lane.has_room() {
            lane.queue(key);
            return;
        }
        (desk.asks_at, desk.asking, desk.asked) = (Timestamp::MAX, true, now);
        let unfolded = self.unfolded(key);
        let order = self.view(key, &unfolded, now).and_then(|view| order_of_addons(&view));
        let errand = Errand {
            api: self.api.clone(),
            guests: self.options.guests.clone(),
            clock: self.steady,
            key: key.clone(),
            order,
            leading_until: self.leading_until.clone(),
        };
        let is_slow = self.desks.get(key).is_some_and(|desk| desk.is_slow);
        let lane = if is_slow { &mut self.slow } else { &mut self.prompt };
        lane.send(errand, self.news.clone());
    }

    /// Where there is room, the next guests have their turn.
    fn peek_next(&mut self) {
        let now = self.steady.now();
        for lane in [&mut self.prompt, &mut self.slow] {
            for key in lane.next(|key| self.desks.get(key).map_or(0, |desk| desk.tries)) {
                if let Some(desk) = self.desks.get_mut(&key) {
                    desk.due = desk.due.min(now);
                }
            }
        }
    }

    /// Decides, knowing which clusters are at work, and how those stand that come before.
    fn decide(&self, key: &Key, now: Timestamp) -> Option<Decision> {
        let unfolded = self.unfolded(key);
        let view = self.view(key, &unfolded, now)?;
        let clusters = by_name(self.ledger.cards());
        let (map, me) = (self.ledger.places(), self.options.identity.as_str());
        let places = self.options.limit.map(|limit| Places { map, limit, me, clusters: &clusters });
        let stands = |other: &Key| {
            let unfolded = self.unfolded(other);
            self.view(other, &unfolded, now).map_or(Standing::Missing, |view| standing(&view))
        };
        let after = between::predecessors(view.tkc, |other| self.ledger.card(other), stands);
        Some(decide(&View { places, after: &after, ..view }))
    }

    fn unfolded(&self, key: &Key) -> Unfolded<'_> {
        let configuration = self.desks.get(key).and_then(|desk| desk.configuration.as_deref());
        let configuration = configuration.and_then(|text| serde_json::from_str(text).ok());
        Unfolded { own: self.ledger.space(&key.0), configuration }
    }

    fn view<'a>(&'a self, key: &Key, unfolded: &'a Unfolded<'a>, steady: Timestamp) -> Option<View<'a>> {
        let desk = self.desks.get(key)?;
        Some(View {
            tkc: unfolded.own.get(Collection::Tanzu, &key.1)?,
            own: &unfolded.own,
            global: self.ledger.common(""),
            system: self.ledger.common(NAMESPACE),
            nodes: desk.nodes.as_ref(),
            configuration: unfolded.configuration.as_ref(),
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

/// What a decision reads that is kept as text.
struct Unfolded<'a> {
    /// What the clusters of the namespace are made of.
    own: Cow<'a, Seen>,
    configuration: Option<Value>,
}

fn is_status(write: &Write) -> bool {
    matches!(write.act, Act::PatchStatus(_))
}
