//! The real controllers, as clients of a server that is not the lab's.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::binaries::Binaries;
use crate::control_plane::{CONTROLLER_MANAGER, SCHEDULER, Site};
use crate::error::{OnFile, Result};
use crate::lab::roomy_folder;
use crate::network::Network;
use crate::processes::Processes;

/// A kube-controller-manager and a kube-scheduler. Dropping them ends them.
#[derive(Debug)]
pub struct Controllers {
    processes: Processes,
}

impl Controllers {
    /// Starts both with a kubeconfig of another server, and waits until they listen.
    ///
    /// They speak JSON, and act as the kubeconfig's user: `--use-service-account-credentials` would have them ask for
    /// tokens of service accounts, which only a server with accounts of its own can give.
    pub fn start(kubeconfig: &Path, patience: Duration) -> Result<Self> {
        let binaries = Binaries::ensure()?;
        let mut processes = Processes::new_in(&roomy_folder())?;
        let dir = processes.dir().to_owned();
        let site = Site::prepare(binaries, &dir, Network::Loopback)?;
        for name in [CONTROLLER_MANAGER, SCHEDULER] {
            let path = site.kubeconfig(name);
            fs::copy(kubeconfig, &path).on_file("write", &path)?;
        }
        let as_json = "--kube-api-content-type=application/json";
        let mut manager = site.controller_manager();
        manager.args([as_json, "--use-service-account-credentials=false"]);
        processes.start(CONTROLLER_MANAGER, &mut manager)?;
        processes.start(SCHEDULER, site.scheduler().arg(as_json))?;
        for (name, port) in [(CONTROLLER_MANAGER, site.ports.controller_manager), (SCHEDULER, site.ports.scheduler)] {
            processes.wait_until(name, "it to listen", patience, || Network::Loopback.is_open(port))?;
        }
        Ok(Self { processes })
    }

    /// The folder of everything that they write, their logs among it.
    pub fn dir(&self) -> &Path {
        self.processes.dir()
    }
}
