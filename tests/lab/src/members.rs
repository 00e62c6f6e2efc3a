//! A real etcd of several members that let nobody in without a certificate, as in clusters of kubeadm.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::binaries::Binaries;
use crate::error::{OnFile, Result};
use crate::etcd::ask;
use crate::lab::roomy_folder;
use crate::network::Network;
use crate::pki::Pki;
use crate::ports;
use crate::processes::Processes;

const PORT_FORWARD: &str = "port-forward";

/// Members by name. Dropping them ends them.
#[derive(Debug)]
pub struct Members {
    binaries: Binaries,
    processes: Processes,
    pki: Pki,
    members: Vec<Member>,
}

#[derive(Debug, Clone)]
struct Member {
    name: String,
    /// With a certificate only.
    clients: u16,
    /// For the lab's own words, without one.
    own: u16,
    peers: u16,
}

impl Member {
    fn new(name: &str) -> Result<Self> {
        Ok(Self { name: name.to_owned(), clients: ports::free()?, own: ports::free()?, peers: ports::free()? })
    }

    fn peer(&self) -> String {
        format!("http://127.0.0.1:{}", self.peers)
    }
}

impl Members {
    pub fn up(names: &[&str], patience: Duration) -> Result<Self> {
        let binaries = Binaries::ensure_etcd()?;
        let processes = Processes::new_in(&roomy_folder())?;
        let pki = Pki::new_in(processes.dir().join("pki"))?;
        let members = names.iter().map(|name| Member::new(name)).collect::<Result<Vec<_>>>()?;
        let mut etcd = Self { binaries, processes, pki, members: members.clone() };
        for member in &members {
            etcd.start(member, "new")?;
        }
        for member in &members {
            etcd.wait_for(member, patience)?;
        }
        Ok(etcd)
    }

    /// The certificate and the key of their authority.
    pub fn authority(&self) -> Result<(String, String)> {
        let read = |name: &str| {
            let path = self.pki.file(name);
            fs::read_to_string(&path).on_file("read", &path)
        };
        Ok((read("ca.crt")?, read("ca.key")?))
    }

    /// Where each listens for those who have a certificate.
    pub fn ports(&self) -> Vec<(String, u16)> {
        self.members.iter().map(|member| (member.name.clone(), member.clients)).collect()
    }

    /// Tells them of one more, which does not vote; it has no name before it is started.
    pub fn announce_learner(&mut self, name: &str) -> Result<()> {
        let member = Member::new(name)?;
        let body = json!({ "peerURLs": [member.peer()], "isLearner": true });
        self.ask("announce a learner", "/v3/cluster/member/add", &body)?;
        self.members.push(member);
        Ok(())
    }

    pub fn start_announced(&mut self, patience: Duration) -> Result<()> {
        let Some(member) = self.members.last().cloned() else { return Ok(()) };
        self.start(&member, "existing")?;
        self.wait_for(&member, patience)
    }

    /// Starts what leads to each member as a kubelet leads to its pod `etcd-<name>`, by its own code; gives back its URL.
    pub fn forward(&mut self, patience: Duration) -> Result<String> {
        let binaries = Binaries::ensure_port_forward()?;
        let port = ports::free()?;
        let mut command = Command::new(binaries.path(PORT_FORWARD));
        command.arg(port.to_string());
        command.args(self.members.iter().map(|member| format!("etcd-{}={}", member.name, member.clients)));
        self.processes.start(PORT_FORWARD, &mut command)?;
        self.processes.wait_until(PORT_FORWARD, "it to listen", patience, || Network::Loopback.is_open(port))?;
        Ok(format!("http://127.0.0.1:{port}"))
    }

    pub fn kill(&mut self, name: &str) -> Result<()> {
        self.processes.kill(name)
    }

    fn ask(&self, act: &'static str, path: &str, body: &Value) -> Result<Value> {
        ask(self.members.first().map_or(0, |member| member.own), act, path, body)
    }

    fn start(&mut self, member: &Member, state: &str) -> Result<()> {
        let file = |end: &str| -> PathBuf { self.processes.dir().join(format!("{}.{end}", member.name)) };
        let (certificate, key) = (file("crt"), file("key"));
        self.pki.server(&member.name, "127.0.0.1", &certificate, &key)?;
        let all: Vec<String> = self.members.iter().map(|one| format!("{}={}", one.name, one.peer())).collect();
        let clients = format!("https://127.0.0.1:{}", member.clients);
        let mut command = Command::new(self.binaries.path("etcd"));
        command
            .args(["--unsafe-no-fsync", "--client-cert-auth", "--log-level=warn"])
            .arg("--data-dir")
            .arg(file("data"))
            .arg("--cert-file")
            .arg(certificate)
            .arg("--key-file")
            .arg(key)
            .arg("--trusted-ca-file")
            .arg(self.pki.file("ca.crt"))
            .args([
                format!("--name={}", member.name),
                format!("--listen-client-urls={clients},http://127.0.0.1:{}", member.own),
                format!("--advertise-client-urls={clients}"),
                format!("--listen-peer-urls={}", member.peer()),
                format!("--initial-advertise-peer-urls={}", member.peer()),
                format!("--initial-cluster={}", all.join(",")),
                format!("--initial-cluster-state={state}"),
            ]);
        self.processes.start(&member.name, &mut command)
    }

    fn wait_for(&mut self, member: &Member, patience: Duration) -> Result<()> {
        self.processes.wait_until(&member.name, "it to listen", patience, || Network::Loopback.is_open(member.clients))
    }
}
