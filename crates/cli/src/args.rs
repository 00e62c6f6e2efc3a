//! What can be said on the command line.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use drover_core::plan::duration::GoDuration;
use drover_operator::Connection;
use jiff::SignedDuration;

use crate::commands::{
    control_plane_recover_certs, control_plane_upgrade, corral, crds, demo, drain, node, operator, preflight, simulate,
    status, upgrade, why,
};
use crate::last_words;

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

/// How long a machine may take if nothing else is said.
pub const MACHINE_TIMEOUT: &str = "15m";

pub fn machine_timeout(text: &str) -> Result<SignedDuration, String> {
    let limit = GoDuration::parse(text).map(SignedDuration::from);
    let limit = limit.ok_or_else(|| format!("{text:?} is no duration such as 15m or 1h30m"))?;
    match limit.is_positive() {
        true => Ok(limit),
        false => Err("a machine must be given longer than nothing".to_owned()),
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

/// The program that `drover control-plane-upgrade` stands in for, and the command.
const ORIGINAL: &str = "cluster-api-upgrade-tool";
const STANDS_IN: &str = "control-plane-upgrade";

impl Cli {
    /// Reads the arguments of this process; ends it where they are wrong or ask for help.
    pub fn read() -> Self {
        let (called, as_original) = called(std::env::args_os().collect());
        let command = Cli::command_called(called.first().map(OsString::as_os_str));
        let parsed = command.try_get_matches_from(called).and_then(|matches| Cli::from_arg_matches(&matches));
        parsed.unwrap_or_else(|error| {
            let code = exit_code(&error, as_original);
            if code == 1 {
                last_words::leave(error.to_string().lines().next().unwrap_or_default());
            }
            // Nobody is left to tell if the output is closed.
            let _ = error.print();
            std::process::exit(code)
        })
    }

    /// Installed as `kubectl-drover`, kubectl finds this program, and its help names it as it is called there.
    fn command_called(program: Option<&OsStr>) -> clap::Command {
        let command = Cli::command();
        match name_of(program) {
            Some("kubectl-drover") => command.bin_name("kubectl drover"),
            _ => command,
        }
    }
}

fn name_of(program: Option<&OsStr>) -> Option<&str> {
    program.map(Path::new)?.file_stem()?.to_str()
}

/// The arguments with the command that they leave out, and whether they are those of the original: it has no commands, only flags, and its
/// Jobs run with nothing changed but their image.
fn called(mut arguments: Vec<OsString>) -> (Vec<OsString>, bool) {
    let is_named = name_of(arguments.first().map(OsString::as_os_str)) == Some(ORIGINAL);
    let has_command = arguments.get(1).is_some_and(|first| first == STANDS_IN);
    let as_original = is_named || begins_with_flag_of_original(&arguments);
    if as_original && !has_command && !arguments.is_empty() {
        arguments.insert(1, STANDS_IN.into());
    }
    (arguments, as_original)
}

fn begins_with_flag_of_original(arguments: &[OsString]) -> bool {
    let command = Cli::command();
    let Some(command) = command.find_subcommand(STANDS_IN) else { return false };
    let flag = |argument: &OsString| {
        let text = argument.to_str()?.strip_prefix("--")?;
        let name = text.split('=').next().unwrap_or(text);
        command.get_arguments().find_map(|known| known.get_long().filter(|long| *long == name))
    };
    // Other commands know a kubeconfig, too, and whoever names it before them should hear of that command.
    let is_its_own = |argument: &OsString| flag(argument).is_some_and(|name| name != "kubeconfig");
    arguments.get(1).is_some_and(|first| flag(first).is_some()) && arguments.iter().skip(1).any(is_its_own)
}

/// Help and version are no mistakes. The original ends with 1 whatever is wrong.
fn exit_code(error: &clap::Error, as_original: bool) -> i32 {
    match error.exit_code() {
        0 => 0,
        _ if as_original => 1,
        code => code,
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

    fn parsed(arguments: &[&str]) -> (Result<Cli, clap::Error>, bool) {
        let (called, as_original) = called(arguments.iter().map(OsString::from).collect());
        (Cli::try_parse_from(called), as_original)
    }

    /// What the kubelet starts: the image's program, and the arguments of the Job.
    #[test]
    fn the_job_of_the_original_is_understood_with_nothing_changed_but_its_image() {
        let job: serde_json::Value =
            serde_saphyr::from_str(include_str!("../../core/testdata/original-job.yaml")).unwrap();
        let arguments = job["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap().clone();
        let given: Vec<&str> = arguments.iter().map(|one| one.as_str().unwrap()).collect();

        let (cli, as_original) = parsed(&[&["/usr/bin/drover"], given.as_slice()].concat());

        assert!(as_original && matches!(cli.unwrap().command, Command::ControlPlaneUpgrade(_)));
    }

    #[test]
    fn under_the_name_of_the_original_it_is_that() {
        let (cli, _) = parsed(&["/cluster-api-upgrade-tool", "--config", "upgrade.yaml"]);
        assert!(matches!(cli.unwrap().command, Command::ControlPlaneUpgrade(_)));
        let (cli, _) = parsed(&["cluster-api-upgrade-tool"]);
        assert!(matches!(cli.unwrap().command, Command::ControlPlaneUpgrade(_)));
    }

    #[test]
    fn mistakes_end_as_they_do_there_and_other_commands_are_left_alone() {
        let code = |arguments: &[&str]| {
            let (cli, as_original) = parsed(arguments);
            cli.err().map(|error| exit_code(&error, as_original))
        };
        assert_eq!(code(&["drover", "--upgrade-id=1", "--no-such-flag"]), Some(1));
        assert_eq!(code(&["cluster-api-upgrade-tool", "--help"]), Some(0));
        assert_eq!(code(&["drover", "--kubeconfig", "file", "status"]), Some(2));
        assert_eq!(code(&["drover", "status", "--kubeconfig", "file"]), None);
    }
}
