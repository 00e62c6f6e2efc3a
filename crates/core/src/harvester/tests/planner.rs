//! What Rancher's planner does unasked, and who joins etcd meanwhile.

use super::super::kubelet;
use super::*;

/// The planner has raised these nodes to the Kubernetes of the release, and asked nobody.
fn raised_unasked(ground: &mut Ground, numbers: std::ops::RangeInclusive<usize>) {
    for number in numbers {
        ground.restart_kubelet(number);
    }
    ground.settle();
}

fn generation(ground: &Ground) -> i64 {
    ground.get("Cluster", "fleet-local", "local")["spec"]["rkeConfig"]["provisionGeneration"].as_i64().unwrap()
}

#[test]
fn a_planner_that_has_raised_all_nodes_without_asking_is_asked_once_more() {
    let mut ground = Ground::of(3).until_nodes();
    assert_eq!(generation(&ground), 5);
    raised_unasked(&mut ground, 1..=2);
    assert_eq!(generation(&ground), 5, "it is not done yet");

    raised_unasked(&mut ground, 3..=3);

    assert_eq!(generation(&ground), 6);
    for number in 1..=3 {
        ground.bring_over(number);
        ground.gives_back(number);
    }
    ground.settle();
    assert_eq!((ground.label("upgradeState"), generation(&ground)), ("Succeeded", 6));
}

#[test]
fn an_operator_that_dies_before_it_has_asked_once_more_leaves_that_to_the_next() {
    let mut ground = Ground::of(3).until_nodes();
    for number in 1..=3 {
        ground.restart_kubelet(number);
    }
    let first = ground.first_write();
    ground.carry_out(&first);
    assert_eq!(generation(&ground), 5);

    ground.settle();

    assert_eq!(generation(&ground), 6);
}

#[test]
fn a_planner_that_does_not_ask_even_then_is_told_as_it_is() {
    let mut ground = Ground::of(3).until_nodes();
    raised_unasked(&mut ground, 1..=3);
    assert_eq!(generation(&ground), 6);
    let wait = ground.last.waits.iter().find(|wait| wait.subject.name == "node-1").unwrap();
    assert!(wait.sentence.contains("has raised node-1 without asking"), "{wait:?}");
    assert!(wait.remedy.as_ref().unwrap().contains(r#"{"spec":{"rkeConfig":{"provisionGeneration":7}}}"#), "{wait:?}");
}

#[test]
fn the_same_kubernetes_says_nothing_of_what_the_planner_has_done() {
    let mut ground = Ground::of(3);
    let same = json!({ "spec": { "kubernetesVersion": "v1.34.1+rke2r1" } });
    ground.change("Cluster", "fleet-local", "local", &same);
    let mut ground = ground.until_nodes();
    raised_unasked(&mut ground, 1..=3);
    assert_eq!(generation(&ground), 5);
}

#[test]
fn a_member_that_has_joined_is_named_with_the_one_that_is_lost() {
    let says = |status: &str, reason: &str| {
        json!({ "status": { "conditions": [
            { "type": "Ready", "status": "True" }, { "type": "EtcdIsVoter", "status": status, "reason": reason },
        ] } })
    };
    let mut ground = Ground::of(4);
    ground.change(
        "Node",
        "",
        "node-4",
        &json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } }),
    );
    let mut ground = ground.until_nodes();
    ground.change("Node", "", "node-3", &says("False", "NotAMember"));
    ground.change("Node", "", "node-4", &says("True", "MemberNotLearner"));
    ground.asks(1, "pre-drain");
    ground.settle();

    let risk = ground.last.waits.iter().find(|wait| wait.reason == Reason::QuorumAtRisk).unwrap();
    assert_eq!(
        risk.sentence,
        "etcd needs 3 of 4 voters, and node-3 is out: node-1 must not be taken out as well; node-4 has joined etcd since the upgrade began"
    );
}

