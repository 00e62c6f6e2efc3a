//! `drover simulate` as a user calls it.

use std::process::{Command, Output};

use crate::served::Corral;
use serde_json::Value;

fn simulate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_drover")).arg("simulate").args(arguments).output().unwrap()
}

#[test]
fn random_schedules_are_counted_beside_the_run_without_faults() {
    let output = simulate(&["--scenario", "three-nodes", "--seeds", "3", "-o", "json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();

    assert_eq!((report["scenario"].as_str(), report["schedules"].as_u64()), (Some("three-nodes"), Some(4)));
    assert_eq!(report["failures"], serde_json::json!([]));
    assert!(report["distinctStates"].as_u64().unwrap() > 50, "{report:#}");
    // A fault may take a node away for good.
    assert!(report["purposes"]["TakeNode"].as_u64().unwrap() >= 8, "most of three nodes in four runs: {report:#}");
    assert!(report["reasons"]["ConcurrencyReached"].is_u64(), "{report:#}");
}

#[test]
fn another_seed_draws_other_random_schedules() {
    let schedules = |more: &[&str]| -> Value {
        let arguments = [&["--scenario", "three-nodes", "--seeds", "3", "-o", "json"], more].concat();
        let output = simulate(&arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        let mut report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report["seconds"].take();
        report
    };
    let (first, second) = (schedules(&[]), schedules(&["--seed", "2"]));
    assert_eq!(first, schedules(&["--seed", "1"]), "which is the one that it begins with by itself");
    assert_eq!(second["schedules"], 4);
    assert_ne!(first["purposes"], second["purposes"]);
}

/// A Plan that may take no node at once is not valid, so the upgrade never ends: something must be said about it.
#[test]
fn a_violation_is_told_as_a_story_and_an_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let (scenario, trace) = (folder.path().join("never.yaml"), folder.path().join("trace"));
    std::fs::write(&scenario, "name: never\nconcurrency: 0\n").unwrap();

    let output =
        simulate(&["--seed", "1", "--scenario", scenario.to_str().unwrap(), "--trace", trace.to_str().unwrap()]);

    let (told, error) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(1), "{told}{error}");
    assert!(error.starts_with("error: 1 violation of never"), "{error}");
    for part in [
        "what was done to it:\n  nothing",
        "what must not happen:",
        "the Plan upgrade is not complete",
        "what happened:",
    ] {
        assert!(told.contains(part), "{part}:\n{told}");
    }
    assert!(std::fs::read_to_string(trace).unwrap().contains("VIOLATION"));
}

/// As whoever looks at a served cluster is told it.
fn status_of_the_plan(corral: &Corral) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_drover"))
        .args(["status", "plan/system-upgrade/upgrade", "--kubeconfig"])
        .arg(corral.kubeconfig())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Nobody may touch the Plan: whatever else happens beside it is left out of the story.
#[test]
fn a_campaign_tells_the_smallest_schedule_that_fails_and_keeps_trace_and_store() {
    let folder = tempfile::tempdir().unwrap();
    let [scenario, trace, store] = ["touched.yaml", "trace", "store.json"].map(|name| folder.path().join(name));
    let text = "name: touched\nnodes: 1\nexpect:\n  objects:\n    - object: Plan/*/upgrade\n      \
                matches: { metadata: { annotations: { example.com/touched: \"yes\" } } }\n      count: 0\n";
    std::fs::write(&scenario, text).unwrap();
    let [scenario, trace, store] = [&scenario, &trace, &store].map(|path| path.to_str().unwrap());

    let output = simulate(&["--scenario", scenario, "--seeds", "60", "--trace", trace, "--store", store]);

    let (told, error) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(1), "{told}{error}");
    assert!(error.contains("schedules broke what must always hold"), "{error}");
    let line = r#"{"scenario":"touched","seed":1,"faults":[{"at":{"purpose":{"is":"Election","nth":1}},"what":"planTouched"}]}"#;
    for part in ["what was done to it:\n  write 1: somebody touches what asks for the upgrade\n", "see it again:", line]
    {
        assert!(told.contains(part), "{part}:\n{told}");
    }
    assert!(
        std::fs::read_to_string(trace)
            .unwrap()
            .contains("FAULT                somebody touches what asks for the upgrade")
    );
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(store).unwrap()).unwrap();
    let plan = kept["items"].as_array().unwrap().iter().find(|object| object["kind"] == "Plan").unwrap();
    assert_eq!(plan["metadata"]["annotations"]["example.com/touched"], "yes");
    let corral = Corral::start(&["--load", store]);
    let status = status_of_the_plan(&corral);
    assert!(status.contains("1/1 updated") && status.contains("node-1  updated"), "{status}");

    let faults = r#"[{"at":{"write":1},"what":"planTouched"}]"#;
    let again = simulate(&["--scenario", scenario, "--seed", "1", "--faults", faults]);
    assert_eq!(again.status.code(), Some(1), "what the story says to see it again with");

    let late = r#"[{"at":{"write":9999},"what":"planTouched"}]"#;
    let never = simulate(&["--scenario", scenario, "--seed", "1", "--faults", late]);
    let told = String::from_utf8(never.stdout).unwrap();
    assert!(told.contains("never happened") && told.contains("write 9999: somebody touches"), "{told}");
}
