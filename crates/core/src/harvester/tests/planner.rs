//! What Rancher's planner does unasked, and who joins etcd meanwhile.

use super::*;

/// The planner has raised these nodes to the Kubernetes of the release, and asked nobody.
fn raised_unasked(ground: &mut Ground, numbers: std::ops::RangeInclusive<usize>) {
    for number in numbers {
        let new = json!({ "status": { "nodeInfo": { "kubeletVersion": "v1.34.1+rke2r1" } } });
        ground.change("Node", "", &format!("node-{number}"), &new);
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
        let new = json!({ "status": { "nodeInfo": { "kubeletVersion": "v1.34.1+rke2r1" } } });
        ground.change("Node", "", &format!("node-{number}"), &new);
    }
    let first = ground.decide().writes().next().cloned().unwrap();
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
