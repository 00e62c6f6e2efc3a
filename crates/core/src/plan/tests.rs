//! The way of a node, as sentences.

use std::collections::BTreeMap;

use drover_api::plan::{PlanStatus, conditions};
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::hash::LatestHash;
use super::job::JobSettings;
use super::{Trouble, View, decide, undo_orphaned_marks};
use crate::claims::Claims;
use crate::decision::{Act, Decision, Kind, Purpose, Reason, Wait};
use crate::seen::{JobSeen, NodeSeen, PlanSeen, SecretSeen, Seen};

const ME: &str = "operator-1";

fn noon() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

/// A cluster that tests change by name.
#[derive(Clone)]
struct Cluster {
    plan: Value,
    nodes: BTreeMap<String, Value>,
    jobs: Vec<Value>,
    secrets: Vec<Value>,
    trouble: Vec<Trouble>,
    status_written: Option<Timestamp>,
}

/// Three Ready nodes, none upgraded; a valid Plan to v2, one node at a time, with a cordon. This operator holds the
/// epoch, and the status has been published.
fn three_nodes() -> Cluster {
    let node = |name: &str| {
        json!({
            "metadata": { "name": name, "uid": format!("uid-{name}"), "resourceVersion": "10",
                          "labels": { "kubernetes.io/hostname": format!("host-{name}"), "pool": "a" } },
            "spec": {},
            "status": { "conditions": [{ "type": "Ready", "status": "True" }], "nodeInfo": { "bootID": "boot-1" } },
        })
    };
    let plan = json!({
        "metadata": { "name": "up", "namespace": "system-upgrade", "uid": "uid-up", "resourceVersion": "20", "annotations": {} },
        "spec": { "concurrency": 1, "cordon": true, "version": "v2",
                  "nodeSelector": { "matchLabels": { "pool": "a" } }, "upgrade": { "image": "img" } },
    });
    let cluster = Cluster {
        plan,
        nodes: ["n1", "n2", "n3"].iter().map(|name| ((*name).to_owned(), node(name))).collect(),
        jobs: Vec::new(),
        secrets: Vec::new(),
        trouble: Vec::new(),
        status_written: None,
    };
    cluster.held_by(ME)
}

impl Cluster {
    fn held_by(mut self, holder: &str) -> Self {
        let mut claims = self.claims();
        (claims.epoch, claims.holder) = (1, holder.to_owned());
        self.plan["metadata"]["annotations"]["drover.dev/claims"] = json!(claims.write());
        self
    }

    fn claims(&self) -> Claims {
        Claims::read(self.plan["metadata"]["annotations"]["drover.dev/claims"].as_str())
    }

    fn spec(mut self, field: &str, value: Value) -> Self {
        self.plan["spec"][field] = value;
        self
    }

    /// The node stands in the Plan's claims.
    fn claimed(mut self, node: &str) -> Self {
        let mut claims = self.claims();
        let claim = json!({ "id": format!("claim-{node}"), "owner": "uid-up", "since": "2026-01-01T11:00:00Z" });
        claims.nodes.insert(node.to_owned(), serde_json::from_value(claim).unwrap());
        self.plan["metadata"]["annotations"]["drover.dev/claims"] = json!(claims.write());
        self
    }

    /// The node is claimed, marked and cordoned by us.
    fn taken(self, node: &str) -> Self {
        let mut cluster = self.claimed(node).marked(node, "uid-up", true);
        cluster.nodes.get_mut(node).unwrap()["spec"] = json!({ "unschedulable": true });
        cluster
    }

    fn marked(mut self, node: &str, owner: &str, cordoned: bool) -> Self {
        let object = self.nodes.get_mut(node).unwrap();
        object["metadata"]["labels"]["drover.dev/claim"] = json!(format!("claim-{node}"));
        let owner = json!({ "kind": "Plan", "namespace": "system-upgrade", "name": "up", "uid": owner });
        let mark = json!({ "owner": owner, "cordoned": cordoned });
        object["metadata"]["annotations"] = json!({ "drover.dev/claim": mark.to_string() });
        self
    }

