//! What cannot be followed is said, and goes on when it is put right.

use super::super::admission::Refusal;
use super::*;

fn ground_with(spec: Value) -> Ground {
    let mut ground = Ground::of(3);
    ground.change("Upgrade", "harvester-system", U, &json!({ "spec": spec }));
    ground
}

#[test]
fn an_upgrade_without_a_version_that_is_known_does_not_begin() {
    let mut ground = ground_with(json!({ "version": "v9.9.9" }));
    ground.settle();
    assert_eq!(ground.condition("Progressing").1, "UpgradeInvalid");
    assert!(ground.condition("Progressing").2.contains("version v9.9.9 is not found"));
    assert_eq!(ground.label("upgradeState"), "");

    ground.change("Upgrade", "harvester-system", U, &json!({ "spec": { "version": "v1.8.0" } }));
    ground.settle();
    assert_eq!(ground.label("upgradeState"), "LoggingInfraPrepared");
}

#[test]
fn a_release_is_served_from_an_image_in_the_namespace_of_upgrades_and_no_other() {
    for elsewhere in ["default/iso", "iso", "harvester-system/", "harvester-system/iso/1"] {
        let mut ground = ground_with(json!({ "version": null, "image": elsewhere }));
        ground.settle();
        let (_, reason, message) = ground.condition("Progressing");
        assert_eq!((reason.as_str(), ground.label("upgradeState")), ("UpgradeInvalid", ""), "{elsewhere}");
        assert!(message.contains("spec.image") && message.contains("harvester-system/NAME"), "{message}");
    }

    let mut ground = ground_with(json!({ "version": null, "image": "harvester-system/iso" }));
    ground.settle();
    assert!(ground.condition("Progressing").2.contains("VirtualMachineImage harvester-system/iso is not there"));
    ground.put(json!({
        "apiVersion": "harvesterhci.io/v1beta1", "kind": "VirtualMachineImage",
        "metadata": { "name": "iso", "namespace": "harvester-system" },
        "status": { "conditions": [{ "type": "Imported", "status": "True" }] },
    }));
    ground.settle();
    assert_eq!(ground.upgrade()["status"]["imageID"], "harvester-system/iso");
    let image = ground.get("VirtualMachineImage", "harvester-system", "iso");
    assert_eq!(image["metadata"]["labels"]["harvesterhci.io/upgrade"], U);
    let served = ground.get("Deployment", "harvester-system", &format!("upgrade-repo-{U}"));
    let volumes = &served["spec"]["template"]["spec"]["volumes"];
    assert_eq!(volumes[0]["persistentVolumeClaim"]["claimName"], "iso");
}

#[test]
fn a_setting_that_cannot_be_read_is_named() {
    let mut ground = Ground::configured(3, json!("random string"));
    ground.settle();
    assert_eq!(ground.condition("Progressing").1, "UpgradeInvalid");
    assert!(ground.condition("Progressing").2.contains("upgrade-config"));
}

#[test]
fn a_second_upgrade_waits_for_the_first() {
    let mut ground = Ground::of(3);
    ground.put(json!({
        "apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade",
        "metadata": {
            "name": "earlier", "namespace": "harvester-system", "labels": { "harvesterhci.io/upgradeState": "UpgradingNodes" },
        },
    }));
    ground.settle();
    assert_eq!(ground.reasons(), [Reason::AnotherUpgradeFirst]);
    let over = json!({ "metadata": { "labels": { "harvesterhci.io/upgradeState": "Failed" } } });
    ground.change("Upgrade", "harvester-system", "earlier", &over);
    ground.settle();
    assert_eq!(ground.label("latestUpgrade"), "true");
}

#[test]
fn a_successor_takes_the_mark_of_the_latest_from_an_older_upgrade() {
    let mut ground = Ground::of(3);
    let marked = |name: &str| {
        json!({
            "apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade",
            "metadata": {
                "name": name, "namespace": "harvester-system", "creationTimestamp": "2026-01-01T11:00:00Z",
                "labels": { "harvesterhci.io/upgradeState": "Failed", "harvesterhci.io/latestUpgrade": "true" },
            },
        })
    };
    ground.put(marked("earlier"));
    let created = json!({ "metadata": { "creationTimestamp": "2026-01-01T11:30:00Z" } });
    ground.change("Upgrade", "harvester-system", U, &created);
    // Whoever begins dies after the first write.
    let first = ground.first_write();
    ground.carry_out(&first);
    assert_eq!(ground.label("latestUpgrade"), "true");

    ground.settle();

    let label = |ground: &Ground, name| {
        ground.get("Upgrade", "harvester-system", name)["metadata"]["labels"]["harvesterhci.io/latestUpgrade"].clone()
    };
    assert_eq!(label(&ground, "earlier"), Value::Null);
    // It takes it from none that came later.
    let mut later = marked("later");
    later["metadata"]["creationTimestamp"] = json!("2026-01-01T11:45:00Z");
    ground.put(later);
    ground.settle();
    assert_eq!(label(&ground, "later"), "true");
}

