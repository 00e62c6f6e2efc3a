//! Steps of Jobs, look by look, on clusters that hold just what each of them asks for.

use serde_json::{Value, json};

use super::*;

mod addons;
mod brought;
mod chart_repository;
mod products;
mod rancher;

fn noon() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

/// An Upgrade that knows its release, and these objects.
fn cluster(objects: impl IntoIterator<Item = Value>) -> Cluster {
    let release = json!({
        "harvester": "v1.8.0", "harvesterChart": "1.8.0", "monitoringChart": "105.1.0", "loggingChart": "",
        "os": "new", "kubernetes": "v1.34.1+rke2r1", "rancher": "v2.13.1", "rancherChart": "charts/rancher.tgz",
    });
    let annotations = json!({ "drover.dev/progress": json!({ "release": release }).to_string() });
    let upgrade = json!({
        "apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade",
        "metadata": { "name": "u", "namespace": "harvester-system", "uid": "uid-u", "annotations": annotations },
    });
    let mut cluster = Cluster::new(noon());
    for object in [upgrade].into_iter().chain(objects) {
        cluster.take(object.to_string().as_bytes());
    }
    assert_eq!(cluster.unseen, []);
    cluster
}

/// The services of a release that says this as well, beside what is done already.
fn services(release: &Value, done: &Done, objects: impl IntoIterator<Item = Value>) -> Next {
    let mut known = cluster(objects);
    let upgrade = known.harvester.upgrades.get("harvester-system", "u").unwrap();
    let mut progress: Value = serde_json::from_str(&upgrade.metadata.annotations["drover.dev/progress"]).unwrap();
    json_patch::merge(&mut progress["release"], release);
    let again = json!({
        "apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade",
        "metadata": { "name": "u", "namespace": "harvester-system", "annotations": { "drover.dev/progress": progress.to_string() } },
    });
    known.take(again.to_string().as_bytes());
    next(&known, &order(Kind::Manifests, ""), done, noon())
}

fn order(kind: Kind, node: &str) -> Order {
    Order { kind, upgrade: "u".into(), node: node.into() }
}

fn look(objects: &[Value], kind: Kind, node: &str) -> Next {
    let done = Done::to_host([HostDeed::RecoverAgent]);
    next(&cluster(objects.iter().cloned()), &order(kind, node), &done, noon())
}

fn writes(next: &Next) -> &[Write] {
    match next {
        Next::Wait { writes, .. } => writes,
        _ => &[],
    }
}

/// The objects that are written, in order, each with what is done to it.
fn acts(next: &Next) -> Vec<(String, Value)> {
    let act = |write: &Write| match &write.act {
        Act::Create(object) => json!({ "data": object["data"] }),
        Act::Patch(patch) => patch.clone(),
        Act::Call { part } => json!(part),
        other => panic!("{other:?}"),
    };
    writes(next).iter().map(|write| (write.subject.to_string(), act(write))).collect()
}

fn waits(next: &Next) -> Vec<(Reason, &str)> {
    match next {
        Next::Wait { waits, .. } => waits.iter().map(|wait| (wait.reason, wait.sentence.as_str())).collect(),
        _ => Vec::new(),
    }
}

fn map(name: &str, data: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": "harvester-system", "resourceVersion": "7" }, "data": data,
    })
}

fn node(name: &str, more: Value) -> Value {
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": {} },
        "status": {
            "nodeInfo": { "kubeletVersion": "v1.33.5+rke2r1", "osImage": "old" },
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    });
    json_patch::merge(&mut node, &more);
    node
}

/// A node that takes part, with its Machine.
fn member(name: &str) -> [Value; 2] {
    let machine = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
        "metadata": { "name": format!("custom-{name}"), "namespace": "fleet-local" }, "status": { "nodeRef": { "name": name } },
    });
    [node(name, json!({ "metadata": { "labels": { "harvesterhci.io/managed": "true" } } })), machine]
}

