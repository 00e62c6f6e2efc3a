//! `drover simulate`: upgrades under faults, in virtual time; tells the story where something went wrong.

mod story;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use drover_sim::campaign::{Part, all_purposes, all_reasons, not_reached, run_all, survey};
use drover_sim::{Campaign, CampaignReport, Outcome, Saved, Scenario, Schedule, Terms};
use indicatif::{MultiProgress, ProgressBar, ProgressFinish, ProgressStyle};
use serde_json::{Value, json};

use crate::args::Format;
use crate::output::{print, print_document, table};
use crate::{logging, scenarios};

/// Of a campaign: uids in its objects and the faults of its random schedules follow from it.
const SEED: u64 = 1;
/// Random schedules of each scenario, after all that is tried at every write.
const RANDOM: usize = 12;
/// Of all two crashes, one in so many where all scenarios are tried: they are most of what there is.
const DOUBLES: usize = 47;

/// Where not every crash has a run of its own, they are tried in so many runs on either side of the writes.
const TURNS: u64 = 2;
/// But not of scenarios of which so few are tried at all: one run of a hundred nodes takes longer than a hundred of three. Crashes throughout meet all
/// of their writes, too.
const FEW: usize = 1000;

#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// The scenario to run: a file, or a built-in one [default: all that are built in]
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Run this many random schedules of each scenario, instead of every fault at every write; with --seed others
    #[arg(long, value_name = "N")]
    seeds: Option<usize>,
    /// Of all schedules of a campaign, try one in N only
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "seed", value_parser = clap::value_parser!(u32).range(1..))]
    every: u32,
    /// Try all schedules of the scenarios that say how many of theirs are enough, too: of every scenario that takes hours
    #[arg(long, conflicts_with = "seed")]
    whole: bool,
    /// Run once, with this seed, and without faults but those of the scenario; with --seeds: where the random schedules begin
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// With --seed: faults beside those of the scenario, as a story tells them
    #[arg(long, value_name = "JSON", requires = "seed", conflicts_with = "seeds", value_parser = faults)]
    faults: Option<Schedule>,
    /// Write the trace to this file, one line an event: of the one run, or of the first that went wrong
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write the store to this file as it was just before the first violation, for `drover corral --load`
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
}

fn faults(text: &str) -> Result<Schedule, String> {
    serde_json::from_str(text).map_err(|error| format!("these are no faults: {error}"))
}

pub fn run(args: &SimulateArgs, format: Option<Format>) -> anyhow::Result<()> {
    logging::start("off", None)?;
    match (args.seed, args.seeds) {
        (Some(seed), None) => run_once(args, &scenarios::find(args.scenario.as_deref())?, seed, format),
        (seed, _) => run_campaigns(args, seed.unwrap_or(SEED), format),
    }
}

fn run_once(args: &SimulateArgs, scenario: &Scenario, seed: u64, format: Option<Format>) -> anyhow::Result<()> {
    let schedule = args.faults.clone().unwrap_or_default();
    let mut terms = Terms::of(schedule.clone(), seed);
    if !schedule.faults.is_empty() {
        // A run with faults is measured by the one without, as in a campaign.
        let calm = drover_sim::run(scenario, &Terms::calm(seed))?;
        terms.calm = Some(Duration::from_secs_f64(calm.virtual_seconds));
    }
    // Large ones need a gigabyte to be told, so only what is read is.
    terms.untold = args.trace.is_none();
    let mut outcome = drover_sim::run(scenario, &terms)?;
    if terms.untold && !outcome.violations.is_empty() {
        outcome = drover_sim::run(scenario, &Terms { untold: false, ..terms })?;
    }
    let trace = outcome.trace();
    write_trace(args, &trace)?;
    write_store(args, outcome.before.as_ref())?;
    match format.unwrap_or(Format::Table) {
        Format::Table => print(&outcome_as_text(scenario, &schedule, &outcome, &trace))?,
        format => print_document(format, &outcome_as_json(scenario, &outcome))?,
    }
    match outcome.violations.len() {
        0 => Ok(()),
        count => {
            bail!("{} of {}; the trace tells how it came to that", story::counted(count, "violation"), scenario.name)
        }
    }
}