#[test]
fn an_upgrade_that_another_controller_has_begun_is_left_alone() {
    let mut ground = Ground::of(3);
    let begun = json!({ "metadata": { "labels": { "harvesterhci.io/upgradeState": "PreparingRepo" } } });
    ground.change("Upgrade", "harvester-system", U, &begun);

    let decision = ground.decide();

    assert_eq!(ground.reasons(), [Reason::AnotherControllerActs]);
    assert_eq!(decision.writes().count(), 0, "{decision:#?}");
}

#[test]
fn drover_only_watches_where_harvester_itself_is_at_work() {
    let mut ground = Ground::of(3);
    ground.put(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "harvester", "namespace": "harvester-system" }, "status": { "availableReplicas": 3 },
    }));
    let decision = ground.decide();
    assert_eq!(ground.reasons(), [Reason::AnotherControllerActs]);
    assert_eq!(decision.writes().count(), 0);

    for word in ["no", "False", "off", "", "rancher"] {
        ground.annotate("drover.dev/drive", word);
        assert_eq!(ground.reasons(), [Reason::AnotherControllerActs], "{word}");
        assert!(ground.last.waits[0].sentence.ends_with(&format!("says {word:?}, which does not name it")));
        assert_eq!(ground.label("upgradeState"), "", "{word}");
    }
    for word in ["true", "harvester", "rancher, harvester"] {
        let mut ground = ground.clone();
        ground.annotate("drover.dev/drive", word);
        assert_eq!(ground.label("upgradeState"), "LoggingInfraPrepared", "{word}");
    }
}

#[test]
fn drover_takes_over_nothing_while_harvester_restarts() {
    let mut ground = Ground::of(3);
    let restarts = json!({ "availableReplicas": 0, "unavailableReplicas": 3 });
    ground.put(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "harvester", "namespace": "harvester-system" }, "spec": { "replicas": 3 }, "status": restarts,
    }));
    ground.settle();
    assert_eq!(ground.reasons(), [Reason::AnotherControllerActs]);
    assert_eq!(ground.written, "");

    ground.change("Deployment", "harvester-system", "harvester", &json!({ "spec": { "replicas": 0 } }));
    ground.settle();
    assert_eq!(ground.label("upgradeState"), "LoggingInfraPrepared");
}

#[test]
fn codes_that_no_check_has_and_words_that_name_no_controller_are_said() {
    for (key, word, said) in [
        ("drover.dev/accept", "DRV-VOL-003,DRV-VOL-999", "names DRV-VOL-999, and no check"),
        ("drover.dev/drive", "False", "says \"False\""),
        ("drover.dev/drive", "true,", "says \"\""),
    ] {
        let mut ground = Ground::of(3);
        ground.annotate(key, word);
        let (_, reason, message) = ground.condition("Progressing");
        assert_eq!((reason.as_str(), ground.label("upgradeState")), ("UpgradeInvalid", ""), "{key}={word}");
        assert!(message.contains(said), "{message}");

        ground.annotate(key, if key.ends_with("accept") { "DRV-VOL-003" } else { "harvester" });
        assert_eq!(ground.label("upgradeState"), "LoggingInfraPrepared");
        ground.annotate(key, word);
        assert!(ground.condition("Progressing").2.contains(said), "one that has begun says so");
    }
}

fn harvester_runs(ground: &mut Ground, replicas: i64) {
    ground.put(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "harvester", "namespace": "harvester-system" }, "spec": { "replicas": replicas },
    }));
    ground.settle();
}