/// Whoever runs the steps: those of a release tell nothing of what they wait for.
#[test]
fn a_kubelet_that_stays_old_is_named_with_both_versions_since_when_and_what_helps() {
    let mut ground = Ground::of(3).until_nodes();
    ground.begins_with(1);
    ground.finish("pre-drain-node-1");
    ground.settle();
    ground.asks(1, "post-drain");
    ground.settle();
    let made = json!({ "metadata": { "creationTimestamp": "2026-01-01T11:40:00Z" } });
    ground.change("Job", "harvester-system", &format!("{U}-post-drain-node-1"), &made);
    ground.change(
        "Node",
        "",
        "node-1",
        &json!({ "metadata": { "labels": { "node-role.kubernetes.io/etcd": "true" } } }),
    );

    ground.settle();

    let (_, reason, message) = ground.condition("Progressing");
    let sentence = "the kubelet of node-1 runs v1.33.5+rke2r1, not v1.34.1+rke2r1, although the planner is done there since 2026-01-01T11:40:00Z";
    assert_eq!(reason, "KubeletOutdated");
    assert!(
        message.starts_with(&format!("{sentence} (restart RKE2 on node-1: systemctl restart rke2-server;")),
        "{message}"
    );
    let status = &ground.upgrade()["status"]["nodeStatuses"]["node-1"];
    assert_eq!(*status, json!({ "state": "Post-draining", "reason": "KubeletOutdated", "message": sentence }));
    let told =
        ground.objects.values().filter(|object| object["kind"] == "Event" && object["reason"] == "KubeletOutdated");
    assert_eq!(told.map(|event| event["message"].clone()).collect::<Vec<Value>>(), [json!(sentence)]);

    ground.restart_kubelet(1);
    ground.settle();
    assert_eq!(ground.condition("Progressing").1, "JobRunning");
}

#[test]
fn a_worker_is_told_to_restart_its_own_service() {
    let mut ground = Ground::of(1);
    let wait = |ground: &Ground| {
        let cluster = ground.cluster();
        let node = cluster.nodes.named("node-1").unwrap();
        kubelet::outdated(node, "v1.34.1+rke2r1", None, NOON.parse().unwrap())
    };
    assert!(wait(&ground).unwrap().remedy.unwrap().contains("restart RKE2 on node-1: systemctl restart rke2-agent;"));
    assert_eq!(wait(&ground).unwrap().sentence, "the kubelet of node-1 runs v1.33.5+rke2r1, not v1.34.1+rke2r1");
    ground.restart_kubelet(1);
    assert_eq!(wait(&ground), None);
}

#[test]
fn a_planner_that_comes_to_no_node_is_told_once_with_what_helps() {
    let mut ground = Ground::of(3).until_nodes();
    ground.pass(19);
    assert_eq!(
        (ground.condition("Progressing").1, ground.events("PlannerStalls")),
        ("PlannerWorks".to_owned(), vec![])
    );
    assert_eq!(ground.last.look_again, Some("2026-01-01T12:20:01Z".parse().unwrap()));

    ground.pass(2);

    let (_, reason, message) = ground.condition("Progressing");
    let said = "the planner has come to no further node, although it may since 2026-01-01T12:00:00Z";
    let helps = format!(
        "drover why upgrade/{U} looks what is in its way; if nothing is, restart it: kubectl -n cattle-system rollout restart deployment rancher"
    );
    assert_eq!(reason, "PlannerStalls");
    assert!(message.starts_with(&format!("{said} ({helps});")), "{message}");
    ground.pass(60);
    assert_eq!(ground.events("PlannerStalls"), [("Warning".to_owned(), said.to_owned())], "not for each node");

    // It has only begun with a node, and asks nothing.
    ground.asks(1, "drain-options");
    ground.pass(1);
    assert!(ground.reasons().contains(&Reason::PlannerStalls), "{:?}", ground.last.waits);

    // It gets on: what is out now is no standstill, however long it takes.
    ground.begins_with(1);
    ground.pass(60);
    assert!(!ground.reasons().contains(&Reason::PlannerStalls), "{:?}", ground.last.waits);
}

#[test]
fn an_operator_that_is_new_goes_by_when_the_planners_turn_began_and_not_by_when_it_was_told_so() {
    let mut ground = Ground::of(3).until_nodes();
    ground.pass(19);
    // It has heard of nothing.
    ground.told.clear();
    ground.pass(2);
    let (_, reason, message) = ground.condition("Progressing");
    let said = "the planner has come to no further node, although it may since 2026-01-01T12:00:00Z";
    assert_eq!((reason.as_str(), message.starts_with(said)), ("PlannerStalls", true), "{message}");

    // Neither does the Job that is gone tell when it was done.
    ground.begins_with(1);
    ground.finish("pre-drain-node-1");
    ground.settle();
    ground.objects.remove(&("Job".into(), "harvester-system".into(), format!("{U}-pre-drain-node-1")));
    ground.pass(19);
    assert_eq!(ground.condition("Progressing").1, "PlannerWorks");
    ground.told.clear();
    ground.pass(2);
    let said = "the planner has not drained node-1, although it may since 2026-01-01T12:21:00Z";
    assert!(ground.condition("Progressing").2.starts_with(said), "{:?}", ground.condition("Progressing"));
}

