//! What people do to the cluster while an Upgrade is under way: nodes leave and change their roles, objects are deleted.

use super::*;

fn remove(ground: &mut Ground, kind: &str, namespace: &str, name: &str) {
    let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
    assert!(ground.objects.remove(&key).is_some(), "there is no {kind} {namespace}/{name}");
}

/// Somebody removes a node, with its machine.
fn leaves(ground: &mut Ground, number: usize) {
    remove(ground, "Node", "", &format!("node-{number}"));
    remove(ground, "Machine", "fleet-local", &format!("custom-{number}"));
    remove(ground, "Secret", "fleet-local", &format!("custom-{number}-machine-plan"));
}

#[test]
fn a_node_that_leaves_in_the_middle_of_its_upgrade_holds_up_no_other() {
    for has_drained in [false, true] {
        let mut ground = Ground::of(4).until_nodes();
        ground.begins_with(1);
        if has_drained {
            ground.finish("pre-drain-node-1");
            ground.settle();
        }
        leaves(&mut ground, 1);
        ground.settle();
        for number in 2..=4 {
            ground.begins_with(number);
            assert!(ground.has_job(&format!("pre-drain-node-{number}")), "{:?}", ground.last.waits);
            ground.bring_over(number);
            ground.gives_back(number);
        }
        ground.settle();
        assert_eq!((ground.label("upgradeState"), ground.label("upgradeCleanup")), ("Succeeded", "Succeeded"));
    }
}

#[test]
fn an_upgrade_does_not_end_while_a_node_is_at_work_that_was_lost_to_it() {
    let unlabelled = |ground: &mut Ground| {
        let label = json!({ "metadata": { "labels": { "harvesterhci.io/managed": null } } });
        ground.change("Node", "", "node-3", &label);
    };
    let without_machine = |ground: &mut Ground| remove(ground, "Machine", "fleet-local", "custom-3");
    for lose in [&unlabelled as &dyn Fn(&mut Ground), &without_machine] {
        let mut ground = Ground::of(3).until_nodes();
        for number in 1..=2 {
            ground.bring_over(number);
            ground.gives_back(number);
        }
        ground.begins_with(3);
        ground.finish("pre-drain-node-3");
        ground.settle();
        ground.raises(3);

        lose(&mut ground);
        ground.settle();

        assert_eq!(ground.label("upgradeState"), "UpgradingNodes");
        assert_eq!(ground.condition("NodesUpgraded").0, "Unknown");
        let sentence = "the upgrade does not end while node-3 is at work, which was lost to it meanwhile";
        assert!(ground.last.waits.iter().any(|wait| wait.sentence == sentence), "{:?}", ground.last.waits);
        remove(&mut ground, "Node", "", "node-3");
        ground.objects.remove(&("Machine".to_owned(), "fleet-local".to_owned(), "custom-3".to_owned()));
        ground.settle();
        assert_eq!(ground.label("upgradeState"), "Succeeded", "somebody has removed it");
    }
}

#[test]
fn an_upgrade_without_any_node_has_not_succeeded() {
    let mut ground = Ground::of(3).until_nodes();
    (1..=3).for_each(|number| remove(&mut ground, "Machine", "fleet-local", &format!("custom-{number}")));
    ground.settle();
    assert_eq!(ground.label("upgradeState"), "UpgradingNodes");
    let sentence = "no node takes part in the upgrade any more";
    assert!(ground.last.waits.iter().any(|wait| wait.sentence == sentence), "{:?}", ground.last.waits);
}

/// Rancher provisions a node that joins, as it was asked by then: it gets Kubernetes without any question.
fn joins(ground: &mut Ground, number: usize, os: &str) {
    let name = format!("node-{number}");
    let mut joined = node(&name);
    let label = format!("plan.upgrade.cattle.io/{U}-prepare");
    merge(
        &mut joined,
        &json!({
            "metadata": { "labels": { label: "h1" } },
            "status": { "nodeInfo": { "kubeletVersion": "v1.34.1+rke2r1", "osImage": os } },
        }),
    );
    ground.put(joined);
    ground.put(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
        "metadata": { "name": format!("custom-{number}"), "namespace": "fleet-local" }, "status": { "nodeRef": { "name": name } },
    }));
    ground.put(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "rke.cattle.io/machine-plan",
        "metadata": {
            "name": format!("custom-{number}-machine-plan"), "namespace": "fleet-local",
            "labels": { "rke.cattle.io/machine-name": format!("custom-{number}") },
        },
    }));
    ground.settle();
}

