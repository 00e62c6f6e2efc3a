//! etcd keeps its quorum, whoever goes down while a node has its turn: what takes a node out asks anew each time.

use super::*;

/// Another server goes down, or comes back.
fn is_well(ground: &mut Ground, number: usize, well: bool) {
    let ready = if well { "True" } else { "False" };
    let said = json!({ "status": { "conditions": [
        { "type": "Ready", "status": ready }, { "type": "EtcdIsVoter", "status": "True", "reason": "MemberNotLearner" },
    ] } });
    ground.change("Node", "", &format!("node-{number}"), &said);
    ground.settle();
}

fn lose_answer(ground: &mut Ground, number: usize) {
    let lost = json!({ "metadata": { "annotations": { "harvesterhci.io/pre-hook": null } } });
    ground.change("Secret", "fleet-local", &format!("custom-{number}-machine-plan"), &lost);
    ground.settle();
}

const RISK: &str = "etcd needs 2 of 3 voters, and node-3 is out: node-1 must not be taken out as well";

#[test]
fn the_planner_is_told_to_drain_a_voter_only_if_the_others_are_well_when_its_job_is_done() {
    let mut ground = Ground::of(3).until_nodes();
    ground.begins_with(1);
    is_well(&mut ground, 3, false);
    ground.finish("pre-drain-node-1");
    ground.settle();

    assert!(ground.answer(1, "pre-hook").is_null(), "{:?}", ground.last.waits);
    let status = &ground.upgrade()["status"]["nodeStatuses"]["node-1"];
    assert_eq!(*status, json!({ "state": "Pre-drained", "reason": "QuorumAtRisk", "message": RISK }));
    assert_eq!(ground.condition("Progressing").1, "QuorumAtRisk");

    // That it was kept from its turn for hours is no fault of the planner.
    ground.pass(120);
    assert!(ground.answer(1, "pre-hook").is_null());
    is_well(&mut ground, 3, true);
    assert_eq!(ground.answer(1, "pre-hook"), &json!(TOKEN));
    assert_eq!((ground.condition("Progressing").1.as_str(), ground.events("PlannerStalls").len()), ("PlannerWorks", 0));
    ground.pass(21);
    let said = "the planner has not drained node-1, although it may since 2026-01-01T14:00:00Z";
    assert!(ground.condition("Progressing").2.starts_with(said), "{:?}", ground.condition("Progressing"));
}

#[test]
fn an_answer_that_is_lost_is_given_again_at_once_only_where_the_node_is_drained_already() {
    for is_drained in [false, true] {
        let mut ground = Ground::of(3).until_nodes();
        ground.begins_with(1);
        ground.finish("pre-drain-node-1");
        ground.settle();
        if is_drained {
            ground.asks(1, "drain-done");
        }
        is_well(&mut ground, 3, false);
        lose_answer(&mut ground, 1);
        assert_eq!(!ground.answer(1, "pre-hook").is_null(), is_drained, "{:?}", ground.last.waits);

        is_well(&mut ground, 3, true);
        assert_eq!(ground.answer(1, "pre-hook"), &json!(TOKEN));
    }
}

#[test]
fn a_job_that_takes_a_voter_out_is_not_made_again_while_another_is_out() {
    for job in ["pre-drain-node-1", "post-drain-node-1"] {
        let mut ground = Ground::of(3).until_nodes();
        ground.begins_with(1);
        if job.starts_with("post") {
            ground.finish("pre-drain-node-1");
            ground.settle();
            ground.raises(1);
        }
        assert!(ground.has_job(job));
        is_well(&mut ground, 3, false);
        ground.objects.remove(&("Job".to_owned(), "harvester-system".to_owned(), format!("{U}-{job}")));
        ground.settle();
        assert!(!ground.has_job(job), "{:?}", ground.last.waits);
        assert_eq!(ground.last.waits[0].sentence, RISK);

        is_well(&mut ground, 3, true);
        assert!(ground.has_job(job), "{:?}", ground.last.waits);
    }
}

#[test]
fn a_skipped_node_that_is_drained_already_is_answered_whoever_is_out() {
    let mut ground = Ground::of(3).until_nodes();
    ground.begins_with(1);
    ground.finish("pre-drain-node-1");
    ground.settle();
    ground.raises(1);
    ground.fail("post-drain-node-1");
    is_well(&mut ground, 3, false);
    lose_answer(&mut ground, 1);

    ground.annotate("drover.dev/skip", "node-1");

    assert_eq!((ground.answer(1, "pre-hook"), ground.answer(1, "post-hook")), (&json!(TOKEN), &json!(TOKEN)));
}

#[test]
fn drovers_planner_is_told_what_the_upgrade_accepts_and_only_for_as_long_as_that_asks() {
    let mut ground = Ground::of(2).until_nodes();
    let accepted = |ground: &Ground| {
        ground.get("Cluster", "fleet-local", "local")["metadata"]["annotations"]["drover.dev/accepted"].clone()
    };

    // The planner asks about neither of the two: why, and what helps, is told all the same, however long that lasts.
    ground.settle();
    ground.pass(30);
    let (_, reason, message) = ground.condition("Progressing");
    assert_eq!(reason, "QuorumAtRisk", "{message}");
    assert!(message.contains("drover.dev/accept=DRV-ETCD-001") && accepted(&ground).is_null(), "{message}");
    assert!(!ground.reasons().contains(&Reason::PlannerStalls));

    ground.annotate("drover.dev/accept", "DRV-ETCD-001");
    assert_eq!(accepted(&ground), "DRV-ETCD-001");
    assert!(!ground.reasons().contains(&Reason::QuorumAtRisk));
    ground.annotate("drover.dev/abort", "");
    assert_eq!(ground.label("upgradeCleanup"), "Succeeded");
    assert!(accepted(&ground).is_null());
}
