//! The loop: takes what the inbox brings, decides, sends the writes off.

pub(crate) mod desk;
mod outside;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use drover_api::marks::AFTER;
use drover_api::plan::labels::PLAN;
use drover_clock::{Clock, later};
use drover_core::decision::{Act, Decision, Kind, Purpose, Reason, Write};
use drover_core::plan::job::JobSettings;
use drover_core::plan::{GateSeen, Heard, Target, Trouble, View, decide, undo_orphaned_marks};
use drover_core::seen::{PlanSeen, Seen};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use self::desk::{Desk, LOOK_AT_ALL};
use crate::act::{Failure, Hands};
use crate::api::{Api, plural};
use crate::channels::{Channels, NoChannels};
use crate::election::{Candidate, ElectionOptions, resign};
use crate::harvester::{self, HarvesterOptions};
use crate::inbox::Message;
use crate::listening::follow;
use crate::presence::Presence;
use crate::store::Store;

/// How often a channel is asked unless somebody says otherwise.
const POLL_INTERVAL: Duration = Duration::from_secs(15 * 60);

const WATCHED: [Kind; 4] = [Kind::Plan, Kind::Node, Kind::Job, Kind::Secret];

#[derive(Debug, Clone)]
pub struct OperatorOptions {
    /// Plans, Jobs and Secrets of this namespace; Nodes have none.
    pub namespace: String,
    /// Unique to this process.
    pub identity: String,
    pub election: ElectionOptions,
    pub settings: JobSettings,
    /// How often a Plan's channel is asked.
    pub poll_interval: Duration,
    pub channels: Arc<dyn Channels>,
    /// The Node that this process runs on: Events on it tell that it has started.
    pub node: Option<String>,
    /// Plans are driven.
    pub plans: bool,
    /// Upgrades of Harvester are driven, too.
    pub harvester: Option<HarvesterOptions>,
    pub clock: Clock,
}

impl OperatorOptions {
    pub fn new(namespace: &str, identity: &str, clock: Clock) -> Self {
        let settings = JobSettings::default();
        OperatorOptions {
            namespace: namespace.to_owned(),
            identity: identity.to_owned(),
            election: ElectionOptions::new(namespace, &settings.controller),
            settings,
            poll_interval: POLL_INTERVAL,
            channels: Arc::new(NoChannels),
            node: None,
            plans: true,
            harvester: None,
            clock,
        }
    }
}

/// One thing that is decided on as a whole.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    Plan(String),
    /// Marks of Plans that are gone.
    Orphans,
}

/// A decision as it was taken, for whoever wants to follow along.
#[derive(Debug, Clone)]
pub struct Report {
    pub at: Timestamp,
    pub plan: String,
    pub decision: Decision,
}

/// One operator process.
pub struct Operator {
    api: Api,
    options: OperatorOptions,
    reports: Option<UnboundedSender<Report>>,
}

impl std::fmt::Debug for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operator").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Operator {
    pub fn new(client: Client, options: OperatorOptions) -> Self {
        Operator { api: Api::new(client, options.clock), options, reports: None }
    }

    /// Every decision is reported here, too.
    pub fn reporting_to(mut self, reports: UnboundedSender<Report>) -> Self {
        self.reports = Some(reports);
        self
    }

    /// Runs until `stop` ends, then gives the Lease back. Dropped before that, it ends as a crashed process would: no
    /// task of its own outlives it.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let (inbox, messages) = unbounded_channel();
        let mut tasks = JoinSet::new();
        let drives_plans = self.options.plans;
        for kind in WATCHED.into_iter().filter(|_| drives_plans) {
            tasks.spawn(follow(
                self.api.clone(),
                self.options.clock,
                kind,
                self.options.namespace.clone(),
                inbox.clone(),
            ));
        }
        let (drains, mut has_drains) = watch::channel(false);
        let pods = (self.api.clone(), self.options.clock, self.options.namespace.clone(), inbox.clone());
        tasks.spawn(async move {
            // Pods are many, and only drains say something on theirs. An error means that the operator has ended.
            if has_drains.wait_for(|any| *any).await.is_ok() {
                let (api, clock, namespace, inbox) = pods;
                follow(api, clock, Kind::Pod, namespace, inbox).await;
            }
        });
        let stands = self.options.election.stands;
        let (candidate, leading_until) = Candidate::new(
            self.api.clone(),
            self.options.clock,
            self.options.election.clone(),
            self.options.identity.clone(),
            inbox.clone(),
        );
        tasks.spawn(candidate.stand());
        if let Some(node) = self.options.node.clone() {
            let (controller, identity) = (self.options.settings.controller.clone(), self.options.identity.clone());
            let presence = Presence { controller, identity, node };
            tasks.spawn(tell_presence(presence, self.api.clone(), self.options.clock, stands, leading_until.clone()));
        }

        let (api, election, identity) =
            (self.api.clone(), self.options.election.clone(), self.options.identity.clone());
        let upgrades = self.options.harvester.clone().map(|options| {
            let told = self.reports.clone();
            harvester::drive(self.api.clone(), self.options.clock, options, leading_until.clone(), told)
        });
        let (ears, plain_status) = (Arc::new(inbox.clone()), Arc::default());
        let hands = Hands { api: self.api.clone(), ears, plain_status, leading_until };
        let engine = Engine::new(self, hands, inbox, drains);
        tokio::select! {
            biased;
            () = stop => {}
            () = engine.run(messages) => {}
            () = async { match upgrades {
                Some(upgrades) => upgrades.await,
                None => std::future::pending().await,
            } } => {}
        }
        drop(tasks);
        resign(&api, &election, &identity).await;
    }
}

