//! Installed as `kubectl-drover`, it is `kubectl drover`.

use std::process::Command;

#[test]
fn its_help_names_it_as_kubectl_calls_it() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("kubectl-drover");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_drover"), &plugin).unwrap();

    let help = String::from_utf8(Command::new(&plugin).args(["crds", "--help"]).output().unwrap().stdout).unwrap();

    assert!(help.contains("Usage: kubectl drover crds"), "{help}");
}