    fn job_end_noted(mut self, node: &str, boot: &str) -> Self {
        let annotation = &mut self.nodes.get_mut(node).unwrap()["metadata"]["annotations"]["drover.dev/claim"];
        let mut mark: Value = serde_json::from_str(annotation.as_str().unwrap()).unwrap();
        mark["jobEndedInBoot"] = json!(boot);
        *annotation = json!(mark.to_string());
        self
    }

    fn label(mut self, node: &str, key: &str, value: &str) -> Self {
        self.nodes.get_mut(node).unwrap()["metadata"]["labels"][key] = json!(value);
        self
    }

    fn updated(self, node: &str) -> Self {
        let hash = hash();
        self.label(node, "plan.upgrade.cattle.io/up", &hash)
    }

    fn cordoned_by_somebody(mut self, node: &str) -> Self {
        self.nodes.get_mut(node).unwrap()["spec"] = json!({ "unschedulable": true });
        self
    }

    fn not_ready(mut self, node: &str) -> Self {
        self.nodes.get_mut(node).unwrap()["status"]["conditions"][0]["status"] = json!("Unknown");
        self
    }

    fn rebooted(mut self, node: &str) -> Self {
        self.nodes.get_mut(node).unwrap()["status"]["nodeInfo"]["bootID"] = json!("boot-2");
        self
    }

    /// A Job of the current version and hash under the claim `claim-<node>`.
    fn job(self, node: &str, condition: &str) -> Self {
        let claim = format!("claim-{node}");
        self.job_under(Some(&claim), node, "v2", condition)
    }

    fn job_under(mut self, claim: Option<&str>, node: &str, version: &str, condition: &str) -> Self {
        let mut labels = json!({
            "upgrade.cattle.io/plan": "up", "upgrade.cattle.io/node": node, "upgrade.cattle.io/version": version,
            "plan.upgrade.cattle.io/up": if version == "v2" { hash() } else { format!("hash-of-{version}") },
        });
        if let Some(claim) = claim {
            labels["drover.dev/claim"] = json!(claim);
        }
        let conditions = match condition {
            "" => json!([]),
            kind => {
                json!([{ "type": kind, "status": "True", "reason": "BackoffLimitExceeded", "message": "too often" }])
            }
        };
        let name =
            super::names::job("up", node, &LatestHash::of_test(labels["plan.upgrade.cattle.io/up"].as_str().unwrap()));
        self.jobs.push(json!({
            "metadata": { "name": name, "namespace": "system-upgrade", "uid": format!("uid-job-{node}-{version}"),
                          "resourceVersion": "30", "labels": labels },
            "spec": {}, "status": { "conditions": conditions },
        }));
        self
    }

    fn published(mut self) -> Self {
        for _ in 0..2 {
            let decision = self.decide();
            let status = decision.writes().find_map(|write| match &write.act {
                Act::PatchStatus(patch) => Some(patch["status"].clone()),
                _ => None,
            });
            if let Some(mut status) = status {
                status.as_object_mut().unwrap().retain(|_, value| !value.is_null());
                self.plan["status"] = status;
            }
        }
        self
    }

    fn decide(&self) -> Decision {
        self.decide_at(noon())
    }

    fn decide_at(&self, now: Timestamp) -> Decision {
        self.view(|view| decide(view, now))
    }