/// On three nodes, whose template was changed once.
fn daemon_set(namespace: &str, name: &str, updated: i64, ready: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {
            "name": name, "namespace": namespace, "uid": name, "generation": 2,
            "annotations": { "deprecated.daemonset.template.generation": "2" },
        },
        "status": {
            "observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": updated, "numberReady": ready,
        },
    })
}

/// Of such a DaemonSet.
fn daemon(namespace: &str, set: &str, node: &str, template: &str, ready: &str) -> Value {
    let owner = json!([{ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": set, "uid": set, "controller": true }]);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{set}-{node}"), "namespace": namespace, "ownerReferences": owner,
            "labels": { "pod-template-generation": template },
        },
        "spec": { "nodeName": node }, "status": { "conditions": [{ "type": "Ready", "status": ready }] },
    })
}

mod manifests {
    use super::*;

    const ALL: [&str; 4] = ["harvester-crd", "harvester", "rancher-monitoring-crd", "rancher-logging-crd"];

    fn chart(name: &str, more: Value) -> Value {
        let mut chart = json!({
            "apiVersion": "management.cattle.io/v3", "kind": "ManagedChart",
            "metadata": { "name": name, "namespace": "fleet-local", "resourceVersion": "5", "generation": 2, "annotations": {} },
            "spec": { "version": "1.7.0", "paused": true, "values": moving(&json!([])) },
            "status": { "observedGeneration": 2, "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        json_patch::merge(&mut chart, &more);
        chart
    }

    /// A chart that this Upgrade has brought to a version.
    fn raised(name: &str, version: &str) -> Value {
        let annotations = json!({ "upgrade.harvesterhci.io/last-upgrade-name": "u" });
        let spec = json!({ "version": version, "paused": false });
        chart(name, json!({ "metadata": { "annotations": annotations }, "spec": spec }))
    }

    /// How KubeVirt moves workloads to its new version.
    pub(super) fn moving(methods: &Value) -> Value {
        json!({ "kubevirt": { "spec": { "workloadUpdateStrategy": { "workloadUpdateMethods": methods } } } })
    }

    pub(super) fn all_raised() -> Vec<Value> {
        ALL.into_iter()
            .zip(["1.8.0", "1.8.0", "105.1.0", "1.7.0"])
            .map(|(name, version)| raised(name, version))
            .collect()
    }

    pub(super) fn told(states: [&str; 14]) -> Value {
        let names = [
            "hold-charts",
            "hold-kubevirt",
            "rancher",
            "fleet-agent",
            "chart-repository",
            "harvester-crd",
            "harvester",
            "kubevirt",
            "longhorn",
            "rancher-monitoring-crd",
            "rancher-logging-crd",
            "addon.cattle-monitoring-system.rancher-monitoring",
            "addons",
            "bundles",
        ];
        names.into_iter().zip(states).map(|(name, state)| (name.to_owned(), json!(state))).collect()
    }

    fn changed(objects: &[Value]) -> Vec<(String, Value)> {
        let all = acts(&look(objects, Kind::Manifests, ""));
        all.into_iter().filter(|(subject, _)| subject.starts_with("ManagedChart/")).collect()
    }

    #[test]
    fn no_chart_moves_before_its_turn() {
        let objects = ALL.map(|name| chart(name, json!({ "spec": { "paused": name == "harvester" } })));
        let held = |name: &str| {
            let patch = json!({ "metadata": { "resourceVersion": "5" }, "spec": { "paused": true } });
            (format!("ManagedChart/fleet-local/{name}"), patch)
        };
        let expected = ["harvester-crd", "rancher-monitoring-crd", "rancher-logging-crd"].map(held);
        assert_eq!(changed(&objects), expected);

        let again = [raised("harvester-crd", "1.8.0"), chart("harvester", json!({}))];
        let subjects: Vec<String> = changed(&again).into_iter().map(|(subject, _)| subject).collect();
        assert_eq!(subjects, ["ManagedChart/fleet-local/harvester"], "one that was raised is not held again");
    }

    #[test]
    fn charts_are_raised_one_after_the_other_and_each_says_for_what() {
        let objects = ALL.map(|name| chart(name, json!({})));
        let patch = json!({
            "metadata": { "resourceVersion": "5", "annotations": {
                "upgrade.harvesterhci.io/last-upgrade-name": "u",
                "upgrade.harvesterhci.io/last-upgrade-target-version": "v1.8.0",
                "upgrade.harvesterhci.io/last-upgrade-time": "2026-01-01T12:00:00Z",
            }},
            "spec": { "version": "1.8.0", "paused": false },
        });
        assert_eq!(changed(&objects), [("ManagedChart/fleet-local/harvester-crd".to_owned(), patch)]);
    }

    #[test]
    fn a_chart_is_done_when_it_is_as_the_release_asks_and_says_so() {
        let before = || vec![raised("harvester-crd", "1.8.0")];
        let with = |more: Value| {
            let mut harvester = raised("harvester", "1.8.0");
            json_patch::merge(&mut harvester, &more);
            let objects: Vec<Value> = before().into_iter().chain([harvester]).collect();
            let next = look(&objects, Kind::Manifests, "");
            (changed(&objects).len(), waits(&next).first().map(|(_, sentence)| (*sentence).to_owned()))
        };
        let not_ready = |said: &str| Some(format!("ManagedChart fleet-local/harvester is not ready at 1.8.0{said}"));
        assert_eq!(with(json!({})), (0, None));
        assert_eq!(with(json!({ "spec": { "version": "1.7.0" } })), (1, None));
        assert_eq!(with(json!({ "spec": { "paused": true } })), (1, None));
        let of_another = json!({ "upgrade.harvesterhci.io/last-upgrade-name": "before" });
        assert_eq!(with(json!({ "metadata": { "annotations": of_another } })), (1, None));
        assert_eq!(with(json!({ "status": { "observedGeneration": 1 } })), (0, not_ready("")), "that was before");
        let broken = json!([{ "type": "Ready", "status": "False", "message": "pods crash" }]);
        let (_, said) = with(json!({ "status": { "conditions": broken } }));
        assert!(said.as_ref().is_some_and(|said| said.ends_with("pods crash")), "{said:?}");
        let missing = |version: &str| {
            let message = format!("no chart version found for harvester-{version}");
            let defined = json!({ "type": "Defined", "status": "False", "message": message });
            let conditions = json!([{ "type": "Ready", "status": "True" }, defined]);
            with(json!({ "status": { "observedGeneration": 1, "conditions": conditions } })).1
        };
        assert_eq!(missing("1.8.0"), not_ready(": no chart version found for harvester-1.8.0"));
        assert_eq!(missing("1.7.0"), not_ready(""), "that was before it was raised");
    }

    #[test]
    fn a_chart_whose_version_the_release_does_not_say_keeps_it() {
        let mut objects = all_raised();
        objects[3] = chart("rancher-logging-crd", json!({}));
        let changed = changed(&objects);
        assert_eq!(changed[0].1["spec"], json!({ "version": "1.7.0", "paused": false }));
    }

    #[test]
    fn how_far_each_component_is_stands_in_a_map_that_goes_with_the_upgrade() {
        let mut objects = all_raised();
        objects[1] = chart("harvester", json!({}));
        let so_far = [
            "done",
            "done",
            "done",
            "done",
            "done",
            "done",
            "under way",
            "waits",
            "waits",
            "waits",
            "waits",
            "waits",
            "waits",
            "waits",
        ];
        let next = look(&objects, Kind::Manifests, "");
        let Some(Act::Create(made)) = writes(&next).last().map(|write| &write.act) else { panic!("{next:?}") };
        assert_eq!((&made["data"], &made["metadata"]["name"]), (&told(so_far), &json!("u-apply-manifests")));
        assert_eq!(made["metadata"]["ownerReferences"][0]["uid"], "uid-u");

        objects.push(map("u-apply-manifests", told(so_far)));
        assert_eq!(writes(&look(&objects, Kind::Manifests, "")).len(), 1, "what was told is not told again");

        objects[1] = raised("harvester", "1.8.0");
        let end = acts(&look(&objects, Kind::Manifests, ""));
        let patch = json!({ "metadata": { "resourceVersion": "7" }, "data": told(["done"; 14]) });
        assert_eq!(end, [("ConfigMap/harvester-system/u-apply-manifests".to_owned(), patch)]);
        objects[4] = map("u-apply-manifests", told(["done"; 14]));
        assert_eq!(look(&objects, Kind::Manifests, ""), Next::Done);
    }
}

mod vms {
    use super::*;

    fn instance(name: &str, more: Value) -> Value {
        let mut vm = json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
            "metadata": { "name": name, "namespace": "shop", "labels": {} },
            "spec": {}, "status": { "phase": "Running", "nodeName": "node-1" },
        });
        json_patch::merge(&mut vm, &more);
        vm
    }

    /// One that KubeVirt does not migrate.
    fn bound(name: &str) -> Value {
        instance(name, json!({ "status": { "conditions": [{ "type": "LiveMigratable", "status": "False" }] } }))
    }

    fn machine(name: &str, spec: Value) -> Value {
        json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
            "metadata": { "name": name, "namespace": "shop" }, "spec": spec,
        })
    }

    /// One of a strategy that is kept while it is stopped, and of which this was asked.
    fn asked(strategy: &str, requests: Value) -> Value {
        let mut machine = machine("db", json!({ "runStrategy": strategy }));
        machine["status"] = json!({ "stateChangeRequests": requests });
        machine
    }

    fn two_nodes() -> Vec<Value> {
        vec![node("node-1", json!({})), node("node-2", json!({}))]
    }

    fn stopping(vm: &Value, more: &[Value]) -> Next {
        let objects: Vec<Value> = two_nodes().into_iter().chain([vm.clone()]).chain(more.iter().cloned()).collect();
        look(&objects, Kind::PreDrain, "node-1")
    }

    fn is_stopped(vm: &Value, more: &[Value]) -> bool {
        let noted = map("u-restore-vm", json!({ "node-1": "shop/db" }));
        let more: Vec<Value> = more.iter().cloned().chain([noted]).collect();
        waits(&stopping(vm, &more)).iter().any(|(_, sentence)| sentence.contains("cannot migrate"))
    }

    #[test]
    fn a_vm_that_cannot_move_is_noted_before_it_is_stopped() {
        let runs = machine("db", json!({ "runStrategy": "Always" }));
        let first = stopping(&bound("db"), std::slice::from_ref(&runs));
        let list = ("ConfigMap/harvester-system/u-restore-vm".to_owned(), json!({ "data": { "node-1": "shop/db" } }));
        assert_eq!((acts(&first), waits(&first)), (vec![list], vec![]));

        let noted = map("u-restore-vm", json!({ "node-1": "shop/db" }));
        let second = stopping(&bound("db"), &[runs, noted.clone()]);
        assert_eq!(acts(&second), [("VirtualMachine/shop/db".to_owned(), json!("stop"))]);
        let sentence = "VMs that cannot migrate are stopped on node-1: shop/db";
        assert_eq!(waits(&second), [(Reason::VmsLeaving, sentence)]);

        for off in [json!({ "runStrategy": "Halted" }), json!({ "running": false })] {
            let third = stopping(&bound("db"), &[machine("db", off), noted.clone()]);
            assert_eq!((acts(&third), waits(&third).len()), (vec![], 1), "it was told to be off and is waited for");
        }
    }

    #[test]
    fn a_vm_whose_strategy_stays_is_asked_once_to_stop() {
        let noted = || map("u-restore-vm", json!({ "node-1": "shop/db" }));
        let mut runs = bound("db");
        runs["metadata"]["uid"] = json!("uid-db");
        let stop = [("VirtualMachine/shop/db".to_owned(), json!("stop"))];
        for strategy in ["RerunOnFailure", "Manual"] {
            assert_eq!(acts(&stopping(&runs, &[asked(strategy, json!([])), noted()])), stop);
            let before = json!([{ "action": "Stop", "uid": "uid-before" }]);
            assert_eq!(acts(&stopping(&runs, &[asked(strategy, before), noted()])), stop, "that was another instance");
            let now = json!([{ "action": "Stop", "uid": "uid-db" }]);
            let again = stopping(&runs, &[asked(strategy, now), noted()]);
            assert_eq!((acts(&again), waits(&again).len()), (vec![], 1), "it is waited for");
        }
    }

    #[test]
    fn a_step_that_is_begun_anew_keeps_what_was_noted_and_adds_what_is_new() {
        let noted = map("u-restore-vm", json!({ "node-1": "shop/gone", "node-2": "shop/other" }));
        let next = stopping(&bound("db"), &[noted]);
        let patch = json!({ "metadata": { "resourceVersion": "7" }, "data": { "node-1": "shop/gone,shop/db" } });
        assert_eq!(acts(&next), [("ConfigMap/harvester-system/u-restore-vm".to_owned(), patch)]);
    }

    #[test]
    fn a_vm_that_somebody_has_paused_is_stopped_and_not_started_again() {
        let conditions =
            json!([{ "type": "LiveMigratable", "status": "False" }, { "type": "Paused", "status": "True" }]);
        let paused = instance("db", json!({ "status": { "conditions": conditions } }));
        let next = stopping(&paused, &[machine("db", json!({ "running": true }))]);
        assert_eq!(acts(&next), [("VirtualMachine/shop/db".to_owned(), json!("stop"))]);
    }

    #[test]
    fn only_a_vm_of_this_node_that_no_other_node_takes_is_stopped() {
        let device = json!({ "spec": { "domain": { "devices": { "hostDevices": [{ "name": "gpu" }] } } } });
        assert!(is_stopped(&bound("db"), &[]));
        assert!(is_stopped(&instance("db", device), &[]));
        assert!(!is_stopped(&instance("db", json!({})), &[]), "it can move");
        let elsewhere = json!({ "status": { "nodeName": "node-2" } });
        let mut other = bound("db");
        json_patch::merge(&mut other, &elsewhere);
        assert!(!is_stopped(&other, &[]));
        let mut over = bound("db");
        json_patch::merge(&mut over, &json!({ "status": { "phase": "Succeeded" } }));
        assert!(!is_stopped(&over, &[]));
        let mut repository = bound("db");
        json_patch::merge(
            &mut repository,
            &json!({ "metadata": { "labels": { "harvesterhci.io/upgradeComponent": "repo" } } }),
        );
        assert!(!is_stopped(&repository, &[]), "what serves the release is nobody's");
    }

    #[test]
    fn a_vm_moves_only_to_a_node_that_runs_vms_and_is_in_service() {
        let free = || instance("db", json!({}));
        let instead = |more: Value| [node("node-2", more)];
        assert!(!is_stopped(&free(), &instead(json!({}))));
        assert!(is_stopped(&free(), &instead(json!({ "spec": { "unschedulable": true } }))));
        let witness = json!({ "metadata": { "labels": { "node-role.harvesterhci.io/witness": "true" } } });
        assert!(is_stopped(&free(), &instead(witness)));
    }

    #[test]
    fn a_vm_is_not_stopped_because_the_node_that_it_could_move_to_is_away() {
        let not_ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "Unknown" }] } });
        let away = || node("node-2", not_ready.clone());
        let next = stopping(&instance("web", json!({})), &[machine("web", json!({ "running": true })), away()]);
        let sentence = "VMs can leave node-1 only for nodes that are not Ready (node-2): shop/web";
        assert_eq!((acts(&next), waits(&next)), (vec![], vec![(Reason::VmsLeaving, sentence)]));

        // One that cannot move in any case is stopped meanwhile.
        let list = map("u-restore-vm", json!({ "node-1": "shop/db" }));
        let both = [instance("web", json!({})), machine("db", json!({ "running": true })), list, away()];
        let next = stopping(&bound("db"), &both);
        assert_eq!(acts(&next), [("VirtualMachine/shop/db".to_owned(), json!("stop"))]);
        assert_eq!(waits(&next).len(), 2);

        let cordoned = node("node-2", json!({ "spec": { "unschedulable": true }, "status": not_ready["status"] }));
        assert!(is_stopped(&instance("db", json!({})), &[cordoned]), "that is somebody's will");
    }

    #[test]
    fn what_was_stopped_for_a_node_is_started_again_once() {
        let list =
            map("u-restore-vm", json!({ "node-1": "shop/db, shop/web,shop/gone,nonsense", "node-2": "shop/other" }));
        let off = json!({ "runStrategy": "Halted" });
        let objects = [
            list,
            machine("db", off.clone()),
            machine("web", json!({ "running": false })),
            machine("other", off.clone()),
        ];
        let next = look(&objects, Kind::RestoreVms, "node-1");
        let start = |name: &str| (format!("VirtualMachine/shop/{name}"), json!("start"));
        assert_eq!(acts(&next), [start("db"), start("web")]);

        let on = [
            objects[0].clone(),
            machine("db", json!({ "runStrategy": "Always" })),
            machine("web", json!({ "running": true })),
        ];
        assert_eq!(look(&on, Kind::RestoreVms, "node-1"), Next::Done);
        let runs = [objects[0].clone(), asked("Manual", json!([])), instance("db", json!({}))];
        assert_eq!(look(&runs, Kind::RestoreVms, "node-1"), Next::Done);
        let ended =
            [objects[0].clone(), machine("db", off), instance("db", json!({ "status": { "phase": "Failed" } }))];
        assert_eq!(acts(&look(&ended, Kind::RestoreVms, "node-1")), [start("db")]);
    }

    /// What is done about `shop/db`, which was stopped for node-1.
    fn restoring(objects: impl IntoIterator<Item = Value>) -> Next {
        let list = map("u-restore-vm", json!({ "node-1": "shop/db" }));
        look(&[list].into_iter().chain(objects).collect::<Vec<Value>>(), Kind::RestoreVms, "node-1")
    }

    #[test]
    fn a_vm_whose_strategy_stayed_is_started_again_as_well() {
        let start = [("VirtualMachine/shop/db".to_owned(), json!("start"))];
        let over = |phase: &str| instance("db", json!({ "status": { "phase": phase } }));
        for strategy in ["RerunOnFailure", "Manual"] {
            let off = || asked(strategy, json!([]));
            assert_eq!(acts(&restoring([off()])), start, "{strategy}");
            assert_eq!(acts(&restoring([off(), over("Succeeded")])), start, "{strategy}");
            assert_eq!(restoring([asked(strategy, json!([{ "action": "Start" }]))]), Next::Done, "it is asked already");
            assert_eq!(restoring([off(), instance("db", json!({}))]), Next::Done, "it runs");
        }
        assert_eq!(acts(&restoring([asked("Manual", json!([])), over("Failed")])), start);
    }

    #[test]
    fn what_kubevirt_starts_by_itself_or_never_again_is_left_to_it() {
        let failed = instance("db", json!({ "status": { "phase": "Failed" } }));
        assert_eq!(restoring([asked("RerunOnFailure", json!([])), failed]), Next::Done);
        for strategy in ["Always", "Once"] {
            assert_eq!(restoring([asked(strategy, json!([]))]), Next::Done, "{strategy}");
        }
    }

    #[test]
    fn a_vm_that_is_still_on_its_way_down_is_waited_for_and_then_started() {
        let mut runs = instance("db", json!({}));
        runs["metadata"]["uid"] = json!("uid-db");
        let mut leaving = runs.clone();
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T11:59:00Z");
        let stop = json!([{ "action": "Stop", "uid": "uid-db" }]);
        for objects in [
            [asked("Halted", json!([])), runs.clone()],
            [asked("RerunOnFailure", stop), runs],
            [asked("Manual", json!([])), leaving],
        ] {
            let next = restoring(objects);
            let sentence = "VMs are started again once they are off: shop/db";
            assert_eq!((acts(&next), waits(&next)), (vec![], vec![(Reason::VmsLeaving, sentence)]));
        }
    }
}

