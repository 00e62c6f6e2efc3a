//! What stands between the operators and the API server: here faults happen to requests and to their answers.

mod asked;
mod body;
mod exchange;
mod webhook;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use drover_clock::{Clock, later};
use drover_core::decision::Purpose;
use drover_core::planner;
use drover_corral::apiserver::ApiServer;
use drover_operator::harvester::steps::Saying;
use drover_operator::{Report, guest};
use http::request::Parts;
use http::{Request, Response};
use http_body_util::BodyExt;
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tower::Service;

pub use self::asked::{Asked, Decided, Tally};
use self::body::GatedBody;
pub use self::body::Rewrite;
use self::exchange::{Exchange, refusal, request};
use crate::acts;
use crate::campaign::reach;
use crate::faults::{Fault, Incident, Mishap, Moment, Turn};
use crate::guests::{Servers, SimulatedGuests};
use crate::programs::Way;
use crate::record::Record;
use crate::sabotage::Sabotage;

/// How long an operator is suspended, the server away, a right lacking.
const A_MINUTE: Duration = Duration::from_secs(60);
const LAG: Duration = Duration::from_secs(20);
const STALE: Duration = Duration::from_secs(5);
/// How far off the clock of a successor can be.
const AN_HOUR: SignedDuration = SignedDuration::from_hours(1);
/// How long it shows the right time, if it is set then.
const IN_A_MOMENT: Duration = Duration::from_secs(10);
/// So often it happens in one run, where something happens at each write that meets a new state: should a new state come of it every time,
/// nothing would come to its end.
const MOST_TIMES: usize = 1000;

/// What the operators decide, and who else is told.
#[derive(Debug)]
pub struct Heard {
    pub reports: UnboundedReceiver<Report>,
    /// What they decide where they plan machines.
    pub planned: UnboundedReceiver<planner::Write>,
    pub audience: Option<UnboundedSender<Report>>,
}

/// What becomes of the operators.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// It has died; the clock of its successor is that much off when it has run for so long.
    Died { operator: String, clock_off: SignedDuration, after: Duration },
    /// It is told to end; another one starts.
    Replace { operator: String },
    /// One more starts, and leads at the same time.
    Second,
    /// One more starts, which leads when this one does no longer.
    StandIn { operator: String },
}

/// What the operators' requests meet, shared by all of them.
#[derive(Clone)]
pub struct Gate {
    server: ApiServer,
    clock: Clock,
    shared: Arc<Mutex<Shared>>,
    orders: UnboundedSender<Order>,
    sabotage: Option<Sabotage>,
    record: Arc<Mutex<Record>>,
    passenger: Passenger,
    /// The servers of guest clusters, where things happen as well.
    guests: Servers,
}

/// Whose requests pass.
#[derive(Clone)]
enum Passenger {
    /// Its writes are counted: faults happen to them.
    Operator,
    /// A program in a pod, which is told here when it has died. It dies at its own writes, where a fault says so; of the faults that happen
    /// to operators it meets those of the server.
    Program(UnboundedSender<()>),
}

struct Shared {
    /// What has not happened yet.
    incidents: Vec<Incident>,
    /// What happens to the next write.
    next: Vec<Fault>,
    writes: usize,
    /// How operators die at each write that meets a new state, where they do.
    dying: Option<Again<Fault>>,
    /// What happens to programs in pods, at each write of theirs that meets a new state.
    to_programs: Option<Again<Mishap>>,
    /// How many writes were made for each purpose, to which object; for moments.
    purposes_met: BTreeMap<String, usize>,
    held: Vec<Held>,
    /// Operators that are suspended until then.
    frozen: BTreeMap<String, Timestamp>,
    /// The server is away until then.
    away: Option<Timestamp>,
    /// Until when watches lag, by plural; without one: all of them.
    lagging: BTreeMap<Option<&'static str>, Timestamp>,
    forbidden: Option<(Forbidden, Timestamp)>,
    /// The lists that operators have asked for.
    listed: BTreeSet<String>,
    /// What lists are answered with, until then.
    stale: Option<(Lists, Timestamp)>,
    /// Until when what went wrong goes on.
    troubled_until: Timestamp,
    heard: Heard,
    decided: Decided,
    purposes: Tally,
    reasons: Tally,
}

