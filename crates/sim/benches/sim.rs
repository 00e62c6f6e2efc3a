//! How long simulated upgrades take: `make bench-sim`. One line each, with what it may take beside it; fails if it takes more.
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use drover_sim::campaign::Part;
use drover_sim::scenario::Workload;
use drover_sim::{Campaign, Scenario, Terms, run};

/// What the process may have had of memory in the end, in megabytes.
const MEMORY: usize = 1024;

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::io::Result<ExitCode> {
    let mut reached = true;
    reached &= measure("3 nodes, a crash at every write", Duration::from_secs(20), || {
        let report = Campaign::new(Scenario::default(), 1).run(&[Part::Crashes], &|_, _| ())?;
        Ok(format!("{} schedules, {} violations", report.schedules, report.failures.len()))
    })?;
    let hundred = Scenario { nodes: 100, concurrency: 10, reboot_seconds: 3, ..Scenario::default() };
    reached &= measure("100 nodes, 10 at a time", Duration::from_secs(2), || once(&hundred))?;
    let thousand = Scenario {
        nodes: 1000,
        concurrency: 50,
        reboot_seconds: 30,
        workloads: (1..=100).map(|number| shop(&format!("shop-{number}"), 300)).collect(),
        ..Scenario::default()
    };
    reached &= measure("1,000 nodes, 30,000 pods, 50 at a time", Duration::from_secs(60), || once(&thousand))?;
    Ok(if reached { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn shop(name: &str, replicas: usize) -> Workload {
    Workload { replicas, min_available: Some(replicas - replicas / 5), ..Workload::new(name) }
}

/// From the first write to the end, and ninety seconds of virtual time longer, with every check.
fn once(scenario: &Scenario) -> std::io::Result<String> {
    let outcome = run(scenario, &Terms { untold: true, ..Terms::calm(1) })?;
    let sentences: Vec<&str> = outcome.violations.iter().map(|violation| violation.sentence.as_str()).collect();
    let violations = if sentences.is_empty() { "no violations".to_owned() } else { sentences.join("; ") };
    Ok(format!("{} writes, {:.0} s of virtual time, {violations}", outcome.writes, outcome.virtual_seconds))
}

fn measure(what: &str, limit: Duration, act: impl FnOnce() -> std::io::Result<String>) -> std::io::Result<bool> {
    let started = Instant::now();
    let told = act()?;
    let (took, memory) = (started.elapsed(), peak_megabytes());
    let reached = took <= limit && memory <= MEMORY;
    let verdict = if reached { "ok" } else { "MISSED" };
    let (took, limit) = (took.as_secs_f64(), limit.as_secs());
    println!("{what:<40} {took:>6.2} s (at most {limit:>2}), {memory:>5} MB (at most {MEMORY}): {told}  {verdict}");
    Ok(reached)
}

/// The most memory that the process has had.
fn peak_megabytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kilobytes| kilobytes.parse::<usize>().ok()).unwrap_or_default() / 1024
}
