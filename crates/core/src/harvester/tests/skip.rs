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

#[test]
fn a_node_that_has_not_failed_cannot_be_skipped() {
    let mut ground = with_a_failed_node();
    ground.annotate("drover.dev/skip", "node-2, node-9");
    assert_eq!((ground.label("upgradeState"), ground.node_state("node-2")), ("Failed", "Images preloaded"));
    // A name that nobody bears is told until it is taken away.
    assert_eq!(ground.upgrade()["metadata"]["annotations"]["drover.dev/skip"], "node-9");
    let told = |ground: &Ground| ground.last.waits.iter().any(|wait| wait.sentence.contains("names node-9"));
    assert!(told(&ground), "{:?}", ground.last.waits);
    ground.annotate("drover.dev/skip", "node-1");
    assert!(!told(&ground));
    assert_eq!(ground.label("upgradeState"), "UpgradingNodes");

    let mut ground = Ground::of(3).until_nodes();
    ground.annotate("drover.dev/skip", "node-1");
    assert_eq!(ground.node_state("node-1"), "Images preloaded");
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