/// What happens again and again, wherever a write meets a new state.
struct Again<T> {
    what: T,
    /// In which states it happens; none: in all.
    turn: Option<Turn>,
    /// The states in which it has, and what was about to be written.
    met: BTreeSet<(u64, String)>,
}

impl<T: Clone> Again<T> {
    fn of(what: T, turn: Option<Turn>) -> Self {
        Again { what, turn, met: BTreeSet::new() }
    }

    /// What happens to a write that meets this state, if it does.
    fn strikes(&mut self, meeting: (u64, String)) -> Option<T> {
        let is_due = self.met.len() < MOST_TIMES && self.turn.is_none_or(|turn| turn.has(&meeting));
        (is_due && self.met.insert(meeting)).then(|| self.what.clone())
    }
}

/// What a server does with requests at this moment.
pub type Mannered = Arc<dyn Fn() -> Manner + Send + Sync>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    Answers,
    Refuses,
    /// It takes them, and answers none.
    Silent,
}

/// Answers to lists, by what was asked.
type Lists = BTreeMap<String, Bytes>;

#[derive(PartialEq)]
struct Forbidden {
    method: http::Method,
    plural: String,
    subresource: String,
}

struct Held {
    server: ApiServer,
    lands_at: Option<usize>,
    head: Parts,
    body: Bytes,
    operator: String,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}

impl Gate {
    pub fn new(
        server: ApiServer,
        incidents: Vec<Incident>,
        orders: UnboundedSender<Order>,
        heard: Heard,
        sabotage: Option<Sabotage>,
        record: Arc<Mutex<Record>>,
        guests: Servers,
    ) -> Self {
        let clock = server.clock();
        let shared = Shared {
            incidents,
            next: Vec::new(),
            writes: 0,
            dying: None,
            to_programs: None,
            purposes_met: BTreeMap::new(),
            held: Vec::new(),
            frozen: BTreeMap::new(),
            away: None,
            lagging: BTreeMap::new(),
            forbidden: None,
            listed: BTreeSet::new(),
            stale: None,
            troubled_until: clock.now(),
            heard,
            decided: Decided::default(),
            purposes: Tally::new(),
            reasons: Tally::new(),
        };
        let (shared, passenger) = (Arc::new(Mutex::new(shared)), Passenger::Operator);
        Gate { server, clock, shared, orders, sabotage, record, passenger, guests }
    }

    /// The way of a program in a pod. It leads to guest clusters, too, where there are any.
    pub fn way(&self, actor: &str, guests: Option<Servers>) -> Way {
        let (deaths, mut died) = unbounded_channel();
        let gate = Gate { passenger: Passenger::Program(deaths), ..self.clone() };
        let client = gate.client(actor);
        let died = Box::pin(async move {
            // Nobody tells any more.
            if died.recv().await.is_none() {
                std::future::pending::<()>().await;
            }
        });
        let updates = guests
            .map(|servers| SimulatedGuests { gate, servers, operator: "control-plane-upgrade".to_owned() }.updates());
        Way { client, updates, died }
    }

    /// What is planted.
    pub fn sabotage(&self) -> Option<Sabotage> {
        self.sabotage
    }

    /// A client whose requests pass this gate.
    pub fn client(&self, operator: &str) -> kube::Client {
        self.client_of(&self.server, operator, Arc::new(|| Manner::Answers))
    }

    /// The same for another server, whose manner changes.
    pub fn client_of(&self, server: &ApiServer, operator: &str, manner: Mannered) -> kube::Client {
        let (gate, operator) = (self.clone(), operator.to_owned());
        kube::Client::new(GatedService { gate, server: server.clone(), operator, manner }, "default")
    }

