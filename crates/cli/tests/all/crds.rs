//! `drover crds` prints what `kubectl apply -f -` takes.

use std::process::Command;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

fn crds(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_drover")).arg("crds").args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn by_default_every_definition_is_a_yaml_document() {
    let definitions: Vec<CustomResourceDefinition> = serde_saphyr::from_multiple(&crds(&[])).unwrap();

    assert_eq!(definitions, drover_api::crds::all());
    assert_eq!(definitions[0].metadata.name.as_deref(), Some("plans.upgrade.cattle.io"));
}

#[test]
fn as_json_they_are_a_list() {
    let list: Value = serde_json::from_str(&crds(&["-o", "json"])).unwrap();

    assert_eq!((list["apiVersion"].as_str(), list["kind"].as_str()), (Some("v1"), Some("List")));
    assert_eq!(list["items"][0]["spec"]["names"]["kind"], "Plan");
}

#[test]
fn as_a_table_they_are_names_of_the_controllers_asked_for() {
    assert_eq!(
        crds(&["--for", "plan", "-o", "table"]),
        "NAME                     KIND  SCOPE       VERSIONS\nplans.upgrade.cattle.io  Plan  Namespaced  v1\n"
    );
    let two = crds(&["--for", "guest,plan", "-o", "table"]);
    let kinds: Vec<&str> = two.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(kinds, ["Plan", "TanzuKubernetesCluster", "TanzuKubernetesRelease"]);
}