#[test]
fn a_node_that_joins_with_the_system_of_the_release_is_done() {
    let mut ground = Ground::of(3).until_nodes();
    ground.bring_over(1);
    ground.gives_back(1);
    joins(&mut ground, 4, "Harvester v1.8.0");
    assert_eq!(ground.node_state("node-4"), "Images preloaded", "the planner has others to come to");
    for number in 2..=3 {
        ground.bring_over(number);
        ground.gives_back(number);
    }
    ground.settle();
    assert_eq!((ground.node_state("node-4"), ground.label("upgradeState")), ("Succeeded", "Succeeded"));

    let mut ground = Ground::of(3).until_nodes();
    for number in 1..=3 {
        ground.bring_over(number);
        ground.gives_back(number);
    }
    joins(&mut ground, 4, "Harvester v1.7.0");
    assert_eq!(ground.label("upgradeState"), "UpgradingNodes", "its system is an old one");
    let is_said = ground.last.waits.iter().any(|wait| wait.sentence.contains("its system is still the old one"));
    assert!(is_said, "{:?}", ground.last.waits);
}

/// A worker of the version that runs, with its machine.
fn old_worker_joins(ground: &mut Ground, number: usize) {
    joins(ground, number, "Harvester v1.7.0");
    let old = json!({ "status": {
        "nodeInfo": { "kubeletVersion": "v1.33.5+rke2r1" }, "conditions": [{ "type": "Ready", "status": "True" }],
    } });
    ground.change("Node", "", &format!("node-{number}"), &old);
    ground.settle();
}

#[test]
fn a_node_that_joins_before_the_only_one_has_its_turn_is_upgraded_with_it() {
    let mut ground = Ground::of(1).until_services();
    assert_eq!(ground.upgrade()["status"]["singleNode"], "node-1");
    old_worker_joins(&mut ground, 2);
    ground.finish("apply-manifests");
    ground.settle();
    assert!(!ground.has_job("single-node-upgrade-node-1"), "its VMs can go to the other one");
    assert_eq!(ground.get("Cluster", "fleet-local", "local")["spec"]["rkeConfig"]["provisionGeneration"], 5);
    for number in 1..=2 {
        ground.bring_over(number);
        ground.gives_back(number);
    }
    ground.settle();
    assert_eq!((ground.label("upgradeState"), ground.node_state("node-2")), ("Succeeded", "Succeeded"));
}

#[test]
fn a_node_that_joins_while_the_only_one_is_at_work_is_done_if_it_is_new_and_else_named_and_not_waited_for() {
    let over = |ground: &mut Ground| {
        ground.finish("single-node-upgrade-node-1");
        ground.reboot(1);
        ground.settle();
        assert_eq!(ground.label("upgradeState"), "Succeeded", "{:?}", ground.last.waits);
    };
    let mut ground = Ground::of(1).until_nodes();
    joins(&mut ground, 2, "Harvester v1.8.0");
    assert_eq!(ground.node_state("node-2"), "Succeeded");
    over(&mut ground);
    assert_eq!(ground.condition("NodesUpgraded"), ("True".into(), String::new(), String::new()));

    let mut ground = Ground::of(1).until_nodes();
    old_worker_joins(&mut ground, 2);
    let wait = ground.last.waits.iter().find(|wait| wait.reason == Reason::NodeJoined).unwrap();
    assert_eq!(
        wait.sentence,
        "node-2 has joined while the only other node is upgraded, with Harvester v1.7.0 and kubelet v1.33.5+rke2r1"
    );
    let remedy = "the upgrade goes on without it; when that has ended, create another Upgrade to v1.8.0, which brings it along; or remove it, with its Machine in fleet-local";
    assert_eq!(wait.remedy.as_deref(), Some(remedy));
    assert_eq!(ground.condition("Progressing").1, "JobRunning", "it holds nothing up");
    over(&mut ground);
    let message = "not upgraded, since they have joined meanwhile: node-2";
    assert_eq!(ground.condition("NodesUpgraded"), ("True".into(), "NodeJoined".into(), message.into()));
}

#[test]
fn an_only_node_that_is_replaced_in_the_middle_of_its_upgrade_leaves_it_to_its_successor() {
    let mut ground = Ground::of(1).until_nodes();
    old_worker_joins(&mut ground, 2);
    leaves(&mut ground, 1);
    ground.settle();
    ground.bring_over(2);
    ground.gives_back(2);
    ground.settle();
    assert_eq!((ground.label("upgradeState"), ground.node_state("node-2")), ("Succeeded", "Succeeded"));
}

#[test]
fn a_server_that_is_no_longer_one_counts_for_no_quorum() {
    let mut ground = Ground::of(4).until_nodes();
    let demoted = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } });
    ground.change("Node", "", "node-4", &demoted);
    ground.begins_with(1);
    assert!(ground.has_job("pre-drain-node-1"), "three voters are well: {:?}", ground.last.waits);
}

