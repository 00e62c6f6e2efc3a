//! The first process of a node: it makes the node's root its own, starts containerd and the kubelet, and starts them
//! again when they end.

use std::fs::{self, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, wait};
use rustix::system::sethostname;
use signal_hook::consts::SIGTERM;

use crate::error::{Error, OnFile, Result};
use crate::network::{GATEWAY, forward_packets};
use crate::nodes::files::{KUBELET, SETTINGS};
use crate::nodes::spec::NodeSpec;
use crate::nodes::{cgroups, root};
use crate::processes;
use crate::programs::{run, run_with};

const POLL: Duration = Duration::from_millis(20);
const BEFORE_A_RESTART: Duration = Duration::from_secs(1);

/// Puts this process into the node's cgroups and new namespaces, where it goes on as `init`. Returns only to fail.
pub fn enter(spec: &Path) -> Result<()> {
    cgroups::join(&NodeSpec::read(spec)?.cgroups)?;
    let program = std::env::current_exe().on_file("find", Path::new("/proc/self/exe"))?;
    let source = Command::new("unshare")
        .args(["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--fork", "--kill-child", "--"])
        .arg(program)
        .arg("node-init")
        .arg(spec)
        .exec();
    Err(Error::Start { name: "unshare".into(), source })
}

/// Runs a node until it is ended.
pub fn init(spec: &Path) -> Result<()> {
    // The first process of a namespace gets no signal that it does not ask for.
    signal_hook::flag::register_conditional_shutdown(SIGTERM, 0, Arc::new(AtomicBool::new(true)))
        .map_err(|source| Error::Start { name: "the signal handler".into(), source })?;
    let spec = NodeSpec::read(spec)?;
    record_ourselves(&spec.record)?;
    sethostname(spec.name.as_bytes()).map_err(Into::into).on_file("name the machine", Path::new(&spec.name))?;
    root::move_in(&spec)?;
    connect(&spec)?;
    keep_running(vec![containerd(), kubelet(&spec)])
}

/// In the place of the process that made our namespaces; it is the one of both that takes all others with it.
fn record_ourselves(record: &Path) -> Result<()> {
    while processes::recorded(record).is_none() {
        std::thread::sleep(POLL);
    }
    // The machine's /proc is still mounted here, so this is our number on the machine.
    let link = Path::new("/proc/self");
    let pid = fs::read_link(link).on_file("read", link)?;
    let pid = pid.to_string_lossy().parse().map_err(std::io::Error::other).on_file("read", link)?;
    processes::record(record, pid)
}

/// Waits until the lab has plugged us in, and takes our address.
fn connect(spec: &NodeSpec) -> Result<()> {
    while !Path::new("/sys/class/net/eth0").exists() {
        std::thread::sleep(POLL);
    }
    forward_packets()?;
    let lines = format!(
        "link set lo up
         addr add {}/24 dev eth0
         link set eth0 up
         route add default via {GATEWAY}",
        spec.address
    );
    run_with(Command::new("ip").args(["-batch", "-"]), &lines).map(drop)
}

/// A program that is started again whenever it ends.
struct Service {
    name: &'static str,
    command: Command,
    pid: Option<Pid>,
}

fn containerd() -> Service {
    let mut command = Command::new("containerd");
    command.arg("--config").arg(format!("/{SETTINGS}/containerd.toml"));
    Service { name: "containerd", command, pid: None }
}

fn kubelet(spec: &NodeSpec) -> Service {
    let mut command = Command::new(format!("/{KUBELET}"));
    command.args([
        &format!("--config=/{SETTINGS}/kubelet.json"),
        &format!("--kubeconfig=/{SETTINGS}/kubeconfig"),
        &format!("--hostname-override={}", spec.name),
        &format!("--node-ip={}", spec.address),
    ]);
    Service { name: "kubelet", command, pid: None }
}

impl Service {
    fn start(&mut self) -> Result<()> {
        let path = Path::new("/var/log").join(format!("{}.log", self.name));
        let log = OpenOptions::new().create(true).append(true).open(&path).on_file("open", &path)?;
        let log_again = log.try_clone().on_file("open", &path)?;
        let child = self
            .command
            .env("PATH", "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", "/root")
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(log_again)
            .spawn()
            .map_err(|source| Error::Start { name: self.name.into(), source })?;
        self.pid = Some(Pid::from_child(&child));
        Ok(())
    }
}

/// Never returns but with an error. The first process also has to bury the processes that lost their parents.
fn keep_running(mut services: Vec<Service>) -> Result<()> {
    for service in &mut services {
        service.start()?;
        if service.name == "containerd" {
            while run(Command::new("ctr").arg("version")).is_err() {
                std::thread::sleep(POLL);
            }
        }
    }
    loop {
        let ended = wait(WaitOptions::empty()).map_err(Into::into).on_file("wait for", Path::new("/proc"))?;
        let Some((pid, status)) = ended else { continue };
        let Some(service) = services.iter_mut().find(|service| service.pid == Some(pid)) else { continue };
        let how = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "no reason".to_owned(),
        };
        eprintln!("{} ended with {how}, it is started again", service.name);
        std::thread::sleep(BEFORE_A_RESTART);
        service.start()?;
    }
}
