//! Starts operators, and others where they die.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use drover_api::plan::jobs::DROVER_IMAGE;
use drover_clock::Clock;
use drover_core::guest::Order as GuestOrder;
use drover_core::guest::tanzu::Settings;
use drover_core::harvester::Settings as HarvesterSettings;
use drover_core::planner;
use drover_operator::clusters::{Keeper, KeeperOptions};
use drover_operator::guest::{Clusters, ClustersOptions, update};
use drover_operator::harvester::HarvesterOptions;
use drover_operator::{ElectionOptions, Operator, OperatorOptions, Planner, PlannerOptions, Report};
use futures::FutureExt;
use futures::future::{OptionFuture, join, join_all};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::channel::ScriptedChannels;
use crate::gate::{Gate, Order};
use crate::guests::{Servers, SimulatedGuests};
use crate::scenario::Scenario;

/// A pod that dies is started again after this time.
const RESTART: Duration = Duration::from_secs(1);
/// The next pod of a Job that has failed comes after this time.
const NEXT_TRY: Duration = Duration::from_secs(10);
/// How often channels are asked; more often than in production, so that a run need not last for hours.
const POLL_INTERVAL: Duration = Duration::from_secs(60);
const LEASE: &str = "system-upgrade-controller";
const ANOTHER_LEASE: &str = "another-lease";

/// Where operators tell what they decide.
#[derive(Debug, Clone)]
pub struct Ears {
    pub reports: UnboundedSender<Report>,
    pub plans: UnboundedSender<planner::Write>,
}

pub struct Shift {
    gate: Gate,
    ears: Ears,
    alive: BTreeMap<String, Running>,
    started: usize,
    namespace: &'static str,
    harvester: Option<HarvesterOptions>,
    /// They plan the machines, too, as one process with both controllers does.
    plans_machines: bool,
    /// Guest clusters whose control planes are updated instead.
    updates: Vec<GuestOrder>,
    /// Their Clusters are left to the operators, which raise so many at once.
    keeps: Option<Option<usize>>,
    /// How TanzuKubernetesClusters are kept, and how many are updated at once.
    tanzu: Option<(Settings, Option<usize>)>,
    /// How guest clusters are reached.
    servers: Servers,
}

impl Shift {
    pub fn new(gate: Gate, ears: Ears, scenario: &Scenario, servers: Servers) -> Self {
        let orders = scenario.orders().filter_map(|order| order.inspect_err(|error| tracing::error!("{error}")).ok());
        let harvester = scenario.repositories(gate.server()).map(|repositories| HarvesterOptions {
            settings: HarvesterSettings { image: DROVER_IMAGE.to_owned() },
            repositories: Arc::new(repositories),
            // Simulated machines have no network.
            asks_machines: false,
        });
        Shift {
            gate,
            ears,
            alive: BTreeMap::new(),
            started: 0,
            namespace: scenario.namespace(),
            harvester,
            plans_machines: scenario.plans_machines(),
            tanzu: scenario.tanzu().map(|lines| (lines.settings(), scenario.guest_limit)),
            updates: orders.collect(),
            keeps: scenario.leaves_clusters().then_some(scenario.guest_limit),
            servers,
        }
    }

    pub async fn keep_operators_running(mut self, mut orders: UnboundedReceiver<Order>) {
        self.start(LEASE, self.gate.clock());
        while let Some(order) = orders.recv().await {
            match order {
                Order::Died { operator, clock_off, after } => {
                    let Some(running) = self.alive.remove(&operator) else { continue };
                    let lease = running.lease;
                    running.task.abort();
                    self.gate.clock().sleep(RESTART).await;
                    let right = self.gate.clock();
                    self.start(lease, if clock_off.is_zero() { right } else { right.stepping(after, clock_off) });
                }
                Order::Replace { operator } => {
                    let Some(running) = self.alive.remove(&operator) else { continue };
                    let lease = running.lease;
                    running.end().await;
                    self.start(lease, self.gate.clock());
                }
                Order::StandIn { operator } => {
                    let lease = self.alive.get(&operator).map_or(LEASE, |running| running.lease);
                    self.start(lease, self.gate.clock());
                }
                Order::Second if self.alive.values().all(|running| running.lease != ANOTHER_LEASE) => {
                    self.start(ANOTHER_LEASE, self.gate.clock());
                }
                Order::Second => {}
            }
        }
    }

