//! Drives Upgrades of Harvester: follows what they rest on, decides with [`drover_core::harvester`], acts.
//!
//! It runs beside the engine of Plans, under the same Lease.

mod judge;
mod repository;
pub mod steps;
pub mod verbs;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use drover_clock::{Clock, later};
use drover_core::cluster::harvester::Upgrade;
use drover_core::cluster::{Cause, Cluster};
use drover_core::decision::{Act, Question, Reason, Write};
use drover_core::harvester::admission::Verdict;
use drover_core::harvester::followed::{BY_UPGRADES, meanwhile};
use drover_core::harvester::{Admission, Fetched, Served, Settings, View, decide};
use drover_core::plan::Trouble;
use jiff::Timestamp;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::act::{Failure, Hands};
use crate::api::Api;
use crate::engine::Report;
use crate::engine::desk::{Desk, LOOK_AT_ALL};
use crate::mirror::Mirror;
pub use repository::{HttpRepositories, NoRepositories, Repositories, Texts};

/// No repository may take longer to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// How Upgrades are driven.
#[derive(Debug, Clone)]
pub struct HarvesterOptions {
    pub settings: Settings,
    pub repositories: Arc<dyn Repositories>,
    /// Whether kubelets and API servers are asked, too, before an Upgrade begins: over the network, unlike all else.
    pub asks_machines: bool,
}

/// What comes back from what was sent off.
#[derive(Debug)]
enum Message {
    Done { upgrade: String, failure: Option<Box<Failure>> },
    Fetched { upgrade: String, answer: Box<Result<Served, String>> },
    Judged { upgrade: String, verdict: Box<Verdict> },
}

/// Runs until it is dropped; acts only while this process leads.
pub(crate) async fn drive(
    api: Api,
    clock: Clock,
    options: HarvesterOptions,
    leading_until: watch::Receiver<Option<Instant>>,
    reports: Option<UnboundedSender<Report>>,
) {
    let mirror = Mirror::of(api.clone(), clock, BY_UPGRADES).await;
    let (inbox, messages) = unbounded_channel();
    let hands = Hands {
        api: api.clone(),
        ears: mirror.ears(),
        plain_status: Arc::default(),
        leading_until: leading_until.clone(),
    };
    let leading = leading_until.borrow().is_some();
    let driver = Driver {
        api,
        clock,
        options,
        reports,
        leading,
        leading_until,
        look_at_all: clock.now(),
        mirror,
        hands,
        inbox,
        desks: BTreeMap::new(),
        fetched: BTreeMap::new(),
        judged: BTreeMap::new(),
        tasks: JoinSet::new(),
    };
    driver.run(messages).await;
}

struct Driver {
    api: Api,
    clock: Clock,
    options: HarvesterOptions,
    reports: Option<UnboundedSender<Report>>,
    leading_until: watch::Receiver<Option<Instant>>,
    leading: bool,
    look_at_all: Timestamp,
    mirror: Mirror,
    hands: Hands,
    inbox: UnboundedSender<Message>,
    /// By the names of the Upgrades.
    desks: BTreeMap<String, Desk>,
    fetched: BTreeMap<String, Fetched>,
    /// Of Upgrades that have not begun.
    judged: BTreeMap<String, Judgement>,
    tasks: JoinSet<()>,
}

/// What was found when somebody looked whether an Upgrade may begin.
#[derive(Debug, Default)]
struct Judgement {
    /// Somebody looks.
    pending: bool,
    found: Option<(Timestamp, Verdict)>,
}

impl Driver {
    async fn run(mut self, mut messages: UnboundedReceiver<Message>) {
        let clock = self.clock;
        loop {
            let next = self.next_look();
            tokio::select! {
                biased;
                Some(message) = messages.recv() => self.take(message),
                changed = self.leading_until.changed() => match changed {
                    Ok(()) => self.note_leading(),
                    Err(_) => return,
                },
                news = self.mirror.hear() => if news { self.wake_all() },
                () = clock.sleep_until(next) => self.decide_what_is_due(),
            }
            // Ended tasks are not kept.
            while self.tasks.try_join_next().is_some() {}
        }
    }

