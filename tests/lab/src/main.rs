//! `drover-lab`: builds the lab, and runs it for a person or a script.
#![allow(clippy::disallowed_methods, reason = "it says how long a start took on this machine")]

use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use drover_lab::{Binaries, Error, Lab, LabOptions, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// A real Kubernetes control plane on this machine, for tests.
#[derive(Debug, Parser)]
#[command(name = "drover-lab")]
enum Act {
    /// Build what is missing.
    Build,
    /// Start a control plane and keep it until Ctrl-C or SIGTERM.
    Up {
        /// Add this many nodes that KWOK plays: node-1, node-2, …
        #[arg(long, value_name = "N", default_value_t = 0)]
        kwok_nodes: usize,
        /// Write the administrator's kubeconfig here, too.
        #[arg(long, value_name = "FILE")]
        write_kubeconfig: Option<PathBuf>,
    },
    /// Print the folder of the binaries.
    Path,
    /// Record the discovery documents and schemas of a fresh API server, for the embedded one.
    Record {
        #[arg(value_name = "FILE", default_value = "crates/corral/src/apiserver/recorded/kubernetes.zst")]
        file: PathBuf,
    },
}

fn main() -> ExitCode {
    let done = match Act::parse() {
        Act::Build => Binaries::ensure().map(|binaries| println!("{}", binaries.dir().display())),
        Act::Up { kwok_nodes, write_kubeconfig } => up(kwok_nodes, write_kubeconfig.as_deref()),
        Act::Record { file } => drover_lab::record(&file),
        Act::Path => Binaries::location().map(|dir| println!("{}", dir.display())),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("drover-lab: {error}");
            ExitCode::FAILURE
        }
    }
}

fn up(kwok_nodes: usize, write_kubeconfig: Option<&Path>) -> Result<()> {
    let binaries = Binaries::ensure()?;
    // From here on a signal waits until the lab is up, and then ends it in order.
    let mut signals =
        Signals::new([SIGINT, SIGTERM]).map_err(|source| Error::Start { name: "the signal handler", source })?;
    let started = Instant::now();
    let lab = Lab::up(&LabOptions { kwok: kwok_nodes > 0, ..LabOptions::default() })?;
    if kwok_nodes > 0 {
        let names: Vec<String> = (1..=kwok_nodes).map(|number| format!("node-{number}")).collect();
        lab.add_kwok_nodes(&names.iter().map(String::as_str).collect::<Vec<_>>(), &[])?;
    }
    let kubeconfig = match write_kubeconfig {
        Some(path) => copy_secret(lab.kubeconfig(), path)?,
        None => lab.kubeconfig(),
    };
    println!(
        "The lab is up after {:.1} s: {} with {kwok_nodes} nodes. Use it with",
        started.elapsed().as_secs_f32(),
        lab.url()
    );
    println!("  export KUBECONFIG={}", kubeconfig.display());
    println!("  {} get nodes", binaries.dir().join("kubectl").display());
    println!("The components' logs are in {}. Ctrl-C ends it.", lab.dir().join("logs").display());

    signals.forever().next();
    drop(lab);
    println!("The lab is down.");
    Ok(())
}

/// Copies a file with a key in it, for the owner's eyes only.
fn copy_secret<'a>(from: &Path, to: &'a Path) -> Result<&'a Path> {
    let copy = || {
        let mut source = std::fs::File::open(from)?;
        let mut target = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(to)?;
        std::io::copy(&mut source, &mut target)
    };
    copy().map_err(|source| Error::File { act: "write", path: to.to_owned(), source })?;
    Ok(to)
}
