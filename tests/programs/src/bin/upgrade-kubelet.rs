//! What the upgrade container of a Plan does on a real node: puts the image's kubelet in the place of the node's, has
//! it started again, and stays until the new one works.
//!
//! Done twice it does no harm: a node that has the new kubelet already is only looked at.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

const IN_IMAGE: &str = "/kubelet";
const ON_NODE: &str = "/host/usr/local/bin/kubelet";
const UNFINISHED: &str = "/host/usr/local/bin/.kubelet.unfinished";
const HEALTH: &str = "127.0.0.1:10248";
const POLL: Duration = Duration::from_millis(200);
const PATIENCE: u32 = 300;

fn main() -> ExitCode {
    match upgrade() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("the kubelet was not upgraded: {error}");
            ExitCode::FAILURE
        }
    }
}

fn upgrade() -> io::Result<()> {
    let wanted = std::env::var("SYSTEM_UPGRADE_PLAN_LATEST_VERSION").map_err(io::Error::other)?;
    let settle = std::env::args().nth(1).and_then(|seconds| seconds.parse().ok()).unwrap_or(0);
    if version_of(ON_NODE)? == wanted {
        println!("the node has kubelet {wanted} already");
    } else {
        install()?;
        println!("installed kubelet {wanted}");
    }
    let running = version_of_running()?;
    if running.as_deref() != Some(&wanted) {
        restart()?;
    }
    until("the new kubelet is healthy", || {
        Ok(version_of_running()?.as_deref() == Some(&wanted) && is_healthy().unwrap_or(false))
    })?;
    println!("kubelet {wanted} is healthy");
    std::thread::sleep(Duration::from_secs(settle));
    if is_healthy()? { Ok(()) } else { Err(io::Error::other("the new kubelet is no longer healthy")) }
}

/// By a rename: a node that loses power has either the old kubelet or the new one.
fn install() -> io::Result<()> {
    fs::copy(IN_IMAGE, UNFINISHED)?;
    File::open(UNFINISHED)?.sync_all()?;
    fs::rename(UNFINISHED, ON_NODE)
}

fn restart() -> io::Result<()> {
    let old = kubelets()?;
    for pid in &old {
        println!("ending the kubelet with process id {}", pid.as_raw_nonzero());
        kill_process(*pid, Signal::TERM)?;
    }
    until("the old kubelet has ended", || Ok(!kubelets()?.iter().any(|pid| old.contains(pid))))
}

/// The node's kubelets, found among its processes, which this container sees.
fn kubelets() -> io::Result<Vec<Pid>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        let pid = entry.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw);
        found.extend(pid.filter(|_| name.trim_end() == "kubelet"));
    }
    Ok(found)
}

/// None while no kubelet runs.
fn version_of_running() -> io::Result<Option<String>> {
    let Some(pid) = kubelets()?.into_iter().next() else { return Ok(None) };
    // The file that it was started from, even where another has its name by now.
    Ok(version_of(&format!("/proc/{}/exe", pid.as_raw_nonzero())).ok())
}

/// `Kubernetes v1.34.4`, without the first word.
fn version_of(kubelet: &str) -> io::Result<String> {
    if !Path::new(kubelet).exists() {
        return Ok(String::new());
    }
    let output = Command::new(kubelet).arg("--version").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.split_whitespace().last().unwrap_or_default().to_owned())
}

fn is_healthy() -> io::Result<bool> {
    let mut connection = TcpStream::connect(HEALTH)?;
    connection.set_read_timeout(Some(Duration::from_secs(2)))?;
    connection.write_all(b"GET /healthz HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    Ok(answer.starts_with("HTTP/1.0 200"))
}

fn until(what: &str, mut holds: impl FnMut() -> io::Result<bool>) -> io::Result<()> {
    for _ in 0..PATIENCE {
        if holds()? {
            return Ok(());
        }
        std::thread::sleep(POLL);
    }
    Err(io::Error::other(format!("waited {} s in vain until {what}", (POLL * PATIENCE).as_secs())))
}
