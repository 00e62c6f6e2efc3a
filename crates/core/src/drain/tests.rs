use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp, ToSpan};

use super::*;

const NODE: &str = "n1";

fn noon() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn pod(name: &str) -> PodSeen {
    let controller = Controller { api_version: "apps/v1".into(), kind: "ReplicaSet".into(), name: "web".into() };
    PodSeen {
        namespace: "shop".into(),
        name: name.into(),
        uid: format!("uid-{name}"),
        finished: false,
        mirror: false,
        empty_dir: false,
        controller: Some(controller),
        deletion_timestamp: None,
        deletion_grace_seconds: 30,
        tolerates_cordon: false,
        claims: Vec::new(),
    }
}

fn of_daemon_set(name: &str) -> PodSeen {
    let controller = Controller { api_version: "apps/v1".into(), kind: "DaemonSet".into(), name: "agent".into() };
    PodSeen { controller: Some(controller), tolerates_cordon: true, ..pod(name) }
}

fn ending(name: &str, end: Timestamp) -> PodSeen {
    PodSeen { deletion_timestamp: Some(end), ..pod(name) }
}

/// A drain of one node, with what a test wants to be different.
struct Drain {
    options: Options,
    pods: Vec<PodSeen>,
    daemon_sets: BTreeMap<(String, String), DaemonSet>,
    attached: BTreeSet<String>,
    memory: Memory,
}

fn drain(pods: impl IntoIterator<Item = PodSeen>) -> Drain {
    let daemon_sets = [(("shop".to_owned(), "agent".to_owned()), DaemonSet::There)].into();
    let (options, attached, memory) = Default::default();
    Drain { options, pods: pods.into_iter().collect(), daemon_sets, attached, memory }
}

