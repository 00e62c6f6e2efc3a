//! Many clusters: a limit, and an order.

use std::collections::BTreeMap;

use serde_json::json;

use super::super::between::{Predecessor, Standing};
use super::super::places::Places;
use super::super::verbs;
use super::super::*;
use super::{NEW, Scene, pods, settled};
use crate::decision::Act;

const TAKE: &str = "take a place among the clusters";
const GIVE: &str = "give a place back";
const PUBLISH: &str = "publish how far a cluster is";

/// Who is updated now.
pub struct Turns {
    pub limit: usize,
    pub me: &'static str,
    pub map: Option<Value>,
    pub clusters: BTreeMap<String, String>,
}

impl Turns {
    pub fn places(&self) -> Places<'_> {
        Places { map: self.map.as_ref(), limit: self.limit, me: self.me, clusters: &self.clusters }
    }

    pub fn perform(&mut self, act: &Act, revision: u64) {
        match act {
            Act::Create(map) => self.map = Some(map.clone()),
            Act::Patch(patch) => {
                let map = self.map.as_mut().unwrap();
                assert_eq!(patch["metadata"]["resourceVersion"], map["metadata"]["resourceVersion"]);
                json_patch::merge(map, patch);
            }
            other => panic!("{other:?}"),
        }
        self.map.as_mut().unwrap()["metadata"]["resourceVersion"] = json!(revision.to_string());
    }

    fn taken(&self) -> Vec<String> {
        let said = self.map.as_ref().map_or("{}", |map| text(&map["metadata"]["annotations"]["drover.dev/claims"]));
        let taken: Value = serde_json::from_str(said).unwrap();
        taken["clusters"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
    }
}

/// One at a time; `taken` are at work.
fn limited(mut scene: Scene, limit: usize, taken: &[&str]) -> Scene {
    let uid = |name: &str| if name == "default/my-tkc" { "tkc".to_owned() } else { format!("uid of {name}") };
    let names = ["default/my-tkc", "default/other", "team/third"];
    let entry =
        |name: &&str| (name.to_string(), json!({ "uid": uid(name), "by": "a", "since": "2026-01-01T11:00:00Z" }));
    let said = json!({ "clusters": taken.iter().map(entry).collect::<BTreeMap<String, Value>>() });
    scene.turns = Some(Turns {
        limit,
        me: "a",
        map: Some(
            json!({ "metadata": { "resourceVersion": "1", "annotations": { "drover.dev/claims": said.to_string() } } }),
        ),
        clusters: names.iter().map(|name| ((*name).to_owned(), uid(name))).collect(),
    });
    scene
}

impl Scene {
    fn taken(&self) -> Vec<String> {
        self.turns.as_ref().unwrap().taken()
    }
}

#[test]
fn a_cluster_takes_its_place_before_it_begins_and_its_job_begins_by_a_write_of_its_own() {
    let mut scene = limited(settled().asks_for(NEW), 1, &[]);

    assert_eq!(scene.goes_on(), [PUBLISH, TAKE]);
    assert_eq!(scene.taken(), ["default/my-tkc"]);
    assert_eq!(scene.goes_on(), ["begin the update of a control plane"]);
    assert_eq!(scene.job()["spec"]["parallelism"], 0, "one that is made late must not begin by itself");
    assert_eq!(scene.goes_on(), ["let the update of a control plane begin"]);
    assert_eq!(scene.job()["spec"]["parallelism"], 1);
    assert_eq!(scene.reasons(), [Reason::ControlPlaneUpdating, Reason::ControlPlaneFirst]);
}

#[test]
fn the_first_place_of_all_makes_the_config_map() {
    let mut scene = limited(settled().asks_for(NEW), 1, &[]);
    scene.turns.as_mut().unwrap().map = None;

    assert_eq!(scene.goes_on(), [PUBLISH, TAKE]);
    assert_eq!(scene.taken(), ["default/my-tkc"]);
}

