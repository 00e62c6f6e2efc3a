//! `drover`: the command line.

mod args;
mod commands;
mod logging;
mod objects;
mod output;
mod scenarios;
mod serving;
mod signals;

use std::io::Write as _;
use std::process::ExitCode;

use args::Cli;
use output::{is_broken_pipe, one_sentence};

fn main() -> ExitCode {
    match commands::run(Cli::read()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to tell if stderr is closed, too.
            let _ = writeln!(std::io::stderr(), "error: {}", one_sentence(&error));
            ExitCode::from(if error.is::<args::Usage>() { 2 } else { 1 })
        }
    }
}
