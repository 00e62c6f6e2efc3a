//! What Drover does around the steps of a stock release beside its Plans.

use super::super::followed::{Meanwhile, meanwhile};
use super::*;

/// Up to the moment at which the planner may ask for nodes.
fn until_nodes(restores_vms: bool) -> Ground {
    let mut ground = Ground::configured(3, json!({ "restoreVM": restores_vms }));
    ground.annotate("drover.dev/steps", "release");
    let mut ground = ground.until_services();
    ground.finish("apply-manifests");
    ground.settle();
    ground.run_plan("skip-manifests-apply");
    ground.settle();
    assert_eq!(
        (ground.label("upgradeState"), ground.condition("StepsChosen").1.as_str()),
        ("UpgradingNodes", "Release")
    );
    ground
}

fn followed(ground: &Ground) -> Vec<Meanwhile> {
    meanwhile(&ground.cluster()).into_iter().collect()
}

#[test]
fn the_list_of_vms_that_are_started_again_carries_no_label_and_is_followed_by_its_name() {
    let list = Meanwhile { kind: "ConfigMap", namespace: "harvester-system", name: format!("{U}-restore-vm") };
    let mut ground = until_nodes(true);
    assert_eq!(followed(&ground), [list]);
    assert_eq!(followed(&until_nodes(false)), [], "nobody asks for it");
    assert_eq!(
        followed(&Ground::configured(3, json!({ "restoreVM": true })).until_nodes()),
        [],
        "Drover labels its own"
    );

    ground.begins_with(1);
    ground.fail("pre-drain-node-1");
    assert_eq!((ground.label("upgradeState"), followed(&ground)), ("Failed", Vec::new()));
}

fn list(ground: &Ground) -> &str {
    ground.get("ConfigMap", "harvester-system", &format!("{U}-restore-vm"))["data"]["node-1"].as_str().unwrap()
}

#[test]
fn vms_that_the_list_names_no_more_since_its_step_began_anew_are_started_again_all_the_same() {
    let mut ground = until_nodes(true);
    ground.begins_with(1);
    ground.put(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": format!("{U}-restore-vm"), "namespace": "harvester-system" },
        "data": { "node-1": "default/db,default/web" },
    }));
    ground.settle();
    // Its pod is lost, and the next one sees what still runs.
    let later = json!({ "data": { "node-1": "default/late" } });
    ground.change("ConfigMap", "harvester-system", &format!("{U}-restore-vm"), &later);
    ground.settle();
    ground.bring_over(1);
    ground.gives_back(1);
    ground.settle();

    assert_eq!(list(&ground), "default/db,default/late,default/web");
    assert!(ground.has_job("restore-vm-node-1"));
    let before = ground.written.find("restore-vm: patch").unwrap();
    assert!(before < ground.written.find("restore-vm-node-1: create").unwrap(), "{}", ground.written);
}