#[test]
fn a_turn_that_began_in_what_is_the_future_now_says_only_that_a_clock_was_set_back() {
    let mut ground = Ground::of(3).until_nodes();
    ground.pass(-60);
    assert_eq!(ground.condition("Progressing").1, "PlannerWorks");
    ground.pass(21);
    let (_, reason, message) = ground.condition("Progressing");
    assert_eq!(reason, "PlannerStalls");
    assert!(message.contains("although it may since 2026-01-01T11:00:00Z"), "{message}");
}

#[test]
fn a_planner_has_its_time_again_after_each_node_and_after_a_pause() {
    let mut ground = Ground::of(3).until_nodes();
    ground.pass(10);
    ground.bring_over(1);
    let back = json!({ "status": { "conditions": [
        { "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T12:10:00Z" },
        { "type": "EtcdIsVoter", "status": "True", "reason": "MemberNotLearner" },
    ] } });
    ground.change("Node", "", "node-1", &back);
    ground.gives_back(1);
    ground.pass(19);
    assert!(!ground.reasons().contains(&Reason::PlannerStalls), "{:?}", ground.last.waits);

    ground.change("CapiCluster", "fleet-local", "local", &json!({ "spec": { "paused": true } }));
    ground.pass(60);
    assert!(!ground.reasons().contains(&Reason::PlannerStalls), "{:?}", ground.last.waits);
    ground.change("CapiCluster", "fleet-local", "local", &json!({ "spec": { "paused": null } }));
    ground.pass(1);
    assert!(!ground.reasons().contains(&Reason::PlannerStalls), "{:?}", ground.last.waits);

    ground.pass(21);
    assert!(ground.reasons().contains(&Reason::PlannerStalls), "{:?}", ground.last.waits);
}

#[test]
fn a_planner_that_does_not_give_back_the_last_node_is_told_and_drovers_own_is_named_as_it_is() {
    let mut ground = Ground::of(3).until_nodes();
    for number in 1..=3 {
        ground.bring_over(number);
        if number < 3 {
            ground.gives_back(number);
        }
    }
    let ours = json!({ "metadata": { "annotations": { "drover.dev/planned": "v1.34.1+rke2r1 5" } } });
    ground.change("Secret", "fleet-local", "custom-3-machine-plan", &ours);
    ground.settle();
    assert_eq!(ground.condition("Progressing").2, "the planner gives back node-3");

    ground.pass(21);

    let (_, reason, message) = ground.condition("Progressing");
    assert_eq!(reason, "PlannerStalls");
    assert!(message.starts_with("the planner has not given back node-3, although it may since 2026-01-01T12:00:00Z ("));
    assert!(
        message.ends_with("kubectl -n system-upgrade rollout restart deployment system-upgrade-controller)"),
        "{message}"
    );
}

/// The planner was told at this time that it may drain node-1.
fn told_at(completed: &str) -> Ground {
    let mut ground = Ground::of(3).until_nodes();
    ground.begins_with(1);
    ground.finish("pre-drain-node-1");
    let at = json!({ "status": { "completionTime": completed } });
    ground.change("Job", "harvester-system", &format!("{U}-pre-drain-node-1"), &at);
    ground.now = completed.parse().unwrap();
    ground.settle();
    ground.now = NOON.parse().unwrap();
    ground.settle();
    ground
}

#[test]
fn a_planner_is_looked_at_again_when_it_should_have_drained_a_node() {
    let ground = told_at("2026-01-01T11:40:00Z");
    assert_eq!(ground.condition("Progressing").1, "PlannerWorks");
    assert_eq!(ground.last.look_again, Some("2026-01-01T12:00:01Z".parse().unwrap()));
}