#[test]
fn drover_stops_when_harvester_comes_back_in_the_middle_and_goes_on_when_it_is_gone() {
    for consent in [None, Some("true")] {
        let mut ground = Ground::of(3);
        harvester_runs(&mut ground, 0);
        consent.into_iter().for_each(|word| ground.annotate("drover.dev/drive", word));
        let mut ground = ground.until_nodes();
        ground.written.clear();

        harvester_runs(&mut ground, 3);
        ground.begins_with(1);

        let wait = ground.last.waits.first().unwrap();
        assert_eq!((ground.reasons(), ground.last.waits.len()), (vec![Reason::AnotherControllerActs], 1));
        assert!(wait.remedy.as_ref().unwrap().contains("scale deployment harvester --replicas=0"), "{wait:?}");
        assert!(ground.written.lines().all(|line| line.starts_with("Announce")), "{}", ground.written);
        assert_eq!(ground.events("AnotherControllerActs").len(), 1);
        // Neither is anything taken back beside it.
        ground.change("Upgrade", "harvester-system", U, &json!({ "metadata": { "deletionTimestamp": NOON } }));
        assert!(ground.decide().writes().all(|write| write.purpose == Purpose::Announce));
        ground.change("Upgrade", "harvester-system", U, &json!({ "metadata": { "deletionTimestamp": null } }));

        harvester_runs(&mut ground, 0);
        assert!(ground.has_job("pre-drain-node-1"), "{consent:?}");
    }
}

#[test]
fn drover_goes_on_beside_harvester_where_its_user_has_said_so() {
    for (word, was_off) in [("true", false), ("harvester", false), ("harvester", true)] {
        let mut ground = Ground::of(3);
        harvester_runs(&mut ground, if was_off { 0 } else { 3 });
        ground.annotate("drover.dev/drive", word);
        let mut ground = ground.until_nodes();

        harvester_runs(&mut ground, 3);
        ground.begins_with(1);

        assert!(ground.has_job("pre-drain-node-1"), "{word}");
    }
}

#[test]
fn an_upgrade_that_is_over_is_no_matter_between_two_drivers() {
    let mut ground = Ground::of(3);
    ground.settle();
    ground.annotate("drover.dev/abort", "");
    assert_eq!(ground.label("upgradeCleanup"), "Succeeded");

    harvester_runs(&mut ground, 3);
    assert_eq!(ground.reasons(), []);

    ground.annotate("drover.dev/retry", "");
    assert_eq!((ground.reasons(), ground.label("upgradeState")), (vec![Reason::AnotherControllerActs], "Failed"));
}

fn with_release(change: impl Fn(&mut Release)) -> Ground {
    let mut ground = Ground::of(3);
    ground.settle();
    ground.import();
    ground.settle();
    ground.serve();
    change(&mut ground.served.as_mut().unwrap().release);
    ground.settle();
    ground
}

#[test]
fn a_release_whose_steps_nobody_knows_is_refused_and_never_guessed_at() {
    let mut ground = with_release(|release| release.drover = None);
    assert_eq!(ground.reasons(), [Reason::ReleaseRefused]);
    assert!(ground.condition("Progressing").2.contains("nobody knows the steps"));

    ground.annotate("drover.dev/steps", "mine");
    assert!(ground.condition("Progressing").2.contains("says mine"));
    ground.annotate("drover.dev/steps", "drover");
    assert_eq!(ground.label("upgradeState"), "PreparingNodes");
    assert_eq!(ground.condition("StepsChosen").1, "Drover");
}

#[test]
fn a_release_that_brings_its_own_steps_runs_those() {
    let mut ground = Ground::configured(3, json!({ "restoreVM": true }));
    ground.settle();
    ground.import();
    ground.settle();
    ground.serve();
    ground.served = Some(stock_release());
    ground.settle();
    let prepare = ground.get("Plan", "cattle-system", &format!("{U}-prepare"))["spec"]["upgrade"].clone();
    assert_eq!(prepare["image"], "rancher/harvester-upgrade:v1.7.0", "the release that runs prepares");
    assert_eq!((&prepare["command"], &prepare["args"]), (&json!(["do_upgrade_node.sh"]), &json!(["prepare"])));
    assert_eq!(
        ground.condition("StepsChosen"),
        (
            "True".into(),
            "Release".into(),
            "the Jobs run the steps of the release itself, rancher/harvester-upgrade:v1.8.0".into()
        )
    );
    ground.preload();
    ground.settle();
    let container = |ground: &Ground, job: &str| {
        ground.get("Job", "harvester-system", &format!("{U}-{job}"))["spec"]["template"]["spec"]["containers"][0]
            .clone()
    };
    let manifests = container(&ground, "apply-manifests");
    assert_eq!((&manifests["command"], &manifests["args"]), (&json!(["upgrade_manifests.sh"]), &Value::Null));
    ground.finish("apply-manifests");
    ground.settle();
    ground.run_plan("skip-manifests-apply");
    ground.settle();
    ground.asks(1, "pre-drain");
    ground.settle();
    let pre_drain = container(&ground, "pre-drain-node-1");
    assert_eq!(pre_drain["image"], "rancher/harvester-upgrade:v1.8.0");
    assert_eq!((&pre_drain["command"], &pre_drain["args"]), (&json!(["do_upgrade_node.sh"]), &json!(["pre-drain"])));
}