async fn tell_presence(
    presence: Presence,
    api: Api,
    clock: Clock,
    stands: bool,
    mut leading_until: watch::Receiver<Option<Instant>>,
) {
    if stands {
        presence.starting(&api, clock.now()).await;
    }
    // An error means that the operator has ended before it led.
    if leading_until.wait_for(Option::is_some).await.is_ok() {
        presence.started(&api, clock.now()).await;
    }
}

struct Engine {
    options: OperatorOptions,
    reports: Option<UnboundedSender<Report>>,
    hands: Hands,
    inbox: UnboundedSender<Message>,
    store: Store,
    desks: BTreeMap<Work, Desk>,
    unseen: BTreeMap<Kind, (String, bool)>,
    /// What the channels of Plans have answered, by the names of the Plans.
    heard: BTreeMap<String, Heard>,
    /// The objects that gates are over, and who follows them.
    gates: BTreeMap<Target, GateSeen>,
    gatekeepers: BTreeMap<Target, AbortHandle>,
    leading: bool,
    /// Some Plan drains its nodes.
    drains: watch::Sender<bool>,
    look_at_all: Timestamp,
    batches: JoinSet<()>,
    questions: JoinSet<()>,
}

impl Engine {
    fn new(operator: Operator, hands: Hands, inbox: UnboundedSender<Message>, drains: watch::Sender<bool>) -> Self {
        Engine {
            look_at_all: operator.options.clock.now(),
            options: operator.options,
            reports: operator.reports,
            hands,
            inbox,
            store: Store::default(),
            desks: BTreeMap::new(),
            unseen: BTreeMap::new(),
            heard: BTreeMap::new(),
            gates: BTreeMap::new(),
            gatekeepers: BTreeMap::new(),
            leading: false,
            drains,
            batches: JoinSet::new(),
            questions: JoinSet::new(),
        }
    }

    async fn run(mut self, mut messages: UnboundedReceiver<Message>) {
        let clock = self.options.clock;
        loop {
            let next = self.next_look();
            tokio::select! {
                biased;
                message = messages.recv() => match message {
                    Some(message) => self.take(message),
                    None => return,
                },
                () = clock.sleep_until(next) => self.decide_what_is_due(),
            }
            // Ended batches are not kept.
            while self.batches.try_join_next().is_some() || self.questions.try_join_next().is_some() {}
        }
    }

    fn next_look(&self) -> Timestamp {
        let earliest = if self.may_decide() { self.desks.values().filter_map(Desk::due_at).min() } else { None };
        earliest.unwrap_or(Timestamp::MAX).min(self.look_at_all)
    }

