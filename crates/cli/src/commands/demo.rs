//! `drover demo`: an upgrade on the embedded cluster, to look at.

mod guest;
mod harvester;
mod lines;
mod picture;
mod play;
mod scene;
mod screen;
mod show;
mod summary;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use drover_clock::Clock;
use drover_sim::Scenario;
use jiff::Timestamp;
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

use crate::args::{Format, Usage};
use crate::output::{print, print_document, table};
use crate::serving::ServingArgs;
use crate::{logging, scenarios, signals};

/// What `drover demo harvester` shows if no scenario is named.
const HARVESTER: &str = "harvester-three-nodes";
/// The same of `drover demo guest`.
const GUEST: &str = "guest-tkc";

/// How long the display takes, if nobody says how fast it shall be.
const SHOWN_FOR: Duration = Duration::from_secs(17);
/// What a node costs besides its Job and its reboot.
const OVERHEAD: Duration = Duration::from_secs(4);
/// What a node of a Harvester upgrade takes, and all that comes before the nodes.
const UPGRADED_NODE: Duration = Duration::from_secs(70);
const SYSTEM_SERVICES: Duration = Duration::from_secs(90);
/// What it takes to replace a machine of a guest cluster.
const REPLACED_MACHINE: Duration = Duration::from_secs(110);
/// In virtual time, every request costs this much.
const LATENCY: Duration = Duration::from_millis(1);

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// What to show: plan, harvester or guest
    #[arg(default_value = "plan", value_parser = engine)]
    engine: Engine,
    /// The scenario to show: a file, or a built-in one [default: three-nodes]
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// List the built-in scenarios
    #[arg(long, conflicts_with = "scenario")]
    list: bool,
    /// How many nodes the cluster has [default: as the scenario says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=5000))]
    nodes: Option<u16>,
    /// How many times as fast as the wall clock; max: in virtual time, without waiting [default: about 17 s in all]
    #[arg(long, value_name = "X|max", value_parser = speed)]
    speed: Option<Speed>,
    #[command(flatten)]
    serving: ServingArgs,
    /// End with the upgrade, also if the cluster is served; alone it implies --speed max
    #[arg(long)]
    exit: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Engine {
    Plan,
    Harvester,
    Guest,
}

