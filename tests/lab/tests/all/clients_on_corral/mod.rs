//! The clients that people have, against the embedded cluster: stock kubectl and Helm.

mod guest;
mod guide;
mod harvester;
mod helm;
mod kubectl;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use drover_clock::Clock;
use drover_corral::apiserver::{ApiServer, Options};
use drover_corral::serve::{Served, serve};
use drover_corral::world::World;
use drover_lab::Binaries;
use drover_sim::Scenario;
use tokio::task::JoinHandle;

/// An embedded cluster with three nodes, and a client for it.
struct Cluster {
    client: PathBuf,
    dir: tempfile::TempDir,
    world: JoinHandle<()>,
    _served: Served,
}

/// The same conversation with a new cluster for each kubectl that the lab builds.
async fn with_every_kubectl(conversation: impl AsyncFn(&Cluster) -> Result<()>) -> Result<()> {
    for kubectl in Binaries::ensure_clients()?.kubectls() {
        let name = kubectl.display().to_string();
        let cluster = Cluster::up(kubectl).await?;
        conversation(&cluster).await.with_context(|| format!("with {name}"))?;
    }
    Ok(())
}

impl Cluster {
    async fn up(client: PathBuf) -> Result<Self> {
        let options = Options { clock: Clock::real(), seed: 1, latency: Duration::ZERO, watch_window: 10_000 };
        let server = ApiServer::new(options);
        let scenario = Scenario::default();
        scenario.set_up_cluster(&server).map_err(|status| anyhow::anyhow!("{}", status.message))?;
        let world = tokio::spawn(World::run(server.clone(), scenario.world()));
        let served = serve(server, ([127, 0, 0, 1], 0).into()).await?;
        let dir = tempfile::tempdir()?;
        served.write_kubeconfig(&dir.path().join("kubeconfig"))?;
        Ok(Cluster { client, dir, world, _served: served })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.client);
        command.arg("--kubeconfig").arg(self.dir.path().join("kubeconfig")).args(arguments);
        // Neither reads nor leaves anything in the home of whoever runs this.
        command.env("HOME", self.dir.path()).env_remove("KUBECONFIG");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// What the client prints; an error if it fails.
    fn run(&self, arguments: &[&str]) -> Result<String> {
        self.run_on(arguments, "")
    }

    fn run_on(&self, arguments: &[&str], input: &str) -> Result<String> {
        let (code, out, err) = self.outcome(arguments, input)?;
        if code != 0 {
            bail!("`{}` ended with {code}: {err}", arguments.join(" "));
        }
        Ok(out)
    }

    fn outcome(&self, arguments: &[&str], input: &str) -> Result<(i32, String, String)> {
        // The server answers on another thread meanwhile.
        tokio::task::block_in_place(|| {
            let mut child = self.command(arguments).spawn()?;
            child.stdin.take().context("no standard input")?.write_all(input.as_bytes())?;
            let output = child.wait_with_output()?;
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            Ok((output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr)))
        })
    }

    fn write(&self, name: &str, text: &str) -> Result<String> {
        let path = self.dir.path().join(name);
        std::fs::create_dir_all(path.parent().context("no folder")?)?;
        std::fs::write(&path, text)?;
        Ok(path.to_string_lossy().into_owned())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.world.abort();
    }
}
