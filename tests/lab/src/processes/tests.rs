//! The processes of these tests are plain `sleep`s; the lab's own are for the real tier.

use super::*;

fn sleep() -> Command {
    let mut command = Command::new("sleep");
    command.arg("1000");
    command
}

fn exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::sleep(POLL);
    }
}

#[test]
fn dropping_them_leaves_no_process_and_no_folder() {
    let base = tempfile::tempdir().unwrap();
    let mut processes = Processes::new_in(base.path()).unwrap();
    processes.start("one", &mut sleep()).unwrap();
    processes.start("two", &mut sleep()).unwrap();
    let (ids, dir) = (processes.ids(), processes.dir().to_owned());
    assert!(ids.iter().all(|id| exists(*id)) && dir.exists());

    drop(processes);

    assert!(!ids.iter().any(|id| exists(*id)));
    assert!(!dir.exists());
}

#[test]
fn a_process_that_ignores_sigterm_is_killed() {
    let base = tempfile::tempdir().unwrap();
    let mut processes = Processes::new_in(base.path()).unwrap();
    processes
        .start("stubborn", Command::new("sh").args(["-c", "trap '' TERM; echo ready; while :; do sleep 1; done"]))
        .unwrap();
    let log = processes.log("stubborn");
    until("the trap is set", || tail(&log) == "ready");
    let ids = processes.ids();

    drop(processes);

    assert!(!exists(ids[0]));
}

#[test]
fn one_that_is_killed_gets_no_warning() {
    let base = tempfile::tempdir().unwrap();
    let mut processes = Processes::new_in(base.path()).unwrap();
    processes
        .start(
            "one",
            Command::new("sh").args(["-c", "trap 'echo warned' TERM; echo ready; while :; do sleep 0.1; done"]),
        )
        .unwrap();
    let (log, id) = (processes.log("one"), processes.ids()[0]);
    until("the trap is set", || tail(&log) == "ready");

    processes.kill("one").unwrap();

    assert!(!exists(id) && processes.recorded("one").is_none());
    assert_eq!(tail(&log), "ready");
}

#[test]
fn one_can_be_stopped_and_started_again_while_the_other_goes_on() {
    let base = tempfile::tempdir().unwrap();
    let mut processes = Processes::new_in(base.path()).unwrap();
    processes.start("one", &mut sleep()).unwrap();
    processes.start("two", &mut sleep()).unwrap();
    let before = processes.ids();

    processes.stop("one").unwrap();
    assert!(!exists(before[0]) && exists(before[1]));

    processes.start("one", &mut sleep()).unwrap();
    assert_eq!(processes.ids().len(), 2);
    assert!(processes.ids().iter().all(|id| exists(*id)));
}

#[test]
fn a_process_takes_the_place_of_the_one_that_has_its_name() {
    let base = tempfile::tempdir().unwrap();
    let mut processes = Processes::new_in(base.path()).unwrap();
    processes.start("one", &mut sleep()).unwrap();
    let first = processes.ids()[0];

    processes.start("one", &mut sleep()).unwrap();

    assert!(!exists(first));
    assert_eq!(processes.ids().len(), 1);
}

#[test]
fn they_end_when_the_owner_dies_without_a_word() {
    let base = tempfile::tempdir().unwrap();
    let mut processes = Processes::new_in(base.path()).unwrap();
    processes.start("one", &mut sleep()).unwrap();
    let dir = processes.dir().to_owned();

    // The kernel closes our end of the pipe when we die; nothing else of us is needed.
    drop(processes.reaper.stdin.take());

    let ended = processes.wait_until("one", "the end", Duration::from_secs(10), || false);
    assert!(matches!(ended, Err(Error::Ended { .. })), "{ended:?}");
    until("the folder is gone", || !dir.exists());
}

#[test]
fn what_an_owner_left_behind_is_reaped_by_the_next_one() {
    let base = tempfile::tempdir().unwrap();
    let mut left = Processes::new_in(base.path()).unwrap();
    left.start("one", &mut sleep()).unwrap();
    let dir = left.dir().to_owned();
    left.reaper.kill().unwrap();
    left.reaper.wait().unwrap();

    let second = Processes::new_in(base.path()).unwrap();
    assert!(dir.exists(), "its owner lives");
    drop(second);

    left._owner.unlock().unwrap();
    let _third = Processes::new_in(base.path()).unwrap();
    assert!(!dir.exists());
    let status = left.running[0].child.try_wait().unwrap();
    assert!(status.is_some(), "the process was ended");
}

#[test]
fn a_process_that_got_a_dead_ones_pid_is_left_alone() {
    let base = tempfile::tempdir().unwrap();
    let mut stranger = sleep().spawn().unwrap();
    let processes = Processes::new_in(base.path()).unwrap();
    fs::write(processes.dir().join("pids/one"), format!("{} 1\n", stranger.id())).unwrap();

    drop(processes);

    assert_eq!(stranger.try_wait().unwrap(), None);
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn a_process_that_ends_early_is_reported_with_the_end_of_its_log() {
    let base = tempfile::tempdir().unwrap();
    let mut processes = Processes::new_in(base.path()).unwrap();
    processes
        .start("etcd", Command::new("sh").args(["-c", "seq 100; echo 'address already in use' >&2; exit 3"]))
        .unwrap();

    let error = processes.wait_until("etcd", "its port", Duration::from_secs(10), || false).unwrap_err().to_string();

    let (head, log) = error.split_once('\n').unwrap();
    assert_eq!(head, "etcd ended (exit status: 3) while the lab waited for its port; the end of its log:");
    assert!(log.starts_with("87\n88\n") && log.ends_with("\n100\naddress already in use"), "{log}");
}

#[test]
fn the_start_time_is_found_behind_any_name() {
    let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21";

    assert_eq!(start_time(&format!("12 (sleep) {rest}")), Some(4711));
    assert_eq!(start_time(&format!("12 (a) S (b c) {rest}")), Some(4711));
    assert_eq!(start_time("12 (sleep) S 1 2"), None);
    assert_eq!(start_time(""), None);
}
