//! Upgrades that their user calls off.

use super::*;

fn is_cordoned(ground: &Ground, node: &str) -> bool {
    ground.get("Node", "", node)["spec"]["unschedulable"] == true
}

fn asked(ground: &Ground) -> (&Value, &Value, &Value) {
    let spec = &ground.get("Cluster", "fleet-local", "local")["spec"];
    (&spec["kubernetesVersion"], &spec["rkeConfig"]["provisionGeneration"], &spec["rkeConfig"]["upgradeStrategy"])
}

fn is_paused(ground: &Ground) -> bool {
    ground.get("CapiCluster", "fleet-local", "local")["spec"]["paused"] == true
}

/// Three nodes, the first of which is upgraded and given back.
fn one_is_new() -> Ground {
    let mut ground = Ground::of(3).until_nodes();
    ground.begins_with(1);
    ground.finish("pre-drain-node-1");
    ground.settle();
    ground.raises(1);
    ground.finish("post-drain-node-1");
    ground.reboot(1);
    ground.settle();
    ground.gives_back(1);
    ground.change("Node", "", "node-1", &json!({ "spec": { "unschedulable": null } }));
    ground.settle();
    ground
}

#[test]
fn one_that_is_called_off_before_its_nodes_stops_its_job_and_clears_up() {
    let mut ground = Ground::of(3).until_services();
    assert!(ground.has_job("apply-manifests"));

    ground.annotate("drover.dev/abort", "");

    assert!(!ground.has_job("apply-manifests"));
    assert_eq!((ground.label("upgradeState"), ground.label("upgradeCleanup")), ("Failed", "Succeeded"));
    assert_eq!(ground.condition("Completed").1, "Aborted");
    assert!(ground.upgrade()["metadata"]["annotations"]["drover.dev/abort"].is_null());
    assert!(ground.get("Deployment", "harvester-system", &format!("upgrade-repo-{U}")).is_null());
}

#[test]
fn a_node_that_is_not_drained_yet_is_put_back_and_the_planner_asked_for_what_it_was_asked_before() {
    let mut ground = Ground::of(3).until_nodes();
    ground.begins_with(1);
    let taint =
        json!({ "spec": { "taints": [{ "key": "kubevirt.io/drain", "value": "draining", "effect": "NoSchedule" }] } });
    ground.change("Node", "", "node-1", &taint);

    ground.annotate("drover.dev/abort", "");

    assert!(!ground.has_job("pre-drain-node-1"));
    assert!(!is_cordoned(&ground, "node-1"));
    assert_eq!(ground.get("Node", "", "node-1")["spec"]["taints"], json!([]));
    assert_eq!(ground.plan_of(1)["metadata"]["annotations"], json!({}));
    assert_eq!(asked(&ground), (&json!("v1.33.5+rke2r1"), &json!(4), &Value::Null));
    assert!(!is_paused(&ground));
    assert_eq!((ground.label("upgradeState"), ground.label("upgradeCleanup")), ("Failed", "Succeeded"));
    assert!(ground.condition("Completed").2.contains("no node was changed"));
}

#[test]
fn a_drain_that_does_not_get_on_can_be_called_off() {
    let mut ground = Ground::of(3).until_nodes();
    ground.begins_with(1);
    ground.finish("pre-drain-node-1");
    ground.settle();
    assert_eq!(ground.node_state("node-1"), "Pre-drained");

    ground.annotate("drover.dev/abort", "");

    assert!(!is_cordoned(&ground, "node-1"));
    assert_eq!((ground.label("upgradeState"), ground.node_state("node-1")), ("Failed", "Images preloaded"));
}

#[test]
fn a_node_that_is_drained_comes_to_its_end_and_the_others_stay_as_they_are() {
    let mut ground = Ground::of(3).until_nodes();
    ground.begins_with(1);
    ground.finish("pre-drain-node-1");
    ground.settle();
    ground.asks(1, "drain-done");

    ground.annotate("drover.dev/abort", "");
    assert_eq!((ground.label("upgradeState"), ground.node_state("node-1")), ("UpgradingNodes", "Pre-drained"));
    assert!(!is_paused(&ground), "the planner has to raise Kubernetes");
    ground.raises(1);
    assert!(is_paused(&ground), "and begins with no other node then");
    ground.finish("post-drain-node-1");
    ground.reboot(1);
    ground.settle();
    assert_eq!(ground.answer(1, "post-hook"), &json!(TOKEN));
    assert_eq!(ground.label("upgradeState"), "UpgradingNodes");
    ground.gives_back(1);
    ground.settle();

    assert_eq!((ground.label("upgradeState"), ground.node_state("node-1")), ("Failed", "Succeeded"));
    assert_eq!(ground.node_state("node-2"), "Images preloaded");
    assert!(is_paused(&ground));
    assert_eq!(asked(&ground), (&json!("v1.34.1+rke2r1"), &json!(5), &Value::Null));
}

