//! Where the lab's components listen: on the machine's loopback, or in a network namespace of their own.
//!
//! Real nodes need addresses, a bridge and routes. All of that is made in a namespace that one process holds: the
//! machine's own network is never touched, and nothing of it is left once that process has ended.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{OnFile, Result};
use crate::processes::Processes;
use crate::programs::{run, run_with};

const HOLDER: &str = "network";
/// The address of the API server for real nodes.
pub(crate) const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);
/// Where pods look for the API server. No kube-proxy leads them there, so the address itself is there.
const CLUSTER_IP: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
pub(crate) const BRIDGE: &str = "br0";

#[derive(Debug, Clone)]
pub(crate) enum Network {
    Loopback,
    /// The link in /proc that leads to the namespace.
    Own(PathBuf),
}

impl Network {
    /// Makes a namespace with a bridge in it; real nodes are plugged into that.
    pub fn own(processes: &mut Processes, patience: Duration) -> Result<Self> {
        processes.start(HOLDER, Command::new("unshare").args(["--net", "sleep", "infinity"]))?;
        let link = processes.recorded(HOLDER).map(link_of).unwrap_or_default();
        let ours = namespace(Path::new("/proc/self/ns/net"))?;
        // Until unshare has done its work, the link leads to the machine's own network.
        processes.wait_until(HOLDER, "its network namespace", patience, || {
            namespace(&link).is_ok_and(|of_holder| of_holder != ours)
        })?;
        let network = Network::Own(link);
        network.ip(&format!(
            "link set lo up
             link add {BRIDGE} type bridge
             addr add {GATEWAY}/24 dev {BRIDGE}
             addr add {CLUSTER_IP}/32 dev {BRIDGE}
             link set {BRIDGE} up"
        ))?;
        network.run(forward_packets)??;
        Ok(network)
    }

    /// The address at which the API server is reached.
    pub fn api_address(&self) -> Ipv4Addr {
        match self {
            Network::Loopback => Ipv4Addr::LOCALHOST,
            Network::Own(_) => GATEWAY,
        }
    }

    /// A program in this network.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        match self {
            Network::Loopback => Command::new(program),
            Network::Own(link) => entering(link, program),
        }
    }

    /// Runs `ip` with these lines, in this network.
    pub fn ip(&self, lines: &str) -> Result<()> {
        run_with(self.command("ip").args(["-batch", "-"]), lines).map(drop)
    }

    /// Runs `act` on a thread in this network.
    pub fn run<T: Send>(&self, act: impl FnOnce() -> T + Send) -> Result<T> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| self.enter().map(|()| act()));
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Moves the calling thread into this network, for good.
    pub fn enter(&self) -> Result<()> {
        let Network::Own(link) = self else { return Ok(()) };
        let file = File::open(link).on_file("open", link)?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(Into::into)
            .on_file("enter the network of", link)
    }

    pub fn is_open(&self, port: u16) -> bool {
        self.run(|| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()).unwrap_or(false)
    }
}

/// Lets this network lead packets from one of its links to another.
pub(crate) fn forward_packets() -> Result<()> {
    let path = Path::new("/proc/sys/net/ipv4/ip_forward");
    fs::write(path, "1").on_file("write", path)
}

pub(crate) fn link_of(pid: u32) -> PathBuf {
    format!("/proc/{pid}/ns/net").into()
}

fn entering(link: &Path, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net={}", link.display())).arg("--").arg(program);
    command
}

/// Which namespace a link in /proc leads to.
fn namespace(link: &Path) -> Result<PathBuf> {
    fs::read_link(link).on_file("read", link)
}

/// Plugs a new link, `eth0`, into the network of the process, with its other end on the bridge.
pub(crate) fn plug_in(network: &Network, pid: u32, port: &str) -> Result<()> {
    // The kernel removes the links of a network that has ended when it finds the time; the name is needed now.
    let _ = run(network.command("ip").args(["link", "delete", port]));
    network.ip(&format!(
        "link add {port} type veth peer name eth0 netns {pid}
         link set {port} master {BRIDGE} up"
    ))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_port_is_open_while_somebody_listens() {
        let port = crate::ports::free().unwrap();
        assert!(!Network::Loopback.is_open(port));

        let _listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(Network::Loopback.is_open(port));
    }
}
