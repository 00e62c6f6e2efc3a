//! The checker sees what it is for, and nothing else.

use std::sync::Arc;

use serde_json::json;

use super::*;

const NOON: &str = "2026-01-01T12:00:00Z";

struct Run {
    known: Known,
    checker: Checker,
    at: Timestamp,
}

impl Run {
    /// A Plan that takes one node at a time, and cordons.
    fn new(cordoned: &[&str]) -> Self {
        let cordoned = cordoned.iter().map(|name| (*name).to_owned()).collect();
        let checker = Checker::new(&cordoned, None, Leave::default());
        let mut run = Run { known: Known::default(), checker, at: NOON.parse().unwrap() };
        let claims =
            json!({ "epoch": 1, "holder": "operator-1", "nodes": { "n1": { "id": "c1" }, "n2": { "id": "c2" } } });
        run.put(
            "user",
            "Plan",
            "up",
            json!({
                "metadata": { "name": "up", "uid": "plan", "annotations": { "drover.dev/claims": claims.to_string() } },
                "spec": { "concurrency": 1, "cordon": true, "nodeSelector": {} },
            }),
        );
        run
    }

    fn put(&mut self, actor: &str, kind: &str, name: &str, object: Value) -> Vec<String> {
        self.change(actor, kind, name, object, false)
    }

    /// A minute passes.
    fn later(&mut self) {
        self.at += jiff::SignedDuration::from_mins(1);
    }

    fn evict(&mut self, actor: &str, name: &str, pod: Value) -> Vec<String> {
        self.change(actor, "Pod", name, pod, true)
    }

    fn change(&mut self, actor: &str, kind: &str, name: &str, object: Value, evicted: bool) -> Vec<String> {
        let before = self.known.put(("", kind), "", name, Some(Arc::new(object)));
        let (at, after) = (self.at, self.known.get(kind, "", name));
        let change = Change { at, actor, evicted, kind, namespace: "", name, before: before.as_deref(), after };
        self.checker.see(&self.known, &change);
        self.checker.take_violations()
    }
}

fn node(claim: Option<&str>, cordoned: bool) -> Value {
    let mut node = json!({ "metadata": { "labels": {}, "annotations": {} }, "spec": {}, "status": {} });
    if let Some(claim) = claim {
        node["metadata"]["labels"]["drover.dev/claim"] = json!(claim);
        node["metadata"]["annotations"]["drover.dev/claim"] = json!(json!({ "owner": { "uid": "plan" } }).to_string());
    }
    if cordoned {
        node["spec"]["unschedulable"] = json!(true);
    }
    node
}

#[test]
fn a_second_node_taken_out_is_seen() {
    let mut run = Run::new(&[]);
    run.put("user", "Node", "n1", node(None, false));
    run.put("user", "Node", "n2", node(None, false));
    assert_eq!(run.put("operator-1", "Node", "n1", node(Some("c1"), true)), [""; 0]);
    assert_eq!(run.put("operator-1", "Node", "n2", node(Some("c2"), true)), ["operator-1 claimed n2 as number 2 of 1"]);
}

#[test]
fn a_node_taken_under_no_claim_is_seen() {
    let mut run = Run::new(&[]);
    run.put("user", "Node", "n1", node(None, false));
    let seen = run.put("operator-1", "Node", "n1", node(Some("other"), true));
    assert_eq!(seen, ["operator-1 took n1 under a claim that does not stand on its Plan"]);
}

#[test]
fn undoing_somebody_elses_cordon_is_seen() {
    let mut run = Run::new(&["n1"]);
    run.put("load", "Node", "n1", node(Some("c1"), true));
    let seen = run.put("operator-1", "Node", "n1", node(None, false));
    assert!(seen[0].contains("somebody else had cordoned"), "{seen:?}");
}

#[test]
fn a_cordon_that_was_lifted_and_set_anew_while_a_node_was_out_goes_with_its_upgrade() {
    let mut run = Run::new(&[]);
    let out = |cordoned| {
        let mut node = node(Some("c1"), cordoned);
        let mark = json!({ "owner": { "uid": "plan" }, "cordoned": true });
        node["metadata"]["annotations"]["drover.dev/claim"] = json!(mark.to_string());
        node
    };
    run.put("load", "Node", "n1", node(None, false));
    run.put("operator-1", "Node", "n1", out(true));
    run.put("original", "Node", "n1", out(false));
    run.put("user", "Node", "n1", out(true));
    assert_eq!(run.put("operator-1", "Node", "n1", node(None, false)), [""; 0]);
}

#[test]
fn what_a_user_does_is_no_violation() {
    let mut run = Run::new(&[]);
    for name in ["n1", "n2"] {
        run.put("load", "Node", name, node(None, false));
        assert_eq!(run.put("user", "Node", name, node(None, true)), [""; 0]);
    }
    assert_eq!(run.checker.cordoned().len(), 2);
}

#[test]
fn a_result_without_an_upgrade_is_seen() {
    let mut run = Run::new(&[]);
    run.put("load", "Node", "n1", node(None, false));
    run.put("operator-1", "Node", "n1", node(Some("c1"), true));
    let mut after = node(None, false);
    after["metadata"]["labels"]["plan.upgrade.cattle.io/up"] = json!("hash");
    after["status"]["conditions"] = json!([{ "type": "Ready", "status": "True" }]);
    let seen = run.put("operator-1", "Node", "n1", after);
    assert!(seen[0].contains("has not succeeded"), "{seen:?}");
}