#[test]
fn a_node_that_the_planner_begins_with_meanwhile_is_put_back() {
    let mut ground = one_is_new();
    ground.begins_with(2);

    ground.annotate("drover.dev/abort", "");

    assert!(!is_cordoned(&ground, "node-2") && is_paused(&ground));
    assert_eq!(ground.plan_of(2)["metadata"]["annotations"], json!({}));
    assert!(ground.condition("Completed").2.contains("node-1 were upgraded, node-2, node-3 were not"));
}

#[test]
fn a_node_that_was_cordoned_before_stays_so() {
    let mut ground = Ground::of(3);
    ground.change("Node", "", "node-1", &json!({ "spec": { "unschedulable": true } }));
    let mut ground = ground.until_nodes();
    ground.begins_with(1);

    ground.annotate("drover.dev/abort", "");

    assert_eq!(ground.label("upgradeState"), "Failed");
    assert!(is_cordoned(&ground, "node-1"));
}

#[test]
fn the_next_upgrade_lets_a_paused_planner_go_on_once_it_has_asked() {
    let mut ground = Ground::of(3);
    let held = json!({ "metadata": { "annotations": { "drover.dev/held": "earlier" } }, "spec": { "paused": true } });
    ground.change("CapiCluster", "fleet-local", "local", &held);

    let ground = ground.until_nodes();

    assert!(!is_paused(&ground));
    assert!(asked(&ground).2.is_object(), "its hooks come first");
    let capi = ground.get("CapiCluster", "fleet-local", "local");
    assert!(capi["metadata"]["annotations"]["drover.dev/held"].is_null());
}

#[test]
fn a_planner_that_somebody_else_has_paused_is_named() {
    let mut ground = Ground::of(3);
    ground.change("CapiCluster", "fleet-local", "local", &json!({ "spec": { "paused": true } }));

    let ground = ground.until_nodes();

    assert!(is_paused(&ground));
    let said = ground.last.waits.iter().find(|wait| wait.sentence.contains("is paused")).unwrap();
    assert!(said.remedy.as_ref().unwrap().contains("\"paused\":false"));
}

#[test]
fn what_was_called_off_can_be_taken_up_again() {
    let mut ground = one_is_new();
    ground.annotate("drover.dev/abort", "");
    assert_eq!(ground.label("upgradeState"), "Failed");

    ground.annotate("drover.dev/retry", "");

    assert_eq!((ground.label("upgradeState"), is_paused(&ground)), ("UpgradingNodes", false));
    assert_eq!(asked(&ground).1, &json!(5), "the node that is new has nothing to do");
    for number in 2..=3 {
        ground.bring_over(number);
        ground.gives_back(number);
    }
    ground.settle();
    assert_eq!((ground.label("upgradeState"), ground.label("upgradeCleanup")), ("Succeeded", "Succeeded"));
}

#[test]
fn a_failed_upgrade_that_is_deleted_leaves_no_question_of_the_planner_behind() {
    let mut ground = Ground::of(3).until_nodes();
    ground.begins_with(1);
    ground.fail("pre-drain-node-1");
    assert!(asked(&ground).2.is_object(), "the planner still asks before it touches a node");
    ground.change("Upgrade", "harvester-system", U, &json!({ "metadata": { "deletionTimestamp": NOON } }));

    for _ in 0..12 {
        let writes: Vec<Write> = ground.decide().writes().cloned().collect();
        writes.iter().for_each(|write| ground.carry_out(write));
    }

    assert_eq!(ground.upgrade()["metadata"]["finalizers"], json!([]));
    assert_eq!(ground.plan_of(1)["metadata"]["annotations"], json!({}));
    assert!(!is_cordoned(&ground, "node-1"));
}

#[test]
fn the_only_node_comes_to_its_end_before_its_upgrade_is_called_off() {
    let mut ground = Ground::of(1).until_nodes();
    ground.annotate("drover.dev/abort", "");
    assert_eq!((ground.label("upgradeState"), ground.has_job("single-node-upgrade-node-1")), ("UpgradingNodes", true));

    ground.finish("single-node-upgrade-node-1");
    ground.reboot(1);
    ground.settle();

    assert_eq!((ground.label("upgradeState"), ground.node_state("node-1")), ("Failed", "Succeeded"));
}

