//! What the chart of Harvester leaves to operators of its own: KubeVirt and Longhorn.

use super::manifests::{all_raised, moving, told};
use super::*;

/// The services of a release that names this KubeVirt, beside these objects.
fn with(kubevirt: &str, more: &[Value]) -> Next {
    let release = json!({ "kubevirt": kubevirt });
    services(&release, &Done::default(), all_raised().into_iter().chain(more.iter().cloned()))
}

fn kubevirt(phase: &str, version: &str) -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt",
        "metadata": { "name": "kubevirt", "namespace": "harvester-system" },
        "status": { "phase": phase, "observedKubeVirtVersion": version },
    })
}

fn book(component: &str, state: &str) -> Value {
    let mut states = told(["done"; 14]);
    states[component] = json!(state);
    map("u-apply-manifests", states)
}

fn stored(kind: &str, name: &str, more: Value) -> Value {
    let mut object = json!({
        "apiVersion": "longhorn.io/v1beta2", "kind": kind, "metadata": { "name": name, "namespace": "longhorn-system" },
    });
    json_patch::merge(&mut object, &more);
    object
}

fn manager(node: &str, image: &str, state: &str) -> Value {
    let name = format!("{node}-{image}");
    stored(
        "InstanceManager",
        &name,
        json!({ "spec": { "nodeID": node, "image": image }, "status": { "currentState": state } }),
    )
}

/// Two nodes that keep volumes, and the image that Longhorn starts on them.
fn storage() -> Vec<Value> {
    let image = stored("Setting", "default-instance-manager-image", json!({ "value": "v2" }));
    let nodes = ["node-1", "node-2"].map(|name| stored("Node", name, json!({})));
    [nodes.to_vec(), member("node-1").to_vec(), member("node-2").to_vec(), vec![image]].concat()
}

#[test]
fn kubevirt_is_waited_for_until_all_of_it_is_of_the_version_that_the_release_names() {
    let said = |wanted: &str, phase: &str, runs: &str| {
        let next = with(wanted, &[kubevirt(phase, runs)]);
        waits(&next).first().map(|(_, sentence)| (*sentence).to_owned())
    };
    let waits = |why: &str| Some(format!("KubeVirt harvester-system/kubevirt is not deployed{why}"));
    assert_eq!(said("1.7.0", "Deployed", "1.6.0"), waits(" at 1.7.0: it is Deployed, and runs 1.6.0"));
    assert_eq!(said("1.7.0", "Deploying", "1.7.0"), waits(" at 1.7.0: it is Deploying"));
    assert_eq!(said("1.7.0", "", ""), waits(" at 1.7.0: it is not begun"));
    assert_eq!(said("1.7.0", "Deployed", "1.7.0"), None);
    assert_eq!(said("", "Deploying", "1.6.0"), waits(": it is Deploying"), "a release need not name it");
    assert_eq!(said("", "Deployed", "1.6.0"), None);
    assert_eq!(with("1.7.0", &[book("kubevirt", "done")]), Next::Done, "a cluster need not have it");
}

