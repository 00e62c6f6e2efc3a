//! What the chart of Harvester leaves to operators of its own: KubeVirt and Longhorn.

use super::manifests::{all_raised, told};
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
    let mut states = told(["done"; 12]);
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
    vec![stored("Node", "node-1", json!({})), stored("Node", "node-2", json!({})), image]
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
fn longhorns_managers_are_waited_for_on_every_node() {
    let managers = |updated: i64, observed: i64| {
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": { "name": "longhorn-manager", "namespace": "longhorn-system", "generation": 2 },
            "status": {
                "observedGeneration": observed, "desiredNumberScheduled": 3, "updatedNumberScheduled": updated, "numberReady": 3,
            },
        })
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
fn an_instance_manager_of_the_new_image_runs_on_every_node_or_its_lack_is_told_after_five_minutes() {
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