#[test]
fn a_planner_that_does_not_get_on_with_a_node_is_told_with_since_when_what_it_says_and_what_helps() {
    let mut ground = told_at("2026-01-01T09:00:00Z");
    let sentence = "the planner has not drained node-1, although it may since 2026-01-01T09:00:00Z";
    let (_, reason, message) = ground.condition("Progressing");
    assert_eq!(reason, "PlannerStalls");
    assert!(message.starts_with(&format!("{sentence} (drover why upgrade/{U} looks what is in its way;")), "{message}");
    let status = &ground.upgrade()["status"]["nodeStatuses"]["node-1"];
    assert_eq!(*status, json!({ "state": "Pre-drained", "reason": "PlannerStalls", "message": sentence }));
    assert_eq!(ground.last.waits[0].since, "2026-01-01T09:00:00Z".parse().unwrap());

    let says = json!({ "status": { "conditions": [
        { "type": "ControlPlaneReady", "status": "Unknown", "message": "draining etcd node(s) custom-1: draining node" },
    ] } });
    ground.change("CapiCluster", "fleet-local", "local", &says);
    ground.settle();
    assert_eq!(
        ground.last.waits[0].sentence,
        format!("{sentence}; it says: draining etcd node(s) custom-1: draining node")
    );

    let fails = json!({ "metadata": { "annotations": { "rke.cattle.io/drain-error": "a pod does not go" } } });
    ground.change("Secret", "fleet-local", "custom-1-machine-plan", &fails);
    ground.settle();
    assert_eq!(ground.last.waits[0].sentence, format!("{sentence}; it says: a pod does not go"));

    ground.asks(1, "drain-done");
    ground.settle();
    assert_eq!(
        ground.last.waits[0].sentence,
        "the planner has not raised Kubernetes on node-1, although it may since 2026-01-01T09:00:00Z; \
         it says: draining etcd node(s) custom-1: draining node"
    );

    let told = ground.objects.values().filter(|object| object["reason"] == "PlannerStalls");
    assert_eq!(told.count(), 2, "one before the drain is done, one after, whatever the planner says");

    ground.raises(1);
    assert_eq!(
        (ground.node_state("node-1"), ground.condition("Progressing").1.as_str()),
        ("Post-draining", "JobRunning")
    );
}

#[test]
fn the_strategy_that_a_user_has_set_is_put_back_in_the_end_and_when_it_is_called_off() {
    let own = json!({ "workerConcurrency": "2", "workerDrainOptions": { "enabled": true, "timeout": 300, "preDrainHooks": [{ "annotation": "x/y" }] } });
    let strategy =
        |ground: &Ground| ground.get("Cluster", "fleet-local", "local")["spec"]["rkeConfig"]["upgradeStrategy"].clone();
    let mut ground = Ground::of(3);
    let set = json!({ "spec": { "rkeConfig": { "upgradeStrategy": own } } });
    ground.change("Cluster", "fleet-local", "local", &set);
    let mut ground = ground.until_nodes();
    assert_eq!(strategy(&ground)["workerConcurrency"], "1");
    assert_eq!(strategy(&ground)["workerDrainOptions"]["preDrainHooks"].as_array().unwrap().len(), 2);

    let mut aborted = ground.clone();
    aborted.annotate("drover.dev/abort", "true");
    assert_eq!((aborted.label("upgradeState"), strategy(&aborted)), ("Failed", own.clone()));

    for number in 1..=3 {
        ground.bring_over(number);
        ground.gives_back(number);
    }
    ground.settle();
    assert_eq!((ground.label("upgradeState"), strategy(&ground)), ("Succeeded", own));
}

#[test]
fn what_another_upgrade_has_left_of_its_hooks_is_no_strategy_of_a_user() {
    let hooks = json!({
        "preDrainHooks": [{ "annotation": "harvesterhci.io/pre-hook" }], "postDrainHooks": [{ "annotation": "harvesterhci.io/post-hook" }],
    });
    let left = json!({ "controlPlaneDrainOptions": hooks, "workerDrainOptions": hooks });
    let mut ground = Ground::of(3);
    ground.change("Cluster", "fleet-local", "local", &json!({ "spec": { "rkeConfig": { "upgradeStrategy": left } } }));
    let mut ground = ground.until_nodes();
    for number in 1..=3 {
        ground.bring_over(number);
        ground.gives_back(number);
    }
    ground.settle();
    assert_eq!(ground.label("upgradeCleanup"), "Succeeded");
    let spec = &ground.get("Cluster", "fleet-local", "local")["spec"]["rkeConfig"];
    assert!(spec["upgradeStrategy"].is_null(), "{spec}");
}