    /// Only a leader decides, and only when every kind was seen once or is known to be out of sight.
    fn may_decide(&self) -> bool {
        let store = &self.store;
        let listed = [store.plans.listed, store.nodes.listed, store.jobs.listed, store.secrets.listed];
        self.leading && WATCHED.iter().zip(listed).all(|(kind, listed)| listed || self.unseen.contains_key(kind))
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Listed { kind, objects, resource_version } => {
                // A kind that may be listed and not watched is still out of sight: only an open watch ends that.
                self.store.replace(kind, objects, resource_version);
                self.wake_all();
            }
            Message::Changed(seen) => {
                let plan = plan_of(&seen);
                let is_plan = matches!(*seen, Seen::Plan(_));
                if self.store.apply(*seen) {
                    if let Some(plan) = plan.as_deref().filter(|_| is_plan) {
                        self.wake_those_who_mind(plan);
                    }
                    match plan {
                        Some(plan) => self.wake_one(Work::Plan(plan)),
                        None => self.wake_all(),
                    }
                }
            }
            Message::Gone { kind, name, uid, resource_version } => {
                self.store.forget(kind, &name, &uid, resource_version);
                self.wake_all();
            }
            Message::Missing { kind, name } => {
                self.store.bury(kind, &name);
                self.wake_all();
            }
            Message::Watching { kind } => {
                if self.unseen.remove(&kind).is_some() {
                    self.wake_all();
                }
            }
            Message::Unseen { kind, sentence, forbidden } => {
                if self.unseen.insert(kind, (sentence.clone(), forbidden)).is_none_or(|(told, _)| told != sentence) {
                    match forbidden {
                        true => tracing::warn!("{sentence}; {}", grant(kind)),
                        false => tracing::warn!("{sentence}"),
                    }
                }
                self.wake_all();
            }
            Message::Leading(leading) => {
                tracing::info!("{}", if leading { "leading" } else { "not leading" });
                self.leading = leading;
                if !leading {
                    // What is under way must not be followed up by a process that leads no longer.
                    self.batches.abort_all();
                    self.desks.values_mut().for_each(|desk| (desk.in_flight, desk.claiming) = (false, false));
                }
                self.wake_all();
            }
            Message::GateSeen { target, seen } => {
                // Nobody may be interested any more.
                if self.gatekeepers.contains_key(&target) {
                    self.gates.insert(target, seen);
                    self.wake_all();
                }
            }
            Message::Answered { plan, url, answer } => self.hear(plan, url, answer),
            Message::Done { work, failure } => self.finish(work, failure),
        }
    }

    fn wake_all(&mut self) {
        let gone = |work: &Work, desk: &Desk, store: &Store| match work {
            Work::Plan(name) => !desk.in_flight && !store.plans.by_name.contains_key(name),
            Work::Orphans => false,
        };
        self.desks.retain(|work, desk| !gone(work, desk, &self.store));
        self.heard.retain(|name, _| self.store.plans.by_name.contains_key(name));
        let plans: Vec<Work> = self.store.plans.by_name.keys().cloned().map(Work::Plan).collect();
        plans.into_iter().chain([Work::Orphans]).for_each(|work| self.wake_one(work));
    }

    /// Plans that come after others, or keep out of each other's way, wait for what only another Plan says.
    fn wake_those_who_mind(&mut self, plan: &str) {
        let minds = |other: &PlanSeen| {
            let is_exclusive = other.spec.as_ref().is_ok_and(|spec| spec.exclusive);
            other.meta.name != plan && (is_exclusive || other.meta.annotations.contains_key(AFTER))
        };
        let minding = self.store.plans.by_name.values().filter(|other| minds(other));
        let minding: Vec<Work> = minding.map(|other| Work::Plan(other.meta.name.clone())).collect();
        minding.into_iter().for_each(|work| self.wake_one(work));
    }

    fn wake_one(&mut self, work: Work) {
        self.desks.entry(work).or_default().wake(self.options.clock.now());
    }

    fn finish(&mut self, work: Work, failure: Option<Box<Failure>>) {
        let now = self.options.clock.now();
        self.desks.entry(work.clone()).or_default().end(failure, now);
        self.wake_one(work);
    }

    fn decide_what_is_due(&mut self) {
        let now = self.options.clock.now();
        if now >= self.look_at_all {
            self.look_at_all = later(now, LOOK_AT_ALL);
            self.wake_all();
        }
        if !self.may_decide() {
            return;
        }
        self.keep_gates();
        let is_due = |desk: &Desk| desk.due_at().is_some_and(|due| due <= now);
        let due: Vec<Work> = self.desks.iter().filter(|(_, desk)| is_due(desk)).map(|(work, _)| work.clone()).collect();
        for work in due {
            let stages = match &work {
                Work::Plan(name) => self.decide_plan(name, now),
                Work::Orphans => self.undo_orphans(),
            };
            self.send(work, stages, now);
        }
    }

    /// Decides for one Plan; what is to be looked at later goes to its desk.
    fn decide_plan(&mut self, name: &str, now: Timestamp) -> Vec<Vec<Write>> {
        let claiming = |(work, desk): (&Work, &Desk)| match work {
            Work::Plan(other) if desk.claiming => Some(other.clone()),
            _ => None,
        };
        let claiming = self.desks.iter().filter_map(claiming).collect();
        let desk = self.desks.entry(Work::Plan(name.to_owned())).or_default();
        desk.due = None;
        let Some(plan) = self.store.plans.by_name.get(name) else { return Vec::new() };
        if plan.spec.as_ref().is_ok_and(|spec| spec.drain.is_some()) {
            self.drains.send_if_modified(|any| !std::mem::replace(any, true));
        }
        let jobs = self.store.jobs.by_name.values();
        let is_of = |labels: &BTreeMap<String, String>| labels.get(PLAN).is_some_and(|plan| plan == name);
        let view = View {
            me: &self.options.identity,
            plan,
            nodes: &self.store.nodes.by_name,
            jobs: jobs.filter(|job| is_of(&job.meta.labels)).collect(),
            pods: self.store.pods.by_name.values().filter(|pod| is_of(&pod.meta.labels)).collect(),
            secrets: &self.store.secrets.by_name,
            settings: &self.options.settings,
            plans: &self.store.plans.by_name,
            claiming,
            channels: &self.heard,
            gates: &self.gates,
            poll_interval: SignedDuration::try_from(self.options.poll_interval).unwrap_or(SignedDuration::MAX),
            status_written: desk.status_written,
            trouble: trouble(desk, plan, &self.unseen),
        };
        let decision = decide(&view, now);
        desk.due = decision.look_again;
        desk.tell(&format!("plan {name}"), &decision.waits);
        if let Some(reports) = &self.reports {
            // Whoever followed along may have stopped.
            let _ = reports.send(Report { at: now, plan: name.to_owned(), decision: decision.clone() });
        }
        let mut stages = decision.stages;
        if stages.iter().flatten().any(|write| write.purpose == Purpose::RaiseEpoch) && !desk.may_raise(now) {
            stages.clear();
        }
        if let Some(question) = decision.ask {
            self.ask(name, question, now);
        }
        stages
    }

    fn undo_orphans(&mut self) -> Vec<Vec<Write>> {
        let desk = self.desks.entry(Work::Orphans).or_default();
        desk.due = None;
        let store = &self.store;
        if WATCHED.iter().any(|kind| self.unseen.contains_key(kind)) {
            return Vec::new();
        }
        let uids: BTreeSet<&str> = store.plans.by_name.values().map(|plan| plan.meta.uid.as_str()).collect();
        let jobs = store.jobs.by_name.values();
        vec![undo_orphaned_marks(&self.options.namespace, &uids, &store.nodes.by_name, jobs)]
    }

    fn send(&mut self, work: Work, stages: Vec<Vec<Write>>, now: Timestamp) {
        let desk = self.desks.entry(work.clone()).or_default();
        let stages = desk.without_told(stages);
        if stages.is_empty() {
            return;
        }
        desk.in_flight = true;
        desk.claiming = stages.iter().flatten().any(|write| write.purpose == Purpose::ClaimNodes);
        if stages.iter().flatten().any(|write| matches!(write.act, Act::PatchStatus(_))) {
            desk.status_written = Some(now);
        }
        let (hands, inbox) = (self.hands.clone(), self.inbox.clone());
        self.batches.spawn(async move {
            let failure = hands.carry_out(stages).await;
            // A closed inbox means that the operator has ended, and this batch with it.
            let _ = inbox.send(Message::Done { work, failure });
        });
    }
}