    fn next_look(&self) -> Timestamp {
        let earliest = if self.leading { self.desks.values().filter_map(Desk::due_at).min() } else { None };
        earliest.unwrap_or(Timestamp::MAX).min(self.look_at_all)
    }

    fn note_leading(&mut self) {
        let leads = self.leading_until.borrow_and_update().is_some();
        if std::mem::replace(&mut self.leading, leads) != leads {
            if !leads {
                // What is under way must not be followed up by a process that leads no longer, and an answer that was
                // waited for then never comes: whoever leads again asks again.
                self.tasks.abort_all();
                self.desks.clear();
                self.fetched.clear();
                self.judged.clear();
            }
            self.wake_all();
        }
    }

    fn take(&mut self, message: Message) {
        let now = self.clock.now();
        match message {
            Message::Done { upgrade, failure } => {
                self.desks.entry(upgrade.clone()).or_default().end(failure, now);
                self.wake(&upgrade);
            }
            Message::Fetched { upgrade, answer } => {
                let answer = *answer;
                if let Err(why) = &answer {
                    tracing::warn!("upgrade {upgrade}: its repository does not tell the release: {why}");
                }
                self.fetched.insert(upgrade.clone(), Fetched { at: now, pending: false, answer });
                self.wake(&upgrade);
            }
            Message::Judged { upgrade, verdict } => {
                self.judged.insert(upgrade.clone(), Judgement { pending: false, found: Some((now, *verdict)) });
                self.wake(&upgrade);
            }
        }
    }

    fn wake(&mut self, upgrade: &str) {
        self.desks.entry(upgrade.to_owned()).or_default().wake(self.clock.now());
    }

    fn wake_all(&mut self) {
        // What is known of an Upgrade is kept while one more kind is waited for.
        let Some(cluster) = self.mirror.cluster() else { return };
        let names = upgrades(cluster);
        self.desks.retain(|name, desk| desk.in_flight || names.contains(name));
        self.fetched.retain(|name, _| names.contains(name));
        self.judged.retain(|name, _| names.contains(name));
        names.iter().for_each(|name| self.wake(name));
    }

    fn decide_what_is_due(&mut self) {
        let now = self.clock.now();
        if now >= self.look_at_all {
            self.look_at_all = later(now, LOOK_AT_ALL);
            self.wake_all();
        }
        if !self.leading {
            return;
        }
        let is_due = |desk: &Desk| desk.due_at().is_some_and(|due| due <= now);
        let due: Vec<String> =
            self.desks.iter().filter(|(_, desk)| is_due(desk)).map(|(name, _)| name.clone()).collect();
        if !due.is_empty()
            && let Some(cluster) = self.mirror.cluster()
        {
            let wanted = meanwhile(cluster);
            self.mirror.follow_meanwhile(&wanted);
        }
        for name in due {
            let stages = self.decide(&name, now);
            self.send(&name, stages, now);
        }
    }

    fn decide(&mut self, name: &str, now: Timestamp) -> Vec<Vec<Write>> {
        let desk = self.desks.entry(name.to_owned()).or_default();
        desk.due = None;
        let Some(cluster) = self.mirror.cluster() else { return Vec::new() };
        let Some(upgrade) = cluster.harvester.upgrades.get(drover_api::harvester::NAMESPACE, name) else {
            return Vec::new();
        };
        let view = View {
            cluster,
            upgrade,
            settings: &self.options.settings,
            repository: self.fetched.get(name),
            admission: match self.judged.get(name).and_then(|judged| judged.found.as_ref()) {
                Some((at, verdict)) => Admission::Judged { at: *at, verdict },
                None => Admission::Unknown,
            },
            status_written: desk.status_written,
            trouble: unseen(cluster).chain(desk.trouble()).collect(),
            told: &desk.told,
        };
        let decision = decide(&view, now);
        desk.due = decision.look_again;
        desk.tell(&format!("upgrade {name}"), &decision.waits);
        if let Some(reports) = &self.reports {
            // Whoever followed along may have stopped.
            let _ = reports.send(Report { at: now, plan: format!("upgrade/{name}"), decision: decision.clone() });
        }
        if decision.judge {
            let upgrade = upgrade.clone();
            self.judge(name, upgrade);
        }
        if let Some(question) = decision.ask {
            self.ask(name, question, now);
        }
        decision.stages
    }