#[test]
fn the_only_node_stops_its_vms_raises_kubernetes_and_gets_its_system_last() {
    let local = |version: &str| {
        json!({
            "apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster",
            "metadata": { "name": "local", "namespace": "fleet-local", "resourceVersion": "9" },
            "spec": { "kubernetesVersion": version },
        })
    };
    let raised = |os: &str| {
        node("node-1", json!({ "status": { "nodeInfo": { "kubeletVersion": "v1.34.1+rke2r1", "osImage": os } } }))
    };
    let next_of = |objects: &[Value]| look(objects, Kind::SingleNode, "node-1");

    let first =
        next(&cluster([node("node-1", json!({}))]), &order(Kind::SingleNode, "node-1"), &Done::default(), noon());
    assert_eq!(first, Next::Host(HostDeed::RecoverAgent));
    let patch = json!({ "metadata": { "resourceVersion": "9" }, "spec": { "kubernetesVersion": "v1.34.1+rke2r1" } });
    let asked = next_of(&[node("node-1", json!({})), local("v1.33.5+rke2r1")]);
    assert_eq!(acts(&asked), [("Cluster/fleet-local/local".to_owned(), patch)]);
    let waiting = next_of(&[node("node-1", json!({})), local("v1.34.1+rke2r1")]);
    let sentence = "the kubelet of node-1 runs v1.33.5+rke2r1, not v1.34.1+rke2r1 yet";
    assert_eq!((acts(&waiting), waits(&waiting)), (vec![], vec![(Reason::PlannerWorks, sentence)]));
    let system = HostDeed::InstallSystem { os: "new".into() };
    assert_eq!(next_of(&[raised("old"), local("v1.34.1+rke2r1")]), Next::Host(system));
    assert_eq!(next_of(&[raised("new"), local("v1.34.1+rke2r1")]), Next::Done);
}