#[test]
fn a_pod_on_a_node_that_its_claim_does_not_hold_is_seen() {
    let mut run = Run::new(&[]);
    run.put("load", "Node", "n1", node(None, true));
    let labels = json!({ "drover.dev/claim": "c1", "upgrade.cattle.io/plan": "up" });
    run.put("operator-1", "Job", "j", json!({ "metadata": { "labels": labels } }));
    let labels =
        json!({ "batch.kubernetes.io/job-name": "j", "upgrade.cattle.io/plan": "up", "drover.dev/claim": "c1" });
    let seen = run.put("world", "Pod", "p", json!({ "metadata": { "labels": labels }, "spec": { "nodeName": "n1" } }));
    assert_eq!(seen, ["pod p of claim c1 came to n1, which is under no claim"]);
}

/// A pod of an upgrade that asks for a node under this claim, and came to `node`.
fn upgrade(job: &str, claim: &str, node: &str) -> Value {
    let labels = json!({ "batch.kubernetes.io/job-name": job, "upgrade.cattle.io/plan": "up" });
    let asked = json!([{ "matchExpressions": [{ "key": "drover.dev/claim", "operator": "In", "values": [claim] }] }]);
    let required = json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": asked } });
    let spec = json!({ "nodeName": node, "affinity": { "nodeAffinity": required } });
    json!({ "metadata": { "labels": labels }, "spec": spec })
}

#[test]
fn a_pod_whose_job_is_gone_is_held_to_the_claim_that_it_asks_for() {
    let mut run = Run::new(&[]);
    run.put("load", "Node", "n1", node(Some("c1"), true));
    assert_eq!(run.put("world", "Pod", "p", upgrade("gone", "c1", "n1")), [""; 0]);
    let seen = run.put("world", "Pod", "q", upgrade("gone", "c2", "n1"));
    assert_eq!(seen, ["pod q of claim c2 came to n1, which is under claim c1"]);
}

#[test]
fn an_upgrade_on_a_node_that_exists_no_more_takes_nobodys_place() {
    let mut run = Run::new(&[]);
    run.put("load", "Node", "n2", node(Some("c2"), true));
    run.put("world", "Pod", "p", upgrade("a", "c1", "n1"));
    assert_eq!(run.put("world", "Pod", "q", upgrade("b", "c2", "n2")), [""; 0]);

    run.put("load", "Node", "n1", node(Some("c1"), true));
    let seen = run.put("world", "Pod", "r", upgrade("b", "c2", "n2"));
    assert_eq!(seen, ["upgrades are at work on n1, n2, the limit is 1"]);
}

#[test]
fn a_drain_that_goes_past_a_budget_or_to_another_node_is_seen() {
    let mut run = Run::new(&[]);
    run.put("load", "Node", "n1", node(Some("c1"), true));
    run.put("load", "Node", "n2", node(None, false));
    let selector = json!({ "matchLabels": { "app": "web" } });
    run.put("load", "PodDisruptionBudget", "web", json!({ "spec": { "selector": selector } }));
    let ending = |app: &str, node: &str| json!({ "metadata": { "labels": { "app": app }, "deletionTimestamp": NOON }, "spec": { "nodeName": node } });
    assert_eq!(run.evict("n1/drain", "p1", ending("web", "n1")), [""; 0]);
    assert_eq!(run.put("n1/drain", "Pod", "p2", ending("other", "n1")), [""; 0]);
    let seen = run.put("n1/drain", "Pod", "p3", ending("web", "n1"));
    assert_eq!(seen, ["the drain of n1 deleted p3 past its budget"]);
    let seen = run.evict("n1/drain", "p4", ending("web", "n2"));
    assert_eq!(seen[0], "the drain of n1 took p4 away from n2");
    let seen = run.evict("n2/drain", "p5", ending("web", "n2"));
    assert_eq!(seen, ["n2 was drained under no claim"]);
}

#[test]
fn an_epoch_that_is_not_raised_is_seen() {
    let mut run = Run::new(&[]);
    let mut plan = run.known.get("Plan", "", "up").unwrap().clone();
    let claims = json!({ "epoch": 1, "holder": "operator-2", "nodes": { "n1": { "id": "c1" }, "n2": { "id": "c2" } } });
    plan["metadata"]["annotations"]["drover.dev/claims"] = json!(claims.to_string());
    let seen = run.put("operator-2", "Plan", "up", plan);
    assert_eq!(seen, ["operator-2 took over the claims of up in epoch 1 after 1"]);
}

#[test]
fn a_claim_that_ends_while_its_node_is_out_is_seen() {
    let mut run = Run::new(&[]);
    run.put("load", "Node", "n1", node(Some("c1"), true));
    let mut plan = run.known.get("Plan", "", "up").unwrap().clone();
    let claims = json!({ "epoch": 1, "holder": "operator-1", "nodes": {} });
    plan["metadata"]["annotations"]["drover.dev/claims"] = json!(claims.to_string());
    assert_eq!(run.put("operator-1", "Plan", "up", plan), ["operator-1 ended the claim of n1, which is still out"]);
}

