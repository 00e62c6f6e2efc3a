//! A demonstration that is told line by line: what changes in the objects that matter, when it does.

use std::time::Duration;

use anyhow::bail;
use drover_clock::{between, later};
use drover_corral::apiserver::{ApiServer, Options};
use drover_sim::{Scenario, Stage, Terms};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc::unbounded_channel;

use super::screen::clock_time;
use super::{DemoArgs, Pace};
use crate::args::Format;
use crate::output::print;

const SEED: u64 = 1;
const WATCH_WINDOW: usize = 10_000;
/// How often it is looked whether it is over.
const LOOK: Duration = Duration::from_secs(1);
/// No scenario takes longer on the cluster's clock.
const LONGEST: Duration = Duration::from_secs(4 * 3600);

/// One object as it was written, or that it is gone.
#[derive(Debug)]
pub struct Sight {
    at: Timestamp,
    pub kind: String,
    pub name: String,
    pub object: Option<Value>,
}

/// What was told so far.
pub trait Picture {
    /// The kinds that it is made of.
    const KINDS: &'static [&'static str];

    /// What is new, a line each.
    fn see(&mut self, sight: &Sight) -> Vec<String>;
}

/// How it went. The names are part of the interface: scripts read them.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Course {
    /// How long it took on the cluster's clock.
    pub virtual_seconds: f64,
    pub writes: usize,
    pub unmet: Vec<String>,
    pub violations: Vec<String>,
}

impl Course {
    /// Whether it went as it must.
    pub fn judge(&self, scenario: &Scenario) -> anyhow::Result<()> {
        match self.violations.first().or(self.unmet.first()) {
            Some(wrong) => bail!("the scenario {} did not go as it must: {wrong}", scenario.name),
            None => Ok(()),
        }
    }

    /// How long it took, in words.
    pub fn took(&self) -> String {
        clock_time(Duration::from_secs_f64(self.virtual_seconds))
    }
}

pub fn is_text(format: Option<Format>) -> bool {
    matches!(format, None | Some(Format::Table))
}

/// Lets a scenario happen, and tells of it. `title` comes first.
pub async fn tell<P: Picture>(
    (args, scenario, pace): (&DemoArgs, &Scenario, Pace),
    format: Option<Format>,
    stopped: impl Future<Output = ()>,
    title: &str,
    picture: &mut P,
) -> anyhow::Result<Course> {
    let clock = pace.clock();
    let server = ApiServer::new(Options { clock, seed: SEED, latency: pace.latency(), watch_window: WATCH_WINDOW });
    let (seen, mut sights) = unbounded_channel();
    server.observe(Box::new(move |commit| {
        let kind = commit.resource.kind.as_str();
        if P::KINDS.contains(&kind) {
            let object = commit.after.and_then(|json| serde_json::from_slice::<Value>(json).ok());
            let sight = Sight { at: commit.at, kind: kind.to_owned(), name: commit.name.to_owned(), object };
            // Whoever looked on may have stopped.
            let _ = seen.send(sight);
        }
    }));
    let serving = args.serving.start_if_wanted(&server).await?;
    let started = clock.now();
    let stage = Stage::on(server, scenario, &Terms::calm(SEED), None);
    if is_text(format) {
        let advice = serving.as_ref().map(|serving| serving.advice() + "\n").unwrap_or_default();
        print(&format!("{title}\n\n{advice}"))?;
    }
    let ends = later(started, LONGEST);
    let mut stopped = std::pin::pin!(stopped);
    loop {
        tokio::select! {
            biased;
            () = &mut stopped => bail!("interrupted after {} on the cluster's clock", clock_time(between(started, clock.now()))),
            Some(sight) = sights.recv() => {
                for line in picture.see(&sight) {
                    if is_text(format) {
                        print(&format!("{:>8}  {line}\n", clock_time(between(started, sight.at))))?;
                    }
                }
            }
            () = clock.sleep(LOOK) => {
                if stage.unmet_now().is_empty() || clock.now() > ends {
                    break;
                }
            }
        }
    }
    Ok(finish(&stage, pace, started, clock.now()).await)
}

async fn finish(stage: &Stage, pace: Pace, started: Timestamp, ended: Timestamp) -> Course {
    let unmet = stage.unmet_now();
    let writes = stage.writes();
    if pace == Pace::Virtual && unmet.is_empty() {
        // Nobody waits for it: that all stays as it is.
        stage.stay().await;
    }
    let violations = stage.violations().into_iter().map(|violation| violation.sentence).collect();
    Course { virtual_seconds: between(started, ended).as_secs_f64(), writes, unmet, violations }
}
