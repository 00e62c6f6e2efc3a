//! `drover corral`: the embedded cluster, served until it is told to stop.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use drover_clock::Clock;
use drover_corral::apiserver::{ApiServer, Options};
use drover_corral::world::{World, WorldOptions};
use drover_operator::harvester::{NoRepositories, Repositories};
use drover_operator::{objects, survey};
use drover_sim::live::ServedGuests;
use drover_sim::{Scenario, live, programs};
use serde_json::json;
use serde_json::value::RawValue;

use crate::args::Format;
use crate::output::{print, print_document};
use crate::serving::ServingArgs;
use crate::{logging, scenarios, signals};

const WATCH_WINDOW: usize = 10_000;

#[derive(Debug, Args)]
pub struct CorralArgs {
    #[command(flatten)]
    serving: ServingArgs,
    /// The cluster and the Plan of this scenario: a file, or a built-in one
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Objects to begin with, as `kubectl get -o yaml` prints them [default, without --scenario: three nodes]
    #[arg(long, value_name = "FILE|DIR|BUNDLE", num_args = 1..)]
    load: Vec<PathBuf>,
}

pub fn run(args: &CorralArgs, format: Option<Format>) -> anyhow::Result<()> {
    logging::start("warn", None)?;
    let clock = Clock::real();
    // Another cluster each time, by its uids too.
    let seed = clock.now().as_microsecond().unsigned_abs();
    let settings = Options { clock, seed, latency: Duration::ZERO, watch_window: WATCH_WINDOW };
    let server = ApiServer::new(settings);
    let scenario = fill(&server, args)?;

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let stopped = signals::stopped()?;
        let mut options = WorldOptions::default();
        if let Some(scenario) = &scenario {
            // Whoever looks at a served cluster expects heartbeats, which a simulation does without.
            let lease_period = options.kubelet.lease_period;
            options = scenario.world();
            options.kubelet.lease_period = lease_period;
        }
        options.kubelet.run_elsewhere.extend(programs::run_elsewhere(false));
        let guests = match &scenario {
            Some(scenario) => ServedGuests::start(scenario, &server, settings, &mut options).await?,
            None => ServedGuests::default(),
        };
        let world = tokio::spawn(World::run(server.clone(), options));
        let files: Arc<dyn Repositories> = match &scenario {
            Some(scenario) => scenario.release_files(server.clone()),
            None => Arc::new(NoRepositories),
        };
        let (ways, updates) = (guests.ways(&server), guests.are_there());
        let programs = tokio::spawn(programs::run(server.clone(), ways, updates, files, Arc::new(|_| ())));
        let servers = guests.servers.clone();
        let acts = scenario.map(|scenario| tokio::spawn(live::play(server.clone(), scenario, servers)));
        let serving = args.serving.start(server).await?;
        match format.unwrap_or(Format::Table) {
            Format::Table => print(&format!("{}\nCtrl-C ends it.\n", serving.advice()))?,
            Format::Json => {
                print(&format!("{}\n", json!({ "address": serving.address(), "kubeconfig": serving.kubeconfig() })))?
            }
            Format::Yaml | Format::Markdown => print_document(
                Format::Yaml,
                &json!({ "address": serving.address(), "kubeconfig": serving.kubeconfig() }),
            )?,
        }
        stopped.await;
        world.abort();
        programs.abort();
        acts.inspect(|acts| acts.abort());
        Ok(())
    })
}

/// What is in the cluster when it starts; gives back the scenario that was asked for.
fn fill(server: &ApiServer, args: &CorralArgs) -> anyhow::Result<Option<Scenario>> {
    if !args.load.is_empty() {
        server
            .load_text(objects_of(&args.load)?)
            .map_err(|status| anyhow!("the objects given with --load are refused: {}", status.message))?;
    }
    let scenario = args.scenario.as_deref().map(|path| scenarios::find(Some(path))).transpose()?;
    let set_up = match &scenario {
        Some(scenario) => scenario.set_up(server),
        None if args.load.is_empty() => scenarios::find(None)?.set_up_cluster(server),
        None => Ok(()),
    };
    set_up.map_err(|status| anyhow!("the cluster cannot be set up: {}", status.message))?;
    Ok(scenario)
}

/// Of files, folders and support bundles.
fn objects_of(paths: &[PathBuf]) -> anyhow::Result<Vec<Box<RawValue>>> {
    let remedy = |cause: &dyn std::fmt::Display| anyhow!("{cause}; check the path given with --load");
    let mut all = Vec::new();
    for path in paths {
        all.extend(match survey::is_bundle(path) {
            true => survey::bundle_objects(path).map_err(|error| remedy(&error))?,
            false => objects::read_all(std::slice::from_ref(path)).map_err(|error| remedy(&error))?,
        });
    }
    Ok(all)
}