#[test]
fn every_reason_to_wait_can_be_told_from_a_pretext() {
    for reason in drover_core::decision::Reason::ALL {
        let plan = json!({
            "metadata": { "name": "up", "uid": "plan" },
            "spec": { "version": "v1", "concurrency": 1 },
            "status": {
                "conditions": [{ "type": "Validated", "status": "True" }],
                "waits": [{ "subject": "Node/n1", "reason": reason.to_string(), "sentence": "" }],
            },
        });
        let known = Known::of_list(&json!({ "items": [{ "kind": "Plan", "metadata": { "name": "up" } }] }));
        let mut known = known;
        known.put(("upgrade.cattle.io", "Plan"), "", "up", Some(Arc::new(plan)));
        let untrue = ends::untrue(&known, NOON.parse().unwrap(), false, false);
        let said = untrue.first().unwrap_or_else(|| panic!("{reason} passes for true in an empty cluster"));
        assert!(!said.contains("nobody knows"), "{reason}: {said}");
    }
}

fn server(voter: &str, reason: &str, ready: &str) -> Value {
    json!({ "metadata": {}, "status": { "conditions": [
        { "type": "Ready", "status": ready }, { "type": "EtcdIsVoter", "status": voter, "reason": reason },
    ] } })
}

fn step(kind: &str, node: &str, status: Value) -> Value {
    let labels = json!({
        "harvesterhci.io/upgrade": "u", "harvesterhci.io/upgradeJobType": kind, "harvesterhci.io/node": node,
    });
    json!({ "metadata": { "labels": labels }, "status": status })
}

fn done() -> Value {
    json!({ "conditions": [{ "type": "Complete", "status": "True" }] })
}

/// Three servers, of which the third is no member of etcd any more.
fn with_two_voters() -> Run {
    let mut run = Run::new(&[]);
    run.put("world", "Node", "n1", server("True", "MemberNotLearner", "True"));
    run.put("world", "Node", "n2", server("True", "MemberNotLearner", "True"));
    run.put("world", "Node", "n3", server("False", "NotAMember", "True"));
    run.later();
    run
}

#[test]
fn a_voter_that_etcd_cannot_do_without_is_seen_to_go() {
    let mut run = with_two_voters();
    let seen = run.put("operator-1", "Job", "u-pre-drain-n1", step("pre-drain", "n1", json!({})));
    assert_eq!(seen, ["n1 was sent on its way, and etcd has 1 of 3 members left without it"]);

    let mut run = with_two_voters();
    assert_eq!(run.put("operator-1", "Job", "u-pre-drain-n3", step("pre-drain", "n3", json!({}))), [""; 0]);

    let mut run = with_two_voters();
    run.put("world", "Node", "n3", server("True", "MemberNotLearner", "True"));
    assert_eq!(run.put("operator-1", "Job", "u-pre-drain-n1", step("pre-drain", "n1", json!({}))), [""; 0]);
}

#[test]
fn a_voter_that_etcd_cannot_do_without_is_seen_to_be_given_to_the_planner_and_to_boot() {
    let answered = |node: &str, annotations: Value| {
        let mut run = with_two_voters();
        run.put("world", "Job", "u-pre-drain", step("pre-drain", node, done()));
        let mut run_upgrade = upgrade_that_says("UpgradingNodes", "{}");
        run_upgrade["status"] = json!({ "nodeStatuses": { node: { "state": "Succeeded" } } });
        run.put("user", "Upgrade", "u", run_upgrade);
        let secret = |annotations: &Value| json!({ "metadata": { "labels": { "rke.cattle.io/node-name": node }, "annotations": annotations } });
        run.put("world", "Secret", "plan", secret(&annotations));
        let mut answer = annotations;
        answer["harvesterhci.io/pre-hook"] = json!("token");
        run.put("operator-1", "Secret", "plan", secret(&answer))
    };
    let asks = json!({ "rke.cattle.io/pre-drain": "token" });
    let given = "n1 was given to the planner, and etcd has 1 of 3 members left without it";
    assert_eq!(answered("n1", asks.clone()), [given]);
    assert_eq!(answered("n3", asks), [""; 0]);
    let drained = json!({ "rke.cattle.io/pre-drain": "token", "rke.cattle.io/drain-done": "token" });
    assert_eq!(answered("n1", drained), [""; 0], "it is out already");

    let ended = |kind: &str, exit_code: &str| {
        let mut run = with_two_voters();
        let annotations = json!({ "corral.drover.dev/reboot": "20s", "corral.drover.dev/exit-code.apply": exit_code });
        let labels = json!({ "harvesterhci.io/upgradeJobType": kind });
        let pod = json!({ "metadata": { "labels": labels, "annotations": annotations }, "spec": { "nodeName": "n1" } });
        run.put("world", "Pod", "u-pod", pod)
    };
    assert_eq!(ended("post-drain", "0"), ["n1 boots, and etcd has 1 of 3 members left without it"]);
    assert_eq!((ended("post-drain", "1"), ended("restore-vm", "0")), (vec![], vec![]));
}