    fn view<T>(&self, look: impl FnOnce(&View<'_>) -> T) -> T {
        let decode = |kind: Kind, json: &Value| Seen::decode(kind, json.to_string().as_bytes()).unwrap().unwrap();
        let plan: PlanSeen = match decode(Kind::Plan, &self.plan) {
            Seen::Plan(plan) => *plan,
            _ => unreachable!(),
        };
        let nodes: BTreeMap<String, NodeSeen> = self
            .nodes
            .iter()
            .map(|(name, json)| match decode(Kind::Node, json) {
                Seen::Node(node) => (name.clone(), node),
                _ => unreachable!(),
            })
            .collect();
        let jobs: Vec<JobSeen> = self
            .jobs
            .iter()
            .map(|json| match decode(Kind::Job, json) {
                Seen::Job(job) => job,
                _ => unreachable!(),
            })
            .collect();
        let secrets: BTreeMap<String, SecretSeen> = self
            .secrets
            .iter()
            .map(|json| match decode(Kind::Secret, json) {
                Seen::Secret(secret) => (secret.meta.name.clone(), secret),
                _ => unreachable!(),
            })
            .collect();
        look(&View {
            me: ME,
            plan: &plan,
            nodes: &nodes,
            jobs: jobs.iter().collect(),
            secrets: &secrets,
            settings: &JobSettings::default(),
            status_written: self.status_written,
            trouble: self.trouble.clone(),
        })
    }
}

/// Only the version counts: no service account, no digest, no Secrets.
fn hash() -> String {
    sha2::Sha224::digest("v2").iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is done to nodes and Jobs: purpose and object.
fn acts(decision: &Decision) -> Vec<(Purpose, String)> {
    let told = [Purpose::PublishStatus, Purpose::Announce];
    let acts = decision.writes().filter(|write| !told.contains(&write.purpose));
    acts.map(|write| (write.purpose, write.subject.name.clone())).collect()
}

fn patch(decision: &Decision, purpose: Purpose) -> Value {
    let write = decision.writes().find(|write| write.purpose == purpose).expect("the write");
    match &write.act {
        Act::Patch(patch) | Act::PatchStatus(patch) => patch.clone(),
        other => panic!("{other:?} is no patch"),
    }
}

fn claimed_nodes(decision: &Decision) -> Vec<String> {
    let text = patch(decision, Purpose::ClaimNodes)["metadata"]["annotations"]["drover.dev/claims"].clone();
    Claims::read(text.as_str()).nodes.into_keys().collect()
}

fn reasons(decision: &Decision) -> Vec<Reason> {
    decision.waits.iter().map(|wait| wait.reason).collect()
}

fn new_status(decision: &Decision) -> PlanStatus {
    let mut status = patch(decision, Purpose::PublishStatus)["status"].clone();
    status.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    serde_json::from_value(status).unwrap()
}

fn condition(status: &PlanStatus, type_: &str) -> (String, String, String) {
    let found = status.conditions.iter().find(|condition| condition.type_ == type_).expect("the condition");
    (found.status.clone(), found.reason.clone(), found.message.clone())
}

#[test]
fn a_new_leader_raises_the_epoch_before_it_does_anything_else() {
    let decision = three_nodes().taken("n1").held_by("operator-0").decide();

    assert_eq!(acts(&decision), [(Purpose::RaiseEpoch, "up".to_owned())]);
    let text = patch(&decision, Purpose::RaiseEpoch)["metadata"]["annotations"]["drover.dev/claims"].clone();
    let claims = Claims::read(text.as_str());
    assert_eq!((claims.epoch, claims.holder.as_str()), (2, ME));
    assert_eq!(claims.nodes.into_keys().collect::<Vec<_>>(), ["n1"]);
}

#[test]
fn a_leader_with_nothing_to_do_leaves_the_epoch_alone() {
    let done = three_nodes().held_by("operator-0").updated("n1").updated("n2").updated("n3").published();
    assert_eq!(done.decide().stages, Vec::<Vec<_>>::new());
}

#[test]
fn one_node_is_claimed_and_the_others_wait_for_it() {
    let decision = three_nodes().decide();

    assert_eq!(acts(&decision), [(Purpose::ClaimNodes, "up".to_owned())]);
    assert_eq!(claimed_nodes(&decision).len(), 1);
    assert_eq!(reasons(&decision), [Reason::ConcurrencyReached]);
}

#[test]
fn the_claim_is_guarded_by_the_version_of_the_plan_it_was_decided_on() {
    assert_eq!(patch(&three_nodes().decide(), Purpose::ClaimNodes)["metadata"]["resourceVersion"], "20");
}

#[test]
fn as_many_nodes_are_claimed_at_once_as_the_plan_allows() {
    assert_eq!(claimed_nodes(&three_nodes().spec("concurrency", json!(2)).decide()).len(), 2);
    assert_eq!(claimed_nodes(&three_nodes().spec("concurrency", json!(9)).decide()), ["n1", "n2", "n3"]);
}

#[test]
fn nodes_take_turns_in_the_order_of_their_digests() {
    let cluster = three_nodes();
    let turn = |name: &str| Sha256::digest(format!("uid-{name}uid-up{}", hash())).to_vec();
    let mut names = ["n1", "n2", "n3"];
    names.sort_by_key(|name| turn(name));

    assert_eq!(claimed_nodes(&cluster.decide()), [names[0]]);
}

#[test]
fn a_claimed_node_is_marked_and_cordoned_in_one_patch() {
    let decision = three_nodes().claimed("n1").decide();

    assert_eq!(acts(&decision), [(Purpose::TakeNode, "n1".to_owned())]);
    let patch = patch(&decision, Purpose::TakeNode);
    assert_eq!(patch["metadata"]["resourceVersion"], "10");
    assert_eq!(patch["metadata"]["labels"]["drover.dev/claim"], "claim-n1");
    assert_eq!(patch["spec"]["unschedulable"], true);
}

#[test]
fn without_a_cordon_in_the_plan_the_node_stays_schedulable() {
    let decision = three_nodes().spec("cordon", json!(false)).claimed("n1").decide();
    assert_eq!(patch(&decision, Purpose::TakeNode)["spec"], Value::Null);
}

#[test]
fn a_taken_node_gets_its_job_which_requires_the_claim() {
    let decision = three_nodes().taken("n1").decide();

    let [(Purpose::CreateJob, name)] = &acts(&decision)[..] else { panic!("{:?}", acts(&decision)) };
    assert!(name.starts_with("apply-up-on-n1-with-"), "{name}");
    let job = decision.writes().find_map(|write| match &write.act {
        Act::Create(job) if write.purpose == Purpose::CreateJob => Some(job.to_string()),
        _ => None,
    });
    assert!(job.unwrap().contains(r#"{"key":"drover.dev/claim","operator":"In","values":["claim-n1"]}"#));
}

#[test]
fn while_the_job_runs_nothing_is_done() {
    let decision = three_nodes().taken("n1").job("n1", "").published().decide();

    assert_eq!(acts(&decision), []);
    assert_eq!(reasons(&decision), [Reason::JobRunning, Reason::ConcurrencyReached]);
}

#[test]
fn the_boot_that_the_job_ended_in_is_noted_before_the_node_is_released() {
    let ended = three_nodes().taken("n1").job("n1", "Complete");
    assert_eq!(acts(&ended.decide()), [(Purpose::NoteJobEnd, "n1".to_owned())]);
    assert_eq!(acts(&ended.clone().job_end_noted("n1", "boot-1").decide()), [(Purpose::ReleaseNode, "n1".to_owned())]);
    // It rebooted after the Job's end: it has to be Ready in the new boot.
    let rebooted = ended.job_end_noted("n1", "boot-1").rebooted("n1");
    assert_eq!(acts(&rebooted.decide()), [(Purpose::NoteJobEnd, "n1".to_owned())]);
}

#[test]
fn a_node_is_released_with_its_result_in_one_patch() {
    let cluster = three_nodes().taken("n1").job("n1", "Complete").job_end_noted("n1", "boot-1");
    let patch = patch(&cluster.decide(), Purpose::ReleaseNode);

    assert_eq!(patch["metadata"]["resourceVersion"], "10");
    assert_eq!(patch["metadata"]["labels"]["drover.dev/claim"], Value::Null);
    assert!(patch["metadata"]["labels"].as_object().unwrap().contains_key("drover.dev/claim"));
    assert_eq!(patch["metadata"]["labels"]["plan.upgrade.cattle.io/up"], hash());
    assert!(patch["spec"].as_object().unwrap().contains_key("unschedulable"));
}

#[test]
fn a_node_that_somebody_else_cordoned_stays_cordoned() {
    let taken = three_nodes().cordoned_by_somebody("n1").claimed("n1").decide();
    assert_eq!(patch(&taken, Purpose::TakeNode)["spec"], Value::Null);

    let ended = three_nodes().claimed("n1").marked("n1", "uid-up", false).cordoned_by_somebody("n1");
    let released = ended.job("n1", "Complete").job_end_noted("n1", "boot-1").decide();
    assert_eq!(patch(&released, Purpose::ReleaseNode)["spec"], Value::Null);
}

#[test]
fn the_next_node_waits_until_the_last_is_ready_again() {
    let cluster = three_nodes().taken("n1").job("n1", "Complete").job_end_noted("n1", "boot-1").not_ready("n1");
    let decision = cluster.published().decide();

    assert_eq!(acts(&decision), []);
    assert_eq!(reasons(&decision), [Reason::NodeNotReady, Reason::ConcurrencyReached]);
}

#[test]
fn a_released_node_gives_its_place_to_the_next_in_one_write() {
    let decision = three_nodes().claimed("n1").updated("n1").updated("n2").job("n1", "Complete").decide();

    assert_eq!(acts(&decision), [(Purpose::ClaimNodes, "up".to_owned())]);
    assert_eq!(claimed_nodes(&decision), ["n3"]);
}

#[test]
fn a_failed_node_stays_out_and_says_why() {
    let cluster = three_nodes().taken("n1").job("n1", "Failed");
    let decision = cluster.decide();

    assert_eq!(acts(&decision), []);
    assert_eq!(reasons(&decision), [Reason::JobFailed, Reason::ConcurrencyReached]);
    assert!(decision.waits[0].remedy.as_ref().unwrap().contains("kubectl delete job -n system-upgrade apply-up-on-n1"));
    let (status, reason, message) = condition(&new_status(&decision), conditions::COMPLETE);
    assert_eq!((status.as_str(), reason.as_str()), ("False", "JobFailed"));
    assert!(message.ends_with("failed on Node n1: BackoffLimitExceeded: too often"), "{message}");
}

#[test]
fn a_job_that_somebody_deleted_is_made_again() {
    assert_eq!(acts(&three_nodes().taken("n1").decide())[0].0, Purpose::CreateJob);
}

#[test]
fn a_dead_leaders_job_is_deleted_by_its_uid() {
    let decision = three_nodes().updated("n1").job_under(Some("claim-of-the-dead"), "n1", "v2", "").decide();
    let delete = decision.writes().find(|write| write.purpose == Purpose::DeleteJob).unwrap();

    assert_eq!(delete.act, Act::Delete { uid: "uid-job-n1-v2".to_owned() });
}

#[test]
fn a_finished_job_of_an_earlier_claim_makes_room_for_the_new_one() {
    let decision = three_nodes().taken("n1").job_under(Some("claim-before"), "n1", "v2", "Complete").decide();
    assert_eq!(acts(&decision)[0].0, Purpose::DeleteJob);
    assert!(reasons(&decision).contains(&Reason::JobBeingDeleted));
}

#[test]
fn a_running_job_of_another_version_is_replaced() {
    let decision = three_nodes().taken("n1").job_under(Some("claim-n1"), "n1", "v1", "").decide();
    assert_eq!(acts(&decision)[0].0, Purpose::DeleteJob);
}

#[test]
fn a_job_that_another_controller_made_keeps_hands_off_the_whole_plan() {
    let decision = three_nodes().job_under(None, "n2", "v2", "").decide();
    assert_eq!(decision.stages, Vec::<Vec<_>>::new());
    assert_eq!(reasons(&decision), [Reason::AnotherControllerActs]);
}

#[test]
fn marks_that_the_annotation_lost_count_as_claims() {
    let cluster = three_nodes().marked("n2", "uid-up", false);
    assert_eq!(claimed_nodes(&cluster.decide()), ["n2"]);
}

#[test]
fn a_node_that_another_plan_took_is_left_to_it() {
    let decision = three_nodes().marked("n1", "uid-other", false).updated("n2").updated("n3").published().decide();
    assert_eq!(acts(&decision), []);
    assert_eq!(reasons(&decision), [Reason::NodeClaimedByAnother]);
}

#[test]
fn a_node_that_is_not_ready_is_not_taken_and_holds_no_place() {
    let decision = three_nodes().not_ready("n1").not_ready("n2").decide();
    assert_eq!(claimed_nodes(&decision), ["n3"]);
    assert_eq!(reasons(&decision), [Reason::NodeNotReady, Reason::NodeNotReady]);
}

#[test]
fn a_claim_that_is_no_longer_wanted_is_fenced_before_it_ends() {
    let cluster = three_nodes().claimed("n1").label("n1", "pool", "b");
    assert_eq!(acts(&cluster.decide())[0], (Purpose::FenceNode, "n1".to_owned()));
    assert_eq!(patch(&cluster.decide(), Purpose::FenceNode)["spec"], Value::Null);

    // Nothing on the Node will tell that it was released: the claim ends in the same batch, right after it.
    let decision = cluster.marked("n1", "uid-up", false).decide();
    let purposes: Vec<Purpose> = acts(&decision).into_iter().map(|(purpose, _)| purpose).collect();
    assert_eq!(purposes, [Purpose::ReleaseNode, Purpose::ClaimNodes]);
    assert_eq!(claimed_nodes(&decision).len(), 1);
    assert!(!claimed_nodes(&decision).contains(&"n1".to_owned()));
}

#[test]
fn a_node_taken_out_of_the_plan_finishes_what_runs_on_it() {
    let cluster = three_nodes().taken("n1").label("n1", "pool", "b").job("n1", "");
    assert_eq!(acts(&cluster.published().decide()), []);
}

#[test]
fn a_vanished_node_gives_its_place_back() {
    let mut cluster = three_nodes().taken("n1").updated("n2");
    cluster.nodes.remove("n1");
    assert_eq!(claimed_nodes(&cluster.decide()), ["n3"]);
}

#[test]
fn a_closed_window_keeps_further_nodes_waiting_and_lets_the_ones_out_go_on() {
    // Noon of a Thursday.
    let evening = json!({ "days": ["th"], "startTime": "18:00", "endTime": "22:00" });
    let closed = three_nodes().spec("window", evening).decide();
    assert_eq!(acts(&closed), []);
    assert_eq!(reasons(&closed), [Reason::WindowClosed]);
    assert_eq!(condition(&new_status(&closed), conditions::COMPLETE).1, "Waiting");
    assert!(closed.look_again.is_some());

    let evening = json!({ "days": ["th"], "startTime": "18:00", "endTime": "22:00" });
    assert_eq!(acts(&three_nodes().spec("window", evening).taken("n1").decide())[0].0, Purpose::CreateJob);
    let open = json!({ "days": ["th"], "startTime": "11:00", "endTime": "13:00" });
    assert_eq!(acts(&three_nodes().spec("window", open).decide())[0].0, Purpose::ClaimNodes);
}

#[test]
fn what_this_release_does_not_do_is_refused_before_a_node_is_touched() {
    let decision = three_nodes().spec("postCompleteLabels", json!({ "a": "b" })).decide();
    assert_eq!(acts(&decision), []);
    assert!(condition(&new_status(&decision), conditions::VALIDATED).2.contains("not supported by this release"));
}

#[test]
fn of_two_nodes_with_one_short_name_the_second_waits_for_the_firsts_job() {
    let mut cluster = three_nodes().spec("concurrency", json!(2));
    for name in ["n9.a", "n9.b"] {
        let mut node = cluster.nodes["n1"].clone();
        node["metadata"]["name"] = json!(name);
        cluster.nodes.insert(name.to_owned(), node);
    }
    let decision = cluster.taken("n9.a").taken("n9.b").job("n9.a", "").decide();
    assert_eq!(acts(&decision), []);
    assert!(reasons(&decision).contains(&Reason::JobBeingDeleted));
}

#[test]
fn a_disabled_node_is_not_selected() {
    let cluster = three_nodes().label("n1", "plan.upgrade.cattle.io/up", "disabled").updated("n2").updated("n3");
    let status = new_status(&cluster.decide());
    assert_eq!(status.counts.unwrap().selected, 2);
    assert_eq!(condition(&status, conditions::COMPLETE).0, "True");
}

#[test]
fn a_plan_without_concurrency_is_invalid_and_never_complete() {
    let decision = three_nodes().spec("concurrency", json!(0)).decide();

    assert_eq!(acts(&decision), []);
    let status = new_status(&decision);
    assert_eq!(condition(&status, conditions::VALIDATED).0, "False");
    let (complete, reason, message) = condition(&status, conditions::COMPLETE);
    assert_eq!((complete.as_str(), reason.as_str()), ("False", "NotReady"));
    assert_eq!(message, "plan is not valid and resolved");
}

#[test]
fn a_plan_that_cannot_be_decoded_says_so_itself() {
    let decision = three_nodes().spec("postCompleteDelay", json!({ "five": "minutes" })).decide();

    assert_eq!(reasons(&decision)[0], Reason::PlanInvalid);
    let (status, reason, message) = condition(&new_status(&decision), conditions::VALIDATED);
    assert_eq!((status.as_str(), reason.as_str()), ("False", "Error"));
    assert!(message.starts_with("spec cannot be read: "), "{message}");
}

#[test]
fn a_missing_secret_is_a_state_that_keeps_the_last_good_hash() {
    let secrets = json!([{ "name": "ca", "path": "/ca" }]);
    let decision = three_nodes().taken("n1").job("n1", "").published().spec("secrets", secrets).decide();

    assert_eq!(acts(&decision), []);
    assert_eq!(reasons(&decision)[0], Reason::SecretNotFound);
    let status = new_status(&decision);
    assert_eq!(condition(&status, conditions::VALIDATED).2, r#"secrets "ca" not found"#);
    assert_eq!(status.latest_hash, hash());
}

#[test]
fn a_plan_without_version_and_channel_is_unresolved() {
    let decision = three_nodes().spec("version", json!("")).decide();
    let (status, reason, message) = condition(&new_status(&decision), conditions::LATEST_RESOLVED);
    assert_eq!((status.as_str(), reason.as_str()), ("False", "Error"));
    assert_eq!(message, "cannot resolve plan: missing channel and version");
}

#[test]
fn the_status_mirrors_the_claims_by_hostname() {
    let status = new_status(&three_nodes().taken("n1").job("n1", "").decide());
    assert_eq!(status.applying, ["host-n1"]);
    let counts = status.counts.unwrap();
    assert_eq!((counts.selected, counts.updated, counts.applying, counts.waiting, counts.failed), (3, 0, 1, 2, 0));
    assert_eq!(condition(&status, conditions::COMPLETE).1, "SyncJob");
}

#[test]
fn a_finished_plan_is_complete_and_quiet() {
    let done = three_nodes().updated("n1").updated("n2").updated("n3");
    let status = new_status(&done.decide());
    assert_eq!(condition(&status, conditions::COMPLETE), ("True".into(), "Complete".into(), String::new()));

    assert_eq!(done.published().decide(), Decision::default());
}

#[test]
fn a_wiped_status_is_written_again_from_the_facts() {
    let cluster = three_nodes().taken("n1").job("n1", "").published();
    let mut wiped = cluster.clone();
    wiped.plan["status"] = json!({});

    let status = new_status(&wiped.decide());
    assert_eq!(json!(status), cluster.plan["status"]);
}

#[test]
fn a_wait_keeps_the_moment_it_began() {
    let later = "2026-01-01T13:00:00Z".parse().unwrap();
    let decision = three_nodes().taken("n1").job("n1", "").published().decide_at(later);
    assert_eq!(decision.waits.iter().map(|wait| wait.since).collect::<Vec<_>>(), [noon(), noon()]);
}

#[test]
fn a_wait_keeps_its_beginning_even_if_the_installed_definition_prunes_the_list() {
    let mut cluster = three_nodes().taken("n1").job("n1", "").published();
    cluster.plan["status"].as_object_mut().unwrap().remove("waits");
    let decision = cluster.decide_at("2026-01-01T13:00:00Z".parse().unwrap());
    assert_eq!(decision.waits[0].since, noon());
}

#[test]
fn the_status_is_written_at_most_once_a_second() {
    let mut cluster = three_nodes().taken("n1").job("n1", "");
    cluster.status_written = Some(noon());
    let decision = cluster.decide_at("2026-01-01T12:00:00.4Z".parse().unwrap());

    assert_eq!(decision.stages, Vec::<Vec<_>>::new());
    assert_eq!(decision.look_again, Some("2026-01-01T12:00:01Z".parse().unwrap()));
}

#[test]
fn a_refused_write_is_published_before_it_is_tried_again() {
    let mut cluster = three_nodes().claimed("n1").published();
    let sentence = "cannot patch Node/n1: forbidden".to_owned();
    cluster.trouble = vec![Trouble { reason: Reason::NoPermission, sentence, remedy: None, blind: false }];
    let decision = cluster.decide();

    assert!(reasons(&decision).contains(&Reason::NoPermission));
    let purposes: Vec<Purpose> = decision.writes().map(|write| write.purpose).collect();
    assert_eq!(purposes, [Purpose::PublishStatus, Purpose::TakeNode]);
}

#[test]
fn who_cannot_see_the_nodes_says_so_and_touches_nothing_else() {
    let mut cluster = three_nodes().taken("n1").job("n1", "").published();
    let sentence = "cannot watch nodes: forbidden".to_owned();
    cluster.trouble = vec![Trouble { reason: Reason::NoPermission, sentence, remedy: None, blind: true }];
    let decision = cluster.decide();

    assert_eq!(acts(&decision), []);
    assert_eq!(new_status(&decision).applying, ["host-n1"]);
}

#[test]
fn events_tell_each_transition_once() {
    let reasons_of = |decision: &Decision| -> Vec<String> {
        let events = decision.writes().filter(|write| write.purpose == Purpose::Announce);
        events
            .map(|write| match &write.act {
                Act::Create(event) => event["reason"].as_str().unwrap().to_owned(),
                other => panic!("{other:?}"),
            })
            .collect()
    };
    let cluster = three_nodes().taken("n1").job("n1", "");
    assert_eq!(reasons_of(&cluster.decide()), ["Validated", "Resolved", "SyncJob"]);
    assert_eq!(reasons_of(&cluster.published().decide()), Vec::<String>::new());
}

#[test]
fn a_repeated_decision_announces_under_the_same_name() {
    let names = |decision: Decision| -> Vec<String> {
        let events = decision
            .writes()
            .filter(|write| write.purpose == Purpose::Announce)
            .map(|write| write.subject.name.clone());
        events.collect()
    };
    let cluster = three_nodes().taken("n1").job("n1", "");
    let later = "2026-01-01T12:01:00Z".parse().unwrap();
    assert_eq!(names(cluster.decide()), names(cluster.decide_at(later)));
}

#[test]
fn a_plan_that_is_being_deleted_is_left_alone() {
    let mut cluster = three_nodes();
    cluster.plan["metadata"]["deletionTimestamp"] = json!("2026-01-01T11:00:00Z");
    assert_eq!(cluster.decide().stages, Vec::<Vec<_>>::new());
}

#[test]
fn marks_of_a_deleted_plan_are_undone_once_its_job_is_gone() {
    let running = three_nodes().taken("n1").job("n1", "");
    let orphans = |cluster: &Cluster, plans: &[&str]| {
        cluster.view(|view| {
            let jobs = view.jobs.iter().copied();
            undo_orphaned_marks("system-upgrade", &plans.iter().copied().collect(), view.nodes, jobs)
        })
    };
    assert_eq!(orphans(&running, &["uid-up"]), []);
    assert_eq!(orphans(&running, &[]), []);

    let writes = orphans(&three_nodes().taken("n1"), &[]);
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].purpose, Purpose::UndoMarks);
    let Act::Patch(patch) = &writes[0].act else { panic!() };
    assert!(patch["spec"].as_object().unwrap().contains_key("unschedulable"));
}

#[test]
fn a_wait_reads_the_same_for_as_long_as_it_lasts() {
    let sentences = |decision: Decision| decision.waits.into_iter().map(|wait: Wait| wait.sentence).collect::<Vec<_>>();
    let cluster = three_nodes().taken("n1").job("n1", "");
    let later = "2026-01-01T12:07:00Z".parse().unwrap();
    assert_eq!(sentences(cluster.decide()), sentences(cluster.decide_at(later)));
}
