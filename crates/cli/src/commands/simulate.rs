//! `drover simulate`: an upgrade under faults, in virtual time; tells the story where something went wrong.

mod story;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use drover_core::decision::{Purpose, Reason};
use drover_sim::{Campaign, CampaignReport, Outcome, Scenario, Schedule};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::args::Format;
use crate::output::{print, print_document, table};
use crate::{logging, scenarios};

/// Of a campaign: uids in its objects and the faults of its random schedules follow from it.
const SEED: u64 = 1;

#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// The scenario to run: a file, or a built-in one [default: three-nodes]
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Run this many random schedules of faults, instead of every fault at every write
    #[arg(long, value_name = "N", conflicts_with = "seed")]
    seeds: Option<usize>,
    /// Run once, with this seed and without faults
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Write the trace to this file, one line an event: of the one run, or of the first that went wrong
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

pub fn run(args: &SimulateArgs, format: Option<Format>) -> anyhow::Result<()> {
    logging::start("off", None)?;
    let scenario = scenarios::find(args.scenario.as_deref())?;
    match args.seed {
        Some(seed) => run_once(args, &scenario, seed, format),
        None => run_campaign(args, scenario, format),
    }
}

fn run_once(args: &SimulateArgs, scenario: &Scenario, seed: u64, format: Option<Format>) -> anyhow::Result<()> {
    let outcome = drover_sim::run(scenario, &Schedule::default(), seed, None)?;
    if let Some(path) = &args.trace {
        write_trace(path, &outcome.trace)?;
    }
    match format.unwrap_or(Format::Table) {
        Format::Table => print(&outcome_as_text(scenario, &outcome))?,
        format => print_document(format, &outcome_as_json(scenario, &outcome))?,
    }
    match outcome.violations.len() {
        0 => Ok(()),
        count => {
            bail!("{} of {}; the trace tells how it came to that", story::counted(count, "violation"), scenario.name)
        }
    }
}

fn run_campaign(args: &SimulateArgs, scenario: Scenario, format: Option<Format>) -> anyhow::Result<()> {
    let campaign = Campaign { scenario, seed: SEED };
    let bar = progress_bar();
    let progress = |done: usize, all: usize| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    };
    let report = match args.seeds {
        Some(count) => campaign.random(count, &progress),
        None => campaign.exhaustive(&progress),
    }?;
    bar.finish_and_clear();
    if let (Some(path), Some(failure)) = (&args.trace, report.failures.first()) {
        write_trace(path, &failure.trace)?;
    }
    match format.unwrap_or(Format::Table) {
        Format::Table => print(&report_as_text(&campaign.scenario, &report))?,
        format => print_document(format, &report)?,
    }
    match report.failures.len() {
        0 => Ok(()),
        count => bail!("{count} of {} broke what must always hold", story::counted(report.schedules, "schedule")),
    }
}

/// How many schedules have been run, on a terminal.
fn progress_bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos} of {len} schedules  {eta} left");
    ProgressBar::new(1).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn write_trace(path: &Path, trace: &[String]) -> anyhow::Result<()> {
    let mut text = trace.join("\n");
    text.push('\n');
    std::fs::write(path, text).with_context(|| format!("cannot write the trace to {}", path.display()))
}

fn outcome_as_json(scenario: &Scenario, outcome: &Outcome) -> Value {
    json!({
        "scenario": scenario.name,
        "seed": outcome.seed,
        "violations": outcome.violations,
        "writes": outcome.writes,
        "virtualSeconds": outcome.virtual_seconds,
        "digest": outcome.digest,
        "purposes": outcome.purposes,
        "reasons": outcome.reasons,
    })
}

fn outcome_as_text(scenario: &Scenario, outcome: &Outcome) -> String {
    let mut text = heading(scenario);
    text.push_str(&facts(&[
        ("seed", outcome.seed.to_string()),
        ("virtual time", format!("{:.1} s", outcome.virtual_seconds)),
        ("writes", outcome.writes.to_string()),
        ("digest of the end", outcome.digest.chars().take(16).collect()),
        (
            "violations",
            if outcome.violations.is_empty() { "none".to_owned() } else { outcome.violations.len().to_string() },
        ),
    ]));
    let (decided, _) = reached(&outcome.purposes, &outcome.reasons);
    text.push_str(&decided);
    if !outcome.violations.is_empty() {
        text.push_str(&story::tell(&Schedule::default(), outcome, &outcome.trace));
    }
    text
}

fn report_as_text(scenario: &Scenario, report: &CampaignReport) -> String {
    let mut text = heading(scenario);
    text.push_str(&facts(&[
        ("schedules", report.schedules.to_string()),
        ("distinct states", report.distinct_states.to_string()),
        ("writes", format!("{} in the run without faults", report.writes)),
        (
            "violations",
            if report.failures.is_empty() {
                "none".to_owned()
            } else {
                format!("under {}", story::counted(report.failures.len(), "schedule"))
            },
        ),
    ]));
    let (decided, missed) = reached(&report.purposes, &report.reasons);
    text.push_str(&decided);
    if !missed.is_empty() {
        text.push_str(&format!("\nnot reached: {}\n", missed.join(", ")));
    }
    if let Some(first) = report.failures.first() {
        text.push_str(&story::tell(&first.schedule, &first.outcome, &first.trace));
    }
    if report.failures.len() > 1 {
        text.push_str("\nthe other schedules that went wrong:\n");
        for failure in report.failures.iter().skip(1) {
            text.push_str(&format!("  {}\n", story::schedule(&failure.schedule).join("; ")));
        }
    }
    text
}

fn heading(scenario: &Scenario) -> String {
    format!("{}: {}\n\n", scenario.name, scenarios::describe(scenario))
}

fn facts(facts: &[(&str, String)]) -> String {
    let rows: Vec<Vec<String>> = facts.iter().map(|(name, value)| vec![format!("  {name}"), value.clone()]).collect();
    table(&rows)
}

/// What was decided and how often, as a table; and what never was.
fn reached(purposes: &BTreeMap<String, usize>, reasons: &BTreeMap<String, usize>) -> (String, Vec<String>) {
    let all_purposes = Purpose::ALL.map(|purpose| format!("{purpose:?}"));
    let all_reasons = Reason::ALL.map(|reason| reason.to_string());
    let mut rows = Vec::new();
    let mut missed = Vec::new();
    for (what, all, counts) in [("write", &all_purposes[..], purposes), ("wait", &all_reasons[..], reasons)] {
        for name in all {
            match counts.get(name) {
                Some(count) => rows.push(vec![format!("  {what}"), name.clone(), format!("{count:>7}")]),
                None => missed.push(name.clone()),
            }
        }
    }
    (format!("\ndecided on:\n{}", table(&rows)), missed)
}
