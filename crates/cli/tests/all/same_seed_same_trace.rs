//! The same seed gives the same trace, byte for byte, in two processes.

use std::path::Path;
use std::process::Command;

fn trace(seed: u64, file: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_drover"))
        .args(["simulate", "--seed", &seed.to_string(), "--trace"])
        .arg(file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read_to_string(file).unwrap()
}

#[test]
fn two_processes_with_the_same_seed_write_the_same_trace() {
    let folder = tempfile::tempdir().unwrap();
    let first = trace(7, &folder.path().join("first"));
    let second = trace(7, &folder.path().join("second"));

    assert!(first.lines().count() > 50, "an upgrade of three nodes takes many writes:\n{first}");
    assert!(first.contains("Plan system-upgrade/upgrade"), "the trace tells of the Plan:\n{first}");
    assert_eq!(first, second);
}

#[test]
fn another_seed_gives_another_trace() {
    let folder = tempfile::tempdir().unwrap();

    assert_ne!(trace(7, &folder.path().join("seven")), trace(8, &folder.path().join("eight")));
}
