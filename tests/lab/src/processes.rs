//! The processes of one lab: each has a log, and all end with the lab or with its owner, by their process ids.
//!
//! Nobody but the reaper ends them, in one way: a small shell script that runs beside them and acts when a pipe from
//! us closes. So it makes no difference whether the lab is dropped, panics, or is killed with SIGKILL. If even the
//! reaper was killed, the next lab finds the folder without an owner and has it reaped.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{Error, OnFile, Result};

const REAPER: &str = include_str!("reaper.sh");
const PREFIX: &str = "drover-lab-";
const LINES_QUOTED: usize = 15;
const POLL: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) struct Processes {
    dir: PathBuf,
    running: Vec<Process>,
    reaper: Child,
    /// Locked for as long as this process lives; a folder whose lock is free has lost its owner.
    _owner: File,
}

#[derive(Debug)]
struct Process {
    name: String,
    child: Child,
}

impl Processes {
    /// Makes a folder for a new lab below `base`, and reaps what labs whose owner is gone have left there.
    pub fn new_in(base: &Path) -> Result<Self> {
        reap_ownerless(base)?;
        let (dir, owner) = owned_folder(base)?;
        let reaper = reaper(&dir, &[], Stdio::piped())?;
        Ok(Self { dir, running: Vec::new(), reaper, _owner: owner })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn log(&self, name: &str) -> PathBuf {
        self.dir.join("logs").join(format!("{name}.log"))
    }

    /// The ids of the processes that were started and not stopped.
    pub fn ids(&self) -> Vec<u32> {
        self.running.iter().map(|process| process.child.id()).collect()
    }

    /// Starts a process, in the place of the one that has this name.
    pub fn start(&mut self, name: &str, command: &mut Command) -> Result<()> {
        self.stop(name)?;
        let path = self.log(name);
        let log = OpenOptions::new().create(true).append(true).open(&path).on_file("open", &path)?;
        let log_again = log.try_clone().on_file("open", &path)?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(log_again)
            // Ctrl-C in a terminal goes to us, and we end the others.
            .process_group(0)
            .spawn()
            .map_err(|source| Error::Start { name: name.into(), source })?;
        if let Err(error) = self.record(name, child.id()) {
            end_unrecorded(&mut child);
            return Err(error);
        }
        self.running.push(Process { name: name.into(), child });
        Ok(())
    }

    fn record(&self, name: &str, pid: u32) -> Result<()> {
        record(&self.record_of(name), pid)
    }

    /// The file that names the process to end; that process may put another in its place.
    pub fn record_of(&self, name: &str) -> PathBuf {
        self.dir.join("pids").join(name)
    }

    /// The process that would be ended under this name.
    pub fn recorded(&self, name: &str) -> Option<u32> {
        recorded(&self.record_of(name))
    }

    /// Has this folder removed with the lab; it is one of a cgroup, and outside the lab's own folder.
    pub fn own_cgroup(&self, cgroup: &Path) -> Result<()> {
        let path = self.dir.join("cgroups");
        let mut list = OpenOptions::new().create(true).append(true).open(&path).on_file("open", &path)?;
        writeln!(list, "{}", cgroup.display()).on_file("write", &path)
    }

    /// Ends one process and waits until it is gone.
    pub fn stop(&mut self, name: &str) -> Result<()> {
        let Some(index) = self.running.iter().position(|process| process.name == name) else { return Ok(()) };
        wait_for(&mut reaper(&self.dir, &[name], Stdio::null())?, &self.dir)?;
        let mut process = self.running.remove(index);
        wait_for(&mut process.child, &self.dir)?;
        let path = self.record_of(name);
        fs::remove_file(&path).on_file("remove", &path)
    }

    /// Ends one process without a warning and waits until it is gone.
    pub fn kill(&mut self, name: &str) -> Result<()> {
        let pid = self.recorded(name).and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            kill_process(pid, Signal::KILL).map_err(Into::into).on_file("end", &self.record_of(name))?;
        }
        self.stop(name)
    }

