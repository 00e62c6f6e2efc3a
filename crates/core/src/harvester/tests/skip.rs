//! Nodes that have failed, and that their user goes on without.

use super::*;

fn with_a_failed_node() -> Ground {
    let mut ground = Ground::of(3).until_nodes();
    ground.begins_with(1);
    ground.fail("pre-drain-node-1");
    ground
}

#[test]
fn a_node_that_has_failed_says_what_its_user_can_do() {
    let ground = with_a_failed_node();
    assert_eq!((ground.label("upgradeState"), ground.node_state("node-1")), ("Failed", "Failed"));
    assert_eq!(ground.reasons(), [Reason::JobFailed]);
    let remedy = ground.last.waits[0].remedy.clone().unwrap();
    for verb in ["retry", "skip", "abort"] {
        assert!(remedy.contains(&format!("drover upgrade {verb} upgrade/{U}")), "{remedy}");
    }
    assert!(ground.answer(1, "pre-hook").is_null());
}

#[test]
fn a_skipped_node_is_raised_by_the_planner_alone_and_the_others_follow() {
    let mut ground = with_a_failed_node();

    ground.annotate("drover.dev/skip", "node-1");
    assert_eq!((ground.label("upgradeState"), ground.node_state("node-1")), ("UpgradingNodes", "Skipped"));
    assert_eq!(ground.answer(1, "pre-hook"), &json!(TOKEN));
    ground.asks(2, "pre-drain");
    ground.settle();
    assert!(!ground.has_job("pre-drain-node-2"), "one node at a time");
    ground.raises(1);
    assert_eq!(ground.answer(1, "post-hook"), &json!(TOKEN));
    assert!(!ground.has_job("post-drain-node-1"));
    ground.gives_back(1);
    for number in 2..=3 {
        ground.bring_over(number);
        ground.gives_back(number);
    }
    ground.settle();

    assert_eq!((ground.label("upgradeState"), ground.label("upgradeCleanup")), ("Succeeded", "Succeeded"));
    assert_eq!(ground.node_state("node-1"), "Skipped");
    assert_eq!(
        ground.condition("NodesUpgraded"),
        ("True".into(), "Skipped".into(), "skipped by their user: node-1".into())
    );
}

#[test]
fn a_node_that_has_failed_after_its_drain_is_given_back_at_once() {
    let mut ground = Ground::of(3).until_nodes();
    ground.begins_with(1);
    ground.finish("pre-drain-node-1");
    ground.settle();
    ground.raises(1);
    ground.fail("post-drain-node-1");
    assert!(ground.answer(1, "post-hook").is_null());

    ground.annotate("drover.dev/skip", "node-1");

    assert_eq!(ground.answer(1, "post-hook"), &json!(TOKEN));
    assert_eq!(ground.label("upgradeState"), "UpgradingNodes");
}

fn said(ground: &Ground) -> Vec<&str> {
    let own = ground.last.waits.iter().filter(|wait| wait.reason == Reason::UpgradeInvalid);
    own.map(|wait| wait.sentence.as_str()).collect()
}

fn wish(ground: &Ground) -> &Value {
    &ground.upgrade()["metadata"]["annotations"]["drover.dev/skip"]
}

#[test]
fn a_node_that_has_not_failed_cannot_be_skipped_and_its_user_is_told() {
    let mut ground = with_a_failed_node();
    ground.annotate("drover.dev/skip", "node-2, node-9");
    assert_eq!((ground.label("upgradeState"), ground.node_state("node-2")), ("Failed", "Images preloaded"));
    // What cannot be followed is told until it is taken away.
    assert_eq!(wish(&ground), "node-2,node-9");
    let sentence = "the annotation drover.dev/skip names node-2, which has not failed (Images preloaded), and is skipped once it has; \
                    and node-9, no node of the upgrade";
    assert_eq!(said(&ground), [sentence]);
    ground.annotate("drover.dev/skip", "node-1");
    assert_eq!((said(&ground), wish(&ground)), (vec![], &Value::Null));
    assert_eq!(ground.label("upgradeState"), "UpgradingNodes");

    let mut ground = Ground::of(3).until_nodes();
    ground.annotate("drover.dev/skip", "node-1");
    assert_eq!((ground.node_state("node-1"), said(&ground).len()), ("Images preloaded", 1));
    ground.begins_with(1);
    ground.fail("pre-drain-node-1");
    assert_eq!((ground.node_state("node-1"), said(&ground).len()), ("Skipped", 0), "as was asked");

    let mut ground = Ground::of(1).until_nodes();
    ground.fail("single-node-upgrade-node-1");
    ground.annotate("drover.dev/skip", "node-1");
    assert_eq!(ground.node_state("node-1"), "Failed");
    assert_eq!(said(&ground), ["the annotation drover.dev/skip names node-1, which is all there is to upgrade"]);
}