#[test]
fn what_a_webhook_would_have_refused_does_not_begin_and_is_told_whole() {
    let mut ground = Ground::of(3);
    let no = |message: &str| Refusal { code: 400, message: message.to_owned() };
    let refusals = vec![no("node node-2 is unschedulable"), no("there are degraded volumes")];
    ground.verdict = Some(Verdict { refusals, notes: Vec::new() });
    ground.settle();
    assert_eq!(ground.label("upgradeState"), "");
    let (_, reason, message) = ground.condition("Progressing");
    assert_eq!(reason, "UpgradeInvalid");
    assert!(message.starts_with("(1) node node-2 is unschedulable (2) there are degraded volumes ("), "{message}");
    assert!(message.contains(&format!("drover preflight upgrade/{U}")), "what helps is told, too: {message}");

    ground.verdict = Some(Verdict::default());
    ground.settle();
    assert_eq!(ground.label("upgradeState"), "LoggingInfraPrepared");
}

/// The Upgrade as another controller has written it.
fn meddled_by(ground: &mut Ground, manager: &str) {
    let fields = json!({ "f:metadata": { "f:labels": { "f:harvesterhci.io/upgradeState": {} } } });
    let managed = json!([{ "manager": manager, "operation": "Update", "fieldsV1": fields }]);
    let patch = json!({ "metadata": {
        "managedFields": managed, "labels": { "harvesterhci.io/upgradeState": "PreparingRepo" },
    }});
    ground.change("Upgrade", "harvester-system", U, &patch);
}

#[test]
fn another_controller_that_writes_the_state_is_named_and_left_to_drive_until_somebody_decides() {
    let mut ground = Ground::of(3).until_nodes();
    meddled_by(&mut ground, "harvester");
    ground.asks(1, "pre-drain");

    let decision = ground.decide();
    assert_eq!(ground.reasons(), [Reason::AnotherControllerActs]);
    let is_told = |write: &Write| write.purpose == Purpose::Announce;
    assert!(decision.writes().count() == 1 && decision.writes().all(is_told), "{decision:#?}");
    assert!(decision.waits[0].sentence.starts_with("harvester has written the state"));
    assert!(decision.waits[0].remedy.as_ref().unwrap().contains("drover.dev/drive=harvester"));

    ground.annotate("drover.dev/drive", "harvester");
    assert_eq!((ground.label("upgradeState"), ground.has_job("pre-drain-node-1")), ("UpgradingNodes", true));
}

/// Somebody takes away what Drover has noted on an Upgrade of its own.
fn lose_progress(ground: &mut Ground) {
    let fields = json!({ "f:metadata": { "f:labels": { "f:harvesterhci.io/upgradeState": {} } } });
    let managed = json!([{ "manager": "drover", "operation": "Update", "fieldsV1": fields }]);
    let patch = json!({ "metadata": { "managedFields": managed, "annotations": { "drover.dev/progress": null } } });
    ground.change("Upgrade", "harvester-system", U, &patch);
}

#[test]
fn an_upgrade_whose_notes_are_gone_says_so_and_does_not_begin_anew() {
    let mut ground = Ground::of(3).until_nodes();
    lose_progress(&mut ground);
    ground.settle();

    let (_, reason, message) = ground.condition("Progressing");
    assert_eq!((reason.as_str(), ground.label("upgradeState")), ("UpgradeInvalid", "UpgradingNodes"));
    assert!(message.contains("in its annotation drover.dev/progress, is gone: nothing goes on"), "{message}");
    assert!(message.contains("drover.dev/progress='{}'"), "{message}");
    assert_eq!(ground.events("UpgradeInvalid").len(), 1);
}