impl Drain {
    fn asked(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    fn refused(mut self, pod: &str, code: u16, message: &str, cause: Option<&str>) -> Self {
        let causes = cause.map(str::to_owned).into_iter().collect();
        self.memory.refusals.insert(format!("uid-{pod}"), Refusal::new(None, noon(), None, code, message, causes));
        self
    }

    fn at(&self, now: Timestamp) -> Decision {
        let view = View {
            node: NODE,
            options: &self.options,
            pods: &self.pods,
            daemon_sets: &self.daemon_sets,
            attached: &self.attached,
            memory: &self.memory,
            started: noon(),
        };
        decide(&view, now)
    }

    fn now(&self) -> Decision {
        self.at(noon())
    }
}

fn evicted(decision: &Decision) -> Vec<&str> {
    decision.removals.iter().filter(|removal| removal.way == Way::Evict).map(|removal| removal.name.as_str()).collect()
}

fn deleted(decision: &Decision) -> Vec<&str> {
    decision.removals.iter().filter(|removal| removal.way == Way::Delete).map(|removal| removal.name.as_str()).collect()
}

fn blocked(decision: &Decision) -> &[String] {
    match &decision.verdict {
        Verdict::Blocked(sentences) => sentences,
        other => panic!("{other:?}"),
    }
}

const NEEDS_TWO: &str = "The disruption budget web needs 2 healthy pods and has 2 currently";

#[test]
fn all_pods_with_a_controller_are_evicted_at_once() {
    let decision = drain([pod("a"), pod("b")]).now();
    assert_eq!(evicted(&decision), ["a", "b"]);
    assert_eq!(decision.verdict, Verdict::Going);
}

#[test]
fn a_node_without_pods_is_drained() {
    assert_eq!(drain([]).now().verdict, Verdict::Drained);
}

#[test]
fn one_pod_in_the_way_keeps_every_pod_on_the_node() {
    let alone = PodSeen { controller: None, ..pod("alone") };
    let scratch = PodSeen { empty_dir: true, ..pod("scratch") };
    let decision = drain([pod("a"), alone, scratch, of_daemon_set("agent")]).now();
    assert_eq!(decision.removals, []);
    assert_eq!(
        blocked(&decision),
        [
            "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore): shop/agent",
            "cannot delete Pods that declare no controller (use --force to override): shop/alone",
            "cannot delete Pods with local storage (use --delete-emptydir-data to override): shop/scratch",
        ]
    );
}

#[test]
fn what_is_in_the_way_goes_or_stays_as_asked() {
    let alone = PodSeen { controller: None, ..pod("alone") };
    let scratch = PodSeen { empty_dir: true, ..pod("scratch") };
    let decision = drain([alone, scratch, of_daemon_set("agent")])
        .asked(|options| {
            (options.force, options.delete_empty_dir_data, options.ignore_daemon_sets) = (true, true, true);
        })
        .now();
    assert_eq!(evicted(&decision), ["alone", "scratch"]);
    assert_eq!(
        decision.warnings,
        [
            "deleting Pods that declare no controller: shop/alone",
            "deleting Pods with local storage: shop/scratch",
            "ignoring DaemonSet-managed Pods: shop/agent",
        ]
    );
}

#[test]
fn a_finished_pod_goes_whatever_it_is() {
    let alone = PodSeen { controller: None, finished: true, empty_dir: true, ..pod("alone") };
    let agent = PodSeen { finished: true, ..of_daemon_set("agent") };
    assert_eq!(evicted(&drain([alone, agent]).now()), ["alone", "agent"]);
}

#[test]
fn a_mirror_pod_stays_and_is_not_in_the_way() {
    let mirror = PodSeen { mirror: true, controller: None, ..pod("etcd") };
    assert_eq!(drain([mirror]).now().verdict, Verdict::Drained);
}

#[test]
fn a_pod_whose_daemon_set_is_gone_goes_only_by_force() {
    let gone = "daemonsets.apps \"agent\" not found";
    let mut orphan = drain([of_daemon_set("agent")]).asked(|options| options.ignore_daemon_sets = true);
    orphan.daemon_sets.insert(("shop".into(), "agent".into()), DaemonSet::Gone(gone.into()));
    assert_eq!(blocked(&orphan.now()), [format!("cannot delete {gone}: shop/agent")]);

    let decision = orphan.asked(|options| options.force = true).now();
    assert_eq!(evicted(&decision), ["agent"]);
    assert_eq!(decision.warnings, [format!("{gone}: shop/agent")]);
}

#[test]
fn a_daemon_set_that_cannot_be_looked_up_is_in_the_way_even_by_force() {
    let mut unknown = drain([of_daemon_set("agent")]).asked(|options| options.force = true);
    unknown.daemon_sets.insert(("shop".into(), "agent".into()), DaemonSet::Unknown("forbidden".into()));
    assert_eq!(blocked(&unknown.now()), ["cannot delete forbidden: shop/agent"]);
}

#[test]
fn a_refused_eviction_names_the_budget_and_is_tried_again_after_five_seconds() {
    let refused = drain([pod("a")]).refused("a", 429, "Cannot evict pod", Some(NEEDS_TWO));
    let decision = refused.at(noon() + 1.second());
    assert_eq!(decision.removals, []);
    assert_eq!(decision.look_again, Some(noon() + 5.seconds()));
    let [wait] = &decision.waits[..] else { panic!("{:?}", decision.waits) };
    assert_eq!(wait.reason, Reason::BudgetForbids);
    assert_eq!(wait.subject.to_string(), "Pod/shop/a");
    assert_eq!(wait.sentence, "PodDisruptionBudget shop/web forbids to evict Pod shop/a from Node n1");
    assert_eq!(wait.since, noon());

    assert_eq!(evicted(&refused.at(noon() + 5.seconds())), ["a"]);
}

#[test]
fn the_servers_own_pause_is_kept_and_since_stays_the_first_moment() {
    let first = Refusal::new(None, noon(), None, 429, "", Vec::new());
    let later = noon() + 5.seconds();
    let second = Refusal::new(Some(&first), later, Some(SignedDuration::from_secs(10)), 429, "", Vec::new());
    assert_eq!((second.since, second.again), (noon(), later + 10.seconds()));
}

#[test]
fn one_refused_pod_does_not_hold_up_another() {
    let refused = drain([pod("a"), pod("b")]).refused("a", 429, "no", Some(NEEDS_TWO));
    assert_eq!(evicted(&refused.now()), ["b"]);
}

#[test]
fn two_budgets_over_one_pod_are_told_apart_from_one_that_forbids() {
    let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    let decision = drain([pod("a")]).refused("a", 500, message, None).now();
    assert_eq!(decision.waits[0].reason, Reason::BudgetForbids);
    assert!(decision.waits[0].sentence.contains("more than one PodDisruptionBudget"), "{:?}", decision.waits);
}

#[test]
fn any_other_refusal_is_told_in_the_servers_words() {
    let decision = drain([pod("a")]).refused("a", 500, "etcd is full", None).now();
    assert_eq!(decision.waits[0].reason, Reason::EvictionRefused);
    assert_eq!(decision.waits[0].sentence, "Pod shop/a cannot be evicted from Node n1: etcd is full");
}

#[test]
fn a_pod_that_ends_is_waited_for_and_not_evicted_again() {
    let decision = drain([ending("a", noon() + 30.seconds())]).now();
    assert_eq!((decision.removals.len(), decision.verdict), (0, Verdict::Going));
    assert_eq!(decision.waits[0].reason, Reason::PodTerminating);
    assert_eq!(decision.waits[0].since, noon());
}

#[test]
fn a_pod_that_ends_for_too_long_is_given_up_if_asked() {
    let stuck = drain([ending("a", noon() - 61.seconds())]);
    assert_eq!(stuck.now().verdict, Verdict::Going);
    let stuck = stuck.asked(|options| options.skip_ending_after = Some(60));
    assert_eq!(stuck.now().verdict, Verdict::Drained);
}

#[test]
fn no_more_pods_are_on_their_way_out_than_asked() {
    let pods = [pod("a"), pod("b"), pod("c"), ending("d", noon() + 1.second())];
    let decision = drain(pods).asked(|options| options.at_once = Some(2)).now();
    assert_eq!(evicted(&decision), ["a"]);
}

#[test]
fn without_eviction_budgets_are_not_asked() {
    let decision = drain([pod("a")])
        .asked(|options| options.disable_eviction = true)
        .refused("a", 429, "no", Some(NEEDS_TWO))
        .now();
    assert_eq!(deleted(&decision), ["a"]);
}

#[test]
fn when_time_is_up_it_fails_and_still_says_what_held_it_up() {
    let slow = drain([pod("a")]).asked(|options| options.timeout = Some(SignedDuration::from_secs(60))).refused(
        "a",
        429,
        "no",
        Some(NEEDS_TWO),
    );
    assert_eq!(slow.at(noon() + 59.seconds()).verdict, Verdict::Going);
    assert_eq!(slow.at(noon() + 5.seconds()).look_again, Some(noon() + 60.seconds()));
    let decision = slow.at(noon() + 60.seconds());
    assert_eq!((decision.verdict, decision.removals.len()), (Verdict::TimedOut, 0));
    assert_eq!(decision.waits[0].deadline, Some(noon() + 60.seconds()));
}

#[test]
fn when_time_is_up_the_rest_is_deleted_if_asked_and_gets_as_long_to_end() {
    let slow = drain([pod("a")])
        .asked(|options| {
            options.timeout = Some(SignedDuration::from_secs(60));
            options.on_timeout = OnTimeout::Delete;
        })
        .refused("a", 429, "no", Some(NEEDS_TWO));
    assert_eq!(deleted(&slow.at(noon() + 59.seconds())), Vec::<&str>::new());
    let decision = slow.at(noon() + 60.seconds());
    assert_eq!((deleted(&decision), &decision.verdict), (vec!["a"], &Verdict::Going));
    assert_eq!(slow.at(noon() + 120.seconds()).verdict, Verdict::TimedOut);
}

#[test]
fn a_timeout_of_nothing_means_for_ever() {
    let slow = drain([pod("a")]).asked(|options| options.timeout = Some(SignedDuration::ZERO));
    assert_eq!(slow.at(noon() + 1000.hours()).verdict, Verdict::Going);
}

#[test]
fn a_pod_that_comes_later_goes_unless_it_tolerates_the_cordon() {
    let on_purpose = PodSeen { tolerates_cordon: true, ..pod("on-purpose") };
    let mut later = drain([pod("late"), on_purpose]);
    assert_eq!(evicted(&later.now()), ["late", "on-purpose"]);
    later.memory.first = Some(BTreeSet::new());
    assert_eq!(evicted(&later.now()), ["late"]);
}

#[test]
fn an_attached_volume_of_a_drained_pod_is_waited_for() {
    let mut drained = drain([]);
    drained.attached.insert("pv-1".into());
    let decision = drained.now();
    assert_eq!(decision.verdict, Verdict::Going);
    assert_eq!(decision.waits[0].reason, Reason::VolumeAttached);
    assert_eq!(decision.waits[0].sentence, "volume pv-1 of a drained pod is still attached to Node n1");
}

#[test]
fn a_pod_is_read_as_the_server_sends_it() {
    let json = serde_json::json!({
        "metadata": {
            "name": "a", "namespace": "shop", "uid": "u", "annotations": { "kubernetes.io/config.mirror": "x" },
            "ownerReferences": [
                { "apiVersion": "v1", "kind": "Node", "name": "other" },
                { "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "controller": true },
            ],
            "deletionTimestamp": "2026-01-01T12:00:30Z", "deletionGracePeriodSeconds": 30,
        },
        "spec": {
            "volumes": [{ "name": "s", "emptyDir": {} }, { "name": "d", "persistentVolumeClaim": { "claimName": "disk" } }],
            "tolerations": [{ "key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule" }],
        },
        "status": { "phase": "Failed" },
    });
    let seen = PodSeen::decode(json.to_string().as_bytes()).unwrap();
    assert!(seen.mirror && seen.empty_dir && seen.finished && seen.tolerates_cordon);
    assert!(seen.controller.is_some_and(|controller| controller.is_daemon_set()));
    assert_eq!(seen.claims, ["disk"]);
    assert_eq!(seen.deletion_timestamp, Some(noon() + 30.seconds()));
}

#[test]
fn only_a_toleration_of_the_cordon_counts() {
    let tolerates = |toleration: serde_json::Value| {
        let json = serde_json::json!({ "metadata": { "name": "a" }, "spec": { "tolerations": [toleration] } });
        PodSeen::decode(json.to_string().as_bytes()).unwrap().tolerates_cordon
    };
    assert!(tolerates(serde_json::json!({ "operator": "Exists" })));
    assert!(tolerates(serde_json::json!({ "key": "node.kubernetes.io/unschedulable" })));
    assert!(!tolerates(serde_json::json!({ "operator": "Exists", "effect": "NoExecute" })));
    assert!(tolerates(serde_json::json!({ "operator": "Exists", "effect": "NoSchedule" })));
    assert!(!tolerates(serde_json::json!({ "key": "other", "operator": "Exists" })));
    assert!(!tolerates(serde_json::json!({ "key": "node.kubernetes.io/unschedulable", "value": "x" })));
    assert!(!tolerates(serde_json::json!({ "key": "" })));
}

#[test]
fn each_filter_decides_as_that_of_kubectl() {
    type Change = fn(&mut Options);
    let plain: Change = |_| {};
    let daemon_sets: Change = |options| options.ignore_daemon_sets = true;
    let force: Change = |options| options.force = true;
    let both: Change = |options| (options.force, options.delete_empty_dir_data) = (true, true);
    let scratch = || PodSeen { empty_dir: true, ..pod("a") };
    let alone = || PodSeen { controller: None, ..pod("a") };
    let foreign = || {
        let of_another =
            Controller { api_version: "apps.kruise.io/v1".into(), kind: "DaemonSet".into(), name: "a".into() };
        PodSeen { controller: Some(of_another), ..pod("a") }
    };
    let cases = [
        ("of a ReplicaSet", pod("a"), plain, "goes"),
        ("of a DaemonSet", of_daemon_set("a"), plain, "blocks"),
        ("of a DaemonSet, by force", of_daemon_set("a"), force, "blocks"),
        ("of a DaemonSet, ignored", of_daemon_set("a"), daemon_sets, "stays"),
        ("of a DaemonSet of somebody else", foreign(), plain, "goes"),
        ("of a DaemonSet, ended", PodSeen { finished: true, ..of_daemon_set("a") }, plain, "goes"),
        ("with scratch space", scratch(), plain, "blocks"),
        ("with scratch space, by force", scratch(), force, "blocks"),
        ("with scratch space that may go", scratch(), both, "goes"),
        ("with scratch space, ended", PodSeen { finished: true, ..scratch() }, plain, "goes"),
        ("of nobody", alone(), plain, "blocks"),
        ("of nobody, by force", alone(), force, "goes"),
        ("of nobody, ended", PodSeen { finished: true, ..alone() }, plain, "goes"),
        ("of the kubelet", PodSeen { mirror: true, ..alone() }, plain, "stays"),
        ("of the kubelet, with scratch space", PodSeen { mirror: true, ..scratch() }, plain, "stays"),
    ];
    for (case, pod, change, expected) in cases {
        let decision = drain([pod]).asked(change).now();
        let became = match decision.verdict {
            Verdict::Blocked(_) => "blocks",
            Verdict::Drained => "stays",
            _ => "goes",
        };
        assert_eq!(became, expected, "{case}");
    }
}

#[test]
fn a_pod_is_given_up_once_it_has_been_ending_for_longer_than_the_limit() {
    for (limit, seconds, expected) in [
        (Some(60), 60, Verdict::Going),
        (Some(60), 61, Verdict::Drained),
        (Some(0), 1000, Verdict::Going),
        (Some(-1), 1000, Verdict::Going),
        (None, 1000, Verdict::Going),
    ] {
        let stuck = drain([ending("a", noon() - seconds.seconds())]);
        let decision = stuck.asked(|options| options.skip_ending_after = limit).now();
        assert_eq!(decision.verdict, expected, "{limit:?} after {seconds}");
    }
}

#[test]
fn a_pod_is_ending_since_its_grace_began() {
    let since = |end: Timestamp| drain([ending("a", end)]).now().waits[0].since;
    assert_eq!(since(noon() + 10.seconds()), noon() - 20.seconds());
    assert_eq!(since(noon() + 60.seconds()), noon(), "a clock that runs ahead tells no moment to come");
}

#[test]
fn a_volume_is_waited_for_when_all_pods_are_gone_since_it_was_first_seen() {
    let mut slow = drain([ending("a", noon() + 30.seconds())]);
    slow.attached.insert("pv-1".into());
    let reasons: Vec<Reason> = slow.now().waits.iter().map(|wait| wait.reason).collect();
    assert_eq!(reasons, [Reason::PodTerminating]);
    slow.pods.clear();
    slow.memory.attached_since = Some(noon() - 1.minute());
    assert_eq!(slow.now().waits[0].since, noon() - 1.minute());
}

#[test]
fn a_drain_that_deletes_in_the_end_looks_again_at_either_deadline() {
    let slow = drain([pod("a")]).asked(|options| {
        options.timeout = Some(SignedDuration::from_secs(60));
        options.on_timeout = OnTimeout::Delete;
    });
    assert_eq!(slow.now().look_again, Some(noon() + 60.seconds()));
    assert_eq!(slow.at(noon() + 60.seconds()).look_again, Some(noon() + 120.seconds()));
    assert_eq!(slow.at(noon() + 119.seconds()).verdict, Verdict::Going);
}

#[test]
fn a_pause_of_nothing_is_no_pause_that_a_server_asks_for() {
    let refusal = |pause: i64| Refusal::new(None, noon(), Some(SignedDuration::from_secs(pause)), 429, "", Vec::new());
    assert_eq!(refusal(0).again, noon() + 5.seconds());
    assert_eq!(refusal(-3).again, noon() + 5.seconds());
    assert_eq!(refusal(1).again, noon() + 1.second());
}
