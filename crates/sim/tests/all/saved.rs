//! The store that a violation leaves behind is a cluster again, as it was just before.

use std::collections::BTreeMap;
use std::time::Duration;

use drover_clock::Clock;
use drover_corral::apiserver::{ApiServer, Options};
use drover_sim::sabotage::Sabotage;
use drover_sim::{Scenario, Terms, run};
use serde_json::Value;

/// The objects of a list, by kind, namespace and name.
fn objects(list: &Value) -> BTreeMap<String, Value> {
    let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
    let name = |object: &Value| {
        let metadata = &object["metadata"];
        format!("{}/{}/{}", text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"]))
    };
    list["items"].as_array().unwrap().iter().map(|object| (name(object), object.clone())).collect()
}

#[test]
fn what_was_there_before_a_node_was_taken_wrongly_is_loaded_to_the_letter() {
    let sabotage = Some(Sabotage::ResultWithTake);
    let scenario = Scenario { nodes: 1, ..Scenario::default() };
    let outcome = run(&scenario, &Terms { sabotage, ..Terms::calm(1) }).unwrap();
    assert!(outcome.violations[0].sentence.contains("node-1"), "{:?}", outcome.violations[0]);
    let saved = outcome.before.unwrap().own;

    let options = Options { clock: Clock::real(), seed: 2, latency: Duration::ZERO, watch_window: 100 };
    let server = ApiServer::new(options);
    server.load(&saved).unwrap();

    let (saved, mut loaded) = (objects(&saved), objects(&server.save()));
    // Namespaces that every cluster has are none of the run's.
    loaded.retain(|name, _| saved.contains_key(name));
    assert_eq!(loaded, saved);
    let claims = &saved["Plan/system-upgrade/upgrade"]["metadata"]["annotations"]["drover.dev/claims"];
    assert!(claims.as_str().unwrap().contains("node-1"), "it is claimed: {claims}");
    let labels = &saved["Node//node-1"]["metadata"]["labels"];
    assert!(labels.get("drover.dev/claim").is_none(), "and not taken yet: {labels}");
}

#[test]
fn what_was_in_a_guest_cluster_is_saved_as_it_was_before_a_write_there_broke_something() {
    let scenarios = drover_sim::scenario::built_in().unwrap();
    let scenario = scenarios.iter().find(|scenario| scenario.name == "guest-tkc-addons").unwrap();
    let outcome = run(scenario, &Terms { sabotage: Some(Sabotage::AddonReplacesPods), ..Terms::calm(1) }).unwrap();
    let saved = outcome.before.unwrap();

    let guests: Vec<&(String, String)> = saved.guests.keys().collect();
    assert_eq!(guests, [&("default".to_owned(), "my-tkc".to_owned())]);
    let guest = objects(&saved.guests[guests[0]]);
    let own = objects(&saved.own);
    assert!(own.contains_key("TanzuKubernetesCluster/default/my-tkc"), "{:?}", own.keys());
    assert!(!guest.contains_key("TanzuKubernetesCluster/default/my-tkc"), "each has its own");
    let broken = outcome.violations[0].sentence.split(' ').next().unwrap();
    assert!(broken.starts_with("DaemonSet/kube-system/"), "{broken}");
    let strategy = guest.get(broken).map(|there| &there["spec"]["updateStrategy"]["type"]);
    assert_ne!(strategy.and_then(Value::as_str), Some("RollingUpdate"), "that is what the next write made of it");
    let is_machine = |name: &String| name.starts_with("Node//my-tkc-control-plane-");
    assert!(guest.keys().any(is_machine), "{:?}", guest.keys());
}
