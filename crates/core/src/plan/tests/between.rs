//! What has to be true between two nodes.

use super::*;

fn evening() -> Value {
    json!({ "days": ["th"], "startTime": "11:00", "endTime": "12:30" })
}

/// Another Plan, with changes to its spec merged in.
fn other(name: &str, spec: Value) -> Value {
    let mut plan = three_nodes().plan;
    plan["metadata"]["name"] = json!(name);
    plan["metadata"]["uid"] = json!(format!("uid-{name}"));
    plan["metadata"]["annotations"] = json!({});
    merge(&mut plan["spec"], &spec);
    plan
}

fn with_claim(mut plan: Value) -> Value {
    plan["metadata"]["annotations"]["drover.dev/claims"] =
        three_nodes().claimed("n3").plan["metadata"]["annotations"]["drover.dev/claims"].clone();
    plan
}

impl Cluster {
    fn beside(mut self, plan: Value) -> Self {
        self.others.push(plan);
        self
    }

    /// The last nodes took so many seconds.
    pub(super) fn took(self, seconds: &[i64]) -> Self {
        let mut claims = self.claims();
        claims.took = seconds.to_vec();
        self.annotated("drover.dev/claims", &claims.write())
    }
}

#[test]
fn no_node_starts_that_would_not_be_done_before_the_window_closes() {
    let cluster = three_nodes().spec("window", evening());
    assert_eq!(purposes(&cluster.decide())[0], Purpose::ClaimNodes);
    assert_eq!(purposes(&cluster.clone().took(&[60, 1500, 1700]).decide())[0], Purpose::ClaimNodes);

    let decision = cluster.took(&[60, 1900, 2000]).decide();
    assert_eq!(acts(&decision), []);
    assert_eq!(reasons(&decision), [Reason::WindowTooShort]);
    assert!(decision.look_again.is_some());
}

#[test]
fn a_window_that_closes_in_mid_rollout_keeps_the_rest_waiting() {
    let cluster = three_nodes().spec("window", evening()).taken("n1").job("n1", "Complete");
    let decision = cluster.decide_at(at("2026-01-01T12:31:00Z"));

    assert_eq!(purposes(&decision), [Purpose::ReleaseNode, Purpose::ClaimNodes]);
    assert_eq!(claimed_nodes(&decision), [""; 0]);
    assert_eq!(reasons(&decision), [Reason::WindowClosed]);
}

#[test]
fn a_claim_is_held_for_the_delay_after_its_job_and_the_node_is_in_service_meanwhile() {
    let ended = three_nodes().spec("postCompleteDelay", json!("10m")).taken("n1").job("n1", "Complete");
    let decision = ended.decide();
    assert_eq!(acts(&decision), [(Purpose::NoteJobEnd, "n1".to_owned())]);
    assert_eq!(told(&decision)[0], "JobCompleteWaiting");
    assert_eq!(reasons(&decision), [Reason::Soaking, Reason::ConcurrencyReached]);
    assert_eq!(decision.look_again, Some(at("2026-01-01T12:05:00Z")));

    let soaking = ended.after(&decision);
    assert_eq!(soaking.nodes["n1"]["spec"].get("unschedulable"), None);
    assert_eq!(acts(&soaking.decide()), []);
    assert!(!told(&soaking.decide()).contains(&"JobCompleteWaiting".to_owned()));
    let over = soaking.decide_at(at("2026-01-01T12:05:00Z"));
    assert_eq!(purposes(&over)[..2], [Purpose::ReleaseNode, Purpose::ClaimNodes]);
    assert_eq!(told(&over)[0], "JobComplete");
}

#[test]
fn the_delay_after_a_job_that_ended_ahead_of_this_clock_begins_now() {
    let ended = three_nodes().spec("postCompleteDelay", json!("10m")).taken("n1").job("n1", "Complete");
    let early = at("2026-01-01T11:00:00Z");
    let soaking = ended.clone().after(&ended.decide_at(early));

    assert_eq!(acts(&soaking.decide_at(early)), []);
    assert_eq!(soaking.decide_at(early).look_again, Some(at("2026-01-01T11:10:00Z")));
    assert_eq!(purposes(&soaking.decide_at(at("2026-01-01T11:10:00Z")))[0], Purpose::ReleaseNode);
}

#[test]
fn a_paused_plan_starts_no_node_and_finishes_what_it_has_begun() {
    let paused = three_nodes().annotated("drover.dev/paused", "true");
    assert_eq!(acts(&paused.decide()), []);
    assert_eq!(reasons(&paused.decide()), [Reason::PlanPaused]);
    assert_eq!(purposes(&paused.clone().taken("n1").decide()), [Purpose::CreateJob]);
    assert_eq!(purposes(&paused.annotated("drover.dev/paused", "false").decide())[0], Purpose::ClaimNodes);
}

#[test]
fn a_plan_waits_until_the_one_before_it_is_complete() {
    let waits = |server: Value| {
        let cluster = three_nodes().annotated("drover.dev/after", "system-upgrade/server").beside(server);
        let decision = cluster.decide();
        assert_eq!(
            acts(&decision).is_empty(),
            !decision.waits.is_empty() && reasons(&decision)[0] == Reason::OtherPlanFirst
        );
        decision.waits[0].clone()
    };
    assert_eq!(waits(other("server", json!({}))).sentence, "Plan system-upgrade/server has to be complete first");
    // It selects nothing that is not done, but still has a node out.
    let nobody = json!({ "nodeSelector": { "matchLabels": { "pool": "x" } } });
    assert_eq!(waits(with_claim(other("server", nobody.clone()))).reason, Reason::OtherPlanFirst);
    assert_eq!(waits(other("server", nobody)).reason, Reason::ConcurrencyReached);
    assert_eq!(waits(other("server", json!({ "concurrency": 0 }))).reason, Reason::OtherPlanFirst);
}

