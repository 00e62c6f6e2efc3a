//! `drover-difference`: records what a real kube-apiserver says, and compares Corral with it.

use std::process::ExitCode;

use clap::Parser;
use drover_difference::{Corral, Folder, Real, Result, Side, compare, recording};

/// Plays scripts to a real kube-apiserver and to Corral.
#[derive(Debug, Parser)]
#[command(name = "drover-difference")]
enum Act {
    /// Play scripts to a real server and keep its answers.
    Record {
        /// The scripts; all if none is named.
        scripts: Vec<String>,
    },
    /// Compare Corral with the recorded answers, and print every difference.
    Compare {
        /// The scripts; all if none is named.
        scripts: Vec<String>,
    },
}

fn main() -> ExitCode {
    let done = match Act::parse() {
        Act::Record { scripts } => record(&scripts).map(|()| true),
        Act::Compare { scripts } => compare_all(&scripts),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("drover-difference: {error}");
            ExitCode::FAILURE
        }
    }
}

fn record(names: &[String]) -> Result<()> {
    let folder = Folder::here();
    let scripts = folder.named(names)?;
    let real = Real::start()?;
    for script in scripts {
        let answers = real.answers(&script)?;
        recording::write(&folder.recording(&script.name), &script, &answers)?;
        println!("{}: {} answers", script.name, answers.len());
    }
    Ok(())
}

fn compare_all(names: &[String]) -> Result<bool> {
    let folder = Folder::here();
    let known = folder.known()?;
    let mut equal = true;
    for script in folder.named(names)? {
        let recorded = recording::read(&folder.recording(&script.name), &script)?;
        let found = compare::differences(&script.name, &recorded, &Corral.answers(&script)?);
        for difference in found.into_iter().filter_map(|difference| known.unexcused(difference)) {
            equal = false;
            println!("{difference}");
        }
    }
    Ok(equal)
}
