//! The planner of RKE2 clusters without Rancher: sees, decides with [`drover_core::planner`], acts.

mod store;

use std::collections::BTreeMap;
use std::time::Duration;

use drover_api::harvester::FLEET_NAMESPACE;
use drover_api::marks::FIELD_MANAGER;
use drover_api::rancher::provisioning_cluster::LOCAL;
use drover_clock::{Clock, later};
use drover_core::plan::job::JobSettings;
use drover_core::planner::{Act, Decision, Drained, Order, Purpose, View, Write, decide};
use jiff::Timestamp;
use kube::Client;
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use self::store::{Part, Store, place};
use crate::api::{Api, ApiError};
use crate::drain::{DrainOrder, Saying, drain};
use crate::election::{Candidate, ElectionOptions, resign};
use crate::engine::desk::{COALESCE, LOOK_AT_ALL, pause_after};
use crate::follow::{self, Listener};
use crate::head::Head;
use crate::inbox;

/// A drain that has failed is tried again after this time.
const DRAIN_AGAIN: Duration = Duration::from_secs(5);
/// Claims that another planner took are left to it for so long, and twice as long each time.
const RAISE_AGAIN: Duration = Duration::from_secs(30);
/// Pods are listed in pages of this size.
const CHUNK: usize = 500;

#[derive(Debug, Clone)]
pub struct PlannerOptions {
    /// Of the Clusters, the Machines and their Secrets.
    pub namespace: String,
    /// The one Cluster whose machines are planned.
    pub cluster: String,
    /// Unique to this process.
    pub identity: String,
    /// Drover's own image, for the Jobs that carry out plans where no agent does.
    pub image: String,
    pub election: ElectionOptions,
    pub clock: Clock,
}

impl PlannerOptions {
    pub fn new(identity: &str, clock: Clock) -> Self {
        PlannerOptions {
            namespace: FLEET_NAMESPACE.to_owned(),
            cluster: LOCAL.to_owned(),
            identity: identity.to_owned(),
            image: JobSettings::default().kubectl_image,
            election: ElectionOptions::new(FLEET_NAMESPACE, "drover-planner"),
            clock,
        }
    }
}

/// One planner process.
pub struct Planner {
    client: Client,
    options: PlannerOptions,
    reports: Option<UnboundedSender<Write>>,
}

impl std::fmt::Debug for Planner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Planner").field("options", &self.options).finish_non_exhaustive()
    }
}

enum News {
    Listed { part: Part, objects: Vec<String>, resource_version: u64 },
    Changed { part: Part, json: String },
    Gone { part: Part, name: String },
    Absent(Part),
    Drained { node: String, token: String, result: Result<(), String> },
}

impl Planner {
    pub fn new(client: Client, options: PlannerOptions) -> Self {
        Planner { client, options, reports: None }
    }

    /// Every write that is decided on is told here before it is made.
    #[must_use]
    pub fn reporting_to(mut self, reports: UnboundedSender<Write>) -> Self {
        self.reports = Some(reports);
        self
    }

