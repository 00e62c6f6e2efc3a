//! A real API server takes the definitions and the manifests that Drover brings along.

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

#[test]
#[ignore = "needs the lab: make test-real"]
fn every_manifest_is_taken_to_its_last_field_and_can_be_applied_again() {
    let lab = Lab::up(&LabOptions::default()).unwrap();
    for namespace in ["cattle-system", "fleet-local", "harvester-system", "longhorn-system", "vmware-system-tkg"] {
        lab.kubectl(&["create", "namespace", namespace]).unwrap();
    }
    let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy"));
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut manifests: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "yaml")).collect();
    // The rights bring the namespace that others are in.
    manifests.sort_by_key(|path| !path.ends_with("rights.yaml"));
    assert!(manifests.len() >= 6, "{manifests:?}");
    for manifest in &manifests {
        let path = manifest.to_str().unwrap();
        let taken = lab.kubectl(&["apply", "--server-side", "--validate=strict", "-f", path]).unwrap();
        let again = lab.kubectl(&["apply", "--server-side", "--validate=strict", "-f", path]).unwrap();
        assert_eq!(taken, again, "{path}");
    }
}
