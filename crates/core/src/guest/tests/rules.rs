//! The rules of a control plane, by tables: who may come to etcd and go, what makes a machine well, what may be asked for.

use jiff::ToSpan;

use super::*;
use crate::guest::etcd::next_leader;
use crate::guest::order::{OrderError, begins_with};
use crate::guest::{health, removal};

/// Members by how they are: `well`, `ill`, `learner`, or `new` for one that has not started.
fn members(states: &[&str]) -> Vec<Member> {
    let member = |(at, state): (usize, &&str)| Member {
        id: at as u64 + 10,
        name: if *state == "new" { String::new() } else { format!("m{at}") },
        learner: *state == "learner",
        leader: at == 0,
        healthy: *state != "ill",
    };
    states.iter().enumerate().map(member).collect()
}

fn told(flow: Result<(), Next>) -> (String, String) {
    match flow {
        Ok(()) => ("yes".into(), String::new()),
        Err(Next::Wait { waits, .. }) => (waits[0].reason.to_string(), waits[0].sentence.clone()),
        Err(Next::Fail(failure)) => (format!("fails: {}", failure.reason), failure.sentence),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn a_member_comes_only_where_those_that_are_well_stay_a_majority_without_it() {
    let scene = settled();
    for (states, expected) in [
        (&["well"][..], "yes"),
        (&["ill"], "EtcdUnhealthy"),
        (&["well", "well"], "yes"),
        (&["well", "ill"], "EtcdUnhealthy"),
        (&["well", "well", "well"], "yes"),
        (&["well", "well", "ill"], "EtcdUnhealthy"),
        (&["well", "well", "well", "well", "ill"], "yes"),
        (&["well", "well", "learner"], "EtcdLearner"),
        (&["well", "well", "new"], "EtcdLearner"),
    ] {
        let (answer, _) = scene.look(|view| told(view.may_add_member(&members(states))));
        assert_eq!(answer, expected, "{states:?}");
    }
    let (_, sentence) = scene.look(|view| told(view.may_add_member(&members(&["well", "new"]))));
    assert_eq!(sentence, "the member b of etcd does not vote yet", "one without a name is told by its id");
}

#[test]
fn a_member_goes_only_where_the_others_are_enough_by_themselves() {
    let scene = settled();
    for (states, expected) in [
        (&["well", "well", "well"][..], "yes"),
        (&["well", "well", "ill"], "QuorumAtRisk"),
        (&["ill", "well", "well"], "yes"),
        (&["well", "well"], "yes"),
        (&["well", "ill"], "QuorumAtRisk"),
        (&["well"], "QuorumAtRisk"),
        (&["well", "well", "well", "well", "ill"], "yes"),
        (&["well", "well", "well", "ill", "ill"], "QuorumAtRisk"),
        (&["well", "learner", "well"], "EtcdLearner"),
        (&["learner", "well", "well"], "yes"),
        (&["new", "well", "well"], "yes"),
        (&["well", "well", "new"], "EtcdLearner"),
        (&["new", "learner"], "QuorumAtRisk"),
    ] {
        let (answer, _) = scene.look(|view| told(view.may_remove_member(&members(states), 10)));
        assert_eq!(answer, expected, "the first of {states:?}");
    }
    let why = |states: &[&str]| scene.look(|view| told(view.may_remove_member(&members(states), 10)).1);
    assert_eq!(why(&["well"]), "etcd would lose its quorum without m0; it is the last");
    assert_eq!(why(&["well", "ill"]), "etcd would lose its quorum without m0; not well: m1");
}

#[test]
fn the_newcomer_leads_or_else_any_voter_that_is_well() {
    let leads = |states: &[&str], newcomer: &str| {
        next_leader(&members(states), 10, newcomer).map(|member| member.name.clone()).unwrap_or_default()
    };
    assert_eq!(leads(&["well", "well", "well"], "m2"), "m2");
    assert_eq!(leads(&["well", "well", "well"], "gone"), "m1");
    assert_eq!(leads(&["well", "well", "well"], "m0"), "m1", "it is the one that goes");
    assert_eq!(leads(&["well", "ill", "well"], "m1"), "m2");
    assert_eq!(leads(&["well", "learner", "well"], "m1"), "m2");
    assert_eq!(leads(&["well", "learner", "ill"], "m1"), "");
}

fn change(scene: &mut Scene, collection: Collection, name: &str, patch: Value) {
    let mut object = scene.get(collection, name);
    json_patch::merge(&mut object, &patch);
    scene.put(collection, object);
}

/// What is said of machine `b`.
fn checked(scene: &Scene) -> Result<(), Next> {
    scene.look(|view| {
        let machine = view.machines().into_iter().find(|machine| machine.name() == "b").unwrap();
        health::check(view, &machine)
    })
}

#[test]
fn a_machine_is_well_when_all_that_makes_a_control_plane_is() {
    type Change = fn(&mut Scene);
    let cases: [(&str, Change, &str); 13] = [
        ("nothing is wrong", |_| {}, "yes"),
        (
            "it does not run",
            |scene| change(scene, Collection::Machines, "b", json!({ "spec": { "providerID": "" } })),
            "MachineProvisioning",
        ),
        ("it has no Node", |scene| scene.seen.forget(Collection::Nodes, "b"), "NodeMissing"),
        ("a part is missing", |scene| scene.seen.forget(Collection::Pods, "etcd-b"), "ComponentsNotReady"),
        (
            "a part is going",
            |scene| {
                let going = json!({ "metadata": { "deletionTimestamp": "2026-01-01T12:00:00Z" } });
                change(scene, Collection::Pods, "kube-scheduler-b", going);
            },
            "ComponentsNotReady",
        ),
        (
            "kubeadm has not finished",
            |scene| {
                change(scene, Collection::Nodes, "b", json!({ "metadata": { "labels": null } }));
            },
            "NodeNotMarked",
        ),
        (
            "the label is the new one",
            |scene| {
                let labels =
                    json!({ "node-role.kubernetes.io/master": null, "node-role.kubernetes.io/control-plane": "" });
                change(scene, Collection::Nodes, "b", json!({ "metadata": { "labels": labels } }));
            },
            "yes",
        ),
        (
            "its Node is not Ready",
            |scene| {
                let unready = json!([{ "type": "Ready", "status": "Unknown" }]);
                change(scene, Collection::Nodes, "b", json!({ "status": { "conditions": unready } }));
            },
            "NodeNotReady",
        ),
        ("its member learns", |scene| scene.members[1].learner = true, "EtcdLearner"),
        ("its member is ill", |scene| scene.members[1].healthy = false, "EtcdLearner"),
        ("it has no member", |scene| drop(scene.members.remove(1)), "EtcdLearner"),
        ("another member is ill", |scene| scene.members[2].healthy = false, "yes"),
        ("the Node of another is gone", |scene| scene.seen.forget(Collection::Nodes, "c"), "yes"),
    ];
    for (case, change, expected) in cases {
        let mut scene = settled();
        change(&mut scene);
        assert_eq!(told(checked(&scene)).0, expected, "{case}");
    }
}

#[test]
fn a_machine_has_its_time_from_when_it_was_made_or_looked_for() {
    let slow = |created: &str| {
        let mut scene = settled();
        scene.seen.forget(Collection::Nodes, "b");
        change(&mut scene, Collection::Machines, "b", json!({ "metadata": { "creationTimestamp": created } }));
        scene
    };
    for (created, minutes) in [("2026-01-01T11:00:00Z", 15), ("2026-01-01T12:10:00Z", 25)] {
        let mut scene = slow(created);
        scene.now = noon() + minutes.minutes() - 1.second();
        assert_eq!(told(checked(&scene)).0, "NodeMissing", "{created}");
        scene.now = noon() + minutes.minutes();
        let Err(Next::Fail(failure)) = checked(&scene) else { panic!("its time is up") };
        assert!(failure.sentence.starts_with("time is up: machine b runs"), "{}", failure.sentence);
        assert!(failure.note.is_some(), "the next try has to know");
        let noted = json!({ "metadata": { "annotations": { "drover.dev/failed": "before" } } });
        change(&mut scene, Collection::Machines, "b", noted);
        let Err(Next::Fail(failure)) = checked(&scene) else { panic!("its time is up") };
        assert!(failure.note.is_none(), "it is noted already");
    }
}

#[test]
fn what_cannot_be_done_is_not_asked_for() {
    let with = |change: &dyn Fn(&mut Order)| {
        let mut order = order("v1.16.7");
        change(&mut order);
        order.check().map(|_| ())
    };
    let id = |id: &str| with(&|order| order.id = id.to_owned());
    for good in ["7", "a", "a-1", "v1.16-b", &"a".repeat(253)] {
        assert_eq!(id(good), Ok(()), "{good}");
    }
    for bad in ["-a", "a-", "A", "a_b", "a..b", ".a", "a.", &"a".repeat(254)] {
        assert_eq!(id(bad), Err(OrderError::Id(bad.to_owned())));
    }
    assert_eq!(id(""), Err(OrderError::Missing("the upgrade id")));
    for (replicas, is_odd) in [(0, false), (1, true), (2, false), (3, true), (4, false), (5, true)] {
        let expected = if is_odd { Ok(()) } else { Err(OrderError::Replicas(replicas)) };
        assert_eq!(with(&|order| order.replicas = Some(replicas)), expected);
    }
    assert_eq!(with(&|order| order.machine_timeout = SignedDuration::ZERO), Err(OrderError::Timeout));
    assert_eq!(with(&|order| order.namespace.clear()), Err(OrderError::Missing("the cluster's namespace")));
    assert_eq!(with(&|order| order.cluster.clear()), Err(OrderError::Missing("the cluster's name")));
}

/// Whatever a machine is given time for, nobody would make it.
#[test]
fn a_paused_cluster_ends_a_try_at_once_and_the_next_one_goes_on_from_there() {
    type Pause = fn(&mut Scene);
    let mark = json!({ "metadata": { "annotations": { "cluster.x-k8s.io/paused": "" } } });
    let cases: [(Pause, &str, &str); 3] = [
        (
            |scene| change(scene, Collection::Clusters, "my-tkc", json!({ "spec": { "paused": true } })),
            "Cluster default/my-tkc is paused (spec.paused)",
            "drover upgrade resume cluster/default/my-tkc",
        ),
        (
            |scene| {
                let mark = json!({ "metadata": { "annotations": { "cluster.x-k8s.io/paused": "" } } });
                change(scene, Collection::Clusters, "my-tkc", mark);
            },
            "Cluster default/my-tkc is paused (annotation",
            "annotate cluster my-tkc cluster.x-k8s.io/paused-",
        ),
        (
            |scene| {
                let mark = json!({ "metadata": { "annotations": { "cluster.x-k8s.io/paused": "" } } });
                change(scene, Collection::Machines, "b", mark);
            },
            "Machine/default/b is paused",
            "annotate machine b cluster.x-k8s.io/paused-",
        ),
    ];
    for (pause, sentence, remedy) in cases {
        let mut scene = settled();
        scene.dialect = Dialect::V1beta1;
        pause(&mut scene);
        let (done, end) = scene.goes();
        assert_eq!((Scene::machines(done), end.as_str()), (Vec::new(), "fails: ClusterPaused"), "{sentence}");
        let Next::Fail(failure) = scene.next() else { panic!("{sentence}") };
        assert!(failure.sentence.starts_with(sentence) && failure.remedy.contains(remedy), "{failure}");
        assert!(failure.note.is_none(), "no machine has failed");
    }
    let mut scene = settled();
    scene.dialect = Dialect::V1beta1;
    assert_eq!(scene.goes().1, "MachineProvisioning");
    change(&mut scene, Collection::Clusters, "my-tkc", json!({ "spec": { "paused": true } }));
    assert_eq!(scene.goes().1, "fails: ClusterPaused", "in the middle as well");
    change(&mut scene, Collection::Clusters, "my-tkc", json!({ "spec": { "paused": false } }));
    assert_eq!(scene.goes().1, "MachineProvisioning");
    // The first version of Cluster API that is spoken here knows none of this.
    let mut first = settled();
    change(&mut first, Collection::Clusters, "my-tkc", mark);
    assert_eq!(first.goes().1, "MachineProvisioning");
}

#[test]
fn an_even_number_of_machines_is_said_and_no_reason_to_stop() {
    let said = |scene: &Scene| scene.look(warnings);
    let mut scene = settled();
    assert_eq!(said(&scene), [""; 0]);
    scene.seen.forget(Collection::Machines, "c");
    let warning = said(&scene).remove(0);
    assert!(warning.contains("has 2 machines: its etcd bears the loss of 0, as it does with 1"), "{warning}");
    scene.order.replicas = Some(3);
    assert_eq!(said(&scene), [""; 0], "it is asked for another already");
}

#[test]
fn patches_are_lists_of_operations_or_nothing() {
    let parsed = |text: &str| Patches::parse("--patches", text);
    assert_eq!(parsed(" "), Ok(Vec::new()));
    let one = json!({ "op": "add", "path": "/a", "value": 1 });
    assert_eq!(parsed(&json!([one]).to_string()), Ok(vec![one]));
    for bad in ["{}", "nonsense", r#"[{"op":"add"}]"#, r#"[{"op":"fly","path":"/a"}]"#] {
        let error = parsed(bad).unwrap_err().to_string();
        assert!(error.starts_with("--patches are no list of JSON patches (RFC 6902): "), "{error}");
    }
}

#[test]
fn a_hint_stands_for_versions_that_go_on_where_it_ends() {
    for (version, hint, expected) in [
        ("v1.15.1+vmware.1", "v1.15.1", true),
        ("v1.15.1", "v1.15.1", true),
        ("v1.15.1", "v1.15", true),
        ("v1.15.1", "1.15", true),
        ("1.15.1", "v1.15", true),
        ("v1.15.1", "v", false),
        ("v1.15.1", "", false),
        ("v1.15.10", "1.15.1", false),
        ("v1.15.1-rc.1", "v1.15.1", true),
        ("v1.15.10", "v1.15.1", false),
        ("v1.15.1", "v1.16", false),
    ] {
        assert_eq!(begins_with(version, hint), expected, "{hint} for {version}");
    }
}

#[test]
fn without_what_kubeadm_reads_nothing_is_begun() {
    type Change = fn(&mut Scene);
    let cases: [(Change, &str); 4] = [
        (
            |scene| scene.seen.forget(Collection::ConfigMaps, "kubeadm-config"),
            "has no ConfigMap kube-system/kubeadm-config",
        ),
        (
            |scene| {
                change(
                    scene,
                    Collection::ConfigMaps,
                    "kubeadm-config",
                    json!({ "data": { "ClusterConfiguration": null } }),
                )
            },
            "has no ClusterConfiguration",
        ),
        (
            |scene| {
                change(
                    scene,
                    Collection::ConfigMaps,
                    "kubeadm-config",
                    json!({ "data": { "ClusterConfiguration": "a: [" } }),
                )
            },
            "is no YAML",
        ),
        (
            |scene| scene.seen.forget(Collection::ConfigMaps, "kubelet-config-1.15"),
            "neither ConfigMap kube-system/kubelet-config-1.16 nor kubelet-config-1.15",
        ),
    ];
    for (change, expected) in cases {
        let mut scene = settled();
        change(&mut scene);
        let (done, end) = scene.goes();
        assert_eq!(end, "fails: KubeadmConfigInvalid", "{expected}");
        assert_eq!(Scene::machines(done), Vec::<String>::new(), "{expected}");
        let Next::Fail(failure) = scene.next() else { panic!("{expected}") };
        assert!(failure.sentence.contains(expected), "{}", failure.sentence);
    }
}

#[test]
fn a_patch_of_kubeadms_configuration_may_change_parts_that_nobody_has_written() {
    let mut scene = settled();
    let flags = json!({ "audit-log-maxage": "7" });
    scene.order.patches.kubeadm = vec![json!({ "op": "add", "path": "/apiServer/extraArgs", "value": flags })];
    scene.goes();
    let config = scene.get(Collection::ConfigMaps, "kubeadm-config");
    let written: Value = serde_saphyr::from_str(config["data"]["ClusterConfiguration"].as_str().unwrap()).unwrap();
    let expected = json!({
        "apiVersion": "kubeadm.k8s.io/v1beta2", "kind": "ClusterConfiguration", "kubernetesVersion": "v1.16.7",
        "unknown": "kept", "apiServer": { "extraArgs": flags },
    });
    assert_eq!(written, expected);
}

#[test]
fn what_an_earlier_try_has_left_is_used_if_it_is_as_wanted_and_cleared_away_otherwise() {
    let (done, _) = settled().goes();
    let name = done.iter().find_map(|deed| deed.strip_prefix("make WCPMachine ")).unwrap().to_owned();
    let again = |patch: Value| {
        let mut scene = settled();
        let mut left = scene.get(Collection::Infrastructure, "WCPMachine/a");
        left["metadata"] = json!({ "name": name, "namespace": "default", "uid": "left" });
        left["spec"]["providerID"] = json!("vsphere://left");
        json_patch::merge(&mut left, &patch);
        scene.put(Collection::Infrastructure, left);
        let (done, end) = scene.goes();
        let about: Vec<String> = done.into_iter().filter(|deed| deed.contains("WCPMachine")).collect();
        (about, end)
    };
    let (made, end) = (format!("make WCPMachine {name}"), "MachineProvisioning".to_owned());
    assert_eq!(again(json!({})), (vec![], end.clone()), "it has an id at its provider by now");
    let cleared = format!("delete WCPMachine {name}");
    assert_eq!(again(json!({ "spec": { "className": "large" } })), (vec![cleared, made], end));
    let going = json!({ "metadata": { "deletionTimestamp": "2026-01-01T12:00:00Z" } });
    assert_eq!(again(going), (vec![], "MachineDeleting".to_owned()));
}

#[test]
fn an_api_server_that_is_gone_is_forgotten_by_a_write_of_its_own() {
    let mut scene = settled();
    scene.goes();
    scene.comes_up("a-7");
    let mut forgotten = Vec::new();
    while let Next::Act(deeds) = scene.next() {
        for deed in deeds {
            if let Deed::Write(write) = &deed
                && let Act::Patch(patch) = &write.act
                && write.object.name == "kubeadm-config"
            {
                let told: Vec<String> = patch["data"].as_object().unwrap().keys().cloned().collect();
                forgotten.push((write.purpose, told.join(", ")));
            }
            scene.carry_out(&deed);
        }
    }
    assert_eq!(forgotten, [("forget an API server that is gone", "ClusterStatus".to_owned())]);
}

#[test]
fn a_member_that_never_started_is_nobodys_if_every_machine_has_its_own() {
    let removed = |scene: &Scene| match scene.look(|view| removal::forget_strays(view, &view.machines())) {
        Err(Next::Act(deeds)) => format!("{deeds:?}"),
        other => format!("{other:?}"),
    };
    let mut scene = settled();
    scene.members.push(Member { id: 0x2a, name: String::new(), learner: true, leader: false, healthy: false });
    assert_eq!(removed(&scene), "[RemoveMember { id: 42, name: \"2a\" }]");
    scene.members[3].learner = false;
    assert_eq!(removed(&scene), "[RemoveMember { id: 42, name: \"2a\" }]", "old kubeadms add voters at once");

    let without_a_node = |scene: &mut Scene| scene.seen.forget(Collection::Nodes, "c");
    let without_a_member = |scene: &mut Scene| scene.members.retain(|member| member.name != "c");
    for joins in [&without_a_node as &dyn Fn(&mut Scene), &without_a_member] {
        let mut scene = settled();
        scene.members.push(Member { id: 0x2a, name: String::new(), learner: true, leader: false, healthy: false });
        joins(&mut scene);
        assert_eq!(removed(&scene), "Ok(())", "it may be that of c, which joins");
    }
    let mut ill = settled();
    ill.members.push(Member { id: 0x2a, name: String::new(), learner: true, leader: false, healthy: false });
    (ill.members[1].healthy, ill.members[2].healthy) = (false, false);
    assert!(removed(&ill).contains("QuorumAtRisk"), "{}", removed(&ill));
}