fn engine(name: &str) -> Result<Engine, String> {
    match name {
        "plan" => Ok(Engine::Plan),
        "harvester" => Ok(Engine::Harvester),
        "guest" => Ok(Engine::Guest),
        _ => Err("there is no such demonstration, only plan, harvester and guest".to_owned()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Speed {
    Times(f64),
    Max,
}

fn speed(text: &str) -> Result<Speed, String> {
    match text.parse::<f64>() {
        _ if text == "max" => Ok(Speed::Max),
        Ok(times) if times.is_finite() && times > 0.0 => Ok(Speed::Times(times)),
        _ => Err("give a number above 0, such as 20, or max".to_owned()),
    }
}

/// How time passes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// It jumps to whatever comes next.
    Virtual,
    Scaled(f64),
}

pub fn run(args: &DemoArgs, format: Option<Format>) -> anyhow::Result<()> {
    if args.list {
        return list(format);
    }
    logging::start("off", None)?;
    let scenario = args.scenario()?;
    let pace = args.pace(&scenario)?;
    pace.runtime()?.block_on(async {
        let stopped = match pace {
            // It is over before anybody could interrupt it.
            Pace::Virtual => None,
            Pace::Scaled(_) => Some(signals::stopped()?),
        };
        let stopped = async {
            match stopped {
                Some(stopped) => stopped.await,
                None => std::future::pending().await,
            }
        };
        match scenario.upgrade() {
            Some(_) => harvester::play(args, &scenario, pace, format, stopped).await,
            None if scenario.guest.is_some() => guest::play(args, &scenario, pace, format, stopped).await,
            None => play::play(args, &scenario, pace, format, stopped).await,
        }
    })
}

fn list(format: Option<Format>) -> anyhow::Result<()> {
    let shown = scenarios::built_in()?;
    match format.unwrap_or(Format::Table) {
        Format::Table => {
            let rows = shown.iter().map(|scenario| vec![scenario.name.clone(), scenarios::about(scenario)]);
            let header = vec!["NAME".to_owned(), "WHAT".to_owned()];
            print(&table(&std::iter::once(header).chain(rows).collect::<Vec<_>>()))
        }
        format => print_document(format, &json!(shown)),
    }
}

/// The scenario that is shown if none is named; short, for simulations. A demonstration shows how long real machines take.
fn at_real_length(scenario: Scenario) -> Scenario {
    Scenario { job_seconds: 60, reboot_seconds: 30, ..scenario }
}

impl DemoArgs {
    fn scenario(&self) -> anyhow::Result<Scenario> {
        let shown = match self.engine {
            Engine::Harvester if self.scenario.is_none() => Some(Path::new(HARVESTER)),
            Engine::Guest if self.scenario.is_none() => Some(Path::new(GUEST)),
            _ => self.scenario.as_deref(),
        };
        let mut scenario = scenarios::find(shown)?;
        if shown.is_none() {
            scenario = at_real_length(scenario);
        }
        if let Some(nodes) = self.nodes {
            scenario.nodes = usize::from(nodes);
        }
        Ok(scenario)
    }

    fn pace(&self, scenario: &Scenario) -> Result<Pace, Usage> {
        let served = self.serving.is_wanted();
        match self.speed {
            Some(Speed::Max) if served => Err(Usage(
                "--speed max serves nothing: give a number, or leave out --listen and --write-kubeconfig".to_owned(),
            )),
            Some(Speed::Max) => Ok(Pace::Virtual),
            Some(Speed::Times(times)) => Ok(Pace::Scaled(times)),
            None if self.exit && !served => Ok(Pace::Virtual),
            None => Ok(Pace::Scaled((expected(scenario).as_secs_f64() / SHOWN_FOR.as_secs_f64()).max(1.0))),
        }
    }
}

/// How long the upgrade should take on the cluster's clock.
fn expected(scenario: &Scenario) -> Duration {
    if scenario.upgrade().is_some() {
        let nodes = u32::try_from(scenario.nodes).unwrap_or(u32::MAX);
        return UPGRADED_NODE.saturating_mul(nodes).saturating_add(SYSTEM_SERVICES);
    }
    if scenario.guest.is_some() {
        let machines: usize = scenario.guests().map(|guest| guest.machines + guest.workers.unwrap_or(0)).sum();
        return REPLACED_MACHINE.saturating_mul(u32::try_from(machines).unwrap_or(u32::MAX));
    }
    let at_once = usize::try_from(scenario.concurrency).unwrap_or(0).max(1);
    let rounds = u32::try_from(scenario.nodes.div_ceil(at_once)).unwrap_or(u32::MAX);
    let each =
        Duration::from_secs(scenario.job_seconds.saturating_add(scenario.reboot_seconds)).saturating_add(OVERHEAD);
    each.saturating_mul(rounds)
}

impl Pace {
    /// One thread, so that nothing about the order of events is left to chance.
    fn runtime(self) -> std::io::Result<Runtime> {
        match self {
            Pace::Virtual => Builder::new_current_thread().enable_time().start_paused(true).build(),
            Pace::Scaled(_) => Builder::new_current_thread().enable_all().build(),
        }
    }

    /// Must be called inside the runtime.
    fn clock(self) -> Clock {
        match self {
            Pace::Virtual => Clock::virtual_from(Timestamp::from_second(NOON).unwrap_or(Timestamp::UNIX_EPOCH)),
            Pace::Scaled(speed) => Clock::scaled(Clock::real().now(), speed),
        }
    }

    fn latency(self) -> Duration {
        match self {
            Pace::Virtual => LATENCY,
            Pace::Scaled(_) => Duration::ZERO,
        }
    }
}

/// 2026-01-01T12:00:00Z, where virtual time begins.
const NOON: i64 = 1_767_268_800;

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Demo {
        #[command(flatten)]
        args: DemoArgs,
    }

    fn pace(arguments: &[&str]) -> Result<Pace, Usage> {
        let demo = Demo::parse_from([&["demo"], arguments].concat());
        demo.args.pace(&demo.args.scenario().unwrap())
    }

    #[test]
    fn virtual_time_is_for_runs_that_nobody_looks_at_or_talks_to() {
        assert_eq!(pace(&["--exit"]).unwrap(), Pace::Virtual);
        assert_eq!(pace(&["--speed", "max"]).unwrap(), Pace::Virtual);
        assert_eq!(pace(&["--exit", "--speed", "30"]).unwrap(), Pace::Scaled(30.0));
        assert!(matches!(pace(&["--exit", "--listen", "127.0.0.1:0"]).unwrap(), Pace::Scaled(_)));
        assert!(pace(&["--speed", "max", "--write-kubeconfig", "f"]).is_err());
    }

    #[test]
    fn what_there_is_not_is_refused() {
        assert!(engine("nonsense").is_err());
        assert!(speed("0").is_err() && speed("fast").is_err() && speed("NaN").is_err());
    }

    #[test]
    fn the_number_of_nodes_can_be_given() {
        let demo = Demo::parse_from(["demo", "plan", "--nodes", "7"]);
        assert_eq!(demo.args.scenario().unwrap().nodes, 7);
    }
}
