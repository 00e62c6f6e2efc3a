//! Nodes that pause, and what users say by their marks.

use super::*;

const PAUSE_MAP: &str = "harvesterhci.io/node-upgrade-pause-map";
const MARK: &str = "harvesterhci.io/node-upgrade-pause";

/// Every node pauses; the first was resumed, and has failed.
fn first_has_failed() -> Ground {
    let mut ground = Ground::configured(3, json!({ "nodeUpgradeOption": { "mode": "manual" } })).until_nodes();
    take_off(&mut ground, "node-1");
    ground.begins_with(1);
    ground.fail("pre-drain-node-1");
    assert_eq!(ground.label("upgradeCleanup"), "Succeeded");
    assert!(!is_marked(&ground, "node-2") && map(&ground).is_null(), "no mark stays");
    ground
}

fn is_marked(ground: &Ground, node: &str) -> bool {
    ground.get("Node", "", node)["metadata"]["annotations"][MARK].is_string()
}

fn map(ground: &Ground) -> &Value {
    &ground.upgrade()["metadata"]["annotations"][PAUSE_MAP]
}

fn put_on(ground: &mut Ground, node: &str) {
    ground.change("Node", "", node, &json!({ "metadata": { "annotations": { MARK: "by hand" } } }));
    ground.settle();
}

fn take_off(ground: &mut Ground, node: &str) {
    ground.change("Node", "", node, &json!({ "metadata": { "annotations": { MARK: null } } }));
    ground.settle();
}

fn brings_over_and_asks_for_the_next(ground: &mut Ground) {
    ground.finish("pre-drain-node-1");
    ground.settle();
    ground.raises(1);
    ground.finish("post-drain-node-1");
    ground.settle();
    ground.reboot(1);
    ground.settle();
    ground.gives_back(1);
    ground.begins_with(2);
}

#[test]
fn nodes_pause_until_their_mark_is_taken_off() {
    let config = json!({ "nodeUpgradeOption": { "mode": "manual", "pauseNodes": ["node-2"] } });
    let mut ground = Ground::configured(3, config).until_nodes();
    let paused = |ground: &Ground, node: &str| {
        ground.get("Node", "", node)["metadata"]["annotations"]["harvesterhci.io/node-upgrade-pause"].is_string()
    };
    assert!(paused(&ground, "node-2") && !paused(&ground, "node-1"));
    assert_eq!(
        ground.upgrade()["metadata"]["annotations"]["harvesterhci.io/node-upgrade-pause-map"],
        r#"{"node-2":"pause"}"#
    );
    ground.asks(2, "pre-drain");
    ground.settle();
    assert_eq!(ground.node_state("node-2"), "Node-upgrade paused");
    assert_eq!(ground.upgrade()["status"]["nodeStatuses"]["node-2"]["reason"], "AdministrativelyPaused");
    assert!(!ground.has_job("pre-drain-node-2"));

    let off = json!({ "metadata": { "annotations": { "harvesterhci.io/node-upgrade-pause": null } } });
    ground.change("Node", "", "node-2", &off);
    ground.settle();

    assert!(ground.has_job("pre-drain-node-2"));
    assert_eq!(
        ground.upgrade()["metadata"]["annotations"]["harvesterhci.io/node-upgrade-pause-map"],
        r#"{"node-2":"unpause"}"#
    );
}

#[test]
fn a_paused_node_resumes_by_the_map_as_well() {
    let config = json!({ "nodeUpgradeOption": { "strategy": { "mode": "manual" } } });
    let mut ground = Ground::configured(3, config).until_nodes();
    ground.asks(1, "pre-drain");
    let map = json!({ "node-1": "unpause", "node-2": "pause", "node-3": "pause" }).to_string();
    let resumed = json!({ "metadata": { "annotations": { "harvesterhci.io/node-upgrade-pause-map": map } } });
    ground.change("Upgrade", "harvester-system", U, &resumed);

    ground.settle();

    assert!(ground.has_job("pre-drain-node-1"));
    assert!(
        ground.get("Node", "", "node-1")["metadata"]["annotations"]["harvesterhci.io/node-upgrade-pause"].is_null()
    );
}