#[test]
fn a_status_that_says_complete_is_not_believed_when_the_plan_before_asks_for_more_by_now() {
    let mut server = other("server", json!({}));
    server["status"] = json!({ "conditions": [{ "type": "Complete", "status": "True" }] });
    let decision = three_nodes().annotated("drover.dev/after", "server").beside(server).decide();
    assert_eq!(reasons(&decision), [Reason::OtherPlanFirst]);
}

#[test]
fn plans_that_wait_for_each_other_or_for_nobody_say_so() {
    let sentence = |cluster: Cluster| {
        assert_eq!(acts(&cluster.decide()), []);
        cluster.decide().waits[0].sentence.clone()
    };
    let mut server = other("server", json!({}));
    server["metadata"]["annotations"]["drover.dev/after"] = json!("up");
    let circle = three_nodes().annotated("drover.dev/after", "server").beside(server);
    assert!(sentence(circle).contains("neither can start"));
    assert!(sentence(three_nodes().annotated("drover.dev/after", "nobody")).contains("which is not there"));
    assert!(sentence(three_nodes().annotated("drover.dev/after", "x/server")).contains("does not see"));
}

#[test]
fn of_two_exclusive_plans_one_has_nodes_out() {
    let exclusive = three_nodes().spec("exclusive", json!(true));
    let idle = other("idle", json!({ "exclusive": true }));
    assert_eq!(purposes(&exclusive.clone().beside(idle.clone()).decide()), [Purpose::ClaimNodes]);

    let at_work = exclusive.clone().beside(with_claim(idle.clone()));
    assert_eq!(acts(&at_work.decide()), []);
    assert_eq!(reasons(&at_work.decide()), [Reason::ExclusivePlanActs]);
    let mut claiming = exclusive.beside(idle.clone());
    claiming.claiming = ["idle".to_owned()].into();
    assert_eq!(acts(&claiming.decide()), []);
    assert_eq!(purposes(&three_nodes().beside(with_claim(idle)).decide())[0], Purpose::ClaimNodes);
}

#[test]
fn of_two_exclusive_plans_that_claimed_at_the_same_time_the_first_by_name_goes_first() {
    let exclusive = three_nodes().spec("exclusive", json!(true)).claimed("n1");
    let first = exclusive.clone().beside(with_claim(other("a", json!({ "exclusive": true }))));
    assert_eq!(acts(&first.decide()), []);
    assert_eq!(reasons(&first.decide())[0], Reason::ExclusivePlanActs);
    let last = exclusive.beside(with_claim(other("z", json!({ "exclusive": true }))));
    assert_eq!(purposes(&last.decide()), [Purpose::TakeNode]);
}

const GATE: &str = "deployments.v1.apps/shop/cart: object.status.readyReplicas >= 3";

fn gated(expression: &str, seen: GateSeen) -> Decision {
    let mut cluster = three_nodes().annotated("drover.dev/gate", expression);
    cluster.gates.insert(Target::parse("deployments.v1.apps/shop/cart").unwrap(), seen);
    cluster.decide()
}

#[test]
fn a_node_starts_only_while_the_gate_is_true() {
    let cart = |ready: i64| GateSeen::Object(json!({ "status": { "readyReplicas": ready } }));
    assert_eq!(purposes(&gated(GATE, cart(3)))[0], Purpose::ClaimNodes);

    let closed = gated(GATE, cart(2));
    assert_eq!(acts(&closed), []);
    assert_eq!(reasons(&closed), [Reason::GateClosed]);
    assert_eq!(
        closed.waits[0].sentence,
        "the gate is closed: object.status.readyReplicas >= 3 is not true of deployments.v1.apps/shop/cart"
    );
}

#[test]
fn a_gate_that_cannot_be_read_or_evaluated_is_a_wait_with_a_sentence() {
    let sentence = |decision: Decision| {
        assert_eq!(acts(&decision), []);
        assert_eq!(reasons(&decision), [Reason::GateFails]);
        decision.waits[0].sentence.clone()
    };
    let nothing = || GateSeen::Object(json!({}));
    assert!(sentence(gated(GATE, nothing())).contains("no such key"));
    assert!(sentence(gated(GATE, GateSeen::Missing)).contains("is not there"));
    assert!(sentence(gated(GATE, GateSeen::Unseen("forbidden".to_owned()))).contains("cannot be read: forbidden"));
    assert!(sentence(three_nodes().annotated("drover.dev/gate", GATE).decide()).contains("has not been read yet"));
    assert!(sentence(gated("deployments.v1.apps/shop/cart: 1 +", nothing())).contains("drover.dev/gate"));
    assert!(sentence(gated("deployments.v1.apps/shop/cart: 1", nothing())).contains("true or false"));
    assert!(sentence(gated("cart is well", nothing())).contains("write it as RESOURCE.VERSION.GROUP"));
}
