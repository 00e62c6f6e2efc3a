//! One file a command.

pub mod control_plane_recover_certs;
pub mod control_plane_upgrade;
pub mod corral;
pub mod crds;
pub mod demo;
pub mod drain;
pub mod node;
pub mod operator;
pub mod preflight;
pub mod simulate;
pub mod status;
pub mod upgrade;
pub mod why;

use crate::args::{Cli, Command, Format, Usage};

pub fn run(cli: Cli) -> anyhow::Result<()> {
    if cli.output == Some(Format::Markdown) && !matches!(cli.command, Command::Preflight(_)) {
        anyhow::bail!(Usage("only preflight prints Markdown: choose json, yaml or table".to_owned()));
    }
    match cli.command {
        Command::Demo(args) => demo::run(&args, cli.output),
        Command::Corral(args) => corral::run(&args, cli.output),
        Command::Simulate(args) => simulate::run(&args, cli.output),
        Command::Operator(args) => operator::run(args, cli.output),
        Command::Preflight(args) => preflight::run(&args, cli.output),
        Command::Why(args) => why::run(&args, cli.output),
        Command::Status(args) => status::run(&args, cli.output),
        Command::Drain(args) => drain::run(&args, cli.output),
        Command::Cordon(args) => drain::run_cordon(&args, cli.output),
        Command::Upgrade(args) => upgrade::run(&args),
        Command::Node(args) => node::run(&args),
        Command::ApplyManifests(args) => node::apply_manifests(&args),
        Command::ControlPlaneRecoverCerts(args) => control_plane_recover_certs::run(&args),
        Command::ControlPlaneUpgrade(args) => control_plane_upgrade::run(&args),
        Command::Crds(args) => crds::run(&args, cli.output),
    }
}