    fn start(&mut self, lease: &'static str, clock: Clock) {
        self.started += 1;
        let name = format!("operator-{}", self.started);
        if !self.updates.is_empty() {
            return self.start_updates(lease, clock, name);
        }
        if let Some((settings, limit)) = self.tanzu.clone() {
            return self.keep_clusters(lease, clock, name, settings, limit);
        }
        let mut options = OperatorOptions::new(self.namespace, &name, clock);
        options.election = ElectionOptions::new(self.namespace, lease);
        options.harvester.clone_from(&self.harvester);
        options.poll_interval = POLL_INTERVAL;
        options.channels = Arc::new(ScriptedChannels(self.gate.server()));
        let operator = Operator::new(self.gate.client(&name), options).reporting_to(self.ears.reports.clone());
        let planner = self.plans_machines.then(|| {
            let mut options = PlannerOptions::new(&name, clock);
            options.election.name = lease.to_owned();
            Planner::new(self.gate.client(&name), options).reporting_to(self.ears.plans.clone())
        });
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = told_to_end(stopped).shared();
        let task = tokio::spawn(async move {
            let plans = planner.map(|planner| planner.run(stopped.clone()));
            join(operator.run(stopped.clone()), OptionFuture::from(plans)).await;
        });
        self.alive.insert(name, Running { task: Dying(task), stop, lease });
    }
}

impl Shift {
    fn guests(&self, operator: &str) -> SimulatedGuests {
        SimulatedGuests { gate: self.gate.clone(), servers: self.servers.clone(), operator: operator.to_owned() }
    }

    /// The controller of TanzuKubernetesClusters; what it begins runs in pods.
    fn keep_clusters(
        &mut self,
        lease: &'static str,
        clock: Clock,
        name: String,
        settings: Settings,
        limit: Option<usize>,
    ) {
        let guests = self.guests(&name);
        let mut options = ClustersOptions::new(&name, settings, Arc::new(guests), clock);
        options.limit = at_once(limit, options.limit);
        options.election.name = lease.to_owned();
        let clusters = Clusters::new(self.gate.client(&name), options);
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(clusters.run(told_to_end(stopped)));
        self.alive.insert(name, Running { task: Dying(task), stop, lease });
    }

    /// As Jobs do it: of each one try after the other, until one comes to its end.
    fn start_updates(&mut self, lease: &'static str, clock: Clock, name: String) {
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = told_to_end(stopped).shared();
        let keeper = self.keeps.map(|limit| {
            let mut options = KeeperOptions::new("default", &name, clock);
            options.limit = at_once(limit, options.limit);
            options.election.name = lease.to_owned();
            Keeper::new(self.gate.client(&name), options).run(stopped.clone())
        });
        let updates = self.updates.iter().map(|order| self.tries(clock, &name, order.clone()));
        let updates = join_all(updates.collect::<Vec<_>>());
        let task = tokio::spawn(async move {
            let updates = async {
                tokio::select! {
                    biased;
                    () = stopped => {}
                    _ = updates => {}
                }
            };
            join(updates, OptionFuture::from(keeper)).await;
        });
        self.alive.insert(name, Running { task: Dying(task), stop, lease });
    }

    fn tries(&self, clock: Clock, operator: &str, order: GuestOrder) -> impl Future<Output = ()> + Send + 'static {
        let (guests, client) = (self.guests(operator), self.gate.client(operator));
        async move {
            loop {
                let mut tell = |saying| guests.gate.hear_update(&saying);
                let done = update(client.clone(), &guests, clock, &order, &mut tell).await;
                guests.gate.hear_end(&done);
                if done.is_ok() {
                    return;
                }
                clock.sleep(NEXT_TRY).await;
            }
        }
    }
}

/// As many clusters as a scenario says, 0 for all, or as many as an operator takes by itself.
fn at_once(limit: Option<usize>, usual: Option<usize>) -> Option<usize> {
    limit.map_or(usual, |limit| Some(limit).filter(|limit| *limit > 0))
}

/// It is told to end, or never.
async fn told_to_end(stopped: oneshot::Receiver<()>) {
    if stopped.await.is_err() {
        std::future::pending::<()>().await;
    }
}

struct Running {
    task: Dying,
    stop: oneshot::Sender<()>,
    lease: &'static str,
}

impl Running {
    /// As on SIGTERM: it gives its Lease back.
    async fn end(mut self) {
        // It may have died before.
        let _ = self.stop.send(());
        let _ = (&mut self.task.0).await;
    }
}

/// Dies with its handle.
struct Dying(JoinHandle<()>);

impl Dying {
    fn abort(&self) {
        self.0.abort();
    }
}

impl Drop for Dying {
    fn drop(&mut self) {
        self.0.abort();
    }
}
