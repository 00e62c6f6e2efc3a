//! Real Cluster API on a lab's control plane: its managers as plain processes, with the webhooks that they insist on, and infrastructure
//! that is in memory only.
//!
//! Machines of it are Nodes of API servers in the memory of one process, each with members of an etcd that can be asked, told to let
//! another lead, and removed. No pod runs there.

pub(crate) mod manifests;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::binaries::Binaries;
use crate::error::{OnFile, Result};
use crate::lab::{Lab, LabOptions};
use crate::network::GATEWAY;
use crate::{ports, ready};

const NAMESPACE: &str = "capi-system";

/// One process, and where the definitions of its kinds stand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manager {
    pub binary: &'static str,
    /// The module with its definitions, and the folder there.
    pub module: &'static str,
    pub folder: &'static str,
}

pub(crate) const MANAGERS: [Manager; 4] = [
    Manager { binary: "capi-core", module: "sigs.k8s.io/cluster-api", folder: "core/config" },
    Manager { binary: "capi-bootstrap", module: "sigs.k8s.io/cluster-api", folder: "bootstrap/kubeadm/config" },
    Manager { binary: "capi-control-plane", module: "sigs.k8s.io/cluster-api", folder: "controlplane/kubeadm/config" },
    Manager {
        binary: "capi-in-memory",
        module: "sigs.k8s.io/cluster-api/test",
        folder: "infrastructure/docker/config",
    },
];

/// A control plane with Cluster API on it, in a network of its own: the API servers of guest clusters listen everywhere there. Needs
/// root. Dropping it ends all of it.
#[derive(Debug)]
pub struct ClusterApi {
    lab: Lab,
}

impl ClusterApi {
    /// Starts all of it and waits until Clusters can be made. Builds what is missing first.
    pub fn up(patience: Duration) -> Result<Self> {
        let binaries = Binaries::ensure_cluster_api()?;
        let lab = Lab::up(&LabOptions { own_network: true, patience, ..LabOptions::default() })?;
        let mut cluster_api = Self { lab };
        cluster_api.lab.kubectl(&["create", "namespace", NAMESPACE])?;
        let mut hooks = Vec::new();
        let mut started = Vec::new();
        for manager in MANAGERS {
            let port = ports::free()?;
            let (definitions, own_hooks) = cluster_api.read(&binaries, manager, port)?;
            cluster_api.create(&definitions)?;
            hooks.extend(own_hooks);
            started.push((manager, port));
        }
        ready::wait_for_definitions(&cluster_api.lab.kubectl, patience)?;
        for (manager, port) in started {
            cluster_api.start(&binaries, manager, port)?;
        }
        cluster_api.create(&hooks)?;
        Ok(cluster_api)
    }

    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// The address that API servers of guest clusters have.
    pub fn guests_address(&self) -> String {
        GATEWAY.to_string()
    }

    /// The kubeconfig of a guest cluster, as a file.
    pub fn kubeconfig_of(&self, namespace: &str, cluster: &str) -> Result<PathBuf> {
        let secret = format!("{cluster}-kubeconfig");
        let text = self.lab.kubectl(&[
            "get",
            "secret",
            "--namespace",
            namespace,
            &secret,
            "--output=go-template={{ .data.value | base64decode }}",
        ])?;
        let path = self.lab.dir().join(format!("{namespace}-{secret}"));
        std::fs::write(&path, text).on_file("write", &path)?;
        Ok(path)
    }

    /// The definitions of a manager's kinds and its webhooks, both leading to the port at which it will listen.
    fn read(&self, binaries: &Binaries, manager: Manager, port: u16) -> Result<(Vec<Value>, Vec<Value>)> {
        let authority = self.lab.site.pki.file("ca.crt");
        manifests::read(binaries, manager, port, &authority)
    }

    fn create(&self, objects: &[Value]) -> Result<()> {
        let list = serde_json::json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        self.lab.kubectl.run_on(&["create"], &list.to_string()).map(drop)
    }

    fn start(&mut self, binaries: &Binaries, manager: Manager, port: u16) -> Result<()> {
        let health = ports::free()?;
        let certificates = self.lab.dir().join(manager.binary);
        std::fs::create_dir(&certificates).on_file("create", &certificates)?;
        let (certificate, key) = (certificates.join("tls.crt"), certificates.join("tls.key"));
        self.lab.site.pki.server(manager.binary, "127.0.0.1", &certificate, &key)?;
        let mut command = self.lab.site.network.command(binaries.path(manager.binary));
        self.settle(&mut command, &certificates);
        command.args([
            format!("--webhook-port={port}"),
            format!("--health-addr=127.0.0.1:{health}"),
            format!("--diagnostics-address=127.0.0.1:{}", ports::free()?),
            "--insecure-diagnostics".to_owned(),
            // Nothing is stored in a version that is older than the newest.
            "--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields".to_owned(),
        ]);
        self.lab.processes.start(manager.binary, &mut command)?;
        let (kubectl, network) = (&self.lab.kubectl, &self.lab.site.network);
        let server = format!("--server=http://127.0.0.1:{health}");
        self.lab.processes.wait_until(manager.binary, "it to be ready", self.lab.options.patience, || {
            network.is_open(health) && network.is_open(port) && kubectl.answers(&["/readyz", &server])
        })
    }

    /// What a manager would know of the pod that it runs in.
    fn settle(&self, command: &mut Command, certificates: &Path) {
        command
            .current_dir(self.lab.dir())
            .arg("--webhook-cert-dir")
            .arg(certificates)
            .env("KUBECONFIG", self.lab.kubeconfig())
            .env("POD_NAMESPACE", NAMESPACE)
            .env("POD_NAME", "lab")
            .env("POD_UID", "lab")
            .env("POD_IP", GATEWAY.to_string());
    }
}