#[test]
fn what_was_read_once_may_go_or_rot_and_the_upgrade_comes_to_its_end() {
    let mut ground = Ground::of(3).until_services();
    remove(&mut ground, "Version", "harvester-system", "v1.8.0");
    ground.put(json!({
        "apiVersion": "harvesterhci.io/v1beta1", "kind": "Setting", "metadata": { "name": "upgrade-config" }, "value": "{]",
    }));
    ground.garbled = Some("harvester-release.yaml is no YAML");
    ground.finish("apply-manifests");
    ground.settle();
    for number in 1..=3 {
        ground.bring_over(number);
        ground.gives_back(number);
    }
    ground.settle();
    assert_eq!((ground.label("upgradeState"), ground.label("upgradeCleanup")), ("Succeeded", "Succeeded"));
}

#[test]
fn another_try_imports_the_image_from_where_it_came_although_the_version_has_gone() {
    let mut ground = Ground::of(3).until_services();
    ground.fail("apply-manifests");
    let image = |ground: &Ground| ground.get("VirtualMachineImage", "harvester-system", U).clone();
    assert!(image(&ground).is_null() && ground.label("upgradeCleanup") == "Succeeded");
    remove(&mut ground, "Version", "harvester-system", "v1.8.0");

    let mut begun_by_an_earlier_drover = ground.clone();
    ground.annotate("drover.dev/retry", "");
    assert_eq!(image(&ground)["spec"]["url"], "http://example.com/iso");

    let ground = &mut begun_by_an_earlier_drover;
    let noted = ground.upgrade()["metadata"]["annotations"]["drover.dev/progress"].as_str().unwrap();
    let mut noted: Value = serde_json::from_str(noted).unwrap();
    noted.as_object_mut().unwrap().remove("source").unwrap();
    ground.annotate("drover.dev/progress", &noted.to_string());
    ground.annotate("drover.dev/retry", "");
    let (_, reason, message) = ground.condition("Progressing");
    assert_eq!((reason.as_str(), image(ground)), ("UpgradeInvalid", Value::Null));
    assert!(message.contains("create Version harvester-system/v1.8.0 again"), "{message}");
    ground.put(json!({
        "apiVersion": "harvesterhci.io/v1beta1", "kind": "Version",
        "metadata": { "name": "v1.8.0", "namespace": "harvester-system" }, "spec": { "isoURL": "http://example.com/other" },
    }));
    ground.settle();
    assert_eq!(image(ground)["spec"]["url"], "http://example.com/other");
}

#[test]
fn whichever_job_somebody_deletes_is_made_again() {
    let mut ground = Ground::of(3).until_services();
    let again = |ground: &mut Ground, job: &str| {
        let name = format!("{U}-{job}");
        let before = ground.get("Job", "harvester-system", &name)["metadata"]["uid"].clone();
        remove(ground, "Job", "harvester-system", &name);
        ground.settle();
        assert_ne!(ground.get("Job", "harvester-system", &name)["metadata"]["uid"], before, "{job}");
        assert!(ground.has_job(job), "{job}");
    };
    again(&mut ground, "apply-manifests");
    ground.finish("apply-manifests");
    ground.settle();
    ground.begins_with(1);
    again(&mut ground, "pre-drain-node-1");
    ground.finish("pre-drain-node-1");
    ground.settle();
    ground.raises(1);
    again(&mut ground, "post-drain-node-1");
    assert_eq!(ground.node_state("node-1"), "Post-draining");
}

#[test]
fn the_log_of_an_upgrade_is_made_while_the_upgrade_says_that_it_has_none_yet() {
    let mut ground = Ground::configured(3, json!({ "nodeUpgradeOption": { "mode": "manual" } }));
    ground.change("Upgrade", "harvester-system", U, &json!({ "spec": { "logEnabled": true } }));
    let log = ("UpgradeLog".to_owned(), "harvester-system".to_owned(), format!("{U}-upgradelog"));

    ground.settle();

    assert!(ground.objects.contains_key(&log));
    assert_eq!(
        (ground.condition("LogReady").0.as_str(), ground.condition("LogReady").1.as_str()),
        ("False", "NoCollector")
    );
    // Somebody deletes it.
    ground.objects.remove(&log);
    ground.settle();
    assert!(ground.objects.contains_key(&log), "it is made again");
}

#[test]
fn charts_are_let_go_when_the_steps_that_hold_them_have_ended() {
    let mut ground = Ground::of(3).until_services();
    ground.put(json!({
        "apiVersion": "management.cattle.io/v3", "kind": "ManagedChart",
        "metadata": { "name": "harvester", "namespace": "fleet-local" }, "spec": { "paused": true },
    }));
    let is_held = |ground: &Ground| ground.get("ManagedChart", "fleet-local", "harvester")["spec"]["paused"] == true;
    let job = format!("{U}-apply-manifests");
    let leaving = json!({ "metadata": { "deletionTimestamp": NOON } });
    ground.change("Job", "harvester-system", &job, &leaving);
    ground.change("Upgrade", "harvester-system", U, &leaving);

    ground.settle();
    assert!(is_held(&ground), "its pod may be at work");

    remove(&mut ground, "Job", "harvester-system", &job);
    ground.settle();
    assert!(!is_held(&ground));
}
