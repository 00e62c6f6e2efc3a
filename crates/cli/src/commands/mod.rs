//! One file a command.

pub mod corral;
pub mod crds;
pub mod demo;
pub mod drain;
pub mod operator;
pub mod simulate;
pub mod why;

use crate::args::{Cli, Command};

pub fn run(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::Demo(args) => demo::run(&args, cli.output),
        Command::Corral(args) => corral::run(&args, cli.output),
        Command::Simulate(args) => simulate::run(&args, cli.output),
        Command::Operator(args) => operator::run(args, cli.output),
        Command::Why(args) => why::run(&args, cli.output),
        Command::Drain(args) => drain::run(&args, cli.output),
        Command::Cordon(args) => drain::run_cordon(&args, cli.output),
        Command::Crds(args) => crds::run(&args, cli.output),
    }
}