    pub fn server(&self) -> ApiServer {
        self.server.clone()
    }

    pub fn clock(&self) -> Clock {
        self.clock
    }

    pub fn writes(&self) -> usize {
        self.shared().writes
    }

    /// What is to happen at a write that has not been made so far.
    pub fn still_to_come(&self) -> Vec<Incident> {
        self.shared().incidents.clone()
    }

    /// Until when what went wrong goes on; the past if all of it is over.
    pub fn troubled_until(&self) -> Timestamp {
        self.shared().troubled_until
    }

    /// What was decided, and what happened, so far.
    pub fn tallies(&self) -> (Tally, Tally) {
        let mut shared = self.shared();
        shared.hear();
        (std::mem::take(&mut shared.purposes), std::mem::take(&mut shared.reasons))
    }

    /// Counts what a program inside a Job decides: it writes by itself, and no operator decides on that.
    pub fn hear_program(&self, saying: &Saying) {
        let mut shared = self.shared();
        match saying {
            Saying::Waits(waits) => {
                for wait in waits {
                    *shared.reasons.entry(wait.reason.to_string()).or_default() += 1;
                }
            }
            Saying::Writes(purpose, _) if Purpose::OF_UPGRADES.contains(purpose) => {
                *shared.purposes.entry(format!("{purpose:?}")).or_default() += 1;
            }
            Saying::Writes(..) | Saying::Does(_) => {}
        }
    }

    /// Counts what the update of a control plane waits for.
    pub fn hear_update(&self, saying: &guest::Saying) {
        if let guest::Saying::Waits(waits) = saying {
            waits.iter().for_each(|wait| self.count_reason(reach::of_control_plane(wait.reason)));
        }
    }

    /// The same of what it has failed with.
    pub fn hear_end(&self, result: &Result<(), guest::UpdateError>) {
        if let Err(guest::UpdateError::Failed(failure)) = result {
            self.count_reason(reach::of_control_plane(failure.reason));
        }
    }

    fn count_reason(&self, name: String) {
        *self.shared().reasons.entry(name).or_default() += 1;
    }

    /// Lets every write go that was held back, wherever it was to land.
    pub async fn land_all(&self) -> usize {
        let held = std::mem::take(&mut self.shared().held);
        let count = held.len();
        for held in held {
            self.land(held).await;
        }
        count
    }

    async fn land(&self, held: Held) {
        self.trouble(Duration::ZERO);
        let what = format!("{} {}", held.head.method, held.head.uri.path());
        // Nobody is left to read the answer, but for those who read the story.
        let Ok(answer) = held.server.service(&held.operator).call(request(held.head, held.body)).await;
        let (now, code) = (self.clock.now(), answer.status().as_u16());
        self.record().story.fault(now, format!("what {} was about to send arrives: {what}: {code}", held.operator));
    }

    /// Lets something go wrong now; what is done to a write is done to the next one.
    pub async fn happen(&self, fault: &Fault) {
        if fault.is_done_to_a_write() {
            self.shared().next.push(fault.clone());
            return;
        }
        self.tell(fault);
        self.trouble(acts::lasts(fault));
        match fault {
            Fault::SecondLeader => self.order(Order::Second),
            fault => acts::perform(fault, &self.server, &self.guests).await,
        }
    }

    /// Until when an operator hears nothing of a kind: its watch lags, or it is suspended itself.
    pub(super) fn deaf_until(&self, operator: &str, plural: &str) -> Option<Timestamp> {
        let now = self.clock.now();
        let shared = self.shared();
        let lags = shared.lagging.iter().filter(|(kind, _)| kind.is_none_or(|kind| kind == plural));
        let frozen = shared.frozen.get(operator);
        lags.map(|(_, until)| until).chain(frozen).max().copied().filter(|until| *until > now)
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, fault: &Fault) {
        let now = self.clock.now();
        self.record().story.fault(now, fault.to_string());
    }