fn run_campaigns(args: &SimulateArgs, seed: u64, format: Option<Format>) -> anyhow::Result<()> {
    let mut all = match &args.scenario {
        Some(path) => vec![scenarios::find(Some(path))?],
        None => scenarios::built_in()?,
    };
    if args.whole {
        all.iter_mut().for_each(|scenario| scenario.sampled = None);
    }
    let is_text = matches!(format, None | Some(Format::Table));
    let campaigns =
        all.into_iter().map(|scenario| Campaign { every: args.every as usize, ..Campaign::new(scenario, seed) });
    let bars = MultiProgress::new();
    let progress = |scenario: &Scenario| -> Box<dyn Fn(usize, usize) + Sync> {
        let bar = progress_bar(&bars, &scenario.name);
        Box::new(move |done, all| {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
        })
    };
    let ended = |own: &CampaignReport| {
        if is_text {
            // A reader that has gone away is noticed when the whole is printed.
            bars.suspend(|| print(&line(own)).ok());
        }
    };
    let report = run_all(survey(campaigns.collect())?, |scenario| parts(args, scenario), progress, ended)?;
    if let Some(failure) = report.failures.first() {
        write_trace(args, &failure.trace)?;
        write_store(args, failure.before.as_ref())?;
    }
    let is_of_all = args.scenario.is_none() && args.seeds.is_none() && args.every == 1;
    match format.unwrap_or(Format::Table) {
        Format::Table => print(&report_as_text(&report))?,
        format => print_document(format, &report)?,
    }
    if !report.failures.is_empty() {
        let (count, all) = (report.failures.len(), story::counted(report.schedules, "schedule"));
        bail!("{count} of {all} broke what must always hold");
    }
    let missed = not_reached(&report.purposes, &report.reasons);
    if is_of_all && !missed.is_empty() {
        bail!("no scenario reaches {}: a campaign over all of them proves nothing about it", missed.join(", "));
    }
    Ok(())
}

/// What is tried: random schedules only, if they are asked for, or the whole; a large scenario has fewer of them.
fn parts(args: &SimulateArgs, scenario: &Scenario) -> Vec<Part> {
    match args.seeds {
        Some(count) => vec![Part::Random(count)],
        None => {
            let random = RANDOM.div_ceil(scenario.sampled.unwrap_or(1));
            let every = if args.whole || args.scenario.is_some() { 1 } else { DOUBLES };
            let doubles = Part::DoubleCrashes { every };
            let in_turn = scenario.sampled.is_some_and(|sampled| sampled < FEW);
            let turns = Part::CrashesInTurn(if in_turn { TURNS } else { 0 });
            let mut parts = vec![Part::Crashes, Part::CrashesThroughout, turns, Part::Pairs];
            // What no scenario has tried is a question to all of them.
            parts.extend(args.scenario.is_none().then_some(Part::PairsLeft));
            parts.extend([doubles, Part::Random(random)]);
            parts
        }
    }
}

/// How many schedules have been run, on a terminal; it goes when nobody holds it any more.
fn progress_bar(bars: &MultiProgress, scenario: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg:24} {bar:40} {pos} of {len} schedules  {eta} left");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(1).with_style(style).with_message(scenario.to_owned());
    bars.add(bar.with_finish(ProgressFinish::AndClear))
}

fn write_trace(args: &SimulateArgs, trace: &[String]) -> anyhow::Result<()> {
    let Some(path) = &args.trace else { return Ok(()) };
    let mut text = trace.join("\n");
    text.push('\n');
    write_file(path, &text, "trace")
}

/// Each guest cluster has a file of its own beside it: `store.json`, `store-NAMESPACE-NAME.json`.
fn write_store(args: &SimulateArgs, stores: Option<&Saved>) -> anyhow::Result<()> {
    let (Some(path), Some(stores)) = (&args.store, stores) else { return Ok(()) };
    write_file(path, &stores.own.to_string(), "store")?;
    for ((namespace, name), store) in &stores.guests {
        let mut file = path.file_stem().unwrap_or_default().to_os_string();
        file.push(format!("-{namespace}-{name}"));
        let beside = path.with_file_name(file).with_extension(path.extension().unwrap_or_default());
        write_file(&beside, &store.to_string(), "store of a guest cluster")?;
    }
    Ok(())
}