#[test]
fn a_second_node_of_an_upgrade_that_goes_is_seen() {
    let mut run = Run::new(&[]);
    for name in ["n1", "n2"] {
        run.put("world", "Node", name, node(None, false));
    }
    run.put("operator-1", "Job", "u-pre-drain-n1", step("pre-drain", "n1", json!({})));
    let seen = run.put("operator-1", "Job", "u-pre-drain-n2", step("pre-drain", "n2", json!({})));
    assert_eq!(seen, ["n2 was sent on its way while n1 was out"]);
}

#[test]
fn the_last_sound_replica_of_a_volume_is_seen_to_go() {
    let mut run = Run::new(&[]);
    let volume = json!({ "spec": { "numberOfReplicas": 2 }, "status": { "state": "attached" } });
    let replica = |node: &str, failed: &str| json!({ "spec": { "volumeName": "v", "nodeID": node, "healthyAt": "x", "failedAt": failed } });
    run.put("world", "Volume", "v", volume);
    run.put("world", "Replica", "r1", replica("n1", ""));
    run.put("world", "Replica", "r2", replica("n2", "x"));
    run.put("operator-1", "Job", "u-pre-drain-n1", step("pre-drain", "n1", json!({})));
    let seen = run.put("world", "Job", "u-pre-drain-n1", step("pre-drain", "n1", done()));
    assert_eq!(seen, ["n1 is drained, and holds the last sound replica of v"]);
}

#[test]
fn a_vm_that_is_stopped_although_it_could_move_is_seen() {
    let stopped_by = |migratable: &str, ready: &str, before: Value, after: Value| {
        let mut run = Run::new(&[]);
        let conditions = json!([{ "type": "LiveMigratable", "status": migratable }]);
        run.put("world", "Node", "n2", server("True", "MemberNotLearner", ready));
        run.put("world", "VirtualMachineInstance", "vm", json!({ "status": { "conditions": conditions } }));
        run.put("world", "VirtualMachine", "vm", before);
        run.put("n1/steps", "VirtualMachine", "vm", after)
    };
    let stopped = |migratable: &str, ready: &str| {
        let of = |strategy: &str| json!({ "spec": { "runStrategy": strategy } });
        stopped_by(migratable, ready, of("Always"), of("Halted"))
    };
    assert_eq!(stopped("True", "True"), ["vm was stopped on n1, and could have moved"]);
    assert_eq!(
        stopped("True", "Unknown"),
        ["vm was stopped on n1, and could have moved"],
        "n2 may be back in a moment"
    );
    assert_eq!(stopped("False", "True"), [""; 0]);
    let asked =
        |requests: Value| json!({ "spec": { "runStrategy": "Manual" }, "status": { "stateChangeRequests": requests } });
    let by_request = stopped_by("True", "True", asked(json!([])), asked(json!([{ "action": "Stop", "uid": "x" }])));
    assert_eq!(by_request, ["vm was stopped on n1, and could have moved"]);
}

#[test]
fn whoever_plans_machines_takes_one_server_at_a_time_under_its_own_claims_and_none_that_is_paused() {
    let mut run = Run::new(&[]);
    let claims = json!({ "nodes": { "n2": { "id": "c2" }, "n3": { "id": "c3" }, "n4": { "id": "c4" } } }).to_string();
    let plane = json!({ "metadata": { "annotations": { "drover.dev/claims": claims } } });
    run.put("operator-1", "RKEControlPlane", "local", plane);
    let server = |mut node: Value| {
        node["metadata"]["labels"]["node-role.kubernetes.io/etcd"] = json!("true");
        node
    };
    let taken = |id: &str| {
        let mut node = server(node(Some(id), true));
        let mark = json!({ "owner": { "uid": "plane", "kind": "RKEControlPlane" } }).to_string();
        node["metadata"]["annotations"]["drover.dev/claim"] = json!(mark);
        node
    };
    let mut paused = server(node(None, false));
    paused["metadata"]["annotations"]["harvesterhci.io/node-upgrade-pause"] = json!("up");
    // A Plan works on the first one, which stays in service.
    run.put("user", "Node", "n1", server(node(Some("c1"), false)));
    run.put("user", "Node", "n2", server(node(None, false)));
    run.put("user", "Node", "n3", server(node(None, false)));
    run.put("user", "Node", "n4", paused);

    assert_eq!(run.put("operator-1", "Node", "n2", taken("c2")), [""; 0]);
    assert_eq!(run.put("operator-1", "Node", "n3", taken("c3")), ["operator-1 took n3 as server number 2"]);
    run.put("user", "Node", "n2", server(node(None, false)));
    run.put("user", "Node", "n3", server(node(None, false)));
    let strange = "operator-1 took n2 under a claim that does not stand on the control plane";
    assert_eq!(run.put("operator-1", "Node", "n2", taken("c9")), [strange]);
    run.put("user", "Node", "n2", server(node(None, false)));
    assert_eq!(run.put("operator-1", "Node", "n4", taken("c4")), ["operator-1 took n4, which its user has paused"]);
}

/// A Job of an Upgrade with the uid `x`, before a node is drained.
fn job_before_drain(conditions: Value) -> Value {
    let labels = json!({
        "harvesterhci.io/upgrade": "u", "harvesterhci.io/upgradeJobType": "pre-drain", "harvesterhci.io/node": "n1",
    });
    json!({
        "metadata": { "labels": labels, "ownerReferences": [{ "uid": "x" }] }, "status": { "conditions": conditions },
    })
}

