//! The embedded cluster with all that acts on it: machines, a user who has written Plans, and an operator.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::bail;
use drover_clock::Clock;
use drover_core::decision::Kind;
use drover_corral::apiserver::{ApiServer, Commit, Options};
use drover_operator::Report;
use drover_sim::{Scenario, Stage, Terms};
use jiff::Timestamp;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::picture::Sight;

/// What the names of the simulated operators begin with.
const OPERATOR: &str = "operator";
const SEED: u64 = 1;
const WATCH_WINDOW: usize = 10_000;

/// Ends with its tasks when dropped.
#[derive(Debug)]
pub struct Scene {
    pub server: ApiServer,
    pub clock: Clock,
    pub started: Timestamp,
    pub stage: Stage,
    /// Every write to a Plan, Node or Job.
    pub sights: UnboundedReceiver<Sight>,
    /// Every decision of the operator.
    pub reports: UnboundedReceiver<Report>,
    writes: Arc<AtomicUsize>,
}

impl Scene {
    pub fn set(scenario: &Scenario, clock: Clock, latency: Duration) -> anyhow::Result<Self> {
        let server = ApiServer::new(Options { clock, seed: SEED, latency, watch_window: WATCH_WINDOW });
        let (seen, sights) = unbounded_channel();
        let writes = Arc::new(AtomicUsize::new(0));
        let counter = writes.clone();
        server.observe(Box::new(move |commit| {
            // Elections go on for ever and say nothing about the upgrade.
            if commit.actor.starts_with(OPERATOR) && commit.resource.kind != "Lease" {
                counter.fetch_add(1, Ordering::Relaxed);
            }
            if let Some(sight) = sight(commit) {
                // Whoever looked on may have stopped.
                let _ = seen.send(sight);
            }
        }));

        let (reporting, reports) = unbounded_channel();
        let stage = Stage::on(server.clone(), scenario, &Terms::calm(SEED), Some(reporting));
        if let Some(violation) = stage.violations().first() {
            bail!("{}: {}", scenario.name, violation.sentence);
        }
        Ok(Scene { server, clock, started: clock.now(), stage, sights, reports, writes })
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
