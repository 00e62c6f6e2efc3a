//! The embedded cluster on a socket, and the kubeconfig that leads there.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

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

fn scratch_file() -> anyhow::Result<TempPath> {
    let file = tempfile::Builder::new().prefix("drover-").suffix(".kubeconfig").tempfile();
    let file = file.context("cannot make a file for the kubeconfig; name one with --write-kubeconfig")?;
    Ok(file.into_temp_path())
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