#[test]
fn vms_leave_the_only_node_for_one_that_has_joined() {
    let vm = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": { "name": "web", "namespace": "shop" }, "status": { "phase": "Running", "nodeName": "node-1" },
    });
    let joined = node("node-2", json!({}));
    let next = look(&[node("node-1", json!({})), vm.clone(), joined.clone()], Kind::SingleNode, "node-1");
    assert_eq!(acts(&next)[0].1["spec"]["taints"][0]["key"], "kubevirt.io/drain");
    let taint = json!([{ "key": "kubevirt.io/drain", "value": "draining", "effect": "NoSchedule" }]);
    let tainted = node("node-1", json!({ "spec": { "taints": taint } }));
    let next = look(&[tainted.clone(), vm, joined.clone()], Kind::SingleNode, "node-1");
    let sentence = "VMs are on their way from node-1: shop/web";
    assert_eq!((acts(&next), waits(&next)), (vec![], vec![(Reason::VmsLeaving, sentence)]));
    // It goes when all of the upgrade does: until then none comes back.
    let next = look(&[tainted, joined], Kind::SingleNode, "node-1");
    assert_eq!(waits(&next)[0].0, Reason::PlannerWorks);
}

#[test]
fn after_the_drain_the_taint_goes_and_those_of_others_stay() {
    let taints = json!([
        { "key": "kubevirt.io/drain", "value": "draining", "effect": "NoSchedule" },
        { "key": "use", "value": "gpu", "effect": "NoSchedule" },
    ]);
    let tainted = node(
        "node-1",
        json!({
            "metadata": { "resourceVersion": "3" }, "spec": { "taints": taints },
            "status": { "nodeInfo": { "kubeletVersion": "v1.34.1+rke2r1" } },
        }),
    );
    let next = look(&[tainted], Kind::PostDrain, "node-1");
    let patch = json!({ "metadata": { "resourceVersion": "3" }, "spec": { "taints": [taints[1]] } });
    assert_eq!(acts(&next), [("Node/node-1".to_owned(), patch)]);
}

