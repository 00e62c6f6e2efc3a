//! What cannot be followed is said, and goes on when it is put right.

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

    ground.change(
        "Upgrade",
        "harvester-system",
        U,
        &json!({ "metadata": { "annotations": { "drover.dev/drive": "true" } } }),
    );
    ground.settle();
    assert_eq!(ground.label("upgradeState"), "LoggingInfraPrepared");
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
fn a_release_with_steps_of_its_own_or_of_nobody_is_refused_and_never_guessed_at() {
    let ground = with_release(|release| release.drover = None);
    assert_eq!(ground.reasons(), [Reason::ReleaseRefused]);
    assert!(ground.condition("Progressing").2.contains("nobody knows the steps"));
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
    assert_eq!(ground.condition("ImageReady"), ("False".into(), "ImportFailed".into(), "no such host".into()));
    assert_eq!(ground.label("upgradeState"), "Failed");
}
