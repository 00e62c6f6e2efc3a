//! The Plans around the steps of a stock release.

use super::*;

const APPLIED: &str = "harvesterhci.io/apply-skip-rke2-manifests-plan-completed";
const REMOVED: &str = "harvesterhci.io/remove-skip-rke2-manifests-plan-completed";
const CLEANED: &str = "harvesterhci.io/image-cleanup-plan-completed";

/// Up to the end of the system services of a release that brings its own steps.
fn until_services() -> Ground {
    let mut ground = Ground::of(3);
    ground.annotate("drover.dev/steps", "release");
    ground.import();
    ground.settle();
    ground.serve();
    let list = |text: &str| Some(text.to_owned());
    ground.served = Some(Served { images: list("a:2\nsame:1"), previous_images: list("a:1\nsame:1"), ..release() });
    ground.settle();
    ground.preload();
    ground.settle();
    ground.finish("apply-manifests");
    ground.settle();
    ground
}

fn plan<'a>(ground: &'a Ground, suffix: &str) -> &'a Value {
    ground.get("Plan", "cattle-system", &format!("{U}-{suffix}"))
}

fn mark(ground: &Ground, key: &str) -> Value {
    ground.upgrade()["metadata"]["annotations"][key].clone()
}

#[test]
fn nodes_have_their_turn_after_the_manifests_are_skipped_and_get_them_back_at_the_end() {
    let mut ground = until_services();
    assert_eq!(ground.label("upgradeState"), "UpgradingSystemServices");
    let applies = plan(&ground, "skip-manifests-apply");
    assert_eq!(applies["spec"]["concurrency"], 3);
    assert_eq!(applies["spec"]["upgrade"]["image"], "rancher/harvester-upgrade:v1.7.0");
    assert_eq!(ground.get("Cluster", "fleet-local", "local")["spec"]["kubernetesVersion"], "v1.33.5+rke2r1");

    ground.run_plan("skip-manifests-apply");
    ground.settle();
    assert_eq!((mark(&ground, APPLIED), ground.label("upgradeState")), (json!("true"), "UpgradingNodes"));
    for number in 1..=3 {
        ground.bring_over(number);
        ground.gives_back(number);
    }
    ground.settle();
    assert_eq!((ground.label("upgradeState"), ground.label("upgradeCleanup")), ("Succeeded", "Pending"));
    let pruned = &plan(&ground, "cleanup")["spec"]["upgrade"]["envs"][0];
    assert_eq!(pruned, &json!({ "name": "IMAGES", "value": "a:1" }));
    // The repository stays for as long as something may be fetched from it.
    assert!(ground.get("Deployment", "harvester-system", &format!("upgrade-repo-{U}")).is_object());
    ground.run_plan("skip-manifests-remove");
    ground.run_plan("cleanup");
    ground.settle();
    assert_eq!((mark(&ground, REMOVED), mark(&ground, CLEANED)), (json!("true"), json!("true")));
    assert_eq!(ground.label("upgradeCleanup"), "Succeeded");
    assert!(plan(&ground, "skip-manifests-remove").is_null());
}

#[test]
fn lists_that_cannot_be_had_or_do_not_differ_keep_nobody_waiting() {
    for (previous, said) in [(None, "false"), (Some("a:2\nsame:1".to_owned()), "true")] {
        let mut ground = until_services();
        ground.served = Some(Served { previous_images: previous, ..ground.served.clone().unwrap() });
        ground.run_plan("skip-manifests-apply");
        ground.settle();
        for number in 1..=3 {
            ground.bring_over(number);
            ground.gives_back(number);
        }
        ground.settle();
        assert!(plan(&ground, "cleanup").is_null());
        ground.run_plan("skip-manifests-remove");
        ground.settle();
        assert_eq!((mark(&ground, CLEANED), ground.label("upgradeCleanup")), (json!(said), "Succeeded"));
    }
}

#[test]
fn after_a_failure_the_manifests_come_back_and_another_try_skips_them_again() {
    let mut ground = until_services();
    ground.run_plan("skip-manifests-apply");
    ground.settle();
    ground.begins_with(1);
    ground.fail("pre-drain-node-1");
    assert_eq!(ground.label("upgradeCleanup"), "Pending");
    // A node that is away is not waited for.
    ground.change(
        "Node",
        "",
        "node-1",
        &json!({ "status": { "conditions": [{ "type": "Ready", "status": "Unknown" }] } }),
    );
    ground.run_plan("skip-manifests-remove");
    let lost =
        json!({ "metadata": { "labels": { format!("plan.upgrade.cattle.io/{U}-skip-manifests-remove"): null } } });
    ground.change("Node", "", "node-1", &lost);
    ground.settle();
    assert_eq!((mark(&ground, REMOVED), ground.label("upgradeCleanup")), (json!("true"), "Succeeded"));
    assert_eq!(mark(&ground, CLEANED), Value::Null);

    ground.annotate("drover.dev/retry", "now");
    assert_eq!((mark(&ground, APPLIED), mark(&ground, REMOVED)), (Value::Null, Value::Null));
    // It runs once more, whatever nodes carry of the first time.
    let carries = &ground.get("Node", "", "node-2")["metadata"]["labels"];
    assert_eq!(carries[format!("plan.upgrade.cattle.io/{U}-skip-manifests-apply")], Value::Null);
    assert!(plan(&ground, "skip-manifests-apply").is_object());
}
