//! `drover-mutants`: do the tests of a crate notice when a line of it says something else?
//!
//! The changes are those of cargo-mutants. That builds the tests anew for each, at half a minute; here all of a sample are in one build,
//! each behind a switch, and trying one takes as long as the tests do.

mod copy;
mod mutant;
mod switch;
mod trial;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use copy::Copy;
use mutant::Mutant;
use trial::Trial;

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
    let all = mutant::list(workspace, &args.package)?;
    let count = all.len();
    let sample: Vec<(usize, Mutant)> = all
        .into_iter()
        .enumerate()
        .skip(from)
        .step_by(every)
        .filter(|(_, mutant)| mutant.name.contains(&args.only))
        .collect();
    // Other crates are built once for all trees.
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), |dir| workspace.join(dir));
    let tree = target.join("switched");
    let copy = Copy { workspace, package: &args.package, tree, target };
    let built = copy.build(&sample)?;
    let tested = copy.tree.join("crates").join(args.package.trim_start_matches("drover-"));
    let numbers: Vec<usize> = built.tried.iter().copied().collect();
    let survivors = Trial::new(built.programs, tested)?.survivors(&numbers)?;

    let mut parts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (number, mutant) in sample.iter().filter(|(number, _)| built.tried.contains(number)) {
        let (tried, caught) = parts.entry(part(&mutant.file)).or_default();
        *tried += 1;
        *caught += usize::from(!survivors.contains(number));
        if survivors.contains(number) {
            println!("survived: {}", mutant.name);
        }
    }
    for (part, (tried, caught)) in parts {
        println!("{part:<24} {caught:>5} of {tried:>5} caught");
    }
    let (tried, caught) = (numbers.len(), numbers.len() - survivors.len());
    let percent = 100.0 * caught as f64 / tried.max(1) as f64;
    println!(
        "{caught} of {tried} caught, {percent:.1} %; sampled {} of {count}, of which {} do not compile",
        sample.len(),
        sample.len() - tried
    );
    Ok(())
}

/// The folder or the file below `src`.
fn part(file: &str) -> &str {
    let inside = file.split_once("/src/").map_or(file, |(_, inside)| inside);
    inside.split('/').next().unwrap_or(inside)
}