#[test]
fn the_only_node_comes_to_its_end_although_its_upgrade_is_deleted() {
    let mut ground = Ground::of(1).until_nodes();
    ground.change("Upgrade", "harvester-system", U, &json!({ "metadata": { "deletionTimestamp": NOON } }));
    ground.settle();
    assert_eq!((ground.label("upgradeState"), ground.reasons()[0]), ("UpgradingNodes", Reason::CleaningUp));
    assert_ne!(
        ground.upgrade()["metadata"]["finalizers"],
        json!([]),
        "its Job would go with it, in the middle of an installation"
    );
    assert!(ground.get("Deployment", "harvester-system", &format!("upgrade-repo-{U}")).is_object());

    ground.finish("single-node-upgrade-node-1");
    ground.reboot(1);
    ground.settle();

    assert_eq!(ground.upgrade()["metadata"]["finalizers"], json!([]));
}

#[test]
fn the_only_node_that_has_failed_says_so_and_its_vms_run_again_when_it_is_called_off() {
    let mut ground = Ground::configured(1, json!({ "restoreVM": true })).until_nodes();
    ground.put(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": format!("{U}-restore-vm"), "namespace": "harvester-system" }, "data": { "node-1": "default/db" },
    }));
    ground.fail("single-node-upgrade-node-1");
    assert_eq!(ground.reasons(), [Reason::JobFailed]);
    let wait = &ground.last.waits[0];
    assert_eq!(wait.sentence, "node-1 has failed and stays as it is until its user decides: it did not work");
    let remedy = format!("drover upgrade retry upgrade/{U}; or end it here: drover upgrade abort upgrade/{U}");
    assert_eq!(wait.remedy.as_deref(), Some(remedy.as_str()), "nothing goes on without it");

    ground.annotate("drover.dev/abort", "");
    assert!(ground.has_job("restore-vm-node-1"));
    ground.finish("restore-vm-node-1");
    ground.settle();

    assert_eq!((ground.label("upgradeState"), ground.label("upgradeCleanup")), ("Failed", "Succeeded"));
    assert_eq!(ground.condition("Completed").1, "Aborted");
}

#[test]
fn an_operator_that_was_away_goes_on_where_the_planner_is_by_then() {
    let mut ground = Ground::of(3).until_nodes();
    ground.begins_with(1);
    ground.finish("pre-drain-node-1");
    ground.settle();
    // A week later its Job is gone, the node was raised and asks again, and another one was asked about.
    ground.objects.remove(&("Job".to_owned(), "harvester-system".to_owned(), format!("{U}-pre-drain-node-1")));
    ground.asks(2, "pre-drain");
    ground.raises(1);

    assert_eq!((ground.node_state("node-1"), ground.node_state("node-2")), ("Post-draining", "Images preloaded"));
    assert!(ground.has_job("post-drain-node-1") && !ground.has_job("pre-drain-node-1"));
    assert!(ground.reasons().contains(&Reason::AnotherNodeIsOut));
}

#[test]
fn the_helm_chart_of_rancher_is_handed_back_when_an_upgrade_is_called_off() {
    let mut ground = Ground::of(3).until_services();
    let chart = |name: &str, upgrade: &str| {
        json!({
            "apiVersion": "helm.cattle.io/v1", "kind": "HelmChart",
            "metadata": {
                "name": name, "namespace": "kube-system", "labels": { "harvesterhci.io/upgrade": upgrade },
                "finalizers": ["wrangler.cattle.io/on-helm-chart-remove"],
            },
        })
    };
    ground.put(chart("rancher", U));
    ground.put(chart("rke2-multus", U));

    ground.change(
        "Upgrade",
        "harvester-system",
        U,
        &json!({ "metadata": { "annotations": { "drover.dev/abort": "" } } }),
    );
    let mut first = None;
    for _ in 0..10 {
        let decision = ground.decide();
        let about = |write: &&Write| format!("{:?}", write.subject.kind) == "HelmChart";
        first = first.or(decision.writes().find(about).map(|write| write.act.clone()));
        decision.writes().cloned().collect::<Vec<_>>().iter().for_each(|write| ground.carry_out(write));
    }

    let Some(Act::Patch(patch)) = first else { panic!("{first:?}") };
    assert_eq!(patch["metadata"]["annotations"]["helmcharts.helm.cattle.io/unmanaged"], "true");
    assert_eq!(patch["metadata"]["finalizers"], json!([]), "the controller takes it off nothing that is unmanaged");
    assert!(ground.get("HelmChart", "kube-system", "rancher").is_null());
    assert!(ground.get("HelmChart", "kube-system", "rke2-multus").is_object());
    assert_eq!((ground.label("upgradeState"), ground.label("upgradeCleanup")), ("Failed", "Succeeded"));
}
