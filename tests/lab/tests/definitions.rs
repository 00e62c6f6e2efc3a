//! A real API server takes the definitions that Drover brings along.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use drover_lab::{Lab, LabOptions};
use serde_json::{Value, json};

#[test]
#[ignore = "needs the lab: make test-real"]
fn every_definition_is_established_with_a_structural_schema() {
    let lab = Lab::up(&LabOptions::default()).unwrap();
    let definitions = drover_api::crds::all();
    lab.define(&json!({ "apiVersion": "v1", "kind": "List", "items": definitions }).to_string()).unwrap();

    for definition in &definitions {
        let crd = format!("crd/{}", definition.metadata.name.as_deref().unwrap_or_default());
        let stored: Value = serde_json::from_str(&lab.kubectl(&["get", &crd, "-o", "json"]).unwrap()).unwrap();
        let conditions = stored["status"]["conditions"].as_array().unwrap();
        let kinds: Vec<&str> = conditions.iter().filter_map(|one| one["type"].as_str()).collect();
        assert!(!kinds.contains(&"NonStructuralSchema"), "{crd}: {conditions:?}");
        assert_eq!(stored["status"]["storedVersions"], json!([definition.spec.versions[0].name]), "{crd}");
    }
}
