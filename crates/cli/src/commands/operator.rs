//! `drover operator`: carries out the Plans of a cluster until it is told to stop.

mod identity;
mod settings;

use std::path::PathBuf;

use clap::Args;
use drover_clock::Clock;
use drover_operator::{Connection, ElectionOptions, Operator, OperatorOptions, connect};

use crate::args::Format;
use crate::{logging, signals};
use settings::Environment;

/// kube logs every request that fails, on top of what the operator says about it.
const LOGGED: &str = "info,kube_client=off";

#[derive(Debug, Args)]
pub struct OperatorArgs {
    /// Which controllers to run; this release has plan
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "plan", value_parser = controller)]
    controllers: Vec<Controller>,
    /// The namespace of the Plans and of the Lease [default: $SYSTEM_UPGRADE_CONTROLLER_NAMESPACE, else system-upgrade]
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// The kubeconfig to connect with [default: $KUBECONFIG, ~/.kube/config, or the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Controller {
    Plan,
}

fn controller(name: &str) -> Result<Controller, String> {
    match name {
        "plan" => Ok(Controller::Plan),
        "harvester" | "planner" | "guest" | "logs" => {
            Err(format!("the controller {name} is not in this release, only plan is"))
        }
        _ => Err("there is no such controller, only plan".to_owned()),
    }
}

pub fn run(args: OperatorArgs, format: Option<Format>) -> anyhow::Result<()> {
    logging::start(LOGGED, format)?;
    let environment = Environment::of_this_process();
    let settings = environment.job_settings();
    let namespace =
        args.namespace.or_else(|| environment.namespace()).unwrap_or_else(|| settings::NAMESPACE.to_owned());
    let identity = identity::of_this_process();

    let mut options = OperatorOptions::new(&namespace, &identity, Clock::real());
    options.election = ElectionOptions::new(&namespace, &settings.controller);
    options.settings = settings;

    // One thread is enough: an operator waits nearly all of the time, and each further one costs memory.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let stopped = signals::stopped()?;
        let client = connect(&Connection { kubeconfig: args.kubeconfig, context: args.context }).await?;
        tracing::info!(
            "drover {} as {identity}: Plans of namespace {namespace}, Lease {namespace}/{}",
            env!("CARGO_PKG_VERSION"),
            options.election.name
        );
        let told = async {
            stopped.await;
            tracing::info!("stopping: giving back the Lease");
        };
        Operator::new(client, options).run(told).await;
        tracing::info!("stopped");
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_of_later_releases_are_refused_by_name() {
        assert_eq!(controller("plan"), Ok(Controller::Plan));
        assert_eq!(controller("guest").unwrap_err(), "the controller guest is not in this release, only plan is");
        assert_eq!(controller("plans").unwrap_err(), "there is no such controller, only plan");
    }
}
