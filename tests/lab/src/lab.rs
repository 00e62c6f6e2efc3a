//! One running control plane, from its first process to its last.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::audit::{self, Audited};
use crate::binaries::Binaries;
use crate::control_plane::{API_SERVER, CONTROLLER_MANAGER, ETCD, KWOK, SCHEDULER, Site};
use crate::error::{Error, OnFile, Result};
use crate::kubectl::Kubectl;
use crate::network::Network;
use crate::processes::Processes;
use crate::{etcd, kwok, ready};

#[derive(Debug, Clone)]
pub struct LabOptions {
    /// Run KWOK, for nodes without machines.
    pub kwok: bool,
    /// Run etcd and the API server and nothing else, so that nobody but the caller writes.
    pub api_server_only: bool,
    /// Run in a network namespace of its own, which real nodes can join. Needs root.
    pub own_network: bool,
    /// Let the API server write down all requests: see [`Lab::audited`].
    pub audit: bool,
    /// How long each component may take to be ready.
    pub patience: Duration,
}

impl Default for LabOptions {
    fn default() -> Self {
        Self {
            kwok: false,
            api_server_only: false,
            own_network: false,
            audit: false,
            patience: Duration::from_secs(60),
        }
    }
}

/// A control plane of real components on loopback. Dropping it ends them and removes all that they stored.
#[derive(Debug)]
pub struct Lab {
    pub(crate) processes: Processes,
    pub(crate) site: Site,
    pub(crate) kubectl: Kubectl,
    admin: PathBuf,
    pub(crate) options: LabOptions,
}

impl Lab {
    /// Starts a fresh control plane and waits until it works. Builds the components first if they are missing.
    pub fn up(options: &LabOptions) -> Result<Self> {
        let binaries = Binaries::ensure()?;
        let mut processes = Processes::new_in(&roomy_folder())?;
        let dir = processes.dir().to_owned();
        let network = match options.own_network {
            true => Network::own(&mut processes, options.patience)?,
            false => Network::Loopback,
        };
        let site = Site::prepare(binaries, &dir, network.clone())?;
        let admin = site.kubeconfig("admin");
        let kubectl = Kubectl { program: site.binaries.path("kubectl"), kubeconfig: admin.clone(), dir, network };
        let mut lab = Self { processes, site, kubectl, admin, options: options.clone() };

        lab.start_etcd()?;
        lab.start_apiserver()?;
        if options.api_server_only {
            return Ok(lab);
        }
        lab.processes.start(CONTROLLER_MANAGER, &mut lab.site.controller_manager())?;
        lab.processes.start(SCHEDULER, &mut lab.site.scheduler())?;
        if options.kwok {
            lab.start_kwok()?;
        }
        lab.wait_for_controllers()?;
        Ok(lab)
    }

