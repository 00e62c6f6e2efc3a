//! `drover`: the command line.

mod args;
mod commands;
mod last_words;
mod logging;
mod output;
mod scenarios;
mod serving;
mod signals;
mod sources;

use std::io::Write as _;
use std::process::ExitCode;

use args::Cli;
use output::{Ended, is_broken_pipe, one_sentence};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match commands::run(Cli::read()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        // What there is to say has been said.
        Err(error) if error.is::<Ended>() => ExitCode::from(error.downcast_ref().map_or(1, |Ended(code)| *code)),
        Err(error) => {
            // Nobody is left to tell if stderr is closed, too.
            let _ = writeln!(std::io::stderr(), "error: {}", one_sentence(&error));
            ExitCode::from(if error.is::<args::Usage>() { 2 } else { 1 })
        }
    }
}