#[test]
fn an_upgrade_whose_notes_are_gone_can_be_deleted_and_takes_along_what_it_has_made() {
    let config = json!({ "nodeUpgradeOption": { "mode": "manual" } });
    let mut ground = Ground::configured(3, config).until_nodes();
    ground.change(
        "Node",
        "",
        "node-2",
        &json!({ "spec": { "taints": [{ "key": "kubevirt.io/drain", "effect": "NoSchedule" }] } }),
    );
    lose_progress(&mut ground);
    ground.change("Upgrade", "harvester-system", U, &json!({ "metadata": { "deletionTimestamp": NOON } }));

    for _ in 0..5 {
        let writes: Vec<Write> = ground.decide().writes().cloned().collect();
        writes.iter().for_each(|write| ground.carry_out(write));
    }

    assert_eq!(ground.upgrade()["metadata"]["finalizers"], json!([]));
    assert!(ground.get("Cluster", "fleet-local", "local")["spec"]["rkeConfig"]["upgradeStrategy"].is_null());
    assert!(ground.get("Deployment", "harvester-system", &format!("upgrade-repo-{U}")).is_null());
    assert!(ground.get("Plan", "cattle-system", &format!("{U}-prepare")).is_null());
    for number in 1..=3 {
        let node = ground.get("Node", "", &format!("node-{number}"));
        assert!(node["metadata"]["annotations"].get("harvesterhci.io/node-upgrade-pause").is_none(), "{node}");
        assert!(node["spec"]["taints"].as_array().is_none_or(Vec::is_empty), "{node}");
    }
}

#[test]
fn an_upgrade_that_has_ended_and_whose_notes_are_gone_touches_nothing_of_the_next_when_it_is_deleted() {
    let mut ground = Ground::of(3);
    let mut old = ground.upgrade().clone();
    let fields = json!({ "f:metadata": { "f:labels": { "f:harvesterhci.io/upgradeState": {} } } });
    let ended = json!({ "metadata": {
        "name": "old", "uid": "uid-old", "deletionTimestamp": NOON,
        "finalizers": ["wrangler.cattle.io/harvester-upgrade-controller"],
        "labels": { "harvesterhci.io/upgradeState": "Succeeded", "harvesterhci.io/upgradeCleanup": "Succeeded" },
        "managedFields": [{ "manager": "drover", "operation": "Update", "fieldsV1": fields }],
    } });
    merge(&mut old, &ended);
    ground.put(old);
    let mut ground = ground.until_nodes();
    ground.begins_with(1);

    let decision = ground.decide_for("old");

    let writes: Vec<(String, &Act)> = decision.writes().map(|write| (write.subject.name.clone(), &write.act)).collect();
    let [(name, Act::Patch(patch))] = &writes[..] else { panic!("{writes:#?}") };
    assert_eq!((name.as_str(), &patch["metadata"]["finalizers"]), ("old", &json!([])));
}

#[test]
fn an_upgrade_whose_notes_are_gone_stays_for_as_long_as_a_node_is_in_the_middle_of_it() {
    let mut ground = Ground::of(3).until_nodes();
    ground.begins_with(1);
    lose_progress(&mut ground);
    ground.change("Upgrade", "harvester-system", U, &json!({ "metadata": { "deletionTimestamp": NOON } }));
    ground.settle();

    let (_, reason, message) = ground.condition("Progressing");
    assert_eq!(reason, "UpgradeInvalid");
    assert!(message.contains("what it was about to do on node-1: it is not deleted"), "{message}");
    assert_ne!(ground.upgrade()["metadata"]["finalizers"], json!([]));

    let force = json!({ "metadata": { "annotations": { "harvesterhci.io/skipWebhook": "true" } } });
    ground.change("Upgrade", "harvester-system", U, &force);
    for _ in 0..5 {
        let writes: Vec<Write> = ground.decide().writes().cloned().collect();
        writes.iter().for_each(|write| ground.carry_out(write));
    }
    assert_eq!(ground.upgrade()["metadata"]["finalizers"], json!([]));
}

#[test]
fn what_a_person_changes_by_hand_is_put_right() {
    let mut ground = Ground::of(3).until_nodes();
    meddled_by(&mut ground, "kubectl-edit");
    ground.settle();
    assert_eq!(ground.label("upgradeState"), "UpgradingNodes");
}