    /// The kubeconfig of the administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.admin
    }

    /// Writes a kubeconfig for a user who may do only what RBAC grants to that user or group.
    pub fn kubeconfig_for(&self, user: &str, group: Option<&str>) -> Result<PathBuf> {
        let path = self.site.kubeconfig(&format!("user-{}", user.replace('/', "-")));
        self.site.pki.kubeconfig(&path, &self.site.url(), user, group)?;
        Ok(path)
    }

    /// The requests that were answered so far, if [`LabOptions::audit`] is set.
    pub fn audited(&self) -> Result<Vec<Audited>> {
        audit::read(self.dir())
    }

    /// The program that [`Lab::kubectl`] runs.
    pub(crate) fn kubectl_path(&self) -> &Path {
        &self.kubectl.program
    }

    /// Runs kubectl as the administrator and returns what it printed.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.kubectl.run(arguments)
    }

    /// kubectl as the administrator, to be started with arguments of the caller's.
    pub fn kubectl_command(&self) -> Command {
        self.kubectl.command()
    }

    pub fn kubectl_apply(&self, yaml: &str) -> Result<String> {
        self.kubectl.run_on(&["apply"], yaml)
    }

    /// Applies definitions of kinds, and waits until objects of these kinds can be made.
    pub fn define(&self, yaml: &str) -> Result<()> {
        self.kubectl_apply(yaml)?;
        ready::wait_for_definitions(&self.kubectl, self.options.patience)
    }

    /// Adds nodes and waits until pods can run on them.
    pub fn add_kwok_nodes(&self, names: &[&str], labels: &[(&str, &str)]) -> Result<()> {
        if !self.options.kwok {
            return Err(Error::NoKwok);
        }
        kwok::add_nodes(&self.kubectl, names, labels, self.options.patience)
    }

    /// Takes the API server away; what is stored stays.
    pub fn stop_apiserver(&mut self) -> Result<()> {
        self.processes.stop(API_SERVER)
    }

    /// Brings the API server back, on the same port and with the same data, and waits until it is ready.
    pub fn start_apiserver(&mut self) -> Result<()> {
        let mut command = self.site.api_server();
        if self.options.audit {
            command.args(audit::flags(self.dir())?);
        }
        self.processes.start(API_SERVER, &mut command)?;
        let (kubectl, network, port) = (&self.kubectl, &self.site.network, self.site.ports.api_server);
        self.processes.wait_until(API_SERVER, "the API server to be ready", self.options.patience, || {
            // A kubectl costs a tenth of a second of the processor that the others need to start.
            network.is_open(port) && kubectl.answers(&["/readyz"])
        })
    }

    /// Forgets every version of every object but the newest, as a cluster does after five minutes.
    pub fn compact(&self) -> Result<()> {
        self.site.network.run(|| etcd::compact(self.site.ports.etcd))?
    }

    /// Starts a program that ends with the lab; its log is among those of the components.
    pub fn start(&mut self, name: &str, command: &mut Command) -> Result<()> {
        self.processes.start(name, command)
    }

    /// Ends such a program by SIGKILL.
    pub fn kill(&mut self, name: &str) -> Result<()> {
        self.processes.kill(name)
    }

    /// A program that can reach the API server, wherever this lab's network is.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        self.site.network.command(program)
    }

    /// Where the API server listens.
    pub fn url(&self) -> String {
        self.site.url()
    }

    /// The folder of everything that this lab writes, its components' logs among them.
    pub fn dir(&self) -> &Path {
        self.processes.dir()
    }

    /// The ids of its processes.
    pub fn process_ids(&self) -> Vec<u32> {
        self.processes.ids()
    }

    /// The ports on 127.0.0.1 that are its own.
    pub fn ports(&self) -> [u16; 6] {
        self.site.ports.all()
    }

    /// Waits for etcd alone, so that its failure is not told as the API server's.
    fn start_etcd(&mut self) -> Result<()> {
        self.processes.start(ETCD, &mut self.site.etcd())?;
        let (network, port) = (&self.site.network, self.site.ports.etcd);
        self.processes.wait_until(ETCD, "etcd to listen", self.options.patience, || network.is_open(port))
    }

    fn start_kwok(&mut self) -> Result<()> {
        let stages = self.dir().join("stages.yaml");
        fs::write(&stages, kwok::STAGES).on_file("write", &stages)?;
        self.processes.start(KWOK, &mut self.site.kwok(&stages))
    }

    fn wait_for_controllers(&mut self) -> Result<()> {
        let (kubectl, network) = (&self.kubectl, &self.site.network);
        let (patience, ports) = (self.options.patience, self.site.ports);
        // The first thing that the controller manager makes; without it no pod can be created.
        self.processes.wait_until(CONTROLLER_MANAGER, "the default service account", patience, || {
            kubectl.answers(&["/api/v1/namespaces/default/serviceaccounts/default"])
        })?;
        let scheduler = format!("--server=https://127.0.0.1:{}", ports.scheduler);
        self.processes.wait_until(SCHEDULER, "the scheduler to be ready", patience, || {
            network.is_open(ports.scheduler) && kubectl.answers(&["/readyz", &scheduler, "--insecure-skip-tls-verify"])
        })?;
        if self.options.kwok {
            self.processes.wait_until(KWOK, "KWOK to listen", patience, || network.is_open(ports.kwok))?;
        }
        Ok(())
    }
}

/// Memory if there is enough of it, for etcd's sake, else the folder for temporary files. A container may have as little as
/// 64 MB of shared memory, which etcd's first log file fills.
pub(crate) fn roomy_folder() -> PathBuf {
    const ENOUGH: u64 = 2 << 30;
    let memory = Path::new("/dev/shm");
    let room = rustix::fs::statvfs(memory).map(|at| at.f_bavail.saturating_mul(at.f_frsize)).unwrap_or(0);
    if room >= ENOUGH && tempfile::tempfile_in(memory).is_ok() { memory.to_owned() } else { std::env::temp_dir() }
}