#[test]
fn a_step_without_its_node_its_upgrade_or_its_release_fails_in_a_sentence() {
    for kind in [Kind::PreDrain, Kind::PostDrain, Kind::SingleNode] {
        assert_eq!(look(&[], kind, "node-1"), Next::Fail("there is no Node node-1".into()));
    }
    let none = next(&Cluster::new(noon()), &order(Kind::Manifests, ""), &Done::default(), noon());
    assert_eq!(none, Next::Fail("there is no Upgrade harvester-system/u".into()));
    let bare = json!({
        "apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade",
        "metadata": { "name": "u", "namespace": "harvester-system" },
    });
    let sentence = "Upgrade harvester-system/u does not say which release it is for";
    assert_eq!(look(&[bare], Kind::Manifests, ""), Next::Fail(sentence.into()));
}

#[test]
fn an_upgrade_that_was_called_off_begins_no_node_and_ends_what_is_begun() {
    let progress = json!({ "aborting": true, "release": { "kubernetes": "v1.34.1+rke2r1", "os": "new" } });
    let upgrade = json!({
        "apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade",
        "metadata": {
            "name": "u", "namespace": "harvester-system", "annotations": { "drover.dev/progress": progress.to_string() },
        },
    });
    let objects = [upgrade, node("node-1", json!({}))];
    for (kind, is_refused) in [
        (Kind::PreDrain, true),
        (Kind::Manifests, true),
        (Kind::PostDrain, false),
        (Kind::SingleNode, false),
        (Kind::RestoreVms, false),
    ] {
        let said = look(&objects, kind, "node-1");
        let called_off = Next::Fail("Upgrade harvester-system/u was called off".into());
        assert_eq!(said == called_off, is_refused, "{kind:?}");
    }
}