    /// Something goes wrong, and goes on for this long.
    fn trouble(&self, lasts: Duration) {
        let until = later(self.clock.now(), lasts);
        let mut shared = self.shared();
        shared.troubled_until = shared.troubled_until.max(until);
    }

    fn order(&self, order: Order) {
        // The run may be over.
        let _ = self.orders.send(order);
    }

    fn hold(&self, lands_after: Option<usize>, server: ApiServer, head: Parts, body: Bytes, operator: &str) {
        let mut shared = self.shared();
        let lands_at = lands_after.map(|count| shared.writes + count);
        shared.held.push(Held { server, lands_at, head, body, operator: operator.to_owned() });
    }

    async fn pass(&self, server: ApiServer, operator: String, request: Request<Body>) -> Response<GatedBody> {
        let thawed = self.shared().frozen.get(&operator).copied();
        if let Some(thawed) = thawed {
            self.clock.sleep_until(thawed).await;
        }
        if self.shared().away.is_some_and(|until| self.clock.now() < until) {
            return refusal(503);
        }
        let (head, body) = request.into_parts();
        let Ok(body) = body.collect_bytes().await else { return refusal(500) };
        let asked = Asked::of(&head, &body);
        // The rights of programs are others.
        if matches!(self.passenger, Passenger::Operator) && self.is_forbidden(&asked) {
            return refusal(403);
        }
        let exchange = Exchange { gate: self, inner: server.service(&operator), server, operator, head, body, asked };
        if exchange.asked.is_read() { exchange.read().await } else { exchange.write().await }
    }

    fn is_forbidden(&self, asked: &Asked) -> bool {
        let now = self.clock.now();
        let what = Forbidden {
            method: asked.method.clone(),
            plural: asked.plural.clone(),
            subresource: asked.subresource.clone(),
        };
        self.shared().forbidden.as_ref().is_some_and(|(forbidden, until)| *forbidden == what && now < *until)
    }

    fn forbid(&self, asked: &Asked) {
        let until = later(self.clock.now(), A_MINUTE);
        let what = Forbidden {
            method: asked.method.clone(),
            plural: asked.plural.clone(),
            subresource: asked.subresource.clone(),
        };
        self.shared().forbidden = Some((what, until));
    }

    /// What all lists of the cluster in which the operators run say now, as they will be answered for a while.
    async fn freeze_lists(&self, operator: &str) {
        let listed = self.shared().listed.clone();
        let mut lists = Lists::new();
        for list in listed {
            let Ok(request) = Request::get(&list).body(Body::empty()) else { continue };
            let Ok(answer) = self.server.service(operator).call(request).await;
            let Ok(collected) = answer.into_body().collect().await;
            lists.insert(list, collected.to_bytes());
        }
        self.shared().stale = Some((lists, later(self.clock.now(), STALE + Duration::from_secs(1))));
    }

    /// What this list is answered with instead of what it would say now.
    fn stale_list(&self, list: &str) -> Option<Bytes> {
        let now = self.clock.now();
        let mut shared = self.shared();
        // Further pages follow from the first.
        if !list.contains("continue=") {
            shared.listed.insert(list.to_owned());
        }
        let (lists, until) = shared.stale.as_ref()?;
        if now < *until { lists.get(list).cloned() } else { None }
    }
}

impl Shared {
    /// Takes in what was decided since.
    fn hear(&mut self) {
        while let Ok(write) = self.heard.planned.try_recv() {
            self.decided.remember_planned(write);
        }
        while let Ok(report) = self.heard.reports.try_recv() {
            for write in report.decision.writes() {
                self.decided.remember(write);
            }
            for wait in &report.decision.waits {
                *self.reasons.entry(wait.reason.to_string()).or_default() += 1;
            }
            if let Some(audience) = &self.heard.audience {
                // Whoever looked on may have stopped.
                let _ = audience.send(report);
            }
        }
    }

