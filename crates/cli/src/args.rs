//! What can be said on the command line.

use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use drover_operator::Connection;

use crate::commands::{
    control_plane_recover_certs, control_plane_upgrade, corral, crds, demo, drain, node, operator, preflight, simulate,
    status, upgrade, why,
};

/// Upgrades Kubernetes clusters, node by node, and says at any moment what it waits for.
#[derive(Debug, Parser)]
#[command(name = "drover", version, arg_required_else_help = true, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// How to print [default: a table or text; crds: yaml]
    #[arg(short, long, global = true, value_enum, value_name = "FORMAT", display_order = 90)]
    pub output: Option<Format>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Shows an upgrade on the embedded cluster, with live progress
    Demo(demo::DemoArgs),
    /// Serves the embedded cluster for kubectl and other clients
    Corral(corral::CorralArgs),
    /// Runs an upgrade under faults in virtual time and checks what must always hold
    Simulate(simulate::SimulateArgs),
    /// Upgrades a real cluster: carries out its Plans
    Operator(operator::OperatorArgs),
    /// Says what would go wrong before anything is touched; never writes
    Preflight(preflight::PreflightArgs),
    /// Explains what an upgrade, a node or a pod waits for, since when, and what would help; never writes
    Why(why::WhyArgs),
    /// Tells how far upgrades are, and when they may be done; never writes
    Status(status::StatusArgs),
    /// Empties nodes, as `kubectl drain` does, and says which budget holds it up
    Drain(drain::DrainArgs),
    /// Marks nodes as unschedulable, as `kubectl cordon` does
    Cordon(drain::CordonArgs),
    /// Pauses and resumes nodes of a Harvester upgrade, or lets it take up what has failed
    Upgrade(upgrade::UpgradeArgs),
    /// Does one step of a Harvester upgrade on a node, as its Jobs call it
    Node(node::NodeArgs),
    /// Raises the system services of a Harvester cluster, as the Job of that name calls it
    ApplyManifests(node::ApplyManifestsArgs),
    /// Replaces the control plane of a guest cluster, machine by machine, as cluster-api-upgrade-tool did
    ControlPlaneUpgrade(control_plane_upgrade::ControlPlaneUpgradeArgs),
    /// Brings back lost certificate Secrets of a guest cluster, from what its machines were booted with
    ControlPlaneRecoverCerts(control_plane_recover_certs::ControlPlaneRecoverCertsArgs),
    /// Prints the definitions of Drover's kinds, for `kubectl apply -f -`
    Crds(crds::CrdsArgs),
}

/// Which cluster.
#[derive(Debug, Args)]
pub struct ConnectionArgs {
    /// The kubeconfig to connect with [default: $KUBECONFIG, ~/.kube/config, or the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl ConnectionArgs {
    pub fn connection(&self) -> Connection {
        Connection { kubeconfig: self.kubeconfig.clone(), context: self.context.clone(), server: None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Json,
    Yaml,
    Table,
    /// Of preflight, for pull requests
    Markdown,
}

/// Something is wrong with how the command was called, and clap could not know.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

impl Cli {
    /// Reads the arguments of this process; ends it where they are wrong or ask for help.
    pub fn read() -> Self {
        let matches = Cli::command_called(std::env::args_os().next().as_deref()).get_matches();
        Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }

    /// Installed as `kubectl-drover`, kubectl finds this program, and its help names it as it is called there.
    fn command_called(program: Option<&std::ffi::OsStr>) -> clap::Command {
        let program =
            program.map(std::path::Path::new).and_then(|path| path.file_stem()).and_then(|name| name.to_str());
        let command = Cli::command();
        match program {
            Some("kubectl-drover") => command.bin_name("kubectl drover"),
            _ => command,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn as_a_plugin_it_is_called_as_kubectl_calls_it() {
        let help = |program: &str| {
            let command = Cli::command_called(Some(program.as_ref()));
            let error = command.try_get_matches_from([program, "corral", "--help"]).unwrap_err();
            error.to_string()
        };
        assert!(help("/usr/local/bin/kubectl-drover").contains("Usage: kubectl drover corral"));
        assert!(help("./drover").contains("Usage: drover corral"));
    }
}