#[test]
fn a_node_is_emptied_when_no_vm_is_on_it_and_none_is_on_its_way_from_it() {
    let tainted = || {
        let taint = json!([{ "key": "kubevirt.io/drain", "value": "draining", "effect": "NoSchedule" }]);
        vec![node("node-1", json!({ "spec": { "taints": taint } })), node("node-2", json!({}))]
    };
    let migration = |vm: &str, from: &str, phase: &str| {
        json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceMigration",
            "metadata": { "name": format!("of-{vm}"), "namespace": "shop", "annotations": { "kubevirt.io/evacuationMigration": from } },
            "spec": { "vmiName": vm }, "status": { "phase": phase },
        })
    };
    let vm = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": { "name": "ledger", "namespace": "shop" }, "status": { "phase": "Running", "nodeName": "node-1" },
    });
    let next = |more: Vec<Value>| look(&[tainted(), more].concat(), Kind::PreDrain, "node-1");

    assert_eq!(next(vec![]), Next::Done);
    assert_eq!(next(vec![migration("a", "node-1", "Succeeded"), migration("b", "node-2", "Running")]), Next::Done);
    let Next::Wait { writes, waits } = next(vec![vm, migration("cart", "node-1", "Running")]) else { panic!() };
    assert_eq!(writes, []);
    let said: Vec<(&str, Option<&str>)> =
        waits.iter().map(|wait| (wait.sentence.as_str(), wait.remedy.as_deref())).collect();
    let remedy = "if one does not get on: virtctl -n shop migrate cart, or stop it";
    assert_eq!(said, [("VMs are on their way from node-1: shop/cart, shop/ledger", Some(remedy))]);
}
