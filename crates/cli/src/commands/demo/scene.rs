//! The embedded cluster with all that acts on it: machines, a user who has written a Plan, and an operator.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::anyhow;
use drover_clock::Clock;
use drover_core::decision::Kind;
use drover_corral::apiserver::{ApiServer, Commit, Direct, Options};
use drover_corral::world::World;
use drover_operator::{Operator, OperatorOptions, Report};
use drover_sim::Scenario;
use drover_sim::scenario::NAMESPACE;
use jiff::Timestamp;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;

use super::picture::Sight;

const OPERATOR: &str = "operator";
const SEED: u64 = 1;
const WATCH_WINDOW: usize = 10_000;

/// Ends with its tasks when dropped.
#[derive(Debug)]
pub struct Scene {
    pub server: ApiServer,
    pub clock: Clock,
    pub started: Timestamp,
    pub user: Direct,
    /// Every write to a Plan, Node or Job.
    pub sights: UnboundedReceiver<Sight>,
    /// Every decision of the operator.
    pub reports: UnboundedReceiver<Report>,
    writes: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Scene {
    pub fn set(scenario: &Scenario, clock: Clock, latency: Duration) -> anyhow::Result<Self> {
        let server = ApiServer::new(Options { clock, seed: SEED, latency, watch_window: WATCH_WINDOW });
        let (seen, sights) = unbounded_channel();
        let writes = Arc::new(AtomicUsize::new(0));
        let counter = writes.clone();
        server.observe(Box::new(move |commit| {
            // Elections go on for ever and say nothing about the upgrade.
            if commit.actor == OPERATOR && commit.resource.kind != "Lease" {
                counter.fetch_add(1, Ordering::Relaxed);
            }
            if let Some(sight) = sight(commit) {
                // Whoever looked on may have stopped.
                let _ = seen.send(sight);
            }
        }));

        let user = server.direct("user");
        scenario
            .set_up(&user)
            .map_err(|status| anyhow!("the scenario {} cannot be set up: {}", scenario.name, status.message))?;
        let (reporting, reports) = unbounded_channel();
        let options = OperatorOptions::new(NAMESPACE, "drover-demo", clock);
        let operator = Operator::new(server.client(OPERATOR), options).reporting_to(reporting);
        let mut world = scenario.world();
        world.kubelet.job_duration = Duration::from_secs(scenario.job_seconds);
        let mut tasks = JoinSet::new();
        tasks.spawn(World::run(server.clone(), world));
        tasks.spawn(operator.run(std::future::pending()));
        Ok(Scene { server, clock, started: clock.now(), user, sights, reports, writes, _tasks: tasks })
    }

    /// How many writes the operator has made.
    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::Relaxed)
    }
}

fn sight(commit: &Commit<'_>) -> Option<Sight> {
    let kind = match commit.resource.kind.as_str() {
        "Plan" => Kind::Plan,
        "Node" => Kind::Node,
        "Job" => Kind::Job,
        _ => return None,
    };
    Some(Sight { at: commit.at, kind, name: commit.name.to_owned(), json: commit.after.map(|json| json.to_vec()) })
}