#[test]
fn a_cluster_that_finds_no_place_waits_and_names_those_at_work() {
    let mut scene = limited(settled().asks_for(NEW), 2, &["default/other", "team/third"]);

    assert_eq!(scene.goes_on(), [PUBLISH]);
    assert_eq!(scene.goes_on(), [""; 0]);
    let decision = scene.decide();
    let wait = decision.waits.iter().find(|wait| wait.reason == Reason::AnotherClusterFirst).unwrap();
    assert_eq!(wait.sentence, "as many clusters are updated as may be at once: default/other, team/third");
    assert_eq!(scene.phase(), "updating");
}

#[test]
fn the_place_of_a_cluster_that_is_gone_is_free() {
    let mut scene = limited(settled().asks_for(NEW), 1, &["default/gone"]);

    assert_eq!(scene.goes_on(), [PUBLISH, TAKE]);
    assert_eq!(scene.taken(), ["default/my-tkc"]);
}

#[test]
fn a_cluster_that_is_as_it_is_asked_for_gives_its_place_back() {
    let mut scene = limited(settled(), 1, &["default/my-tkc"]);

    assert_eq!(scene.goes_on(), [PUBLISH, GIVE]);
    assert_eq!(scene.taken(), [""; 0]);
    assert_eq!(scene.goes_on(), [""; 0]);
}

#[test]
fn a_place_that_another_process_took_is_given_back_after_its_workers_are_fenced() {
    let mut scene = limited(settled(), 1, &["default/my-tkc"]);
    scene.turns.as_mut().unwrap().me = "b";

    assert_eq!(scene.goes_on(), [PUBLISH, "fence workers against what is late"]);
    assert_eq!(scene.deployment()["metadata"]["annotations"]["drover.dev/fenced"], "a 2026-01-01T11:00:00Z");
    assert_eq!(scene.goes_on(), [GIVE]);
}

#[test]
fn a_job_that_comes_late_and_is_not_wanted_is_cleared_away_before_the_place_is_given_back() {
    let mut scene = limited(settled().asks_for(NEW), 1, &["default/my-tkc"]);
    scene.goes_on();
    assert_eq!(scene.job()["spec"]["parallelism"], 0);
    let mut scene = scene.asks_for(super::OLD);

    assert_eq!(scene.goes_on(), [PUBLISH, "clear away the Job of an earlier update"]);
    assert_eq!(scene.goes_on(), [GIVE]);
}

#[test]
fn a_cluster_that_has_halted_gives_its_place_back() {
    let mut scene = limited(settled().asks_for(NEW), 1, &["default/my-tkc"]);
    for _ in 0..3 {
        scene.goes_on();
    }
    assert_eq!(scene.taken(), ["default/my-tkc"], "its Job is at work");
    scene.job_ends("Failed");

    assert_eq!(scene.goes_on(), [PUBLISH, GIVE]);
    assert_eq!(scene.phase(), "updateFailed");
    assert_eq!(scene.goes_on(), [""; 0]);
}

#[test]
fn a_cluster_whose_job_does_not_start_gives_its_place_back_and_the_job_cannot_start_late() {
    let mut scene = limited(settled().asks_for(NEW), 1, &["default/my-tkc"]);
    for _ in 0..3 {
        scene.goes_on();
    }
    pods::pod(&mut scene, "pod-1", pods::unscheduled());
    scene.goes_on();
    scene.passes(16);

    assert_eq!(scene.goes_on(), [PUBLISH, "keep a Job that does not start from starting late"]);
    assert_eq!(scene.phase(), "updateFailed");
    assert_eq!(scene.job()["spec"]["parallelism"], 0);
    assert!(!scene.goes_on().contains(&GIVE), "its pod may have started just before");

    scene.system.forget(Collection::Pods, "pod-1");
    assert!(scene.goes_on().contains(&GIVE));
    assert_eq!(scene.goes_on(), [""; 0]);
    assert_eq!(scene.reasons()[0], Reason::ControlPlaneUpdateFailed, "until somebody has it tried again");
    assert!(scene.decide().waits[0].sentence.ends_with("does not start: 0/3 nodes are available"));

    let writes = verbs::retry(&scene.view(None)).unwrap();
    writes.iter().for_each(|write| scene.perform(write));
    assert!(scene.goes_on().contains(&TAKE));
    assert_eq!(scene.goes_on(), ["begin the update of a control plane"]);
    assert_eq!(scene.goes_on(), ["let the update of a control plane begin"]);
    assert_eq!(scene.job()["spec"]["parallelism"], 1);
}

