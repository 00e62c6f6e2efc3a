//! `drover demo harvester`: an Upgrade of a Harvester cluster, told line by line.

use std::collections::BTreeMap;
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
use crate::output::{print, print_document};

const SEED: u64 = 1;
const WATCH_WINDOW: usize = 10_000;
/// How often it is looked whether it is over.
const LOOK: Duration = Duration::from_secs(1);
/// No scenario takes longer on the cluster's clock.
const LONGEST: Duration = Duration::from_secs(4 * 3600);

/// The names are part of the interface: scripts read them.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    scenario: String,
    upgrade: String,
    state: String,
    cleanup: String,
    nodes: BTreeMap<String, String>,
    /// How long it took on the cluster's clock.
    virtual_seconds: f64,
    writes: usize,
    unmet: Vec<String>,
    violations: Vec<String>,
}

pub async fn play(
    args: &DemoArgs,
    scenario: &Scenario,
    pace: Pace,
    format: Option<Format>,
    stopped: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let Some(upgrade) = scenario.upgrade() else {
        bail!("the scenario {} has no Upgrade: give harvester.upgrade in it", scenario.name);
    };
    let is_text = matches!(format, None | Some(Format::Table));
    let clock = pace.clock();
    let server = ApiServer::new(Options { clock, seed: SEED, latency: pace.latency(), watch_window: WATCH_WINDOW });
    let (seen, mut sights) = unbounded_channel();
    server.observe(Box::new(move |commit| {
        if commit.resource.kind == "Upgrade"
            && let Some(object) = commit.after.and_then(|json| serde_json::from_slice::<Value>(json).ok())
        {
            // Whoever looked on may have stopped.
            let _ = seen.send((commit.at, object));
        }
    }));
    let serving = args.serving.start_if_wanted(&server).await?;
    let started = clock.now();
    let stage = Stage::on(server, scenario, &Terms::calm(SEED), None);
    if is_text {
        let advice = serving.as_ref().map(|serving| serving.advice() + "\n").unwrap_or_default();
        let nodes = scenario.nodes;
        print(&format!("A Harvester cluster of {nodes} nodes goes to {}.\n\n{advice}", upgrade.to))?;
    }
    let mut picture =
        Picture { summary: Summary { upgrade: upgrade.name.clone(), ..Summary::default() }, waits: String::new() };
    let ends = later(started, LONGEST);
    let mut stopped = std::pin::pin!(stopped);
    loop {
        tokio::select! {
            biased;
            () = &mut stopped => bail!("interrupted after {} on the cluster's clock", clock_time(between(started, clock.now()))),
            Some((at, object)) = sights.recv() => {
                for line in picture.see(&object) {
                    if is_text {
                        print(&format!("{:>8}  {line}\n", clock_time(between(started, at))))?;
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
    let summary = finish(picture.summary, scenario, &stage, pace, started, clock.now()).await;
    match format.unwrap_or(Format::Table) {
        Format::Table => print(&format!(
            "\nUpgrade {} is at {} after {} on the cluster's clock, with {} writes.\n",
            summary.upgrade,
            summary.state,
            clock_time(Duration::from_secs_f64(summary.virtual_seconds)),
            summary.writes
        ))?,
        format => print_document(format, &summary)?,
    }
    if let Some(wrong) = summary.violations.first().or(summary.unmet.first()) {
        bail!("the scenario {} did not go as it must: {wrong}", scenario.name);
    }
    Ok(())
}

async fn finish(
    mut summary: Summary,
    scenario: &Scenario,
    stage: &Stage,
    pace: Pace,
    started: Timestamp,
    ended: Timestamp,
) -> Summary {
    summary.scenario.clone_from(&scenario.name);
    summary.virtual_seconds = between(started, ended).as_secs_f64();
    summary.unmet = stage.unmet_now();
    summary.writes = stage.writes();
    if pace == Pace::Virtual && summary.unmet.is_empty() {
        // Nobody waits for it: that all stays as it is.
        stage.stay().await;
    }
    summary.violations = stage.violations().into_iter().map(|violation| violation.sentence).collect();
    summary
}

/// What was told so far.
struct Picture {
    summary: Summary,
    waits: String,
}

impl Picture {
    /// What is new, a line each.
    fn see(&mut self, upgrade: &Value) -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let labels = &upgrade["metadata"]["labels"];
        let mut lines = Vec::new();
        let state = text(&labels["harvesterhci.io/upgradeState"]);
        if self.summary.state != state {
            lines.push(state.clone());
            self.summary.state = state;
        }
        let cleanup = text(&labels["harvesterhci.io/upgradeCleanup"]);
        if self.summary.cleanup != cleanup {
            lines.push(format!("clean-up: {cleanup}"));
            self.summary.cleanup = cleanup;
        }
        for (node, status) in upgrade["status"]["nodeStatuses"].as_object().into_iter().flatten() {
            let state = text(&status["state"]);
            if self.summary.nodes.get(node) != Some(&state) {
                lines.push(format!("{node}: {state}"));
                self.summary.nodes.insert(node.clone(), state);
            }
        }
        let conditions = upgrade["status"]["conditions"].as_array().into_iter().flatten();
        let waits: String =
            conditions.filter(|one| one["type"] == "Progressing").map(|one| text(&one["message"])).collect();
        if self.waits != waits && !waits.is_empty() {
            lines.push(format!("waits: {waits}"));
        }
        self.waits = waits;
        lines
    }
}
