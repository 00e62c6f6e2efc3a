//! How each component is started: one function a component, with the flags that it must have.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::binaries::Binaries;
use crate::error::Result;
use crate::network::Network;
use crate::pki::Pki;
use crate::ports;

pub(crate) const ETCD: &str = "etcd";
pub(crate) const API_SERVER: &str = "kube-apiserver";
pub(crate) const CONTROLLER_MANAGER: &str = "kube-controller-manager";
pub(crate) const SCHEDULER: &str = "kube-scheduler";
pub(crate) const KWOK: &str = "kwok";

/// Where everything of one lab is.
#[derive(Debug)]
pub(crate) struct Site {
    pub binaries: Binaries,
    pub dir: PathBuf,
    pub pki: Pki,
    pub ports: Ports,
    pub network: Network,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub etcd: u16,
    pub etcd_peers: u16,
    pub api_server: u16,
    pub controller_manager: u16,
    pub scheduler: u16,
    pub kwok: u16,
}

impl Ports {
    fn free(network: &Network) -> Result<Self> {
        Ok(Self {
            etcd: ports::free()?,
            etcd_peers: ports::free()?,
            api_server: match network {
                Network::Loopback => ports::free()?,
                // Where pods look for it.
                Network::Own(_) => 443,
            },
            controller_manager: ports::free()?,
            scheduler: ports::free()?,
            kwok: ports::free()?,
        })
    }

    pub fn all(&self) -> [u16; 6] {
        [self.etcd, self.etcd_peers, self.api_server, self.controller_manager, self.scheduler, self.kwok]
    }
}

impl Site {
    /// Makes the certificates and kubeconfigs of a new lab in `dir`.
    pub fn prepare(binaries: Binaries, dir: &Path, network: Network) -> Result<Self> {
        let pki = Pki::new_in(dir.join("pki"))?;
        let site = Self { binaries, dir: dir.to_owned(), pki, ports: Ports::free(&network)?, network };
        for (name, user, group) in [
            ("admin", "admin", Some("system:masters")),
            (CONTROLLER_MANAGER, "system:kube-controller-manager", None),
            (SCHEDULER, "system:kube-scheduler", None),
        ] {
            site.pki.kubeconfig(&site.kubeconfig(name), &site.url(), user, group)?;
        }
        Ok(site)
    }

    pub fn url(&self) -> String {
        format!("https://{}:{}", self.network.api_address(), self.ports.api_server)
    }

    pub fn kubeconfig(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.kubeconfig"))
    }

    pub fn etcd(&self) -> Command {
        let clients = format!("http://127.0.0.1:{}", self.ports.etcd);
        let peers = format!("http://127.0.0.1:{}", self.ports.etcd_peers);
        let mut command = self.command(ETCD);
        // What it stores dies with the lab, so nothing is gained by waiting for a disk.
        command.arg("--unsafe-no-fsync").arg("--data-dir").arg(self.dir.join("etcd")).args(
            [
                ("--listen-client-urls", clients.as_str()),
                ("--advertise-client-urls", &clients),
                ("--listen-peer-urls", &peers),
                ("--initial-advertise-peer-urls", &peers),
                ("--initial-cluster", &format!("default={peers}")),
                ("--log-level", "warn"),
            ]
            .map(|(flag, value)| format!("{flag}={value}")),
        );
        command
    }

    pub fn api_server(&self) -> Command {
        let mut command = self.command(API_SERVER);
        let (bind, address) = match self.network {
            Network::Loopback => ("127.0.0.1", "127.0.0.1".to_owned()),
            Network::Own(_) => ("0.0.0.0", self.network.api_address().to_string()),
        };
        command.args([
            &format!("--etcd-servers=http://127.0.0.1:{}", self.ports.etcd),
            &format!("--bind-address={bind}"),
            &format!("--advertise-address={address}"),
            &format!("--secure-port={}", self.ports.api_server),
            // Endpoints may not be loopback: without this it complains every 10 s.
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged=true",
            // A node's name is in no DNS here.
            "--kubelet-preferred-address-types=InternalIP",
        ]);
        self.with_files(
            &mut command,
            &[
                ("--tls-cert-file", "apiserver.crt"),
                ("--tls-private-key-file", "apiserver.key"),
                ("--client-ca-file", "ca.crt"),
                ("--kubelet-certificate-authority", "ca.crt"),
                ("--kubelet-client-certificate", "kubelet-client.crt"),
                ("--kubelet-client-key", "kubelet-client.key"),
                ("--service-account-key-file", "tokens.pub"),
                ("--service-account-signing-key-file", "tokens.key"),
            ],
        );
        command
    }

    pub fn controller_manager(&self) -> Command {
        let grace = match self.network {
            // No machine is behind a node here that could be lost: one that KWOK is late to renew, on a machine that is busy, is none.
            Network::Loopback => "5m",
            // A lost node is seen in about 20 s.
            Network::Own(_) => "16s",
        };
        let mut command = self.controller(CONTROLLER_MANAGER, self.ports.controller_manager);
        command.args([
            // Under RBAC its controllers may do nothing as its own user: it would come up healthy, and then create no
            // pod and take no taint from a node, without an error anywhere that one looks.
            "--use-service-account-credentials=true",
            &format!("--node-monitor-grace-period={grace}"),
            "--node-monitor-period=2s",
        ]);
        self.with_files(
            &mut command,
            &[
                ("--root-ca-file", "ca.crt"),
                ("--service-account-private-key-file", "tokens.key"),
                ("--cluster-signing-cert-file", "ca.crt"),
                ("--cluster-signing-key-file", "ca.key"),
            ],
        );
        command
    }

    pub fn scheduler(&self) -> Command {
        self.controller(SCHEDULER, self.ports.scheduler)
    }

    pub fn kwok(&self, stages: &Path) -> Command {
        let mut command = self.command(KWOK);
        command.arg("--kubeconfig").arg(self.kubeconfig("admin")).arg("--config").arg(stages).args([
            &format!("--server-address=127.0.0.1:{}", self.ports.kwok),
            &format!("--manage-nodes-with-annotation-selector={}={}", crate::kwok::MARK.0, crate::kwok::MARK.1),
            "--node-lease-duration-seconds=40",
            "--cidr=10.200.0.0/16",
        ]);
        command
    }

    fn controller(&self, name: &str, port: u16) -> Command {
        let mut command = self.command(name);
        command.arg("--kubeconfig").arg(self.kubeconfig(name)).args([
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            &format!("--secure-port={port}"),
            // The default of 20 requests a second is made for clusters that are shared.
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        ]);
        command
    }

    fn with_files(&self, command: &mut Command, files: &[(&str, &str)]) {
        for (flag, file) in files {
            command.arg(flag).arg(self.pki.file(file));
        }
    }

    fn command(&self, name: &str) -> Command {
        let mut command = self.network.command(self.binaries.path(name));
        command.current_dir(&self.dir);
        command
    }
}
