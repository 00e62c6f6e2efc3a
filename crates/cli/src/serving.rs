//! The embedded cluster on a socket, and the kubeconfig that leads there.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use drover_corral::apiserver::ApiServer;
use drover_corral::serve::{ServeError, Served, serve};
use tempfile::TempPath;

#[derive(Debug, Args)]
pub struct ServingArgs {
    /// Serve the cluster on this address, such as 127.0.0.1:6443 (port 0: a free one)
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
    /// Write the kubeconfig for it to this file
    #[arg(long, value_name = "FILE")]
    pub write_kubeconfig: Option<PathBuf>,
}

/// Served until this is dropped.
#[derive(Debug)]
pub struct Serving {
    served: Served,
    kubeconfig: Kubeconfig,
}

#[derive(Debug)]
enum Kubeconfig {
    OfTheUser(PathBuf),
    /// Goes when serving ends.
    Ours(TempPath),
}

impl ServingArgs {
    pub fn is_wanted(&self) -> bool {
        self.listen.is_some() || self.write_kubeconfig.is_some()
    }

    pub async fn start_if_wanted(&self, server: &ApiServer) -> anyhow::Result<Option<Serving>> {
        match self.is_wanted() {
            true => self.start(server.clone()).await.map(Some),
            false => Ok(None),
        }
    }

    /// Serves on the given address, or on a free port of this machine alone.
    pub async fn start(&self, server: ApiServer) -> anyhow::Result<Serving> {
        let listen = self.listen.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let served = serve(server, listen).await.map_err(with_remedy)?;
        let kubeconfig = match &self.write_kubeconfig {
            Some(path) => Kubeconfig::OfTheUser(std::path::absolute(path).unwrap_or_else(|_| path.clone())),
            None => Kubeconfig::Ours(scratch_file()?),
        };
        served.write_kubeconfig(kubeconfig.path()).map_err(with_remedy)?;
        Ok(Serving { served, kubeconfig })
    }
}

impl Kubeconfig {
    fn path(&self) -> &Path {
        match self {
            Kubeconfig::OfTheUser(path) => path,
            Kubeconfig::Ours(path) => path,
        }
    }
}

impl Serving {
    pub fn address(&self) -> String {
        format!("https://{}", self.served.addr())
    }

    pub fn kubeconfig(&self) -> String {
        self.kubeconfig.path().display().to_string()
    }

    /// How to use it, in the user's shell.
    pub fn advice(&self) -> String {
        format!(
            "The cluster is served at {}. In another terminal:\n\n  export KUBECONFIG={}\n  kubectl get nodes\n",
            self.address(),
            self.kubeconfig()
        )
    }
}

const SCRATCH_PREFIX: &str = "drover-";
const SCRATCH_SUFFIX: &str = ".kubeconfig";
/// How long a host may take to say that nobody listens there.
const PATIENCE: Duration = Duration::from_millis(20);

fn scratch_file() -> anyhow::Result<TempPath> {
    forget_dead(&std::env::temp_dir());
    let file = tempfile::Builder::new().prefix(SCRATCH_PREFIX).suffix(SCRATCH_SUFFIX).tempfile();
    let file = file.context("cannot make a file for the kubeconfig; name one with --write-kubeconfig")?;
    Ok(file.into_temp_path())
}

/// Who is killed leaves its kubeconfig behind. One that leads nowhere any more is of no use to anybody.
fn forget_dead(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(SCRATCH_PREFIX) && name.ends_with(SCRATCH_SUFFIX) && leads_nowhere(&entry.path()) {
            // It may be somebody else's.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Whether nobody listens at the address that a kubeconfig names; false if it names none, or a host that takes its time.
fn leads_nowhere(kubeconfig: &Path) -> bool {
    let text = std::fs::read_to_string(kubeconfig).unwrap_or_default();
    let address = text.lines().find_map(|line| line.trim().strip_prefix("server: https://")?.parse().ok());
    let Some(address) = address else { return false };
    let refused = TcpStream::connect_timeout(&address, PATIENCE).err();
    refused.is_some_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

fn with_remedy(error: ServeError) -> anyhow::Error {
    match error {
        ServeError::Listen { .. } => {
            anyhow::anyhow!("{error}; give another address with --listen, or port 0 for a free one")
        }
        ServeError::Kubeconfig { .. } => anyhow::anyhow!("{error}; give another file with --write-kubeconfig"),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn kubeconfigs_that_lead_nowhere_are_forgotten_and_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, address: SocketAddr| {
            let text = format!("clusters:\n- cluster:\n    server: https://{address}\n");
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        let alive = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let dead = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        write("drover-alive.kubeconfig", alive.local_addr().unwrap());
        write("drover-dead.kubeconfig", dead);
        write("of-the-user.kubeconfig", dead);
        std::fs::write(folder.path().join("drover-new.kubeconfig"), "").unwrap();

        forget_dead(folder.path());

        let mut left: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["drover-alive.kubeconfig", "drover-new.kubeconfig", "of-the-user.kubeconfig"]);
    }
}
