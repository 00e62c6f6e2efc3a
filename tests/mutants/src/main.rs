//! `drover-mutants`: do the tests of a crate notice when a line of it says something else?
//!
//! The changes are those of cargo-mutants. That builds the tests anew for each, at half a minute; here all of a sample are in one build,
//! each behind a switch, and trying one takes as long as the tests do.

mod copy;
mod mutant;
mod switch;
mod trial;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use copy::Copy;
use mutant::Mutant;
use trial::{Fate, Trial};

type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot {act} {}: {source}", path.display())]
    File { act: &'static str, path: PathBuf, source: std::io::Error },

    #[error("cargo-mutants lists no changes (`cargo install cargo-mutants --locked`): {words}")]
    NoList { words: String },

    #[error("cannot read what cargo-mutants lists: {0}")]
    List(#[from] serde_json::Error),

    #[error("cannot read {file}: {error}")]
    Syntax { file: String, error: syn::Error },

    #[error("the copy does not compile, and no change is to blame: {complaints}")]
    DoesNotCompile { complaints: String },

    #[error("tests fail without any change")]
    FailsUnchanged,

    #[error("a thread that ran tests has died")]
    WorkerDied,
}

impl Error {
    fn file(act: &'static str, path: &Path, source: std::io::Error) -> Self {
        Error::File { act, path: path.to_owned(), source }
    }
}

/// Tries the changes of cargo-mutants, many in one build.
#[derive(Debug, Parser)]
#[command(name = "drover-mutants")]
struct Args {
    #[arg(long, default_value = "drover-core")]
    package: String,
    /// Every N-th change, from the K-th.
    #[arg(long, default_value = "0/8", value_name = "K/N", value_parser = shard)]
    shard: (usize, usize),
    /// Only changes whose name holds this, such as the path of a file.
    #[arg(long, default_value = "")]
    only: String,
    /// Only tell which changes no test comes to, and try none.
    #[arg(long)]
    unreached: bool,
    /// Also what survived in this report, as an earlier run has printed it, told apart.
    #[arg(long, value_name = "FILE")]
    again: Option<PathBuf>,
}

fn shard(text: &str) -> std::result::Result<(usize, usize), String> {
    let parts = text.split_once('/').and_then(|(from, every)| Some((from.parse().ok()?, every.parse().ok()?)));
    parts.filter(|(from, every)| from < every).ok_or_else(|| "K/N, where K is less than N".to_owned())
}

fn main() -> ExitCode {
    match report(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("drover-mutants: {error}");
            ExitCode::FAILURE
        }
    }
}

fn report(args: &Args) -> Result<()> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let workspace = here.ancestors().nth(2).unwrap_or(here);
    let (from, every) = args.shard;
    let again = args.again.as_deref().map(names).transpose()?.unwrap_or_default();
    let all = mutant::list(workspace, &args.package)?;
    let count = all.len();
    let is_fresh = |number: usize, mutant: &Mutant| {
        number >= from && (number - from).is_multiple_of(every) && mutant.name.contains(&args.only)
    };
    let is_meant = |(number, mutant): &(usize, Mutant)| again.contains(&mutant.name) || is_fresh(*number, mutant);
    let sample: Vec<(usize, Mutant)> = all.into_iter().enumerate().filter(is_meant).collect();
    // Other crates are built once for all trees.
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), |dir| workspace.join(dir));
    let (tree, notes) = (target.join("switched"), target.join("reached.txt"));
    let copy = Copy { workspace, package: &args.package, tree, target };
    let built = copy.build(&sample)?;
    for (number, mutant) in sample.iter().filter(|(number, _)| !built.tried.contains(number)) {
        let why = if built.refused.contains(number) { "does not compile" } else { "has no switch" };
        println!("{why}: {}", mutant.name);
    }
    let tested = copy.tree.join("crates").join(args.package.trim_start_matches("drover-"));
    let tried: BTreeMap<usize, &Mutant> = sample.iter().map(|(number, mutant)| (*number, mutant)).collect();
    let numbers: Vec<usize> = built.tried.iter().copied().collect();
    let told = |number: usize, fate: Fate| match fate {
        Fate::Caught => {}
        Fate::Endless => println!("endless: {}", tried[&number].name),
        Fate::Survived => println!("survived: {}", tried[&number].name),
        Fate::Unreached => println!("unreached: {}", tried[&number].name),
    };
    let trial = Trial::new(built.programs, tested, &notes)?;
    if args.unreached {
        let unreached = numbers.iter().filter(|number| !trial.is_reached(**number));
        unreached.for_each(|number| told(*number, Fate::Unreached));
        return Ok(());
    }
    let fates = trial.fates(&numbers, &told)?;

    let (earlier, fresh): (Vec<_>, Vec<_>) =
        fates.into_iter().partition(|(number, _)| again.contains(&tried[number].name));
    let mut parts: BTreeMap<&str, Vec<Fate>> = BTreeMap::new();
    for (number, fate) in &fresh {
        parts.entry(part(&tried[number].file)).or_default().push(*fate);
    }
    for (part, fates) in parts {
        println!("{part:<24} {:>5} of {:>5} caught", caught(&fates), fates.len());
    }
    let fates = |of: Vec<(usize, Fate)>| of.into_iter().map(|(_, fate)| fate).collect::<Vec<_>>();
    let (earlier, fresh) = (fates(earlier), fates(fresh));
    let percent = 100.0 * caught(&fresh) as f64 / fresh.len().max(1) as f64;
    println!(
        "{} of {} caught, {percent:.1} %; {} by not ending; no test comes to {} of the others",
        caught(&fresh),
        fresh.len(),
        fresh.iter().filter(|fate| **fate == Fate::Endless).count(),
        fresh.iter().filter(|fate| **fate == Fate::Unreached).count(),
    );
    if !again.is_empty() {
        println!("of what survived before, {} of {} are caught", caught(&earlier), earlier.len());
    }
    println!(
        "took {} of {count}, of which {} do not compile and {} have no switch",
        sample.len(),
        built.refused.len(),
        sample.len() - built.refused.len() - fresh.len() - earlier.len(),
    );
    Ok(())
}

fn caught(fates: &[Fate]) -> usize {
    fates.iter().filter(|fate| fate.is_caught()).count()
}

/// The changes that an earlier report tells of.
fn names(report: &Path) -> Result<BTreeSet<String>> {
    let text = fs::read_to_string(report).map_err(|error| Error::file("read", report, error))?;
    let name =
        |line: &str| ["survived: ", "unreached: "].iter().find_map(|fate| line.strip_prefix(fate)).map(str::to_owned);
    Ok(text.lines().filter_map(name).collect())
}

/// The folder or the file below `src`.
fn part(file: &str) -> &str {
    let inside = file.split_once("/src/").map_or(file, |(_, inside)| inside);
    inside.split('/').next().unwrap_or(inside)
}