    /// What becomes of an operator that is about to write in this state, where they die again and again.
    fn dies_again(&mut self, faults: &mut Vec<Fault>, meeting: (u64, String)) {
        faults.retain(|fault| {
            let (fault, turn) = match fault {
                Fault::Programs(mishap) => {
                    self.to_programs = Some(Again::of(*mishap, None));
                    return false;
                }
                Fault::CrashesBefore => (Fault::CrashBefore, None),
                Fault::CrashesAfter => (Fault::CrashAfter, None),
                Fault::CrashesInTurn(turn) if turn.after => (Fault::CrashAfter, Some(*turn)),
                Fault::CrashesInTurn(turn) => (Fault::CrashBefore, Some(*turn)),
                _ => return true,
            };
            self.dying = Some(Again::of(fault, turn));
            false
        });
        faults.extend(self.dying.as_mut().and_then(|dying| dying.strikes(meeting)));
    }

    /// Counts one write; tells what happens to it, and the held writes that land before it.
    fn next_write(&mut self, asked: &Asked) -> (String, Vec<Fault>, Vec<Held>) {
        self.hear();
        self.writes += 1;
        let number = self.writes;
        let purpose = self.decided.purpose(asked);
        *self.purposes.entry(purpose.clone()).or_default() += 1;
        if asked.plural == "tanzukubernetesclusters" {
            let waits = asked.body["status"]["waits"].as_array().into_iter().flatten();
            for reason in waits.filter_map(|wait| wait["reason"].as_str()) {
                *self.reasons.entry(reach::of_cluster(reason)).or_default() += 1;
            }
        }
        if let Some(stand) = left(asked) {
            *self.reasons.entry(reach::of_left(&stand)).or_default() += 1;
        }
        let object = format!("{purpose} {}/{}/{}", asked.kind(), asked.namespace, asked.name);
        let met = *self.purposes_met.entry(object).and_modify(|count| *count += 1).or_insert(1);
        let all = self.purposes.get(&purpose).copied().unwrap_or(1);
        let is_now = |incident: &Incident| match &incident.at {
            Moment::Write(at) => *at == number,
            Moment::Purpose(moment) => {
                let on = moment.on.as_ref();
                let is_it = on.is_none_or(|on| on.covers(asked.kind(), &asked.namespace, &asked.name));
                let named = on.is_some_and(|on| !on.name.contains('*'));
                moment.is == purpose && is_it && moment.nth == if named { met } else { all }
            }
            Moment::Time(_) | Moment::Once(_) => false,
        };
        let mut faults = std::mem::take(&mut self.next);
        let (now, rest) = std::mem::take(&mut self.incidents).into_iter().partition(is_now);
        self.incidents = rest;
        faults.extend(Vec::into_iter(now).map(|incident: Incident| incident.what));
        let held = std::mem::take(&mut self.held);
        let (due, rest) = held.into_iter().partition(|held| held.lands_at.is_some_and(|at| at <= number));
        self.held = rest;
        (purpose, faults, due)
    }
}

/// Where an operator says that a Cluster stands which was left to it.
fn left(asked: &Asked) -> Option<String> {
    let text = asked.body["metadata"]["annotations"]["drover.dev/progress"].as_str()?;
    let said: Value = serde_json::from_str(text).ok()?;
    said["stand"].as_str().filter(|_| asked.plural == "clusters").map(str::to_owned)
}

#[derive(Clone)]
struct GatedService {
    gate: Gate,
    server: ApiServer,
    operator: String,
    manner: Mannered,
}

impl Service<Request<Body>> for GatedService {
    type Response = Response<GatedBody>;
    type Error = std::convert::Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (gate, server, operator) = (self.gate.clone(), self.server.clone(), self.operator.clone());
        let manner = self.manner.clone();
        Box::pin(async move {
            Ok(match manner() {
                Manner::Answers => gate.pass(server, operator, request).await,
                Manner::Refuses => refusal(503),
                Manner::Silent => std::future::pending().await,
            })
        })
    }
}