/// The system of the first node was installed at this time, and it boots.
fn with_a_node_that_boots(since: &str) -> Ground {
    let mut ground = Ground::of(3).until_nodes();
    ground.begins_with(1);
    ground.finish("pre-drain-node-1");
    ground.settle();
    ground.raises(1);
    ground.finish("post-drain-node-1");
    let done = json!({ "status": { "completionTime": since } });
    ground.change("Job", "harvester-system", &format!("{U}-post-drain-node-1"), &done);
    ground.settle();
    assert_eq!(ground.node_state("node-1"), "Waiting Reboot");
    ground
}

#[test]
fn a_node_that_does_not_boot_its_new_system_can_be_skipped() {
    let mut ground = with_a_node_that_boots("2026-01-01T11:40:00Z");
    let remedy = ground.last.waits[0].remedy.clone().unwrap();
    assert!(remedy.contains(&format!("drover upgrade skip upgrade/{U} --node node-1")), "{remedy}");

    ground.annotate("drover.dev/skip", "node-1");

    assert_eq!((ground.node_state("node-1"), ground.answer(1, "post-hook")), ("Skipped", &json!(TOKEN)));
    assert!(ground.get("Node", "", "node-1")["metadata"]["annotations"]["harvesterhci.io/pendingOSImage"].is_null());
    ground.asks(2, "pre-drain");
    ground.settle();
    assert!(!ground.has_job("pre-drain-node-2"), "one node at a time");
    ground.gives_back(1);
    ground.settle();
    assert!(ground.has_job("pre-drain-node-2"));
}

#[test]
fn an_upgrade_that_is_deleted_or_called_off_is_not_held_for_ever_by_a_node_that_does_not_boot() {
    for calls_off in [false, true] {
        let mut ground = with_a_node_that_boots("2026-01-01T11:40:00Z");
        if calls_off {
            ground.annotate("drover.dev/abort", "");
        }
        ground.change("Upgrade", "harvester-system", U, &json!({ "metadata": { "deletionTimestamp": NOON } }));
        ground.settle();
        assert_eq!(ground.node_state("node-1"), "Waiting Reboot");

        ground.annotate("drover.dev/skip", "node-1");
        ground.gives_back(1);
        ground.settle();
        for number in 2..=3 {
            if !calls_off {
                ground.bring_over(number);
                ground.gives_back(number);
            }
        }
        ground.settle();
        assert_eq!(
            ground.upgrade()["metadata"]["finalizers"],
            json!([]),
            "called off: {calls_off}: {:?}",
            ground.last.waits
        );
    }
}

#[test]
fn a_node_that_has_only_just_begun_to_boot_is_waited_for() {
    let mut ground = with_a_node_that_boots("2026-01-01T11:50:00Z");
    ground.annotate("drover.dev/skip", "node-1");
    assert_eq!(ground.node_state("node-1"), "Waiting Reboot");
    let sentence = "the annotation drover.dev/skip names node-1, which has until 2026-01-01T12:05:00Z to boot its new system, and is \
                    skipped if it does not";
    assert_eq!(said(&ground), [sentence]);
    assert_eq!(ground.last.look_again, Some("2026-01-01T12:05:00Z".parse().unwrap()));

    ground.reboot(1);
    ground.settle();
    assert_eq!(ground.node_state("node-1"), "Succeeded");
}

#[test]
fn a_voter_is_not_given_to_the_planner_while_another_is_lost() {
    let mut ground = with_a_failed_node();
    let lost = json!({ "status": { "conditions": [
        { "type": "Ready", "status": "True" }, { "type": "EtcdIsVoter", "status": "False", "reason": "NotAMember" },
    ] } });
    ground.change("Node", "", "node-3", &lost);

    ground.annotate("drover.dev/skip", "node-1");

    assert!(ground.answer(1, "pre-hook").is_null());
    assert!(ground.reasons().contains(&Reason::QuorumAtRisk));
}
