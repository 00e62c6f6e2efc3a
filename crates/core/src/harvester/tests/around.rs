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
fn lists_that_one_error_withholds_at_the_end_are_asked_for_again_for_a_minute() {
    let at_the_end = || {
        let mut ground = until_services();
        ground.run_plan("skip-manifests-apply");
        ground.settle();
        // An operator that is new asks once more.
        ground.garbled = Some("connection reset");
        for number in 1..=3 {
            ground.bring_over(number);
            ground.gives_back(number);
        }
        ground.settle();
        ground.run_plan("skip-manifests-remove");
        ground.settle();
        assert_eq!((mark(&ground, CLEANED), ground.label("upgradeCleanup")), (Value::Null, "Pending"));
        let (_, reason, message) = ground.condition("Progressing");
        assert!(reason == "RepositoryNotReady" && message.contains("connection reset"), "{reason} {message}");
        ground.asked = ("2026-01-01T11:59:50Z", false);
        assert!(ground.decide().ask.is_some());
        ground
    };
    let mut ground = at_the_end();
    ground.garbled = None;
    ground.settle();
    assert_eq!(plan(&ground, "cleanup")["spec"]["upgrade"]["envs"][0]["value"], "a:1");

    let mut ground = at_the_end();
    ground.pass(1);
    assert_eq!((mark(&ground, CLEANED), ground.label("upgradeCleanup")), (json!("false"), "Succeeded"));
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
    ground.run_plan("recover-system-agent");
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

const DESCHEDULER: &str = "descheduler";

fn with_descheduler(enabled: bool) -> Value {
    json!({
        "apiVersion": "harvesterhci.io/v1beta1", "kind": "Addon",
        "metadata": { "name": DESCHEDULER, "namespace": "kube-system" }, "spec": { "enabled": enabled },
    })
}

#[test]
fn the_descheduler_is_off_while_nodes_are_upgraded_and_on_again_if_it_was() {
    for was_on in [true, false] {
        let mut ground = Ground::of(3);
        ground.put(with_descheduler(was_on));
        let mut ground = ground.until_services();
        let is_on = |ground: &Ground| ground.get("Addon", "kube-system", DESCHEDULER)["spec"]["enabled"] == true;
        assert_eq!(is_on(&ground), was_on);
        ground.finish("apply-manifests");
        ground.settle();
        assert!(!is_on(&ground));

        // After a failure it is on until another try.
        ground.begins_with(1);
        ground.fail("pre-drain-node-1");
        assert_eq!((is_on(&ground), ground.label("upgradeCleanup")), (was_on, "Succeeded"));
        ground.annotate("drover.dev/retry", "");
        assert!(!is_on(&ground));
        for number in 1..=3 {
            ground.bring_over(number);
            ground.gives_back(number);
        }
        ground.settle();
        assert_eq!((ground.label("upgradeState"), is_on(&ground)), ("Succeeded", was_on));
        assert!(
            ground.get("Addon", "kube-system", DESCHEDULER)["metadata"]["labels"]["harvesterhci.io/upgrade"].is_null()
        );
        assert!(mark(&ground, "harvesterhci.io/reenable-descheduler-addon").is_null());
    }
}

/// A stock release is at work on the system services: what its script has done by then is there.
fn in_the_services_of_a_stock_release() -> Ground {
    let mut ground = Ground::of(3);
    ground.annotate("drover.dev/steps", "release");
    ground.import();
    ground.settle();
    ground.serve();
    ground.settle();
    ground.preload();
    ground.settle();
    let methods = json!({ "kubevirt": { "spec": { "workloadUpdateStrategy": { "workloadUpdateMethods": [] } } } });
    ground.put(json!({
        "apiVersion": "management.cattle.io/v3", "kind": "ManagedChart",
        "metadata": { "name": "harvester", "namespace": "fleet-local" }, "spec": { "paused": true, "values": methods },
    }));
    ground.put(json!({
        "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan",
        "metadata": { "name": format!("{U}-skip-restart-rancher-system-agent"), "namespace": "cattle-system" },
        "spec": { "concurrency": 10, "upgrade": { "image": "bci" } },
    }));
    ground.annotate("harvesterhci.io/kubevirt-workload-update-methods", r#"["Evict"]"#);
    ground
}

fn chart(ground: &Ground) -> (Value, Value) {
    let spec = &ground.get("ManagedChart", "fleet-local", "harvester")["spec"];
    let methods = &spec["values"]["kubevirt"]["spec"]["workloadUpdateStrategy"]["workloadUpdateMethods"];
    (spec["paused"].clone(), methods.clone())
}

#[test]
fn an_upgrade_that_is_deleted_in_its_services_takes_back_what_the_script_of_its_release_has_done() {
    let mut ground = in_the_services_of_a_stock_release();
    assert_eq!(chart(&ground), (json!(true), json!([])));
    ground.change("Upgrade", "harvester-system", U, &json!({ "metadata": { "deletionTimestamp": NOON } }));
    ground.settle();
    // Nodes lose the drop-in of Rancher's agent before anything else may go.
    assert!(ground.upgrade()["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty()));
    let recovers = plan(&ground, "recover-system-agent")["spec"].clone();
    assert!(recovers["upgrade"]["command"][2].as_str().unwrap().contains("rancher-system-agent.service.d"));
    let tolerates = |key: &str| recovers["tolerations"].as_array().unwrap().iter().any(|one| one["key"] == key);
    assert!(tolerates("node.kubernetes.io/not-ready") && tolerates("kubernetes.io/arch"));
    ground.run_plan("recover-system-agent");
    for _ in 0..5 {
        let writes: Vec<Write> = ground.decide().writes().cloned().collect();
        writes.iter().for_each(|write| ground.carry_out(write));
    }

    assert_eq!(ground.upgrade()["metadata"]["finalizers"], json!([]));
    assert_eq!(chart(&ground), (json!(false), json!(["Evict"])));
    assert!(ground.objects.keys().all(|key| key.0 != "Plan"), "{:?}", ground.objects.keys());
}

#[test]
fn a_note_on_kubevirt_that_nobody_can_read_is_told_and_mended() {
    let mut ground = in_the_services_of_a_stock_release();
    ground.annotate("harvesterhci.io/kubevirt-workload-update-methods", "Evict");
    ground.fail("apply-manifests");
    ground.run_plan("recover-system-agent");
    ground.settle();
    assert_eq!((ground.label("upgradeCleanup"), chart(&ground).1), ("Pending", json!([])));
    assert!(ground.condition("Progressing").2.contains("kubevirt-workload-update-methods"));

    ground.annotate("harvesterhci.io/kubevirt-workload-update-methods", "null");
    assert_eq!((ground.label("upgradeCleanup"), chart(&ground).1), ("Succeeded", Value::Null));
}

#[test]
fn what_drovers_own_steps_keep_kubevirt_from_is_put_back_however_the_upgrade_ends() {
    let in_services = || {
        let mut ground = Ground::of(3).until_services();
        ground.put(json!({
            "apiVersion": "management.cattle.io/v3", "kind": "ManagedChart",
            "metadata": { "name": "harvester", "namespace": "fleet-local" },
            "spec": { "values": { "kubevirt": { "spec": { "workloadUpdateStrategy": { "workloadUpdateMethods": [] } } } } },
        }));
        ground
    };
    type End = fn(&mut Ground);
    let endings: [(&str, End); 4] = [
        ("success", |ground| {
            ground.finish("apply-manifests");
            ground.settle();
            for number in 1..=3 {
                ground.bring_over(number);
                ground.gives_back(number);
            }
        }),
        ("failure", |ground| ground.fail("apply-manifests")),
        ("abort", |ground| ground.annotate("drover.dev/abort", "")),
        ("deletion", |ground| {
            ground.change("Upgrade", "harvester-system", U, &json!({ "metadata": { "deletionTimestamp": NOON } }));
        }),
    ];
    for (ending, end) in endings {
        for (noted, expected) in
            [(Some("null"), Value::Null), (Some(r#"["Evict"]"#), json!(["Evict"])), (None, json!([]))]
        {
            let mut ground = in_services();
            if let Some(noted) = noted {
                ground.annotate("harvesterhci.io/kubevirt-workload-update-methods", noted);
            }
            end(&mut ground);
            for _ in 0..20 {
                let writes: Vec<Write> = ground.decide().writes().cloned().collect();
                writes.iter().for_each(|write| ground.carry_out(write));
            }
            assert_eq!(chart(&ground).1, expected, "{ending} {noted:?}");
        }
    }
}

#[test]
fn a_node_that_the_script_waits_for_and_its_plan_never_runs_on_is_named_with_what_lets_the_script_go_on() {
    let mut ground = in_the_services_of_a_stock_release();
    let mut stray = node("stray");
    merge(&mut stray, &json!({ "metadata": { "labels": { "harvesterhci.io/managed": null } } }));
    ground.put(stray);
    ground.settle();
    let told = |ground: &Ground| {
        let waits = ground.last.waits.iter().filter(|wait| wait.subject.name == "stray");
        let words = |wait: &Wait| (wait.reason, wait.remedy.clone().unwrap_or_default());
        waits.map(words).collect::<Vec<(Reason, String)>>()
    };
    let [(reason, remedy)] = &told(&ground)[..] else { panic!("{:?}", ground.last.waits) };
    assert_eq!(*reason, Reason::NodeUnmanaged, "the Plan has not said what it wants");
    assert!(remedy.ends_with("the steps of the release on the system services wait for every Node"), "{remedy}");

    // It runs on all the others.
    ground.run_plan("skip-restart-rancher-system-agent");
    let label = format!("plan.upgrade.cattle.io/{U}-skip-restart-rancher-system-agent");
    ground.change("Node", "", "stray", &json!({ "metadata": { "labels": { label.as_str(): null } } }));
    ground.settle();
    let [(reason, remedy)] = &told(&ground)[..] else { panic!("{:?}", ground.last.waits) };
    assert_eq!(*reason, Reason::NodeUncounted);
    assert!(remedy.ends_with(&format!("kubectl label node stray {label}=h1")), "{remedy}");
    assert_eq!(ground.condition("Progressing").1, "NodeUncounted", "nothing holds the upgrade before it");
    assert_eq!(ground.events("NodeUncounted").len(), 1);

    for counted in [json!({ label.as_str(): "h1" }), json!({ "harvesterhci.io/managed": "true" })] {
        let mut ground = ground.clone();
        ground.change("Node", "", "stray", &json!({ "metadata": { "labels": counted } }));
        ground.settle();
        let [(reason, remedy)] = &told(&ground)[..] else { panic!("{:?}", ground.last.waits) };
        assert_eq!(*reason, Reason::NodeUnmanaged, "{counted}");
        assert!(remedy.ends_with("the upgrade goes on without it"), "{counted}: {remedy}");
    }
    ground.finish("apply-manifests");
    ground.settle();
    let [(reason, remedy)] = &told(&ground)[..] else { panic!("{:?}", ground.last.waits) };
    assert_eq!((*reason, remedy.ends_with("the upgrade goes on without it")), (Reason::NodeUnmanaged, true));
}

#[test]
fn the_plan_of_a_script_that_has_failed_goes_before_the_next_try_creates_it_again() {
    let mut ground = in_the_services_of_a_stock_release();
    let pod = |name: &str, phase: &str| {
        let labels =
            json!({ "batch.kubernetes.io/job-name": format!("{U}-apply-manifests"), "harvesterhci.io/upgrade": U });
        json!({
            "apiVersion": "v1", "kind": "Pod", "status": { "phase": phase },
            "metadata": { "name": name, "namespace": "harvester-system", "labels": labels },
        })
    };
    let is_there = |ground: &Ground| plan(ground, "skip-restart-rancher-system-agent").is_object();
    ground.put(pod("first", "Running"));
    ground.settle();
    assert!(is_there(&ground), "the script waits for it");

    ground.put(pod("first", "Failed"));
    ground.settle();
    assert!(!is_there(&ground));

    ground.put(pod("second", "Running"));
    ground.put(json!({
        "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan",
        "metadata": { "name": format!("{U}-skip-restart-rancher-system-agent"), "namespace": "cattle-system" },
        "spec": { "concurrency": 10, "upgrade": { "image": "bci" } },
    }));
    ground.settle();
    assert!(is_there(&ground));
}
