use serde_json::Value;

use super::super::Far;
use super::super::tests::{guest, object, version};
use super::*;

fn noon() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn terms(at_once: Option<usize>) -> Terms {
    Terms { machine: SignedDuration::from_mins(15), at_once, now: noon() }
}

/// The Cluster `g` is left to an operator.
fn left(more: Value) -> (&'static str, Value) {
    let mut change = json!({ "metadata": { "annotations": { UPGRADE_TO: "v1.34.1" } } });
    json_patch::merge(&mut change, &more);
    ("g", change)
}

/// Another cluster of one machine beside that, left to an operator as well.
fn with_another(cluster: &mut Cluster, name: &str, asked: &str, runs: &str) {
    let labels = json!({ "cluster.x-k8s.io/cluster-name": name, "cluster.x-k8s.io/control-plane": "" });
    let reference = json!({ "controlPlaneRef": { "kind": "KubeadmControlPlane", "name": name } });
    let status = json!({ "nodeRef": { "name": "n" } });
    for part in [
        object("Cluster", name, json!({ "metadata": { "annotations": { UPGRADE_TO: "v1.34.1" } }, "spec": reference })),
        object("KubeadmControlPlane", name, json!({ "spec": { "version": asked, "replicas": 1 } })),
        object(
            "Machine",
            name,
            json!({ "metadata": { "labels": labels }, "spec": { "clusterName": name, "version": runs }, "status": status }),
        ),
    ] {
        cluster.take(part.to_string().as_bytes());
    }
}

/// A line for each: what it changes, and what is said of it.
fn kept(cluster: &Cluster, terms: &Terms) -> Vec<String> {
    let mut awaited = AllAwaited::default();
    awaited.look(cluster, noon());
    let turns = keep(cluster, &awaited, terms);
    turns.iter().map(in_a_line).collect()
}

fn in_a_line(turn: &Turn) -> String {
    let told = |lever: &Lever| match lever.patch["metadata"]["annotations"][PROGRESS].as_str() {
        Some(said) => format!("says {:?}", serde_json::from_str::<Said>(said).unwrap().stand),
        None => format!("{} {}", lever.object, lever.patch["spec"]),
    };
    turn.levers.iter().map(told).collect::<Vec<_>>().join(", ")
}

fn of(changes: &[(&str, Value)]) -> Vec<String> {
    kept(&guest(changes), &terms(Some(1)))
}