fn write_file(path: &Path, text: &str, what: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write the {what} to {}", path.display()))
}

fn outcome_as_json(scenario: &Scenario, outcome: &Outcome) -> Value {
    json!({
        "scenario": scenario.name,
        "seed": outcome.seed,
        "violations": outcome.violations,
        "missed": outcome.missed,
        "writes": outcome.writes,
        "virtualSeconds": outcome.virtual_seconds,
        "digest": outcome.digest,
        "purposes": outcome.purposes,
        "reasons": outcome.reasons,
    })
}

fn outcome_as_text(scenario: &Scenario, schedule: &Schedule, outcome: &Outcome, trace: &[String]) -> String {
    let mut text = format!("{}: {}\n\n", scenario.name, scenarios::about(scenario));
    let mut all = vec![
        ("seed", outcome.seed.to_string()),
        ("virtual time", format!("{:.1} s", outcome.virtual_seconds)),
        ("writes", outcome.writes.to_string()),
        ("digest of the end", outcome.digest.chars().take(16).collect()),
        ("violations", or_none(outcome.violations.len())),
    ];
    // Whoever asks for a fault is not to believe that nothing came of it.
    all.extend(outcome.missed.iter().map(|incident| ("never happened", incident.to_string())));
    text.push_str(&facts(&all));
    text.push_str(&reached(&outcome.purposes, &outcome.reasons));
    if !outcome.violations.is_empty() {
        text.push_str(&story::tell(scenario, schedule, outcome, trace));
    }
    text
}

/// One scenario of a campaign.
fn line(report: &CampaignReport) -> String {
    let failed = match report.failures.len() {
        0 => String::new(),
        count => format!(", {count} FAILED"),
    };
    format!(
        "{:<32} {:>6} schedules over {:>4} writes, {:>6} distinct states, {:>6.1} s{failed}\n",
        report.scenario, report.schedules, report.writes, report.distinct_states, report.seconds
    )
}

fn report_as_text(report: &CampaignReport) -> String {
    let mut text = String::from("\n");
    text.push_str(&facts(&[
        ("schedules", report.schedules.to_string()),
        ("distinct states", report.distinct_states.to_string()),
        ("time of all runs", format!("{:.0} s", report.seconds)),
        ("violations", or_none(report.failures.len())),
    ]));
    text.push_str(&reached(&report.purposes, &report.reasons));
    let missed = not_reached(&report.purposes, &report.reasons);
    if !missed.is_empty() {
        text.push_str(&format!("\nnot reached: {}\n", missed.join(", ")));
    }
    if let Some(first) = report.failures.first() {
        text.push_str(&story::tell_failure(first));
    }
    if report.failures.len() > 1 {
        text.push_str("\nthe other schedules that went wrong:\n");
        for failure in report.failures.iter().skip(1) {
            let sentence = failure.outcome.violations.first().map_or("", |violation| violation.sentence.as_str());
            let line = serde_json::to_string(&failure.regression).unwrap_or_default();
            text.push_str(&format!("  {line}: {sentence}\n"));
        }
    }
    text
}

fn or_none(count: usize) -> String {
    if count == 0 { "none".to_owned() } else { count.to_string() }
}

fn facts(facts: &[(&str, String)]) -> String {
    let rows: Vec<Vec<String>> = facts.iter().map(|(name, value)| vec![format!("  {name}"), value.clone()]).collect();
    table(&rows)
}

/// What was decided and how often, as a table.
fn reached(purposes: &BTreeMap<String, usize>, reasons: &BTreeMap<String, usize>) -> String {
    let mut rows = Vec::new();
    let mut add = |what: &str, name: String, count: Option<&usize>| {
        rows.extend(count.map(|count| vec![format!("  {what}"), name, format!("{count:>7}")]));
    };
    all_purposes().for_each(|name| add("write", name.clone(), purposes.get(&name)));
    all_reasons().for_each(|name| add("wait", name.clone(), reasons.get(&name)));
    format!("\ndecided on:\n{}", table(&rows))
}