#[test]
fn a_release_that_nobody_can_read_is_told_with_what_helps() {
    let mut ground = Ground::of(3);
    ground.settle();
    ground.import();
    ground.settle();
    ground.serve();
    ground.garbled = Some("harvester-release.yaml is no YAML");
    ground.settle();
    let (_, reason, message) = ground.condition("Progressing");
    assert_eq!(reason, "RepositoryNotReady");
    assert!(
        message.contains("harvester-release.yaml is no YAML (") && message.contains("take another image"),
        "{message}"
    );

    ground.garbled = None;
    ground.settle();
    assert_eq!(ground.label("upgradeState"), "PreparingNodes");
}

#[test]
fn an_upgrade_that_is_deleted_among_its_nodes_says_how_it_is_ended() {
    let mut ground = Ground::of(3).until_nodes();
    ground.begins_with(1);
    ground.change("Upgrade", "harvester-system", U, &json!({ "metadata": { "deletionTimestamp": NOON } }));
    ground.settle();
    let command =
        format!("kubectl -n harvester-system annotate --overwrite upgrades.harvesterhci.io {U} drover.dev/abort=true");
    let told = ground.condition("Progressing").2;
    assert!(told.contains(&command), "{told}");
}

#[test]
fn an_older_release_fails_the_upgrade() {
    let ground = with_release(|release| release.harvester = "v1.6.0".into());
    assert_eq!(ground.condition("Completed"), ("False".into(), "downgrading is prohibited".into(), String::new()));
    assert_eq!((ground.label("upgradeState"), ground.label("upgradeCleanup")), ("Failed", "Succeeded"));
}

#[test]
fn an_image_that_cannot_be_imported_fails_the_upgrade_with_its_words() {
    let mut ground = Ground::of(3);
    ground.settle();
    let failed = json!({ "status": { "conditions": [
        { "type": "Imported", "status": "False", "reason": "ImportFailed", "message": "no such host" },
    ] } });
    ground.change("VirtualMachineImage", "harvester-system", U, &failed);
    ground.settle();
    let words = ("False".to_owned(), "ImportFailed".to_owned(), "no such host".to_owned());
    assert_eq!(ground.condition("ImageReady"), words);
    assert_eq!(ground.label("upgradeState"), "Failed");
    // The image is gone by now; a status that is lost says it again.
    assert!(ground.get("VirtualMachineImage", "harvester-system", U).is_null());
    ground.change("Upgrade", "harvester-system", U, &json!({ "status": null }));
    ground.settle();
    assert_eq!(ground.condition("ImageReady"), words);
    // Another try is another import.
    ground.annotate("drover.dev/retry", "now");
    assert_eq!(ground.condition("ImageReady").0, "Unknown");
    ground.import();
    ground.settle();
    assert_eq!(ground.condition("ImageReady").0, "True");
}

#[test]
fn a_release_with_another_rancher_has_to_say_where_its_chart_is() {
    let with = |wanted: &str, drover: Value| {
        let mut ground = with_release(|release| release.drover = None);
        ground.put(json!({
            "apiVersion": "management.cattle.io/v3", "kind": "Setting", "metadata": { "name": "server-version" },
            "value": "v2.12.3",
        }));
        // Two products have a Setting of that name.
        ground.objects.insert(
            ("Setting".into(), String::new(), "harvester's".into()),
            json!({
                "apiVersion": "harvesterhci.io/v1beta1", "kind": "Setting", "metadata": { "name": "server-version" },
                "value": "v1.7.0",
            }),
        );
        let release = &mut ground.served.as_mut().unwrap().release;
        (release.rancher, release.drover) = (wanted.to_owned(), Some(drover));
        ground.settle();
        (ground.reasons(), ground.condition("Progressing").2)
    };
    let chart = || json!({ "rancherChart": "charts/rancher.tgz" });
    let refused = |text: &str| format!("the release asks for Rancher {text}");

    let (reasons, said) = with("v2.13.1", json!({}));
    assert_eq!(reasons, [Reason::ReleaseRefused]);
    let where_it_is = "harvester-release.yaml does not say where its chart is (drover.rancherChart)";
    assert!(said.contains(&refused(&format!("v2.13.1, v2.12.3 runs, and {where_it_is}"))), "{said}");
    let (reasons, said) = with("v2.11.9", chart());
    assert_eq!(reasons, [Reason::ReleaseRefused]);
    assert!(said.contains(&refused("v2.11.9, v2.12.3 runs, and Rancher does not go back")), "{said}");
    assert_eq!(with("v2.13.1", chart()).0, [Reason::ImagesPreloading]);
    assert_eq!(with("v2.12.3", json!({})).0, [Reason::ImagesPreloading]);
}

