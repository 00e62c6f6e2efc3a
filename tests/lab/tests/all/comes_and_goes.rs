//! The lab starts fast and leaves nothing behind, however it ends.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use drover_lab::{Binaries, Lab, LabOptions};

/// Two labs at once would share the processors, and the time of a start would say nothing.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn runs(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
#[ignore = "needs the lab: make test-real"]
fn it_comes_up_within_ten_seconds_and_goes_away_wholly() {
    let _alone = alone();
    Binaries::ensure().unwrap();

    let started = Instant::now();
    let lab = Lab::up(&LabOptions { kwok: true, ..LabOptions::default() }).unwrap();
    let took = started.elapsed();

    eprintln!("up in {took:.1?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(lab.kubectl(&["get", "--raw", "/readyz"]).unwrap(), "ok");
    let (pids, ports, dir) = (lab.process_ids(), lab.ports(), lab.dir().to_owned());
    assert_eq!(pids.len(), 5);
    assert!(pids.iter().all(|pid| runs(*pid)));
    let listens = |port: &u16| TcpStream::connect(("127.0.0.1", *port)).is_ok();
    assert!(ports.iter().all(listens), "{ports:?}");

    drop(lab);

    assert_eq!(pids.iter().filter(|pid| runs(**pid)).count(), 0);
    assert!(!ports.iter().any(listens));
    assert!(!dir.exists());
}

#[test]
#[ignore = "needs the lab: make test-real"]
fn it_goes_away_wholly_when_its_owner_is_killed() {
    let _alone = alone();
    Binaries::ensure().unwrap();
    let mut owner = Command::new(env!("CARGO_BIN_EXE_drover-lab")).arg("up").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines().map(Result::unwrap);
    let logs = lines.find_map(|line| line.strip_prefix("The components' logs are in ").map(str::to_owned)).unwrap();
    let dir = PathBuf::from(logs.split_once("/logs.").unwrap().0);
    let recorded =
        fs::read_dir(dir.join("pids")).unwrap().map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
    let pids: Vec<u32> = recorded.map(|line| line.split_once(' ').unwrap().0.parse().unwrap()).collect();
    assert_eq!(pids.len(), 4);
    assert!(pids.iter().all(|pid| runs(*pid)));

    owner.kill().unwrap();
    owner.wait().unwrap();

    let killed = Instant::now();
    while dir.exists() || pids.iter().any(|pid| runs(*pid)) {
        assert!(killed.elapsed() < Duration::from_secs(10), "{} and its processes are still there", dir.display());
        std::thread::sleep(Duration::from_millis(50));
    }
}