    /// Runs until `stop` ends, then gives the Lease back. Dropped before that, it ends as a crashed process would.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let PlannerOptions { namespace, identity, election, clock, .. } = self.options.clone();
        let api = Api::new(self.client.clone(), clock);
        let (desk, news) = unbounded_channel();
        let mut tasks = JoinSet::new();
        for part in Part::ALL {
            let ear = Ear { part, to: desk.clone(), objects: Vec::new() };
            tasks.spawn(follow::follow(api.clone(), clock, part.collection(&namespace), ear));
        }
        let (inbox, turns) = unbounded_channel();
        let (candidate, leading_until) = Candidate::new(api.clone(), clock, election.clone(), identity.clone(), inbox);
        tasks.spawn(candidate.stand());
        let shift = Shift {
            client: self.client,
            api: api.clone(),
            options: self.options,
            reports: self.reports,
            desk,
            store: Store::default(),
            leading: false,
            leading_until,
            drains: BTreeMap::new(),
            tasks: JoinSet::new(),
            told: None,
            due: Timestamp::MAX,
            failures: 0,
            raised: 0,
            raise_again: Timestamp::MIN,
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

/// A drain of a node: what it is for, what came of it, and who runs it.
struct Drain {
    state: Drained,
    again: Timestamp,
    task: AbortHandle,
}

struct Shift {
    client: Client,
    api: Api,
    options: PlannerOptions,
    reports: Option<UnboundedSender<Write>>,
    desk: UnboundedSender<News>,
    store: Store,
    leading: bool,
    leading_until: watch::Receiver<Option<Instant>>,
    drains: BTreeMap<String, Drain>,
    tasks: JoinSet<()>,
    /// What was last said to be waited for.
    told: Option<String>,
    /// When to decide next.
    due: Timestamp,
    failures: u32,
    /// How often claims were taken over, and when that may be done again.
    raised: u32,
    raise_again: Timestamp,
}

impl Shift {
    async fn run(mut self, mut news: UnboundedReceiver<News>, mut turns: UnboundedReceiver<inbox::Message>) {
        let clock = self.options.clock;
        loop {
            tokio::select! {
                biased;
                // Whoever does not stand for election is told once that it leads.
                Some(turn) = turns.recv() => {
                    if let inbox::Message::Leading(leading) = turn {
                        self.lead(leading);
                    }
                }
                message = news.recv() => match message {
                    Some(message) => self.take(message),
                    None => return,
                },
                () = clock.sleep_until(self.due) => self.look().await,
            }
            while self.tasks.try_join_next().is_some() {}
        }
    }

    fn lead(&mut self, leading: bool) {
        tracing::info!("the planner is {}", if leading { "leading" } else { "not leading" });
        self.leading = leading;
        (self.raised, self.raise_again) = (0, Timestamp::MIN);
        if !leading {
            self.end_drains(&BTreeMap::new());
        }
        self.wake();
    }

    fn wake(&mut self) {
        self.due = self.due.min(later(self.options.clock.now(), COALESCE));
    }

    fn take(&mut self, message: News) {
        match message {
            News::Listed { part, objects, resource_version } => self.store.replace(part, objects, resource_version),
            News::Changed { part, json } => self.store.apply(part, json.as_bytes()),
            News::Gone { part, name } => self.store.forget(part, &name),
            News::Absent(part) => self.store.note_absent(part),
            News::Drained { node, token, result } => {
                if let Err(error) = &result {
                    tracing::warn!("Node {node} is not drained: {error}");
                }
                if let Some(drain) = self.drains.get_mut(&node).filter(|drain| drain.state.token == token) {
                    drain.state.result = Some(result);
                    drain.again = later(self.options.clock.now(), DRAIN_AGAIN);
                }
            }
        }
        self.wake();
    }

    async fn look(&mut self) {
        let now = self.options.clock.now();
        self.due = later(now, LOOK_AT_ALL);
        if !self.leading || !self.store.is_whole() {
            return;
        }
        if let Some(who) = self.store.incumbent() {
            self.tell(Some(format!("AnotherControllerActs: {who} plans these machines; nothing is written beside it")));
            return self.end_drains(&BTreeMap::new());
        }
        let Some(decision) = self.decide(now) else { return };
        let raises = decision.writes.iter().any(|write| write.purpose == Purpose::RaiseEpoch);
        if raises && !self.may_raise(now) {
            return self.end_drains(&BTreeMap::new());
        }
        self.tell(decision.waits_for.clone());
        self.end_drains(&decision.drains);
        for (node, order) in decision.drains {
            self.drain(node, order, now);
        }
        self.carry_out(decision.writes).await;
    }

    /// Another planner that acts at the same time takes the claims over, too: whoever lost them leaves it some time to do
    /// something with them, and more each time.
    fn may_raise(&mut self, now: Timestamp) -> bool {
        if now < self.raise_again {
            self.due = self.due.min(self.raise_again);
            return false;
        }
        self.raise_again = later(now, RAISE_AGAIN.saturating_mul(1 << self.raised.min(6)));
        self.raised += 1;
        true
    }

    fn decide(&self, now: Timestamp) -> Option<Decision> {
        let name = &self.options.cluster;
        let drains = self.drains.iter().map(|(node, drain)| (node.clone(), drain.state.clone())).collect();
        let view = View {
            identity: &self.options.identity,
            cluster: self.store.clusters.get(name)?,
            control_plane: self.store.control_planes.get(name)?,
            capi: self.store.capi_clusters.get(name),
            machines: &self.store.machines,
            secrets: &self.store.secrets,
            nodes: &self.store.nodes,
            jobs: &self.store.jobs,
            pods: &self.store.pods,
            image: &self.options.image,
            drains: &drains,
        };
        Some(decide(&view, now))
    }

    fn tell(&mut self, waits_for: Option<String>) {
        if self.told != waits_for {
            match &waits_for {
                Some(sentence) => tracing::info!("waiting: {sentence}"),
                None => tracing::info!("all machines have what their cluster asks for"),
            }
            self.told = waits_for;
        }
    }

    /// One after another; what one is answered with, the next decision knows.
    async fn carry_out(&mut self, writes: Vec<Write>) {
        for write in writes {
            if self.leading_until.borrow().is_none_or(|until| Instant::now() >= until) {
                return;
            }
            if let Some(reports) = &self.reports {
                // Whoever listened may have stopped.
                let _ = reports.send(write.clone());
            }
            if let Err(error) = self.write(&write).await {
                tracing::warn!("cannot {:?} {:?}: {error}", write.purpose, write.target);
                self.failures += 1;
                self.due = later(self.options.clock.now(), pause_after(self.failures));
                return;
            }
            self.failures = 0;
            self.wake();
        }
    }

    async fn write(&mut self, write: &Write) -> Result<(), ApiError> {
        let (part, path, subresource) = place(&write.target, &self.options.namespace, &self.options.cluster);
        let manager = format!("fieldManager={FIELD_MANAGER}");
        let answer = match &write.act {
            Act::Patch(patch) => self.api.patch(&format!("{path}{subresource}?{manager}"), patch).await,
            Act::Create(object) => {
                self.api.post(&format!("{}?{manager}", part.path(&self.options.namespace)), object).await
            }
            Act::Delete { uid } => {
                // One that is gone has no pod at work any more: it goes after them.
                let options = json!({
                    "apiVersion": "v1", "kind": "DeleteOptions",
                    "propagationPolicy": "Foreground", "preconditions": { "uid": uid },
                });
                self.api.delete(&path, &options).await
            }
        };
        match answer {
            Ok(body) => {
                tracing::info!("{:?} {:?}", write.purpose, write.target);
                self.store.apply(part, &body);
                Ok(())
            }
            Err(error) => {
                // Whoever lost a race reads at once what the other wrote.
                if matches!(error.code(), Some(404 | 409))
                    && let Ok(body) = self.api.get(&path).await
                {
                    self.store.apply(part, &body);
                }
                Err(error)
            }
        }
    }

    /// Ends the drains that are no longer asked for.
    fn end_drains(&mut self, wanted: &BTreeMap<String, Order>) {
        self.drains.retain(|node, drain| {
            let stays = wanted.get(node).is_some_and(|order| order.token == drain.state.token);
            if !stays {
                drain.task.abort();
            }
            stays
        });
    }

    /// Sees to it that a node is being drained.
    fn drain(&mut self, node: String, order: Order, now: Timestamp) {
        match self.drains.get(&node).map(|drain| (&drain.state.result, drain.again)) {
            Some((None | Some(Ok(())), _)) => return,
            Some((Some(Err(_)), again)) if now < again => {
                self.due = self.due.min(again);
                return;
            }
            _ => {}
        }
        let (client, clock, desk) = (self.client.clone(), self.options.clock, self.desk.clone());
        let (token, name) = (order.token.clone(), node.clone());
        let task = self.tasks.spawn(async move {
            let order = DrainOrder {
                node: name.clone(),
                options: order.options,
                pod_selector: String::new(),
                chunk_size: CHUNK,
                wait_for_volumes: false,
                dry_run: false,
                own_pod: None,
            };
            let mut say = |saying: Saying| {
                if let Saying::Waits(waits) = saying {
                    waits.iter().for_each(|wait| tracing::info!("drain of Node {name}: {}", wait.sentence));
                }
            };
            let result = drain(client, clock, &order, &mut say).await.map_err(|error| error.to_string());
            // A closed desk means that the planner has ended.
            let _ = desk.send(News::Drained { node: order.node.clone(), token, result });
        });
        self.drains.insert(node, Drain { state: Drained { token: order.token, result: None }, again: now, task });
    }
}

/// Tells of the objects of a kind.
struct Ear {
    part: Part,
    to: UnboundedSender<News>,
    /// Of a list that is not whole yet.
    objects: Vec<String>,
}

impl Ear {
    fn tell(&self, news: News) {
        // A closed desk means that the planner has ended, and this with it.
        let _ = self.to.send(news);
    }
}

impl Listener for Ear {
    fn begin(&mut self) {
        self.objects.clear();
    }

    fn item(&mut self, json: &str) {
        self.objects.push(json.to_owned());
    }

    fn listed(&mut self, resource_version: u64) {
        let objects = std::mem::take(&mut self.objects);
        self.tell(News::Listed { part: self.part, objects, resource_version });
    }

    fn watching(&mut self) {}

    fn changed(&mut self, json: &str) -> Option<u64> {
        let head = Head::of(json.as_bytes())?;
        self.tell(News::Changed { part: self.part, json: json.to_owned() });
        Some(head.revision())
    }

    fn gone(&mut self, json: &str) -> Option<u64> {
        let head = Head::of(json.as_bytes())?;
        let revision = head.revision();
        self.tell(News::Gone { part: self.part, name: head.name });
        Some(revision)
    }

    fn unseen(&mut self, error: &ApiError) {
        tracing::warn!("the planner cannot watch {:?}: {error}", self.part);
        if error.code() == Some(404) {
            self.tell(News::Absent(self.part));
        }
    }

    fn is_closed(&self) -> bool {
        self.to.is_closed()
    }
}
