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
        /// Play them to a real server, too, instead of taking its answers from the recording.
        #[arg(long)]
        live: bool,
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
        Act::Compare { scripts, live } => compare(&scripts, live),
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

fn compare(names: &[String], live: bool) -> Result<bool> {
    let proof = Proof::of(names)?;
    let known = proof.known()?;
    let (tally, outdated) = match live {
        true => {
            let live = proof.live(&known)?;
            (live.corral, live.outdated)
        }
        false => (proof.against_recordings(&known)?, vec![]),
    };
    tally.differing.iter().for_each(|difference| println!("{difference}"));
    outdated.iter().for_each(|difference| println!("the recording (Corral) is outdated: {difference}"));
    println!("{tally} ({} entries are known)", known.len());
    Ok(tally.differing.is_empty() && outdated.is_empty())
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
