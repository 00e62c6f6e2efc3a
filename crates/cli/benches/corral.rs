//! How long it takes from the start of `drover corral` until it serves: `make bench`.
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const ROUNDS: usize = 5;
const AT_MOST: Duration = Duration::from_millis(100);

fn main() -> Result<()> {
    let mut times = (0..ROUNDS).map(|_| round()).collect::<Result<Vec<_>>>()?;
    times.sort();
    let median = times[ROUNDS / 2];
    println!("drover corral is ready after {median:?} (median of {ROUNDS}; target: below {AT_MOST:?})");
    if median > AT_MOST {
        bail!("drover corral took {median:?} to be ready, and may take {AT_MOST:?}");
    }
    Ok(())
}

/// It says where it is once it listens.
fn round() -> Result<Duration> {
    let folder = tempfile::tempdir()?;
    let started = Instant::now();
    let mut corral = Command::new(env!("CARGO_BIN_EXE_drover"));
    corral.args(["corral", "-o", "json", "--write-kubeconfig"]).arg(folder.path().join("kubeconfig"));
    let mut corral = Running(corral.stdout(Stdio::piped()).spawn()?);
    let mut line = String::new();
    BufReader::new(corral.0.stdout.take().context("no output")?).read_line(&mut line)?;
    let time = started.elapsed();
    if !line.contains("https://") {
        bail!("drover corral says {line:?} in place of where it is");
    }
    Ok(time)
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
