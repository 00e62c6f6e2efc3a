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

fn of_longhorn(kind: &str, name: &str, spec: Value, status: Value) -> Value {
    let metadata = json!({ "name": name, "namespace": "longhorn-system" });
    json!({ "apiVersion": "longhorn.io/v1beta2", "kind": kind, "metadata": metadata, "spec": spec, "status": status })
}

/// Somebody has attached a volume to the first node by hand; its replicas are in these modes, there and on the second node.
fn attach_by_hand(ground: &mut Ground, modes: [&str; 2]) {
    let ticket = json!({ "id": "screen", "type": "longhorn-ui", "nodeID": "node-1" });
    let here = json!({ "state": "attached", "currentNodeID": "node-1", "kubernetesStatus": { "namespace": "default", "pvcName": "data" } });
    let serves = json!({ "volumeName": "v", "nodeID": "node-1", "desireState": "running" });
    let map = json!({ "currentState": "running", "replicaModeMap": { "r-1": modes[0], "r-2": modes[1] } });
    ground.put(of_longhorn("Volume", "v", json!({ "numberOfReplicas": 2 }), here));
    ground.put(of_longhorn("VolumeAttachment", "v", json!({ "attachmentTickets": { "screen": ticket } }), json!({})));
    ground.put(of_longhorn("Engine", "v-e-0", serves, map));
    for number in 1..=2 {
        let place = json!({ "nodeID": format!("node-{number}") });
        ground.put(of_longhorn("Replica", &format!("r-{number}"), place, json!({})));
    }
}

fn taint(ground: &mut Ground) {
    let taint = json!([{ "key": "kubevirt.io/drain", "value": "draining", "effect": "NoSchedule" }]);
    ground.change("Node", "", "node-1", &json!({ "spec": { "taints": taint } }));
    ground.settle();
}

fn tickets(ground: &Ground) -> &Value {
    &ground.get("VolumeAttachment", "longhorn-system", "v")["spec"]["attachmentTickets"]
}

#[test]
fn volumes_are_followed_only_while_the_steps_of_a_release_empty_a_node() {
    let of_longhorn = |ground: &Ground| {
        let all = followed(ground).into_iter().filter(|one| one.namespace == "longhorn-system");
        all.map(|one| one.kind).collect::<Vec<&str>>()
    };
    let mut ground = until_nodes(false);
    assert_eq!(of_longhorn(&ground), Vec::<&str>::new());
    ground.begins_with(1);
    assert_eq!(
        of_longhorn(&ground),
        ["Engine.longhorn.io", "Replica.longhorn.io", "Volume.longhorn.io", "VolumeAttachment.longhorn.io"]
    );
    ground.finish("pre-drain-node-1");
    ground.settle();
    assert_eq!((ground.node_state("node-1"), of_longhorn(&ground)), ("Pre-drained", Vec::new()));

    let mut own = Ground::of(3).until_nodes();
    own.begins_with(1);
    assert_eq!(of_longhorn(&own), Vec::<&str>::new());
}

#[test]
fn a_volume_that_no_workload_uses_is_detached_while_the_steps_of_a_release_empty_its_node() {
    let mut ground = until_nodes(false);
    attach_by_hand(&mut ground, ["RW", "RW"]);
    ground.begins_with(1);
    assert!(tickets(&ground)["screen"].is_object(), "its node is not being emptied yet");
    taint(&mut ground);
    assert_eq!(*tickets(&ground), json!({}));
    assert_eq!(
        ground.reasons(),
        [Reason::VolumeAttached, Reason::JobRunning, Reason::PlannerWorks, Reason::PlannerWorks]
    );
    assert_eq!(ground.last.waits[0].sentence, "volumes that no workload uses are attached to node-1: default/data");

    ground.finish("pre-drain-node-1");
    ground.settle();
    assert_eq!((ground.node_state("node-1"), ground.answer(1, "pre-hook")), ("Pre-draining", &Value::Null));

    let stopped = json!({ "status": { "currentState": "stopped" } });
    ground.change("Engine", "longhorn-system", "v-e-0", &stopped);
    ground.settle();
    assert_eq!((ground.node_state("node-1"), ground.answer(1, "pre-hook")), ("Pre-drained", &json!(TOKEN)));
}

#[test]
fn a_node_that_the_steps_of_a_release_have_emptied_stays_while_it_has_the_last_sound_replica_of_a_volume_in_use() {
    let mut ground = until_nodes(false);
    attach_by_hand(&mut ground, ["RW", "WO"]);
    let used = json!({ "spec": { "attachmentTickets": { "screen": null, "pod": { "id": "pod", "type": "csi-attacher", "nodeID": "node-1" } } } });
    ground.change("VolumeAttachment", "longhorn-system", "v", &used);
    ground.begins_with(1);
    taint(&mut ground);
    assert_eq!(ground.reasons()[0], Reason::JobRunning, "it may be rebuilt while VMs leave");
    ground.finish("pre-drain-node-1");
    ground.settle();
    assert_eq!((ground.reasons()[0], ground.node_state("node-1")), (Reason::VolumeUnhealthy, "Pre-draining"));
    assert!(ground.last.waits[0].sentence.ends_with("default/data"));
}
