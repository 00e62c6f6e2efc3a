//! `drover corral`: the embedded cluster, served until it is told to stop.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use drover_clock::Clock;
use drover_corral::apiserver::{ApiServer, Options};
use drover_corral::world::{World, WorldOptions};
use serde_json::json;

use crate::args::Format;
use crate::output::{print, print_document};
use crate::serving::ServingArgs;
use crate::{logging, objects, scenarios, signals};

const WATCH_WINDOW: usize = 10_000;

#[derive(Debug, Args)]
pub struct CorralArgs {
    #[command(flatten)]
    serving: ServingArgs,
    /// The cluster and the Plan of this scenario: a file, or a built-in one
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Objects to begin with, as `kubectl get -o yaml` prints them [default, without --scenario: three nodes]
    #[arg(long, value_name = "FILE|DIR", num_args = 1..)]
    load: Vec<PathBuf>,
}

pub fn run(args: &CorralArgs, format: Option<Format>) -> anyhow::Result<()> {
    logging::start("warn", None)?;
    let clock = Clock::real();
    // Another cluster each time, by its uids too.
    let seed = clock.now().as_microsecond().unsigned_abs();
    let server = ApiServer::new(Options { clock, seed, latency: Duration::ZERO, watch_window: WATCH_WINDOW });
    fill(&server, args)?;

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let stopped = signals::stopped()?;
        let world = tokio::spawn(World::run(server.clone(), WorldOptions::default()));
        let serving = args.serving.start(server).await?;
        match format.unwrap_or(Format::Table) {
            Format::Table => print(&format!("{}\nCtrl-C ends it.\n", serving.advice()))?,
            Format::Json => {
                print(&format!("{}\n", json!({ "address": serving.address(), "kubeconfig": serving.kubeconfig() })))?
            }
            Format::Yaml => print_document(
                Format::Yaml,
                &json!({ "address": serving.address(), "kubeconfig": serving.kubeconfig() }),
            )?,
        }
        stopped.await;
        world.abort();
        Ok(())
    })
}

/// What is in the cluster when it starts.
fn fill(server: &ApiServer, args: &CorralArgs) -> anyhow::Result<()> {
    if !args.load.is_empty() {
        server
            .load_text(objects::read_all(&args.load)?)
            .map_err(|status| anyhow!("the objects given with --load are refused: {}", status.message))?;
    }
    let user = server.direct("user");
    let set_up = match &args.scenario {
        Some(path) => scenarios::find(Some(path))?.set_up(&user),
        None if args.load.is_empty() => scenarios::find(None)?.set_up_cluster(&user),
        None => Ok(()),
    };
    set_up.map_err(|status| anyhow!("the cluster cannot be set up: {}", status.message))
}
