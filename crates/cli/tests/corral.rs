//! `drover corral` serves clients that know nothing of it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by them")]

mod served;

use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use served::Corral;

/// What kubectl prints; none where there is no kubectl.
fn kubectl(corral: &Corral, cache: &Path, arguments: &[&str]) -> Option<String> {
    let kubectl = Command::new("kubectl")
        .arg("--request-timeout=20s")
        .arg("--kubeconfig")
        .arg(corral.kubeconfig())
        .arg("--cache-dir")
        .arg(cache)
        .args(arguments)
        .output();
    let output = match kubectl {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("skipped: there is no kubectl here");
            return None;
        }
        Err(error) => panic!("kubectl does not start: {error}"),
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn kubectl_sees_its_three_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let corral = Corral::start(&["--write-kubeconfig", kubeconfig.to_str().unwrap()]);

    assert_eq!(corral.kubeconfig(), kubeconfig);
    assert!(corral.ready["address"].as_str().unwrap().starts_with("https://127.0.0.1:"));
    let Some(nodes) = kubectl(&corral, folder.path(), &["get", "nodes", "-o", "name"]) else { return };
    assert_eq!(nodes, "node/node-1\nnode/node-2\nnode/node-3\n");
}

#[test]
fn it_begins_with_the_objects_that_it_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let objects = folder.path().join("objects");
    std::fs::create_dir(&objects).unwrap();
    std::fs::write(objects.join("1.yaml"), "apiVersion: v1\nkind: Node\nmetadata: {name: mine}\n").unwrap();
    let list = r#"{"apiVersion":"v1","kind":"List","items":[
        {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"shop"},"data":{"a":"b"}}]}"#;
    std::fs::write(objects.join("2.json"), list).unwrap();
    let corral = Corral::start(&["--load", objects.to_str().unwrap()]);

    let Some(nodes) = kubectl(&corral, folder.path(), &["get", "nodes", "-o", "name"]) else { return };
    assert_eq!(nodes, "node/mine\n");
    let settings = ["get", "configmap", "-n", "shop", "settings", "-o", "jsonpath={.data.a}"];
    assert_eq!(kubectl(&corral, folder.path(), &settings).as_deref(), Some("b"));
}

#[test]
fn a_scenario_brings_its_plan_along() {
    let folder = tempfile::tempdir().unwrap();
    let corral = Corral::start(&["--scenario", "three-nodes"]);

    let plans = ["get", "plans.upgrade.cattle.io", "-A", "-o", "name"];
    let Some(plans) = kubectl(&corral, folder.path(), &plans) else { return };
    assert_eq!(plans, "plan.upgrade.cattle.io/upgrade\n");
}
