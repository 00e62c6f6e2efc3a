//! `drover-lab`: builds the lab, and runs it for a person or a script.
#![allow(clippy::disallowed_methods, reason = "it says how long a start took on this machine")]

use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use clap::Parser;
use drover_lab::nodes::{self, Cluster, ClusterOptions};
use drover_lab::{Binaries, ClusterApi, Error, Lab, LabOptions, Result, demo, images};
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
        /// Add this many real nodes, six at most: n1, n2, … (needs root)
        #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "kwok_nodes", value_parser = clap::value_parser!(u8).range(..=6))]
        real_nodes: u8,
        /// Add Cluster API, with machines that are in memory only (needs root)
        #[arg(long, conflicts_with_all = ["kwok_nodes", "real_nodes"])]
        cluster_api: bool,
        /// Build the images of Drover, of a web server and of a kubelet's upgrade, and load them into the real nodes.
        #[arg(long, requires = "real_nodes")]
        images: bool,
        /// Write the administrator's kubeconfig here, too.
        #[arg(long, value_name = "FILE")]
        write_kubeconfig: Option<PathBuf>,
    },
    /// Upgrade the kubelets of real nodes under load, told line by line (needs root)
    Demo {
        /// How many nodes, six at most
        #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=6))]
        nodes: u8,
    },
    /// Print the folder of the binaries.
    Path,
    /// Write down how the built-in kinds are encoded in protobuf, for the embedded API server.
    Protobuf {
        /// The file to write.
        file: PathBuf,
    },
    /// Record the discovery documents and schemas of a fresh API server, for the embedded one.
    Record {
        #[arg(value_name = "FILE", default_value = "crates/corral/src/apiserver/recorded/kubernetes.zst")]
        file: PathBuf,
    },
    /// Make the namespaces of a node and go on there as its first process.
    #[command(hide = true)]
    NodeEnter { spec: PathBuf },
    /// Be the first process of a node.
    #[command(hide = true)]
    NodeInit { spec: PathBuf },
}

fn main() -> ExitCode {
    let done = match Act::parse() {
        Act::Protobuf { file } => drover_lab::write_table(&file),
        Act::Record { file } => drover_lab::record(&file),
        Act::Build => build(),
        Act::Up { kwok_nodes, real_nodes, cluster_api, images, write_kubeconfig } => {
            let what = What { kwok_nodes, real_nodes, cluster_api, images };
            up(what, write_kubeconfig.as_deref())
        }
        Act::Demo { nodes } => this_program().and_then(|program| demo::run(nodes, &program)),
        Act::NodeEnter { spec } => nodes::enter(&spec),
        Act::NodeInit { spec } => nodes::init(&spec),
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

fn build() -> Result<()> {
    for binaries in [
        Binaries::ensure()?,
        Binaries::ensure_kubelets()?,
        Binaries::ensure_clients()?.others,
        Binaries::ensure_port_forward()?,
        Binaries::ensure_cluster_api()?,
    ] {
        println!("{}", binaries.dir().display());
    }
    Ok(())
}

/// What is started beside a control plane.
struct What {
    kwok_nodes: usize,
    real_nodes: u8,
    cluster_api: bool,
    images: bool,
}

fn up(what: What, write_kubeconfig: Option<&Path>) -> Result<()> {
    let What { kwok_nodes, real_nodes, .. } = what;
    let binaries = Binaries::ensure()?;
    let images = if what.images { images::all()? } else { vec![] };
    // From here on a signal waits until the lab is up, and then ends it in order.
    let mut signals =
        Signals::new([SIGINT, SIGTERM]).map_err(|source| Error::Start { name: "the signal handler".into(), source })?;
    let started = Instant::now();
    let running = match real_nodes {
        _ if what.cluster_api => Running::ClusterApi(ClusterApi::up(LabOptions::default().patience)?),
        0 => Running::Lab(Lab::up(&LabOptions { kwok: kwok_nodes > 0, ..LabOptions::default() })?),
        _ => Running::Cluster(Cluster::up(&ClusterOptions {
            images,
            ..ClusterOptions::new(real_nodes, this_program()?)
        })?),
    };
    let lab = running.lab();
    if kwok_nodes > 0 {
        let names: Vec<String> = (1..=kwok_nodes).map(|number| format!("node-{number}")).collect();
        lab.add_kwok_nodes(&names.iter().map(String::as_str).collect::<Vec<_>>(), &[])?;
    }
    let kubeconfig = match write_kubeconfig {
        Some(path) => copy_secret(lab.kubeconfig(), path)?,
        None => lab.kubeconfig(),
    };
    println!(
        "The lab is up after {:.1} s: {} with {} nodes. Use it with",
        started.elapsed().as_secs_f32(),
        lab.url(),
        kwok_nodes + usize::from(real_nodes)
    );
    println!("  export KUBECONFIG={}", kubeconfig.display());
    println!("  {} get nodes", line_of(&lab.command(binaries.dir().join("kubectl"))));
    println!("The components' logs are in {}. Ctrl-C ends it.", lab.dir().join("logs").display());

    signals.forever().next();
    drop(running);
    println!("The lab is down.");
    Ok(())
}

enum Running {
    Lab(Lab),
    Cluster(Cluster),
    ClusterApi(ClusterApi),
}

impl Running {
    fn lab(&self) -> &Lab {
        match self {
            Running::Lab(lab) => lab,
            Running::Cluster(cluster) => cluster.lab(),
            Running::ClusterApi(cluster_api) => cluster_api.lab(),
        }
    }
}

fn this_program() -> Result<PathBuf> {
    std::env::current_exe().map_err(|source| Error::File { act: "find", path: "/proc/self/exe".into(), source })
}

/// The command as one would type it.
fn line_of(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
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