#[test]
fn a_cluster_that_is_left_to_an_operator_is_raised_part_by_part_and_told_of() {
    let node = |version: &str| json!({ "spec": { "version": version }, "status": { "nodeRef": { "name": "n" } } });
    let (plane, machine) = (("plane", version("v1.34.1")), ("m", node("v1.34.1")));
    let new_pool = json!({ "spec": { "template": { "spec": { "version": "v1.34.1" } } } });
    let counts = json!({ "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1 });

    assert_eq!(of(&[]), Vec::<String>::new(), "nobody has left it to anybody");
    assert_eq!(of(&[left(json!({}))]), [r#"KubeadmControlPlane/guests/plane {"version":"v1.34.1"}"#]);
    assert_eq!(of(&[left(json!({})), plane.clone(), ("m", node("v1.33.1"))]), ["says Rolling"]);
    assert_eq!(
        of(&[left(json!({})), plane.clone(), machine.clone()]),
        [r#"MachineDeployment/guests/pool {"template":{"spec":{"version":"v1.34.1"}}}"#]
    );
    let rolling = [left(json!({})), plane, machine, ("pool", new_pool)];
    assert_eq!(of(&rolling), ["says Rolling"]);
    let unseen = json!({ "metadata": { "generation": 2 }, "status": { "observedGeneration": 1 } });
    let early = [rolling.to_vec(), vec![("pool", json!({ "status": counts })), ("pool", unseen)]].concat();
    assert_eq!(of(&early), ["says Rolling"], "what its controller has not looked at yet is not done");
    assert_eq!(of(&[rolling.to_vec(), vec![("pool", json!({ "status": counts }))]].concat()), ["says UpToDate"]);
}

#[test]
fn what_is_said_already_is_not_said_again_and_lasts_since_it_began() {
    let deadline = |stand: Stand| (stand == Stand::Rolling).then(|| noon() + SignedDuration::from_mins(30));
    let said = |to: &str, stand: Stand, sentence: &str| {
        let since = "2026-01-01T11:00:00Z".parse().unwrap();
        let said = Said {
            to: to.to_owned(),
            stand,
            sentence: sentence.to_owned(),
            since,
            deadline: deadline(stand),
            remedy: None,
            waited: None,
        };
        left(json!({ "metadata": { "annotations": { PROGRESS: json!(said).to_string() } } }))
    };
    let plane = ("plane", version("v1.34.1"));
    let sentence =
        "the control plane is on its way to v1.34.1, with 0 of 1 machines: the workers are raised when it is done";
    assert_eq!(of(&[said("v1.34.1", Stand::Rolling, sentence), plane.clone()]), [""]);
    let turns = keep(
        &guest(&[said("v1.34.1", Stand::Rolling, "with 0 of 3 machines"), plane.clone()]),
        &AllAwaited::default(),
        &terms(None),
    );
    let new: Said =
        serde_json::from_str(turns[0].levers[0].patch["metadata"]["annotations"][PROGRESS].as_str().unwrap()).unwrap();
    assert_eq!((new.since.to_string().as_str(), new.sentence.as_str()), ("2026-01-01T11:00:00Z", sentence));
    let (done, other) = (said("v1.33.1", Stand::UpToDate, "done"), said("v1.33.0", Stand::UpToDate, "done"));
    let asked = |said: (&'static str, Value)| {
        let mut said = said;
        said.1["metadata"]["annotations"][UPGRADE_TO] = json!("v1.33.1");
        said
    };
    assert_eq!(work(&guest(&[])), Work::None, "nobody asks for anything");
    assert_eq!(work(&guest(&[asked(done.clone())])), Work::Kept);
    assert_eq!(work(&guest(&[asked(other)])), Work::Some, "something else was asked for then");
    let back = ("pool", json!({ "spec": { "template": { "spec": { "version": "v1.32.9" } } } }));
    assert_eq!(work(&guest(&[asked(done), back])), Work::Some, "somebody has set it back");
}

#[test]
fn no_more_are_begun_at_once_than_may_be_and_the_others_are_told_whose_turn_it_is() {
    let mut cluster = guest(&[left(json!({})), ("plane", version("v1.34.1"))]);
    with_another(&mut cluster, "a", "v1.33.1", "v1.33.1");
    with_another(&mut cluster, "z", "v1.33.1", "v1.33.1");
    let raised = |name: &str| format!(r#"KubeadmControlPlane/guests/{name} {{"version":"v1.34.1"}}"#);
    assert_eq!(
        kept(&cluster, &terms(Some(1))),
        ["says AnotherClusterFirst", "says Rolling", "says AnotherClusterFirst"],
        "g is under way"
    );
    assert_eq!(
        kept(&cluster, &terms(Some(2))),
        [raised("a"), "says Rolling".to_owned(), "says AnotherClusterFirst".to_owned()]
    );
    assert_eq!(kept(&cluster, &terms(None)), [raised("a"), "says Rolling".to_owned(), raised("z")]);
}

#[test]
fn one_that_comes_after_another_begins_when_that_is_done_and_goes_on_whatever_becomes_of_it() {
    let after = left(json!({ "metadata": { "annotations": { "drover.dev/after": "a" } } }));
    let mut cluster = guest(std::slice::from_ref(&after));
    with_another(&mut cluster, "a", "v1.34.1", "v1.33.1");
    assert_eq!(kept(&cluster, &terms(None)), ["says Rolling", "says PredecessorFirst"]);
    let mut cluster = guest(std::slice::from_ref(&after));
    with_another(&mut cluster, "a", "v1.34.1", "v1.34.1");
    let plane = r#"KubeadmControlPlane/guests/plane {"version":"v1.34.1"}"#;
    assert_eq!(kept(&cluster, &terms(None)), ["says UpToDate", plane]);
    let mut cluster = guest(&[after.clone(), ("plane", version("v1.34.1"))]);
    with_another(&mut cluster, "a", "v1.34.1", "v1.33.1");
    assert_eq!(kept(&cluster, &terms(None)), ["says Rolling", "says Rolling"]);
    assert_eq!(of(&[after]), ["says OrderRefused"], "there is no such cluster");
}

#[test]
fn one_that_comes_after_another_waits_until_every_part_of_that_is_raised_and_none_is_behind() {
    let pool = |of: &str, runs: &str| {
        let counts = json!({ "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1 });
        let spec = json!({ "clusterName": of, "replicas": 1, "template": { "spec": { "version": runs } } });
        object(
            "MachineDeployment",
            of,
            json!({ "metadata": { "labels": { "cluster.x-k8s.io/cluster-name": of } }, "spec": spec, "status": counts }),
        )
    };
    let worker = |of: &str, runs: &str| {
        let labels = json!({ "cluster.x-k8s.io/cluster-name": of, "cluster.x-k8s.io/deployment-name": of });
        let spec = json!({ "clusterName": of, "version": runs });
        object(
            "Machine",
            "worker",
            json!({ "metadata": { "labels": labels }, "spec": spec, "status": { "nodeRef": { "name": "w" } } }),
        )
    };
    let after = left(json!({ "metadata": { "annotations": { "drover.dev/after": "a" } } }));
    // The control plane that it asks for, its machine, its workers' template, and a worker.
    let begun = |plane: &str, runs: &str, asked: &str, works: &str| {
        let mut cluster = guest(std::slice::from_ref(&after));
        with_another(&mut cluster, "a", plane, runs);
        for part in [pool("a", asked), worker("a", works)] {
            cluster.take(part.to_string().as_bytes());
        }
        kept(&cluster, &terms(None)).pop().unwrap()
    };
    let (old, new) = ("v1.33.1", "v1.34.1");
    assert_eq!(begun(old, old, old, old), "says PredecessorFirst", "its control plane is not even asked for more");
    assert_eq!(begun(new, old, old, old), "says PredecessorFirst");
    assert_eq!(begun(new, new, old, old), "says PredecessorFirst", "its workers are not raised yet");
    assert_eq!(begun(new, new, new, old), "says PredecessorFirst", "an old worker is still there");
    assert_eq!(begun(new, new, new, new), r#"KubeadmControlPlane/guests/plane {"version":"v1.34.1"}"#);
}

#[test]
fn what_cannot_be_is_said_and_holds_up_no_other() {
    let far = json!({ "metadata": { "annotations": { UPGRADE_TO: "v1.35.0" } } });
    let mut cluster = guest(&[left(far)]);
    with_another(&mut cluster, "z", "v1.33.1", "v1.33.1");
    assert_eq!(
        kept(&cluster, &terms(Some(1))),
        ["says VersionRefused", r#"KubeadmControlPlane/guests/z {"version":"v1.34.1"}"#]
    );
    let further = [left(json!({})), ("plane", version("v1.35.0"))];
    assert_eq!(of(&further), ["says Outlived"], "somebody has raised it by hand");
    let said = after_minutes(0, &further, &[]).remove(0);
    assert!(said.sentence.contains("is lower than v1.35.0") && said.remedy.is_some(), "{said:?}");
    assert_eq!(of(&[left(json!({ "spec": { "paused": true } }))]), ["says ClusterPaused"]);
    let others = left(json!({ "spec": { "controlPlaneRef": { "kind": "K3sControlPlane" } } }));
    assert_eq!(of(&[others]), ["says AnotherControllerActs"]);
    assert_eq!(
        of(&[left(json!({ "metadata": { "deletionTimestamp": "2026-01-01T11:00:00Z" } }))]),
        Vec::<String>::new()
    );
}

#[test]
fn a_new_machine_that_fails_halts_its_cluster_once_and_not_again_when_somebody_resumes_it() {
    let failed = json!({ "metadata": { "uid": "u" }, "spec": { "version": "v1.34.1" }, "status": { "failureMessage": "no quota", "nodeRef": null } });
    let plane = ("plane", version("v1.34.1"));
    let cluster = guest(&[left(json!({})), plane.clone(), ("m", failed.clone())]);
    let turns = keep(&cluster, &AllAwaited::default(), &terms(None));
    let patch = &turns[0].levers[0].patch;
    assert_eq!(patch["spec"], json!({ "paused": true }));
    assert_eq!(in_a_line(&turns[0]), "says MachineFailed");
    let mark = patch["metadata"]["annotations"]["drover.dev/failed"].as_str().unwrap();
    assert_eq!(mark, r#"{"machines":["u"],"why":"Machine guests/m has failed: no quota"}"#);

    let marked = |more: Value| {
        let mut change = json!({ "metadata": { "annotations": { "drover.dev/failed": mark } } });
        json_patch::merge(&mut change, &more);
        left(change)
    };
    let paused = marked(json!({ "spec": { "paused": true } }));
    assert_eq!(of(&[paused, plane.clone(), ("m", failed.clone())]), ["says MachineFailed"]);
    let resumed = marked(json!({}));
    assert_eq!(of(&[resumed.clone(), plane.clone(), ("m", failed.clone())]), ["says Rolling"]);
    let another = json!({ "metadata": { "uid": "v" } });
    assert_eq!(of(&[resumed, plane, ("m", failed), ("m", another)]), ["says MachineFailed"], "it is another one");
}

#[test]
fn no_time_runs_against_a_cluster_that_is_paused() {
    let late = |own: Value| {
        let comes = json!({ "spec": { "version": "v1.34.1" }, "status": { "nodeRef": null } });
        let cluster = guest(&[left(own), ("plane", version("v1.34.1")), ("m", comes)]);
        let mut awaited = AllAwaited::default();
        awaited.look(&cluster, noon());
        awaited.look(&cluster, noon() + SignedDuration::from_mins(16));
        (awaited.next(SignedDuration::from_mins(15)).is_some(), keep(&cluster, &awaited, &terms(None)))
    };
    let (counts, turns) = late(json!({}));
    assert!(counts && turns[0].levers[0].patch["spec"] == json!({ "paused": true }), "{turns:?}");
    let (counts, turns) = late(json!({ "spec": { "paused": true } }));
    assert!(!counts && in_a_line(&turns[0]) == "says ClusterPaused", "{turns:?}");
}

#[test]
fn a_machine_that_fails_in_a_cluster_that_is_finished_pauses_nothing_and_takes_no_place() {
    let counts = json!({ "replicas": 2, "updatedReplicas": 2, "readyReplicas": 1, "availableReplicas": 1 });
    let pool = json!({ "spec": { "replicas": 2, "template": { "spec": { "version": "v1.34.1" } } }, "status": counts });
    let finished = |own: Value| {
        let parts = [left(own), ("plane", version("v1.34.1")), ("m", version("v1.34.1")), ("pool", pool.clone())];
        let mut cluster = guest(&parts);
        let labels = json!({ "cluster.x-k8s.io/cluster-name": "g", "cluster.x-k8s.io/deployment-name": "pool" });
        let spec = json!({ "clusterName": "g", "version": "v1.34.1" });
        let scaled = json!({ "metadata": { "labels": labels, "uid": "w" }, "spec": spec, "status": { "failureMessage": "no quota" } });
        cluster.take(object("Machine", "w", scaled).to_string().as_bytes());
        with_another(&mut cluster, "z", "v1.33.1", "v1.33.1");
        kept(&cluster, &terms(Some(1)))
    };
    let other = r#"KubeadmControlPlane/guests/z {"version":"v1.34.1"}"#;
    assert_eq!(finished(json!({})), ["says UpToDate", other], "it has had the version before anybody asked");
    let said = |stand: Stand, sentence: &str| {
        let said = Said {
            to: "v1.34.1".to_owned(),
            stand,
            sentence: sentence.to_owned(),
            since: noon(),
            deadline: (stand == Stand::Rolling).then(|| noon() + SignedDuration::from_mins(30)),
            remedy: None,
            waited: None,
        };
        json!({ "metadata": { "annotations": { PROGRESS: json!(said).to_string() } } })
    };
    assert_eq!(finished(said(Stand::UpToDate, "every machine is of v1.34.1")), ["", other]);
    let rolls = "every machine is of v1.34.1, and not every one is ready";
    assert_eq!(
        finished(said(Stand::Rolling, rolls)),
        ["", "says AnotherClusterFirst"],
        "the last of it is still to come"
    );
}

/// What is said of `g` when nothing has changed for as many minutes.
fn after_minutes(minutes: i64, changes: &[(&str, Value)], others: &[&str]) -> Vec<Said> {
    let mut cluster = guest(changes);
    others.iter().for_each(|other| with_another(&mut cluster, other, "v1.33.1", "v1.33.1"));
    let mut awaited = AllAwaited::default();
    awaited.look(&cluster, noon());
    awaited.look(&cluster, noon() + SignedDuration::from_mins(minutes));
    let turns = keep(&cluster, &awaited, &terms(Some(1)));
    turns.iter().filter_map(told).collect()
}

fn told(turn: &Turn) -> Option<Said> {
    let said = turn.levers.iter().find_map(|lever| lever.patch["metadata"]["annotations"][PROGRESS].as_str())?;
    serde_json::from_str(said).ok()
}

fn drained(own: &str) -> Value {
    let condition = json!({ "type": "DrainingSucceeded", "status": "False", "message": "Cannot evict pod as it would violate the pod's disruption budget" });
    json!({
        "metadata": { "uid": own, "deletionTimestamp": "2026-01-01T11:59:00Z", "finalizers": ["machine.cluster.x-k8s.io"] },
        "status": { "nodeRef": { "name": "n" }, "conditions": [condition] },
    })
}

#[test]
fn a_cluster_in_which_nothing_moves_any_more_gives_its_place_to_another_and_says_why() {
    let stuck = [left(json!({})), ("plane", version("v1.34.1")), ("m", drained("old"))];
    let stands = |minutes: i64| -> Vec<Stand> {
        after_minutes(minutes, &stuck, &["z"]).into_iter().map(|said| said.stand).collect()
    };
    assert_eq!(stands(29), [Stand::Rolling, Stand::AnotherClusterFirst]);
    assert_eq!(stands(31), [Stand::Stalled], "z is raised");
    let said = after_minutes(31, &stuck, &[]).remove(0);
    assert!(said.sentence.contains("nothing has come of it for 30 minutes"), "{}", said.sentence);
    assert!(
        said.sentence.contains("Machine guests/m is being deleted: its Node cannot be drained"),
        "{}",
        said.sentence
    );
    let remedy = said.remedy.unwrap_or_default();
    assert!(remedy.contains("make more pods of the budget healthy"), "{remedy}");
    let message = "Scaling up from 1 to 2 replicas is blocked because InfrastructureMachineTemplate does not exist";
    let condition = json!({ "type": "ScalingUp", "status": "True", "message": message });
    let spec = json!({ "version": "v1.34.1", "replicas": 1 });
    let missing = ("plane", json!({ "spec": spec, "status": { "conditions": [condition] } }));
    let said = after_minutes(31, &[left(json!({})), missing], &[]).remove(0);
    assert!(said.sentence.ends_with(&format!("the next machine cannot be made: {message}")), "{}", said.sentence);
}

#[test]
fn how_long_nothing_has_moved_is_known_to_the_operator_that_comes_next_whatever_its_clock_shows() {
    let rolls = |minutes: i64, own: Value| {
        let parts = [left(own), ("plane", version("v1.34.1")), ("m", drained("old"))];
        after_minutes(minutes, &parts, &[]).remove(0)
    };
    let first = rolls(21, json!({}));
    assert_eq!((first.stand, first.waited.as_ref().map(|waited| waited.seconds)), (Stand::Rolling, Some(1200)));
    assert_eq!(first.deadline, Some("2026-01-01T12:09:00Z".parse().unwrap()));
    // The clock of whoever comes next is wrong by a year.
    let told = Said { since: "2025-01-01T00:00:00Z".parse().unwrap(), ..first };
    let by = |said: &Said| json!({ "metadata": { "annotations": { PROGRESS: json!(said).to_string() } } });
    assert_eq!(rolls(9, by(&told)).stand, Stand::Rolling);
    assert_eq!(rolls(11, by(&told)).stand, Stand::Stalled);
    let before =
        told.waited.clone().map(|waited| Waited { far: Far { old: waited.far.old + 1, ..waited.far }, ..waited });
    let moved = Said { waited: before, ..told };
    assert_eq!(rolls(29, by(&moved)).stand, Stand::Rolling, "a machine has gone since");
}

#[test]
fn whoever_has_given_back_a_place_goes_on_by_itself_and_has_its_workers_raised_in_its_turn() {
    let stalled = Said {
        to: "v1.34.1".to_owned(),
        stand: Stand::Stalled,
        sentence: "stuck".to_owned(),
        since: noon(),
        deadline: None,
        remedy: None,
        waited: None,
    };
    let own = left(json!({ "metadata": { "annotations": { PROGRESS: json!(stalled).to_string() } } }));
    let raised = |limit: usize| {
        let mut cluster = guest(&[own.clone(), ("plane", version("v1.34.1")), ("m", version("v1.34.1"))]);
        with_another(&mut cluster, "a", "v1.34.1", "v1.33.1");
        kept(&cluster, &terms(Some(limit)))
    };
    assert_eq!(raised(1), ["says Rolling", "says AnotherClusterFirst"]);
    let workers = r#"MachineDeployment/guests/pool {"template":{"spec":{"version":"v1.34.1"}}}"#;
    assert_eq!(raised(2), ["says Rolling", workers]);
}

#[test]
fn a_part_that_is_paused_is_named_at_once_and_takes_no_place() {
    let paused = ("pool", json!({ "spec": { "paused": true } }));
    let (plane, machine) = (("plane", version("v1.34.1")), ("m", version("v1.34.1")));
    let named = after_minutes(0, &[left(json!({})), plane.clone(), machine.clone(), paused.clone()], &["z"]);
    assert_eq!(named[0].stand, Stand::PartPaused);
    assert_eq!(named[0].sentence, "MachineDeployment guests/pool is paused (spec.paused): Cluster API leaves it alone");
    assert!(named[0].remedy.as_ref().unwrap().contains("patch machinedeployment pool"), "{:?}", named[0].remedy);
    assert_eq!(named.len(), 1, "z is raised");
    let raised = ("pool", json!({ "spec": { "template": { "spec": { "version": "v1.34.1" } } } }));
    let half_way = [left(json!({})), plane, machine, paused, raised];
    assert_eq!(after_minutes(0, &half_way, &[]).remove(0).stand, Stand::PartPaused);
    let annotated = ("plane", json!({ "metadata": { "annotations": { "cluster.x-k8s.io/paused": "" } } }));
    let said = after_minutes(0, &[left(json!({})), annotated], &[]).remove(0);
    assert!(said.sentence.starts_with("KubeadmControlPlane guests/plane is paused"), "{}", said.sentence);
}