#[test]
fn words_that_nobody_understands_are_told_and_not_taken_for_others() {
    for (key, nonsense, right) in
        [("drover.dev/repository", "virtual", "vm"), ("harvesterhci.io/skip-version-check", "maybe", "T")]
    {
        let mut ground = Ground::of(3);
        ground.annotate(key, nonsense);
        let (_, reason, message) = ground.condition("Progressing");
        assert_eq!((ground.label("upgradeState"), reason.as_str()), ("", "UpgradeInvalid"), "{key}");
        assert!(message.contains(key) && message.contains(nonsense), "{message}");

        ground.annotate(key, right);
        assert_eq!(ground.label("upgradeState"), "LoggingInfraPrepared", "{key}");
        ground.annotate(key, nonsense);
        assert!(ground.reasons().contains(&Reason::UpgradeInvalid), "{key}");
    }
}

#[test]
fn notes_that_nobody_can_read_stop_the_upgrade_where_it_is_and_nothing_is_lost() {
    let mut ground = Ground::of(3).until_nodes();
    ground.bring_over(1);
    ground.begins_with(2);
    let notes = ground.upgrade()["metadata"]["annotations"]["drover.dev/progress"].as_str().unwrap().to_owned();
    let nodes = ground.upgrade()["status"]["nodeStatuses"].clone();
    ground.finish("pre-drain-node-2");

    ground.annotate("drover.dev/progress", "{]");

    assert_eq!(ground.reasons(), [Reason::UpgradeInvalid]);
    assert!(ground.condition("Progressing").2.contains("drover.dev/progress"));
    assert_eq!(ground.upgrade()["metadata"]["annotations"]["drover.dev/progress"], "{]");
    assert_eq!(ground.upgrade()["status"]["nodeStatuses"], nodes);
    assert!(ground.answer(2, "pre-hook").is_null());
    ground.annotate("drover.dev/progress", &notes);
    assert_eq!(ground.answer(2, "pre-hook"), &json!(TOKEN));
}

#[test]
fn a_repository_that_answered_otherwise_is_asked_again_after_a_while_unless_it_is_being_asked() {
    let asks = |at: &'static str, pending: bool| {
        let mut ground = Ground::of(3);
        ground.settle();
        ground.import();
        ground.settle();
        ground.serve();
        (ground.garbled, ground.asked) = (Some("404"), (at, pending));
        let decision = ground.decide();
        (decision.ask.is_some(), decision.look_again.map(|at| at.to_string()))
    };
    assert_eq!(asks("2026-01-01T11:59:51Z", false), (false, Some("2026-01-01T12:00:10Z".to_owned())));
    assert!(asks("2026-01-01T11:59:50Z", false).0);
    assert!(asks("2026-01-01T13:00:00Z", false).0, "a clock was set back");
    assert!(!asks("2026-01-01T11:59:00Z", true).0);
    assert!(!asks("2026-01-01T11:59:59Z", true).0);
}

#[test]
fn a_release_that_is_refused_is_asked_for_again_and_goes_on_when_its_lists_are_there() {
    let mut ground = with_release(|release| *release = Release { drover: None, ..stock_release().release });
    assert_eq!(ground.reasons(), [Reason::ReleaseRefused]);
    assert!(ground.condition("Progressing").2.contains("do not name rancher/harvester-upgrade:v1.8.0"));
    let asks = |ground: &mut Ground, at: &'static str, pending: bool| {
        ground.asked = (at, pending);
        let decision = ground.decide();
        (decision.ask.is_some(), decision.look_again.map(|at| at.to_string()))
    };
    assert_eq!(
        asks(&mut ground, "2026-01-01T11:59:01Z", false),
        (false, Some("2026-01-01T12:01:00Z".to_owned())),
        "not so soon"
    );
    assert!(!asks(&mut ground, "2026-01-01T11:59:00Z", true).0, "it is being asked");
    assert!(asks(&mut ground, "2026-01-01T11:59:00Z", false).0);

    ground.served = Some(stock_release());
    ground.settle();
    assert_eq!(
        (ground.label("upgradeState"), ground.condition("StepsChosen").1.as_str()),
        ("PreparingNodes", "Release")
    );
    assert_eq!(ground.decide().ask, None, "what is known is not asked for again");
}