#[test]
fn a_node_that_is_paused_by_hand_in_the_middle_waits_until_its_user_resumes_it() {
    for by_map in [true, false] {
        let mut ground = Ground::of(3).until_nodes();
        ground.begins_with(1);

        match by_map {
            true => ground.annotate(PAUSE_MAP, r#"{"node-2":"pause"}"#),
            false => put_on(&mut ground, "node-2"),
        }

        assert!(is_marked(&ground, "node-2") && map(&ground) == r#"{"node-2":"pause"}"#, "the other mark follows");
        brings_over_and_asks_for_the_next(&mut ground);
        ground.pass(30);
        assert_eq!(ground.node_state("node-2"), "Node-upgrade paused");
        assert!(!ground.has_job("pre-drain-node-2") && !ground.reasons().contains(&Reason::PlannerStalls));

        take_off(&mut ground, "node-2");
        assert!(ground.has_job("pre-drain-node-2") && map(&ground) == r#"{"node-2":"unpause"}"#);
    }
}

#[test]
fn a_node_that_was_resumed_can_be_paused_by_hand_again() {
    for by_map in [true, false] {
        let config = json!({ "nodeUpgradeOption": { "mode": "manual", "pauseNodes": ["node-2"] } });
        let mut ground = Ground::configured(3, config).until_nodes();
        ground.annotate(PAUSE_MAP, r#"{"node-2":"unpause"}"#);
        assert!(!is_marked(&ground, "node-2"));

        match by_map {
            true => ground.annotate(PAUSE_MAP, r#"{"node-2":"pause"}"#),
            false => put_on(&mut ground, "node-2"),
        }
        ground.begins_with(2);

        assert_eq!(ground.node_state("node-2"), "Node-upgrade paused");
        assert!(is_marked(&ground, "node-2") && map(&ground) == r#"{"node-2":"pause"}"#);
    }
}

#[test]
fn a_paused_node_that_registers_anew_stays_paused() {
    let mut ground = Ground::configured(3, json!({ "nodeUpgradeOption": { "mode": "manual" } })).until_nodes();
    let mut anew = node("node-2");
    anew["metadata"]["uid"] = json!("another");
    ground.put(anew);
    ground.settle();

    ground.begins_with(2);

    assert!(is_marked(&ground, "node-2") && !ground.has_job("pre-drain-node-2"));
    take_off(&mut ground, "node-2");
    assert!(ground.has_job("pre-drain-node-2"));
}

#[test]
fn a_paused_node_that_leaves_goes_from_the_map_and_pauses_again_when_it_is_back() {
    let mut ground = Ground::configured(3, json!({ "nodeUpgradeOption": { "mode": "manual" } })).until_nodes();
    ground.objects.remove(&("Node".to_owned(), String::new(), "node-2".to_owned()));

    // Something else is written on the Upgrade: Harvester's webhook refuses it while the map names the node.
    take_off(&mut ground, "node-1");
    assert_eq!(map(&ground), r#"{"node-1":"unpause","node-3":"pause"}"#);
    let mut anew = node("node-2");
    anew["metadata"]["uid"] = json!("another");
    ground.put(anew);
    ground.settle();

    assert_eq!(map(&ground), r#"{"node-1":"unpause","node-2":"pause","node-3":"pause"}"#);
    ground.begins_with(2);
    assert!(is_marked(&ground, "node-2") && !ground.has_job("pre-drain-node-2"));
}

#[test]
fn an_upgrade_that_is_called_off_or_deleted_is_not_kept_by_a_map_that_names_a_node_which_has_left() {
    for ends in ["drover.dev/abort", "deletion"] {
        let mut ground = Ground::configured(3, json!({ "nodeUpgradeOption": { "mode": "manual" } })).until_nodes();
        ground.objects.remove(&("Node".to_owned(), String::new(), "node-2".to_owned()));

        match ends {
            "deletion" => {
                let deleted = json!({ "metadata": { "deletionTimestamp": NOON, "annotations": { "harvesterhci.io/skipWebhook": "true" } } });
                ground.change("Upgrade", "harvester-system", U, &deleted);
                for _ in 0..20 {
                    let writes: Vec<Write> = ground.decide().writes().cloned().collect();
                    writes.iter().for_each(|write| ground.carry_out(write));
                    if ground.upgrade()["metadata"]["finalizers"] == json!([]) {
                        break;
                    }
                }
                assert_eq!(ground.upgrade()["metadata"]["finalizers"], json!([]));
            }
            annotation => {
                ground.annotate(annotation, "");
                assert_eq!(ground.label("upgradeCleanup"), "Succeeded");
            }
        }
        assert!(map(&ground).is_null(), "{ends}");
    }
}

#[test]
fn a_node_that_is_out_is_not_stopped_by_a_mark_that_comes_too_late() {
    let mut ground = Ground::of(3).until_nodes();
    ground.begins_with(1);

    ground.annotate(PAUSE_MAP, r#"{"node-1":"pause"}"#);
    brings_over_and_asks_for_the_next(&mut ground);

    assert!(ground.has_job("pre-drain-node-2") && !is_marked(&ground, "node-1"));
}

#[test]
fn what_an_earlier_drover_has_noted_of_marks_is_understood() {
    let mut ground = Ground::configured(3, json!({ "nodeUpgradeOption": { "mode": "manual" } })).until_nodes();
    let noted = ground.upgrade()["metadata"]["annotations"]["drover.dev/progress"].as_str().unwrap();
    let mut noted: Value = serde_json::from_str(noted).unwrap();
    assert!(noted["marked"].as_object_mut().unwrap().len() == 3);
    noted.as_object_mut().unwrap().remove("marked");
    noted["pausesMarked"] = json!(true);
    let earlier = json!({ "metadata": { "annotations": { "drover.dev/progress": noted.to_string() } } });
    ground.change("Upgrade", "harvester-system", U, &earlier);

    take_off(&mut ground, "node-2");
    ground.begins_with(2);

    assert!(ground.has_job("pre-drain-node-2") && is_marked(&ground, "node-3"));
    assert_eq!(map(&ground), r#"{"node-1":"pause","node-2":"unpause","node-3":"pause"}"#);
}

#[test]
fn both_marks_go_when_an_upgrade_ends() {
    let mut ground = Ground::configured(1, json!({ "nodeUpgradeOption": { "mode": "manual" } })).until_nodes();
    assert!(is_marked(&ground, "node-1") && map(&ground).is_string());
    take_off(&mut ground, "node-1");
    ground.finish("single-node-upgrade-node-1");
    ground.settle();
    ground.reboot(1);
    ground.settle();

    assert_eq!((ground.label("upgradeState"), ground.label("upgradeCleanup")), ("Succeeded", "Succeeded"));
    assert!(!is_marked(&ground, "node-1") && map(&ground).is_null());
}

#[test]
fn nodes_that_have_not_begun_still_pause_when_what_has_failed_is_tried_again() {
    let mut ground = first_has_failed();

    ground.annotate("drover.dev/retry", "");
    assert_eq!((ground.label("upgradeState"), ground.node_state("node-1")), ("UpgradingNodes", "Pre-draining"));
    brings_over_and_asks_for_the_next(&mut ground);

    assert_eq!(ground.node_state("node-2"), "Node-upgrade paused");
    assert!(is_marked(&ground, "node-2") && !ground.has_job("pre-drain-node-2"));
    take_off(&mut ground, "node-2");
    assert!(ground.has_job("pre-drain-node-2"));
}

#[test]
fn nodes_that_have_not_begun_still_pause_when_one_is_skipped() {
    let mut ground = first_has_failed();

    ground.annotate("drover.dev/skip", "node-1");
    ground.raises(1);
    ground.gives_back(1);
    ground.begins_with(2);

    assert_eq!(ground.node_state("node-2"), "Node-upgrade paused");
    assert!(is_marked(&ground, "node-2") && !ground.has_job("pre-drain-node-2"));
}

#[test]
fn a_node_that_was_resumed_before_the_failure_stays_resumed() {
    let mut ground = Ground::configured(3, json!({ "nodeUpgradeOption": { "mode": "manual" } })).until_services();
    ground.change("Node", "", "node-2", &json!({ "metadata": { "annotations": { MARK: null } } }));
    ground.fail("apply-manifests");
    assert_eq!(ground.label("upgradeState"), "Failed");

    ground.annotate("drover.dev/retry", "");
    ground.finish("apply-manifests");
    ground.settle();

    assert!(is_marked(&ground, "node-1") && !is_marked(&ground, "node-2"));
    assert_eq!(map(&ground), r#"{"node-1":"pause","node-3":"pause"}"#);
}

#[test]
fn a_map_that_nobody_can_read_resumes_nobody_and_is_told() {
    for nonsense in ["node-2=unpause", r#"{"node-2":"restart"}"#] {
        let mut ground = Ground::configured(3, json!({ "nodeUpgradeOption": { "mode": "manual" } })).until_nodes();
        ground.begins_with(2);

        ground.annotate(PAUSE_MAP, nonsense);

        assert!(!ground.has_job("pre-drain-node-2"), "{nonsense}");
        assert_eq!(ground.node_state("node-2"), "Node-upgrade paused");
        let wait = ground.last.waits.iter().find(|wait| wait.reason == Reason::UpgradeInvalid).unwrap();
        assert!(wait.sentence.contains(PAUSE_MAP), "{wait:?}");
        let map = r#"{"node-1":"pause","node-2":"pause","node-3":"pause"}"#;
        let command = format!("annotate --overwrite upgrades.harvesterhci.io {U} {PAUSE_MAP}='{map}'");
        assert!(wait.remedy.as_ref().unwrap().contains(&command), "{wait:?}");

        // Either mark resumes a node as before.
        take_off(&mut ground, "node-2");
        assert!(ground.has_job("pre-drain-node-2"), "{nonsense}");
        ground.annotate(PAUSE_MAP, map);
        assert!(!ground.reasons().contains(&Reason::UpgradeInvalid));
    }
}

#[test]
fn an_upgrade_does_not_begin_with_a_map_that_nobody_can_read() {
    let mut ground = Ground::of(3);
    ground.annotate(PAUSE_MAP, "[]");
    assert_eq!((ground.label("upgradeState"), ground.condition("Progressing").1.as_str()), ("", "UpgradeInvalid"));

    ground.annotate(PAUSE_MAP, r#"{"node-1":"pause"}"#);
    assert_eq!(ground.label("upgradeState"), "LoggingInfraPrepared");
    assert!(is_marked(&ground, "node-1") && !is_marked(&ground, "node-2"));
}