    /// Waits until `holds`, and says what the process's log says if it ends or takes too long before that.
    pub fn wait_until(
        &mut self,
        name: &str,
        what: &'static str,
        patience: Duration,
        mut holds: impl FnMut() -> bool,
    ) -> Result<()> {
        let started = Instant::now();
        loop {
            if holds() {
                return Ok(());
            }
            let path = self.log(name);
            if let Some(process) = self.running.iter_mut().find(|process| process.name == name)
                && let Some(status) = process.child.try_wait().on_file("wait for the process of", &path)?
            {
                return Err(Error::Ended { name: name.into(), status: status.to_string(), what, tail: tail(&path) });
            }
            if started.elapsed() > patience {
                let seconds = patience.as_secs();
                return Err(Error::TooSlow { name: name.into(), what, seconds, tail: tail(&path) });
            }
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        drop(self.reaper.stdin.take());
        // A failure here has no one to go to, and the next lab reaps what is left.
        let _ = self.reaper.wait();
        for process in &mut self.running {
            end_unrecorded(&mut process.child);
        }
    }
}

/// Starts the reaper; it acts once `input` ends.
fn reaper(dir: &Path, names: &[&str], input: Stdio) -> Result<Child> {
    Command::new("sh")
        .args(["-c", REAPER, "drover-lab-reaper"])
        .arg(dir)
        .args(names)
        .stdin(input)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .process_group(0)
        .spawn()
        .map_err(|source| Error::Start { name: "sh".into(), source })
}

fn reap_ownerless(base: &Path) -> Result<()> {
    for entry in fs::read_dir(base).on_file("read", base)? {
        let dir = entry.on_file("read", base)?.path();
        let ours = dir.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()));
        // A folder of another user cannot be opened, and is none of our business.
        let Some(owner) = ours.then(|| File::open(dir.join("owner")).ok()).flatten() else { continue };
        if owner.try_lock().is_ok() {
            wait_for(&mut reaper(&dir, &[], Stdio::null())?, &dir)?;
        }
    }
    Ok(())
}

/// A new folder with its owner's lock. It gets its name when the lock is held: no one finds it without an owner.
fn owned_folder(base: &Path) -> Result<(PathBuf, File)> {
    let unnamed = tempfile::Builder::new().prefix(".new-").tempdir_in(base).on_file("create a folder in", base)?;
    for name in ["pids", "logs"] {
        let path = unnamed.path().join(name);
        fs::create_dir(&path).on_file("create", &path)?;
    }
    let owner_path = unnamed.path().join("owner");
    let owner = File::create(&owner_path).on_file("create", &owner_path)?;
    owner.lock().on_file("lock", &owner_path)?;

    let random = unnamed.path().file_name().unwrap_or_default().to_string_lossy().replace(".new-", "");
    let dir = base.join(format!("{PREFIX}{random}"));
    fs::rename(unnamed.keep(), &dir).on_file("create", &dir)?;
    Ok((dir, owner))
}

/// For a child that the reaper does not know of, or has ended already; a failure has no one to go to.
fn end_unrecorded(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn wait_for(child: &mut Child, dir: &Path) -> Result<()> {
    child.wait().map(drop).on_file("wait for a process of", dir)
}

/// Writes which process is to be ended, whole or not at all.
pub(crate) fn record(path: &Path, pid: u32) -> Result<()> {
    let stat_path = PathBuf::from(format!("/proc/{pid}/stat"));
    let stat = fs::read_to_string(&stat_path).on_file("read", &stat_path)?;
    let start = start_time(&stat).ok_or_else(|| std::io::ErrorKind::InvalidData.into()).on_file("read", &stat_path)?;
    let dir = path.parent().unwrap_or(path);
    let mut file = tempfile::NamedTempFile::new_in(dir.parent().unwrap_or(dir)).on_file("create a file in", dir)?;
    writeln!(file, "{pid} {start}").on_file("write", file.path())?;
    file.persist(path).map_err(|error| error.error).on_file("write", path).map(drop)
}

pub(crate) fn recorded(path: &Path) -> Option<u32> {
    fs::read_to_string(path).ok()?.split_once(' ')?.0.parse().ok()
}

/// When the process started, in clock ticks since boot: with the pid, it names a process for good.
fn start_time(stat: &str) -> Option<u64> {
    // The command's name stands in parentheses, and may hold blanks and parentheses itself.
    let (_, after_name) = stat.rsplit_once(") ")?;
    after_name.split(' ').nth(19)?.parse().ok()
}

/// The last lines of a log, for an error message.
pub(crate) fn tail(log: &Path) -> String {
    const BYTES: u64 = 8 * 1024;
    let read = || {
        let mut file = File::open(log)?;
        let from = file.metadata()?.len().saturating_sub(BYTES);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(bytes)
    };
    let text = match read() {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => return format!("({} cannot be read: {error})", log.display()),
    };
    let lines: Vec<&str> = text.lines().collect();
    match lines.len().saturating_sub(LINES_QUOTED) {
        _ if lines.is_empty() => "(it is empty)".into(),
        skipped => lines[skipped..].join("\n"),
    }
}

#[cfg(test)]
mod tests;
