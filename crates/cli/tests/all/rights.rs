//! What the files of `deploy` grant fits together.

use std::path::Path;

use serde_json::Value;

fn objects(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file);
    serde_saphyr::from_multiple(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The roles that are bound to a service account by these objects: kind, namespace of the binding, name.
fn bound(objects: &[Value], namespace: &str, account: &str) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let is_it = |subject: &Value| subject["namespace"] == namespace && subject["name"] == account;
    let has = |binding: &&Value| binding["subjects"].as_array().is_some_and(|subjects| subjects.iter().any(is_it));
    let role = |binding: &Value| {
        let of = &binding["roleRef"];
        (text(&of["kind"]), text(&binding["metadata"]["namespace"]), text(&of["name"]))
    };
    objects.iter().filter(has).map(role).collect()
}

/// The planner and the webhooks may be one process with the upgrades of Harvester: that has an account of its own.
#[test]
fn whoever_upgrades_harvester_may_plan_and_admit_as_well() {
    let all: Vec<Value> =
        ["rights.yaml", "harvester.yaml", "planner.yaml", "admission.yaml"].into_iter().flat_map(objects).collect();
    let (alone, together) = (("system-upgrade", "system-upgrade"), ("cattle-system", "drover"));
    let own = bound(&all, together.0, together.1);
    for file in ["planner.yaml", "admission.yaml"] {
        for (kind, namespace, name) in bound(&objects(file), alone.0, alone.1) {
            // What each needs where it is itself.
            let namespace = if namespace == alone.0 { together.0.to_owned() } else { namespace };
            let needed = (kind, namespace, name);
            assert!(own.contains(&needed), "{file} grants {needed:?} to {alone:?} and not to {together:?}");
        }
    }
    assert!(own.contains(&("ClusterRole".into(), String::new(), "drover-drain".into())), "it drains");
    for (kind, namespace, name) in own {
        let is_it = |object: &Value| {
            let of = object["metadata"]["namespace"].as_str().unwrap_or_default();
            object["kind"] == kind.as_str() && object["metadata"]["name"] == name.as_str() && of == namespace
        };
        assert!(all.iter().any(is_it), "{kind} {namespace}/{name} is bound, and nowhere to be found");
    }
}