/// Which Plan an object is about; none if it may be about any.
fn plan_of(seen: &Seen) -> Option<String> {
    match seen {
        Seen::Plan(plan) => Some(plan.meta.name.clone()),
        Seen::Job(job) => job.meta.labels.get(PLAN).cloned(),
        Seen::Pod(pod) => pod.meta.labels.get(PLAN).cloned(),
        Seen::Node(_) | Seen::Secret(_) => None,
    }
}

/// What would let this process see a kind.
fn grant(kind: Kind) -> String {
    format!("grant the operator get, list and watch on {}", plural(kind))
}

/// What keeps this process from seeing or writing, in the words of a wait.
fn trouble(desk: &Desk, plan: &PlanSeen, unseen: &BTreeMap<Kind, (String, bool)>) -> Vec<Trouble> {
    let names_secrets = plan.spec.as_ref().is_ok_and(|spec| !spec.secrets.is_empty());
    // Pods only tell more about what is known without them.
    let matters = |kind: Kind| match kind {
        Kind::Secret => names_secrets,
        kind => kind != Kind::Pod,
    };
    let missed = unseen.iter().filter(|(kind, (_, forbidden))| *forbidden && matters(**kind));
    let seeing = missed.map(|(kind, (sentence, _))| Trouble {
        reason: Reason::NoPermission,
        sentence: sentence.clone(),
        remedy: Some(grant(*kind)),
        blind: true,
    });
    seeing.chain(desk.trouble()).collect()
}