#[test]
fn a_job_that_somebody_has_suspended_keeps_no_place_either() {
    let mut scene = limited(settled().asks_for(NEW), 1, &["default/my-tkc"]);
    for _ in 0..3 {
        scene.goes_on();
    }
    let mut job = scene.job();
    job["spec"]["suspend"] = json!(true);
    scene.put(Collection::Jobs, job);
    for minutes in [0, 2, 16, 0] {
        scene.passes(minutes);
        scene.goes_on();
    }

    assert_eq!((scene.phase(), scene.taken()), ("updateFailed", vec![]));
}

#[test]
fn a_pod_that_outlives_its_job_keeps_the_place_as_long_as_it_may_be_at_work() {
    let mut scene = limited(settled(), 1, &["default/my-tkc"]);
    let left = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "update-1", "namespace": "vmware-system-tkg", "ownerReferences": [{ "kind": "Job", "uid": "gone" }],
            "labels": { "cluster.x-k8s.io/cluster-name": "my-tkc" },
        },
        "spec": { "containers": [{ "name": "upgrade", "args": ["--cluster-namespace=default"] }] },
        "status": { "phase": "Running" },
    });
    scene.put(Collection::Pods, left);
    assert!(!scene.goes_on().contains(&GIVE));

    scene.system.forget(Collection::Pods, "update-1");
    assert!(scene.goes_on().contains(&GIVE));
}

#[test]
fn workers_that_halt_keep_the_place_only_while_one_of_them_leaves_in_time() {
    let mut scene = limited(settled().asks_for(NEW).control_plane_is_new(), 1, &["default/my-tkc"]);
    scene.goes_on();
    scene.rolls();
    assert!(!scene.goes_on().contains(&GIVE), "they roll");
    scene.passes(15);
    let leaves = scene.now.to_string();
    scene.change(Collection::Machines, "worker-1", |machine| machine["metadata"]["deletionTimestamp"] = json!(leaves));
    assert!(scene.goes_on().contains(&"halt a rollout of workers that gets nowhere"));

    assert!(!scene.goes_on().contains(&GIVE), "worker-1 is on its way out");
    scene.passes(15);
    assert!(scene.goes_on().contains(&GIVE), "it takes longer than it may");
    assert_eq!(scene.phase(), "updateFailed");
}

#[test]
fn workers_that_are_to_be_taken_back_need_a_place_as_well() {
    let mut scene = limited(settled().asks_for(NEW).control_plane_is_new(), 1, &["default/my-tkc"]);
    scene.goes_on();
    scene.rolls();
    scene.goes_on();
    scene.passes(15);
    assert!(scene.goes_on().contains(&"halt a rollout of workers that gets nowhere"));
    assert!(scene.goes_on().contains(&GIVE));
    scene.tkc["metadata"]["annotations"]["drover.dev/on-failure"] = json!("return");

    assert!(scene.goes_on().contains(&TAKE));
    assert!(scene.goes_on().contains(&"take workers back to their last good templates"));
}

#[test]
fn whoever_moves_without_a_place_is_counted_although_there_is_none() {
    let mut scene = limited(settled(), 1, &["default/other"]);
    let template = super::template("1.15.5+vmware.1", "machines-0", "joins-0");
    scene.set("older", &template, 1);

    assert!(scene.goes_on().contains(&"count a cluster that is at work"));
    assert_eq!(scene.taken(), ["default/my-tkc", "default/other"]);
    let mut scene = scene.asks_for(NEW);
    scene.goes_on();
    assert!(scene.reasons().contains(&Reason::AnotherClusterFirst), "it is counted, and may begin nothing");
}