    /// Looks beside everything else whether an Upgrade may begin.
    fn judge(&mut self, name: &str, upgrade: Upgrade) {
        let judgement = self.judged.entry(name.to_owned()).or_default();
        if std::mem::replace(&mut judgement.pending, true) {
            return;
        }
        let (inbox, api, clock, asks_machines) =
            (self.inbox.clone(), self.api.clone(), self.clock, self.options.asks_machines);
        let name = name.to_owned();
        self.tasks.spawn(async move {
            let verdict = judge::judge(&api, clock, &upgrade, asks_machines).await;
            // A closed inbox means that the operator has ended.
            let _ = inbox.send(Message::Judged { upgrade: name, verdict: Box::new(verdict) });
        });
    }

    /// Asks the repository beside everything else.
    fn ask(&mut self, upgrade: &str, question: Question, now: Timestamp) {
        let silent = || Err("it has not answered yet".to_owned());
        let before = self.fetched.remove(upgrade);
        let answer = before.map_or_else(silent, |before| before.answer);
        self.fetched.insert(upgrade.to_owned(), Fetched { at: now, pending: true, answer });
        let (inbox, repositories) = (self.inbox.clone(), self.options.repositories.clone());
        let (upgrade, limit) = (upgrade.to_owned(), self.clock.on_the_wall(PATIENCE));
        self.tasks.spawn(async move {
            let silent = || Err(format!("no answer within {} s", PATIENCE.as_secs()));
            let answer = tokio::time::timeout(limit, repositories.fetch(question.url, question.latest_version)).await;
            let answer = answer.unwrap_or_else(|_| silent()).and_then(repository::read);
            // A closed inbox means that the operator has ended.
            let _ = inbox.send(Message::Fetched { upgrade, answer: Box::new(answer) });
        });
    }

    fn send(&mut self, upgrade: &str, stages: Vec<Vec<Write>>, now: Timestamp) {
        let desk = self.desks.entry(upgrade.to_owned()).or_default();
        let stages = desk.without_told(stages);
        if stages.is_empty() {
            return;
        }
        desk.in_flight = true;
        if stages.iter().flatten().any(|write| matches!(write.act, Act::PatchStatus(_))) {
            desk.status_written = Some(now);
        }
        let (hands, inbox, upgrade) = (self.hands.clone(), self.inbox.clone(), upgrade.to_owned());
        self.tasks.spawn(async move {
            let failure = hands.carry_out(stages).await;
            // A closed inbox means that the operator has ended, and this batch with it.
            let _ = inbox.send(Message::Done { upgrade, failure });
        });
    }
}

fn upgrades(cluster: &Cluster) -> Vec<String> {
    let all = cluster.harvester.upgrades.in_namespace(drover_api::harvester::NAMESPACE);
    all.map(|upgrade| upgrade.metadata.name.clone()).collect()
}

/// What this process may not see: nothing is decided on less than all.
fn unseen(cluster: &Cluster) -> impl Iterator<Item = Trouble> {
    let forbidden = cluster.unseen.iter().filter(|unseen| unseen.cause == Cause::Forbidden && unseen.object.is_none());
    forbidden.map(|unseen| Trouble {
        reason: Reason::NoPermission,
        sentence: unseen.to_string(),
        remedy: Some(format!("grant the operator get, list and watch on {}", unseen.kind)),
        blind: true,
    })
}
