//! `drover-difference`: records what a real kube-apiserver says, and compares Corral with it.

use std::process::ExitCode;

use clap::Parser;
use drover_difference::{COUNT, Corral, Folder, Proof, Real, Result, SEED, shrink};

/// Plays scripts to a real kube-apiserver and to Corral.
#[derive(Debug, Parser)]
#[command(name = "drover-difference")]
enum Act {
    /// Play scripts to a real server and keep its answers.
    Record {
        /// The scripts, `generated` for all generated ones; everything if none is named.
        scripts: Vec<String>,
    },
    /// Compare Corral with the recorded answers, and print every difference.
    Compare {
        /// The scripts, `generated` for all generated ones; everything if none is named.
        scripts: Vec<String>,
    },
    /// Generate requests, play them to a real server and to Corral, and cut what differs down to few steps.
    Fuzz {
        #[arg(long, default_value_t = SEED)]
        seed: u64,
        /// How many requests.
        #[arg(long, default_value_t = COUNT)]
        count: usize,
        /// Stop after this many episodes that differ.
        #[arg(long, default_value_t = 3)]
        stop_after: usize,
    },
}

fn main() -> ExitCode {
    let done = match Act::parse() {
        Act::Record { scripts } => record(&scripts).map(|()| true),
        Act::Compare { scripts } => compare(&scripts),
        Act::Fuzz { seed, count, stop_after } => fuzz(seed, count, stop_after),
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
    Proof::of(names)?.record(|script| println!("recorded {script}"))
}

fn compare(names: &[String]) -> Result<bool> {
    let proof = Proof::of(names)?;
    let found = proof.corral_against_recordings(&proof.known()?)?;
    found.iter().for_each(|difference| println!("{difference}"));
    Ok(found.is_empty())
}

fn fuzz(seed: u64, count: usize, stop_after: usize) -> Result<bool> {
    let folder = Folder::here();
    let (generator, known) = (folder.generator()?, folder.known()?);
    let real = Real::start()?;
    let mut differing = 0;
    for script in generator.episodes(seed, count) {
        let Some(found) = shrink::first_difference(&script, &real, &Corral, &known)? else { continue };
        differing += 1;
        println!("{}, request {}, differs; cut down to:\n", script.about, found.number);
        let shrunk = shrink::shrink(&script, &found, &real, &Corral, &known)?;
        println!("{}", shrunk.printed());
        if let Some(found) = shrink::first_difference(&shrunk, &real, &Corral, &known)? {
            println!("{found}");
        }
        if differing >= stop_after {
            break;
        }
    }
    match differing {
        0 => println!("seed {seed}: {count} requests, no difference"),
        _ => println!("seed {seed}: {differing} episodes differ"),
    }
    Ok(differing == 0)
}