#[test]
fn kubevirt_moves_no_vm_to_its_new_version_and_what_it_was_asked_for_is_noted_first() {
    let known = |values: Value, noted: Option<&str>| {
        let chart = json!({
            "apiVersion": "management.cattle.io/v3", "kind": "ManagedChart",
            "metadata": { "name": "harvester", "namespace": "fleet-local", "resourceVersion": "5" },
            "spec": { "version": "1.7.0", "paused": true, "values": values },
        });
        let mut known = cluster([chart]);
        let mut upgrade = known.harvester.upgrades.get("harvester-system", "u").unwrap().clone();
        let noted =
            noted.map(|noted| ("harvesterhci.io/kubevirt-workload-update-methods".to_owned(), noted.to_owned()));
        upgrade.metadata.annotations.extend(noted);
        known.looked_at = noon();
        let all = acts(&next_for(&known, &order(Kind::Manifests, ""), &upgrade, &Done::default(), noon()));
        all.into_iter().find(|(subject, _)| !subject.starts_with("ConfigMap/"))
    };
    let note = |text: &str| {
        let annotations = json!({ "harvesterhci.io/kubevirt-workload-update-methods": text });
        let patch = json!({ "metadata": { "resourceVersion": "0", "annotations": annotations } });
        Some(("Upgrade/harvester-system/u".to_owned(), patch))
    };
    let held = || {
        let patch = json!({ "metadata": { "resourceVersion": "5" }, "spec": { "values": moving(&json!([])) } });
        Some(("ManagedChart/fleet-local/harvester".to_owned(), patch))
    };
    assert_eq!(known(json!({}), None), note("null"), "the chart says it by itself");
    assert_eq!(known(Value::Null, Some("null")), held());
    let evicts = moving(&json!(["Evict"]));
    assert_eq!(known(evicts.clone(), None), note(r#"["Evict"]"#));
    assert_eq!(known(evicts.clone(), Some("null")), note(r#"["Evict"]"#), "somebody has changed it since");
    assert_eq!(known(evicts, Some(r#"["Evict"]"#)), held());

    let raised = known(moving(&json!([])), None).unwrap();
    assert_eq!(
        (raised.0.as_str(), &raised.1["spec"]["version"]),
        ("ManagedChart/fleet-local/harvester", &json!("1.8.0"))
    );
}

#[test]
fn nothing_after_kubevirt_is_touched_before_it_is_there() {
    let next = with("1.7.0", &[kubevirt("Deploying", "1.6.0")]);
    let book = acts(&next).into_iter().find(|(subject, _)| subject.starts_with("ConfigMap/")).unwrap().1;
    assert_eq!((&book["data"]["harvester"], &book["data"]["kubevirt"]), (&json!("done"), &json!("under way")));
    assert_eq!(
        (&book["data"]["longhorn"], &book["data"]["rancher-monitoring-crd"]),
        (&json!("waits"), &json!("waits"))
    );
}

#[test]
fn longhorns_managers_are_waited_for_on_every_node_that_takes_part() {
    let managers = |updated: i64, observed: i64| {
        let mut managers = daemon_set("longhorn-system", "longhorn-manager", updated, 3);
        managers["status"]["observedGeneration"] = json!(observed);
        managers
    };
    for on_its_way in [managers(2, 2), managers(3, 1)] {
        let next = with("", &[on_its_way]);
        let Next::Wait { waits, .. } = &next else { panic!("{next:?}") };
        assert_eq!(waits[0].sentence, "DaemonSet longhorn-system/longhorn-manager is not rolled out");
        let remedy = "kubectl -n longhorn-system rollout status daemonset longhorn-manager";
        assert_eq!(waits[0].remedy.as_deref(), Some(remedy));
    }
    assert_eq!(with("", &[managers(3, 2), book("longhorn", "done")]), Next::Done);
}

#[test]
fn longhorn_is_not_waited_for_on_a_node_that_takes_no_part_and_the_node_is_named() {
    let pod =
        |node: &str, template: &str, ready: &str| daemon("longhorn-system", "longhorn-manager", node, template, ready);
    let image = stored("Setting", "default-instance-manager-image", json!({ "value": "v2" }));
    let known = |stray: Vec<Value>, pods: &[Value]| {
        let managers = [manager("node-1", "v2", "running"), manager("node-2", "v2", "running")];
        let nodes = ["node-1", "node-2", "stray"].map(|name| stored("Node", name, json!({})));
        let told = book("longhorn", "waits");
        let all = [
            member("node-1").to_vec(),
            member("node-2").to_vec(),
            stray,
            managers.to_vec(),
            nodes.to_vec(),
            vec![image.clone(), daemon_set("longhorn-system", "longhorn-manager", 2, 2), told],
            pods.to_vec(),
        ];
        with("", &all.concat())
    };
    let told = |next: &Next| acts(next).into_iter().map(|(_, act)| act["data"]["longhorn"].clone()).collect::<Vec<_>>();
    let stray = || vec![node("stray", json!({}))];
    let dead = pod("stray", "1", "Unknown");

    let done = known(stray(), &[pod("node-1", "2", "True"), pod("node-2", "2", "True"), dead.clone()]);
    assert_eq!((told(&done), waits(&done)), (vec![json!("done without stray")], vec![]));

    let sentence = "DaemonSet longhorn-system/longhorn-manager is not rolled out";
    // Kubernetes may wait for it before it goes on with the others.
    let with_stray = format!("{sentence}; its pods on stray are not ready, either (no part of the upgrade)");
    for second in [vec![pod("node-2", "1", "True")], vec![pod("node-2", "2", "False")], vec![]] {
        let next = known(stray(), &[second, vec![pod("node-1", "2", "True"), dead.clone()]].concat());
        let Next::Wait { waits, .. } = &next else { panic!("{next:?}") };
        assert_eq!(waits[0].sentence, with_stray);
        assert!(waits[0].remedy.as_ref().unwrap().ends_with("if it gets no further: kubectl delete node stray"));
    }
    // One that takes part is waited for, whatever it is like.
    let next = known(member("stray").to_vec(), &[pod("node-1", "2", "True"), pod("node-2", "2", "True"), dead.clone()]);
    assert_eq!(waits(&next), [(Reason::ServiceNotReady, sentence)]);
}

#[test]
fn a_node_that_takes_no_part_and_keeps_kubevirt_is_named() {
    let pod = |node: &str, ready: &str| daemon("harvester-system", "virt-handler", node, "2", ready);
    let objects = [
        member("node-1").to_vec(),
        member("node-2").to_vec(),
        vec![node("stray", json!({})), kubevirt("Deploying", "1.6.0")],
        vec![daemon_set("harvester-system", "virt-handler", 3, 2)],
        vec![pod("node-1", "True"), pod("node-2", "True"), pod("stray", "Unknown")],
    ];
    let Next::Wait { waits, .. } = with("1.7.0", &objects.concat()) else { panic!() };
    let sentence = "KubeVirt harvester-system/kubevirt is not deployed at 1.7.0: it is Deploying, and runs 1.6.0; \
                    it waits for its pods on stray (no part of the upgrade)";
    let remedy = "bring that back, or remove it: kubectl delete node stray";
    assert_eq!((waits[0].sentence.as_str(), waits[0].remedy.as_deref()), (sentence, Some(remedy)));
}

#[test]
fn an_instance_manager_of_the_new_image_runs_on_every_node_that_takes_part_or_its_lack_is_told_after_five_minutes() {
    let with_managers = |managers: &[Value], state: &str| {
        let all: Vec<Value> =
            storage().into_iter().chain(managers.iter().cloned()).chain([book("longhorn", state)]).collect();
        with("", &all)
    };
    let both = [manager("node-1", "v2", "running"), manager("node-2", "v2", "running")];
    assert_eq!(with_managers(&both, "done"), Next::Done);

    let old =
        [manager("node-1", "v1", "running"), manager("node-1", "v2", "running"), manager("node-2", "v1", "running")];
    let starts = [manager("node-1", "v2", "running"), manager("node-2", "v2", "starting")];
    let said = "Longhorn has no instance manager of its new image that runs on node-2";
    for missing in [old.as_slice(), starts.as_slice()] {
        assert_eq!(waits(&with_managers(missing, "waits")), [(Reason::ServiceNotReady, said)]);
        let over = with_managers(missing, "under way until 2026-01-01T12:00:00Z");
        assert_eq!(
            (acts(&over)[0].1["data"]["longhorn"].clone(), waits(&over)),
            (json!(format!("left: {said}")), vec![])
        );
    }
}
