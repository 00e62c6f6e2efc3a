//! `drover demo harvester`: an Upgrade of a Harvester cluster, told line by line.

use std::collections::BTreeMap;

use anyhow::bail;
use drover_sim::Scenario;
use serde::Serialize;
use serde_json::Value;

use super::lines::{Course, Picture, Sight, is_text, tell};
use super::{DemoArgs, Pace};
use crate::args::Format;
use crate::output::{print, print_document};

/// The names are part of the interface: scripts read them.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    scenario: String,
    upgrade: String,
    state: String,
    cleanup: String,
    nodes: BTreeMap<String, String>,
    #[serde(flatten)]
    course: Course,
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
    let title = format!("A Harvester cluster of {} nodes goes to {}.", scenario.nodes, upgrade.to);
    let summary = Summary { scenario: scenario.name.clone(), upgrade: upgrade.name.clone(), ..Summary::default() };
    let mut told = Told { summary, waits: String::new() };
    let course = tell((args, scenario, pace), format, stopped, &title, &mut told).await?;
    let summary = Summary { course, ..told.summary };
    match format.filter(|_| !is_text(format)) {
        None => print(&format!(
            "\nUpgrade {} is at {} after {} on the cluster's clock, with {} writes.\n",
            summary.upgrade,
            summary.state,
            summary.course.took(),
            summary.course.writes
        ))?,
        Some(format) => print_document(format, &summary)?,
    }
    summary.course.judge(scenario)
}

/// What was told so far.
struct Told {
    summary: Summary,
    waits: String,
}

impl Picture for Told {
    const KINDS: &'static [&'static str] = &["Upgrade"];

    fn see(&mut self, sight: &Sight) -> Vec<String> {
        sight.object.as_ref().map(|upgrade| self.upgrade(upgrade)).unwrap_or_default()
    }
}

impl Told {
    /// What is new, a line each.
    fn upgrade(&mut self, upgrade: &Value) -> Vec<String> {
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
