//! Nodes that take longer than others did.

use super::*;

/// n1's Job runs since 11:50.
fn at_work() -> Cluster {
    three_nodes().taken("n1").job("n1", "").published()
}

fn said_at(cluster: &Cluster, now: &str) -> Wait {
    cluster.decide_at(now.parse().unwrap()).waits.swap_remove(0)
}

#[test]
fn a_node_is_slow_and_then_stalled_by_what_the_last_ones_took() {
    let cluster = at_work().took(&[300, 240, 280]);
    for (now, reason) in [
        ("2026-01-01T11:58:00Z", Reason::JobRunning),
        ("2026-01-01T12:01:00Z", Reason::NodeSlow),
        ("2026-01-01T12:20:00Z", Reason::NodeStalled),
    ] {
        assert_eq!(said_at(&cluster, now).reason, reason, "{now}");
    }
}

#[test]
fn the_first_node_is_compared_with_nothing_and_says_so() {
    assert_eq!(said_at(&at_work(), "2026-01-01T12:10:00Z").reason, Reason::JobRunning);
    let slow = said_at(&at_work(), "2026-01-01T12:25:00Z");
    assert_eq!(slow.reason, Reason::NodeSlow);
    assert!(
        slow.sentence.ends_with("no node of this Plan is done that it could be compared with"),
        "{}",
        slow.sentence
    );
}

#[test]
fn a_slow_node_is_announced_once() {
    let cluster = at_work().took(&[60]);
    let now = "2026-01-01T11:53:30Z".parse().unwrap();
    let decision = cluster.decide_at(now);
    let reasons = |decision: &Decision| -> Vec<String> {
        let events = decision.writes().filter(|write| write.purpose == Purpose::Announce);
        let bodies = events.filter_map(|write| match &write.act {
            Act::Create(body) => body["reason"].as_str().map(ToOwned::to_owned),
            _ => None,
        });
        bodies.filter(|reason| reason.starts_with("Node")).collect()
    };
    assert_eq!(reasons(&decision), ["NodeSlow"]);
    let mut told = cluster;
    told.plan["status"] = json!(new_status(&decision));
    assert_eq!(reasons(&told.decide_at(now)), Vec::<String>::new());
}