#[test]
fn what_the_operator_has_met_is_told_with_what_helps_and_nothing_is_decided_on_what_it_cannot_see() {
    let met = |blind: bool| {
        let mut ground = Ground::of(3);
        let (sentence, remedy) = ("jobs is forbidden".to_owned(), Some("give it the right".to_owned()));
        ground.trouble = vec![Trouble { reason: Reason::NoPermission, sentence, remedy, blind }];
        let decision = ground.decide();
        let told = decision.waits.first().map(|wait| (wait.reason, wait.sentence.clone(), wait.remedy.clone()));
        assert_eq!(
            told,
            Some((Reason::NoPermission, "jobs is forbidden".to_owned(), Some("give it the right".to_owned())))
        );
        decision.writes().any(|write| ![Purpose::PublishStatus, Purpose::Announce].contains(&write.purpose))
    };
    assert!(met(false));
    assert!(!met(true));
}

#[test]
fn an_upgrade_that_waits_for_another_says_nothing_of_how_far_it_is() {
    let mut ground = Ground::of(3);
    ground.put(json!({
        "apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade",
        "metadata": {
            "name": "earlier", "namespace": "harvester-system", "labels": { "harvesterhci.io/upgradeState": "UpgradingNodes" },
        },
    }));
    ground.settle();
    let conditions = ground.upgrade()["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let kinds: Vec<&str> = conditions.iter().filter_map(|one| one["type"].as_str()).collect();
    assert_eq!(kinds, ["Progressing"]);
}

#[test]
fn images_that_cannot_be_loaded_on_a_node_are_told_with_what_its_plan_says_and_what_helps() {
    let mut ground = Ground::of(3);
    ground.settle();
    ground.import();
    ground.settle();
    ground.serve();
    ground.settle();
    let all = "images are loaded on node-1, node-2, node-3";
    assert_eq!(ground.condition("Progressing").2, format!("{all} (drover why plan/cattle-system/{U}-prepare)"));

    let waits = json!([
        { "subject": "Node/node-1", "reason": "JobRunning", "sentence": "it works", "since": NOON },
        { "subject": "Node/node-2", "reason": "JobFailed", "sentence": "Job x failed on node-2", "since": NOON, "remedy": "mend it" },
    ]);
    ground.change("Plan", "cattle-system", &format!("{U}-prepare"), &json!({ "status": { "waits": waits } }));
    ground.settle();

    assert_eq!(ground.condition("Progressing").2, format!("{all}; Job x failed on node-2 (mend it)"));
}

#[test]
fn a_cluster_that_rancher_has_never_configured_is_upgraded_and_cleaned_up() {
    let mut ground = Ground::of(1);
    ground.put(node("node-2"));
    let machine = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
        "metadata": { "name": "custom-2", "namespace": "fleet-local" }, "status": { "nodeRef": { "name": "node-2" } },
    });
    ground.put(machine);
    ground.change("Cluster", "fleet-local", "local", &json!({ "spec": { "rkeConfig": null } }));

    let mut ground = ground.until_nodes();

    assert_eq!(ground.get("Cluster", "fleet-local", "local")["spec"]["rkeConfig"]["provisionGeneration"], 1);
    let told = ground.last.waits.iter().map(|wait| (wait.subject.name.as_str(), wait.sentence.as_str()));
    let without_secret = ("node-2", "Machine custom-2 of Node node-2 has no plan Secret");
    assert!(told.into_iter().any(|wait| wait == without_secret), "{:?}", ground.last.waits);
    ground.annotate("drover.dev/abort", "");
    assert_eq!((ground.label("upgradeState"), ground.label("upgradeCleanup")), ("Failed", "Succeeded"));
}

#[test]
fn a_log_that_is_there_already_is_the_log_of_its_upgrade() {
    let mut ground = Ground::of(3);
    ground.change("Upgrade", "harvester-system", U, &json!({ "spec": { "logEnabled": true } }));
    let log = format!("{U}-upgradelog");
    ground.put(json!({
        "apiVersion": "harvesterhci.io/v1beta1", "kind": "UpgradeLog",
        "metadata": { "name": log, "namespace": "harvester-system" }, "spec": { "upgradeName": U },
    }));

    ground.settle();

    assert_eq!(ground.upgrade()["status"]["upgradeLog"], log.as_str());
    assert!(!ground.written.contains("UpgradeLog"), "{}", ground.written);
}
