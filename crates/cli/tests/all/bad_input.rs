//! What is wrong is said in one sentence on stderr, with an exit code, and never as a Rust value or a backtrace.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Output, Stdio};

fn drover(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drover"));
    command.args(arguments).env("RUST_BACKTRACE", "1").env_remove("KUBECONFIG").env_remove("RUST_LOG");
    command
}

fn run(arguments: &[&str]) -> Output {
    drover(arguments).output().unwrap()
}

/// The one line on stderr of a command that fails.
fn error_of(arguments: &[&str]) -> String {
    let output = run(arguments);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.starts_with("error: "), "{stderr}");
    assert!(!stderr.contains("backtrace") && !stderr.contains("Os {"), "{stderr}");
    stderr.trim_end().to_owned()
}

#[test]
fn a_scenario_that_is_not_there_is_named() {
    for command in ["demo", "simulate", "corral"] {
        let error = error_of(&[command, "--scenario", "/no/such/scenario.yaml"]);
        assert!(error.contains("cannot read the scenario /no/such/scenario.yaml"), "{error}");
    }
}

#[test]
fn a_malformed_scenario_is_said_to_be_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.yaml");
    let path = file.to_str().unwrap();
    let error = |text: &str| {
        std::fs::write(&file, text).unwrap();
        error_of(&["simulate", "--scenario", path])
    };

    assert!(error("nodes: many\n").contains(&format!("the scenario {path} is not valid")));
    assert!(error("nodez: 3\n").contains("nodez"), "the unknown field is named");
    assert!(error("cordoned: [node-9]\n").contains("node-9"));
    error("{ [");
}

#[test]
fn a_kubeconfig_that_cannot_be_read_is_named() {
    let error = error_of(&["operator", "--kubeconfig", "/no/such/kubeconfig"]);
    assert!(error.contains("cannot read the kubeconfig /no/such/kubeconfig"), "{error}");
    assert!(error.contains("--kubeconfig"), "the remedy is named: {error}");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    std::fs::write(&file, "clusters: 7").unwrap();
    error_of(&["operator", "--kubeconfig", file.to_str().unwrap()]);
}

#[test]
fn objects_that_cannot_be_loaded_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = error_of(&["corral", "--load", "/no/such/objects"]);
    assert!(missing.contains("/no/such/objects") && missing.contains("--load"), "{missing}");

    let empty = error_of(&["corral", "--load", folder.path().to_str().unwrap()]);
    assert!(empty.contains("holds no .yaml"), "{empty}");

    let strange = folder.path().join("strange.yaml");
    std::fs::write(&strange, "apiVersion: example.com/v1\nkind: Unheard\nmetadata: {name: a}\n").unwrap();
    let refused = error_of(&["corral", "--load", strange.to_str().unwrap()]);
    assert!(refused.contains("Unheard"), "{refused}");
}

#[test]
fn an_address_that_cannot_be_listened_on_is_named() {
    let error = error_of(&["corral", "--listen", "203.0.113.1:6443"]);
    assert!(error.contains("cannot listen on 203.0.113.1:6443") && error.contains("--listen"), "{error}");
}

#[test]
fn what_was_called_wrongly_has_an_exit_code_of_its_own() {
    for arguments in [
        &["demo", "nonsense"][..],
        &["demo", "--speed", "0"],
        &["demo", "--speed", "max", "--listen", "127.0.0.1:0"],
        &["operator", "--controllers", "logs"],
        &["operator", "-o", "yaml"],
        &["simulate", "--seed", "1", "--seeds", "2", "--faults", "[]"],
        &["unheard"],
    ] {
        let output = run(arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.starts_with("error: "), "{arguments:?}: {stderr}");
    }
}

#[test]
fn what_is_not_in_this_release_is_said_clearly() {
    let stderr = |arguments: &[&str]| String::from_utf8(run(arguments).stderr).unwrap();
    assert!(stderr(&["demo", "nonsense"]).contains("there is no such demonstration, only plan, harvester and guest"));
    assert!(stderr(&["operator", "--controllers", "plan,logs"]).contains("logs is not in this release"));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut child = drover(&["crds"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    // Dropped after one line, as `head -1` would.
    BufReader::with_capacity(64, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();

    assert!(child.wait().unwrap().success(), "{stderr}");
    assert_eq!(stderr, "");
}