fn upgrade_that_says(state: &str, map: &str) -> Value {
    json!({ "metadata": {
        "uid": "x", "labels": { "harvesterhci.io/upgradeState": state },
        "annotations": { "harvesterhci.io/node-upgrade-pause-map": map },
    }})
}

fn marked(mut node: Value) -> Value {
    node["metadata"]["annotations"]["harvesterhci.io/node-upgrade-pause"] = json!("u");
    node
}

#[test]
fn a_node_that_is_sent_on_its_way_although_its_user_has_paused_it_is_seen() {
    let sent = |map: &str| {
        let mut run = Run::new(&[]);
        run.put("operator-1", "Node", "n1", marked(node(None, false)));
        run.put("user", "Upgrade", "u", upgrade_that_says("UpgradingNodes", map));
        run.later();
        run.put("operator-1", "Job", "u-pre-drain-n1", job_before_drain(json!([])))
    };
    assert_eq!(sent(r#"{"n1":"pause"}"#), ["n1 was sent on its way, and its user has paused it"]);
    assert_eq!(sent("garbled"), ["n1 was sent on its way, and its user has paused it"]);
    assert_eq!(sent(r#"{"n1":"unpause"}"#), [""; 0]);
}

#[test]
fn a_node_that_nobody_has_resumed_but_an_operator_is_seen() {
    let by_map = |actor: &str| {
        let mut run = Run::new(&[]);
        run.put("user", "Node", "n1", node(None, false));
        run.put("user", "Upgrade", "u", upgrade_that_says("UpgradingNodes", r#"{"n1":"pause"}"#));
        run.later();
        run.put(actor, "Upgrade", "u", upgrade_that_says("UpgradingNodes", r#"{"n1":"unpause"}"#));
        run.put("operator-1", "Job", "u-pre-drain-n1", job_before_drain(json!([])))
    };
    let by_mark = |actor: &str| {
        let mut run = Run::new(&[]);
        run.put("user", "Node", "n1", marked(node(None, false)));
        run.later();
        run.put(actor, "Node", "n1", node(None, false));
        run.put("operator-1", "Job", "u-pre-drain-n1", job_before_drain(json!([])))
    };
    for seen in [by_map("operator-1"), by_mark("operator-1")] {
        assert_eq!(seen, ["n1 was sent on its way, and its user has paused it"]);
    }
    assert_eq!([by_map("user"), by_mark("user")], [[""; 0], [""; 0]]);
}

#[test]
fn a_planner_that_is_answered_before_the_job_is_done_is_seen() {
    let answered = |conditions: Value| {
        let mut run = Run::new(&[]);
        run.put("user", "Upgrade", "u", upgrade_that_says("UpgradingNodes", "{}"));
        run.put("operator-1", "Job", "u-pre-drain-n1", job_before_drain(json!([])));
        run.put("world", "Job", "u-pre-drain-n1", job_before_drain(conditions));
        let secret = |annotations: Value| json!({ "metadata": { "labels": { "rke.cattle.io/node-name": "n1" }, "annotations": annotations } });
        run.put("world", "Secret", "plan", secret(json!({ "rke.cattle.io/pre-drain": "token" })));
        let answer = json!({ "rke.cattle.io/pre-drain": "token", "harvesterhci.io/pre-hook": "token" });
        run.put("operator-1", "Secret", "plan", secret(answer))
    };
    let early = "the planner was told to go on with n1 before the Job pre-drain was done there";
    assert_eq!(answered(json!([])), [early]);
    assert_eq!(answered(json!([{ "type": "Complete", "status": "True" }])), [""; 0]);
}

#[test]
fn a_success_that_is_told_while_a_job_is_at_work_is_seen() {
    let mut run = Run::new(&[]);
    run.put("user", "Node", "n1", node(None, false));
    run.put("user", "Upgrade", "u", upgrade_that_says("UpgradingNodes", "{}"));
    run.put("operator-1", "Job", "u-pre-drain-n1", job_before_drain(json!([])));
    let seen = run.put("operator-1", "Upgrade", "u", upgrade_that_says("Succeeded", "{}"));
    assert_eq!(seen, ["u is called a success, and its Job u-pre-drain-n1 is at work"]);
}

#[test]
fn a_chart_that_stays_held_after_the_clean_up_is_seen() {
    let cleaned = |paused: bool| {
        let mut run = Run::new(&[]);
        let chart = |paused: bool| json!({ "spec": { "paused": paused } });
        run.put("world", "ManagedChart", "harvester", chart(false));
        run.put("user", "Upgrade", "u", upgrade_that_says("Succeeded", "{}"));
        run.put("n1/steps", "ManagedChart", "harvester", chart(true));
        run.put("operator-1", "ManagedChart", "harvester", chart(paused));
        let mut done = upgrade_that_says("Succeeded", "{}");
        done["metadata"]["labels"]["harvesterhci.io/upgradeCleanup"] = json!("Succeeded");
        run.put("operator-1", "Upgrade", "u", done)
    };
    assert_eq!(cleaned(true), ["u is called cleaned up, and ManagedChart harvester has true, and had false"]);
    assert_eq!(cleaned(false), [""; 0]);
}

#[test]
fn an_update_that_has_failed_and_begins_again_by_itself_is_seen() {
    let begun = |deleted_by: &str| {
        let mut run = Run::new(&[]);
        let job = |conditions: Value, leaves: Value| json!({ "metadata": { "deletionTimestamp": leaves }, "status": { "conditions": conditions } });
        let failed = json!([{ "type": "Failed", "status": "True" }]);
        run.put("world", "Job", "update-1", job(failed.clone(), Value::Null));
        run.put(deleted_by, "Job", "update-1", job(failed, json!(NOON)));
        run.known.put(("", "Job"), "", "update-1", None);
        run.put("operator-1", "Job", "update-1", job(json!([]), Value::Null))
    };
    assert_eq!(begun("operator-1"), ["update-1 has failed, and was begun again by operator-1"]);
    assert_eq!(begun("user"), [""; 0]);
}

#[test]
fn an_operator_that_drives_an_upgrade_beside_another_controller_is_seen() {
    let foreign = |drive: &str| {
        let mut upgrade = upgrade_that_says("UpgradingNodes", "{}");
        let state = json!({ "f:metadata": { "f:labels": { "f:harvesterhci.io/upgradeState": {} } } });
        upgrade["metadata"]["managedFields"] = json!([{ "manager": "harvester", "fieldsV1": state }]);
        upgrade["metadata"]["annotations"]["drover.dev/drive"] = json!(drive);
        upgrade
    };
    let runs = |replicas: i64| json!({ "spec": { "replicas": replicas } });
    let sent = |upgrade: Value, replicas: i64, late: bool| {
        let mut run = Run::new(&[]);
        run.known.put(("apps", "Deployment"), "harvester-system", "harvester", Some(Arc::new(runs(replicas))));
        run.put("user", "Upgrade", "u", upgrade);
        if late {
            run.later();
        }
        let mut job = job_before_drain(json!([]));
        job["metadata"]["labels"]["harvesterhci.io/upgrade"] = json!("u");
        let mut seen = run.put("operator-1", "Job", "u-pre-drain-n1", job);
        seen.retain(|sentence| sentence.contains("drives"));
        seen
    };
    let beside =
        |driver: &str| vec![format!("operator-1 wrote Job u-pre-drain-n1 for an Upgrade that {driver} drives")];
    assert_eq!(sent(foreign("true"), 0, true), beside("harvester"));
    assert_eq!(sent(foreign("true"), 0, false), [""; 0], "it cannot know yet");
    assert_eq!(sent(foreign("harvester"), 3, true), [""; 0]);
    let ours = upgrade_that_says("UpgradingNodes", "{}");
    assert_eq!(sent(ours.clone(), 3, true), beside("Deployment harvester"));
    assert_eq!(sent(ours, 0, true), [""; 0]);
}

/// A control plane of v1.34.1 with two servers and two workers, whose claims are these.
fn control_plane(claims: &Value) -> Value {
    json!({
        "metadata": { "name": "local", "annotations": { "drover.dev/claims": claims.to_string() } },
        "spec": { "kubernetesVersion": "v1.34.1+rke2r1", "upgradeStrategy": { "workerConcurrency": "1" } },
    })
}

fn claimed(names: &[&str]) -> Value {
    let nodes: serde_json::Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), json!({ "id": format!("claim-of-{name}") }))).collect();
    json!({ "epoch": 1, "holder": "operator-1", "nodes": nodes })
}

/// A node that a planner has taken, or not.
fn planned(is_server: bool, version: &str, taken: Option<&str>) -> Value {
    let mut node = node(taken, taken.is_some());
    if is_server {
        node["metadata"]["labels"]["node-role.kubernetes.io/etcd"] = json!("true");
    }
    if taken.is_some() {
        let mark = json!({ "owner": { "kind": "RKEControlPlane", "uid": "plane" }, "cordoned": true });
        node["metadata"]["annotations"]["drover.dev/claim"] = json!(mark.to_string());
    }
    node["status"] = json!({
        "nodeInfo": { "kubeletVersion": version }, "conditions": [{ "type": "Ready", "status": "True" }],
    });
    node
}

fn planner_run(servers: &str) -> Run {
    let mut run = Run::new(&[]);
    run.put("load", "RKEControlPlane", "local", control_plane(&claimed(&[])));
    for (name, is_server) in [("s1", true), ("s2", true), ("w1", false), ("w2", false)] {
        let version = if is_server { servers } else { "v1.33.5+rke2r1" };
        run.put("load", "Node", name, planned(is_server, version, None));
    }
    run
}

#[test]
fn a_planner_that_claims_beyond_a_tiers_limit_or_out_of_turn_is_seen() {
    let (old, new) = ("v1.33.5+rke2r1", "v1.34.1+rke2r1");
    let claims = |servers: &str, claims: Value| {
        planner_run(servers).put("operator-1", "RKEControlPlane", "local", control_plane(&claims))
    };
    assert_eq!(claims(old, claimed(&["s1"])), [""; 0]);
    let second = claims(old, claimed(&["s1", "s2"]));
    assert_eq!(second[0], "operator-1 claimed s1 as number 2 of 1");
    assert_eq!(claims(old, claimed(&["w1"])), ["operator-1 claimed the worker w1 before s1 was done"]);
    assert_eq!(claims(new, claimed(&["w1"])), [""; 0]);
    assert_eq!(
        claims(new, claimed(&["s1", "w1"])),
        ["operator-1 claimed the worker w1 before s1 was done"],
        "a server of the new version may be out once more"
    );
    assert_eq!(claims(new, claimed(&["w1", "w2"]))[0], "operator-1 claimed w1 as number 2 of 1");
    let mut stale = claimed(&["s1"]);
    stale["epoch"] = json!(0);
    assert_eq!(claims(old, stale), ["operator-1 changed the claims of local in an epoch that is not its own"]);
}

#[test]
fn a_planner_that_ends_the_claim_of_a_node_that_is_out_is_seen() {
    let mut run = planner_run("v1.33.5+rke2r1");
    run.put("operator-1", "RKEControlPlane", "local", control_plane(&claimed(&["s1"])));
    let out = planned(true, "v1.33.5+rke2r1", Some("claim-of-s1"));
    assert_eq!(run.put("operator-1", "Node", "s1", out), [""; 0]);
    let seen = run.put("operator-1", "RKEControlPlane", "local", control_plane(&claimed(&[])));
    assert_eq!(seen, ["operator-1 ended the claim of s1, which is still out"]);
}

#[test]
fn a_plan_that_comes_before_the_drain_or_the_answers_or_under_no_claim_is_seen() {
    let token = json!({ "enabled": true, "preDrainHooks": [{ "annotation": "hook" }] }).to_string();
    let secret = |plan: &str, notes: &[&str]| {
        let mut annotations = json!({ "rke.cattle.io/drain-options": token });
        notes.iter().for_each(|note| annotations[*note] = json!(token));
        json!({
            "metadata": { "labels": { "rke.cattle.io/node-name": "s1" }, "annotations": annotations },
            "data": { "plan": plan },
        })
    };
    let delivers = |is_claimed: bool, notes: &[&str]| {
        let mut run = planner_run("v1.33.5+rke2r1");
        if is_claimed {
            run.put("load", "RKEControlPlane", "local", control_plane(&claimed(&["s1"])));
            run.put("load", "Node", "s1", planned(true, "v1.33.5+rke2r1", Some("claim-of-s1")));
        }
        run.put("load", "Secret", "plan", secret("b2xk", notes));
        run.put("operator-1", "Secret", "plan", secret("bmV3", notes))
    };
    let done = ["rke.cattle.io/drain-done", "hook"];
    assert_eq!(delivers(true, &done), [""; 0]);
    assert_eq!(delivers(true, &["hook"]), ["the machine of s1 got its plan before it was drained"]);
    assert_eq!(delivers(true, &done[..1]), ["the machine of s1 got its plan before hook was answered"]);
    assert_eq!(delivers(false, &done), ["the machine of s1 got a plan, and no claim of it stands"]);
}

#[test]
fn a_node_that_is_said_to_be_drained_with_a_pod_on_it_is_seen() {
    let token = json!({ "enabled": true }).to_string();
    let secret = |done: &str| {
        json!({ "metadata": {
            "labels": { "rke.cattle.io/node-name": "s1" },
            "annotations": { "rke.cattle.io/drain-options": token, "rke.cattle.io/drain-done": done },
        } })
    };
    let mut run = planner_run("v1.33.5+rke2r1");
    run.put("load", "Node", "s1", planned(true, "v1.33.5+rke2r1", Some("claim-of-s1")));
    run.put("load", "Secret", "plan", secret(""));
    let pod = json!({
        "metadata": { "ownerReferences": [{ "kind": "ReplicaSet" }] }, "spec": { "nodeName": "s1" }, "status": {},
    });
    run.put("load", "Pod", "shop", pod);
    let seen = run.put("operator-1", "Secret", "plan", secret(&token));
    assert_eq!(seen, ["s1 is said to be drained, and shop is still there"]);
}

#[test]
fn a_node_that_a_planner_gives_back_too_early_is_seen() {
    let gives_back = |applied: &str, asked: &str, ready: &str, is_paused: bool| {
        let mut run = planner_run("v1.33.5+rke2r1");
        run.put("load", "Cluster", "local", json!({ "spec": { "paused": is_paused } }));
        run.put("load", "Node", "s1", planned(true, "v1.33.5+rke2r1", Some("claim-of-s1")));
        let secret = json!({
            "metadata": {
                "labels": { "rke.cattle.io/node-name": "s1" }, "annotations": { "rke.cattle.io/drain-options": asked },
            },
            // `plan`, and the sum of it.
            "data": { "plan": "cGxhbg==", "applied-checksum": applied },
        });
        run.put("load", "Secret", "plan", secret);
        let mut after = planned(true, "v1.34.1+rke2r1", None);
        after["status"]["conditions"][0]["status"] = json!(ready);
        run.put("operator-1", "Node", "s1", after)
    };
    let sum = "NjQ4NzlmN2Q2Yjk2MGEwMTkwOTc2MmQ5MTFhMzJkNDU4MmMyMDAxMGM1NjQxZWU5MDI3OGI2NDRhOWUzYjUyNQ==";
    assert_eq!(gives_back(sum, "", "True", false), [""; 0]);
    assert_eq!(gives_back(sum, "", "False", true), [""; 0], "nothing was done to it yet");
    assert_eq!(gives_back(sum, "", "False", false), ["operator-1 gave s1 back while it was not Ready"]);
    assert_eq!(gives_back(sum, "{}", "True", false), ["operator-1 gave s1 back in the middle of its drain"]);
    assert_eq!(
        gives_back("", "", "True", false),
        ["operator-1 gave s1 back before its machine had carried out its plan"]
    );
}

/// A guest cluster, as its own API server has it.
#[derive(Default)]
struct InGuest {
    checker: Checker,
    known: Known,
}

impl InGuest {
    fn put(&mut self, actor: &str, kind: &str, name: &str, object: Option<Value>, evicted: bool) -> Vec<String> {
        let namespace = if kind == "Node" { "" } else { "default" };
        let before = self.known.put(("", kind), namespace, name, object.map(Arc::new));
        let (at, after) = (NOON.parse().unwrap(), self.known.get(kind, namespace, name));
        let change = Change { at, actor, evicted, kind, namespace, name, before: before.as_deref(), after };
        self.checker.see_guest(&("default".to_owned(), "web".to_owned()), &self.known, &change);
        self.checker.take_violations()
    }

    fn node(&mut self, actor: &str, name: &str, version: &str, cordoned: bool) -> Vec<String> {
        let role =
            if name.starts_with("cp") { json!({ "node-role.kubernetes.io/control-plane": "" }) } else { json!({}) };
        let node = json!({
            "metadata": { "labels": role }, "spec": { "unschedulable": cordoned },
            "status": { "nodeInfo": { "kubeletVersion": version } },
        });
        self.put(actor, "Node", name, Some(node), false)
    }
}

#[test]
fn a_pod_of_a_guest_that_is_deleted_past_its_budget_is_seen() {
    let mut guest = InGuest::default();
    let selector = json!({ "matchLabels": { "app": "web" } });
    guest.put("user", "PodDisruptionBudget", "web", Some(json!({ "spec": { "selector": selector } })), false);
    let pod = |labels: Value| {
        Some(json!({ "metadata": { "labels": labels, "ownerReferences": [{ "kind": "ReplicaSet" }] }, "status": {} }))
    };
    for name in ["a", "b", "c"] {
        guest.put("world", "Pod", name, pod(json!({ "app": "web" })), false);
    }
    guest.put("world", "Pod", "other", pod(json!({})), false);

    assert_eq!(guest.put("control-plane-upgrade", "Pod", "a", None, true), [""; 0]);
    assert_eq!(guest.put("world/machines", "Pod", "b", None, false), [""; 0]);
    assert_eq!(guest.put("operator-1", "Pod", "other", None, false), [""; 0]);
    let seen = guest.put("control-plane-upgrade", "Pod", "c", None, false);
    assert_eq!(seen, ["pod c of the guest cluster was deleted past its budget"]);
}

#[test]
fn a_job_that_cordons_a_node_of_a_guest_without_a_word_or_lifts_another_cordon_is_seen() {
    let mut guest = InGuest::default();
    guest.node("world", "n1", "v1.30.4", false);
    let seen = guest.node("control-plane-upgrade", "n1", "v1.30.4", true);
    assert_eq!(seen, ["Node n1 of the guest cluster is cordoned, and does not say why"]);
    assert_eq!(guest.node("control-plane-upgrade", "n1", "v1.30.4", false), [""; 0], "it was its own");
    guest.node("user", "n1", "v1.30.4", true);
    let seen = guest.node("control-plane-upgrade", "n1", "v1.30.4", false);
    assert_eq!(seen, ["Node n1 of the guest cluster takes pods again, and somebody else had cordoned it"]);
}

#[test]
fn kubelets_and_api_servers_of_a_guest_that_are_too_far_apart_are_seen() {
    let mut guest = InGuest::default();
    let machine = |name: &str| {
        json!({
            "metadata": { "namespace": "default", "labels": { "cluster.x-k8s.io/cluster-name": "web" } },
            "status": { "nodeRef": { "name": name } },
        })
    };
    let mut own = Known::default();
    own.put(("cluster.x-k8s.io", "Machine"), "default", "w1", Some(Arc::new(machine("w1"))));
    let (name, at) = ("w1", NOON.parse().unwrap());
    let after = own.get("Machine", "default", name);
    let change =
        Change { at, actor: "world", evicted: false, kind: "Machine", namespace: "default", name, before: None, after };
    guest.checker.see(&own, &change);

    guest.node("world", "cp1", "v1.30.4", false);
    assert_eq!(guest.node("world", "w1", "v1.28.9", false), [""; 0]);
    assert_eq!(guest.node("world", "cp1", "v1.31.2", false), [""; 0]);
    assert_eq!(
        guest.node("world", "cp2", "v1.33.1", false),
        [
            "API servers of the minor versions 31 and 33 are beside each other",
            "the kubelet of w1 is of the minor version 28, and API servers are of 31 to 33",
        ]
    );
    assert_eq!(
        guest.node("world", "w1", "v1.32.0", false),
        [
            "API servers of the minor versions 31 and 33 are beside each other",
            "the kubelet of w1 is of the minor version 32, and API servers are of 31 to 33",
        ]
    );
}