#[test]
fn a_cluster_that_is_paused_as_it_would_begin_gives_its_place_back() {
    let mut scene = limited(settled().asks_for(NEW), 1, &["default/my-tkc"]);
    scene.goes_on();
    assert_eq!(scene.job()["spec"]["parallelism"], 0);
    scene.tkc["metadata"]["annotations"]["drover.dev/paused"] = json!("true");

    assert!(scene.goes_on().contains(&"clear away the Job of an earlier update"));
    assert!(scene.goes_on().contains(&GIVE));
}

#[test]
fn a_worker_that_is_not_well_takes_no_place() {
    let mut scene = limited(settled(), 1, &[]);
    scene.change(Collection::Deployments, "workers", |one| one["status"]["availableReplicas"] = json!(1));

    scene.goes_on();
    assert_eq!(scene.taken(), [""; 0]);
}

#[test]
fn a_cluster_that_goes_gives_its_place_back() {
    let mut scene = limited(settled(), 1, &["default/my-tkc"]);
    scene.tkc["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:00Z");

    assert_eq!(scene.goes_on(), ["publish how far a cluster is", "delete the Cluster of a cluster that goes", GIVE]);
    scene.own = Seen::default();
    assert_eq!(scene.goes_on(), ["hold the cluster no longer"], "when nothing of it is taken any more");
}

fn after(mut scene: Scene, standing: Standing) -> Scene {
    scene.after = vec![Predecessor { name: "default/other".to_owned(), standing }];
    scene
}

#[test]
fn a_cluster_begins_when_those_before_it_are_done() {
    for (standing, reason) in [
        (Standing::OnItsWay, Reason::PredecessorFirst),
        (Standing::Halted, Reason::PredecessorFirst),
        (Standing::Missing, Reason::OrderRefused),
        (Standing::Circle, Reason::OrderRefused),
    ] {
        let mut scene = after(settled().asks_for(NEW), standing);
        assert_eq!(scene.goes_on(), [PUBLISH], "{standing:?}");
        assert!(scene.reasons().contains(&reason), "{standing:?}");
        assert_eq!(scene.phase() == "updateFailed", reason == Reason::OrderRefused);
    }
    let mut scene = after(settled().asks_for(NEW), Standing::Done);
    assert!(scene.goes_on().contains(&"begin the update of a control plane"));
}

#[test]
fn a_cluster_with_nothing_to_begin_does_not_mind_who_comes_first() {
    let scene = after(settled(), Standing::Missing);
    assert_eq!(scene.reasons(), []);
}

#[test]
fn a_cluster_stands_by_what_there_is_of_it() {
    assert_eq!(standing(&settled().view(None)), Standing::Done);
    assert_eq!(standing(&settled().asks_for(NEW).view(None)), Standing::OnItsWay);
    assert_eq!(standing(&settled().asks_for("v9.9.9").view(None)), Standing::Halted);
}

#[test]
fn who_comes_first_is_named_with_or_without_a_namespace_and_a_circle_is_seen_over_others() {
    let cluster = |name: &str, after: &str| json!({ "metadata": { "namespace": "default", "name": name, "annotations": { "drover.dev/after": after } } });
    let all = [cluster("a", "b, team/x"), cluster("b", "default/c"), cluster("c", "a"), cluster("d", "a")];
    let find = |key: &(String, String)| {
        all.iter().find(|one| one["metadata"]["namespace"] == *key.0 && one["metadata"]["name"] == *key.1)
    };
    let of = |tkc: &Value| {
        let found = between::predecessors(tkc, find, |_| Standing::Done);
        found.into_iter().map(|one| (one.name, one.standing)).collect::<Vec<_>>()
    };
    assert_eq!(of(&all[0]), [("default/b".to_owned(), Standing::Circle), ("team/x".to_owned(), Standing::Missing)]);
    assert_eq!(of(&all[3]), [("default/a".to_owned(), Standing::Done)], "a circle of others is not its own");
}
