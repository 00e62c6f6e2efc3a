//! `drover demo` as a user calls it.

use std::process::{Command, Output};

use serde_json::Value;

fn demo(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_drover")).arg("demo").args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn it_upgrades_three_nodes_and_says_so_in_json() {
    let summary: Value = serde_json::from_str(&stdout(&demo(&["--exit", "-o", "json"]))).unwrap();

    assert_eq!(summary["scenario"], "three-nodes");
    assert_eq!(summary["plan"]["complete"], true, "{summary:#}");
    assert_eq!(summary["plan"]["counts"]["updated"], 3);
    assert_eq!(summary["plan"]["latestVersion"], "v1.34.0");
    let nodes = summary["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 3);
    assert!(nodes.iter().all(|node| node["state"] == "upgraded" && node["version"] == "v1.34.0"), "{summary:#}");
    let seconds = summary["virtualSeconds"].as_f64().unwrap();
    assert!((250.0..330.0).contains(&seconds), "at the default speed that is 15 to 20 s: {summary:#}");
    assert!(summary["writes"].as_u64().unwrap() > 12, "{summary:#}");
    let waits = summary["waits"].as_array().unwrap();
    assert!(waits.iter().any(|wait| wait["reason"] == "ConcurrencyReached" && wait["seconds"].is_f64()), "{summary:#}");
}

#[test]
fn without_a_terminal_every_transition_is_a_line() {
    let text = stdout(&demo(&["plan", "--speed", "max"]));

    for words in ["cordoned", "job running", "not ready", "upgraded"] {
        let lines = text.lines().filter(|line| line.contains(words) && !line.contains("waits:")).count();
        assert_eq!(lines, 3, "{words}:\n{text}");
    }
    assert!(text.contains("waits: the other nodes wait for node-"), "{text}");
    assert!(text.contains("Upgraded 3 nodes to v1.34.0 in "), "{text}");
    assert!(text.contains("Plan system-upgrade/upgrade is complete: 3 of 3 nodes updated"), "{text}");
}

#[test]
fn a_scenario_file_and_a_number_of_nodes_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.yaml");
    std::fs::write(&file, "name: mine\nto: v9.9.9\nconcurrency: 2\n").unwrap();

    let output = demo(&["--exit", "-o", "json", "--nodes", "5", "--scenario", file.to_str().unwrap()]);
    let summary: Value = serde_json::from_str(&stdout(&output)).unwrap();

    assert_eq!(summary["scenario"], "mine");
    assert_eq!(summary["plan"]["counts"]["updated"], 5);
    assert_eq!(summary["plan"]["latestVersion"], "v9.9.9");
}

#[test]
fn a_scenario_that_goes_as_it_says_ends_well_whatever_happens_in_it() {
    let summary: Value =
        serde_json::from_str(&stdout(&demo(&["--scenario", "budget-forbids", "--exit", "-o", "json"]))).unwrap();
    let waits = summary["waits"].as_array().unwrap();
    assert!(waits.iter().any(|wait| wait["reason"] == "BudgetForbids"), "{summary:#}");
}

#[test]
fn a_scenario_that_does_not_go_as_it_says_ends_with_an_error_and_says_what_is_not_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.yaml");
    std::fs::write(&file, "name: wrong\nexpect: { objects: [{ object: ConfigMap/default/proof }] }\n").unwrap();

    let output = demo(&["--exit", "-o", "json", "--scenario", file.to_str().unwrap()]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains("the scenario wrong did not go as it must: no ConfigMap/default/proof is as expected"),
        "{error}"
    );
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["unmet"][0], "no ConfigMap/default/proof is as expected", "{summary:#}");
}

#[test]
fn the_built_in_scenarios_are_listed() {
    assert!(stdout(&demo(&["--list"])).contains("three-nodes"));
    let list: Value = serde_json::from_str(&stdout(&demo(&["--list", "-o", "json"]))).unwrap();
    assert_eq!(list[0]["name"], "three-nodes");
}

#[test]
fn a_guest_cluster_is_shown_from_one_version_to_the_next() {
    let text = stdout(&demo(&["guest", "--exit"]));
    assert!(
        text.starts_with("The guest cluster my-tkc goes from v1.15.5+vmware.1-guest.1 to v1.16.7+vmware.1-guest.1.")
    );
    assert!(text.contains("my-tkc differs: Machine my-tkc-control-plane-"), "{text}");
    assert!(text.contains("my-tkc waits: ControlPlaneUpdating: "), "{text}");
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("my-tkc is running. 5 machines, after "), "{last}");

    let summary: Value =
        serde_json::from_str(&stdout(&demo(&["--scenario", "guest-one-machine", "--exit", "-o", "json"]))).unwrap();
    assert_eq!(summary["machines"].as_object().unwrap().len(), 1);
    assert_eq!(summary["unmet"], serde_json::json!([]));
}
